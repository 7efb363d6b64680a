//! Hostile devices and strangers: what a revoked device may still try, and what a client without a token may use up.

use super::*;

/// A hub with a device that was revoked, but whose token the worker has cached. Returns the id and the token of the device.
async fn revoked_device_in_cache(hub: &Hub) -> (String, String) {
    let (id, token) = hub.add_device("lost").await;
    hub.get("/api/config", &token).await.ok();
    hub.revoke(&id).await.ok();
    (id, token)
}

#[tokio::test(start_paused = true)]
async fn a_revoked_device_that_a_worker_has_cached_adds_no_device_and_subscribes_to_no_push() {
    let hub = Hub::new();
    let request = hub.post_without_token("/api/devices/requests", &json!({"name": "server", "kind": "cli"})).await.ok();
    let (_, token) = revoked_device_in_cache(&hub).await;
    let approval = format!("/api/devices/requests/{}", request["code"].as_str().unwrap());
    let subscription = Browser::new("https://push.service.com/lost", 1).subscription();
    for (url, body) in [
        ("/api/devices/codes", &json!({})),
        (&*approval, &json!({"decision": "approve"})),
        ("/api/push/subscribe", &subscription),
    ] {
        hub.post(url, &token, body).await.assert_error(401, "device_revoked");
    }
    hub.get("/api/devices", &token).await.assert_error(401, "device_revoked");
    let poll = hub.post_without_token("/api/devices/requests/token", &json!({"secret": request["secret"]})).await;
    assert_eq!(poll.ok(), json!({"status": "pending"}));
}

#[tokio::test(start_paused = true)]
async fn a_token_of_an_ended_generation_that_a_worker_has_cached_adds_no_device() {
    let hub = Hub::new();
    let old = hub.namespace_token(0);
    hub.get("/api/config", &old).await.ok();
    hub.post("/api/namespaces/revoke", &hub.world.token(), &Value::Null).await.ok();
    hub.post("/api/devices/codes", &old, &json!({})).await.assert_error(401, "unauthorized");
}

/// Sends a request of a device or a namespace token that is being revoked, `delay_ms` after the revocation. Each round trip to D1 takes
/// 20 ms. Returns whether the namespace has a push subscription, a code, or an approved request afterwards.
async fn remains_of_request_during_revocation(url: &str, is_namespace: bool, delay_ms: u64) -> bool {
    let hub = Hub::new();
    let request = hub.post_without_token("/api/devices/requests", &json!({"name": "server", "kind": "cli"})).await.ok();
    let (id, device) = hub.add_device("lost").await;
    let token = if is_namespace { hub.namespace_token(0) } else { device };
    hub.get("/api/devices", &token).await.ok();
    hub.get("/api/namespaces/generation", &hub.world.token()).await.ok();
    let url = url.replace("CODE", request["code"].as_str().unwrap());
    let mut body = Browser::new("https://push.service.com/lost", 1).subscription();
    body["decision"] = json!("approve");
    let revoke = async {
        match is_namespace {
            true => hub.post("/api/namespaces/revoke", &hub.world.token(), &Value::Null).await,
            false => hub.revoke(&id).await,
        }
    };
    let attack = async {
        tokio::time::sleep(std::time::Duration::from_millis(delay_ms)).await;
        let _ = hub.post(&url, &token, &body).await;
    };
    hub.world.db.set_round_trip_ms(20);
    let (revoked, ()) = futures::join!(revoke, attack);
    revoked.ok();
    let remains = "SELECT (SELECT count(*) FROM push_subscriptions) + (SELECT count(*) FROM pairings WHERE namespace IS NOT NULL)";
    hub.world.db.number(remains) > 0
}

