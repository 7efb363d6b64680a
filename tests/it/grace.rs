//! Grace periods: a call waits for a CLI to reconnect after a lost connection or a restart of the hub.

use crate::support::cli::Cli;
use crate::support::live_session::live_session;
use crate::support::rest::PendingReply;
use crate::support::{RECONNECT_GRACE_MS, RPC_TIMEOUT_MS, World, run_until_idle};
use serde_json::{Value, json};

/// How long CLIs are expected to reconnect after a restart.
const RESTART_GRACE_MS: u64 = 10_000;

/// An active session whose CLI has registered `gitStatus`.
async fn session_with_git_status() -> (World, String, Cli) {
    let (world, session, mut cli) = live_session().await;
    cli.register("gitStatus").await;
    (world, session, cli)
}

fn git_status(world: &World, session: &str) -> PendingReply {
    world.start("GET", &format!("/api/sessions/{session}/git-status"), "")
}

/// Reconnects the session's CLI, which answers the one waiting call.
async fn reconnect_and_answer(world: &World, session: &str) -> Cli {
    let mut cli = world.cli(session).await;
    cli.register("gitStatus").await;
    cli.serve("gitStatus", &json!({"success": true})).await;
    cli
}

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
async fn a_method_that_was_unregistered_or_never_registered_is_not_waited_for() {
    let (world, session, mut cli) = session_with_git_status().await;
    cli.register("readFile").await;
    cli.emit_with_ack("rpc-unregister", &json!({"method": "readFile"})).await;
    cli.socket.close();
    for (route, method) in [("file?path=a", "readFile"), ("skills", "listSkills")] {
        let answer = world.get(&format!("/api/sessions/{session}/{route}")).await.ok();
        assert_eq!(answer["error"], format!("No handler registered for {method}"));
    }
    // Nor is a CLI that ended its session.
    let (world, session, mut cli) = session_with_git_status().await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    assert_eq!(git_status(&world, &session).reply().await.ok(), no_handler());
}

#[tokio::test(start_paused = true)]
async fn the_wait_counts_against_the_timeout_of_the_call() {
    let (world, session, cli) = session_with_git_status().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    world.advance(RECONNECT_GRACE_MS / 2).await;
    let mut back = world.cli(&session).await;
    back.register("gitStatus").await;
    back.next_call().await;
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
    // It registers and disconnects before the task of the call runs.
    let back = world.cli(&session).await;
    let conn = world.rt.conn(back.socket.key).unwrap();
    world.hub().on_text(conn, r#"42/cli,["rpc-register",{"method":"gitStatus"}]"#.into()).await;
    back.socket.close();
    run_until_idle().await;
    assert!(!call.is_ready());
    let _cli = reconnect_and_answer(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_restart_waits_for_the_cli_to_reconnect() {
    let (world, session, cli) = session_with_git_status().await;
    run_until_idle().await;
    // A restart closes the sockets without an event.
    world.rt.remove_socket(world.rt.conn(cli.socket.key).unwrap());
    world.restart();
    let call = git_status(&world, &session);
    world.advance(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_ready());
    let mut back = reconnect_and_answer(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
    // Its other methods have two more seconds.
    let skills = world.start("GET", &format!("/api/sessions/{session}/skills"), "");
    run_until_idle().await;
    back.register("listSkills").await;
    back.serve("listSkills", &json!({"success": true, "skills": []})).await;
    skills.reply().await.ok();
    world.advance(RECONNECT_GRACE_MS).await;
    let answer = world.get(&format!("/api/sessions/{session}/directory")).await.ok();
    assert_eq!(answer["error"], "No handler registered for listDirectory");
}

#[tokio::test(start_paused = true)]
async fn a_cli_is_expected_for_ten_seconds_after_a_restart() {
    let (world, session, cli) = session_with_git_status().await;
    let idle = world.create_session("/idle").await;
    run_until_idle().await;
    world.rt.remove_socket(world.rt.conn(cli.socket.key).unwrap());
    world.restart();
    assert_eq!(git_status(&world, &idle).reply().await.ok(), no_handler(), "it was not active");
    world.advance(RESTART_GRACE_MS - 1).await;
    let call = git_status(&world, &session);
    run_until_idle().await;
    assert!(!call.is_ready());
    world.advance(RECONNECT_GRACE_MS).await;
    assert_eq!(call.reply().await.ok(), no_handler());
    assert_eq!(git_status(&world, &session).reply().await.ok(), no_handler());
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_disconnected_long_before_hibernation_is_not_waited_for() {
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
    let resumable_metadata = json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"});
    let session = world.create_session_with("/code", resumable_metadata).await;
    run_until_idle().await;
    runner.socket.close();
    let resumed = world.start("POST", &format!("/api/sessions/{session}/resume"), "");
    run_until_idle().await;
    assert!(!resumed.is_ready());
    let mut back = world.spawner("m", "box").await;
    back.serve("spawnSession", &json!({"success": true})).await;
    let _cli = world.live_cli(&session).await;
    resumed.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_to_a_permission_request_does_not_wait() {
    let (world, session, mut cli) = session_with_git_status().await;
    cli.register("permission").await;
    cli.update_state(&session, 1, &json!({"requests": {"r1": {"tool": "shell", "arguments": {}}}})).await;
    cli.socket.close();
    let path = format!("/api/sessions/{session}/permissions/r1");
    let approved = world.start("POST", &format!("{path}/approve"), "{}");
    run_until_idle().await;
    world.post(&format!("{path}/deny"), &json!({})).await.assert_error(404, "request_not_found");
    let mut back = world.live_cli(&session).await;
    back.register("permission").await;
    back.serve("permission", &json!({})).await;
    approved.reply().await.ok();
}
