//! The write queue: clients receive a change after its batch is committed. The hub reverts a change whose batch failed.

use crate::support::cli::parse_frame;
use crate::support::prelude::*;
use session_gateway_hub::limits::SESSION_TIMEOUT_MS;

fn message(session: &str, n: u64) -> Value {
    json!({"sid": session, "message": {"n": n}})
}

/// The seq of each stored message of a session and the number in its content, oldest first.
async fn history(world: &World, session: &str) -> Vec<(u64, u64)> {
    let page = world.get(&format!("/cli/sessions/{session}/messages")).await.ok();
    let numbers = |m: &Value| (m["seq"].as_u64().unwrap(), m["content"]["n"].as_u64().unwrap());
    page["messages"].as_array().unwrap().iter().map(numbers).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_to_no_client_before_its_batch_is_committed() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    world.db.hold_results(BatchKind::Writes);
    let ack = cli.emit_for_ack("message", &message(&session, 1));
    assert_eq!(world.held_results().await, 1, "the batch is in flight");
    let session_request = world.start("GET", &format!("/api/sessions/{session}"), "");
    let list_request = world.start("GET", "/api/sessions", "");
    cli.socket.assert_no_frames().await;
    second.socket.assert_no_frames().await;
    web.0.assert_no_frames().await;
    assert!(!session_request.is_ready() && !list_request.is_ready(), "reads wait for the commit");

    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(second.next_event("update").await["body"]["message"]["seq"], 1);
    assert_eq!(web.next_event_of("message-received").await["message"]["seq"], 1);
    assert_eq!(session_request.reply().await.ok()["session"]["seq"], 1);
    assert_eq!(list_request.reply().await.ok()["sessions"][0]["id"], session.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_writes_is_answered_after_the_commit_of_its_change() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let mut web = world.web("all=true").await;
    world.db.hold_results(BatchKind::Writes);
    let sending = world.start("POST", &format!("/api/sessions/{session}/messages"), r#"{"text":"hi"}"#);
    let renaming = world.start("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#);
    let deletion = world.start("DELETE", &format!("/api/sessions/{other}"), "");
    let registration = world.start_and_run("POST", "/cli/machines", r#"{"id":"m","metadata":{"host":"box"}}"#).await;
    assert!(!(sending.is_ready() || renaming.is_ready() || deletion.is_ready() || registration.is_ready()));
    cli.socket.assert_no_frames().await;
    web.0.assert_no_frames().await;
    // The next batch is not held.
    world.db.release_results();
    sending.reply().await.ok();
    renaming.reply().await.ok();
    deletion.reply().await.ok();
    registration.reply().await.ok();
    assert_eq!(cli.next_event("update").await["body"]["t"], "new-message");
    assert_eq!(cli.next_event("update").await["body"]["t"], "update-session");
    let mut types = web.types().await;
    types.sort();
    assert_eq!(types, ["machine-updated", "session-removed", "session-updated"]);
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_waits_for_a_commit_only_if_the_keep_alive_changes_the_session() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    let now = world.now();
    let keep_alive = json!({"sid": session, "time": now});
    let keep_alives = [
        ("session-alive", json!({"sid": session, "time": now, "thinking": true})),
        ("session-end", keep_alive.clone()),
        ("session-alive", keep_alive.clone()),
        ("machine-alive", json!({"machineId": "m", "time": now})),
    ];
    for (name, payload) in &keep_alives {
        world.db.hold_results(BatchKind::Writes);
        let ack = cli.emit_for_ack(name, payload);
        cli.socket.assert_no_frames().await;
        assert_eq!(world.db.held_result_count(), 1, "{name}");
        assert_eq!(cli.emit_with_ack("ping", &json!(null)).await, json!({"ok": true}));
        world.db.release_results();
        assert_eq!(cli.wait_for_ack(ack).await, json!({"ok": true}), "{name}");
    }
    world.db.hold_results(BatchKind::Writes);
    let writes = world.db.write_count();
    for (name, payload) in &keep_alives[2..] {
        assert_eq!(cli.emit_with_ack(name, payload).await, json!({"ok": true}), "{name} changes nothing");
    }
    assert_eq!(world.db.write_count(), writes);
    world.db.release_results();
    for (name, payload) in &keep_alives[..3] {
        world.db.fail(BatchKind::Writes, permanent_error());
        let reply = cli.emit_with_ack(name, payload).await;
        assert_eq!((&reply["ok"], &reply["code"]), (&json!(false), &json!("unavailable")), "{name}: {reply}");
        // The failed change was reverted, so that the same keep-alive is a change again.
        cli.emit_with_ack(name, payload).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_that_repeats_a_pending_change_is_acknowledged_together_with_the_change() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    let thinking = json!({"sid": session, "time": world.now(), "thinking": true});
    let machine = json!({"machineId": "m", "time": world.now()});
    for (name, payload) in [("session-alive", &thinking), ("machine-alive", &machine)] {
        world.db.hold_results(BatchKind::Writes);
        let acks = [cli.emit_for_ack(name, payload), cli.emit_for_ack(name, payload)];
        cli.socket.assert_no_frames().await;
        let writes = world.db.write_count();
        world.db.release_results();
        for ack in acks {
            assert_eq!(cli.wait_for_ack(ack).await, json!({"ok": true}), "{name}");
        }
        assert_eq!(world.db.write_count(), writes, "the change is written once");
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_arrive_in_the_order_of_the_events() {
    let (_world, session, mut cli) = live_session().await;
    let mut expected = Vec::new();
    for n in 0..30 {
        expected.push(match n % 3 {
            0 => cli.emit_for_ack("message", &message(&session, n)),
            1 => {
                let update = json!({"sid": session, "expectedVersion": 1 + n / 3, "agentState": {"n": n}});
                cli.emit_for_ack("update-state", &update)
            }
            _ => {
                let message = json!({"sid": session, "message": {"n": n}, "localId": format!("l{n}")});
                cli.emit_for_ack("message", &message)
            }
        });
    }
    let acks: Vec<u64> = cli.socket.drain().await.iter().filter_map(ack_id).collect();
    assert_eq!(acks, expected);
}

/// The id of an acknowledgement.
fn ack_id(frame: &Frame) -> Option<u64> {
    match frame {
        Frame::Text(text) => match parse_frame(text) {
            Received::Ack { id, .. } => Some(id),
            _ => None,
        },
        Frame::Closed { .. } => None,
    }
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_commit_share_the_next_batch() {
    let (world, session, mut cli) = live_session().await;
    let writes = world.db.write_count();
    world.db.hold_results(BatchKind::Writes);
    let first = cli.emit_for_ack("message", &message(&session, 0));
    run_until_idle().await;
    let rest: Vec<u64> = (1..200).map(|n| cli.emit_for_ack("message", &message(&session, n))).collect();
    run_until_idle().await;
    world.db.release_results();
    for ack in std::iter::once(first).chain(rest) {
        assert_eq!(cli.wait_for_ack(ack).await["ok"], true);
    }
    assert_eq!(world.db.write_count() - writes, 2);
}

#[tokio::test(start_paused = true)]
async fn changes_that_depend_on_a_failed_change_fail_too() {
    let (world, session, mut cli) = live_session().await;
    world.db.hold_results(BatchKind::Writes);
    world.db.fail(BatchKind::Writes, permanent_error());
    let first = cli.emit_for_ack("message", &message(&session, 1));
    run_until_idle().await;
    let dependent = cli.emit_for_ack("message", &message(&session, 2));
    world.release_results().await;
    assert_eq!(cli.wait_for_ack(first).await["ok"], false);
    assert_eq!(cli.wait_for_ack(dependent).await["ok"], false);
    assert_eq!(cli.emit_with_ack("message", &message(&session, 3)).await["seq"], 1);
    assert_eq!(history(&world, &session).await, [(1, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_end_that_was_not_written_is_retried_at_the_timeout() {
    let (world, session, cli) = live_session().await;
    world.db.fail(BatchKind::Writes, permanent_error());
    cli.deliver("session-end", &json!({"sid": session, "time": world.now()})).await;
    assert_eq!(world.get_session(&session).await["active"], true, "the end was not written");
    world.advance(SESSION_TIMEOUT_MS + 5_000).await;
    assert_eq!(world.get_session(&session).await["active"], false);
}

#[tokio::test(start_paused = true)]
async fn a_missing_schema_is_reported_with_the_command_to_run() {
    let world = World::in_namespace("team", Arc::new(Sqlite::without_schema()));
    let session = r#"{"tag":"/w","metadata":{"path":"/w","host":"h"}}"#;
    let machine = r#"{"id":"m","metadata":{"host":"h"}}"#;
    let requests = [
        ("GET", "/api/sessions", ""),
        ("GET", "/api/sessions/s", ""),
        ("GET", "/api/sessions/s/messages", ""),
        ("GET", "/api/machines", ""),
        ("POST", "/cli/sessions", session),
        ("POST", "/cli/machines", machine),
    ];
    for (method, path, body) in requests {
        let error = world.request(method, path, body).await.assert_error(503, "hub_unavailable");
        let message = error["error"].as_str().unwrap();
        assert!(message.contains("d1 migrations apply"), "{method} {path}: {message}");
    }
    world.db.migrate();
    world.request("POST", "/cli/sessions", session).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_connects_during_an_outage_is_closed_with_a_code_for_reconnecting() {
    let (world, session) = idle_session().await;
    world.hibernate_and_wake().await;
    world.db.fail_all(BatchKind::Reads, DbError::Unavailable("D1 did not answer in time".into()));
    let auth = json!({"token": world.token(), "sessionId": session});
    let mut cli = Cli::start_connect(&world, &auth);
    assert!(matches!(cli.receive().await, Received::Open(_)));
    // The hub sends no CONNECT_ERROR, because the official client does not reconnect after it.
    assert_eq!(cli.socket.wait_for_close().await, 1013);
    world.db.repair();
    world.cli(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_during_a_commit_loses_no_acknowledged_message() {
    let (world, session, mut cli) = live_session().await;
    assert_eq!(cli.emit_with_ack("message", &message(&session, 1)).await["seq"], 1);
    world.db.hold_results(BatchKind::Writes);
    cli.emit_for_ack("message", &message(&session, 2));
    run_until_idle().await;
    world.restart();
    world.db.release_results();
    cli.socket.assert_no_frames().await;
    // The CLI repeats the unacknowledged message. Whether or not the first attempt was committed, the seqs have no gap.
    let seq = cli.emit_with_ack("message", &message(&session, 2)).await["seq"].as_u64().unwrap();
    let history = history(&world, &session).await;
    assert_eq!(history.first(), Some(&(1, 1)));
    assert_eq!(history.last().map(|(seq, _)| *seq), Some(seq));
    assert_eq!(history.len() as u64, seq);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_connects_during_a_commit_receives_the_message() {
    let (world, session, mut cli) = live_session().await;
    world.db.hold_results(BatchKind::Writes);
    let ack = cli.emit_for_ack("message", &message(&session, 1));
    assert_eq!(world.held_results().await, 1, "the batch is in flight");
    let mut second = world.cli(&session).await;
    second.socket.assert_no_frames().await;
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await["ok"], true);
    let update = second.next_event("update").await;
    assert_eq!(update["body"]["message"]["content"], json!({"n": 1}));
    assert_eq!(cli.try_event("update").await, None, "the sender does not receive its own message");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_local_id_is_recognized_even_if_another_message_arrives_during_the_lookup() {
    let (world, session, mut cli) = live_session().await;
    assert_eq!(
        cli.emit_with_ack("message", &json!({"sid": session, "message": {"n": 1}, "localId": "a"})).await["seq"],
        1
    );
    world.hibernate_and_wake().await;
    world.get_session(&session).await;
    world.db.hold_results(BatchKind::Reads);
    let repeated =
        world.start("POST", &format!("/api/sessions/{session}/messages"), r#"{"text":"again","localId":"a"}"#);
    assert_eq!(world.held_results().await, 1, "the local ids are being read");
    assert_eq!(cli.emit_with_ack("message", &message(&session, 2)).await["seq"], 2);
    let reads = world.db.read_count();
    world.db.release_results();
    repeated.reply().await.ok();
    assert_eq!(world.db.read_count(), reads, "the local ids are read once");
    assert_eq!(history(&world, &session).await, [(1, 1), (2, 2)]);
}
