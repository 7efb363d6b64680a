//! Sessions that several sockets serve, and sockets that serve sessions which they did not name in CONNECT.

mod installations;

use crate::support::prelude::*;

/// An active session with a pending request. The socket of its runner did not name the session in CONNECT.
async fn session_of_runner() -> (World, String, Cli) {
    let (world, session) = idle_session().await;
    let mut runner = world.bare_cli().await;
    runner.send_keep_alive(&world, &session).await;
    runner.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
    run_until_idle().await;
    (world, session, runner)
}

fn session_end(session: &str) -> Value {
    json!({"sid": session, "time": 0})
}

#[tokio::test(start_paused = true)]
async fn a_session_end_of_another_socket_does_not_end_a_session_that_a_runner_serves() {
    for hibernates in [false, true] {
        let (world, session, mut runner) = session_of_runner().await;
        let mut other = world.cli(&session).await;
        world.advance(20_000).await;
        runner.send_keep_alive(&world, &session).await;
        world.hibernate_if(hibernates).await;
        assert_eq!(other.emit_with_ack("session-end", &session_end(&session)).await, json!({"ok": true}));
        let record = world.get_session(&session).await;
        assert_eq!(record["active"], true, "{hibernates}");
        assert_eq!(record["agentState"]["requests"]["r"]["tool"], "T", "{hibernates}");
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alives_of_a_runner_write_nothing_to_storage() {
    let (world, session, mut runner) = session_of_runner().await;
    let writes = world.rt.kv_writes();
    for _ in 0..10 {
        runner.send_keep_alive(&world, &session).await;
    }
    assert_eq!(world.rt.kv_writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_session_of_a_runner_continues_after_hibernation() {
    let (world, session, mut runner) = session_of_runner().await;
    world.advance(20_000).await;
    runner.send_keep_alive(&world, &session).await;
    world.hibernate_and_wake().await;
    world.advance(29_000).await;
    assert!(world.is_active(&session).await);
    world.advance(3_000).await;
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_runner_gets_a_full_timeout_after_a_restart() {
    let (world, session, mut runner) = session_of_runner().await;
    world.advance(20_000).await;
    runner.send_keep_alive(&world, &session).await;
    world.advance(9_000).await;
    world.redeploy();
    world.advance(29_000).await;
    assert!(world.is_active(&session).await);
    world.advance(1_000).await;
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_session_of_a_runner_waits_for_the_runner_after_a_restart() {
    let (world, session, mut runner) = session_of_runner().await;
    let method = format!("{session}:gitStatus");
    runner.register(&method).await;
    world.redeploy();
    world.advance(9_000).await;
    let calling = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let mut runner = world.bare_cli().await;
    runner.register(&method).await;
    runner.respond_to_next_call(&method, &json!({"success": true, "stdout": ""})).await;
    assert_eq!(calling.reply().await.ok()["success"], true);
}

#[tokio::test(start_paused = true)]
async fn a_runner_gets_updates_of_a_session_that_has_expired() {
    let (world, session, mut runner) = session_of_runner().await;
    world.advance(31_000).await;
    assert!(!world.is_active(&session).await);
    let renamed = world.start("PATCH", &format!("/api/sessions/{session}"), r#"{"name": "n"}"#);
    renamed.reply().await.ok();
    assert_eq!(runner.next_event("update").await["body"]["t"], "update-session");
}

#[tokio::test(start_paused = true)]
async fn active_sessions_and_machines_replace_inactive_ones_in_the_attachment_of_a_socket() {
    let world = World::new();
    let mut runner = world.bare_cli().await;
    let mut sessions = Vec::new();
    for n in 0..300 {
        sessions.push(world.create_session(&format!("/{n}")).await);
        runner.emit_with_ack("message", &json!({"sid": sessions[n], "message": {}})).await;
    }
    assert!(runner.try_event("error").await.is_none(), "the sessions are inactive");
    for session in &sessions {
        runner.send_keep_alive(&world, session).await;
    }
    let error = runner.next_event("error").await;
    assert_eq!((&error["code"], &error["scope"]), (&json!("too-many-served"), &json!("session")));
    while runner.try_event("error").await.is_some() {}
    assert!(world.is_active(&sessions[299]).await, "a keep-alive has an effect even if the attachment is full");
    world.advance(31_000).await;
    for n in 0..300 {
        world.register_machine(&format!("machine-{n:032}")).await;
        runner.emit_with_ack("machine-alive", &json!({"machineId": format!("machine-{n:032}"), "time": 0})).await;
    }
    assert_eq!(runner.next_event("error").await["scope"], "machine", "the sessions have expired, the machines not");
    while runner.try_event("error").await.is_some() {}
    world.advance(46_000).await;
    runner.send_keep_alive(&world, &sessions[299]).await;
    assert!(runner.try_event("error").await.is_none(), "the machines are offline");
}

#[tokio::test(start_paused = true)]
async fn methods_of_other_sessions_replace_the_methods_of_sessions_that_the_socket_has_ended() {
    let world = World::new();
    let mut runner = world.bare_cli().await;
    let mut sessions = Vec::new();
    for n in 0..50 {
        let session = world.create_session(&format!("/{n}")).await;
        for method in 0..10 {
            runner.register(&format!("{session}:method-{method:020}")).await;
        }
        runner.register(&format!("{session}:gitStatus")).await;
        runner.send_keep_alive(&world, &session).await;
        assert_eq!(runner.emit_with_ack("session-end", &session_end(&session)).await, json!({"ok": true}));
        sessions.push(session);
    }
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        let oldest = world.get(&format!("/api/sessions/{}/git-status", sessions[0])).await.ok();
        assert_eq!(oldest["error"], "No handler registered for gitStatus", "{hibernates}");
        let calling = world.start("GET", &format!("/api/sessions/{}/git-status", sessions[49]), "");
        runner.respond_to_next_call(&format!("{}:gitStatus", sessions[49]), &json!({"success": true})).await;
        assert_eq!(calling.reply().await.ok()["success"], true, "{hibernates}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_one_socket_has_ended_expires_if_the_other_socket_shows_no_activity() {
    for (is_served, hibernates) in [(false, false), (false, true), (true, false), (true, true)] {
        let (world, session, mut first) = live_session().await;
        let mut second = world.live_cli(&session).await;
        first.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "x".repeat(1_500_000)}}})).await;
        first.emit_with_ack("session-end", &session_end(&session)).await;
        first.socket.close();
        assert!(world.is_active(&session).await);
        world.hibernate_if(hibernates).await;
        world.advance(20_000).await;
        if is_served {
            second.send_keep_alive(&world, &session).await;
        }
        world.advance(31_000).await;
        let record = world.get_session(&session).await;
        assert_eq!(record["active"], false, "{is_served} {hibernates}");
        let (pending, canceled) = if is_served { (1, Value::Null) } else { (0, json!("canceled")) };
        assert_eq!(record["agentState"]["requests"].as_object().map_or(0, |requests| requests.len()), pending);
        assert_eq!(record["agentState"]["completedRequests"]["r"]["status"], canceled, "{is_served} {hibernates}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_the_last_of_its_sockets_ends_it() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.live_cli(&session).await;
    first.emit_with_ack("session-end", &session_end(&session)).await;
    assert!(world.is_active(&session).await);
    second.emit_with_ack("session-end", &session_end(&session)).await;
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_end_does_not_end_a_session_to_which_another_cli_has_just_connected() {
    let (world, session, mut first) = live_session().await;
    let _second = world.cli(&session).await;
    first.emit_with_ack("session-end", &session_end(&session)).await;
    assert!(world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn the_close_of_a_socket_does_not_count_as_activity_of_another_socket() {
    let (world, session, mut first) = live_session().await;
    let half_open = world.live_cli(&session).await;
    world.advance(28_000).await;
    let closing = world.live_cli(&session).await;
    closing.socket.close();
    world.advance(4_000).await;
    first.emit_with_ack("session-end", &session_end(&session)).await;
    assert!(!world.is_active(&session).await, "no other socket has shown activity for 32 s");
    drop(half_open);
}

#[tokio::test(start_paused = true)]
async fn activity_restarts_the_timeout_of_an_active_session_but_does_not_activate_an_inactive_session() {
    for activity in ["connect", "register", "metadata", "state"] {
        let (world, session, mut cli) = live_session().await;
        let metadata = json!({"path": "/code", "host": "h"});
        let update = json!({"sid": session, "expectedVersion": 1, "metadata": metadata});
        let mut connected = Vec::new();
        for is_expected in [true, false] {
            world.advance(20_000).await;
            match activity {
                "connect" => connected.push(world.cli(&session).await),
                "register" => cli.register(&format!("{session}:readFile")).await,
                "metadata" => drop(cli.emit_with_ack("update-metadata", &update).await),
                _ => drop(cli.update_agent_state(&session, 1, &json!({"requests": {}})).await),
            }
            let last_active_at = world.now();
            world.hibernate_and_wake().await;
            assert_eq!(world.is_active(&session).await, is_expected, "{activity}");
            assert_eq!(world.get_session(&session).await["activeAt"] == last_active_at, is_expected, "{activity}");
            world.advance(29_000).await;
            assert_eq!(world.is_active(&session).await, is_expected, "{activity}");
            world.advance(3_000).await;
            assert!(!world.is_active(&session).await, "{activity}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_counts_as_activity_when_it_arrives() {
    let (world, session, cli) = live_session().await;
    world.advance(29_000).await;
    world.db.hold_all_results();
    cli.emit("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {}}));
    world.advance(5_000).await;
    world.release_results().await;
    assert!(world.is_active(&session).await);
}
