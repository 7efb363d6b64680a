//! Answers from notifications: a token inside the push answers one request once.

use session_gateway_hub::http::edge::Action;

use crate::support::edge::EdgeRequest;
use crate::support::permissions::{completed, start_answer};
use crate::support::prelude::*;
use crate::support::pushes::{Browser, ENDPOINT, push_fixture};
use crate::support::worker_edge::{edge, head};

const MINUTE_MS: u64 = 60_000;

fn bash(command: &str) -> Value {
    json!({"tool": "Bash", "arguments": {"command": command}, "createdAt": 5})
}

/// Asks for permission, and returns the `data` of the push.
async fn ask(world: &World, session: &str, cli: &mut Cli, browser: &Browser, version: u64, request: &Value) -> Value {
    cli.update_agent_state(session, version, &json!({"requests": {"r1": request}})).await;
    let pushes = world.pushes_after(501).await;
    let message = pushes.iter().find(|message| message.uri().to_string() == browser.endpoint).expect("a push");
    browser.read(message)["data"].clone()
}

/// A session whose agent asks to run `npm test`, its CLI, the subscribed browser, and the token in the push.
async fn session_with_request() -> (World, String, Cli, Browser, String) {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.register("permission").await;
    let data = ask(&world, &session, &mut cli, &browser, 1, &bash("npm test")).await;
    let token = data["answerToken"].as_str().expect("a token").to_owned();
    (world, session, cli, browser, token)
}

fn post(world: &World, body: &Value) -> PendingReply {
    world.send_to_edge(EdgeRequest {
        method: "POST".into(),
        url: "/api/answers".into(),
        body: body.to_string().into_bytes(),
        ..EdgeRequest::default()
    })
}

fn answer(world: &World, token: &str, decision: &str) -> PendingReply {
    post(world, &json!({"token": token, "decision": decision}))
}

/// Answers, which must be refused without a call of the CLI.
async fn assert_refused(world: &World, cli: &mut Cli, token: &str, (status, code): (u16, &str)) {
    answer(world, token, "approved").reply().await.assert_error(status, code);
    assert!(cli.try_call().await.is_none(), "the CLI was called");
}

/// Answers, which must succeed. Returns the parameters of the call of the CLI.
async fn assert_accepted(world: &World, cli: &mut Cli, token: &str, decision: &str) -> Value {
    let reply = answer(world, token, decision);
    let params = cli.respond_to_next_call("permission", &json!({"ok": true})).await;
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    params
}

/// Answers on the page.
async fn answer_on_page(world: &World, session: &str, cli: &mut Cli, action: &str) {
    cli.serve(start_answer(world, session, action, &json!({})), "permission", &json!({"ok": true})).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_push_says_what_is_asked_and_its_token_approves_only_this_request() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.register("permission").await;
    let mut request = bash("npm test");
    for (field, unset) in [("needsChoice", json!(false)), ("shortened", Value::Null), ("choices", json!([]))] {
        request[field] = unset;
    }
    let data = ask(&world, &session, &mut cli, &browser, 1, &request).await;
    let shown = ["tool", "detail", "agent", "session"].map(|name| data[name].as_str().unwrap());
    assert_eq!(shown, ["Bash", "npm test", "Beta", "demo"]);
    assert_eq!(data["request"], json!({"tool": "Bash", "arguments": {"command": "npm test"}}));
    assert_eq!(data["sentAt"], world.now() - 1);
    let params = assert_accepted(&world, &mut cli, data["answerToken"].as_str().unwrap(), "approved").await;
    assert_eq!(params, json!({"id": "r1", "approved": true}));
    assert_eq!(pick(&completed(&world, &session, "r1").await, ["status", "decision"]), json!(["approved", "approved"]));
}

#[tokio::test(start_paused = true)]
async fn a_token_denies_without_stopping_the_agent() {
    let (world, session, mut cli, _, token) = session_with_request().await;
    let params = assert_accepted(&world, &mut cli, &token, "denied").await;
    assert_eq!(params, json!({"id": "r1", "approved": false}));
    assert_eq!(completed(&world, &session, "r1").await["decision"], "denied");
}

