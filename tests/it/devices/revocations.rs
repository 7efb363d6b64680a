//! Revocations of a device, and of all tokens of a namespace.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_revoked_device_is_refused_within_ten_seconds_and_other_devices_are_not_affected() {
    let (hub, id, token) = Hub::with_device("lost").await;
    let (_, other) = hub.add_device("kept").await;
    let jwt = hub.sign_in(&token).await.ok()["token"].as_str().unwrap().to_owned();
    let mut lost = hub.connect(&token).await.unwrap();
    let mut kept = hub.connect(&other).await.unwrap();
    for token in [&token, &jwt, &other] {
        hub.get("/api/sessions", token).await.ok();
    }
    hub.revoke(&id).await.ok();
    assert_eq!(lost.socket.wait_for_close().await, 4401);
    assert_eq!(hub.connect(&token).await.err().as_deref(), Some("Invalid token"));
    let cold = worker_edge(&hub.world.db);
    for token in [&token, &jwt] {
        let refused = hub.send_to(&cold, "GET", "/api/sessions", Some(token), &Value::Null).await;
        refused.assert_error(401, "device_revoked");
    }
    hub.world.advance(10_000).await;
    for token in [&token, &jwt] {
        hub.get("/api/sessions", token).await.assert_error(401, "device_revoked");
    }
    hub.sign_in(&token).await.assert_error(401, "device_revoked");
    hub.get("/api/sessions", &other).await.ok();
    assert!(kept.socket.is_open());
    assert_eq!(kept.emit_with_ack("ping", &json!({})).await, json!({"ok": true}));
    let list = hub.get("/api/devices", &other).await.ok();
    assert_eq!(list["devices"].as_array().unwrap().len(), 1);
    assert_eq!(list["devices"][0]["name"], "kept");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_while_its_cli_connects_is_refused() {
    let hub = Hub::new();
    let session = hub.world.create_session("/code").await;
    let (id, token) = hub.add_device("lost").await;
    hub.world.hibernate_and_wake().await;
    hub.world.db.hold_results(BatchKind::Reads);
    let mut cli = Cli::start_connect(&hub.world, &json!({"token": token, "sessionId": session}));
    run_until_idle().await;
    hub.world.db.release_result(0);
    assert_eq!(hub.world.held_results().await, 1, "the token is verified, and the session is being loaded");
    let world = &hub.world;
    let revoked = world.start("DELETE", &format!("/api/devices/{id}"), "");
    world.release_result(1).await;
    revoked.reply().await.ok();
    world.db.release_results();
    assert!(matches!(cli.receive().await, Received::Open(_)));
    assert!(matches!(cli.receive().await, Received::ConnectError(_)));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_cached_a_revoked_token_opens_no_event_stream() {
    let (hub, id, token) = Hub::with_device("lost").await;
    hub.get("/api/sessions", &token).await.ok();
    hub.revoke(&id).await.ok();
    hub.get("/api/sessions", &token).await.ok();
    hub.get("/api/events", &token).await.assert_error(401, "device_revoked");
    hub.world.hibernate_and_wake().await;
    hub.get("/api/events", &token).await.assert_error(401, "device_revoked");
}

#[tokio::test(start_paused = true)]
async fn a_revocation_closes_the_sockets_of_the_device_also_after_a_hibernation() {
    let (hub, id, token) = Hub::with_device("lost").await;
    let mut cli = hub.connect(&token).await.unwrap();
    let other = hub.world.bare_cli().await;
    hub.world.hibernate_and_wake().await;
    hub.revoke(&id).await.ok();
    hub.revoke(&id).await.ok();
    assert_eq!(cli.socket.wait_for_close().await, 4401);
    assert!(other.socket.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_revocation_of_the_namespace_ends_every_token_except_the_shared_secret() {
    let (hub, _, device) = Hub::with_device("phone").await;
    let code = hub.create_code().await;
    let (old, new, operator) = (hub.namespace_token(0), hub.namespace_token(1), hub.world.token());
    let jwt_of = async |token: &str| hub.sign_in(token).await.ok()["token"].as_str().unwrap().to_owned();
    let jwts = [jwt_of(&old).await, jwt_of(&device).await, jwt_of(&operator).await];
    let mut cli = hub.connect(&old).await.unwrap();
    hub.get("/api/config", &new).await.assert_error(401, "unauthorized");
    for token in [&device, &jwts[0], &old] {
        let refused = hub.post("/api/namespaces/revoke", token, &Value::Null).await;
        refused.assert_error(401, "unauthorized");
    }
    assert_eq!(hub.get("/api/namespaces/generation", &operator).await.ok(), json!({"generation": 0}));
    assert_eq!(hub.post("/api/namespaces/revoke", &operator, &Value::Null).await.ok(), json!({"generation": 1}));

    assert_eq!(cli.socket.wait_for_close().await, 4401);
    assert_eq!(hub.connect(&old).await.err().as_deref(), Some("Invalid token"));
    assert!(hub.connect(&new).await.is_ok() && hub.connect(&operator).await.is_ok());
    hub.world.advance(10_000).await;
    for token in [&old, &jwts[0], &jwts[2]] {
        hub.get("/api/config", token).await.assert_error(401, "unauthorized");
    }
    for token in [&device, &jwts[1]] {
        hub.get("/api/config", token).await.assert_error(401, "device_revoked");
    }
    hub.redeem(&code, "late").await.assert_error(404, "unknown_code");
    for token in [&new, &operator, &jwt_of(&new).await, &jwt_of(&operator).await] {
        hub.get("/api/config", token).await.ok();
    }
    hub.of_neighbour(async |neighbour| drop(neighbour.get("/api/config", "secret:neighbour").await.ok())).await;
}

#[tokio::test(start_paused = true)]
async fn push_subscriptions_of_a_revoked_device_are_deleted() {
    let (hub, id, token) = Hub::with_device("lost").await;
    let browsers = [("lost", &token), ("kept", &hub.world.token())];
    for (name, token) in browsers {
        let subscription = Browser::new(&format!("https://push.service.com/{name}"), 1).subscription();
        hub.post("/api/push/subscribe", token, &subscription).await.ok();
    }
    hub.revoke(&id).await.ok();
    let rows = hub.world.db.select("SELECT endpoint FROM push_subscriptions");
    assert_eq!(rows, [[DbValue::Text("https://push.service.com/kept".into())]]);
}

#[tokio::test(start_paused = true)]
async fn a_revocation_of_unknown_outcome_closes_the_sockets_and_can_be_repeated() {
    for is_committed in [true, false] {
        let (hub, id, token) = Hub::with_device("lost").await;
        let mut lost = hub.connect(&token).await.unwrap();
        let other = hub.world.bare_cli().await;
        let unknown = DbError::Unavailable("D1 did not answer in time".into());
        hub.world.db.fail_write(unknown, is_committed);
        hub.revoke(&id).await.assert_error(503, "hub_unavailable");
        assert_eq!(lost.socket.wait_for_close().await, 4401, "committed: {is_committed}");
        hub.get("/api/events", &token).await.assert_error(401, "device_revoked");
        assert!(other.socket.is_open());
        hub.revoke(&id).await.ok();
        assert_eq!(hub.connect(&token).await.err().as_deref(), Some("Invalid token"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_revocation_that_a_crash_interrupts_after_the_commit_closes_the_sockets_at_the_next_start() {
    for is_namespace in [false, true] {
        let (hub, id, token) = Hub::with_device("lost").await;
        let token = if is_namespace { hub.namespace_token(0) } else { token };
        let mut lost = hub.connect(&token).await.unwrap();
        let other = hub.world.bare_cli().await;
        let world = &hub.world;
        world.db.hold_results(BatchKind::Writes);
        let object = world.hub();
        let revoking = tokio::spawn(async move {
            match is_namespace {
                true => object.revoke_namespace().await.map(drop),
                false => object.revoke_device(&id).await,
            }
        });
        assert_eq!(world.held_results().await, 1, "the revocation is committed");
        revoking.abort();
        world.restart();
        world.db.release_results();
        assert_eq!(lost.socket.wait_for_close().await, 4401, "of the namespace: {is_namespace}");
        assert_eq!(other.socket.is_open(), !is_namespace);
        assert!(!world.rt.stored_entries().keys().any(|key| key.starts_with("revoking:")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_that_a_worker_has_cached_writes_nothing() {
    for is_namespace in [false, true] {
        let (hub, id, device) = Hub::with_device("lost").await;
        let old = hub.namespace_token(0);
        let session = json!({"tag": "t", "metadata": {"path": "/code", "host": "box"}});
        let create = async |token: &str| hub.post("/cli/sessions", token, &session).await;
        for token in [&device, &old] {
            create(token).await.ok();
            let reads = hub.world.db.read_count();
            create(token).await.ok();
            assert_eq!(hub.world.db.read_count(), reads, "the object knows that the token is valid");
        }
        match is_namespace {
            true => drop(hub.post("/api/namespaces/revoke", &hub.world.token(), &Value::Null).await.ok()),
            false => drop(hub.revoke(&id).await.ok()),
        }
        create(&device).await.assert_error(401, "device_revoked");
        hub.world.hibernate_and_wake().await;
        create(&device).await.assert_error(401, "device_revoked");
        match is_namespace {
            true => drop(create(&old).await.assert_error(401, "unauthorized")),
            false => drop(create(&old).await.ok()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_confirmed_during_a_revocation_of_all_tokens_writes_nothing_after_it() {
    for is_late in [false, true] {
        let (hub, _, token) = Hub::with_device("lost").await;
        hub.get("/api/config", &token).await.ok();
        let session = json!({"tag": "t", "metadata": {"path": "/code", "host": "box"}});
        let operator = hub.world.token();
        hub.world.db.set_round_trip_ms(20);
        let write = async {
            if is_late {
                tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            }
            drop(hub.post("/cli/sessions", &token, &session).await);
        };
        let (revoked, ()) = futures::join!(hub.post("/api/namespaces/revoke", &operator, &Value::Null), write);
        revoked.ok();
        hub.post("/cli/sessions", &token, &session).await.assert_error(401, "device_revoked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_a_worker_has_cached_writes_nothing_after_the_deletion_of_its_namespace() {
    let (hub, _, token) = Hub::with_device("lost").await;
    let session = json!({"tag": "t", "metadata": {"path": "/code", "host": "box"}});
    hub.post("/cli/sessions", &token, &session).await.ok();
    crate::support::operator::delete(&hub.world).await;
    // Another client uses the namespace again.
    hub.world.create_session("/new").await;
    for _ in 0..2 {
        hub.post("/cli/sessions", &token, &session).await.assert_error(401, "device_revoked");
    }
    assert_eq!(hub.world.db.number("SELECT count(*) FROM sessions"), 1);
}
