//! Grace periods: a call waits for a CLI to reconnect after the CLI has lost its connection or the hub has restarted.

use crate::support::merge::resumable_metadata;
use crate::support::prelude::*;

/// How long after a restart a call still waits for a CLI to reconnect.
const RESTART_GRACE_MS: u64 = 10_000;

/// An active session whose CLI has registered `gitStatus`.
async fn session_with_git_status() -> (World, String, Cli) {
    session_with_methods(&["gitStatus"]).await
}

fn git_status(world: &World, session: &str) -> PendingReply {
    world.start("GET", &format!("/api/sessions/{session}/git-status"), "")
}

/// Restarts the hub, which closes the socket of the CLI without an event.
async fn restart_without(world: &World, cli: &Cli) {
    run_until_idle().await;
    world.rt.remove_socket(world.rt.conn(cli.socket.key).unwrap());
    world.restart();
}

/// Reconnects the CLI of a session. The CLI responds to the waiting call.
async fn reconnect_and_answer(world: &World, session: &str) -> Cli {
    let mut cli = world.cli(session).await;
    cli.register("gitStatus").await;
    cli.respond_to_next_call("gitStatus", &json!({"success": true})).await;
    cli
}

/// The response to a call for which there is no handler.
fn no_handler() -> Value {
    json!({"success": false, "error": "No handler registered for gitStatus"})
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_cli_that_has_just_disconnected() {
    let (world, session, cli) = session_with_git_status().await;
    cli.socket.close();
    world.advance(RECONNECT_GRACE_MS - 1).await;
    let call = git_status(&world, &session);
    world.advance(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_ready());
    let _cli = reconnect_and_answer(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn the_alarm_ends_the_wait_after_two_seconds() {
    let (world, session, cli) = session_with_git_status().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), Some(world.now() + RECONNECT_GRACE_MS));
    world.advance(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_ready());
    world.advance(1).await;
    assert_eq!(call.reply().await.ok(), no_handler());
    assert_eq!(git_status(&world, &session).reply().await.ok(), no_handler(), "no further call waits");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_method_that_the_disconnected_cli_had_not_registered_fails_at_once() {
    let (world, session, mut cli) = session_with_git_status().await;
    cli.register("readFile").await;
    cli.emit_with_ack("rpc-unregister", &json!({"method": "readFile"})).await;
    cli.socket.close();
    for (route, method) in [("file?path=a", "readFile"), ("skills", "listSkills")] {
        let answer = world.get(&format!("/api/sessions/{session}/{route}")).await.ok();
        assert_eq!(answer["error"], format!("No handler registered for {method}"));
    }
    // A call also fails at once if the CLI has ended its session.
    let (world, session, mut cli) = session_with_git_status().await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    assert_eq!(git_status(&world, &session).reply().await.ok(), no_handler());
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_includes_the_wait_for_the_cli() {
    let (world, session, cli) = session_with_git_status().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    world.advance(RECONNECT_GRACE_MS / 2).await;
    let mut reconnected = world.cli(&session).await;
    reconnected.register("gitStatus").await;
    reconnected.next_call().await;
    world.advance(RPC_TIMEOUT_MS - RECONNECT_GRACE_MS / 2 - 1).await;
    assert!(!call.is_ready());
    world.advance(1).await;
    assert_eq!(call.reply().await.ok()["error"], "RPC timed out: gitStatus");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_again_if_the_cli_disconnects_at_once() {
    let (world, session, cli) = session_with_git_status().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    run_until_idle().await;
    // The CLI registers the method and disconnects before the task of the call runs.
    let reconnected = world.cli(&session).await;
    let conn = world.rt.conn(reconnected.socket.key).unwrap();
    world.hub().socket(conn).on_text(r#"42/cli,["rpc-register",{"method":"gitStatus"}]"#.into()).await;
    reconnected.socket.close();
    assert!(!call.has_response().await);
    let _cli = reconnect_and_answer(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_restart_waits_for_the_cli_to_reconnect() {
    let (world, session, cli) = session_with_git_status().await;
    restart_without(&world, &cli).await;
    let call = git_status(&world, &session);
    world.advance(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_ready());
    let mut reconnected = reconnect_and_answer(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
    // A call of another method waits two more seconds for its registration.
    let skills = world.start_and_run("GET", &format!("/api/sessions/{session}/skills"), "").await;
    reconnected.register("listSkills").await;
    reconnected.respond_to_next_call("listSkills", &json!({"success": true, "skills": []})).await;
    skills.reply().await.ok();
    world.advance(RECONNECT_GRACE_MS).await;
    let answer = world.get(&format!("/api/sessions/{session}/directory")).await.ok();
    assert_eq!(answer["error"], "No handler registered for listDirectory");
}

#[tokio::test(start_paused = true)]
async fn for_ten_seconds_after_a_restart_a_call_of_an_active_session_waits_for_its_cli() {
    let (world, session, cli) = session_with_git_status().await;
    let idle = world.create_session("/idle").await;
    restart_without(&world, &cli).await;
    assert_eq!(git_status(&world, &idle).reply().await.ok(), no_handler(), "the session is inactive");
    world.advance(RESTART_GRACE_MS - 1).await;
    let call = git_status(&world, &session);
    assert!(!call.has_response().await);
    world.advance(RECONNECT_GRACE_MS).await;
    assert_eq!(call.reply().await.ok(), no_handler());
    assert_eq!(git_status(&world, &session).reply().await.ok(), no_handler());
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_at_once_if_the_cli_disconnected_long_before_hibernation() {
    let (world, session, cli) = session_with_git_status().await;
    cli.socket.close();
    world.advance(RESTART_GRACE_MS).await;
    world.hibernate_and_wake().await;
    assert_eq!(git_status(&world, &session).reply().await.ok(), no_handler());
}

#[tokio::test(start_paused = true)]
async fn a_resume_waits_for_a_runner_to_reconnect() {
    let world = World::new();
    let runner = world.spawner("m", "box").await;
    let session = world.create_session_with("/code", resumable_metadata()).await;
    run_until_idle().await;
    runner.socket.close();
    let resumed = world.start("POST", &format!("/api/sessions/{session}/resume"), "");
    assert!(!resumed.has_response().await);
    let mut reconnected = world.spawner("m", "box").await;
    reconnected.respond_to_next_call("spawnSession", &json!({"success": true})).await;
    let _cli = world.live_cli(&session).await;
    resumed.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_to_a_permission_request_does_not_wait() {
    let (world, session, mut cli) = session_with_git_status().await;
    cli.register("permission").await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r1": {"tool": "shell", "arguments": {}}}})).await;
    cli.socket.close();
    let path = format!("/api/sessions/{session}/permissions/r1");
    let approved = world.start_and_run("POST", &format!("{path}/approve"), "{}").await;
    world.post(&format!("{path}/deny"), &json!({})).await.assert_error(404, "request_not_found");
    let mut reconnected = world.live_cli(&session).await;
    reconnected.register("permission").await;
    reconnected.respond_to_next_call("permission", &json!({})).await;
    approved.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_call_right_after_a_restart_waits_for_a_cli_that_reconnects_within_ten_seconds() {
    for reconnects in [true, false] {
        let (world, session, cli) = session_with_git_status().await;
        restart_without(&world, &cli).await;
        let call = git_status(&world, &session);
        world.advance(RESTART_GRACE_MS - 1).await;
        assert!(!call.is_ready());
        if reconnects {
            let _cli = reconnect_and_answer(&world, &session).await;
            assert_eq!(call.reply().await.ok(), json!({"success": true}));
        } else {
            world.advance(1).await;
            assert_eq!(call.reply().await.ok(), no_handler());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_restart_ends_two_seconds_after_its_cli_has_registered_only_other_methods() {
    let (world, session, cli) = session_with_git_status().await;
    restart_without(&world, &cli).await;
    let call = git_status(&world, &session);
    world.advance(1_000).await;
    let mut cli = world.cli(&session).await;
    cli.register("readFile").await;
    world.advance(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_ready());
    world.advance(1).await;
    assert_eq!(call.reply().await.ok(), no_handler());
}
