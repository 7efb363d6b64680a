//! Devices: adding one with a code or a request, its token, and revocations.

mod hostile;

use crate::support::cli::{Cli, Received};
use crate::support::edge::{EdgeRequest, worker_edge};
use crate::support::pushes::Browser;
use crate::support::rest::Reply;
use crate::support::sqlite::{BatchKind, permanent_error, retryable_error};
use crate::support::{SECRET, World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::http::edge::Edge;
use session_gateway_hub::store::{DbError, Value as DbValue};

/// Workers in front of a namespace's object. Each has caches of its own.
struct Hub {
    world: World,
    worker: Edge,
}

impl Hub {
    fn new() -> Self {
        Self::of(World::new())
    }

    fn of(world: World) -> Self {
        Self { worker: worker_edge(&world.db), world }
    }

    /// Sends a request to the worker; `body` is null for none.
    async fn send(&self, method: &str, url: &str, token: Option<&str>, body: &Value) -> Reply {
        self.send_to(&self.worker, method, url, token, body).await
    }

    async fn send_to(&self, worker: &Edge, method: &str, url: &str, token: Option<&str>, body: &Value) -> Reply {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (method, url, token) = (method.into(), url.into(), token.map(str::to_owned));
        self.world.send_to_worker(worker, EdgeRequest { method, url, token, body, ..EdgeRequest::default() }).await
    }

    /// Calls `run` with another namespace of the same hub.
    async fn of_neighbour(&self, run: impl AsyncFnOnce(&Self)) {
        run(&Self::of(self.world.neighbour())).await;
    }

    /// The namespace token of a generation.
    fn namespace_token(&self, generation: u32) -> String {
        TokenVerifier::new(SECRET, false).namespace_token(&self.world.hub().config.namespace, generation)
    }

    async fn get(&self, url: &str, token: &str) -> Reply {
        self.send("GET", url, Some(token), &Value::Null).await
    }

    async fn post(&self, url: &str, token: &str, body: &Value) -> Reply {
        self.send("POST", url, Some(token), body).await
    }

    /// Sends a request without a token.
    async fn post_publicly(&self, url: &str, body: &Value) -> Reply {
        self.send("POST", url, None, body).await
    }

    async fn create_code(&self) -> String {
        let reply = self.post("/api/devices/codes", &self.world.token(), &json!({})).await;
        reply.ok()["code"].as_str().unwrap().to_owned()
    }

    async fn redeem(&self, code: &str, name: &str) -> Reply {
        self.post_publicly("/api/devices", &json!({"code": code, "name": name, "kind": "phone"})).await
    }

    /// Adds a device. Returns its id and its token.
    async fn add_device(&self, name: &str) -> (String, String) {
        let added = self.redeem(&self.create_code().await, name).await.ok();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&added["device"]["id"]), text(&added["token"]))
    }

    async fn revoke(&self, id: &str) -> Reply {
        self.send("DELETE", &format!("/api/devices/{id}"), Some(&self.world.token()), &Value::Null).await
    }

    async fn sign_in(&self, token: &str) -> Reply {
        self.post_publicly("/api/auth", &json!({"accessToken": token})).await
    }

    /// Sends CONNECT with a token. Returns the CLI, or the message of CONNECT_ERROR.
    async fn connect(&self, token: &str) -> Result<Cli, String> {
        let mut cli = Cli::start_connect(&self.world, &json!({"token": token}));
        assert!(matches!(cli.receive().await, Received::Open(_)));
        match cli.receive().await {
            Received::Connected(_) => Ok(cli),
            Received::ConnectError(error) => Err(error["message"].as_str().unwrap().to_owned()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_code_becomes_a_device_whose_token_opens_the_namespace_everywhere() {
    let hub = Hub::new();
    let created = hub.post("/api/devices/codes", &hub.world.token(), &json!({})).await.ok();
    let code = created["code"].as_str().unwrap();
    assert_eq!(created["url"], format!("https://hub.example/pair#{code}"));
    assert_eq!(created["expiresAt"], hub.world.now() + 5 * 60_000);
    let added = hub.redeem(&code.replace('-', " ").to_lowercase(), "  Anna's phone ").await.ok();
    assert_eq!(added["namespace"], "team");
    let device = &added["device"];
    assert_eq!((&device["name"], &device["kind"]), (&json!("Anna's phone"), &json!("phone")));
    let token = added["token"].as_str().unwrap();
    assert!(token.starts_with("sgd_") && token.len() == 47, "{token}");

    hub.get("/api/sessions", token).await.ok();
    hub.get("/cli/sessions/none", token).await.assert_error(404, "session_not_found");
    let signed_in = hub.sign_in(token).await.ok();
    assert_eq!(signed_in["namespace"], "team");
    let jwt = signed_in["token"].as_str().unwrap();
    hub.get("/api/sessions", jwt).await.ok();
    assert!(hub.connect(token).await.is_ok());

    for (caller, is_current) in [(token, true), (jwt, true), (&*hub.world.token(), false)] {
        let list = hub.get("/api/devices", caller).await.ok();
        assert_eq!(list["devices"].as_array().unwrap().len(), 1);
        assert_eq!(list["devices"][0]["id"], device["id"]);
        assert_eq!(list["devices"][0]["isCurrent"], is_current, "{caller}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_device_is_refused_within_ten_seconds_and_others_notice_nothing() {
    let hub = Hub::new();
    let (id, token) = hub.add_device("lost").await;
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
async fn a_device_without_a_keyboard_gets_its_token_once_a_person_has_approved_it() {
    let hub = Hub::new();
    let request = hub.post_publicly("/api/devices/requests", &json!({"name": "server", "kind": "cli"})).await.ok();
    let (code, secret) = (request["code"].as_str().unwrap(), &request["secret"]);
    assert!(code.starts_with('R') && request["url"] == format!("https://hub.example/pair#{code}"), "{request}");
    assert_eq!(request["intervalMs"], 3_000);
    let poll = async || hub.post_publicly("/api/devices/requests/token", &json!({"secret": secret})).await;
    assert_eq!(poll().await.ok(), json!({"status": "pending"}));
    hub.redeem(code, "thief").await.assert_error(404, "unknown_code");

    let (url, person) = (format!("/api/devices/requests/{code}"), hub.world.token());
    let shown = hub.get(&url, &person).await.ok()["request"].clone();
    assert_eq!((&shown["name"], &shown["kind"]), (&json!("server"), &json!("cli")));
    hub.post(&url, &person, &json!({"decision": "approve"})).await.ok();
    hub.post(&url, &person, &json!({"decision": "approve"})).await.ok();
    hub.post(&url, &person, &json!({"decision": "deny"})).await.assert_error(409, "already_decided");
    let other = "secret:neighbour";
    let neighbour = Hub::of(hub.world.neighbour());
    neighbour.post(&url, other, &json!({"decision": "approve"})).await.assert_error(409, "already_decided");

    let [first, second] = [poll().await.ok(), poll().await.ok()];
    assert_eq!((&first["status"], &first["namespace"]), (&json!("approved"), &json!("team")));
    assert_eq!(first["device"], second["device"], "the response may be lost, so a second token replaces the first one");
    hub.get("/api/sessions", first["token"].as_str().unwrap()).await.assert_error(401, "unauthorized");
    hub.get("/api/sessions", second["token"].as_str().unwrap()).await.ok();
    poll().await.assert_error(404, "unknown_code");
}

#[tokio::test(start_paused = true)]
async fn a_denied_or_expired_request_gets_no_token() {
    let hub = Hub::new();
    let person = hub.world.token();
    for (decision, status, code) in [(Some("deny"), 403, "request_denied"), (None, 404, "unknown_code")] {
        let request = hub.post_publicly("/api/devices/requests", &json!({"name": "a", "kind": "cli"})).await.ok();
        let url = format!("/api/devices/requests/{}", request["code"].as_str().unwrap());
        match decision {
            Some(decision) => drop(hub.post(&url, &person, &json!({"decision": decision})).await.ok()),
            None => hub.world.advance(5 * 60_000).await,
        }
        let poll = hub.post_publicly("/api/devices/requests/token", &json!({"secret": request["secret"]})).await;
        poll.assert_error(status, code);
        if decision.is_none() {
            hub.get(&url, &person).await.assert_error(404, "unknown_code");
            hub.post(&url, &person, &json!({"decision": "approve"})).await.assert_error(404, "unknown_code");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_code_is_valid_once_and_for_five_minutes() {
    let hub = Hub::new();
    let code = hub.create_code().await;
    hub.world.advance(5 * 60_000 - 1).await;
    let (a, b) = futures::join!(hub.redeem(&code, "a"), hub.redeem(&code, "b"));
    let mut statuses = [a.status.as_u16(), b.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404], "one of two concurrent devices gets the token");
    hub.redeem(&code, "c").await.assert_error(404, "unknown_code");
    let code = hub.create_code().await;
    hub.world.advance(5 * 60_000).await;
    hub.redeem(&code, "late").await.assert_error(404, "unknown_code");
}

#[tokio::test(start_paused = true)]
async fn five_codes_may_wait_and_a_used_one_makes_room() {
    let hub = Hub::new();
    let create = async || hub.post("/api/devices/codes", &hub.world.token(), &json!({"name": "Ada's"})).await;
    let first = create().await.ok();
    for _ in 1..5 {
        create().await.ok();
    }
    create().await.assert_error(409, "too_many_codes");
    hub.of_neighbour(async |neighbour| drop(neighbour.create_code().await)).await;
    let device = hub.redeem(first["code"].as_str().unwrap(), "phone").await.ok()["device"].clone();
    assert_eq!(device["name"], "Ada's", "the name of the code replaces the one of the device");
    create().await.ok();
    create().await.assert_error(409, "too_many_codes");
}

#[tokio::test(start_paused = true)]
async fn five_wrong_codes_with_the_right_first_five_characters_delete_a_code() {
    for (wrong, status) in [(4, 200), (5, 404)] {
        let hub = Hub::new();
        let code = hub.create_code().await;
        let others = if code.ends_with("AAA") { "BBB" } else { "AAA" };
        for _ in 0..wrong {
            let guess = format!("{}{others}", &code[..6]);
            hub.redeem(&guess, "guess").await.assert_error(404, "unknown_code");
        }
        assert_eq!(hub.redeem(&code, "phone").await.status, status, "after {wrong} wrong guesses");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_database_adds_one_device() {
    let hub = Hub::new();
    let code = hub.create_code().await;
    hub.world.db.lose_response(retryable_error());
    let token = hub.redeem(&code, "phone").await.ok()["token"].as_str().unwrap().to_owned();
    hub.get("/api/sessions", &token).await.ok();
    assert_eq!(hub.world.db.number("SELECT count(*) FROM devices"), 1);
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
    run_until_idle().await;
    assert_eq!(hub.world.db.held_count(), 1, "the token is verified, and the session is being loaded");
    let world = &hub.world;
    let revoked = world.start("DELETE", &format!("/api/devices/{id}"), "");
    run_until_idle().await;
    world.db.release_result(1);
    revoked.reply().await.ok();
    world.db.stop_holding();
    world.db.release_results();
    assert!(matches!(cli.receive().await, Received::Open(_)));
    assert!(matches!(cli.receive().await, Received::ConnectError(_)));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_believes_a_revoked_token_opens_no_event_stream() {
    let hub = Hub::new();
    let (id, token) = hub.add_device("lost").await;
    hub.get("/api/sessions", &token).await.ok();
    hub.revoke(&id).await.ok();
    hub.get("/api/sessions", &token).await.ok();
    hub.get("/api/events", &token).await.assert_error(401, "device_revoked");
    hub.world.hibernate_and_wake().await;
    hub.get("/api/events", &token).await.assert_error(401, "device_revoked");
}

#[tokio::test(start_paused = true)]
async fn sockets_of_a_device_end_also_after_a_hibernation() {
    let hub = Hub::new();
    let (id, token) = hub.add_device("lost").await;
    let mut cli = hub.connect(&token).await.unwrap();
    let other = hub.world.bare_cli().await;
    hub.world.hibernate_and_wake().await;
    hub.revoke(&id).await.ok();
    hub.revoke(&id).await.ok();
    assert_eq!(cli.socket.wait_for_close().await, 4401);
    assert!(other.socket.is_open());
}

#[tokio::test(start_paused = true)]
async fn devices_of_another_namespace_are_unknown() {
    let hub = Hub::new();
    let (id, token) = hub.add_device("mine").await;
    hub.of_neighbour(async |neighbour| {
        let url = format!("/api/devices/{id}");
        let theirs = "secret:neighbour";
        assert_eq!(neighbour.get("/api/devices", theirs).await.ok(), json!({"devices": []}));
        let rename = neighbour.send("PATCH", &url, Some(theirs), &json!({"name": "x"})).await;
        rename.assert_error(404, "device_not_found");
        neighbour.send("DELETE", &url, Some(theirs), &Value::Null).await.assert_error(404, "device_not_found");
        assert_eq!(
            neighbour.connect(&token).await.err().as_deref(),
            Some("Invalid token: it is for another namespace")
        );
    })
    .await;
    hub.get("/api/sessions", &token).await.ok();
}

#[tokio::test(start_paused = true)]
async fn names_that_could_deceive_are_refused() {
    let hub = Hub::new();
    let long = "x".repeat(65);
    for name in ["", "  ", "a\u{0}b", "a\nb", "a\u{202e}b", "a\u{200b}b", "\u{2066}a", long.as_str()] {
        let reply = hub.post_publicly("/api/devices/requests", &json!({"name": name, "kind": "cli"})).await;
        assert_eq!(reply.assert_error(400, "invalid_field")["field"], "name", "{name:?}");
    }
    let name = r#"<b>"Ada's" \ phone 🦀"#;
    let (id, token) = hub.add_device(name).await;
    let list = hub.get("/api/devices", &token).await.ok();
    assert_eq!((&list["devices"][0]["id"], &list["devices"][0]["name"]), (&json!(id), &json!(name)));
}

#[tokio::test(start_paused = true)]
async fn while_the_database_fails_known_tokens_work_and_new_ones_are_a_503() {
    let hub = Hub::new();
    let (id, token) = hub.add_device("phone").await;
    hub.get("/api/devices", &token).await.ok();
    hub.world.db.fail_all(BatchKind::Reads, DbError::Unavailable("D1 did not answer in time".into()));
    for _ in 0..3 {
        hub.world.advance(10_000).await;
        let config = hub.get("/api/config", &token).await;
        config.ok();
    }
    let cold = worker_edge(&hub.world.db);
    let refused = hub.send_to(&cold, "GET", "/api/config", Some(&token), &Value::Null).await;
    refused.assert_error(503, "hub_unavailable");
    hub.send_to(&cold, "GET", "/api/config", Some(&hub.world.token()), &Value::Null).await.ok();
    hub.world.db.repair();
    hub.revoke(&id).await.ok();
    hub.world.advance(10_000).await;
    hub.get("/api/config", &token).await.assert_error(401, "device_revoked");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_database_delays_a_known_token_by_two_seconds_at_most() {
    let hub = Hub::new();
    let (_, token) = hub.add_device("phone").await;
    hub.get("/api/config", &token).await.ok();
    hub.world.advance(10_000).await;
    hub.world.db.never_return_next(BatchKind::Reads);
    let started = tokio::time::Instant::now();
    hub.get("/api/config", &token).await.ok();
    hub.get("/api/config", &token).await.ok();
    assert!(started.elapsed().as_millis() < 2_100, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_asks_the_database_once_in_ten_seconds_about_a_token_and_never_about_the_shared_secret() {
    let hub = Hub::new();
    let (_, device) = hub.add_device("phone").await;
    let namespace = hub.namespace_token(0);
    let jwt = hub.sign_in(&device).await.ok()["token"].as_str().unwrap().to_owned();
    let worker = worker_edge(&hub.world.db);
    hub.world.db.set_round_trip_ms(20);
    for (token, reads) in [(&device, 1), (&jwt, 2), (&namespace, 1), (&hub.world.token(), 0)] {
        let before = hub.world.db.read_count();
        let config = || hub.send_to(&worker, "GET", "/api/config", Some(token), &Value::Null);
        let (a, b, c) = futures::join!(config(), config(), config());
        [a, b, c].iter().for_each(|reply| drop(reply.ok()));
        hub.world.advance(9_999).await;
        config().await.ok();
        assert_eq!(hub.world.db.read_count() - before, reads, "{token}; a JWT also needs its key");
        hub.world.advance(1).await;
        config().await.ok();
        assert_eq!(hub.world.db.read_count() - before, reads + usize::from(reads > 0), "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revocation_of_the_namespace_ends_every_token_except_the_shared_secret() {
    let hub = Hub::new();
    let (_, device) = hub.add_device("phone").await;
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
    let hub = Hub::new();
    let (id, token) = hub.add_device("lost").await;
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
async fn the_use_of_a_device_is_recorded_at_most_once_an_hour() {
    let hub = Hub::new();
    let (_, token) = hub.add_device("phone").await;
    let seen = async || hub.get("/api/devices", &token).await.ok()["devices"][0]["lastSeenAt"].as_u64().unwrap();
    let added = seen().await;
    hub.world.advance(3_599_000).await;
    assert_eq!(seen().await, added);
    hub.world.advance(11_000).await;
    let writes = hub.world.db.write_count();
    assert_eq!(seen().await, added + 3_610_000);
    hub.world.advance(11_000).await;
    seen().await;
    assert_eq!(hub.world.db.write_count(), writes + 1);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_at_most_a_hundred_devices() {
    let hub = Hub::new();
    hub.world.db.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
         INSERT INTO devices SELECT 'd' || i, 'team', 'x', 'cli', 'h' || i, 1, 1, NULL FROM n",
    );
    hub.redeem(&hub.create_code().await, "one more").await.assert_error(409, "too_many_devices");
    hub.revoke("d1").await.ok();
    hub.redeem(&hub.create_code().await, "one more").await.ok();
}
