//! Resuming a session: which machine receives the call, the parameters of the call, and the timeouts.

use crate::support::cli::{Call, parse_frame};
use crate::support::merge::{accepted_resume, resumable_metadata, resume, success};
use crate::support::prelude::*;

/// A resumable session that is not active, and the runner of its machine.
async fn resumable_session() -> (World, String, Cli) {
    let world = World::new();
    let runner = world.spawner("m", "box").await;
    let session = world.create_session_with("/code", resumable_metadata()).await;
    run_until_idle().await;
    (world, session, runner)
}

#[tokio::test(start_paused = true)]
async fn a_resume_of_an_active_session_succeeds_without_a_call() {
    let (world, session, mut runner) = resumable_session().await;
    world.live_cli(&session).await;
    assert_eq!(resume(&world, &session).reply().await.ok(), success(&session));
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_keeps_its_id() {
    let (world, session, mut runner) = resumable_session().await;
    let reply = resume(&world, &session);
    let params = runner.respond_to_next_call("spawnSession", &json!({"success": true, "sessionId": session})).await;
    let expected = json!({"directory": "/code", "agent": "beta", "sessionId": session, "resumeSessionId": "agent-7"});
    assert_eq!(params, expected);
    assert!(!reply.has_response().await, "the session is not active yet");
    let mut cli = world.cli(&session).await;
    assert!(!reply.has_response().await, "a connection without a keep-alive does not activate the session");
    world.advance(10_000).await;
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    assert_eq!(world.get_session(&session).await["active"], true);
}

#[tokio::test(start_paused = true)]
async fn the_trust_of_a_directory_is_passed_on_to_the_machine() {
    let (world, session, mut runner) = resumable_session().await;
    let reply = world.start("POST", &format!("/api/sessions/{session}/resume"), r#"{"trust":true}"#);
    let refusal = json!({"success": false, "error": "Trust /code.", "code": "untrusted_directory"});
    assert_eq!(runner.respond_to_next_call("spawnSession", &refusal).await["trust"], true);
    assert_eq!(reply.reply().await.assert_error(409, "untrusted_directory")["error"], "Trust /code.");
}

#[tokio::test(start_paused = true)]
async fn a_resume_succeeds_if_the_cli_is_active_before_the_runner_responds() {
    let (world, session, mut runner) = resumable_session().await;
    let reply = resume(&world, &session);
    let call = runner.next_call().await;
    world.live_cli(&session).await;
    runner.respond(&call, &json!({"type": "success"}));
    assert_eq!(reply.reply().await.ok(), success(&session), "the result has the other format and no session id");
}

#[tokio::test(start_paused = true)]
async fn resuming_an_archived_session_unarchives_it() {
    let (world, session, mut runner) = resumable_session().await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({"reason": "done"})).await.ok();
    let mut old_cli = world.cli(&session).await;
    old_cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.get_session(&session).await["active"], false);
    let reply = accepted_resume(&world, &session, &mut runner).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    let detail = world.get_session(&session).await;
    assert_eq!((&detail["active"], &detail["metadata"]["lifecycleState"]), (&json!(true), &json!("running")));
    assert_eq!((detail["metadata"].get("archivedBy"), detail["metadata"].get("archiveReason")), (None, None));
    assert_eq!(detail["metadata"]["betaSessionId"], "agent-7");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["id"], session.as_str());
}

/// Starts a resume. Returns the name of the runner that receives the call, or "none".
async fn called_runner(world: &World, session: &str, runners: &mut [(&str, &mut Cli)]) -> String {
    let reply = resume(world, session);
    run_until_idle().await;
    let mut called = String::new();
    for (name, runner) in runners {
        for frame in runner.socket.drain().await {
            let Frame::Text(text) = frame else { continue };
            if let Received::Event { name: event, arg, ack: Some(ack) } = parse_frame(&text)
                && event == "rpc-request"
            {
                assert!(called.is_empty(), "two machines were called: {called} and {name}");
                assert!(arg["method"].as_str().unwrap().ends_with("spawnSession"), "{arg}");
                let call = Call { ack, method: String::new(), session_id: None, params: Value::Null };
                runner.respond(&call, &json!({"success": false, "error": "test"}));
                called = (*name).to_owned();
            }
        }
    }
    if called.is_empty() {
        reply.reply().await.assert_error(503, "no_machine_online");
        return "none".into();
    }
    let rejected = reply.reply().await;
    rejected.assert_error(503, "cli_refused");
    assert!(rejected.text.contains("test"), "{rejected:?}");
    called
}

