//! RPC calls from web clients to CLIs: results, registrations, and failures.

use crate::support::prelude::*;

/// Starts a GET request to a route of a session.
fn start_get(world: &World, session: &str, route: &str) -> PendingReply {
    world.start("GET", &format!("/api/sessions/{session}/{route}"), "")
}

#[tokio::test(start_paused = true)]
async fn each_route_calls_its_method_and_returns_the_result_byte_for_byte() {
    let (world, session, mut cli) = live_session().await;
    let table = [
        ("git-status", "gitStatus", json!({"cwd": "/code"})),
        ("git-status?path=a/b&offset=500", "gitStatus", json!({"cwd": "/code", "filePath": "a/b", "offset": 500})),
        ("git-diff-numstat", "gitDiffNumstat", json!({"cwd": "/code", "staged": false})),
        ("git-diff-numstat?staged=true", "gitDiffNumstat", json!({"cwd": "/code", "staged": true})),
        ("git-diff-file?path=a%2Fb", "gitDiffFile", json!({"cwd": "/code", "filePath": "a/b", "staged": false})),
        ("git-diff-file?path=a&staged=1", "gitDiffFile", json!({"cwd": "/code", "filePath": "a", "staged": true})),
        ("file?path=%C3%BC.txt", "readFile", json!({"path": "ü.txt"})),
        ("directory", "listDirectory", json!({"path": ""})),
        ("directory?path=src", "listDirectory", json!({"path": "src"})),
        ("directory?path=src&offset=10000", "listDirectory", json!({"path": "src", "offset": 10_000})),
        ("slash-commands", "listSlashCommands", json!({"agent": "alpha"})),
        ("skills", "listSkills", json!({})),
    ];
    let result = r#"{"success":true,"z":12345678901234567890,"a":[1.50,"é\u0000"]}"#;
    for (route, method, params) in table {
        cli.register(&format!("{session}:{method}")).await;
        let reply = start_get(&world, &session, route);
        let call = cli.next_call().await;
        assert_eq!((&call.method, &call.params), (&format!("{session}:{method}"), &params), "{route}");
        assert_eq!(call.session_id, Some(json!(session)), "{route}");
        cli.respond_raw(&call, &json!(result).to_string());
        let reply = reply.reply().await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (200, result), "{route}");
        assert_eq!(reply.headers["content-type"], "application/json");
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn slash_commands_are_requested_for_the_agent_of_the_session() {
    let (world, session, mut cli) = live_session().await;
    let metadata = json!({"path": "/code", "host": "box", "flavor": "gamma"});
    cli.emit_with_ack("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata})).await;
    cli.register("listSlashCommands").await;
    let reply = start_get(&world, &session, "slash-commands");
    let call = cli.next_call().await;
    assert_eq!((call.method.as_str(), &call.params), ("listSlashCommands", &json!({"agent": "gamma"})));
    cli.respond(&call, &json!({"success": false, "error": "no such agent"}));
    assert_eq!(reply.reply().await.ok(), json!({"success": false, "error": "no such agent"}), "a failure is a result");
}

#[tokio::test(start_paused = true)]
async fn files_are_found_with_ripgrep() {
    let (world, session, mut cli) = session_with_methods(&["runRipgrep"]).await;
    let table = [
        ("files", json!(["--files"])),
        ("files?query=", json!(["--files"])),
        ("files?query=main", json!(["--files", "--iglob", "*main*"])),
        ("files?query=*.rs", json!(["--files", "--iglob", "*.rs"])),
        ("files?query=--pre%3Dsh", json!(["--files", "--iglob", "*--pre=sh*"])),
    ];
    for (route, args) in table {
        let reply = start_get(&world, &session, route);
        let call = cli.next_call().await;
        assert_eq!(call.params, json!({"args": args, "cwd": "/code"}), "{route}");
        cli.respond(&call, &json!({"success": true, "stdout": "src/main.rs\nREADME.md\n"}));
        let files = reply.reply().await.ok();
        let main = json!({
            "fileName": "main.rs", "filePath": "src/main.rs", "fullPath": "/code/src/main.rs", "fileType": "file",
        });
        assert_eq!((&files["success"], &files["files"][0]), (&json!(true), &main));
        assert_eq!(files["files"].as_array().unwrap().len(), 2);
    }
    assert_eq!(
        cli.complete(start_get(&world, &session, "files?limit=1"), &json!({"success": true, "stdout": "a\nb\nc"}))
            .await
            .ok()["files"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        cli.complete(start_get(&world, &session, "files"), &json!({"success": false, "error": "rg: not found"}))
            .await
            .ok(),
        json!({"success": false, "error": "rg: not found"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_unregistered_method_returns_an_error_result() {
    let (world, session, mut cli) = live_session().await;
    let expected = json!({"success": false, "error": "No handler registered for gitStatus"});
    assert_eq!(start_get(&world, &session, "git-status").reply().await.ok(), expected);
    cli.register("gitStatus").await;
    assert_eq!(cli.emit_with_ack("rpc-unregister", &json!({"method": "gitStatus"})).await, json!({"ok": true}));
    assert_eq!(start_get(&world, &session, "git-status").reply().await.ok(), expected);
    // A method that is registered for another session is not called.
    let other = world.create_session("/other").await;
    world.cli(&other).await.register("gitStatus").await;
    assert_eq!(start_get(&world, &session, "git-status").reply().await.ok(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_response_times_out() {
    let (world, session, mut cli) = session_with_methods(&["gitStatus"]).await;
    let reply = start_get(&world, &session, "git-status");
    let call = cli.next_call().await;
    assert!(world.rt.alarm().is_some_and(|at| at <= world.now() + RPC_TIMEOUT_MS));
    world.advance(RPC_TIMEOUT_MS - 1).await;
    assert!(!reply.is_ready());
    world.advance(1).await;
    assert_eq!(reply.reply().await.ok(), json!({"success": false, "error": "RPC timed out: gitStatus"}));
    // A late result is ignored, and does not complete the next call.
    cli.respond(&call, &json!({"success": true, "late": true}));
    let next = start_get(&world, &session, "git-status");
    let second = cli.next_call().await;
    assert_ne!(second.ack, call.ack);
    cli.respond(&second, &json!({"success": true}));
    assert_eq!(next.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_closes_fails_its_calls_and_unregisters_its_methods() {
    let (world, session, mut cli) = session_with_methods(&["gitStatus"]).await;
    let reply = start_get(&world, &session, "git-status");
    cli.next_call().await;
    cli.socket.close();
    let failed = reply.reply().await.ok();
    assert_eq!(failed["success"], false);
    assert_eq!(failed["error"], "The CLI disconnected before it answered gitStatus");
    world.advance(RECONNECT_GRACE_MS).await;
    let next = start_get(&world, &session, "git-status").reply().await.ok();
    assert_eq!(next["error"], "No handler registered for gitStatus");
}

#[tokio::test(start_paused = true)]
async fn the_last_registration_of_a_method_replaces_the_earlier_registration_permanently() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    second.register(&format!("{session}:gitStatus")).await;
    assert_eq!(
        second
            .complete(start_get(&world, &session, "git-status"), &json!({"success": true, "by": "second"}))
            .await
            .ok()["by"],
        "second"
    );
    first.emit_with_ack("rpc-unregister", &json!({"method": "gitStatus"})).await;
    let reply = start_get(&world, &session, "git-status");
    second.next_call().await;
    first.socket.assert_no_frames().await;
    second.socket.close();
    assert_eq!(reply.reply().await.ok()["success"], false);
    world.advance(RECONNECT_GRACE_MS).await;
    let next = start_get(&world, &session, "git-status").reply().await.ok();
    assert_eq!(next["error"], "No handler registered for gitStatus");
}

#[tokio::test(start_paused = true)]
async fn a_method_can_only_be_registered_for_a_session_or_machine_of_the_namespace() {
    let (world, session, mut owner) = live_session().await;
    let neighbour = world.neighbour();
    let foreign = neighbour.create_session("/other").await;
    let mut other_cli = world.cli(&world.create_session("/other").await).await;
    let mut bare = world.bare_cli().await;
    let foreign_names = [format!("{foreign}:readFile"), format!("{session}:"), ":readFile".into(), "none:a:b".into()];
    let ownerless_names = ["readFile".to_owned(), format!("{foreign}:readFile")];
    for (cli, names) in [(&mut other_cli, &foreign_names[..]), (&mut bare, &ownerless_names)] {
        for name in names {
            let rejected = cli.emit_with_ack("rpc-register", &json!({"method": name})).await;
            assert_eq!((&rejected["ok"], &rejected["code"]), (&json!(false), &json!("access-denied")), "{name}");
            // An `error` event is sent, too, with and without an acknowledgement.
            cli.emit("rpc-register", &json!({"method": name}));
            for _ in 0..2 {
                assert_eq!(cli.next_event("error").await["code"], "access-denied", "{name}");
            }
        }
    }
    owner.register("readFile").await;
    owner.complete(start_get(&world, &session, "file?path=a"), &json!({"success": true})).await.ok();
}

/// A runner may serve many sessions with one socket.
#[tokio::test(start_paused = true)]
async fn a_socket_can_register_methods_of_other_sessions_and_machines() {
    let (world, session, _) = live_session().await;
    let other = world.create_session("/other").await;
    world.register_machine("m:1").await;
    let mut runner = world.bare_cli().await;
    for name in [format!("{session}:gitStatus"), format!("{other}:gitStatus"), "m:1:checkPathExists".into()] {
        runner.register(&name).await;
    }
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        for id in [&session, &other] {
            let reply = start_get(&world, id, "git-status");
            runner.respond_to_next_call(&format!("{id}:gitStatus"), &json!({"success": true, "branch": id})).await;
            assert_eq!(reply.reply().await.ok()["branch"], **id);
        }
        let reply = world.start("POST", "/api/machines/m%3A1/paths/exists", r#"{"paths":["/a"]}"#);
        runner.respond_to_next_call("m:1:checkPathExists", &json!({"/a": true})).await;
        assert_eq!(reply.reply().await.ok(), json!({"/a": true}));
    }
    runner.emit_with_ack("rpc-unregister", &json!({"method": format!("{other}:gitStatus")})).await;
    let unregistered = start_get(&world, &other, "git-status").reply().await.ok();
    assert_eq!(unregistered["error"], "No handler registered for gitStatus");
}

#[tokio::test(start_paused = true)]
async fn a_socket_receives_the_updates_of_the_sessions_and_machines_that_it_serves() {
    let (world, session, _cli) = live_session().await;
    world.register_machine("m").await;
    let (mut runner, mut other_runner) = (world.bare_cli().await, world.bare_cli().await);
    let send = async |text: &str| {
        world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": text})).await.ok();
    };
    send("before").await;
    assert!(runner.try_event("update").await.is_none());
    runner.send_keep_alive(&world, &session).await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        send("hello").await;
        assert_eq!(runner.next_event("update").await["body"]["t"], "new-message");
        let version = 1 + u64::from(hibernates);
        let update = json!({"machineId": "m", "expectedVersion": version, "runnerState": {"n": version}});
        assert_eq!(other_runner.emit_with_ack("machine-update-state", &update).await["result"], "success");
        assert_eq!(runner.next_event("update").await["body"]["t"], "update-machine");
    }
    assert!(runner.try_event("update").await.is_none(), "each update is sent once");
}

#[tokio::test(start_paused = true)]
async fn another_socket_cannot_complete_a_call() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    cli.register("gitStatus").await;
    let reply = start_get(&world, &session, "git-status");
    let call = cli.next_call().await;
    second.respond(&call, &json!({"success": true, "forged": true}));
    second.socket.assert_no_frames().await;
    assert!(!reply.is_ready());
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(reply.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_result_fails_the_call_at_once() {
    let (world, session, mut cli) = session_with_methods(&["gitStatus"]).await;
    for argument in ["\"not json\"", "[]", "null", "5", "\"[]\"", "\"null\"", "\"{\"", ""] {
        let reply = start_get(&world, &session, "git-status");
        let call = cli.next_call().await;
        cli.respond_raw(&call, argument);
        let failed = reply.reply().await.ok();
        assert_eq!(failed["success"], false, "{argument}");
        assert!(failed["error"].as_str().unwrap().contains("gitStatus"), "{argument}: {failed}");
    }
    let reply = start_get(&world, &session, "git-status");
    let call = cli.next_call().await;
    cli.respond_raw(&call, r#"{"success":true,"unwrapped":1}"#);
    assert_eq!(reply.reply().await.ok()["unwrapped"], 1, "the result may be an object instead of a JSON string");
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_get_their_own_results_in_any_order() {
    let (world, session, mut cli) = session_with_methods(&["readFile"]).await;
    let replies: Vec<PendingReply> = (0..50).map(|n| start_get(&world, &session, &format!("file?path={n}"))).collect();
    let calls = each(0..50, async |_| cli.next_call().await).await;
    for call in calls.iter().rev() {
        cli.respond(call, &json!({"success": true, "content": call.params["path"]}));
    }
    for (n, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.reply().await.ok()["content"], Value::from(n.to_string()));
    }
}

/// Registers methods with this prefix until a method is rejected because the attachment is full. Returns the number of accepted
/// methods.
async fn fill_attachment(cli: &mut Cli, prefix: &str) -> usize {
    for n in 0..2_000 {
        let answer = cli.emit_with_ack("rpc-register", &json!({"method": format!("{prefix}{n}")})).await;
        if answer["ok"] == false {
            assert_eq!(answer["code"], "too-many-methods");
            return n;
        }
    }
    panic!("the attachment is never full");
}

#[tokio::test(start_paused = true)]
async fn after_an_unregistration_another_method_fits_into_a_full_attachment() {
    let (world, session, mut cli) = live_session().await;
    fill_attachment(&mut cli, "method-number-").await;
    cli.emit_with_ack("rpc-unregister", &json!({"method": "method-number-0"})).await;
    cli.register("gitStatus").await;
    let reply = start_get(&world, &session, "git-status");
    cli.next_call().await;
    drop(reply);
    run_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn the_size_of_an_attachment_is_computed_in_the_encoding_of_the_platform() {
    let (world, session, plain) = live_session().await;
    let mut counts = Vec::new();
    for name in ["abcdefgh", "äöüßéèçñ", "методика", "読み書きする方法", "🦀🦀🦀🦀"] {
        let mut cli = world.cli(&session).await;
        counts.push(fill_attachment(&mut cli, &name.repeat(8)).await);
        // Keep-alives and pings are stored in the same attachment.
        cli.send_keep_alive(&world, &session).await;
        world.advance(60_000).await;
        cli.socket.close();
        plain.socket.send("3");
    }
    let [ascii, latin, cyrillic, kanji, emoji] = counts[..] else { panic!("{counts:?}") };
    assert_eq!(ascii, latin);
    assert!(cyrillic.abs_diff(ascii / 2) < 5, "a character that is not Latin-1 has two bytes: {counts:?}");
    assert_eq!((cyrillic, cyrillic), (kanji, emoji), "each name has 64 UTF-16 units");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_on_arrival_even_if_earlier_frames_of_its_socket_wait_for_the_database() {
    let (world, session, mut cli) = session_with_methods(&["gitStatus"]).await;
    let other = world.create_session("/other").await;
    world.hibernate_and_wake().await;
    let reply = start_get(&world, &session, "git-status");
    let call = cli.next_call().await;
    world.db.hold_results(BatchKind::Reads);
    let waiting = cli.emit_for_ack("message", &json!({"sid": other, "message": "waits for its session"}));
    let queued = cli.emit_for_ack("message", &json!({"sid": session, "message": "is queued behind it"}));
    assert_eq!(world.held_results().await, 1);
    cli.respond(&call, &json!({"success": true, "stdout": ""}));
    assert!(reply.has_response().await, "the answer is read before the queued frames");
    assert_eq!(reply.reply().await.ok(), json!({"success": true, "stdout": ""}));
    assert_eq!(cli.try_ack(waiting).await, None);
    assert_eq!(cli.try_ack(queued).await, None);
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(waiting).await["ok"], true);
    assert_eq!(cli.wait_for_ack(queued).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_answer_closes_the_socket_after_the_frames_before_it_took_effect() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    cli.emit("message", &json!({"sid": other, "message": "waits for its session"}));
    let queued = cli.emit_for_ack("message", &json!({"sid": session, "message": "is queued behind it"}));
    run_until_idle().await;
    cli.socket.send("43/cli,1{");
    run_until_idle().await;
    assert!(cli.socket.is_open());
    world.release_results().await;
    assert!(!cli.socket.is_open());
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 2, "{queued} is stored, too");
}

#[tokio::test(start_paused = true)]
async fn the_ack_ids_of_calls_are_distinct_and_fit_a_signed_32_bit_integer() {
    let (world, session, mut cli) = session_with_methods(&["listSkills"]).await;
    let replies: Vec<PendingReply> = (0..100).map(|_| start_get(&world, &session, "skills")).collect();
    let mut acks = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let call = cli.next_call().await;
        assert!(acks.insert(call.ack) && i32::try_from(call.ack).is_ok_and(|ack| ack > 0), "{}", call.ack);
        cli.respond(&call, &json!({"success": true}));
    }
    all_ok(replies).await;
}
