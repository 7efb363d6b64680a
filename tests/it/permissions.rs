//! Permission requests: the hub forwards a web client's answer to the CLI and then stores the completed request.

use crate::support::permissions::{
    ALL_MODES, MODES_OF_FLAVORS, agent_state, answer, completed, pending, request, session_with_requests, start_answer,
    state_event,
};
use crate::support::prelude::*;
use session_gateway_hub::store::sessions::SELECT_BY_ID;

/// The only session in `GET /api/sessions`.
async fn session_summary(world: &World) -> Value {
    world.get("/api/sessions").await.ok()["sessions"][0].clone()
}

/// The id of a request may be `.` or `..`, which browsers and proxies resolve in a path.
#[tokio::test(start_paused = true)]
async fn a_request_with_any_id_can_be_answered_by_its_id_in_the_body() {
    let (world, session, mut cli) = session_with_methods(&["permission"]).await;
    for (number, id) in [".", "..", "%2e", "a/b", "approve", "\u{0}"].into_iter().enumerate() {
        let state = json!({"requests": {id: {"tool": "T"}}});
        let version = world.get_session(&session).await["agentStateVersion"].as_u64().unwrap();
        cli.put_agent_state(&session, version, &state).await;
        let (verb, approved) = if number % 2 == 0 { ("approve", true) } else { ("deny", false) };
        let path = format!("/api/sessions/{session}/permissions/{verb}");
        let reply = world.start("POST", &path, json!({"requestId": id}).to_string());
        let params = cli.respond_to_next_call("permission", &json!({})).await;
        assert_eq!((&params["id"], &params["approved"]), (&json!(id), &json!(approved)));
        assert_eq!(reply.reply().await.ok(), json!({"ok": true}), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_first_sent_to_the_cli_then_stored_and_then_published() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    let mut web = world.web("all=true").await;
    let body = json!({
        "mode": "acceptEdits", "allowTools": ["Bash", "Read"], "decision": "approved_for_session",
        "answers": {"Which?": ["this", "that"], "Why?": []}, "ignored": 1,
    });
    let reply = start_answer(&world, &session, "r1/approve", &body);
    let call = cli.next_call().await;
    assert_eq!(call.method, "permission");
    let params = json!({
        "id": "r1", "approved": true, "mode": "acceptEdits", "allowTools": ["Bash", "Read"],
        "decision": "approved_for_session", "answers": {"Which?": ["this", "that"], "Why?": []},
    });
    assert_eq!(call.params, params);
    assert!(!reply.has_response().await, "the CLI has not acknowledged yet");
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
    let detail = world.get_session(&session).await;
    assert_eq!(detail["agentState"]["completedRequests"], json!({"r1": entry}));
    assert_eq!(detail["agentState"]["requests"], json!({"r2": request("Edit")}));
    assert_eq!(detail["agentState"]["controlledByUser"], false);
    assert_eq!((&detail["agentStateVersion"], &detail["permissionMode"]), (&json!(3), &json!("acceptEdits")));
    assert_eq!(detail["updatedAt"], world.now());
    assert_eq!(session_summary(&world).await["pendingRequestsCount"], 1);

    let update = cli.next_event("update").await["body"].clone();
    assert_eq!(pick(&update, ["t", "sid", "metadata"]), json!(["update-session", session, null]));
    assert_eq!(update["agentState"]["version"], 3);
    assert_eq!(update["agentState"]["value"]["requests"], json!({"r2": request("Edit")}));
    assert_eq!(update["agentState"]["value"]["completedRequests"], json!({"r1": entry}));
    let event = state_event(&mut web).await;
    assert_eq!((&event["agentStateVersion"], &event["agentState"]), (&json!(3), &update["agentState"]["value"]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_have_an_empty_object_or_no_body() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    assert_eq!(
        answer(&world, &session, &mut cli, "r1/approve", &json!({})).await,
        json!({"id": "r1", "approved": true})
    );
    let denied = world.start("POST", &format!("/api/sessions/{session}/permissions/r2/deny"), "");
    assert_eq!(cli.respond_to_next_call("permission", &json!({})).await, json!({"id": "r2", "approved": false}));
    denied.reply().await.ok();
    let completed = agent_state(&world, &session).await["completedRequests"].clone();
    assert_eq!((&completed["r1"]["status"], &completed["r2"]["status"]), (&json!("approved"), &json!("denied")));
    assert_eq!(completed["r1"].get("allowTools"), None);
    assert!(pending(&world, &session).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_decision_of_a_denial_is_forwarded_and_stored() {
    let (world, session, mut cli) = session_with_requests(&json!("beta")).await;
    for (id, decision) in [("r1", "denied"), ("r2", "abort")] {
        let params = answer(&world, &session, &mut cli, &format!("{id}/deny"), &json!({"decision": decision})).await;
        assert_eq!(params, json!({"id": id, "approved": false, "decision": decision}));
        let entry = completed(&world, &session, id).await;
        assert_eq!((&entry["status"], &entry["decision"]), (&json!("denied"), &json!(decision)));
        assert_eq!(entry["completedAt"], world.now());
    }
    assert_eq!(world.get_session(&session).await["active"], true, "an aborted task does not end the session");
}

#[tokio::test(start_paused = true)]
async fn an_approval_with_decision_denied_or_abort_is_stored_as_a_denial() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    for (id, decision) in [("r1", "denied"), ("r2", "abort")] {
        let body = json!({"decision": decision, "mode": "bypassPermissions", "allowTools": ["Bash"]});
        let params = answer(&world, &session, &mut cli, &format!("{id}/approve"), &body).await;
        assert_eq!((&params["approved"], &params["decision"]), (&json!(false), &json!(decision)));
        let entry = completed(&world, &session, id).await;
        assert_eq!((&entry["status"], &entry["decision"]), (&json!("denied"), &json!(decision)));
        assert_eq!(entry.get("allowTools"), None, "a denial allows no tools: {entry}");
        assert_ne!(entry["mode"], "bypassPermissions", "a denial sets no mode: {entry}");
    }
    assert_eq!(world.get_session(&session).await.get("permissionMode"), None);
}

#[tokio::test(start_paused = true)]
async fn answers_to_questions_are_accepted_in_both_formats() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    let plain = json!({"q": ["yes", "no"], "p": []});
    let nested = json!({"q": {"answers": ["yes"]}, "p": {"answers": []}});
    for (id, answers) in [("r1", plain), ("r2", nested)] {
        let body = json!({"answers": answers});
        assert_eq!(answer(&world, &session, &mut cli, &format!("{id}/approve"), &body).await["answers"], answers);
        assert_eq!(completed(&world, &session, id).await["answers"], answers);
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_accepts_only_the_modes_of_the_flavor() {
    for (flavor, valid) in MODES_OF_FLAVORS {
        let flavor = json!(flavor);
        let (world, session, mut cli) = session_with_requests(&flavor).await;
        let mut version = 2;
        for mode in ALL_MODES {
            let reply = start_answer(&world, &session, "r1/approve", &json!({"mode": mode}));
            if !valid.contains(&mode) {
                assert_eq!(reply.reply().await.assert_error(400, "invalid_field")["field"], "mode", "{flavor} {mode}");
                continue;
            }
            assert_eq!(cli.respond_to_next_call("permission", &json!({})).await["mode"], mode, "{flavor}");
            reply.reply().await.ok();
            assert_eq!(world.get_session(&session).await["permissionMode"], mode, "{flavor}");
            cli.update_agent_state(&session, version + 1, &json!({"requests": {"r1": request("Bash")}})).await;
            version += 2;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn request_ids_may_have_special_characters() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let state = json!({"requests": {"a/b c": request("Bash"), "__proto__": request("Edit"), "ü\"": request("X")}});
    cli.update_agent_state(&session, 2, &state).await;
    for (path, id) in [("a%2Fb%20c", "a/b c"), ("__proto__", "__proto__"), ("%C3%BC%22", "ü\"")] {
        assert_eq!(answer(&world, &session, &mut cli, &format!("{path}/approve"), &json!({})).await["id"], id);
        assert_eq!(completed(&world, &session, id).await["status"], "approved");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_with_decision_denied_accepts_only_the_modes_of_the_flavor() {
    let (world, session, mut cli) = session_with_requests(&json!("epsilon")).await;
    for decision in ["denied", "abort"] {
        for mode in ["plan", "nonsense", ""] {
            let body = json!({"decision": decision, "mode": mode});
            let rejected = start_answer(&world, &session, "r1/approve", &body).reply().await;
            assert_eq!(rejected.assert_error(400, "invalid_field")["field"], "mode", "{decision} {mode}");
        }
    }
    cli.socket.assert_no_frames().await;
    let params = answer(&world, &session, &mut cli, "r1/approve", &json!({"decision": "denied", "mode": "yolo"})).await;
    assert_eq!((&params["approved"], params.get("mode")), (&json!(false), None), "a denial sets no mode");
    assert_eq!(world.get_session(&session).await.get("permissionMode"), None);
}

#[tokio::test(start_paused = true)]
async fn requests_to_delete_a_rule_and_to_read_a_shortened_request_return_the_result_of_the_cli_unchanged() {
    let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
    cli.register("revokeSessionRule").await;
    cli.register("readPermissionRequest").await;
    let calls = [
        ("DELETE", "rules/a%2Fb", "revokeSessionRule", json!({"id": "a/b", "part": 0})),
        ("GET", "r1/content?part=2", "readPermissionRequest", json!({"id": "r1", "part": 2})),
        ("GET", "r%22%5C/content", "readPermissionRequest", json!({"id": "r\"\\", "part": 0})),
    ];
    for (method, path, rpc_method, expected) in calls {
        for result in
            [json!({"success": true, "text": "{}", "parts": 3}), json!({"success": false, "error": "No such one."})]
        {
            let reply = world.start(method, &format!("/api/sessions/{session}/permissions/{path}"), "");
            let params = cli.respond_to_next_call(rpc_method, &result).await;
            assert_eq!((&params, reply.reply().await.ok()), (&expected, result), "{path}");
        }
    }
    cli.emit_with_ack("rpc-unregister", &json!({"method": "revokeSessionRule"})).await;
    let reply = world.request("DELETE", &format!("/api/sessions/{session}/permissions/rules/a"), "").await.ok();
    assert_eq!(reply["success"], false);
}

#[tokio::test(start_paused = true)]
async fn an_answer_reads_its_session_once_after_a_wake_and_not_at_all_before() {
    for padding in [0, 200_000] {
        for action in ["r1/approve", "r1/deny"] {
            for is_awake in [true, false] {
                let (world, session, mut cli) = session_with_requests(&json!("alpha")).await;
                let state = json!({"requests": {"r1": request("Bash")}, "padding": "x".repeat(padding)});
                cli.put_agent_state(&session, 2, &state).await;
                run_until_idle().await;
                world.hibernate_if(!is_awake).await;
                let before = world.db.read_batches().len();
                answer(&world, &session, &mut cli, action, &json!({})).await;
                let statements = world.db.read_batches()[before..].concat();
                let loads = statements.iter().filter(|statement| statement.sql == SELECT_BY_ID).count();
                assert_eq!(loads, usize::from(!is_awake), "{action}, awake: {is_awake}, {padding} bytes of padding");
            }
        }
    }
}
