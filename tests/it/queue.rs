//! Commands about queued messages, and options of the agent: the hub checks them, and the CLI decides.

use crate::support::prelude::*;

/// Sends a request to which the CLI answers with `result`. Returns the params of the call and the response.
async fn send(world: &World, cli: &mut Cli, method: &str, path: &str, body: &Value, result: &Value) -> (Value, Reply) {
    let reply = world.start(method, path, if body.is_null() { String::new() } else { body.to_string() });
    let call = cli.next_call().await;
    cli.respond(&call, result);
    (call.params, reply.reply().await)
}

#[tokio::test(start_paused = true)]
async fn each_command_reaches_the_cli() {
    let (world, session, mut cli) = session_with_methods(&["queue"]).await;
    let root = format!("/api/sessions/{session}/queue");
    let table = [
        ("PATCH", format!("{root}/7"), json!({"text": "other"}), json!({"action": "edit", "seq": 7, "text": "other"})),
        ("DELETE", format!("{root}/7"), Value::Null, json!({"action": "cancel", "seq": 7})),
        ("POST", format!("{root}/7/send"), Value::Null, json!({"action": "send", "seq": 7})),
        ("POST", root.clone(), json!({"seqs": [9, 7]}), json!({"action": "order", "seqs": [9, 7]})),
    ];
    for (method, path, body, params) in table {
        let (called, reply) = send(&world, &mut cli, method, &path, &body, &json!({"success": true})).await;
        assert_eq!((called, reply.ok()), (params, json!({"ok": true})), "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_comes_too_late_is_a_409_with_its_own_code() {
    let (world, session, mut cli) = session_with_methods(&["queue"]).await;
    let path = format!("/api/sessions/{session}/queue/7");
    let late = json!({"success": false, "code": "not_queued", "error": "It runs."});
    send(&world, &mut cli, "DELETE", &path, &Value::Null, &late).await.1.assert_error(409, "not_queued");
    for odd in [json!({"success": false, "code": 7, "error": "no"}), json!({"success": false, "code": "other"})] {
        send(&world, &mut cli, "DELETE", &path, &Value::Null, &odd).await.1.assert_error(503, "cli_refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_named_by_its_number() {
    let (world, session, mut cli) = session_with_methods(&["queue"]).await;
    for seq in ["-1", "1.5", "x", "99999999999999999999999"] {
        let path = format!("/api/sessions/{session}/queue/{seq}");
        let reply = world.request("DELETE", &path, "").await;
        assert_eq!(reply.assert_error(400, "invalid_field")["field"], "seq", "{seq}");
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn an_option_reaches_the_agent_and_a_refusal_has_its_reason() {
    let (world, session, mut cli) = session_with_methods(&["set-session-option"]).await;
    let path = format!("/api/sessions/{session}/options");
    for value in [json!("high"), json!(true), json!(3)] {
        let body = json!({"id": "effort", "value": value});
        let (params, reply) = send(&world, &mut cli, "POST", &path, &body, &json!({"success": true})).await;
        assert_eq!((params, reply.ok()), (body, json!({"ok": true})));
    }
    let body = json!({"id": "effort", "value": "huge"});
    let refusal = json!({"success": false, "error": "Effort huge is unknown."});
    let (_, reply) = send(&world, &mut cli, "POST", &path, &body, &refusal).await;
    let error = reply.assert_error(409, "option_not_applied")["error"].to_string();
    assert!(error.contains("Effort huge is unknown."), "{error}");
}
