//! Answers to permission requests while the CLI, the database or another answer changes the session.

use crate::support::cli::Call;
use crate::support::permissions::{
    agent_state, answer, completed, pending, request, session_with_requests, start_answer, state_event,
};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn the_second_of_two_concurrent_answers_is_rejected() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let first = start_answer(&world, &session, "r1/approve", &json!({}));
    let call = cli.next_call().await;
    let second = start_answer(&world, &session, "r1/deny", &json!({}));
    let other = start_answer(&world, &session, "r2/deny", &json!({}));
    second.reply().await.assert_error(404, "request_not_found");
    // Another request can be answered during the call.
    assert_eq!(cli.respond_to_next_call("permission", &json!({})).await["id"], "r2");
    other.reply().await.ok();
    cli.respond(&call, &json!({}));
    first.reply().await.ok();
    assert_eq!(completed(&world, &session, "r1").await["status"], "approved");
    assert_eq!(world.get_session(&session).await["agentStateVersion"], 4);
    start_answer(&world, &session, "r1/deny", &json!({})).reply().await.assert_error(404, "request_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_request_stays_pending_if_the_cli_does_not_accept_the_answer() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let assert_failed = async |reply: Reply, status, code| {
        reply.assert_error(status, code);
        let detail = world.get_session(&session).await;
        assert_eq!((&detail["agentStateVersion"], &detail["active"]), (&json!(2), &json!(true)), "{code}");
        assert_eq!(pending(&world, &session).await, ["r1", "r2"], "{code}");
        assert_eq!(detail.get("permissionMode"), None, "{code}");
    };
    let body = json!({"mode": "plan"});
    let reply = start_answer(&world, &session, "r1/approve", &body);
    cli.respond_to_next_call("permission", &json!({"success": false, "error": "no such request"})).await;
    let reply = reply.reply().await;
    assert!(reply.text.contains("no such request"), "{reply:?}");
    assert_failed(reply, 503, "cli_refused").await;

    let reply = start_answer(&world, &session, "r1/approve", &body);
    let expired_call = cli.next_call().await;
    cli.time_out_calls(&world, &session).await;
    assert_failed(reply.reply().await, 504, "rpc_timeout").await;
    cli.respond(&expired_call, &json!({}));
    run_until_idle().await;
    assert_eq!(pending(&world, &session).await, ["r1", "r2"], "a response after the timeout is ignored");

    assert_eq!(cli.emit_with_ack("rpc-unregister", &json!({"method": "permission"})).await, json!({"ok": true}));
    assert_failed(start_answer(&world, &session, "r1/approve", &body).reply().await, 503, "cli_unreachable").await;
    cli.register("permission").await;
    let reply = start_answer(&world, &session, "r1/approve", &body);
    cli.next_call().await;
    cli.socket.close();
    assert_failed(reply.reply().await, 503, "cli_unreachable").await;

    let mut reconnected = world.live_cli(&session).await;
    reconnected.register("permission").await;
    answer(&world, &session, &mut reconnected, "r1/approve", &body).await;
    assert_eq!(completed(&world, &session, "r1").await["status"], "approved");
}

