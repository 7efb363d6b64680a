//! Nobody hears of a change before it is durable, and what could not be made durable never happened.

use std::sync::Arc;

use crate::support::cli::{Cli, Heard, read};
use crate::support::live::live;
use crate::support::runtime::Frame;
use crate::support::sqlite::{On, Sqlite};
use crate::support::{World, quiet};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

fn passing() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

fn lasting() -> DbError {
    DbError::Refused("disk I/O error".into())
}

fn message(session: &str, n: u64) -> Value {
    json!({"sid": session, "message": {"n": n}})
}

/// The seqs and the numbers that the messages of a session carry, oldest first, as the database holds them.
async fn history(world: &World, session: &str) -> Vec<(u64, u64)> {
    let page = world.get(&format!("/cli/sessions/{session}/messages")).await.ok();
    let numbers = |m: &Value| (m["seq"].as_u64().unwrap(), m["content"]["n"].as_u64().unwrap());
    page["messages"].as_array().unwrap().iter().map(numbers).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_told_to_nobody_before_its_batch_is_committed() {
    let (world, session, mut cli) = live().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    world.db.hold(On::Writes);
    let ack = cli.emit_asking("message", &message(&session, 1));
    quiet().await;
    assert_eq!(world.db.held(), 1, "the batch is under way");
    let shown = world.start("GET", &format!("/api/sessions/{session}"), "");
    let listed = world.start("GET", "/api/sessions", "");
    cli.socket.heard_nothing().await;
    second.socket.heard_nothing().await;
    web.0.heard_nothing().await;
    assert!(!shown.is_here() && !listed.is_here(), "a read that would show the message waits");

    world.db.release();
    assert_eq!(cli.acknowledged(ack).await["seq"], 1);
    assert_eq!(second.event("update").await["body"]["message"]["seq"], 1);
    assert_eq!(web.event_of("message-received").await["message"]["seq"], 1);
    assert_eq!(shown.reply().await.ok()["session"]["seq"], 1);
    assert_eq!(listed.reply().await.ok()["sessions"][0]["id"], session.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_web_message_a_rename_and_a_deletion_are_answered_only_when_they_are_durable() {
    let (world, session, mut cli) = live().await;
    let doomed = world.session("/doomed").await;
    let mut web = world.web("all=true").await;
    world.db.hold(On::Writes);
    let sent = world.start("POST", &format!("/api/sessions/{session}/messages"), r#"{"text":"hi"}"#);
    let renamed = world.start("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#);
    let deleted = world.start("DELETE", &format!("/api/sessions/{doomed}"), "");
    let made = world.start("POST", "/cli/machines", r#"{"id":"m","metadata":{"host":"box"}}"#);
    quiet().await;
    assert!(!(sent.is_here() || renamed.is_here() || deleted.is_here() || made.is_here()));
    cli.socket.heard_nothing().await;
    web.0.heard_nothing().await;
    // What came during the commit rides in the next one, which is held no more.
    world.db.release();
    sent.reply().await.ok();
    renamed.reply().await.ok();
    deleted.reply().await.ok();
    made.reply().await.ok();
    assert_eq!(cli.event("update").await["body"]["t"], "new-message");
    assert_eq!(cli.event("update").await["body"]["t"], "update-session");
    let mut types = web.types().await;
    types.sort();
    assert_eq!(types, ["machine-updated", "session-removed", "session-updated"]);
}

#[tokio::test(start_paused = true)]
async fn a_life_that_begins_changes_or_ends_is_acknowledged_when_that_is_durable_and_a_mere_sign_at_once() {
    let (world, session, mut cli) = live().await;
    world.machine("m").await;
    let now = world.now();
    let sign = json!({"sid": session, "time": now});
    let signs = [
        ("session-alive", json!({"sid": session, "time": now, "thinking": true})),
        ("session-end", sign.clone()),
        ("session-alive", sign.clone()),
        ("machine-alive", json!({"machineId": "m", "time": now})),
    ];
    for (name, payload) in &signs {
        world.db.hold(On::Writes);
        let ack = cli.emit_asking(name, payload);
        cli.socket.heard_nothing().await;
        assert_eq!(world.db.held(), 1, "{name}");
        let mere = cli.ask("session-alive", &json!({"sid": session, "time": 0})).await;
        assert_eq!(mere, json!({"ok": true}));
        world.db.release();
        assert_eq!(cli.acknowledged(ack).await, json!({"ok": true}), "{name}");
    }
    world.db.hold(On::Writes);
    let writes = world.db.writes();
    for (name, payload) in &signs[2..] {
        assert_eq!(cli.ask(name, payload).await, json!({"ok": true}), "{name} says nothing new");
    }
    assert_eq!(world.db.writes(), writes);
    world.db.release();
    for (name, payload) in &signs[..3] {
        world.db.fail(On::Writes, lasting());
        let refused = cli.ask(name, payload).await;
        assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("unavailable")), "{name}: {refused}");
        // The next one has it from the database again, and something to change.
        cli.ask(name, payload).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_that_repeats_what_is_being_written_is_acknowledged_with_it() {
    let (world, session, mut cli) = live().await;
    world.machine("m").await;
    let thinking = json!({"sid": session, "time": world.now(), "thinking": true});
    let machine = json!({"machineId": "m", "time": world.now()});
    for (name, payload) in [("session-alive", &thinking), ("machine-alive", &machine)] {
        world.db.hold(On::Writes);
        let acks = [cli.emit_asking(name, payload), cli.emit_asking(name, payload)];
        cli.socket.heard_nothing().await;
        let writes = world.db.writes();
        world.db.release();
        for ack in acks {
            assert_eq!(cli.acknowledged(ack).await, json!({"ok": true}), "{name}");
        }
        assert_eq!(world.db.writes(), writes, "it is written once");
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_come_in_the_order_of_sending_whatever_was_sent() {
    let (_world, session, mut cli) = live().await;
    let mut sent = Vec::new();
    for n in 0..30 {
        sent.push(match n % 3 {
            0 => cli.emit_asking("message", &message(&session, n)),
            1 => {
                let update = json!({"sid": session, "expectedVersion": 1 + n / 3, "agentState": {"n": n}});
                cli.emit_asking("update-state", &update)
            }
            _ => {
                let message = json!({"sid": session, "message": {"n": n}, "localId": format!("l{n}")});
                cli.emit_asking("message", &message)
            }
        });
    }
    let acks: Vec<u64> = cli.socket.rest().await.iter().filter_map(ack_of).collect();
    assert_eq!(acks, sent);
}

fn ack_of(frame: &Frame) -> Option<u64> {
    match frame {
        Frame::Text(text) => match read(text) {
            Heard::Ack { id, .. } => Some(id),
            _ => None,
        },
        Frame::Closed { .. } => None,
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_during_a_commit_rides_in_the_next_one() {
    let (world, session, mut cli) = live().await;
    let before = world.db.writes();
    world.db.hold(On::Writes);
    let first = cli.emit_asking("message", &message(&session, 0));
    quiet().await;
    let rest: Vec<u64> = (1..200).map(|n| cli.emit_asking("message", &message(&session, n))).collect();
    quiet().await;
    world.db.release();
    for ack in std::iter::once(first).chain(rest) {
        assert_eq!(cli.acknowledged(ack).await["ok"], true);
    }
    assert_eq!(world.db.writes() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_passing_fault_is_tried_again_and_nothing_is_doubled() {
    let (world, session, mut cli) = live().await;
    world.db.fail(On::Writes, passing());
    world.db.fail(On::Writes, passing());
    let ack = cli.emit_asking("message", &message(&session, 1));
    cli.socket.heard_nothing().await;
    for _ in 0..2 {
        assert_eq!(world.rt.sleeping(), 1, "there is a pause before the next attempt");
        world.rt.set_now(world.now() + 1_000);
        quiet().await;
    }
    assert_eq!(cli.acknowledged(ack).await["seq"], 1);
    assert_eq!(history(&world, &session).await, [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_after_the_commit_doubles_nothing() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    world.db.lose_answer(passing());
    let with_id = json!({"sid": session, "message": {"n": 1}, "localId": "one"});
    let first = cli.emit_asking("message", &with_id);
    let second = cli.emit_asking("message", &message(&session, 2));
    let state = json!({"sid": session, "expectedVersion": 1, "agentState": {"n": 3}});
    let third = cli.emit_asking("update-state", &state);
    quiet().await;
    world.rt.set_now(world.now() + 1_000);
    assert_eq!(cli.acknowledged(first).await["seq"], 1);
    assert_eq!(cli.acknowledged(second).await["seq"], 2);
    assert_eq!(cli.acknowledged(third).await["version"], 2);
    assert_eq!(history(&world, &session).await, [(1, 1), (2, 2)]);
    let types = web.types().await;
    assert_eq!(types.iter().filter(|t| *t == "message-received").count(), 2, "{types:?}");
    // The local id still stands for the first message.
    assert_eq!(cli.ask("message", &with_id).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_session_whose_answer_was_lost_is_made_once() {
    let world = World::new();
    world.db.lose_answer(passing());
    let made = world.start("POST", "/cli/sessions", r#"{"tag":"/w","metadata":{"path":"/w","host":"h"}}"#);
    quiet().await;
    world.rt.set_now(world.now() + 1_000);
    let id = made.reply().await.ok()["session"]["id"].clone();
    assert_eq!(world.db.number("SELECT count(*) FROM sessions"), 1);
    assert_eq!(world.session("/w").await, id.as_str().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_database_that_stays_away_fails_those_who_wait_after_a_few_attempts() {
    let (world, session, mut cli) = live().await;
    let before = world.db.writes();
    world.db.break_down(On::Writes, passing());
    let ack = cli.emit_asking("message", &message(&session, 1));
    let renamed = world.start("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#);
    for _ in 0..20 {
        quiet().await;
        world.rt.set_now(world.now() + 5_000);
    }
    let refused = cli.acknowledged(ack).await;
    assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("unavailable")), "{refused}");
    let refused = renamed.reply().await;
    refused.refuses(503, "hub_unavailable");
    assert!(refused.headers.contains_key("retry-after"));
    let attempts = world.db.writes() - before;
    assert!((3..=20).contains(&attempts), "{attempts} attempts");
}

#[tokio::test(start_paused = true)]
async fn a_lasting_fault_undoes_the_change_and_the_counting_goes_on_without_a_gap() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    assert_eq!(cli.ask("message", &message(&session, 1)).await["seq"], 1);
    assert_eq!(web.event_of("message-received").await["message"]["seq"], 1);

    world.db.fail(On::Writes, lasting());
    let lost = cli.ask("message", &json!({"sid": session, "message": {"n": 99}, "localId": "l"})).await;
    assert_eq!((&lost["ok"], &lost["code"]), (&json!(false), &json!("unavailable")), "{lost}");
    web.0.heard_nothing().await;

    assert_eq!(world.shown(&session).await["seq"], 1, "read again from the database");
    let again = cli.ask("message", &json!({"sid": session, "message": {"n": 2}, "localId": "l"})).await;
    assert_eq!(again["seq"], 2, "the failed one's local id and seq are free");
    assert_eq!(history(&world, &session).await, [(1, 1), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_fault_undoes_versions_too() {
    let (world, session, mut cli) = live().await;
    let update = |version: u64| json!({"sid": session, "expectedVersion": version, "agentState": {"v": version}});
    world.db.fail(On::Writes, lasting());
    assert_eq!(cli.ask("update-state", &update(1)).await["result"], "error");
    let shown = world.shown(&session).await;
    assert_eq!((&shown["agentState"], &shown["agentStateVersion"]), (&Value::Null, &json!(1)));
    let second = cli.ask("update-state", &update(1)).await;
    assert_eq!((&second["result"], &second["version"]), (&json!("success"), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn what_was_built_upon_a_failed_change_fails_with_it() {
    let (world, session, mut cli) = live().await;
    world.db.hold(On::Writes);
    world.db.fail(On::Writes, lasting());
    let first = cli.emit_asking("message", &message(&session, 1));
    quiet().await;
    let built_upon = cli.emit_asking("message", &message(&session, 2));
    quiet().await;
    world.db.release();
    assert_eq!(cli.acknowledged(first).await["ok"], false);
    assert_eq!(cli.acknowledged(built_upon).await["ok"], false);
    assert_eq!(cli.ask("message", &message(&session, 3)).await["seq"], 1);
    assert_eq!(history(&world, &session).await, [(1, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_deletion_failed_is_still_there() {
    let world = World::new();
    let session = world.session("/code").await;
    world.db.fail(On::Writes, lasting());
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.refuses(503, "hub_unavailable");
    assert_eq!(world.shown(&session).await["tag"], "/code");
    assert_eq!(world.session("/code").await, session);
}

#[tokio::test(start_paused = true)]
async fn a_tag_asked_for_while_its_session_is_being_deleted_gives_a_new_session() {
    let world = World::new();
    let session = world.session("/code").await;
    world.db.hold(On::Writes);
    let deleted = world.start("DELETE", &format!("/api/sessions/{session}"), "");
    quiet().await;
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "h"}});
    let made = world.start("POST", "/cli/sessions", body.to_string());
    let asked = world.start("GET", &format!("/api/sessions/{session}"), "");
    quiet().await;
    world.db.release();
    deleted.reply().await.ok();
    assert_ne!(made.reply().await.ok()["session"]["id"], session.as_str());
    asked.reply().await.refuses(404, "session_not_found");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_could_not_be_written_is_tried_again_with_the_clock() {
    let (world, session, cli) = live().await;
    world.db.fail(On::Writes, lasting());
    cli.emit("session-end", &json!({"sid": session, "time": world.now()}));
    quiet().await;
    assert_eq!(world.shown(&session).await["active"], true, "what could not be written did not happen");
    world.pass(35_000).await;
    assert_eq!(world.shown(&session).await["active"], false);
}

#[tokio::test(start_paused = true)]
async fn a_fault_in_reading_is_a_503_and_gone_with_the_next_request() {
    let world = World::new();
    let session = world.session("/code").await;
    world.sleep_and_wake().await;
    for path in [format!("/api/sessions/{session}"), "/api/sessions".to_owned(), "/api/machines".to_owned()] {
        world.db.fail(On::Reads, lasting());
        world.get(&path).await.refuses(503, "hub_unavailable");
        world.get(&path).await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_without_schema_is_answered_with_what_to_run() {
    let world = World::of("team", Arc::new(Sqlite::without_schema()));
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
        let refusal = world.request(method, path, body).await.refuses(503, "hub_unavailable");
        let message = refusal["error"].as_str().unwrap();
        assert!(message.contains("d1 migrations apply"), "{method} {path}: {message}");
    }
    world.db.migrate();
    world.request("POST", "/cli/sessions", session).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_connects_while_the_database_is_away_is_asked_to_come_again() {
    let world = World::new();
    let session = world.session("/code").await;
    world.sleep_and_wake().await;
    world.db.break_down(On::Reads, DbError::TimedOut("D1 did not answer in time".into()));
    let auth = json!({"token": world.token(), "sessionId": session});
    let mut cli = Cli::connecting(&world, &auth);
    assert!(matches!(cli.hear().await, Heard::Open(_)));
    // Not with a CONNECT_ERROR, after which the official client would give up.
    assert_eq!(cli.socket.closed().await, 1013);
    world.db.repair();
    world.cli(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_a_commit_loses_nothing_that_was_acknowledged() {
    let (world, session, mut cli) = live().await;
    assert_eq!(cli.ask("message", &message(&session, 1)).await["seq"], 1);
    world.db.hold(On::Writes);
    cli.emit_asking("message", &message(&session, 2));
    quiet().await;
    world.restart();
    world.db.release();
    cli.socket.heard_nothing().await;
    // Without an acknowledgement the CLI sends it again; whether the first got through or not, seqs have no gap.
    let seq = cli.ask("message", &message(&session, 2)).await["seq"].as_u64().unwrap();
    let history = history(&world, &session).await;
    assert_eq!(history.first(), Some(&(1, 1)));
    assert_eq!(history.last().map(|(last, _)| *last), Some(seq));
    assert_eq!(history.len() as u64, seq);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_joins_while_a_message_is_written_hears_of_it() {
    let (world, session, mut cli) = live().await;
    world.db.hold(On::Writes);
    let ack = cli.emit_asking("message", &message(&session, 1));
    quiet().await;
    assert_eq!(world.db.held(), 1, "the batch is under way");
    let mut joined = world.cli(&session).await;
    joined.socket.heard_nothing().await;
    world.db.release();
    assert_eq!(cli.acknowledged(ack).await["ok"], true);
    let update = joined.event("update").await;
    assert_eq!(update["body"]["message"]["content"], json!({"n": 1}));
    assert_eq!(cli.heard_event("update").await, None, "nobody hears what he said himself");
}

#[tokio::test(start_paused = true)]
async fn a_message_with_a_local_id_gets_through_a_stream_of_others() {
    let (world, session, mut cli) = live().await;
    assert_eq!(cli.ask("message", &json!({"sid": session, "message": {"n": 1}, "localId": "a"})).await["seq"], 1);
    world.sleep_and_wake().await;
    world.shown(&session).await;
    world.db.hold(On::Reads);
    let sent = world.start("POST", &format!("/api/sessions/{session}/messages"), r#"{"text":"again","localId":"a"}"#);
    quiet().await;
    assert_eq!(world.db.held(), 1, "the local ids are read");
    assert_eq!(cli.ask("message", &message(&session, 2)).await["seq"], 2);
    let reads = world.db.reads();
    world.db.release();
    sent.reply().await.ok();
    assert_eq!(world.db.reads(), reads, "they were read once");
    assert_eq!(history(&world, &session).await, [(1, 1), (2, 2)]);
}