#[tokio::test(start_paused = true)]
async fn the_machine_of_the_session_is_called_or_another_machine_on_the_same_host() {
    let world = World::new();
    let session = world.create_session_with("/code", resumable_metadata()).await;
    let call = async |runners: &mut [(&str, &mut Cli)]| called_runner(&world, &session, runners).await;
    assert_eq!(call(&mut []).await, "none");
    let mut other_host = world.spawner("other-host", "other-box").await;
    assert_eq!(call(&mut [("other-host", &mut other_host)]).await, "none");
    let mut foreign = world.neighbour().spawner("n", "box").await;
    let mut same_host = world.spawner("same-host", "box").await;
    // Another machine on the same host is called.
    assert_eq!(call(&mut [("other-host", &mut other_host), ("same-host", &mut same_host)]).await, "same-host");
    foreign.socket.assert_no_frames().await;
    let mut own = world.spawner("m", "renamed-box").await;
    // The machine of the session is called.
    assert_eq!(call(&mut [("same-host", &mut same_host), ("own", &mut own)]).await, "own");
    assert_eq!(own.emit_with_ack("rpc-unregister", &json!({"method": "spawnSession"})).await, json!({"ok": true}));
    // A machine without spawnSession is not called.
    assert_eq!(call(&mut [("same-host", &mut same_host), ("own", &mut own)]).await, "same-host");
    same_host.socket.close();
    world.advance(RECONNECT_GRACE_MS).await;
    assert_eq!(call(&mut [("own", &mut own)]).await, "none");
    own.register("m:spawnSession").await;
    assert_eq!(call(&mut [("own", &mut own)]).await, "own");
    world.advance(45_000).await;
    // An offline machine is not called even if its socket is open.
    assert_eq!(call(&mut [("own", &mut own)]).await, "none");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_by_its_installation_on_a_renamed_host_and_by_no_other_installation_of_the_same_host() {
    let world = World::new();
    let mut metadata = resumable_metadata();
    metadata["installationId"] = "one".into();
    let session = world.create_session_with("/code", metadata).await;
    let installed = |id: &str, host: &str, installation: &str| json!({"id": id, "metadata": {"host": host, "installationId": installation}});
    let mut other = world.spawner("other", "box").await;
    world.post("/cli/machines", &installed("other", "box", "two")).await.ok();
    assert_eq!(called_runner(&world, &session, &mut [("other", &mut other)]).await, "none");
    let mut renamed = world.spawner("renamed", "new-box").await;
    world.post("/cli/machines", &installed("renamed", "new-box", "one")).await.ok();
    assert_eq!(
        called_runner(&world, &session, &mut [("other", &mut other), ("renamed", &mut renamed)]).await,
        "renamed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_machine_is_resumed_on_the_last_active_machine_of_its_host() {
    let world = World::new();
    let mut first = world.spawner("first", "box").await;
    let mut second = world.spawner("second", "box").await;
    let session = world.create_session_with("/code", json!({"alphaSessionId": "a"})).await;
    world.rt.set_now(world.now() + 1_000);
    first.emit_with_ack("machine-alive", &json!({"machineId": "first", "time": world.now()})).await;
    assert_eq!(called_runner(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "first");
    world.rt.set_now(world.now() + 1_000);
    second.emit_with_ack("machine-alive", &json!({"machineId": "second", "time": world.now()})).await;
    world.hibernate_and_wake().await;
    let called = called_runner(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await;
    assert!(["first", "second"].contains(&called.as_str()), "registrations survive hibernation");
}

#[tokio::test(start_paused = true)]
async fn a_session_without_the_conversation_id_of_its_agent_cannot_be_resumed() {
    let world = World::new();
    let without_machine = world.create_session_with("/nowhere", json!({})).await;
    resume(&world, &without_machine).reply().await.assert_error(409, "resume_unavailable");
    let mut runner = world.spawner("m", "box").await;
    for (n, metadata) in [
        json!({}),
        json!({"flavor": "beta"}),
        json!({"flavor": "beta", "alphaSessionId": "x"}),
        json!({"flavor": "zeta", "alphaSessionId": "x"}),
        json!({"alphaSessionId": 5}),
        json!({"alphaSessionId": null}),
    ]
    .into_iter()
    .enumerate()
    {
        let session = world.create_session_with(&format!("/{n}"), metadata.clone()).await;
        resume(&world, &session).reply().await.assert_error(409, "resume_unavailable");
    }
    runner.socket.assert_no_frames().await;
    for (n, (flavor, field)) in [
        (Value::Null, "alphaSessionId"),
        (json!("alpha"), "alphaSessionId"),
        (json!("gamma"), "gammaSessionId"),
        (json!("delta"), "deltaSessionId"),
        (json!("epsilon"), "epsilonSessionId"),
        // An agent that only its CLI knows.
        (json!("zeta"), "zetaSessionId"),
    ]
    .into_iter()
    .enumerate()
    {
        let session = world.create_session_with(&format!("/ok{n}"), json!({"flavor": flavor, field: "agent-7"})).await;
        let reply = resume(&world, &session);
        let params = runner.respond_to_next_call("spawnSession", &json!({"success": false})).await;
        assert_eq!(pick(&params, ["agent", "resumeSessionId"]), json!([flavor.as_str().unwrap_or("alpha"), "agent-7"]));
        reply.reply().await.assert_error(503, "cli_refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_fails_if_the_session_is_not_active_within_15_seconds() {
    let (world, session, mut runner) = resumable_session().await;
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
    let reply = accepted_resume(&world, &session, &mut runner).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session), "a failed resume can be repeated");
}

#[tokio::test(start_paused = true)]
async fn concurrent_resumes_of_a_session_make_one_call() {
    let (world, session, mut runner) = resumable_session().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    runner.respond_to_next_call("spawnSession", &json!({"success": true})).await;
    let third = resume(&world, &session);
    runner.socket.assert_no_frames().await;
    world.live_cli(&session).await;
    for reply in replies.into_iter().chain([third]) {
        assert_eq!(reply.reply().await.ok(), success(&session));
    }
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_resumes_wait_equally_long() {
    let (world, session, mut runner) = resumable_session().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    let call = runner.next_call().await;
    world.advance(20_000).await;
    runner.respond(&call, &json!({"success": true}));
    world.advance(5_000).await;
    world.live_cli(&session).await;
    for reply in replies {
        assert_eq!(reply.reply().await.ok(), success(&session), "both requests wait for the machine");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_resumes_fail_if_the_machine_rejects_the_call() {
    let (world, session, mut runner) = resumable_session().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    runner.respond_to_next_call("spawnSession", &json!({"success": false, "error": "disk full"})).await;
    for reply in replies {
        reply.reply().await.assert_error(503, "cli_refused");
    }
}

/// Archives a session through an update of its metadata by the CLI.
async fn archive_from_cli(cli: &mut Cli, session: &str, version: u64) {
    let mut metadata = resumable_metadata();
    let archived = json!({"path": "/code", "host": "box", "lifecycleState": "archived", "archivedBy": "cli"});
    metadata.as_object_mut().unwrap().extend(archived.as_object().unwrap().clone());
    cli.put_metadata(session, version, &metadata).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_cli_archives_after_a_resume_stays_archived() {
    let (world, session, mut runner) = resumable_session().await;
    let reply = accepted_resume(&world, &session, &mut runner).await;
    let mut cli = world.live_cli(&session).await;
    reply.reply().await.ok();
    archive_from_cli(&mut cli, &session, 1).await;
    world.advance(2_000).await;
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.get_session(&session).await["metadata"]["lifecycleState"], "archived");
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.send_keep_alive(&world, &session).await;
    let detail = world.get_session(&session).await;
    assert_eq!((&detail["active"], &detail["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_that_unarchives_a_session_is_acknowledged_after_the_commit() {
    let (world, session, mut runner) = resumable_session().await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    let reply = accepted_resume(&world, &session, &mut runner).await;
    let mut cli = world.cli(&session).await;
    world.db.hold_results(BatchKind::Writes);
    let ack = cli.emit_for_ack("session-alive", &json!({"sid": session, "time": world.now()}));
    assert_eq!(cli.try_ack(ack).await, None);
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await, json!({"ok": true}));
    reply.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_connects_within_ten_minutes_of_a_failed_resume_unarchives_its_session() {
    for (ms, hibernates, active) in
        [(599_000, false, true), (600_000, false, false), (599_000, true, true), (600_000, true, false)]
    {
        let (world, session, mut runner) = resumable_session().await;
        world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
        let reply = accepted_resume(&world, &session, &mut runner).await;
        world.advance(ms).await;
        reply.reply().await.assert_error(504, "resume_failed");
        world.hibernate_if(hibernates).await;
        world.live_cli(&session).await;
        assert_eq!(world.get_session(&session).await["active"], active, "after {ms} ms, {hibernates}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_succeeds_even_if_a_failed_write_clears_the_cache_during_the_resume() {
    let (world, session, mut runner) = resumable_session().await;
    let (other, mut cli) = world.active_session("/other").await;
    world.hibernate_and_wake().await;
    cli.send_keep_alive(&world, &other).await;
    world.get_session(&session).await;
    world.db.hold_results(BatchKind::Reads);
    let reply = resume(&world, &session);
    assert_eq!(world.held_results().await, 1, "the read of the machines is held");
    world.db.stop_holding();
    world.db.fail(BatchKind::Writes, permanent_error());
    assert_eq!(cli.send_message(&other, "lost").await["ok"], false);
    world.db.release_results();
    runner.respond_to_next_call("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
}

#[tokio::test(start_paused = true)]
async fn a_slow_agent_unarchives_its_session_even_after_a_late_session_end_of_the_old_cli() {
    for hibernates in [false, true] {
        let (world, session, mut runner) = resumable_session().await;
        let mut old_cli = world.live_cli(&session).await;
        world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
        let reply = accepted_resume(&world, &session, &mut runner).await;
        world.advance(15_000).await;
        reply.reply().await.assert_error(504, "resume_failed");
        old_cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
        world.hibernate_if(hibernates).await;
        world.live_cli(&session).await;
        assert_eq!(world.get_session(&session).await["active"], true, "{hibernates}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_archived_after_a_failed_resume_stays_archived() {
    let (world, session, mut runner) = resumable_session().await;
    let archive = format!("/api/sessions/{session}/archive");
    world.post(&archive, &json!({})).await.ok();
    let reply = accepted_resume(&world, &session, &mut runner).await;
    world.advance(15_000).await;
    reply.reply().await.assert_error(504, "resume_failed");
    world.post(&archive, &json!({})).await.ok();
    world.live_cli(&session).await;
    let detail = world.get_session(&session).await;
    assert_eq!((&detail["active"], &detail["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
}