#[tokio::test(start_paused = true)]
async fn if_the_cli_completes_the_request_during_the_call_its_entry_is_kept_and_the_mode_is_set() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let reply = start_answer(&world, &session, "r1/approve", &json!({"mode": "plan"}));
    let call = cli.next_call().await;
    let cli_entry = json!({"tool": "Bash", "arguments": {}, "status": "approved", "completedAt": 9, "by": "cli"});
    let completed_by_cli = json!({"requests": {"r2": request("Edit")}, "completedRequests": {"r1": cli_entry}});
    cli.put_agent_state(&session, 2, &completed_by_cli).await;
    let mut web = world.web("all=true").await;
    cli.respond(&call, &json!({}));
    reply.reply().await.ok();
    let detail = world.get_session(&session).await;
    assert_eq!((&detail["agentStateVersion"], &detail["permissionMode"]), (&json!(3), &json!("plan")));
    assert_eq!(detail["agentState"]["completedRequests"]["r1"], cli_entry);
    assert_eq!(web.next_event_of("session-updated").await["data"]["permissionMode"], "plan");
    // Setting the mode does not change the state's version.
    cli.put_agent_state(&session, 3, &completed_by_cli).await;
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["permissionMode"], "plan", "the mode is persisted");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_completes_an_answered_request_gets_a_version_mismatch() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    answer(&world, &session, &mut cli, "r1/deny", &json!({"reason": "too risky"})).await;
    let completed_by_cli =
        json!({"requests": {"r2": request("Edit")}, "completedRequests": {"r1": {"status": "denied"}}});
    let rejected = cli.update_agent_state(&session, 2, &completed_by_cli).await;
    assert_eq!((&rejected["result"], &rejected["version"]), (&json!("version-mismatch"), &json!(3)));
    assert_eq!(rejected["agentState"]["requests"], json!({"r2": request("Edit")}));
    assert_eq!(rejected["agentState"]["completedRequests"]["r1"]["reason"], "too risky");
    cli.put_agent_state(&session, 3, &rejected["agentState"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_succeeds_only_after_the_commit() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let mut web = world.web("all=true").await;
    world.db.hold_results(BatchKind::Writes);
    let reply = start_answer(&world, &session, "r1/approve", &json!({}));
    cli.respond_to_next_call("permission", &json!({})).await;
    assert!(!reply.has_response().await);
    web.0.assert_no_frames().await;
    cli.socket.assert_no_frames().await;
    world.db.release_results();
    reply.reply().await.ok();
    state_event(&mut web).await;
}

#[tokio::test(start_paused = true)]
async fn if_the_write_of_an_answer_fails_the_answer_is_an_error_and_the_request_stays_pending() {
    for moved_by_cli in [false, true] {
        for error in [permanent_error(), DbError::Unavailable(String::new())] {
            let (world, session, mut cli) = session_with_requests(&Value::Null).await;
            let case = format!("{error:?}, moved by the CLI: {moved_by_cli}");
            let reply = start_answer(&world, &session, "r1/approve", &json!({}));
            let call = cli.next_call().await;
            world.db.fail_all(BatchKind::Writes, error);
            if moved_by_cli {
                let state =
                    json!({"requests": {"r2": request("Edit")}, "completedRequests": {"r1": {"status": "approved"}}});
                cli.emit("update-state", &json!({"sid": session, "expectedVersion": 2, "agentState": state}));
            }
            cli.respond(&call, &json!({"ok": true}));
            world.advance(60_000).await;
            let reply = reply.reply().await;
            assert!(reply.status == 503 && reply.json()["code"] == "hub_unavailable", "{case}: {}", reply.text);
            world.db.repair();
            assert_eq!(agent_state(&world, &session).await["requests"]["r1"], request("Bash"), "{case}");
        }
    }
}

/// The call of an approval of `r1`, and a frame of the CLI that waits for the database. Later frames of the CLI are queued
/// behind this frame.
async fn call_and_waiting_frame(world: &World, session: &str, cli: &mut Cli) -> (PendingReply, Call) {
    let other = world.create_session("/other").await;
    world.hibernate_and_wake().await;
    let reply = start_answer(world, session, "r1/approve", &json!({}));
    let call = cli.next_call().await;
    world.db.hold_results(BatchKind::Reads);
    cli.emit("message", &json!({"sid": other, "message": "waits for its session"}));
    assert_eq!(world.held_results().await, 1);
    (reply, call)
}

#[tokio::test(start_paused = true)]
async fn an_approval_keeps_an_update_that_the_cli_sent_before_its_answer_and_that_waits_in_the_queue() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let (reply, call) = call_and_waiting_frame(&world, &session, &mut cli).await;
    let entry = json!({"tool": "Bash", "status": "approved", "note": "by the CLI"});
    let state = json!({"requests": {"r2": request("Edit")}, "completedRequests": {"r1": entry}});
    let update = json!({"sid": session, "expectedVersion": 2, "agentState": state});
    let update = cli.emit_for_ack("update-state", &update);
    cli.respond(&call, &json!({"success": true}));
    world.advance(RPC_TIMEOUT_MS).await;
    assert!(!reply.is_ready(), "the call is answered in time, and waits for the update");
    world.db.release_results();
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    assert_eq!(pick(&cli.wait_for_ack(update).await, ["result", "version"]), json!(["success", 3]));
    assert_eq!(completed(&world, &session, "r1").await, entry);
    assert_eq!(world.get_session(&session).await["agentStateVersion"], 3, "the hub has nothing to change");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_overtook_other_frames_completes_the_request_after_these_frames_took_effect() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let (reply, call) = call_and_waiting_frame(&world, &session, &mut cli).await;
    cli.respond(&call, &json!({"success": true}));
    assert!(!reply.has_response().await);
    world.db.release_results();
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    assert_eq!(completed(&world, &session, "r1").await["status"], "approved");
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_completed_even_if_the_cli_closes_its_socket_after_the_answer() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let (reply, call) = call_and_waiting_frame(&world, &session, &mut cli).await;
    cli.emit("message", &json!({"sid": session, "message": "is queued"}));
    cli.respond(&call, &json!({"success": true}));
    run_until_idle().await;
    cli.socket.close();
    world.db.release_results();
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    assert_eq!(completed(&world, &session, "r1").await["status"], "approved");
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 2, "the frames before the answer took effect");
}
