//! Pending requests of a session that ends or expires. The end of a session cancels its requests. After an expiry, the requests
//! are kept for a day, because the CLI may reconnect.

use crate::support::permissions::{
    agent_state, answer, completed, request, session_with_requests, start_answer, state_event,
};
use crate::support::prelude::*;

const DAY_MS: u64 = 24 * 60 * 60_000;

async fn pending(world: &World, session: &str) -> Vec<String> {
    agent_state(world, session).await["requests"].as_object().unwrap().keys().cloned().collect()
}

/// Makes a session expire. `way` is one of the ways of the test below.
async fn expire(world: &World, cli: &mut Cli, way: &str) {
    match way {
        "silence" => {}
        "closed socket" => cli.socket.close(),
        "hibernation" => world.hibernate_and_wake().await,
        "restart" => world.restart(),
        "deployment" => world.redeploy(),
        _ => panic!("{way}"),
    }
    world.advance(31_000).await;
}

#[tokio::test(start_paused = true)]
async fn pending_requests_of_an_expired_session_are_kept_and_can_be_answered_when_its_cli_is_back() {
    for way in ["silence", "closed socket", "hibernation", "restart", "deployment"] {
        let (world, session, mut cli) = session_with_requests(&Value::Null).await;
        expire(&world, &mut cli, way).await;
        let detail = world.get_session(&session).await;
        assert_eq!((&detail["active"], &detail["agentStateVersion"]), (&json!(false), &json!(2)), "{way}");
        assert_eq!(pending(&world, &session).await, ["r1", "r2"], "{way}");
        assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["pendingRequestsCount"], 2, "{way}");
        let reply = start_answer(&world, &session, "r1/approve", &json!({})).reply().await;
        let error = reply.assert_error(409, "session_inactive");
        let is_connected = cli.socket.is_open();
        let reason =
            if is_connected { "has not reported the session alive" } else { "can be answered when it is back" };
        assert!(error["error"].as_str().unwrap().contains(reason), "{way}: {error}");
        world.advance(DAY_MS - 60_000).await;
        world.hibernate_and_wake().await;
        let mut again = world.live_cli(&session).await;
        again.register("permission").await;
        answer(&world, &session, &mut again, "r1/approve", &json!({})).await;
        assert_eq!(completed(&world, &session, "r1").await["status"], "approved", "{way}");
        // The day is over, but the session is active.
        for _ in 0..6 {
            world.advance(20_000).await;
            again.send_keep_alive(&world, &session).await;
        }
        assert_eq!(pending(&world, &session).await, ["r2"], "{way}");
        let stored = world.rt.stored_entries();
        assert!(!stored.keys().any(|key| key.starts_with("kept:")), "{stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pending_requests_are_canceled_a_day_after_their_session_expired() {
    for (hibernates, is_large) in [(false, false), (true, false), (true, true)] {
        let (world, session, mut cli) = session_with_requests(&Value::Null).await;
        if is_large {
            let state = json!({"requests": {"r1": {"tool": "x".repeat(1_500_000)}, "r2": request("Edit")}});
            cli.put_agent_state(&session, 2, &state).await;
        }
        cli.socket.close();
        world.advance(30_000).await;
        world.hibernate_if(hibernates).await;
        world.advance(DAY_MS - 1).await;
        assert_eq!(pending(&world, &session).await, ["r1", "r2"]);
        let mut web = world.web("all=true").await;
        world.advance(1).await;
        assert!(pending(&world, &session).await.is_empty());
        assert_eq!(completed(&world, &session, "r2").await["status"], "canceled");
        let event = web.next_event_of("session-updated").await["data"].clone();
        assert!(event["agentStateVersion"].as_u64() > Some(2), "{event}");
        web.0.close();
        world.advance(DAY_MS).await;
        assert_eq!(world.rt.alarm(), None);
        let stored = world.rt.stored_entries();
        assert!(!stored.keys().any(|key| key.starts_with("kept:")), "{stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_expiry_of_a_session_starts_a_new_day() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    world.advance(30_000 + DAY_MS / 2).await;
    cli = match cli.socket.is_open() {
        true => cli,
        false => world.cli(&session).await,
    };
    cli.send_keep_alive(&world, &session).await;
    world.advance(30_000 + DAY_MS - 1).await;
    assert_eq!(pending(&world, &session).await, ["r1", "r2"]);
    world.advance(1).await;
    assert!(pending(&world, &session).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_after_a_day_is_retried_until_the_database_is_reachable() {
    for on in [BatchKind::Reads, BatchKind::Writes] {
        let (world, session, cli) = session_with_requests(&Value::Null).await;
        cli.socket.close();
        world.advance(30_000).await;
        world.hibernate_and_wake().await;
        world.db.fail_all(on, permanent_error());
        world.advance(DAY_MS + 120_000).await;
        world.db.repair();
        assert_eq!(pending(&world, &session).await, ["r1", "r2"], "{on:?}");
        world.hibernate_and_wake().await;
        world.advance(60_000).await;
        assert!(pending(&world, &session).await.is_empty(), "{on:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_again_while_its_requests_are_being_canceled_keeps_them_for_another_day() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    cli.put_agent_state(&session, 2, &json!({"requests": {"r1": {"tool": "x".repeat(1_500_000)}}})).await;
    world.advance(30_000 + DAY_MS - 27_000).await;
    let mut again = world.cli(&session).await;
    again.send_keep_alive(&world, &session).await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    world.advance(27_000).await;
    assert_eq!(world.db.held_result_count(), 1, "the requests are being read");
    world.advance(4_000).await;
    world.release_results().await;
    assert_eq!(world.get_session(&session).await["active"], false);
    assert_eq!(pending(&world, &session).await, ["r1"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_deleted_within_the_day_leaves_nothing_behind() {
    let (world, session, cli) = session_with_requests(&Value::Null).await;
    cli.socket.close();
    world.advance(30_000).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    world.advance(DAY_MS).await;
    assert_eq!(world.rt.alarm(), None);
    assert!(!world.rt.stored_entries().keys().any(|key| key.contains(&session)));
}

/// Ends a session. `way` is one of the ways of the test below.
async fn end_session(world: &World, session: &str, cli: &mut Cli, way: &str) {
    match way {
        "session-end" => drop(cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await),
        "abort" => {
            cli.register("abort").await;
            let aborted = world.start("POST", &format!("/api/sessions/{session}/abort"), "");
            cli.respond_to_next_call("abort", &json!({})).await;
            aborted.reply().await.ok();
        }
        "archive" => drop(world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok()),
        "archive while inactive" => {
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
            let version = world.get_session(session).await["agentStateVersion"].as_u64().unwrap();
            let state = json!({"requests": {"r1": request("Bash"), "r2": request("Edit")}});
            cli.update_agent_state(session, version, &state).await;
            drop(world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok());
        }
        "session-end while inactive" => {
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
            let version = world.get_session(session).await["agentStateVersion"].as_u64().unwrap();
            let state = json!({"requests": {"r1": request("Bash"), "r2": request("Edit")}});
            cli.update_agent_state(session, version, &state).await;
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
        }
        "archive after an expiry" => {
            world.advance(30_000).await;
            drop(world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok());
        }
        "session-end after an expiry" => {
            world.advance(30_000).await;
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
        }
        _ => panic!("{way}"),
    }
    run_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn pending_requests_are_canceled_when_their_session_ends() {
    let ways = "session-end, abort, archive, archive while inactive, session-end while inactive, archive after an expiry, \
        session-end after an expiry";
    for way in ways.split(", ") {
        let (world, session, mut cli) = session_with_requests(&Value::Null).await;
        let mut second = world.cli(&session).await;
        world.advance(31_000).await;
        cli.send_keep_alive(&world, &session).await;
        let mut web = world.web("all=true").await;
        end_session(&world, &session, &mut cli, way).await;
        let detail = world.get_session(&session).await;
        assert_eq!((&detail["agentState"]["requests"], &detail["active"]), (&json!({}), &json!(false)), "{way}");
        assert!(!detail["agentState"]["controlledByUser"].as_bool().unwrap_or(false), "{way}");
        for (id, tool) in [("r1", "Bash"), ("r2", "Edit")] {
            let entry = &detail["agentState"]["completedRequests"][id];
            assert_eq!((&entry["status"], &entry["tool"]), (&json!("canceled"), &json!(tool)), "{way} {id}");
            assert!(entry["completedAt"].as_u64().is_some_and(|at| at > 5 && at <= world.now()), "{way} {entry}");
            assert_eq!(entry.get("decision"), None, "a canceled request has no decision: {entry}");
        }
        assert!(detail["agentStateVersion"].as_u64().unwrap() > 2, "{way}");
        assert_eq!(state_event(&mut web).await["agentState"]["completedRequests"]["r1"]["status"], "canceled", "{way}");
        let update = second.next_event("update").await["body"]["agentState"]["value"].clone();
        assert_eq!(update["completedRequests"]["r2"]["status"], "canceled", "{way}");
        let counts = world.get("/api/sessions?archived=include").await.ok();
        assert_eq!(counts["sessions"][0]["pendingRequestsCount"], 0, "{way}");
        assert_eq!(world.db.number("SELECT count(*) FROM completed_requests"), 2, "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_flight_does_not_undo_the_cancellation_of_its_request() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let reply = start_answer(&world, &session, "r1/approve", &json!({}));
    let call = cli.next_call().await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.respond(&call, &json!({}));
    reply.reply().await;
    assert_eq!(completed(&world, &session, "r1").await["status"], "canceled");
    assert!(pending(&world, &session).await.is_empty());
}
