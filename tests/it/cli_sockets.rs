//! Sockets of CLIs: CONNECT, events with and without an acknowledgement, updates, messages, disconnects.

use crate::support::cli::parse_frame;
use crate::support::prelude::*;
use crate::support::socket::Socket;
use session_gateway_hub::hub::core::peers::connections::Upgrade;

/// Opens a socket and receives the OPEN packet.
async fn open_socket(world: &World, upgrade: Upgrade) -> Socket {
    let mut socket = world.open_cli_after(upgrade);
    assert!(matches!(parse_frame(&socket.next_text().await), Received::Open(_)));
    socket
}

/// Sends a CONNECT packet on a new socket, and returns the reply.
async fn connect(world: &World, upgrade: Upgrade, packet: &str) -> Received {
    let mut socket = open_socket(world, upgrade).await;
    socket.send(packet);
    parse_frame(&socket.next_text().await)
}

/// The message of a CONNECT_ERROR.
fn connect_error(reply: &Received) -> &str {
    match reply {
        Received::ConnectError(data) => data["message"].as_str().unwrap(),
        other => panic!("expected a CONNECT_ERROR, but received {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_open_packet_is_valid_for_the_official_client() {
    let world = World::new();
    let Received::Open(handshake) = parse_frame(&world.open_cli().next_text().await) else { panic!() };
    assert!(handshake["sid"].is_string() && handshake["upgrades"] == json!([]), "{handshake}");
    // The client closes the connection if it receives no ping for the sum of the interval and the timeout.
    assert_eq!(pick(&handshake, ["pingInterval", "pingTimeout"]), json!([30_000, 60_000]), "{handshake}");
    assert!(handshake["maxPayload"].as_u64().unwrap() >= 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_valid_token_is_accepted_in_connect_and_in_the_upgrade_request() {
    let world = World::new();
    let connected = |reply| matches!(reply, Received::Connected(data) if data["sid"].is_string());
    let auth = |auth: Value| format!("40/cli,{auth}");
    assert!(connected(connect(&world, Upgrade::Unauthenticated, &auth(json!({"token": "secret:team"}))).await));
    let all_fields = json!({"token": "secret:team", "namespace": "team", "clientType": "session", "other": [1]});
    assert!(connected(connect(&world, Upgrade::Unauthenticated, &auth(all_fields)).await));
    assert!(connected(connect(&world, Upgrade::Unauthenticated, "40/cli?query=1,{\"token\":\"secret:team\"}").await));
    assert!(connected(connect(&world, Upgrade::Authenticated, "40/cli,").await), "the token is in the upgrade request");
    assert!(connected(connect(&world, Upgrade::Authenticated, "40/cli,{}").await));
    let mut bridged = world.open_cli_after(Upgrade::Bridged);
    bridged.send(auth(json!({"token": "secret:team"})));
    assert!(connected(parse_frame(&bridged.next_text().await)));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_connect_is_rejected_with_a_reason() {
    let world = World::new();
    let table = [
        ("40/cli,", "Invalid token"),
        ("40/cli,{}", "Invalid token"),
        (r#"40/cli,{"token":"wrong"}"#, "Invalid token"),
        (r#"40/cli,{"token":"secret:team","namespace":"other"}"#, "Invalid namespace: the token is for another one"),
        (r#"40/cli,{"token":"secret:other"}"#, "Invalid token: it is for another namespace"),
        ("40", "Invalid namespace"),
        (r#"40{"token":"secret:team"}"#, "Invalid namespace"),
        (r#"40/web,{"token":"secret:team"}"#, "Invalid namespace"),
    ];
    for (packet, message) in table {
        assert_eq!(connect_error(&connect(&world, Upgrade::Unauthenticated, packet).await), message, "{packet}");
    }
    for token in ["5", "true", "[]", "{}", r#"["secret:team"]"#, r#""\ud800""#] {
        let reply = connect(&world, Upgrade::Authenticated, &format!(r#"40/cli,{{"token":{token}}}"#)).await;
        assert_eq!(connect_error(&reply), "Invalid token", "{token}");
    }
    let reply = connect(&world, Upgrade::Authenticated, r#"40/cli,{"token":"secret:other"}"#).await;
    let foreign = "Invalid token: it is for another namespace than the token of the upgrade request";
    assert_eq!(connect_error(&reply), foreign);
    let reply = connect(&world, Upgrade::Unauthenticated, r#"40/cli,{"token":"secret:team","sessionId":5}"#).await;
    assert!(connect_error(&reply).starts_with("Invalid auth"), "{reply:?}");
    for malformed in ["40/cli,[]", "40/cli,{", "40/cli,\"secret:team\""] {
        let mut socket = open_socket(&world, Upgrade::Unauthenticated).await;
        socket.send(malformed);
        assert_eq!(socket.wait_for_close().await, 1002, "{malformed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_packet_before_connect_closes_the_socket_without_effect() {
    let (world, session) = idle_session().await;
    let message = format!(r#"42/cli,0["message",{{"sid":"{session}","message":{{}}}}]"#);
    for packet in [message.as_str(), "43/cli,0[]"] {
        let mut socket = open_socket(&world, Upgrade::Authenticated).await;
        socket.send(packet);
        assert_eq!(socket.wait_for_close().await, 1002, "{packet}");
    }
    assert_eq!(world.get_session(&session).await["seq"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_names_a_foreign_or_missing_id_gets_an_error_and_no_updates() {
    let world = World::new();
    let neighbour = world.neighbour();
    let foreign = neighbour.create_session("/theirs").await;
    neighbour.register_machine("their-box").await;
    let cases = [
        (json!({"sessionId": foreign}), "access-denied", "session", foreign.clone()),
        (json!({"sessionId": "none"}), "not-found", "session", "none".into()),
        (json!({"machineId": "their-box"}), "access-denied", "machine", "their-box".into()),
        (json!({"machineId": "none"}), "not-found", "machine", "none".into()),
    ];
    for (auth, code, scope, id) in cases {
        let mut cli = Cli::connect(&world, auth).await;
        let error = cli.next_event("error").await;
        assert_eq!((&error["code"], &error["scope"], &error["id"]), (&json!(code), &json!(scope), &json!(id)));
        assert!(error["message"].is_string());
        let rejected = cli.emit_with_ack("rpc-register", &json!({"method": format!("{id}:readFile")})).await;
        assert_eq!(rejected["code"], "access-denied");
        assert_eq!(cli.emit_with_ack("ping", &json!({})).await, json!({"ok": true}), "the socket stays open");
    }
    let owner = neighbour.live_cli(&foreign).await;
    let mut other_cli = Cli::connect(&world, json!({"sessionId": foreign})).await;
    other_cli.next_event("error").await;
    neighbour.post(&format!("/api/sessions/{foreign}/messages"), &json!({"text": "secret"})).await.ok();
    other_cli.socket.assert_no_frames().await;
    drop(owner);
}

#[tokio::test(start_paused = true)]
async fn events_that_request_no_acknowledgement_take_effect_without_a_reply() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    let metadata = json!({"path": "/code", "host": "box", "name": "new"});
    cli.emit("message", &json!({"sid": session, "message": {"n": 1}}));
    cli.emit("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata}));
    cli.emit("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {"controlledByUser": true}}));
    cli.emit("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true}));
    cli.emit("machine-alive", &json!({"machineId": "m", "time": world.now()}));
    cli.emit("machine-update-state", &json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"pid": 1}}));
    cli.emit("rpc-register", &json!({"method": "readFile"}));
    cli.emit("ping", &Value::Null);
    cli.socket.assert_no_frames().await;
    let record = world.get_session(&session).await;
    assert_eq!((&record["seq"], &record["thinking"], &record["metadata"]), (&json!(1), &json!(true), &metadata));
    assert_eq!((&record["metadataVersion"], &record["agentStateVersion"]), (&json!(2), &json!(2)));
    let machine = world.get("/api/machines").await.ok()["machines"][0].clone();
    assert_eq!((&machine["runnerState"], &machine["runnerStateVersion"]), (&json!({"pid": 1}), &json!(2)));
    cli.emit("session-end", &json!({"sid": session, "time": world.now()}));
    cli.socket.assert_no_frames().await;
    assert_eq!(world.get_session(&session).await["active"], false);
}

#[tokio::test(start_paused = true)]
async fn a_version_mismatch_returns_the_current_version_and_value() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let update = |version: u64, n: u64| json!({"sid": session, "expectedVersion": version, "agentState": {"n": n}});
    let accepted = cli.emit_with_ack("update-state", &update(1, 1)).await;
    assert_eq!(accepted, json!({"result": "success", "version": 2, "agentState": {"n": 1}}));
    let mismatch = second.emit_with_ack("update-state", &update(1, 2)).await;
    assert_eq!(mismatch, json!({"result": "version-mismatch", "version": 2, "agentState": {"n": 1}}));
    let cleared = json!({"sid": session, "expectedVersion": 2, "agentState": null});
    assert_eq!(
        second.emit_with_ack("update-state", &cleared).await,
        json!({"result": "success", "version": 3, "agentState": null})
    );
    world.register_machine("m").await;
    let machine = |version: u64| json!({"machineId": "m", "expectedVersion": version, "metadata": {"host": "new"}});
    assert_eq!(cli.emit_with_ack("machine-update-metadata", &machine(1)).await["version"], 2);
    let mismatch = second.emit_with_ack("machine-update-metadata", &machine(1)).await;
    assert_eq!(mismatch, json!({"result": "version-mismatch", "version": 2, "metadata": {"host": "new"}}));
}

#[tokio::test(start_paused = true)]
async fn updates_are_sent_only_to_the_other_sockets_of_the_session() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    world.register_machine("m").await;
    let mut second = world.cli(&session).await;
    let mut unrelated = world.cli(&other).await;
    let mut runner = world.runner("m").await;

    let seq = cli.send_message(&session, "hello").await["seq"].clone();
    let update = second.next_event("update").await;
    let expected = json!({"t": "new-message", "sid": session, "message": {
        "id": update["body"]["message"]["id"], "seq": seq, "localId": null, "createdAt": world.now(),
        "content": {"role": "agent", "content": "hello"},
    }});
    assert_eq!(update["body"], expected);
    assert!(update["id"].is_string() && update["seq"].is_u64() && update["createdAt"] == world.now(), "{update}");

    let metadata = json!({"path": "/code", "host": "box", "x": 1});
    cli.emit_with_ack("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata})).await;
    let later = second.next_event("update").await;
    assert_eq!(
        later["body"],
        json!({"t": "update-session", "sid": session, "metadata": {"version": 2, "value": metadata}, "agentState": null})
    );
    assert!(later["seq"].as_u64() > update["seq"].as_u64());
    cli.emit_with_ack("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {"a": 1}})).await;
    assert_eq!(
        second.next_event("update").await["body"],
        json!({"t": "update-session", "sid": session, "metadata": null, "agentState": {"version": 2, "value": {"a": 1}}})
    );
    cli.emit_with_ack(
        "machine-update-state",
        &json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"b": 1}}),
    )
    .await;
    assert_eq!(
        runner.next_event("update").await["body"],
        json!({"t": "update-machine", "machineId": "m", "metadata": null, "runnerState": {"version": 2, "value": {"b": 1}}})
    );
    for cli in [&mut cli, &mut unrelated, &mut second, &mut runner] {
        cli.socket.assert_no_frames().await;
    }
    // A change by a web client is sent to every socket of the session.
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"})).await.ok();
    for receiver in [&mut cli, &mut second] {
        assert_eq!(receiver.next_event("update").await["body"]["message"]["content"]["content"]["text"], "hi");
    }
    unrelated.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_with_a_local_id_is_stored_once() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    let message = json!({"sid": session, "message": {"n": 1}, "localId": "l1"});
    let concurrent = [cli.emit_for_ack("message", &message), cli.emit_for_ack("message", &message)];
    let from_second = second.emit_for_ack("message", &message);
    let first = cli.wait_for_ack(concurrent[0]).await;
    assert_eq!((&first["ok"], &first["seq"]), (&json!(true), &json!(1)));
    assert_eq!(cli.wait_for_ack(concurrent[1]).await, first);
    assert_eq!(second.wait_for_ack(from_second).await, first);
    let from_web =
        world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "x", "localId": "l1"})).await;
    assert_eq!(from_web.ok()["message"]["id"], first["id"]);
    assert_eq!(web.types().await.iter().filter(|t| *t == "message-received").count(), 1);
    // A message with the same local id in another session is a different message.
    let other = world.create_session("/other").await;
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": other, "message": {}, "localId": "l1"})).await["seq"], 1);
    // After the hibernation, the hub finds the local id in the database.
    world.hibernate_and_wake().await;
    assert_eq!(cli.emit_with_ack("message", &message).await, first);
    assert_eq!(world.get_session(&session).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn message_content_is_stored_byte_for_byte_and_json_in_a_string_is_unwrapped() {
    let (world, session, mut cli) = live_session().await;
    let content = r#"{"z":12345678901234567890,"a":1.50,"__proto__":{"é":"\ud83e\udd80"}}"#;
    cli.emit_raw_with_ack("message", &format!(r#"{{"sid":"{session}","message":{content}}}"#)).await;
    let wrapped = json!({"sid": session, "message": content});
    cli.emit_with_ack("message", &wrapped).await;
    cli.emit_with_ack("message", &json!({"sid": session, "message": "plain text"})).await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page.text.matches(content).count(), 2, "{}", page.text);
    assert_eq!(page.json()["messages"][0]["content"], "plain text");
}

#[tokio::test(start_paused = true)]
async fn updated_metadata_is_published_and_stored_byte_for_byte_also_after_a_rename() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let written = r#""path":"/p","zeta":1,"alpha":1.0,"host":"h","opaque":9007199254740993"#;
    let update = format!(r#"{{"sid":"{session}","expectedVersion":1,"metadata":{{{written}}}}}"#);
    cli.emit_raw("update-metadata", &update);
    for (receiver, start) in [(&mut cli, "43/cli,"), (&mut second, "42/cli,")] {
        let frame = receiver.socket.next_text().await;
        assert!(frame.starts_with(start) && frame.contains(&format!("{{{written}}}")), "{frame}");
    }
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"N"}"#).await.ok();
    let renamed = world.get(&format!("/api/sessions/{session}")).await;
    assert!(renamed.text.contains(&format!("{written},")), "{}", renamed.text);
}

#[tokio::test(start_paused = true)]
async fn five_thousand_messages_at_once_are_stored_in_order() {
    let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    let before = world.db.write_count();
    let text = "x".repeat(1_000);
    let acks: Vec<u64> = (1..=5_000)
        .map(|n| cli.emit_for_ack("message", &json!({"sid": session, "message": {"n": n, "text": text}})))
        .collect();
    let frames = cli.socket.drain().await;
    let received: Vec<(u64, u64)> = frames
        .iter()
        .map(|frame| match frame {
            Frame::Text(text) => match parse_frame(text) {
                Received::Ack { id, arg } => (id, arg["seq"].as_u64().unwrap()),
                other => panic!("{other:?}"),
            },
            closed => panic!("{closed:?}"),
        })
        .collect();
    let expected: Vec<(u64, u64)> = acks.into_iter().zip(1..).collect();
    assert_eq!(received, expected);
    let events = web.events().await;
    let seqs: Vec<u64> = events.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
    assert!(seqs.into_iter().eq(1..=5_000));
    let mut after = 0;
    while after < 5_000 {
        let page = world.get(&format!("/cli/sessions/{session}/messages?afterSeq={after}")).await.ok();
        for message in page["messages"].as_array().unwrap() {
            after += 1;
            assert_eq!((&message["seq"], &message["content"]["n"]), (&json!(after), &json!(after)));
        }
    }
    assert!(world.db.write_count() - before < 200, "{} batches for 5,000 messages", world.db.write_count() - before);
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_packet_closes_the_socket() {
    let (world, session) = idle_session().await;
    for packet in ["41/cli,", "1"] {
        let mut cli = world.cli(&session).await;
        cli.register("readFile").await;
        cli.socket.send(packet);
        assert_eq!(cli.socket.wait_for_close().await, 1000);
        let read = world.get(&format!("/api/sessions/{session}/file?path=a")).await.ok();
        assert_eq!(read["error"], "No handler registered for readFile");
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_closes_during_connect_needs_no_alarm() {
    let (world, session) = idle_session().await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    let cli = Cli::start_connect(&world, &json!({"token": "secret:team", "sessionId": session}));
    run_until_idle().await;
    cli.socket.close();
    world.db.release_results();
    world.advance(30_000).await;
    assert_eq!(world.rt.alarm(), None);
}

#[tokio::test(start_paused = true)]
async fn frames_that_arrived_before_their_socket_closed_take_effect() {
    let (world, session, mut cli) = live_session().await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
    world.hibernate_and_wake().await;
    world.db.hold_all_results();
    cli.emit("message", &json!({"sid": session, "message": "first"}));
    cli.emit("message", &json!({"sid": session, "message": "last"}));
    cli.emit("session-end", &json!({"sid": session, "time": world.now()}));
    assert_eq!(world.held_results().await, 1, "the first frame waits for the database");
    cli.socket.close();
    world.release_results().await;
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 2);
    let record = world.get_session(&session).await;
    assert_eq!(record["active"], false);
    assert_eq!(record["agentState"]["completedRequests"]["r"]["status"], "canceled");
}
