//! Devices and their tokens: what a worker asks the database about a token, and when the use of a device is recorded.

mod hostile;
mod pairing;
mod revocations;

use crate::support::SECRET;
use crate::support::cli::parse_frame;
use crate::support::edge::{EdgeRequest, worker_edge};
use crate::support::prelude::*;
use crate::support::pushes::Browser;
use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::http::edge::Edge;
use session_gateway_hub::store::Value as DbValue;

/// Workers in front of a namespace's object. Each has caches of its own.
struct Hub {
    world: World,
    worker: Edge,
}

impl Hub {
    fn new() -> Self {
        Self::of(World::new())
    }

    /// A hub with a device. Returns the id and the token of the device.
    async fn with_device(name: &str) -> (Self, String, String) {
        let hub = Self::new();
        let (id, token) = hub.add_device(name).await;
        (hub, id, token)
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
    async fn post_without_token(&self, url: &str, body: &Value) -> Reply {
        self.send("POST", url, None, body).await
    }

    async fn create_code(&self) -> String {
        let reply = self.post("/api/devices/codes", &self.world.token(), &json!({})).await;
        reply.ok()["code"].as_str().unwrap().to_owned()
    }

    async fn redeem(&self, code: &str, name: &str) -> Reply {
        self.post_without_token("/api/devices", &json!({"code": code, "name": name, "kind": "phone"})).await
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
        self.post_without_token("/api/auth", &json!({"accessToken": token})).await
    }

    /// Sends CONNECT with a token. Returns the CLI, or the message of CONNECT_ERROR or the code of the close.
    async fn connect(&self, token: &str) -> Result<Cli, String> {
        let mut cli = Cli::start_connect(&self.world, &json!({"token": token}));
        assert!(matches!(cli.receive().await, Received::Open(_)));
        let text = match cli.socket.next().await {
            Frame::Text(text) => text,
            Frame::Closed { code, .. } => return Err(format!("closed with {code}")),
        };
        match parse_frame(&text) {
            Received::Connected(_) => Ok(cli),
            Received::ConnectError(error) => Err(error["message"].as_str().unwrap().to_owned()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn devices_of_another_namespace_are_unknown() {
    let (hub, id, token) = Hub::with_device("mine").await;
    hub.of_neighbour(async |neighbour| {
        let url = format!("/api/devices/{id}");
        let theirs = "secret:neighbour";
        assert_eq!(neighbour.get("/api/devices", theirs).await.ok(), json!({"devices": []}));
        let rename = neighbour.send("PATCH", &url, Some(theirs), &json!({"name": "x"})).await;
        rename.assert_error(404, "device_not_found");
        neighbour.send("DELETE", &url, Some(theirs), &Value::Null).await.assert_error(404, "device_not_found");
        assert_eq!(neighbour.connect(&token).await.err().unwrap(), "Invalid token: it is for another namespace");
    })
    .await;
    hub.get("/api/sessions", &token).await.ok();
}

#[tokio::test(start_paused = true)]
async fn while_the_database_fails_known_tokens_work_and_new_ones_are_a_503() {
    let (hub, id, token) = Hub::with_device("phone").await;
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
    let (hub, _, token) = Hub::with_device("phone").await;
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
    let (hub, _, device) = Hub::with_device("phone").await;
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
async fn the_use_of_a_device_is_recorded_at_most_once_an_hour() {
    let (hub, _, token) = Hub::with_device("phone").await;
    let seen = async || hub.get("/api/devices", &token).await.ok()["devices"][0]["lastSeenAt"].as_u64().unwrap();
    let added = seen().await;
    hub.world.advance(3_599_000).await;
    assert_eq!(seen().await, added);
    hub.world.advance(11_000).await;
    let writes = hub.world.db.write_count();
    // The list is read at the same time as the check that records the use.
    seen().await;
    assert_eq!(seen().await, added + 3_610_000);
    hub.world.advance(11_000).await;
    seen().await;
    assert_eq!(hub.world.db.write_count(), writes + 1);
}

/// The round trips to the database, of 20 ms each, that a client of a worker waits for.
async fn count_round_trips(hub: &Hub, method: &str, url: &str, token: &str, body: &Value) -> (u128, Reply) {
    hub.world.db.set_round_trip_ms(20);
    let started = tokio::time::Instant::now();
    let reply = hub.send(method, url, Some(token), body).await;
    hub.world.db.set_round_trip_ms(0);
    (started.elapsed().as_millis() / 20, reply)
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_the_check_of_a_token_that_was_valid_ten_minutes_ago() {
    let hub = Hub::new();
    let session = hub.world.create_session("/code").await;
    let (id, device) = hub.add_device("phone").await;
    let sign_in = async || hub.sign_in(&device).await.ok()["token"].as_str().unwrap().to_owned();
    let (messages, url) = (format!("/api/sessions/{session}/messages"), format!("/api/sessions/{session}"));
    let mut cli = hub.world.live_cli(&session).await;
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": session, "message": {"text": "hello"}})).await["ok"], true);
    let read = async |token: &str| count_round_trips(&hub, "GET", &messages, token, &Value::Null).await;
    let write = async |token: &str| {
        let body = json!({"name": format!("at {}", hub.world.now())});
        count_round_trips(&hub, "PATCH", &url, token, &body).await
    };
    for token in [&sign_in().await, &device, &hub.namespace_token(0)] {
        read(token).await.1.ok();
        write(token).await.1.ok();
        for wait_ms in [11_000, 300_000] {
            hub.world.advance(wait_ms).await;
            let (round_trips, reply) = write(token).await;
            reply.ok();
            assert_eq!(round_trips, 1, "a write with {token} {wait_ms} ms after the check");
            let (round_trips, reply) = read(token).await;
            reply.ok();
            assert_eq!(round_trips, 1, "a read with {token} {wait_ms} ms after the check");
        }
    }
    hub.world.advance(611_000).await;
    assert!(write(&device).await.0 > 1, "the last check is old");
    let jwt = sign_in().await;
    read(&jwt).await.1.ok();
    hub.revoke(&id).await.ok();
    hub.world.advance(11_000).await;
    for token in [&device, &jwt] {
        write(token).await.1.assert_error(401, "device_revoked");
        read(token).await.1.assert_error(401, "device_revoked");
        read(token).await.1.assert_error(401, "device_revoked");
    }
}
