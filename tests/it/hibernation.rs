//! Hibernation: what the hub restores from attachments, storage and database when its object wakes.

use crate::support::prelude::*;
use session_gateway_hub::limits::MIN_ATTACHMENT_WRITE_INTERVAL_MS;

/// Calls `gitStatus` of a session. Returns which of the CLIs received the call, or the error.
async fn handler_of_git_status<const N: usize>(world: &World, session: &str, clis: [&mut Cli; N]) -> String {
    let reply = world.start_and_run("GET", &format!("/api/sessions/{session}/git-status"), "").await;
    for (name, cli) in ["first", "second"].into_iter().zip(clis) {
        if let Some(call) = cli.try_call().await {
            cli.respond(&call, &json!({"success": true, "by": name}));
        }
        cli.socket.drain().await;
    }
    let answer = reply.reply().await.ok();
    answer["by"].as_str().or(answer["error"].as_str()).unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn registrations_that_arrive_together_write_the_attachment_once() {
    let (world, session, mut cli) = live_session().await;
    run_until_idle().await;
    let writes = world.rt.attachment_writes();
    for i in 0..14 {
        cli.emit("rpc-register", &json!({"method": format!("method-{i}")}));
    }
    cli.deliver("rpc-register", &json!({"method": "gitStatus"})).await;
    assert_eq!(world.rt.attachment_writes() - writes, 1);
    world.hibernate_and_wake().await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut cli]).await, "first");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_registrations_and_keep_alives_of_two_sockets_is_restored_after_hibernation() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.cli(&session).await;
    world.advance(2 * MIN_ATTACHMENT_WRITE_INTERVAL_MS).await;
    let now = world.now();
    first.emit("rpc-register", &json!({"method": "gitStatus"}));
    second.emit("rpc-register", &json!({"method": "gitStatus"}));
    first.emit("session-alive", &json!({"sid": session, "time": now}));
    first.emit("rpc-register", &json!({"method": "readFile"}));
    world.hibernate_and_wake().await;
    let handler = handler_of_git_status(&world, &session, [&mut first, &mut second]).await;
    assert_eq!(handler, "second", "the second CLI replaced the first");
    let call = world.start("GET", &format!("/api/sessions/{session}/file?path=a"), "");
    first.respond_to_next_call("readFile", &json!({"success": true, "content": ""})).await;
    call.reply().await.ok();
    let attachment: Value = serde_json::from_str(&world.rt.attachment(first.socket.key)).unwrap();
    assert!(attachment.to_string().contains(&now.to_string()), "the keep-alive is stored: {attachment}");
}

#[tokio::test(start_paused = true)]
async fn registered_methods_are_restored_after_hibernation() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    cli.register("gitStatus").await;
    cli.register(&format!("{session}:readFile")).await;
    world.hibernate_and_wake().await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut cli, &mut second]).await, "first");
    let call = world.start("GET", &format!("/api/sessions/{session}/file?path=a"), "");
    let request = cli.next_call().await;
    assert_eq!(request.method, format!("{session}:readFile"), "the call has the name that the CLI registered");
    cli.respond(&request, &json!({"success": true}));
    call.reply().await.ok();
    cli.emit_with_ack("rpc-unregister", &json!({"method": "gitStatus"})).await;
    world.hibernate_and_wake().await;
    let answer = handler_of_git_status(&world, &session, [&mut cli]).await;
    assert_eq!(answer, "No handler registered for gitStatus");
}

#[tokio::test(start_paused = true)]
async fn the_last_cli_that_registered_a_method_is_called_after_hibernation() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    world.advance(1_000).await;
    second.register("gitStatus").await;
    world.hibernate_and_wake().await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut first, &mut second]).await, "second");
    // A registration of another method does not change which CLI is called.
    world.advance(1_000).await;
    first.register("readFile").await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut first, &mut second]).await, "second");
    world.hibernate_and_wake().await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut first, &mut second]).await, "second");
}

#[tokio::test(start_paused = true)]
async fn the_last_of_two_registrations_in_one_millisecond_is_called_after_hibernation() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    second.register("gitStatus").await;
    world.hibernate_and_wake().await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut first, &mut second]).await, "second");
}

#[tokio::test(start_paused = true)]
async fn hibernation_does_not_change_which_cli_is_called_after_the_cli_that_registered_last_has_disconnected() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    world.advance(1_000).await;
    second.register("gitStatus").await;
    second.socket.close();
    world.advance(RECONNECT_GRACE_MS).await;
    let before = handler_of_git_status(&world, &session, [&mut first]).await;
    world.hibernate_and_wake().await;
    assert_eq!(handler_of_git_status(&world, &session, [&mut first]).await, before);
}

