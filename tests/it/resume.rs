//! Bringing a session back: which machine is asked, for what, and how long it may take.

use crate::support::cli::{Call, Cli, Received, parse_frame};
use crate::support::rest::PendingReply;
use crate::support::runtime::Frame;
use crate::support::sqlite::BatchKind;
use crate::support::{RECONNECT_GRACE_MS, RPC_TIMEOUT_MS, World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

/// What a machine needs to bring a session of an agent back.
fn resumable_metadata() -> Value {
    json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"})
}

/// A session that has ended, and the runner of its machine.
async fn ended() -> (World, String, Cli) {
    let world = World::new();
    let runner = world.spawner("m", "box").await;
    let session = world.create_session_with("/code", resumable_metadata()).await;
    run_until_idle().await;
    (world, session, runner)
}

fn resume(world: &World, session: &str) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/resume"), "")
}

fn success(session: &str) -> Value {
    json!({"success": true, "sessionId": session})
}

/// The runner is asked for nothing.
async fn assert_no_frames(runner: &mut Cli) {
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_active_is_its_own_resume() {
    let (world, session, mut runner) = ended().await;
    world.live_cli(&session).await;
    assert_eq!(resume(&world, &session).reply().await.ok(), success(&session));
    assert_no_frames(&mut runner).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_comes_back_under_its_own_id() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    let asked = runner.serve("spawnSession", &json!({"success": true, "sessionId": session})).await;
    let params = json!({"directory": "/code", "agent": "beta", "sessionId": session, "resumeSessionId": "agent-7"});
    assert_eq!(asked, params);
    run_until_idle().await;
    assert!(!reply.is_ready(), "it is not active yet");
    let mut cli = world.cli(&session).await;
    run_until_idle().await;
    assert!(!reply.is_ready(), "a socket alone is no sign of life");
    world.advance(10_000).await;
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    assert_eq!(world.get_session(&session).await["active"], true);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_is_faster_than_its_runner_is_not_waited_for() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    let call = runner.next_call().await;
    world.live_cli(&session).await;
    runner.respond(&call, &json!({"type": "success"}));
    assert_eq!(reply.reply().await.ok(), success(&session), "an answer without an id, in the other shape");
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_comes_back_too_and_is_archived_no_more() {
    let (world, session, mut runner) = ended().await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({"reason": "done"})).await.ok();
    let mut lingering = world.cli(&session).await;
    lingering.send_keep_alive(&world, &session).await;
    assert_eq!(world.get_session(&session).await["active"], false);
    let reply = resume(&world, &session);
    runner.serve("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["active"], &shown["metadata"]["lifecycleState"]), (&json!(true), &json!("running")));
    assert_eq!((shown["metadata"].get("archivedBy"), shown["metadata"].get("archiveReason")), (None, None));
    assert_eq!(shown["metadata"]["betaSessionId"], "agent-7");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["id"], session.as_str());
}

/// The machine that a resume asks.
async fn asked(world: &World, session: &str, runners: &mut [(&str, &mut Cli)]) -> String {
    let reply = resume(world, session);
    run_until_idle().await;
    let mut found = String::new();
    for (name, runner) in runners {
        for frame in runner.socket.drain().await {
            let Frame::Text(text) = frame else { continue };
            if let Received::Event { name: event, arg, ack: Some(ack) } = parse_frame(&text)
                && event == "rpc-request"
            {
                assert!(found.is_empty(), "two machines were asked: {found} and {name}");
                assert!(arg["method"].as_str().unwrap().ends_with("spawnSession"), "{arg}");
                let request = Call { ack, method: String::new(), params: Value::Null };
                runner.respond(&request, &json!({"success": false, "error": "only a test"}));
                found = (*name).to_owned();
            }
        }
    }
    if found.is_empty() {
        reply.reply().await.assert_error(503, "no_machine_online");
        return "none".into();
    }
    let refused = reply.reply().await;
    refused.assert_error(503, "cli_refused");
    assert!(refused.text.contains("only a test"), "{refused:?}");
    found
}

#[tokio::test(start_paused = true)]
async fn the_machine_of_the_session_is_asked_else_one_of_its_host() {
    let world = World::new();
    let session = world.create_session_with("/code", resumable_metadata()).await;
    assert_eq!(asked(&world, &session, &mut []).await, "none");
    let mut elsewhere = world.spawner("elsewhere", "other-box").await;
    assert_eq!(asked(&world, &session, &mut [("elsewhere", &mut elsewhere)]).await, "none");
    let mut neighbours = world.neighbour().spawner("n", "box").await;
    let mut twin = world.spawner("twin", "box").await;
    assert_eq!(
        asked(&world, &session, &mut [("elsewhere", &mut elsewhere), ("twin", &mut twin)]).await,
        "twin",
        "another machine of the same host"
    );
    assert_no_frames(&mut neighbours).await;
    let mut own = world.spawner("m", "renamed-box").await;
    assert_eq!(asked(&world, &session, &mut [("twin", &mut twin), ("own", &mut own)]).await, "own", "by its id");
    assert_eq!(own.emit_with_ack("rpc-unregister", &json!({"method": "spawnSession"})).await, json!({"ok": true}));
    assert_eq!(
        asked(&world, &session, &mut [("twin", &mut twin), ("own", &mut own)]).await,
        "twin",
        "one that spawns nothing is no help"
    );
    twin.socket.close();
    world.advance(RECONNECT_GRACE_MS).await;
    assert_eq!(asked(&world, &session, &mut [("own", &mut own)]).await, "none");
    own.register("m:spawnSession").await;
    assert_eq!(asked(&world, &session, &mut [("own", &mut own)]).await, "own");
    world.advance(45_000).await;
    assert_eq!(
        asked(&world, &session, &mut [("own", &mut own)]).await,
        "none",
        "it is offline, though its socket stands"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_names_no_machine_is_resumed_on_its_host_where_life_was_seen_last() {
    let world = World::new();
    let mut first = world.spawner("first", "box").await;
    let mut second = world.spawner("second", "box").await;
    let session = world.create_session_with("/code", json!({"alphaSessionId": "a"})).await;
    world.rt.set_now(world.now() + 1_000);
    first.emit_with_ack("machine-alive", &json!({"machineId": "first", "time": world.now()})).await;
    assert_eq!(asked(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "first");
    world.rt.set_now(world.now() + 1_000);
    second.emit_with_ack("machine-alive", &json!({"machineId": "second", "time": world.now()})).await;
    world.hibernate_and_wake().await;
    let after = asked(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await;
    assert!(["first", "second"].contains(&after.as_str()), "who serves what survives a sleep");
}

#[tokio::test(start_paused = true)]
async fn a_session_without_the_agents_own_id_can_not_be_resumed() {
    let world = World::new();
    let without_machine = world.create_session_with("/nowhere", json!({})).await;
    resume(&world, &without_machine).reply().await.assert_error(409, "resume_unavailable");
    let mut runner = world.spawner("m", "box").await;
    for (n, metadata) in [
        json!({}),
        json!({"flavor": "beta"}),
        json!({"flavor": "beta", "alphaSessionId": "x"}),
        json!({"flavor": "zeta", "zetaSessionId": "x"}),
        json!({"alphaSessionId": 5}),
        json!({"alphaSessionId": null}),
    ]
    .into_iter()
    .enumerate()
    {
        let session = world.create_session_with(&format!("/{n}"), metadata.clone()).await;
        resume(&world, &session).reply().await.assert_error(409, "resume_unavailable");
    }
    assert_no_frames(&mut runner).await;
    for (n, (flavor, field)) in [
        (Value::Null, "alphaSessionId"),
        (json!("alpha"), "alphaSessionId"),
        (json!("gamma"), "gammaSessionId"),
        (json!("delta"), "deltaSessionId"),
        (json!("epsilon"), "epsilonSessionId"),
    ]
    .into_iter()
    .enumerate()
    {
        let session = world.create_session_with(&format!("/ok{n}"), json!({"flavor": flavor, field: "own"})).await;
        let reply = resume(&world, &session);
        let asked = runner.serve("spawnSession", &json!({"success": false})).await;
        assert_eq!(
            (&asked["agent"], &asked["resumeSessionId"]),
            (&json!(flavor.as_str().unwrap_or("alpha")), &json!("own"))
        );
        reply.reply().await.assert_error(503, "cli_refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_become_active_within_15_seconds_failed_to_resume() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    let call = runner.next_call().await;
    world.advance(5_000).await;
    runner.respond(&call, &json!({"success": true, "sessionId": session}));
    run_until_idle().await;
    assert!(world.rt.alarm().is_some_and(|at| at <= world.now() + 15_000));
    world.advance(14_999).await;
    assert!(!reply.is_ready());
    world.advance(1).await;
    reply.reply().await.assert_error(504, "resume_failed");
    assert_eq!(world.get_session(&session).await["active"], false);
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let reply = resume(&world, &session);
    runner.serve("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session), "it may be tried again");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_answer_or_leaves_is_told_apart() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    runner.next_call().await;
    world.advance(RPC_TIMEOUT_MS).await;
    reply.reply().await.assert_error(504, "rpc_timeout");
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let reply = resume(&world, &session);
    runner.next_call().await;
    runner.socket.close();
    reply.reply().await.assert_error(503, "cli_unreachable");
    world.advance(RECONNECT_GRACE_MS).await;
    resume(&world, &session).reply().await.assert_error(503, "no_machine_online");
}

#[tokio::test(start_paused = true)]
async fn of_two_who_resume_at_once_one_asks_the_machine_and_both_are_answered() {
    let (world, session, mut runner) = ended().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    runner.serve("spawnSession", &json!({"success": true})).await;
    let third = resume(&world, &session);
    assert_no_frames(&mut runner).await;
    world.live_cli(&session).await;
    for reply in replies.into_iter().chain([third]) {
        assert_eq!(reply.reply().await.ok(), success(&session));
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_who_resume_waits_as_long_as_the_first() {
    let (world, session, mut runner) = ended().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    let call = runner.next_call().await;
    world.advance(20_000).await;
    runner.respond(&call, &json!({"success": true}));
    world.advance(5_000).await;
    world.live_cli(&session).await;
    for reply in replies {
        assert_eq!(reply.reply().await.ok(), success(&session), "a slow machine is slow for both");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_machine_refuses_nobody_is_left_waiting() {
    let (world, session, mut runner) = ended().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    runner.serve("spawnSession", &json!({"success": false, "error": "disk full"})).await;
    for reply in replies {
        reply.reply().await.assert_error(503, "cli_refused");
    }
}

/// A CLI puts the session's metadata in place of that of this version, as archived.
async fn archive_itself(cli: &mut Cli, session: &str, version: u64) {
    let mut metadata = resumable_metadata();
    let archived = json!({"path": "/code", "host": "box", "lifecycleState": "archived", "archivedBy": "cli"});
    metadata.as_object_mut().unwrap().extend(archived.as_object().unwrap().clone());
    let update = json!({"sid": session, "expectedVersion": version, "metadata": metadata});
    assert_eq!(cli.emit_with_ack("update-metadata", &update).await["result"], "success");
}

#[tokio::test(start_paused = true)]
async fn what_a_resumed_cli_archives_before_it_ends_stays_archived() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    runner.serve("spawnSession", &json!({"success": true})).await;
    let mut cli = world.live_cli(&session).await;
    reply.reply().await.ok();
    archive_itself(&mut cli, &session, 1).await;
    world.advance(2_000).await;
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.get_session(&session).await["metadata"]["lifecycleState"], "archived");
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.send_keep_alive(&world, &session).await;
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["active"], &shown["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_that_takes_a_session_out_of_the_archive_is_acknowledged_once_it_is_durable() {
    let (world, session, mut runner) = ended().await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    let reply = resume(&world, &session);
    runner.serve("spawnSession", &json!({"success": true})).await;
    let mut cli = world.cli(&session).await;
    world.db.hold(BatchKind::Writes);
    let ack = cli.emit_for_ack("session-alive", &json!({"sid": session, "time": world.now()}));
    run_until_idle().await;
    assert_eq!(cli.try_ack(ack).await, None);
    world.db.release();
    assert_eq!(cli.wait_for_ack(ack).await, json!({"ok": true}));
    reply.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_brought_nothing_back_is_believed_for_ten_minutes() {
    for (ms, active) in [(599_000, true), (600_000, false)] {
        let (world, session, mut runner) = ended().await;
        world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
        let reply = resume(&world, &session);
        runner.serve("spawnSession", &json!({"success": true})).await;
        world.advance(ms).await;
        reply.reply().await.assert_error(504, "resume_failed");
        world.live_cli(&session).await;
        assert_eq!(world.get_session(&session).await["active"], active, "after {ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_brought_back_whatever_memory_forgot_while_the_machines_were_read() {
    let (world, session, mut runner) = ended().await;
    let other = world.create_session("/other").await;
    let mut cli = world.live_cli(&other).await;
    world.hibernate_and_wake().await;
    cli.send_keep_alive(&world, &other).await;
    world.get_session(&session).await;
    world.db.hold(BatchKind::Reads);
    let reply = resume(&world, &session);
    run_until_idle().await;
    assert_eq!(world.db.held_count(), 1, "the machines are read");
    world.db.stop_holding();
    world.db.fail(BatchKind::Writes, DbError::Refused("disk I/O error".into()));
    assert_eq!(cli.send_message(&other, "lost").await["ok"], false);
    world.db.release();
    runner.serve("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
}
