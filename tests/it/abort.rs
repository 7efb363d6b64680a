//! The state of a session after an abort. A keep-alive that the CLI sends after the abort request keeps the session active. A
//! session whose CLI is still connected is neither deleted nor started again.

use crate::lifecycle::{end_session, post_action};
use crate::support::merge::{resumable_metadata, resume, success};
use crate::support::prelude::*;

const RESUME_TIMEOUT_MS: u64 = 15_000;
const NOT_REPORTED_ALIVE: &str = "The session's CLI is connected, but has not reported the session alive. Wait a few seconds and try again, \
    or resume the session.";

/// Aborts a session. Its CLI acknowledges without a keep-alive.
async fn abort(world: &World, session: &str, cli: &mut Cli) {
    cli.serve(post_action(world, session, "abort", &json!({})), "abort", &json!({})).await.ok();
}

/// An aborted session whose CLI remains connected, and the runner of its machine.
async fn aborted_session() -> (World, String, Cli, Cli) {
    let world = World::new();
    let runner = world.spawner("m", "box").await;
    let (session, mut cli) = world.active_session_with("/code", resumable_metadata()).await;
    cli.register("abort").await;
    abort(&world, &session, &mut cli).await;
    assert!(!world.is_active(&session).await);
    (world, session, cli, runner)
}