#[tokio::test(start_paused = true)]
async fn nothing_that_a_client_adds_at_any_moment_of_its_revocation_remains() {
    for url in ["/api/push/subscribe", "/api/devices/codes", "/api/devices/requests/CODE"] {
        for is_namespace in [false, true] {
            let mut remains = Vec::new();
            for delay_ms in 0..60 {
                if remains_of_request_during_revocation(url, is_namespace, delay_ms).await {
                    remains.push(delay_ms);
                }
            }
            assert!(remains.is_empty(), "{url}, of the namespace: {is_namespace}, after {remains:?} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_subscription_and_a_code_that_wait_for_the_database_during_the_revocation_are_not_written() {
    for (url, written) in [
        ("/api/push/subscribe", "SELECT count(*) FROM push_subscriptions"),
        ("/api/devices/codes", "SELECT count(*) FROM pairings WHERE claims_left > 0"),
    ] {
        let (hub, id, token) = Hub::with_device("lost").await;
        hub.get("/api/devices", &token).await.ok();
        let body = Browser::new("https://push.service.com/lost", 1).subscription();
        // The database performs the revocation after the first attempt of the write, which fails.
        hub.world.db.fail(BatchKind::Writes, retryable_error());
        let revoke = async {
            run_until_idle().await;
            hub.world.db.execute(&format!("UPDATE devices SET revoked_at = 1 WHERE id = '{id}'"));
            hub.world.advance(1_000).await;
        };
        let _ = futures::join!(hub.post(url, &token, &body), revoke);
        assert_eq!(hub.world.db.number(written), 0, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_a_revoked_device_has_left_gets_no_push() {
    let (hub, id, token) = Hub::with_device("lost").await;
    let lost = Browser::new("https://push.service.com/lost", 1);
    hub.post("/api/push/subscribe", &token, &lost.subscription()).await.ok();
    let kept = Browser::subscribed(&hub.world, "https://push.service.com/kept", 2).await;
    // A database of an earlier version has such rows.
    hub.world.db.execute(&format!("UPDATE devices SET revoked_at = 1 WHERE id = '{id}'"));
    let session = hub.world.create_session("/code").await;
    hub.world.hibernate_and_wake().await;
    let mut cli = hub.world.live_cli(&session).await;
    cli.update_agent_state(&session, 1, &crate::support::pushes::pending(&["r"])).await;
    let pushes = hub.world.pushes_after(10_000).await;
    let hosts: Vec<String> = pushes.iter().map(|push| push.uri().to_string()).collect();
    assert_eq!(hosts, ["https://push.service.com/kept"]);
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn codes_and_approvals_from_before_a_revocation_end_with_it() {
    let (hub, id, token) = Hub::with_device("lost").await;
    let code = hub.post("/api/devices/codes", &token, &json!({})).await.ok()["code"].as_str().unwrap().to_owned();
    let request = hub.post_without_token("/api/devices/requests", &json!({"name": "server", "kind": "cli"})).await.ok();
    let approval = format!("/api/devices/requests/{}", request["code"].as_str().unwrap());
    hub.post(&approval, &token, &json!({"decision": "approve"})).await.ok();
    let mut kept = String::new();
    hub.of_neighbour(async |neighbour| {
        let created = neighbour.post("/api/devices/codes", "secret:neighbour", &json!({})).await.ok();
        kept = created["code"].as_str().unwrap().to_owned();
    })
    .await;
    hub.revoke(&id).await.ok();
    hub.redeem(&code, "spare").await.assert_error(404, "unknown_code");
    let poll = hub.post_without_token("/api/devices/requests/token", &json!({"secret": request["secret"]})).await;
    poll.assert_error(404, "unknown_code");
    hub.redeem(&kept, "of the neighbour").await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_code_that_is_older_than_a_revoked_device_stays_valid() {
    let hub = Hub::new();
    let (older, used) = (hub.create_code().await, hub.create_code().await);
    hub.world.advance(1).await;
    let duplicate = hub.redeem(&used, "duplicate").await.ok();
    let newer = hub.create_code().await;
    // The agent revokes the device that it does not need.
    let url = format!("/api/devices/{}", duplicate["device"]["id"].as_str().unwrap());
    hub.send("DELETE", &url, duplicate["token"].as_str(), &Value::Null).await.ok();
    hub.redeem(&newer, "spare").await.assert_error(404, "unknown_code");
    hub.redeem(&older, "of another dialog").await.ok();
}

#[tokio::test(start_paused = true)]
async fn names_with_invisible_characters_of_any_script_are_refused() {
    let hub = Hub::new();
    let invisible =
        "\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{180e}\u{2800}\u{3164}\u{ffa0}\u{fff9}\u{e0001}\u{e0041}";
    for hidden in invisible.chars() {
        for name in [format!("a{hidden}b"), hidden.to_string()] {
            let reply = hub.post_without_token("/api/devices/requests", &json!({"name": name, "kind": "cli"})).await;
            assert_eq!(reply.assert_error(400, "invalid_field")["field"], "name", "{name:?}");
        }
    }
    for name in ["Élodie’s 電話", "עברית", "हिन्दी", "🏳️"] {
        hub.post_without_token("/api/devices/requests", &json!({"name": name, "kind": "cli"})).await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_token_is_cheap_with_many_waiting_codes_and_revoked_devices() {
    let hub = Hub::new();
    hub.world.db.execute(&format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO devices SELECT 'd' || i, 'other', 'x', 'cli', 'h' || i, 1, 1, iif(i % 2, NULL, {now}) FROM n",
        now = hub.world.now()
    ));
    hub.world.db.execute(&format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO pairings (selector, code_hash, claim_hash, device_id, claims_left, created_at, expires_at)
         SELECT 'S' || i, 'c' || i, 's' || i, 'd' || i, 2, 0, {} FROM n",
        hub.world.now() + 300_000
    ));
    for (url, body) in [
        ("/api/devices/requests", json!({"name": "server", "kind": "cli"})),
        ("/api/devices/requests/token", json!({"secret": "x".repeat(43)})),
        ("/api/devices", json!({"code": "ABCD-EFGH", "name": "phone", "kind": "phone"})),
    ] {
        hub.world.db.take_most_steps();
        let _ = hub.post_without_token(url, &body).await;
        let steps = hub.world.db.take_most_steps();
        assert!(steps < 500, "{url}: {steps} steps of the database");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_who_guesses_tokens_costs_a_hundred_queries_in_a_minute_and_valid_tokens_are_never_refused() {
    let (hub, _, known) = Hub::with_device("phone").await;
    let (_, other) = hub.add_device("tablet").await;
    for number in 0..60 {
        let (_, token) = hub.add_device(&format!("device {number}")).await;
        hub.get("/api/config", &token).await.ok();
    }
    hub.get("/api/config", &known).await.ok();
    let reads = hub.world.db.read_count();
    for number in 0..150 {
        let refused = hub.get("/api/config", &format!("sgd_x{number:042}")).await;
        let (status, code) = if number < 100 { (401, "unauthorized") } else { (429, "rate_limited") };
        refused.assert_error(status, code);
    }
    assert_eq!(hub.world.db.read_count() - reads, 101, "one query has the hashes of all devices");
    hub.get("/api/config", &known).await.ok();
    hub.get("/api/config", &other).await.ok();
    let (_, new) = hub.add_device("laptop").await;
    hub.world.advance(10_000).await;
    hub.get("/api/config", &new).await.ok();
    hub.get("/api/config", &format!("sgd_y{:042}", 1)).await.assert_error(429, "rate_limited");
    hub.world.advance(60_000).await;
    hub.get("/api/config", &format!("sgd_y{:042}", 1)).await.assert_error(401, "unauthorized");
}

#[tokio::test(start_paused = true)]
async fn wrong_access_tokens_of_an_address_are_limited_and_its_valid_tokens_are_not() {
    let hub = Hub::new();
    let wrong = |number: u64| format!("wrong-secret-{number}:team");
    for number in 0..150 {
        let (status, code) = if number < 100 { (401, "unauthorized") } else { (429, "rate_limited") };
        let refused = hub.get("/api/config", &wrong(number)).await;
        refused.assert_error(status, code);
        assert_eq!(refused.headers.contains_key("retry-after"), status == 429);
    }
    hub.get("/cli/machines/x", &wrong(1)).await.assert_error(429, "rate_limited");
    hub.get("/api/config", &hub.world.token()).await.ok();
    hub.get("/api/config", &hub.namespace_token(0)).await.ok();
    hub.get("/api/config", "a.b.c").await.assert_error(401, "unauthorized");
    hub.world.advance(60_000).await;
    hub.get("/api/config", &wrong(1)).await.assert_error(401, "unauthorized");
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_of_operators_are_limited_and_the_valid_one_is_not() {
    let hub = Hub::new();
    for path in ["generation", "databases"] {
        let path = format!("/api/namespaces/{path}");
        for number in 0..110 {
            let (status, code) = if number < 100 { (401, "unauthorized") } else { (429, "rate_limited") };
            hub.get(&path, &format!("wrong-secret-{number}:team")).await.assert_error(status, code);
        }
        hub.get(&path, &hub.world.token()).await.ok();
        hub.world.advance(60_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_whose_own_revocation_failed_can_try_again() {
    let (hub, id, token) = Hub::with_device("shared computer").await;
    let revoke = async || hub.send("DELETE", &format!("/api/devices/{id}"), Some(&token), &Value::Null).await;
    hub.get("/api/devices", &token).await.ok();
    hub.world.db.fail(BatchKind::Writes, permanent_error());
    revoke().await.assert_error(503, "hub_unavailable");
    hub.get("/api/devices", &token).await.ok();
    revoke().await.ok();
    hub.get("/api/devices", &token).await.assert_error(401, "device_revoked");
}

#[tokio::test(start_paused = true)]
async fn wrong_device_tokens_in_connect_cost_a_hundred_queries_in_a_minute_and_a_valid_one_is_not_refused() {
    let (hub, _, token) = Hub::with_device("phone").await;
    let before = hub.world.db.read_count();
    let refuse = async |number: u64| hub.connect(&format!("sgd_{number:x>43}")).await.err().unwrap();
    for number in 0..100 {
        assert_eq!(refuse(number).await, "Invalid token");
    }
    for number in 100..150 {
        assert_eq!(refuse(number).await, "closed with 1013");
    }
    assert_eq!(hub.world.db.read_count() - before, 101, "the last query reads the prefixes of all tokens");
    assert!(hub.connect(&token).await.is_ok());
    let (_, new) = hub.add_device("laptop").await;
    assert_eq!(hub.connect(&new).await.err().as_deref(), Some("closed with 1013"), "the CLI keeps the token");
    hub.world.advance(10_000).await;
    assert!(hub.connect(&new).await.is_ok());
    hub.world.advance(60_000).await;
    let before = hub.world.db.read_count();
    assert_eq!(refuse(1).await, "Invalid token");
    assert_eq!(hub.world.db.read_count() - before, 1);
}
