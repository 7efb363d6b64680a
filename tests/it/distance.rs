//! The number of round trips to the database that a client waits for, also after the object has hibernated. A round trip to a distant
//! database takes 140 ms.

use crate::support::permissions::{request, start_answer};
use crate::support::prelude::*;
use session_gateway_hub::store::Statement;
use tokio::time::Instant;

const ROUND_TRIP_MS: u64 = 140;

/// A namespace far from its database. It has an active session with a pending permission request. The CLI of the session is
/// also the runner of a machine.
struct DistantNamespace {
    world: World,
    session: String,
    cli: Cli,
}

impl DistantNamespace {
    async fn new() -> Self {
        let (world, session, mut cli) = live_session_with_machine().await;
        cli.register("permission").await;
        cli.put_agent_state(&session, 1, &json!({"requests": {"r1": request("Bash")}})).await;
        for id in ["a", "b", "c"] {
            assert_eq!(cli.emit_with_ack("message", &message(&session, id)).await["ok"], true);
        }
        Self { world, session, cli }
    }

    /// Wakes the object, and counts like [`count_round_trips_awake`](Self::count_round_trips_awake).
    async fn count_round_trips<T>(&mut self, run: impl AsyncFnOnce(&mut Self) -> T) -> (u64, T) {
        self.world.hibernate_and_wake().await;
        self.count_round_trips_awake(run).await
    }

    /// Slows the database down. Returns the round trips of the database that `run` waits for.
    async fn count_round_trips_awake<T>(&mut self, run: impl AsyncFnOnce(&mut Self) -> T) -> (u64, T) {
        self.world.db.set_round_trip_ms(ROUND_TRIP_MS);
        let round_trips = |world: &World| (world.db.read_count() + world.db.write_count()) as u64;
        let (before, start) = (round_trips(&self.world), Instant::now());
        let result = run(self).await;
        let waited = u64::try_from(start.elapsed().as_millis()).unwrap();
        let after = round_trips(&self.world);
        self.world.db.set_round_trip_ms(0);
        assert!(waited / ROUND_TRIP_MS <= after - before, "waited {waited} ms for {} round trips", after - before);
        (waited / ROUND_TRIP_MS, result)
    }

    async fn get(&mut self, path: &str) -> u64 {
        let (round_trips, reply) = self.count_round_trips(async |far| far.world.get(path).await).await;
        reply.ok();
        round_trips
    }

    async fn emit(&mut self, name: &str, payload: &Value) -> u64 {
        let (round_trips, ack) = self.count_round_trips(async |far| far.cli.emit_with_ack(name, payload).await).await;
        assert!(ack["ok"] == true || ack["result"] == "success", "{ack}");
        round_trips
    }
}

fn message(session: &str, local_id: &str) -> Value {
    json!({"sid": session, "localId": local_id, "message": {"role": "agent", "content": "hello"}})
}

/// For each request that wakes the object: the number of round trips that the client waits for.
#[tokio::test(start_paused = true)]
async fn a_client_waits_for_few_round_trips_after_a_wake() {
    let mut far = DistantNamespace::new().await;
    let session = far.session.clone();
    let mut round_trips = Vec::new();
    let without_id = json!({"sid": session, "message": {"role": "agent", "content": "hello"}});
    round_trips.push(("a message", far.emit("message", &message(&session, "1")).await, 2));
    round_trips.push(("a message that was stored before", far.emit("message", &message(&session, "1")).await, 1));
    round_trips.push(("a message without a local id", far.emit("message", &without_id).await, 2));
    let mut web = far.world.web(&format!("sessionId={session}")).await;
    round_trips.push(("a message with a web client", far.emit("message", &message(&session, "2")).await, 2));
    assert_eq!(web.next_event_of("message-received").await["message"]["localId"], "2");
    web.0.close();
    round_trips.push(("a message after a web client", far.emit("message", &message(&session, "3")).await, 2));
    round_trips.push(("the list of sessions", far.get("/api/sessions").await, 1));
    round_trips.push(("the list of machines", far.get("/api/machines").await, 1));
    round_trips.push(("a page of messages", far.get(&format!("/api/sessions/{session}/messages")).await, 1));
    round_trips.push(("a session", far.get(&format!("/api/sessions/{session}")).await, 1));
    let plan = json!({"sid": session, "message": {"role": "agent", "content": {"plan": "none"}}});
    round_trips.push(("a message that mentions a plan", far.emit("message", &plan).await, 2));
    round_trips.push(("a session to search for todos", far.get(&format!("/api/sessions/{session}")).await, 2));
    let alive = json!({"sid": session, "time": far.world.now()});
    round_trips.push(("a keep-alive", far.emit("session-alive", &alive).await, 1));
    let thinking = json!({"sid": session, "time": far.world.now(), "thinking": true});
    round_trips.push(("a keep-alive with a change", far.emit("session-alive", &thinking).await, 2));
    let metadata = json!({"sid": session, "expectedVersion": 1, "metadata": {"path": "/code", "host": "box"}});
    round_trips.push(("an update of the metadata", far.emit("update-metadata", &metadata).await, 2));
    let (path, sent) = (format!("/api/sessions/{session}/messages"), json!({"text": "hello", "localId": "w1"}));
    let (count, reply) = far.count_round_trips(async |far| far.world.post(&path, &sent).await).await;
    reply.ok();
    round_trips.push(("a message of a web client", count, 2));
    let (count, ()) = far
        .count_round_trips(async |far| {
            let reply = start_answer(&far.world, &session, "r1/approve", &json!({}));
            far.cli.respond_to_next_call("permission", &json!({"ok": true})).await;
            reply.reply().await.ok();
        })
        .await;
    round_trips.push(("an approval", count, 2));
    let auth = json!({"sessionId": session, "machineId": "m"});
    let (count, second) = far.count_round_trips(async |far| Cli::connect(&far.world, auth).await).await;
    drop(second);
    round_trips.push(("a connecting CLI", count, 2));
    let (count, ()) = far
        .count_round_trips(async |far| {
            let mut cli = Cli::connect(&far.world, json!({"sessionId": session})).await;
            assert_eq!(cli.emit_with_ack("message", &message(&session, "4")).await["ok"], true);
        })
        .await;
    round_trips.push(("a connecting CLI and its message", count, 3));
    for (what, count, expected) in round_trips {
        assert_eq!(count, expected, "{what}");
    }
}

