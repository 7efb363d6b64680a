//! Permission requests: how an answer of the web reaches the agent, and what becomes of the request.

use crate::support::cli::Cli;
use crate::support::permissions::{
    agent_state, answer, completed, request, session_with_requests, start_answer, state_event,
};
use crate::support::rest::Reply;
use crate::support::sqlite::BatchKind;
use crate::support::{RPC_TIMEOUT_MS, World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

async fn pending(world: &World, session: &str) -> Vec<String> {
    agent_state(world, session).await["requests"].as_object().unwrap().keys().cloned().collect()
}

async fn listed(world: &World) -> Value {
    world.get("/api/sessions").await.ok()["sessions"][0].clone()
}

#[tokio::test(start_paused = true)]
async fn an_approval_with_everything_reaches_the_cli_then_the_record_and_then_everybody() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    let mut web = world.web("all=true").await;
    let body = json!({
        "mode": "acceptEdits", "allowTools": ["Bash", "Read"], "decision": "approved_for_session",
        "answers": {"Which?": ["this", "that"], "Why?": []}, "ignored": 1,
    });
    let reply = start_answer(&world, &session, "r1/approve", &body);
    let call = cli.next_call().await;
    assert_eq!(call.method, "permission");
    let heard = json!({
        "id": "r1", "approved": true, "mode": "acceptEdits", "allowTools": ["Bash", "Read"],
        "decision": "approved_for_session", "answers": {"Which?": ["this", "that"], "Why?": []},
    });
    assert_eq!(call.params, heard);
    run_until_idle().await;
    assert!(!reply.is_ready(), "the CLI has not acknowledged yet");
    assert_eq!(pending(&world, &session).await, ["r1", "r2"]);
    web.0.assert_no_frames().await;

    world.rt.set_now(world.now() + 7);
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    let entry = json!({
        "tool": "Bash", "arguments": {"command": "ls", "n": 1.5}, "createdAt": 5,
        "completedAt": world.now(), "status": "approved", "mode": "acceptEdits", "decision": "approved_for_session",
        "allowTools": ["Bash", "Read"], "answers": {"Which?": ["this", "that"], "Why?": []},
    });
    let shown = world.get_session(&session).await;
    assert_eq!(shown["agentState"]["completedRequests"], json!({"r1": entry}));
    assert_eq!(shown["agentState"]["requests"], json!({"r2": request("Edit")}));
    assert_eq!(shown["agentState"]["controlledByUser"], false);
    assert_eq!((&shown["agentStateVersion"], &shown["permissionMode"]), (&json!(3), &json!("acceptEdits")));
    assert_eq!(shown["updatedAt"], world.now());
    assert_eq!(listed(&world).await["pendingRequestsCount"], 1);

    let update = cli.next_event("update").await["body"].clone();
    assert_eq!(
        (&update["t"], &update["sid"], &update["metadata"]),
        (&json!("update-session"), &json!(session), &Value::Null)
    );
    assert_eq!(update["agentState"]["version"], 3);
    assert_eq!(update["agentState"]["value"]["requests"], json!({"r2": request("Edit")}));
    assert_eq!(update["agentState"]["value"]["completedRequests"], json!({"r1": entry}));
    let told = state_event(&mut web).await;
    assert_eq!((&told["agentStateVersion"], &told["agentState"]), (&json!(3), &update["agentState"]["value"]));
}

