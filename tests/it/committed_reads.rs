//! Reads from memory during a stall of the database. They show the last committed state.

use crate::support::merge::texts;
use crate::support::prelude::*;

/// Returns the response to a request that must not wait.
async fn get(world: &World, path: &str) -> Value {
    let reply = world.start("GET", path, "");
    assert!(reply.has_response().await, "{path} waits");
    reply.reply().await.ok()
}

/// The sessions of the list: their names by id.
async fn listed_names(world: &World) -> Vec<(String, Value)> {
    let list = get(world, "/api/sessions").await;
    let sessions = list["sessions"].as_array().unwrap().iter();
    let mut sessions: Vec<_> =
        sessions.map(|s| (s["id"].as_str().unwrap().to_owned(), s["metadata"]["name"].clone())).collect();
    sessions.sort_by(|one, other| one.0.cmp(&other.0));
    sessions
}

/// Advances the clock while the CLI sends keep-alives.
async fn advance_with_keep_alives(world: &World, cli: &Cli, session: &str) {
    for _ in 0..4 {
        world.advance_in_steps(10_000).await;
        cli.emit("session-alive", &json!({"sid": session, "time": world.now()}));
        cli.emit("machine-alive", &json!({"machineId": "m", "time": world.now()}));
    }
    run_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn sessions_and_machines_with_pending_changes_are_read_during_a_stall() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let deleted = world.create_session("/deleted").await;
    let path = format!("/api/sessions/{session}");
    for path in [&path, &format!("/api/sessions/{deleted}"), "/api/sessions", "/api/machines"] {
        world.get(path).await.ok();
    }
    world.db.set_silent(true);
    let requests = [
        world.start("PATCH", &path, r#"{"name":"new"}"#),
        world.start("DELETE", &format!("/api/sessions/{deleted}"), ""),
        world.start("POST", "/cli/sessions", r#"{"tag":"/created","metadata":{"path":"/created","host":"h"}}"#),
    ];
    run_until_idle().await;
    let state = json!({"requests": {}, "completedRequests": {"r": {"completedAt": 1}}});
    let acks = [
        cli.emit_for_ack("message", &json!({"sid": session, "message": {"text": "a"}})),
        cli.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": state})),
        cli.emit_for_ack(
            "machine-update-state",
            &json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"status": "new"}}),
        ),
    ];
    let early_reads = [&path, "/api/sessions", "/api/machines"].map(|path| world.start("GET", path, ""));
    run_until_idle().await;
    assert!(early_reads.iter().all(|read| !read.is_ready()), "the database may still answer");
    world.advance_in_steps(6_000).await;
    assert!(early_reads.iter().all(PendingReply::is_ready));
    for _ in 0..2 {
        assert_eq!(
            listed_names(&world).await,
            [(session.clone(), Value::Null), (deleted.clone(), Value::Null)],
            "the renamed one, the deleted one, and not the created one"
        );
        let found = get(&world, &path).await;
        assert_eq!((&found["session"]["seq"], &found["session"]["metadataVersion"]), (&json!(0), &json!(1)));
        assert_eq!(found["session"]["agentState"], Value::Null);
        assert_eq!(get(&world, &format!("/api/sessions/{deleted}")).await["session"]["id"], deleted.as_str());
        let machines = get(&world, "/api/machines").await;
        assert_eq!(machines["machines"][0]["runnerState"], Value::Null);
        advance_with_keep_alives(&world, &cli, &session).await;
    }
    assert!(requests.iter().all(|request| !request.is_ready()));
    world.db.set_silent(false);
    world.advance_in_steps(5_000).await;
    let [renamed, removed, created] = requests;
    renamed.reply().await.ok();
    removed.reply().await.ok();
    let created = created.reply().await.ok()["session"]["id"].as_str().unwrap().to_owned();
    for ack in acks {
        cli.wait_for_ack(ack).await;
    }
    assert_eq!(listed_names(&world).await, [(session.clone(), json!("new")), (created, Value::Null)]);
    let found = get(&world, &path).await;
    assert_eq!((&found["session"]["seq"], &found["session"]["metadataVersion"]), (&json!(1), &json!(2)));
    assert_eq!(found["session"]["agentState"]["completedRequests"]["r"]["completedAt"], 1);
    assert_eq!(get(&world, "/api/machines").await["machines"][0]["runnerState"]["status"], "new");
    assert_eq!(texts(&world, &session).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_shows_acknowledged_changes_while_later_changes_wait() {
    let (world, session, cli) = live_session_with_machine().await;
    let path = format!("/api/sessions/{session}");
    world.get(&path).await.ok();
    world.get("/api/sessions").await.ok();
    let name = async || {
        let found = get(&world, &path).await["session"]["metadata"]["name"].clone();
        assert_eq!(listed_names(&world).await, [(session.clone(), found.clone())]);
        found
    };
    let rename = |name: &str| world.start("PATCH", &path, json!({"name": name}).to_string());
    world.db.hold_all_results();
    // Keeps the database stalled after the first writes.
    let unanswered = world.start_and_run("GET", "/api/sessions/unknown", "").await;
    let first = rename("first");
    run_until_idle().await;
    let second = rename("second");
    world.advance_in_steps(6_000).await;
    assert_eq!(name().await, Value::Null);
    world.release_result(1).await;
    assert!(first.is_ready() && !second.is_ready());
    assert_eq!(name().await, "first");
    let third = rename("third");
    run_until_idle().await;
    assert_eq!(name().await, "first");
    world.db.release_result(world.db.held_result_count() - 1);
    assert!(second.has_response().await && !third.is_ready());
    assert_eq!(name().await, "second");
    assert!(!unanswered.is_ready());
    world.db.release_results();
    advance_with_keep_alives(&world, &cli, &session).await;
    third.reply().await.ok();
    assert_eq!(name().await, "third");
}

#[tokio::test(start_paused = true)]
async fn in_a_stall_changes_of_a_machine_and_of_a_session_with_the_same_id_hide_neither() {
    for is_machine_first in [true, false] {
        let (world, session, _cli) = live_session().await;
        world.register_machine(&session).await;
        let mut runner = world.runner(&session).await;
        runner.emit_with_ack("machine-alive", &json!({"machineId": session, "time": world.now()})).await;
        let path = format!("/api/sessions/{session}");
        for path in [&path, "/api/sessions", "/api/machines"] {
            world.get(path).await.ok();
        }
        world.db.set_silent(true);
        let state = json!({"machineId": session, "expectedVersion": 1, "runnerState": {"status": "new"}});
        let update_machine = || runner.emit("machine-update-state", &state);
        if is_machine_first {
            update_machine();
        }
        let rename = world.start_and_run("PATCH", &path, r#"{"name":"new"}"#).await;
        update_machine();
        world.advance_in_steps(6_000).await;
        assert_eq!(get(&world, &path).await["session"]["metadata"]["path"], "/code");
        assert_eq!(listed_names(&world).await, [(session.clone(), Value::Null)]);
        let machines = get(&world, "/api/machines").await;
        assert_eq!(pick(&machines, ["machines/0/id", "machines/0/runnerState"]), json!([session, null]));
        world.db.set_silent(false);
        world.advance_in_steps(5_000).await;
        rename.reply().await.ok();
        assert_eq!(listed_names(&world).await, [(session.clone(), json!("new"))]);
        assert_eq!(get(&world, "/api/machines").await["machines"][0]["runnerState"]["status"], "new");
    }
}