/// Operations of CLIs and web clients, with the most round trips that a client waits for: in an object that is in memory, and after a
/// wake while a web client is connected.
#[tokio::test(start_paused = true)]
async fn an_operation_takes_at_most_one_round_trip_and_two_after_a_wake() {
    let new = |tag: &str| json!({"tag": tag, "metadata": {"path": "/x", "host": "b"}});
    let machine = |id: &str| json!({"id": id, "metadata": {"host": "b"}});
    for is_awake in [true, false] {
        let mut far = DistantNamespace::new().await;
        let _web = far.world.web("all=true").await;
        let sid = far.session.clone();
        let session = format!("/api/sessions/{sid}");
        let alive = json!({"sid": sid, "time": far.world.now(), "thinking": true});
        let metadata = json!({"sid": sid, "expectedVersion": 1, "metadata": {"path": "/code", "host": "box"}});
        let state = json!({"sid": sid, "expectedVersion": 3, "agentState": {"requests": {"r2": request("Bash")}}});
        let table = [
            ("emit", "message".into(), message(&sid, "1"), 1, 2),
            ("emit", "session-alive".into(), alive, 1, 2),
            ("emit", "update-metadata".into(), metadata, 1, 2),
            ("POST", format!("{session}/messages"), json!({"text": "hello", "localId": "w1"}), 1, 2),
            ("PATCH", session.clone(), json!({"name": "x"}), 1, 2),
            ("PATCH", session.clone(), json!({"pinned": true}), 1, 2),
            ("POST", "/cli/sessions".into(), new("t1"), 1, 2),
            ("POST", "/cli/sessions".into(), new("t1"), 0, 2),
            ("POST", "/cli/machines".into(), machine("m2"), 1, 2),
            ("POST", "/cli/machines".into(), machine("m2"), 0, 1),
            ("GET", session.clone(), Value::Null, 0, 1),
            ("GET", "/api/sessions".into(), Value::Null, 1, 1),
            ("GET", "/api/machines".into(), Value::Null, 0, 1),
            ("GET", "/api/inbox".into(), Value::Null, 0, 2),
            ("GET", format!("{session}/messages"), Value::Null, 1, 1),
            ("GET", "/api/devices".into(), Value::Null, 1, 1),
            ("POST", "/api/devices/codes".into(), json!({}), 1, 1),
            ("POST", format!("{session}/permissions/r1/approve"), json!({}), 1, 2),
            ("emit", "update-state".into(), state, 1, 2),
            ("POST", format!("{session}/archive"), json!({}), 1, 2),
            ("DELETE", session.clone(), Value::Null, 1, 2),
        ];
        for (method, path, body, awake, woken) in table {
            let send = async |far: &mut DistantNamespace| match method {
                "emit" => {
                    let ack = far.cli.emit_with_ack(&path, &body).await;
                    assert!(ack["ok"] == true || ack["result"] == "success", "{path}: {ack}");
                }
                _ => {
                    let text = if body.is_null() { String::new() } else { body.to_string() };
                    let reply = far.world.start(method, &path, text);
                    if path.ends_with("/approve") {
                        far.cli.respond_to_next_call("permission", &json!({"ok": true})).await;
                    }
                    reply.reply().await.ok();
                }
            };
            let (count, ()) = match is_awake {
                true => far.count_round_trips_awake(send).await,
                false => far.count_round_trips(send).await,
            };
            assert_eq!(count, if is_awake { awake } else { woken }, "{method} {path} {body}, awake: {is_awake}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_stored_local_ids_are_read_only_for_a_message_with_a_local_id() {
    let far = DistantNamespace::new().await;
    let path = format!("/api/sessions/{}/messages", far.session);
    let table = [
        (r#"{"text": "hello"}"#, 0),
        (r#"{"text": "hello", "localId": "w1"}"#, 1),
        // The escaped key is found only after the first query, so it costs a further query. The message is not stored again.
        (r#"{"text": "hello", "local\u0049d": "w1"}"#, 1),
    ];
    let mut seqs = Vec::new();
    for (body, expected) in table {
        far.world.hibernate_and_wake().await;
        let before = far.world.db.read_batches().len();
        seqs.push(far.world.request("POST", &path, body).await.ok()["message"]["seq"].clone());
        let statements: Vec<Statement> = far.world.db.read_batches()[before..].concat();
        let reads = statements.iter().filter(|statement| statement.sql.contains("+local_id")).count();
        assert_eq!(reads, expected, "{body}");
    }
    assert_eq!(seqs, [4, 5, 5]);
}