#[tokio::test(start_paused = true)]
async fn no_other_decision_and_no_further_permission_can_be_given() {
    let (world, _, mut cli, _, token) = session_with_request().await;
    for decision in ["approved_for_session", "abort", "always", ""] {
        answer(&world, &token, decision).reply().await.assert_error(400, "invalid_field");
    }
    for body in [json!([]), json!("x"), json!(null), json!({"token": token}), json!({"decision": "approved"})] {
        assert_eq!(post(&world, &body).reply().await.status, 400, "{body}");
    }
    let more = json!({"token": token, "decision": "approved", "mode": "bypassPermissions", "allowTools": ["Bash"]});
    let reply = post(&world, &more);
    let params = cli.respond_to_next_call("permission", &json!({"ok": true})).await;
    assert_eq!(params, json!({"id": "r1", "approved": true}), "unknown fields have no effect");
    reply.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_token_is_used_once_also_by_parallel_calls_and_after_a_restart() {
    let (world, _, mut cli, _, token) = session_with_request().await;
    let replies = [answer(&world, &token, "approved"), answer(&world, &token, "denied")];
    cli.respond_to_next_call("permission", &json!({"ok": true})).await;
    let [first, second] = replies;
    first.reply().await.ok();
    second.reply().await.assert_error(410, "answer_token_used");
    assert_refused(&world, &mut cli, &token, (410, "answer_token_used")).await;
    world.hibernate_and_wake().await;
    assert_refused(&world, &mut cli, &token, (410, "answer_token_used")).await;
}

#[tokio::test(start_paused = true)]
async fn of_an_answer_on_the_page_and_one_from_a_notification_only_the_first_reaches_the_cli() {
    for is_page_first in [true, false] {
        let (world, session, mut cli, _, token) = session_with_request().await;
        let deny_on_page = || start_answer(&world, &session, "r1/deny", &json!({}));
        let first = if is_page_first { deny_on_page() } else { answer(&world, &token, "approved") };
        run_until_idle().await;
        let second = if is_page_first { answer(&world, &token, "approved") } else { deny_on_page() };
        second.reply().await.assert_error(404, "request_not_found");
        assert_eq!(cli.respond_to_next_call("permission", &json!({"ok": true})).await["approved"], !is_page_first);
        first.reply().await.ok();
        assert!(cli.try_call().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_stays_used_if_the_hub_stops_before_the_cli_answers() {
    let (world, session, mut cli, _, token) = session_with_request().await;
    let reply = answer(&world, &token, "approved");
    assert!(cli.try_call().await.is_some());
    world.restart();
    drop(reply);
    let mut cli = world.live_cli(&session).await;
    cli.register("permission").await;
    assert_refused(&world, &mut cli, &token, (410, "answer_token_used")).await;
    // The page still answers the request.
    answer_on_page(&world, &session, &mut cli, "r1/approve").await;
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_after_ten_minutes_and_its_record_soon_after() {
    let (world, _, mut cli, browser, token) = session_with_request().await;
    world.advance(10 * MINUTE_MS - 502).await;
    assert_refused(&world, &mut cli, &token, (409, "session_inactive")).await;
    world.advance(501).await;
    assert_refused(&world, &mut cli, &token, (410, "answer_token_expired")).await;
    for tag in ["/code/a", "/code/b"] {
        let (session, mut cli) = world.active_session(tag).await;
        cli.register("permission").await;
        let data = ask(&world, &session, &mut cli, &browser, 1, &bash("npm test")).await;
        assert_accepted(&world, &mut cli, data["answerToken"].as_str().unwrap(), "denied").await;
        let records = world.rt.stored_entries().into_keys().filter(|key| key.starts_with("answered:"));
        assert_eq!(records.count(), 1, "{tag}");
        world.advance(11 * MINUTE_MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_answered_or_canceled_has_no_second_answer() {
    let (world, session, mut cli, _, token) = session_with_request().await;
    answer_on_page(&world, &session, &mut cli, "r1/deny").await;
    assert_refused(&world, &mut cli, &token, (404, "request_not_found")).await;

    let (world, session, mut cli, _, token) = session_with_request().await;
    cli.update_agent_state(&session, 2, &json!({"requests": {}})).await;
    assert_refused(&world, &mut cli, &token, (404, "request_not_found")).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_request_needs_another_look() {
    let changes = [
        bash("npm test; rm -rf ~"),
        json!({"tool": "bash", "arguments": {"command": "npm test"}, "createdAt": 5}),
        json!({"tool": "Bash", "arguments": {"command": "npm test", "timeout": 1}, "createdAt": 5}),
        json!({"tool": "Bash", "arguments": {"command": "npm test"}, "createdAt": 6}),
        json!({"tool": "Bash", "arguments": {"command": "npm test"}, "createdAt": 5, "needsChoice": true}),
    ];
    for changed in changes {
        let (world, session, mut cli, _, token) = session_with_request().await;
        cli.update_agent_state(&session, 2, &json!({"requests": {"r1": changed}})).await;
        assert_refused(&world, &mut cli, &token, (409, "request_changed")).await;
        cli.update_agent_state(&session, 3, &json!({"requests": {"r1": bash("npm test")}})).await;
        assert_accepted(&world, &mut cli, &token, "approved").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_asked_again_under_the_same_id_is_another_request() {
    // Answered on the page.
    let (world, session, mut cli, browser, token) = session_with_request().await;
    answer_on_page(&world, &session, &mut cli, "r1/approve").await;
    let data = ask(&world, &session, &mut cli, &browser, 3, &bash("npm test")).await;
    assert_refused(&world, &mut cli, &token, (409, "request_changed")).await;
    // Answered from the notification.
    let token = data["answerToken"].as_str().unwrap().to_owned();
    assert_accepted(&world, &mut cli, &token, "approved").await;
    let data = ask(&world, &session, &mut cli, &browser, 5, &bash("npm test")).await;
    assert_refused(&world, &mut cli, &token, (410, "answer_token_used")).await;
    assert_ne!(data["answerToken"], token.as_str());
    assert_accepted(&world, &mut cli, data["answerToken"].as_str().unwrap(), "approved").await;
}

#[tokio::test(start_paused = true)]
async fn a_token_of_one_browser_ends_with_the_answer_of_another() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.register("permission").await;
    let other = Browser::subscribed(&world, "https://push.service.com/send/b", 2).await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r1": bash("npm test")}})).await;
    let pushes = world.pushes_after(501).await;
    let token = |browser: &Browser| {
        let message = pushes.iter().find(|message| message.uri().to_string() == browser.endpoint).unwrap();
        browser.read(message)["data"]["answerToken"].as_str().unwrap().to_owned()
    };
    let (first, second) = (token(&browser), token(&other));
    assert_ne!(first, second);
    assert_accepted(&world, &mut cli, &first, "approved").await;
    assert_refused(&world, &mut cli, &second, (410, "answer_token_used")).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_replaced_subscription_has_no_valid_token() {
    let (world, _, mut cli, browser, token) = session_with_request().await;
    world.request("DELETE", "/api/push/subscribe", json!({"endpoint": ENDPOINT}).to_string()).await.ok();
    assert_refused(&world, &mut cli, &token, (410, "push_unsubscribed")).await;
    // Another subscription of the same endpoint, with other keys.
    Browser::subscribed(&world, ENDPOINT, 9).await;
    assert_refused(&world, &mut cli, &token, (410, "push_unsubscribed")).await;
    // The same subscription, which the console registers again when it is opened.
    world.post("/api/push/subscribe", &browser.subscription()).await.ok();
    assert_accepted(&world, &mut cli, &token, "approved").await;
}

#[tokio::test(start_paused = true)]
async fn a_revoked_device_answers_nothing() {
    let (world, session, mut cli, _) = push_fixture().await;
    cli.register("permission").await;
    let send = |method: &str, url: String, token: Option<String>, body: Value| {
        let (method, body) = (method.to_owned(), body.to_string().into_bytes());
        world.send_to_edge(EdgeRequest { method, url, token, body, ..EdgeRequest::default() }).reply()
    };
    let operator = Some(world.token());
    let created = send("POST", "/api/devices/codes".into(), operator.clone(), json!({})).await.ok();
    let device = json!({"code": created["code"], "name": "Phone", "kind": "phone"});
    let added = send("POST", "/api/devices".into(), None, device).await.ok();
    let phone = Browser::new("https://push.service.com/send/phone", 7);
    let token = added["token"].as_str().map(str::to_owned);
    send("POST", "/api/push/subscribe".into(), token, phone.subscription()).await.ok();
    let data = ask(&world, &session, &mut cli, &phone, 1, &bash("npm test")).await;
    let id = added["device"]["id"].as_str().unwrap();
    send("DELETE", format!("/api/devices/{id}"), operator, json!({})).await.ok();
    assert_refused(&world, &mut cli, data["answerToken"].as_str().unwrap(), (401, "device_revoked")).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_offline_keeps_the_token_and_a_call_that_fails_uses_it() {
    let (world, _, mut cli, _, token) = session_with_request().await;
    let reply = answer(&world, &token, "approved");
    cli.respond_to_next_call("permission", &json!({"success": false, "error": "busy"})).await;
    reply.reply().await.assert_error(503, "cli_refused");
    assert_refused(&world, &mut cli, &token, (410, "answer_token_used")).await;

    let (world, session, mut cli, _, token) = session_with_request().await;
    world.advance(MINUTE_MS).await;
    assert_refused(&world, &mut cli, &token, (409, "session_inactive")).await;
    cli.send_keep_alive(&world, &session).await;
    assert_accepted(&world, &mut cli, &token, "approved").await;
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_namespace_or_secret_is_refused_before_an_object_is_called() {
    let (world, _, mut cli, _, token) = session_with_request().await;
    let reads = world.db.read_count();
    for wrong in ["", "x", "sga_a.b", "secret:team", &format!("{token}A"), &token.replacen("sga_", "", 1)] {
        assert_refused(&world, &mut cli, wrong, (401, "invalid_answer_token")).await;
    }
    assert!(world.db.read_count() <= reads + 6, "each new worker reads its secret, and nothing else is read");
    // The object does not rely on the worker.
    let other = World::in_namespace("other", std::sync::Arc::clone(&world.db));
    let body = json!({"token": token, "decision": "approved"});
    other.post("/api/answers", &body).await.assert_error(401, "invalid_answer_token");
}

#[tokio::test(start_paused = true)]
async fn a_token_opens_no_other_route_and_no_other_token_answers() {
    let (world, session, mut cli, _, token) = session_with_request().await;
    let sign_in = json!({"accessToken": world.token()}).to_string().into_bytes();
    let request =
        EdgeRequest { method: "POST".into(), url: "/api/auth".into(), body: sign_in, ..EdgeRequest::default() };
    let jwt = world.send_to_edge(request).reply().await.ok()["token"].as_str().unwrap().to_owned();
    for path in
        ["/api/sessions", &format!("/api/sessions/{session}"), "/api/events", "/cli/sessions/x", "/api/push/log"]
    {
        let request = EdgeRequest {
            method: "GET".into(),
            url: path.into(),
            token: Some(token.clone()),
            ..EdgeRequest::default()
        };
        assert_eq!(world.send_to_edge(request).reply().await.status, 401, "{path}");
    }
    for other in [jwt.as_str(), "secret", "secret:team"] {
        assert_refused(&world, &mut cli, other, (401, "invalid_answer_token")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_worker_routes_answers_in_every_mode_of_routing() {
    for mode in ["token", "host", "single:team"] {
        let edge = edge(mode, "");
        let action = edge.route(&head("POST", "/api/answers"), 0).await;
        assert!(matches!(action, Action::Answer), "{mode}");
        let action = edge.route(&head("GET", "/api/answers"), 0).await;
        assert!(matches!(action, Action::Respond(_)), "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn questions_plans_choices_and_large_requests_have_no_token() {
    let requests = [
        json!({"tool": "AskUserQuestion", "arguments": {"questions": [{"question": "Which?", "options": []}]}}),
        json!({"tool": "ExitPlanMode", "arguments": {"plan": "1. Delete"}}),
        json!({"tool": "Bash", "arguments": {"command": "ls"}, "needsChoice": true, "choices": []}),
        json!({"tool": "Bash", "arguments": {"command": "ls"}, "shortened": {"parts": 2, "bytes": 9_000}}),
        json!({"tool": "Bash", "argumentsBytes": 9_000}),
        json!({"tool": "Bash"}),
        json!({"tool": "Write", "arguments": {"file_path": "a", "content": "x".repeat(4_000)}}),
    ];
    for request in requests {
        let (world, session, mut cli, browser) = push_fixture().await;
        let data = ask(&world, &session, &mut cli, &browser, 1, &request).await;
        assert_eq!(data.get("answerToken"), None, "{request}");
        assert_eq!(data["tool"], request["tool"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_and_the_queue_have_no_token_and_no_arguments() {
    let (world, session, mut cli, browser) = push_fixture().await;
    world.rt.respond_to_pushes(ENDPOINT, &[(503, Some("3600"))]);
    assert!(ask(&world, &session, &mut cli, &browser, 1, &bash("echo hunter2")).await["answerToken"].is_string());
    let log = json!(world.push_log().await).to_string();
    let stored = format!("{:?}", world.rt.stored_entries());
    for text in [log, stored] {
        assert!(!text.contains("sga_") && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_that_is_sent_again_has_the_request_as_it_is_then() {
    let (world, session, mut cli, browser) = push_fixture().await;
    world.rt.respond_to_pushes(ENDPOINT, &[(503, None), (201, None)]);
    let first = ask(&world, &session, &mut cli, &browser, 1, &bash("npm test")).await;
    cli.update_agent_state(&session, 2, &json!({"requests": {"r1": bash("npm run build")}})).await;
    let second = browser.read_one(&world.pushes_after(6_000).await)["data"].clone();
    assert_eq!((&first["detail"], &second["detail"]), (&json!("npm test"), &json!("npm run build")));
    assert_ne!(first["answerToken"], second["answerToken"]);
}