async fn delete(world: &World, session: &str) -> Reply {
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_between_the_request_and_its_acknowledgement_keeps_the_session_active() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
    let mut web = world.web("all=true").await;
    let reply = post_action(&world, &session, "abort", &json!({}));
    let call = cli.next_call().await;
    cli.emit_with_ack("session-alive", &json!({"sid": session, "thinking": false})).await;
    cli.respond(&call, &json!({}));
    reply.reply().await.ok();
    let record = world.get_session(&session).await;
    assert_eq!(record["active"], true);
    assert_eq!(record["agentState"]["completedRequests"]["r"]["status"], "canceled");
    let shown_inactive = web.events().await.into_iter().find(|event| event["data"]["active"] == false);
    assert_eq!(shown_inactive, None);
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_before_the_request_does_not_keep_the_session_active() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    cli.send_keep_alive(&world, &session).await;
    abort(&world, &session, &mut cli).await;
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn other_activity_between_the_request_and_its_acknowledgement_does_not_keep_the_session_active() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    let reply = post_action(&world, &session, "abort", &json!({}));
    let call = cli.next_call().await;
    cli.put_agent_state(&session, 1, &json!({"requests": {}})).await;
    cli.register("readFile").await;
    cli.respond(&call, &json!({}));
    reply.reply().await.ok();
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_after_the_acknowledgement_is_not_overwritten_while_the_abort_waits_for_the_database() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "x".repeat(1_500_000)}}})).await;
    let reply = post_action(&world, &session, "abort", &json!({}));
    let call = cli.next_call().await;
    world.db.hold_results(BatchKind::Reads);
    cli.respond(&call, &json!({}));
    assert_eq!(world.held_results().await, 1, "the abort reads the pending request");
    cli.emit("session-alive", &json!({"sid": session}));
    world.release_results().await;
    reply.reply().await.ok();
    assert!(world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_disconnects_after_an_abort_leaves_an_inactive_session_at_once() {
    for alive_after in [false, true] {
        let (world, session, mut cli) = session_with_methods(&["abort"]).await;
        let reply = post_action(&world, &session, "abort", &json!({}));
        let call = cli.next_call().await;
        cli.send_keep_alive(&world, &session).await;
        cli.respond(&call, &json!({}));
        reply.reply().await.ok();
        if alive_after {
            cli.send_keep_alive(&world, &session).await;
        }
        cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
        cli.socket.close();
        world.advance(1).await;
        let record = world.get_session(&session).await;
        assert_eq!(record["active"], alive_after, "a later keep-alive shows that the CLI did not exit");
        assert_eq!(record["agentState"]["requests"]["r"]["tool"], "T", "a request after the abort is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_disconnects_after_an_abort_does_not_end_a_session_that_another_cli_serves() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    let second = world.live_cli(&session).await;
    let reply = post_action(&world, &session, "abort", &json!({}));
    let call = cli.next_call().await;
    cli.send_keep_alive(&world, &session).await;
    cli.respond(&call, &json!({}));
    reply.reply().await.ok();
    cli.socket.close();
    world.advance(1).await;
    assert!(world.is_active(&session).await);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_ends_its_session_during_an_abort_leaves_an_inactive_session() {
    for ends_before_the_acknowledgement in [true, false] {
        let (world, session, mut cli) = session_with_methods(&["abort"]).await;
        let reply = post_action(&world, &session, "abort", &json!({}));
        let call = cli.next_call().await;
        cli.send_keep_alive(&world, &session).await;
        if ends_before_the_acknowledgement {
            end_session(&world, &session, &mut cli).await;
        }
        cli.respond(&call, &json!({}));
        reply.reply().await.ok();
        if !ends_before_the_acknowledgement {
            end_session(&world, &session, &mut cli).await;
        }
        assert!(!world.is_active(&session).await, "{ends_before_the_acknowledgement}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_for_an_inactive_session_says_if_its_cli_is_connected_but_has_not_reported_it_alive() {
    let (world, session) = idle_session().await;
    let path = format!("/api/sessions/{session}");
    let send = async || world.post(&format!("{path}/messages"), &json!({"text": "hi"})).await;
    let mut cli = world.cli(&session).await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
    let answered = world.post(&format!("{path}/permissions/r/approve"), &json!({})).await;
    let mode = world.post(&format!("{path}/permission-mode"), &json!({"mode": "plan"})).await;
    for reply in [send().await, answered, mode, world.post(&format!("{path}/abort"), &json!({})).await] {
        assert_eq!(reply.assert_error(409, "session_inactive")["error"], NOT_REPORTED_ALIVE);
    }
    cli.socket.close();
    run_until_idle().await;
    let error = send().await.assert_error(409, "session_inactive")["error"].clone();
    assert_eq!(error, "The session is not active. Resume it, or wait until its CLI has reconnected.");
}

#[tokio::test(start_paused = true)]
async fn an_aborted_session_whose_cli_is_connected_is_not_deleted() {
    let (world, session, mut cli, _) = aborted_session().await;
    world.hibernate_and_wake().await;
    let error = delete(&world, &session).await.assert_error(409, "session_active")["error"].clone();
    assert_eq!(
        error,
        "The session's CLI is still connected. Archive the session, which ends the CLI, then delete the session."
    );
    cli.register("killSession").await;
    cli.serve(post_action(&world, &session, "archive", &json!({})), "killSession", &json!({})).await.ok();
    delete(&world, &session).await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_inactive_session_can_be_deleted_once_its_cli_has_left_it() {
    for reason in ["disconnect", "session-end", "no keep-alive for 31 s"] {
        let (world, session, mut cli, _) = aborted_session().await;
        match reason {
            "disconnect" => cli.socket.close(),
            "session-end" => end_session(&world, &session, &mut cli).await,
            _ => world.advance(31_000).await,
        }
        run_until_idle().await;
        assert_eq!(delete(&world, &session).await.ok(), json!({"ok": true}), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_of_an_aborted_session_waits_for_its_cli_instead_of_starting_another_process() {
    let (world, session, mut cli, mut runner) = aborted_session().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    run_until_idle().await;
    assert!(replies.iter().all(|reply| !reply.is_ready()));
    world.advance(9_000).await;
    cli.send_keep_alive(&world, &session).await;
    for reply in replies {
        assert_eq!(reply.reply().await.ok(), success(&session));
    }
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_resume_starts_a_process_once_the_connected_cli_leaves_the_session() {
    for reason in ["disconnect", "session-end"] {
        let (world, session, mut cli, mut runner) = aborted_session().await;
        let reply = resume(&world, &session);
        runner.socket.assert_no_frames().await;
        match reason {
            "disconnect" => cli.socket.close(),
            _ => end_session(&world, &session, &mut cli).await,
        }
        runner.respond_to_next_call("spawnSession", &json!({"success": true})).await;
        world.live_cli(&session).await;
        assert_eq!(reply.reply().await.ok(), success(&session), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_fails_while_the_connected_cli_is_silent_and_starts_a_process_after_its_timeout() {
    let (world, session, _cli, mut runner) = aborted_session().await;
    let reply = resume(&world, &session);
    run_until_idle().await;
    assert!(world.rt.alarm().is_some_and(|at| at <= world.now() + RESUME_TIMEOUT_MS));
    world.advance(RESUME_TIMEOUT_MS - 1).await;
    assert!(!reply.is_ready());
    world.advance(1).await;
    reply.reply().await.assert_error(504, "resume_failed");
    world.advance(5_000).await;
    let reply = resume(&world, &session);
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m"})).await;
    world.advance(RESUME_TIMEOUT_MS).await;
    runner.respond_to_next_call("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
}
