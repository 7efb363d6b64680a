//! A CLI's socket from its first frame to its last: CONNECT, events with and without acknowledgement, updates.

use crate::support::cli::{Cli, Heard, read};
use crate::support::live::live;
use crate::support::runtime::Frame;
use crate::support::socket::Socket;
use crate::support::sqlite::On;
use crate::support::{RECONNECT_GRACE_MS, World, quiet};
use serde_json::{Value, json};
use session_gateway_hub::hub::limits::MAX_UNACKED_BYTES_WITH_REPLIES;
use session_gateway_hub::store::limits::MAX_CONTENT_BYTES;

/// A raw socket that has heard its open packet.
async fn opened(world: &World, authenticated: bool) -> Socket {
    let mut socket = world.open_cli(authenticated);
    assert!(matches!(read(&socket.text().await), Heard::Open(_)));
    socket
}

/// What CONNECT with this packet brings on a fresh socket.
async fn connect(world: &World, authenticated: bool, packet: &str) -> Heard {
    let mut socket = opened(world, authenticated).await;
    socket.send(packet);
    read(&socket.text().await)
}

fn refusal(heard: &Heard) -> &str {
    match heard {
        Heard::Refused(data) => data["message"].as_str().unwrap(),
        other => panic!("expected a CONNECT_ERROR, but heard {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_hub_greets_with_an_open_packet_that_the_official_client_understands() {
    let world = World::new();
    let Heard::Open(handshake) = read(&world.open_cli(false).text().await) else { panic!() };
    assert!(handshake["sid"].is_string() && handshake["upgrades"] == json!([]), "{handshake}");
    let (interval, timeout) = (handshake["pingInterval"].as_u64().unwrap(), handshake["pingTimeout"].as_u64().unwrap());
    assert!(interval >= 25_000 && interval + timeout < 1 << 31, "{handshake}");
    assert!(handshake["maxPayload"].as_u64().unwrap() >= 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_good_token_connects_wherever_it_stands() {
    let world = World::new();
    let connected = |heard| matches!(heard, Heard::Connected(data) if data["sid"].is_string());
    let auth = |auth: Value| format!("40/cli,{auth}");
    assert!(connected(connect(&world, false, &auth(json!({"token": "secret:team"}))).await));
    let everything = json!({"token": "secret:team", "namespace": "team", "clientType": "session", "other": [1]});
    assert!(connected(connect(&world, false, &auth(everything)).await));
    assert!(connected(connect(&world, false, "40/cli?query=1,{\"token\":\"secret:team\"}").await));
    assert!(connected(connect(&world, true, "40/cli,").await), "it came with the upgrade");
    assert!(connected(connect(&world, true, "40/cli,{}").await));
}

#[tokio::test(start_paused = true)]
async fn a_bad_connect_is_refused_with_a_reason() {
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
        assert_eq!(refusal(&connect(&world, false, packet).await), message, "{packet}");
    }
    for wrong in [r#"{"token":5}"#, r#"{"token":"secret:team","sessionId":5}"#] {
        let heard = connect(&world, false, &format!("40/cli,{wrong}")).await;
        assert!(refusal(&heard).starts_with("Invalid auth"), "{heard:?}");
    }
    for malformed in ["40/cli,[]", "40/cli,{", "40/cli,\"secret:team\""] {
        let heard = connect(&world, false, malformed).await;
        assert!(!refusal(&heard).is_empty(), "{malformed}: {heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_may_try_again_on_the_same_socket() {
    let world = World::new();
    let mut socket = opened(&world, false).await;
    socket.send(r#"40/cli,{"token":"wrong"}"#);
    assert_eq!(refusal(&read(&socket.text().await)), "Invalid token");
    socket.send(r#"40/cli,{"token":"secret:team"}"#);
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)));
    socket.send(r#"40/cli,{"token":"secret:team"}"#);
    socket.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_connect_is_refused_and_does_nothing() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut socket = opened(&world, true).await;
    socket.send(format!(r#"42/cli,0["message",{{"sid":"{session}","message":{{}}}}]"#));
    assert!(refusal(&read(&socket.text().await)).contains("CONNECT"));
    socket.send("43/cli,0[]");
    assert!(refusal(&read(&socket.text().await)).contains("CONNECT"));
    assert_eq!(world.shown(&session).await["seq"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_names_what_is_not_its_own_is_told_so_and_hears_nothing_of_it() {
    let world = World::new();
    let neighbour = world.neighbour();
    let foreign = neighbour.session("/theirs").await;
    neighbour.machine("their-box").await;
    let cases = [
        (json!({"sessionId": foreign}), "access-denied", "session", foreign.clone()),
        (json!({"sessionId": "none"}), "not-found", "session", "none".into()),
        (json!({"machineId": "their-box"}), "access-denied", "machine", "their-box".into()),
        (json!({"machineId": "none"}), "not-found", "machine", "none".into()),
    ];
    for (auth, code, scope, id) in cases {
        let mut cli = Cli::connect(&world, auth).await;
        let error = cli.event("error").await;
        assert_eq!((&error["code"], &error["scope"], &error["id"]), (&json!(code), &json!(scope), &json!(id)));
        assert!(error["message"].is_string());
        let refused = cli.ask("rpc-register", &json!({"method": format!("{id}:readFile")})).await;
        assert_eq!(refused["code"], "access-denied");
        assert_eq!(cli.ask("ping", &json!({})).await, json!({"ok": true}), "the socket lives on");
    }
    let owner = neighbour.live_cli(&foreign).await;
    let mut spy = Cli::connect(&world, json!({"sessionId": foreign})).await;
    spy.event("error").await;
    neighbour.post(&format!("/api/sessions/{foreign}/messages"), &json!({"text": "secret"})).await.ok();
    spy.socket.heard_nothing().await;
    drop(owner);
}

#[tokio::test(start_paused = true)]
async fn events_without_acknowledgement_take_effect_in_silence() {
    let (world, session, mut cli) = live().await;
    world.machine("m").await;
    let metadata = json!({"path": "/code", "host": "box", "name": "new"});
    cli.emit("message", &json!({"sid": session, "message": {"n": 1}}));
    cli.emit("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata}));
    cli.emit("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {"controlledByUser": true}}));
    cli.emit("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true}));
    cli.emit("machine-alive", &json!({"machineId": "m", "time": world.now()}));
    cli.emit("machine-update-state", &json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"pid": 1}}));
    cli.emit("rpc-register", &json!({"method": "readFile"}));
    cli.emit("ping", &Value::Null);
    cli.socket.heard_nothing().await;
    let shown = world.shown(&session).await;
    assert_eq!((&shown["seq"], &shown["thinking"], &shown["metadata"]), (&json!(1), &json!(true), &metadata));
    assert_eq!((&shown["metadataVersion"], &shown["agentStateVersion"]), (&json!(2), &json!(2)));
    let machine = world.get("/api/machines").await.ok()["machines"][0].clone();
    assert_eq!((&machine["runnerState"], &machine["runnerStateVersion"]), (&json!({"pid": 1}), &json!(2)));
    cli.emit("session-end", &json!({"sid": session, "time": world.now()}));
    cli.socket.heard_nothing().await;
    assert_eq!(world.shown(&session).await["active"], false);
}

#[tokio::test(start_paused = true)]
async fn a_versioned_update_that_comes_too_late_is_told_what_stands_now() {
    let (world, session, mut cli) = live().await;
    let mut rival = world.cli(&session).await;
    let update = |version: u64, n: u64| json!({"sid": session, "expectedVersion": version, "agentState": {"n": n}});
    let won = cli.ask("update-state", &update(1, 1)).await;
    assert_eq!(won, json!({"result": "success", "version": 2, "agentState": {"n": 1}}));
    let lost = rival.ask("update-state", &update(1, 2)).await;
    assert_eq!(lost, json!({"result": "version-mismatch", "version": 2, "agentState": {"n": 1}}));
    let cleared = json!({"sid": session, "expectedVersion": 2, "agentState": null});
    assert_eq!(
        rival.ask("update-state", &cleared).await,
        json!({"result": "success", "version": 3, "agentState": null})
    );
    world.machine("m").await;
    let machine = |version: u64| json!({"machineId": "m", "expectedVersion": version, "metadata": {"host": "new"}});
    assert_eq!(cli.ask("machine-update-metadata", &machine(1)).await["version"], 2);
    let lost = rival.ask("machine-update-metadata", &machine(1)).await;
    assert_eq!(lost, json!({"result": "version-mismatch", "version": 2, "metadata": {"host": "new"}}));
}

#[tokio::test(start_paused = true)]
async fn updates_reach_the_other_sockets_of_a_session_and_no_one_else() {
    let (world, session, mut cli) = live().await;
    let other = world.session("/other").await;
    world.machine("m").await;
    let mut second = world.cli(&session).await;
    let mut stranger = world.cli(&other).await;
    let mut runner = world.runner("m").await;

    let seq = cli.message(&session, "hello").await["seq"].clone();
    let update = second.event("update").await;
    let expected = json!({"t": "new-message", "sid": session, "message": {
        "id": update["body"]["message"]["id"], "seq": seq, "localId": null, "createdAt": world.now(),
        "content": {"role": "agent", "content": "hello"},
    }});
    assert_eq!(update["body"], expected);
    assert!(update["id"].is_string() && update["seq"].is_u64() && update["createdAt"] == world.now(), "{update}");

    let metadata = json!({"path": "/code", "host": "box", "x": 1});
    cli.ask("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata})).await;
    let later = second.event("update").await;
    assert_eq!(
        later["body"],
        json!({"t": "update-session", "sid": session, "metadata": {"version": 2, "value": metadata}, "agentState": null})
    );
    assert!(later["seq"].as_u64() > update["seq"].as_u64());
    cli.ask("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {"a": 1}})).await;
    assert_eq!(
        second.event("update").await["body"],
        json!({"t": "update-session", "sid": session, "metadata": null, "agentState": {"version": 2, "value": {"a": 1}}})
    );
    cli.ask("machine-update-state", &json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"b": 1}})).await;
    assert_eq!(
        runner.event("update").await["body"],
        json!({"t": "update-machine", "machineId": "m", "metadata": null, "runnerState": {"version": 2, "value": {"b": 1}}})
    );
    for silent in [&mut cli, &mut stranger, &mut second, &mut runner] {
        silent.socket.heard_nothing().await;
    }
    // What the web does is news to every socket of the session.
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"})).await.ok();
    for hearer in [&mut cli, &mut second] {
        assert_eq!(hearer.event("update").await["body"]["message"]["content"]["content"]["text"], "hi");
    }
    stranger.socket.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn ten_that_ask_for_a_tag_at_once_get_one_session() {
    let world = World::new();
    let mut web = world.web("all=true").await;
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "box"}}).to_string();
    let asked: Vec<_> = (0..10).map(|_| world.start("POST", "/cli/sessions", body.clone())).collect();
    let mut ids = Vec::new();
    for answer in asked {
        ids.push(answer.reply().await.ok()["session"]["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(world.db.number("SELECT count(*) FROM sessions"), 1);
    assert_eq!(web.types().await, ["session-added"]);
    let neighbours = world.neighbour().session("/code").await;
    assert_ne!(ids[0], neighbours.as_str(), "a tag is a namespace's own");
}

#[tokio::test(start_paused = true)]
async fn a_message_with_a_local_id_is_taken_once_however_often_and_wherever_it_comes() {
    let (world, session, mut cli) = live().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    let message = json!({"sid": session, "message": {"n": 1}, "localId": "l1"});
    let at_once = [cli.emit_asking("message", &message), cli.emit_asking("message", &message)];
    let of_second = second.emit_asking("message", &message);
    let first = cli.acknowledged(at_once[0]).await;
    assert_eq!((&first["ok"], &first["seq"]), (&json!(true), &json!(1)));
    assert_eq!(cli.acknowledged(at_once[1]).await, first);
    assert_eq!(second.acknowledged(of_second).await, first);
    let of_web = world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "x", "localId": "l1"})).await;
    assert_eq!(of_web.ok()["message"]["id"], first["id"]);
    assert_eq!(web.types().await.iter().filter(|t| *t == "message-received").count(), 1);
    // The same local id in another session is another message.
    let other = world.session("/other").await;
    assert_eq!(cli.ask("message", &json!({"sid": other, "message": {}, "localId": "l1"})).await["seq"], 1);
    // It is remembered in the database, not in memory.
    world.sleep_and_wake().await;
    assert_eq!(cli.ask("message", &message).await, first);
    assert_eq!(world.shown(&session).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_kept_to_the_letter_and_a_json_string_is_unwrapped() {
    let (world, session, mut cli) = live().await;
    let content = r#"{"z":12345678901234567890,"a":1.50,"__proto__":{"é":"\ud83e\udd80"}}"#;
    let ack = cli.emit_raw("message", &format!(r#"{{"sid":"{session}","message":{content}}}"#));
    cli.acknowledged(ack).await;
    let wrapped = json!({"sid": session, "message": content});
    cli.ask("message", &wrapped).await;
    cli.ask("message", &json!({"sid": session, "message": "just words"})).await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page.text.matches(content).count(), 2, "{}", page.text);
    assert_eq!(page.json()["messages"][0]["content"], "just words");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_large_is_refused_and_the_socket_lives_on() {
    let (world, session, mut cli) = live().await;
    let refused = cli.message(&session, &"x".repeat(MAX_CONTENT_BYTES)).await;
    assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("too-large")));
    assert_eq!(cli.message(&session, "small").await["seq"], 1);
    assert_eq!(world.shown(&session).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn five_thousand_messages_at_once_are_all_kept_in_order() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    let before = world.db.writes();
    let text = "x".repeat(1_000);
    let acks: Vec<u64> = (1..=5_000)
        .map(|n| cli.emit_asking("message", &json!({"sid": session, "message": {"n": n, "text": text}})))
        .collect();
    let frames = cli.socket.rest().await;
    let heard: Vec<(u64, u64)> = frames
        .iter()
        .map(|frame| match frame {
            Frame::Text(text) => match read(text) {
                Heard::Ack { id, arg } => (id, arg["seq"].as_u64().unwrap()),
                other => panic!("{other:?}"),
            },
            closed => panic!("{closed:?}"),
        })
        .collect();
    let expected: Vec<(u64, u64)> = acks.into_iter().zip(1..).collect();
    assert_eq!(heard, expected);
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
    assert!(world.db.writes() - before < 200, "{} batches for 5,000 messages", world.db.writes() - before);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_goodbye_is_let_go() {
    let world = World::new();
    let session = world.session("/code").await;
    for farewell in ["41/cli,", "1"] {
        let mut cli = world.cli(&session).await;
        cli.register("readFile").await;
        cli.socket.send(farewell);
        assert_eq!(cli.socket.closed().await, 1000);
        let read = world.get(&format!("/api/sessions/{session}/file?path=a")).await.ok();
        assert_eq!(read["error"], "No handler registered for readFile");
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_closes_while_its_connect_is_checked_leaves_nothing_behind() {
    let world = World::new();
    let session = world.session("/code").await;
    world.sleep_and_wake().await;
    world.db.hold(On::Reads);
    let cli = Cli::connecting(&world, &json!({"token": "secret:team", "sessionId": session}));
    quiet().await;
    cli.socket.close();
    world.db.release();
    world.pass(30_000).await;
    assert_eq!(world.rt.alarm(), None, "there is nobody to ping");
}

/// A CLI of the session says a megabyte to it.
async fn megabyte(cli: &mut Cli, session: &str) {
    assert_eq!(cli.message(session, &"x".repeat(1 << 20)).await["ok"], true);
}

/// The pings and the updates among frames.
fn pings_and_updates(frames: &[Frame]) -> (usize, usize) {
    let texts = || frames.iter().filter_map(|frame| if let Frame::Text(text) = frame { Some(text) } else { None });
    let updates = texts().filter(|text| text.starts_with(r#"42/cli,["update","#));
    (texts().filter(|text| *text == "2").count(), updates.count())
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_reads_nothing_is_closed_before_more_than_sixteen_megabytes_of_updates_wait_for_it() {
    let (world, session, mut cli) = live().await;
    let mut silent = world.cli(&session).await;
    silent.register("gitStatus").await;
    silent.socket.rest().await;
    for _ in 0..15 {
        megabyte(&mut cli, &session).await;
    }
    assert!(silent.socket.is_open());
    megabyte(&mut cli, &session).await;
    assert_eq!(silent.socket.closed().await, 4408);
    let (pings, updates) = pings_and_updates(&silent.socket.rest().await);
    assert_eq!((pings, updates), (7, 15), "it was asked whether it reads");
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    world.pass(RECONNECT_GRACE_MS).await;
    assert_eq!(call.reply().await.ok()["error"], "No handler registered for gitStatus");
    megabyte(&mut cli, &session).await;
    assert!(cli.socket.is_open(), "who sends them is not concerned");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_answers_pings_is_not_closed_however_much_it_hears() {
    let (world, session, mut cli) = live().await;
    let mut reader = world.cli(&session).await;
    let mut heard = 0;
    for _ in 0..20 {
        megabyte(&mut cli, &session).await;
        let (pings, updates) = pings_and_updates(&reader.socket.rest().await);
        (0..pings).for_each(|_| reader.socket.send("3"));
        heard += updates;
    }
    assert_eq!(heard, 20);
    assert!(reader.socket.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_talks_without_answering_pings_does_not_say_that_it_reads() {
    let (world, session, mut cli) = live().await;
    let mut talker = world.cli(&session).await;
    for _ in 0..16 {
        megabyte(&mut cli, &session).await;
        talker.socket.send(r#"42/cli,["ping"]"#);
        quiet().await;
    }
    assert_eq!(talker.socket.closed().await, 4408);
}

/// How many frames the hub sent until it closed the socket, and how many bytes those were.
async fn until_closed(cli: &mut Cli, ask: impl Fn(&mut Cli)) -> (usize, usize) {
    let mut heard = (0, 0);
    for _ in 0..100_000 {
        ask(cli);
        for frame in cli.socket.rest().await {
            match frame {
                Frame::Text(text) => heard = (heard.0 + 1, heard.1 + text.len()),
                Frame::Closed { code, .. } => {
                    assert_eq!(code, 4408);
                    return heard;
                }
            }
        }
    }
    panic!("it asks on and on: {heard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_asks_on_and_on_without_reading_the_answers_is_closed() {
    let (world, session, mut cli) = live().await;
    let state = json!({"padding": "x".repeat(900_000)});
    assert_eq!(cli.state(&session, 1, &state).await["result"], "success");
    let stale = json!({"sid": session, "expectedVersion": 1, "agentState": {}});
    let mut other = world.cli(&session).await;
    let (answers, bytes) = until_closed(&mut other, |cli| {
        cli.emit_asking("update-state", &stale);
    })
    .await;
    assert!(bytes > 16 << 20 && bytes < 49 << 20, "{answers} frames of {bytes} bytes");
    assert!(cli.socket.is_open(), "nobody else is concerned");

    let mut pinging = world.cli(&session).await;
    let ping = format!("2{}", "x".repeat(1_000_000));
    let (_, bytes) = until_closed(&mut pinging, |cli| cli.socket.send(ping.clone())).await;
    assert!(bytes < 50 << 20, "{bytes}");
    let mut wrong = world.cli(&session).await;
    let foreign = format!("40/{},", "x".repeat(1_000_000));
    let (_, bytes) = until_closed(&mut wrong, |cli| cli.socket.send(foreign.clone())).await;
    assert!(bytes < 50 << 20, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_has_left_too_much_unread_may_not_send_binary_either() {
    let (world, session, mut cli) = live().await;
    let state = json!({"padding": "x".repeat(900_000)});
    assert_eq!(cli.state(&session, 1, &state).await["result"], "success");
    let mut other = world.cli(&session).await;
    let stale = json!({"sid": session, "expectedVersion": 1, "agentState": {}});
    let mut unread = 0;
    while unread <= MAX_UNACKED_BYTES_WITH_REPLIES {
        other.socket.send_binary();
        other.emit_asking("update-state", &stale);
        for frame in other.socket.rest().await {
            let Frame::Text(text) = frame else { panic!("it is closed with {unread} bytes unread") };
            unread += text.len();
        }
    }
    other.socket.send_binary();
    assert_eq!(other.socket.closed().await, 4408);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_answers_pings_may_ask_on_and_on() {
    let (_world, session, mut cli) = live().await;
    let state = json!({"padding": "x".repeat(900_000)});
    assert_eq!(cli.state(&session, 1, &state).await["result"], "success");
    cli.socket.rest().await;
    let stale = json!({"sid": session, "expectedVersion": 1, "agentState": {}});
    for _ in 0..100 {
        cli.emit_asking("update-state", &stale);
        let (pings, _) = pings_and_updates(&cli.socket.rest().await);
        (0..pings).for_each(|_| cli.socket.send("3"));
    }
    assert!(cli.socket.is_open());
}