#[tokio::test(start_paused = true)]
async fn the_sessions_and_machines_of_sockets_are_restored_after_hibernation() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    let mut bare = world.bare_cli().await;
    let other = world.create_session("/other").await;
    world.hibernate_and_wake().await;
    assert_eq!(cli.send_message(&session, "hello").await["seq"], 1);
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"})).await.ok();
    assert_eq!(cli.next_event("update").await["body"]["message"]["seq"], 2);
    let state = json!({"machineId": "m", "expectedVersion": 1, "runnerState": {}});
    bare.emit_with_ack("machine-update-state", &state).await;
    assert_eq!(runner.next_event("update").await["body"]["t"], "update-machine");
    cli.register(&format!("{other}:readFile")).await;
    let refused = bare.emit_with_ack("rpc-register", &json!({"method": "readFile"})).await;
    assert_eq!(refused["code"], "access-denied", "the CLI named no session");
    assert_eq!(bare.next_event("error").await["code"], "access-denied");
    bare.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn seqs_and_versions_continue_after_hibernation() {
    let (world, session, mut cli) = live_session().await;
    for n in 1..=3 {
        assert_eq!(cli.send_message(&session, "m").await["seq"], n);
        let update = json!({"sid": session, "expectedVersion": n, "agentState": {"n": n}});
        assert_eq!(cli.emit_with_ack("update-state", &update).await["version"], n + 1);
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_restored_after_hibernation() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let mut session_web = world.web(&format!("sessionId={session}")).await;
    let mut other_web = world.web(&format!("sessionId={other}")).await;
    let mut all_web = world.web("all=true").await;
    world.hibernate_and_wake().await;
    cli.send_message(&session, "hello").await;
    assert_eq!(session_web.types().await, ["message-received"]);
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    assert_eq!(session_web.types().await, ["session-updated"]);
    assert_eq!(all_web.types().await, ["session-updated"]);
    assert!(other_web.types().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn active_at_is_restored_after_hibernation() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    let active_at = async || {
        let list = world.get("/api/sessions").await.ok()["sessions"][0]["activeAt"].clone();
        let machine = world.get("/api/machines").await.ok()["machines"][0]["activeAt"].clone();
        [list, world.get_session(&session).await["activeAt"].clone(), machine]
    };
    for wait in [0, 20_000, 5_000] {
        world.advance(wait).await;
        cli.send_keep_alive(&world, &session).await;
        runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    }
    assert_eq!(active_at().await, [START + 25_000; 3]);
    world.hibernate_and_wake().await;
    assert_eq!(active_at().await, [START + 25_000; 3]);
    // Closing a socket sets `activeAt`, too.
    world.advance(3_000).await;
    cli.socket.close();
    runner.socket.close();
    assert_eq!(active_at().await, [START + 28_000; 3]);
    world.hibernate_and_wake().await;
    assert_eq!(active_at().await, [START + 28_000; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_during_hibernation_keeps_its_active_at() {
    for disconnects in [false, true] {
        let (world, session, mut cli) = live_session().await;
        world.advance(20_000).await;
        cli.send_keep_alive(&world, &session).await;
        if disconnects {
            cli.socket.close();
        }
        world.hibernate_and_wake().await;
        world.advance(30_000 + MIN_ATTACHMENT_WRITE_INTERVAL_MS).await;
        assert_eq!(pick(&world.get_session(&session).await, ["active", "activeAt"]), json!([false, START + 20_000]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_expire_early_after_two_keep_alives_within_a_second_and_a_hibernation() {
    let (world, session, mut cli) = live_session().await;
    world.advance(5_000).await;
    cli.send_keep_alive(&world, &session).await;
    world.advance(900).await;
    cli.send_keep_alive(&world, &session).await;
    world.hibernate_and_wake().await;
    world.advance(29_999).await;
    assert_eq!(world.get_session(&session).await["active"], true, "30 s after the second keep-alive have not passed");
    world.advance(MIN_ATTACHMENT_WRITE_INTERVAL_MS).await;
    assert_eq!(world.get_session(&session).await["active"], false);
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_change_active_at() {
    let (world, session, _cli) = live_session().await;
    world.advance(5_000).await;
    world.restart();
    assert_eq!(world.get_session(&session).await["activeAt"], START);
}

#[tokio::test(start_paused = true)]
async fn visibility_is_restored_after_hibernation() {
    let world = World::new();
    let mut socket = world.open_event_stream("visibility=hidden", None, Default::default()).await.unwrap();
    let first_event: Value = serde_json::from_str(&socket.next_text().await).unwrap();
    let body = json!({"subscriptionId": first_event["data"]["subscriptionId"], "visibility": "visible"});
    let visible = || {
        let attachment: Value = serde_json::from_str(&world.rt.attachment(socket.key)).unwrap();
        attachment["web"]["visible"].clone()
    };
    assert_eq!(visible(), false);
    world.post("/api/visibility", &body).await.ok();
    assert_eq!(visible(), true);
    world.hibernate_and_wake().await;
    assert_eq!(visible(), true);
    world.post("/api/visibility", &body).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_late_result_from_before_a_restart_completes_no_later_call() {
    let (world, session, mut cli) = session_with_methods(&["gitStatus"]).await;
    let interrupted = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let earlier_request = cli.next_call().await;
    world.restart();
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let request = cli.next_call().await;
    assert_ne!(earlier_request.ack, request.ack);
    cli.respond(&earlier_request, &json!({"success": true, "late": true}));
    assert!(!call.has_response().await);
    cli.respond(&request, &json!({"success": true}));
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
    drop(interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_socket_with_an_unreadable_attachment_is_closed_with_1012() {
    let (world, _, mut cli) = live_session().await;
    let mut other = world.bare_cli().await;
    world.rt.set_attachment(cli.socket.key, r#"{"of another version":{}}"#);
    world.hibernate_and_wake().await;
    assert_eq!(cli.socket.wait_for_close().await, 1012);
    assert_eq!(other.emit_with_ack("ping", &Value::Null).await, json!({"ok": true}));
}

#[tokio::test(start_paused = true)]
async fn the_keep_alives_of_a_machine_do_not_prolong_the_session_of_the_same_socket() {
    let (world, session) = idle_session().await;
    world.register_machine("m").await;
    let mut cli = Cli::connect(&world, json!({"sessionId": session, "machineId": "m"})).await;
    cli.send_keep_alive(&world, &session).await;
    for _ in 0..4 {
        world.advance(10_000).await;
        cli.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
        world.hibernate_and_wake().await;
    }
    assert_eq!(world.get_session(&session).await["active"], false, "only the machine has sent keep-alives");
}

/// A machine with two runners. The hub has closed the socket of the first runner, whose client does not answer. Then the second
/// runner has registered `checkPathExists`.
async fn runner_after_an_unanswered_close(world: &World) -> (Cli, Cli) {
    world.register_machine("m").await;
    let mut dead = world.runner("m").await;
    dead.register("checkPathExists").await;
    dead.socket.never_answer_close();
    dead.socket.send("not a packet");
    assert_eq!(dead.socket.wait_for_close().await, 1002);
    let mut runner = world.runner("m").await;
    runner.register("checkPathExists").await;
    (dead, runner)
}

/// Calls `checkPathExists`, which the runner answers.
async fn call_runner(world: &World, runner: &mut Cli) {
    let call = world.start("POST", "/api/machines/m/paths/exists", r#"{"paths":["/code"]}"#);
    assert_eq!(runner.complete(call, &json!({"/code": true})).await.ok(), json!({"/code": true}));
}

#[tokio::test(start_paused = true)]
async fn a_closed_socket_whose_client_does_not_answer_takes_no_methods_after_hibernation() {
    let world = World::new();
    let (dead, mut runner) = runner_after_an_unanswered_close(&world).await;
    for _ in 0..3 {
        world.hibernate_and_wake().await;
        call_runner(&world, &mut runner).await;
        dead.socket.send(r#"42/cli,["rpc-register",{"method":"checkPathExists"}]"#);
        call_runner(&world, &mut runner).await;
    }
    // Longer than a ping timeout.
    for _ in 0..6 {
        world.advance(30_000).await;
        runner.socket.send("3");
        world.hibernate_and_wake().await;
    }
    call_runner(&world, &mut runner).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_close_changes_nothing() {
    let world = World::new();
    let (dead, mut runner) = runner_after_an_unanswered_close(&world).await;
    world.hibernate_and_wake().await;
    let entries = world.rt.stored_entries();
    dead.socket.close();
    assert_eq!(world.rt.stored_entries(), entries, "no timeout restarts");
    call_runner(&world, &mut runner).await;
    world.hibernate_and_wake().await;
    call_runner(&world, &mut runner).await;
}