#[tokio::test(start_paused = true)]
async fn an_empty_object_or_no_body_is_an_answer() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    assert_eq!(
        answer(&world, &session, &mut cli, "r1/approve", &json!({})).await,
        json!({"id": "r1", "approved": true})
    );
    let denied = world.start("POST", &format!("/api/sessions/{session}/permissions/r2/deny"), "");
    assert_eq!(cli.serve("permission", &json!({})).await, json!({"id": "r2", "approved": false}));
    denied.reply().await.ok();
    let record = agent_state(&world, &session).await["completedRequests"].clone();
    assert_eq!((&record["r1"]["status"], &record["r2"]["status"]), (&json!("approved"), &json!("denied")));
    assert_eq!(record["r1"].get("allowTools"), None);
    assert!(pending(&world, &session).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_denial_says_how_far_it_goes() {
    let (world, session, mut cli) = session_with_requests(&json!("beta")).await;
    for (id, decision) in [("r1", "denied"), ("r2", "abort")] {
        let heard = answer(&world, &session, &mut cli, &format!("{id}/deny"), &json!({"decision": decision})).await;
        assert_eq!(heard, json!({"id": id, "approved": false, "decision": decision}));
        let entry = completed(&world, &session, id).await;
        assert_eq!((&entry["status"], &entry["decision"]), (&json!("denied"), &json!(decision)));
        assert_eq!(entry["completedAt"], world.now());
    }
    assert_eq!(world.get_session(&session).await["active"], true, "the agent's task is aborted, not the session");
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_says_denied_or_abort_is_a_denial_and_grants_nothing() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    for (id, decision) in [("r1", "denied"), ("r2", "abort")] {
        let body = json!({"decision": decision, "mode": "bypassPermissions", "allowTools": ["Bash"]});
        let heard = answer(&world, &session, &mut cli, &format!("{id}/approve"), &body).await;
        assert_eq!((&heard["approved"], &heard["decision"]), (&json!(false), &json!(decision)));
        let entry = completed(&world, &session, id).await;
        assert_eq!((&entry["status"], &entry["decision"]), (&json!("denied"), &json!(decision)));
        assert_eq!(entry.get("allowTools"), None, "no tool was approved: {entry}");
        assert_ne!(entry["mode"], "bypassPermissions", "nor was the mode");
    }
    assert_eq!(world.get_session(&session).await.get("permissionMode"), None);
}

#[tokio::test(start_paused = true)]
async fn answers_to_questions_are_taken_in_both_shapes_and_in_no_other() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    let odd = [
        json!([]),
        json!("yes"),
        json!({"q": "yes"}),
        json!({"q": [1]}),
        json!({"q": {"answers": "yes"}}),
        json!({"q": {"answer": ["yes"]}}),
        json!({"q": null}),
        json!({"q": ["yes"], "p": {"answers": ["no"]}}),
    ];
    for answers in odd {
        let refused = start_answer(&world, &session, "r1/approve", &json!({"answers": answers})).reply().await;
        assert_eq!(refused.assert_error(400, "invalid_field")["field"], "answers", "{answers}");
    }
    let plain = json!({"q": ["yes", "no"], "p": []});
    let nested = json!({"q": {"answers": ["yes"]}, "p": {"answers": []}});
    for (id, answers) in [("r1", plain), ("r2", nested)] {
        let body = json!({"answers": answers});
        let heard = answer(&world, &session, &mut cli, &format!("{id}/approve"), &body).await;
        assert_eq!(heard["answers"], answers);
        assert_eq!(completed(&world, &session, id).await["answers"], answers);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_answer_names_its_field_and_never_reaches_the_cli() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    let table = [
        ("approve", json!({"mode": "warp"}), "mode"),
        ("approve", json!({"mode": 5}), "mode"),
        ("approve", json!({"mode": "default", "allowTools": "Bash"}), "allowTools"),
        ("approve", json!({"allowTools": [1]}), "allowTools[0]"),
        ("approve", json!({"decision": "maybe"}), "decision"),
        ("approve", json!({"decision": true}), "decision"),
        ("deny", json!({"decision": "approved"}), "decision"),
        ("deny", json!({"decision": "approved_for_session"}), "decision"),
        ("deny", json!({"decision": "never"}), "decision"),
    ];
    for (how, body, field) in table {
        let refused = start_answer(&world, &session, &format!("r1/{how}"), &body).reply().await;
        assert_eq!(refused.assert_error(400, "invalid_field")["field"], field, "{how} {body}");
    }
    for body in ["[]", "7", "{"] {
        let path = format!("/api/sessions/{session}/permissions/r1/approve");
        world.request("POST", &path, body).await.assert_error(400, "invalid_body");
    }
    cli.socket.assert_no_frames().await;
    assert_eq!(pending(&world, &session).await, ["r1", "r2"]);
    answer(&world, &session, &mut cli, "r1/approve", &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn each_flavor_takes_its_own_modes_with_an_approval() {
    let modes = ["default", "acceptEdits", "bypassPermissions", "plan", "ask", "read-only", "safe-yolo", "yolo"];
    let sandboxed = ["default", "read-only", "safe-yolo", "yolo"];
    let alpha = ["default", "acceptEdits", "bypassPermissions", "plan"];
    let table: [(Value, &[&str]); 7] = [
        (json!("alpha"), &alpha),
        (Value::Null, &alpha),
        (json!("beta"), &sandboxed),
        (json!("delta"), &sandboxed),
        (json!("epsilon"), &["default", "yolo"]),
        (json!("gamma"), &["default", "plan", "ask", "yolo"]),
        (json!("zeta"), &["default"]),
    ];
    for (flavor, valid) in table {
        let (world, session, mut cli) = session_with_requests(&flavor).await;
        let mut version = 2;
        for mode in modes {
            let reply = start_answer(&world, &session, "r1/approve", &json!({"mode": mode}));
            if !valid.contains(&mode) {
                let refused = reply.reply().await;
                assert_eq!(refused.assert_error(400, "invalid_field")["field"], "mode", "{flavor} {mode}");
                continue;
            }
            assert_eq!(cli.serve("permission", &json!({})).await["mode"], mode, "{flavor}");
            reply.reply().await.ok();
            assert_eq!(world.get_session(&session).await["permissionMode"], mode, "{flavor}");
            cli.update_state(&session, version + 1, &json!({"requests": {"r1": request("Bash")}})).await;
            version += 2;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_or_not_active_takes_no_answer() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    for how in ["r3/approve", "r3/deny", "__proto__/approve", "constructor/deny", "r1%20/approve"] {
        start_answer(&world, &session, how, &json!({})).reply().await.assert_error(404, "request_not_found");
    }
    start_answer(&world, "nobody", "r1/approve", &json!({})).reply().await.assert_error(404, "session_not_found");
    let neighbour = world.neighbour();
    for how in ["r1/approve", "r1/deny"] {
        start_answer(&neighbour, &session, how, &json!({})).reply().await.assert_error(403, "forbidden");
    }
    answer(&world, &session, &mut cli, "r1/approve", &json!({})).await;
    start_answer(&world, &session, "r1/deny", &json!({})).reply().await.assert_error(404, "request_not_found");
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    for how in ["r1/approve", "r2/deny", "r3/deny"] {
        start_answer(&world, &session, how, &json!({})).reply().await.assert_error(409, "session_inactive");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_with_odd_characters_are_answered_as_they_are() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let state = json!({"requests": {"a/b c": request("Bash"), "__proto__": request("Edit"), "ü\"": request("X")}});
    cli.update_state(&session, 2, &state).await;
    for (path, id) in [("a%2Fb%20c", "a/b c"), ("__proto__", "__proto__"), ("%C3%BC%22", "ü\"")] {
        let heard = answer(&world, &session, &mut cli, &format!("{path}/approve"), &json!({})).await;
        assert_eq!(heard["id"], id);
        assert_eq!(completed(&world, &session, id).await["status"], "approved");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_at_once_one_wins_and_the_other_finds_nothing() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let first = start_answer(&world, &session, "r1/approve", &json!({}));
    let call = cli.next_call().await;
    let second = start_answer(&world, &session, "r1/deny", &json!({}));
    let other = start_answer(&world, &session, "r2/deny", &json!({}));
    second.reply().await.assert_error(404, "request_not_found");
    assert_eq!(cli.serve("permission", &json!({})).await["id"], "r2", "another request is another matter");
    other.reply().await.ok();
    cli.respond(&call, &json!({}));
    first.reply().await.ok();
    assert_eq!(completed(&world, &session, "r1").await["status"], "approved");
    assert_eq!(world.get_session(&session).await["agentStateVersion"], 4);
    start_answer(&world, &session, "r1/deny", &json!({})).reply().await.assert_error(404, "request_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_request_stays_answerable_when_the_cli_does_not_take_the_answer() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let still_pending = async |reply: Reply, status, code| {
        reply.assert_error(status, code);
        let shown = world.get_session(&session).await;
        assert_eq!((&shown["agentStateVersion"], &shown["active"]), (&json!(2), &json!(true)), "{code}");
        assert_eq!(pending(&world, &session).await, ["r1", "r2"], "{code}");
        assert_eq!(shown.get("permissionMode"), None, "{code}");
    };
    let body = json!({"mode": "plan"});
    let reply = start_answer(&world, &session, "r1/approve", &body);
    cli.serve("permission", &json!({"success": false, "error": "no such request"})).await;
    let reply = reply.reply().await;
    assert!(reply.text.contains("no such request"), "{reply:?}");
    still_pending(reply, 503, "cli_refused").await;

    let reply = start_answer(&world, &session, "r1/approve", &body);
    let late = cli.next_call().await;
    for _ in 0..3 {
        world.advance(RPC_TIMEOUT_MS / 3).await;
        cli.send_keep_alive(&world, &session).await;
    }
    still_pending(reply.reply().await, 504, "rpc_timeout").await;
    cli.respond(&late, &json!({}));
    run_until_idle().await;
    assert_eq!(pending(&world, &session).await, ["r1", "r2"], "a late word changes nothing");

    assert_eq!(cli.emit_with_ack("rpc-unregister", &json!({"method": "permission"})).await, json!({"ok": true}));
    still_pending(start_answer(&world, &session, "r1/approve", &body).reply().await, 503, "cli_unreachable").await;
    cli.register("permission").await;
    let reply = start_answer(&world, &session, "r1/approve", &body);
    cli.next_call().await;
    cli.socket.close();
    still_pending(reply.reply().await, 503, "cli_unreachable").await;

    let mut back = world.live_cli(&session).await;
    back.register("permission").await;
    answer(&world, &session, &mut back, "r1/approve", &body).await;
    assert_eq!(completed(&world, &session, "r1").await["status"], "approved");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_moves_the_request_itself_has_the_last_word_and_the_mode_still_counts() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let reply = start_answer(&world, &session, "r1/approve", &json!({"mode": "plan"}));
    let call = cli.next_call().await;
    let own = json!({"tool": "Bash", "arguments": {}, "status": "approved", "completedAt": 9, "by": "cli"});
    let moved = json!({"requests": {"r2": request("Edit")}, "completedRequests": {"r1": own}});
    assert_eq!(cli.update_state(&session, 2, &moved).await["result"], "success");
    let mut web = world.web("all=true").await;
    cli.respond(&call, &json!({}));
    reply.reply().await.ok();
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["agentStateVersion"], &shown["permissionMode"]), (&json!(3), &json!("plan")));
    assert_eq!(shown["agentState"]["completedRequests"]["r1"], own);
    assert_eq!(web.next_event_of("session-updated").await["data"]["permissionMode"], "plan");
    assert_eq!(cli.update_state(&session, 3, &moved).await["result"], "success", "the version it knows still stands");
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["permissionMode"], "plan", "it is persisted");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_moves_the_request_too_late_is_told_what_stands() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    answer(&world, &session, &mut cli, "r1/deny", &json!({"reason": "too risky"})).await;
    let moved = json!({"requests": {"r2": request("Edit")}, "completedRequests": {"r1": {"status": "denied"}}});
    let refused = cli.update_state(&session, 2, &moved).await;
    assert_eq!((&refused["result"], &refused["version"]), (&json!("version-mismatch"), &json!(3)));
    assert_eq!(refused["agentState"]["requests"], json!({"r2": request("Edit")}));
    assert_eq!(refused["agentState"]["completedRequests"]["r1"]["reason"], "too risky");
    assert_eq!(cli.update_state(&session, 3, &refused["agentState"]).await["result"], "success");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_a_success_only_once_it_is_durable() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let mut web = world.web("all=true").await;
    world.db.hold(BatchKind::Writes);
    let reply = start_answer(&world, &session, "r1/approve", &json!({}));
    cli.serve("permission", &json!({})).await;
    run_until_idle().await;
    assert!(!reply.is_ready());
    web.0.assert_no_frames().await;
    cli.socket.assert_no_frames().await;
    world.db.release();
    reply.reply().await.ok();
    state_event(&mut web).await;
    world.db.fail(BatchKind::Writes, DbError::Refused("disk I/O error".into()));
    let reply = start_answer(&world, &session, "r2/approve", &json!({}));
    cli.serve("permission", &json!({})).await;
    reply.reply().await.assert_error(503, "hub_unavailable");
    assert_eq!(pending(&world, &session).await, ["r2"], "what was not written never happened");
    answer(&world, &session, &mut cli, "r2/approve", &json!({})).await;
}

/// How a session's time can be over.
async fn end(world: &World, session: &str, cli: &mut Cli, how: &str) {
    match how {
        "session-end" => drop(cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await),
        "expiry" => world.advance(30_000).await,
        "closed" => {
            cli.socket.close();
            world.advance(30_000).await;
        }
        "abort" => {
            cli.register("abort").await;
            let aborted = world.start("POST", &format!("/api/sessions/{session}/abort"), "");
            cli.serve("abort", &json!({})).await;
            aborted.reply().await.ok();
        }
        "archive" => drop(world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok()),
        "archive while inactive" => {
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
            let version = world.get_session(session).await["agentStateVersion"].as_u64().unwrap();
            let asked = json!({"requests": {"r1": request("Bash"), "r2": request("Edit")}});
            cli.update_state(session, version, &asked).await;
            drop(world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok());
        }
        "session-end while inactive" => {
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
            let version = world.get_session(session).await["agentStateVersion"].as_u64().unwrap();
            let asked = json!({"requests": {"r1": request("Bash"), "r2": request("Edit")}});
            cli.update_state(session, version, &asked).await;
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
        }
        "sleep and expiry" => {
            world.hibernate_and_wake().await;
            world.advance(60_000).await;
        }
        _ => panic!("{how}"),
    }
    run_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_canceled_when_its_session_is_over() {
    let ways = [
        "session-end",
        "expiry",
        "closed",
        "abort",
        "archive",
        "archive while inactive",
        "session-end while inactive",
        "sleep and expiry",
    ];
    for how in ways {
        let (world, session, mut cli) = session_with_requests(&Value::Null).await;
        let mut second = world.cli(&session).await;
        let mut web = world.web("all=true").await;
        end(&world, &session, &mut cli, how).await;
        let shown = world.get_session(&session).await;
        assert_eq!((&shown["agentState"]["requests"], &shown["active"]), (&json!({}), &json!(false)), "{how}");
        assert!(!shown["agentState"]["controlledByUser"].as_bool().unwrap_or(false), "{how}");
        for (id, tool) in [("r1", "Bash"), ("r2", "Edit")] {
            let entry = &shown["agentState"]["completedRequests"][id];
            assert_eq!((&entry["status"], &entry["tool"]), (&json!("canceled"), &json!(tool)), "{how} {id}");
            assert!(entry["completedAt"].as_u64().is_some_and(|at| at > 5 && at <= world.now()), "{how} {entry}");
            assert_eq!(entry.get("decision"), None, "nobody decided: {entry}");
        }
        assert!(shown["agentStateVersion"].as_u64().unwrap() > 2, "{how}");
        let told = state_event(&mut web).await;
        assert_eq!(told["agentState"]["completedRequests"]["r1"]["status"], "canceled", "{how}");
        let update = second.next_event("update").await["body"]["agentState"]["value"].clone();
        assert_eq!(update["completedRequests"]["r2"]["status"], "canceled", "{how}");
        let counts = world.get("/api/sessions?archived=include").await.ok();
        assert_eq!(counts["sessions"][0]["pendingRequestsCount"], 0, "{how}");
        assert_eq!(world.db.number("SELECT count(*) FROM completed_requests"), 2, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_under_way_when_its_session_ends_does_not_undo_the_cancellation() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let reply = start_answer(&world, &session, "r1/approve", &json!({}));
    let call = cli.next_call().await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.respond(&call, &json!({}));
    reply.reply().await;
    assert_eq!(completed(&world, &session, "r1").await["status"], "canceled");
    assert!(pending(&world, &session).await.is_empty());
}
