//! Events for web clients: which client receives which events, their formats, reconnects, and slow clients.

use std::collections::BTreeSet;

use crate::support::openapi::documented_properties;
use crate::support::prelude::*;
use crate::support::settings::{cleared_values, set_values};

/// Connects a web client with the id of its last event. Returns its first event, and the client.
async fn reconnect(world: &World, query: &str, last: Option<&str>) -> (Value, Web) {
    let mut web = Web(world.open_event_stream(query, last, Format::Json).await.unwrap());
    (web.next_event().await, web)
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["eventId"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_event_has_the_subscription_id() {
    let (world, _, _cli) = live_session().await;
    let (first, mut web) = reconnect(&world, "", None).await;
    let subscription = first["data"]["subscriptionId"].as_str().unwrap();
    assert!(subscription.len() > 8);
    assert_eq!(
        first,
        json!({
            "type": "connection-changed",
            "data": {"status": "connected", "subscriptionId": subscription, "resume": "ok"},
            "eventId": first["eventId"],
        })
    );
    web.0.assert_no_frames().await;
    let (second, _web) = reconnect(&world, "", None).await;
    assert_ne!(second["data"]["subscriptionId"], subscription);
}

#[tokio::test(start_paused = true)]
async fn each_client_receives_the_events_that_it_subscribes_to() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    world.register_machine("m").await;
    world.register_machine("n").await;
    let mut webs = Vec::new();
    for query in [
        "",
        "all=true",
        &format!("sessionId={session}"),
        &format!("sessionId={other}"),
        "machineId=m",
        "machineId=n",
        &format!("all=true&sessionId={session}"),
        &format!("sessionId={session}&machineId=m"),
        "all=false",
    ] {
        webs.push(world.web(query).await);
    }
    cli.send_message(&session, "hello").await;
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    cli.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    let of_all = ["session-updated", "machine-updated", "session-updated", "session-removed"];
    let of_session = ["message-received", "session-updated", "session-updated", "session-removed"];
    let everything = ["message-received", "session-updated", "machine-updated", "session-updated", "session-removed"];
    let expected: [&[&str]; 9] =
        [&of_all, &of_all, &of_session, &[], &["machine-updated"], &[], &everything, &everything, &[]];
    for (position, (web, expected)) in webs.iter_mut().zip(expected).enumerate() {
        assert_eq!(web.types().await, expected, "subscriber {position}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_event_reaches_another_namespace() {
    let (world, session, mut cli) = live_session().await;
    let neighbour = world.neighbour();
    let mut neighbour_web = neighbour.web("all=true").await;
    cli.send_message(&session, "secret").await;
    world.create_session("/new").await;
    neighbour_web.0.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn events_have_their_data_and_increasing_ids() {
    let (world, session, mut cli, mut web) = watched_session("all=true&sessionId=$").await;
    let created = world.create_session("/new").await;
    let added = web.next_event().await;
    assert_eq!((&added["type"], &added["sessionId"]), (&json!("session-added"), &json!(created)));
    assert_eq!(added["data"], world.get_session(&created).await, "the event has the whole session");

    let state = json!({"requests": {"r": {"tool": "shell", "arguments": {}}}});
    cli.emit_with_ack("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": state})).await;
    let updated = web.next_event().await;
    assert_eq!((&updated["type"], &updated["sessionId"]), (&json!("session-updated"), &json!(session)));
    assert_eq!((&updated["data"]["agentState"], &updated["data"]["agentStateVersion"]), (&state, &json!(2)));

    let content = r#"{"z":12345678901234567890,"a":1.50}"#;
    cli.emit_raw_with_ack("message", &format!(r#"{{"sid":"{session}","message":{content},"localId":"l"}}"#)).await;
    let text = web.0.next_text().await;
    assert!(text.contains(content), "the content is unchanged: {text}");
    let received: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(pick(&received, ["sessionId", "message/seq", "message/localId"]), json!([session, 1, "l"]));

    let machine = json!({"id": "m", "metadata": {"host": "box"}});
    world.post("/cli/machines", &machine).await.ok();
    let machine = web.next_event().await;
    assert_eq!((&machine["type"], &machine["machineId"]), (&json!("machine-updated"), &json!("m")));
    assert_eq!(machine["data"]["metadata"], json!({"host": "box"}));

    let numbers: Vec<u64> = ids(&[added, updated, received, machine])
        .iter()
        .map(|id| id.rsplit('-').next().unwrap().parse().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[tokio::test(start_paused = true)]
async fn every_field_of_a_session_that_can_change_is_published() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let path = format!("/api/sessions/{session}");
    world.request("PATCH", &path, r#"{"name":"N"}"#).await.ok();
    world.change_session(&session, &set_values()).await;
    let alive = json!({"sid": session, "thinking": true, "activity": "npm test", "mode": "local",
        "permissionMode": "plan", "modelMode": "model_fast"});
    cli.emit_with_ack("session-alive", &alive).await;
    let todos = json!({"role": "agent", "content": {"type": "alpha", "data": {"type": "plan", "entries": [
        {"content": "a", "status": "completed"}]}}});
    cli.emit_with_ack("message", &json!({"sid": session, "message": todos})).await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r": {}}})).await;
    cli.socket.close();
    world.advance(30_000).await;
    world.post(&format!("{path}/messages"), &json!({"text": "for later", "hold": true})).await.ok();
    let events = web.events().await;
    let data = events.iter().filter(|event| event["type"] == "session-updated").map(|event| event["data"].as_object());
    let published = data.flatten().flat_map(serde_json::Map::keys).map(String::as_str);
    let constant = ["id", "namespace", "tag", "createdAt"];
    let known: BTreeSet<String> = published.chain(constant).map(str::to_owned).collect();
    assert_eq!(known, documented_properties("\n    Session:\n      type: object"));
    let shown = world.get_session(&session).await;
    assert!(shown.as_object().unwrap().keys().all(|name| known.contains(name)), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn each_setting_of_a_session_is_set_kept_and_cleared_alone() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let mut settings = cleared_values();
    for (name, value) in set_values().into_iter().chain(cleared_values()) {
        let change = json!({name.clone(): value}).as_object().unwrap().clone();
        world.change_session(&session, &change).await;
        assert_eq!(web.next_event_of("session-updated").await["data"], Value::from(change.clone()));
        world.change_session(&session, &change).await;
        settings.extend(change);
        cli.send_keep_alive(&world, &session).await;
        world.hibernate_and_wake().await;
        let found = world.get_session(&session).await;
        for (name, value) in &settings {
            let is_set = !matches!(value, Value::Null | Value::Bool(false));
            assert_eq!(found.get(name), is_set.then_some(value), "{name}");
        }
        web.events().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconnecting_client_receives_missed_events_before_later_ones() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    cli.send_message(&session, "received").await;
    let received = web.next_event().await["eventId"].as_str().unwrap().to_owned();
    web.0.close();
    cli.send_message(&session, "missed 1").await;
    cli.send_message(&other, "of another session").await;
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    cli.send_message(&session, "missed 2").await;

    let (first, mut web) = reconnect(&world, &query, Some(&received)).await;
    assert_eq!(first["data"]["resume"], "ok");
    cli.send_message(&session, "live").await;
    let events = web.events().await;
    let texts: Vec<&str> = events
        .iter()
        .map(|event| event["message"]["content"]["content"].as_str().or(event["type"].as_str()).unwrap())
        .collect();
    assert_eq!(texts, ["missed 1", "session-updated", "missed 2", "live"]);
    // Of the ids in the query (`lastEventId`) and in the header, the newer counts. An unknown id counts as older than any
    // other.
    for (in_query, in_header) in [(ids(&events)[2], &*received), (&received, ids(&events)[2]), ("x", ids(&events)[2])] {
        let (_, mut web) = reconnect(&world, &format!("{query}&lastEventId={in_query}"), Some(in_header)).await;
        assert_eq!(ids(&web.events().await), [ids(&events)[3]], "{in_query} {in_header}");
    }
    // A client that disconnects right after its first event resumes with the id of that event.
    let (first, web) = reconnect(&world, &query, Some(&received)).await;
    drop(web);
    let (_, mut web) = reconnect(&world, &query, first["eventId"].as_str()).await;
    assert_eq!(ids(&web.events().await), ids(&events));
    // A client that has received all events misses none.
    let (first, mut web) = reconnect(&world, &query, Some(ids(&events)[3])).await;
    assert_eq!(first["data"]["resume"], "ok");
    web.0.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_resumes_with_the_id_of_a_heartbeat() {
    let (world, session, mut cli) = live_session().await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    world.advance(26_000).await;
    let heartbeat = web.next_event_of("heartbeat").await["eventId"].as_str().unwrap().to_owned();
    cli.send_message(&session, "missed").await;
    let (first, mut web) = reconnect(&world, &query, Some(&heartbeat)).await;
    assert_eq!(first["data"]["resume"], "ok");
    assert_eq!(web.types().await, ["message-received"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_or_deleted_event_id_is_a_gap() {
    let (world, session, mut cli) = live_session().await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    cli.send_message(&session, "received").await;
    let received = web.next_event().await["eventId"].as_str().unwrap().to_owned();
    let neighbour = world.neighbour();
    let (neighbour_event, _web) = reconnect(&neighbour, "", None).await;
    for invalid in [neighbour_event["eventId"].as_str().unwrap(), "", "x", "1", &format!("{received}9"), "'; --"] {
        let (first, mut web) = reconnect(&world, &query, Some(invalid)).await;
        assert_eq!(first["data"]["resume"], "gap", "{invalid:?}");
        web.0.assert_no_frames().await;
    }
    for n in 0..1_300 {
        cli.emit("message", &json!({"sid": session, "message": {"n": n}}));
    }
    drop(web.events().await);
    let (first, mut web) = reconnect(&world, &query, Some(&received)).await;
    assert_eq!(first["data"]["resume"], "gap");
    web.0.assert_no_frames().await;
    // The client can resume after the event that reports the gap.
    let last = first["eventId"].as_str().unwrap().to_owned();
    cli.send_message(&session, "next").await;
    let (first, mut web) = reconnect(&world, &query, Some(&last)).await;
    assert_eq!(first["data"]["resume"], "ok");
    assert_eq!(web.types().await, ["message-received"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_has_an_id_and_one_line_of_data() {
    let (world, session, mut cli) = live_session().await;
    let mut stream = world.open_event_stream(&format!("sessionId={session}"), None, Format::Sse).await.unwrap();
    let mut web = world.web(&format!("sessionId={session}")).await;
    cli.send_message(&session, "line one\nline two\r\u{2028}").await;
    world.advance(30_000).await;
    let first = stream.next_text().await;
    assert!(first.contains("\"connection-changed\""), "{first}");
    for kind in ["message-received", "heartbeat"] {
        let text = stream.next_text().await;
        let lines: Vec<&str> = text.split('\n').collect();
        let [id, data, "", ""] = lines[..] else { panic!("{lines:?}") };
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event["type"], kind);
        let json_event = web.next_event_of(kind).await;
        assert_eq!(id.strip_prefix("id: "), json_event["eventId"].as_str(), "both formats have the same id");
        assert!(!data.contains('\r'));
    }
}

#[tokio::test(start_paused = true)]
async fn all_clients_of_a_format_share_the_text_of_an_event() {
    let (world, session, mut cli) = live_session().await;
    let query = format!("sessionId={session}");
    let mut streams = Vec::new();
    for format in [Format::Sse, Format::Json].repeat(25) {
        streams.push(Web(world.open_event_stream(&query, None, format).await.unwrap()));
    }
    let texts = world.rt.sent_texts();
    cli.send_message(&session, "hello").await;
    assert_eq!(world.rt.sent_texts() - texts, 3, "the acknowledgement and one text for each format");
    for stream in &mut streams {
        assert_eq!(stream.next_event_of("message-received").await["message"]["seq"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_web_client_are_not_parsed_as_packets_of_a_cli() {
    let world = World::new();
    let mut web = world.web("all=true").await;
    for text in
        ["ping", "", "2", "hello", r#"{"type":"ping"}"#, r#"42/cli,0["ping",{}]"#, r#"40/cli,{"token":"secret:team"}"#]
    {
        web.0.send(text);
        let received = web.0.drain().await;
        assert!(received.is_empty(), "{text:?} was answered with {received:?}");
    }
    web.0.send_binary();
    web.0.assert_no_frames().await;
    assert!(web.0.is_open());
    world.create_session("/code").await;
    assert_eq!(web.types().await, ["session-added"]);
}

#[tokio::test(start_paused = true)]
async fn without_web_clients_no_heartbeat_is_scheduled() {
    let world = World::new();
    let web = world.web("all=true").await;
    assert!(world.rt.alarm().is_some());
    web.0.close();
    world.advance(30_000).await;
    assert_eq!(world.rt.alarm(), Some(START + 600_000), "the alarm deletes the event log");
    world.advance(600_000).await;
    assert_eq!(world.rt.alarm(), None);
}

#[tokio::test(start_paused = true)]
async fn a_websocket_client_with_16_mib_unacknowledged_is_disconnected() {
    let (world, session, mut cli) = live_session().await;
    let query = format!("sessionId={session}");
    let mut silent = world.web(&query).await;
    let mut stream = world.open_event_stream(&query, None, Format::Sse).await.unwrap();
    for _ in 0..15 {
        cli.send_message_of_1_mib(&session).await;
    }
    let received = silent.events().await;
    assert_eq!(received.len(), 15);
    cli.send_message_of_1_mib(&session).await;
    assert_eq!(silent.0.wait_for_close().await, 4408);
    silent.0.assert_no_frames().await;
    assert_eq!(stream.drain().await.len(), 1 + 16, "the worker limits the backlog of a stream");
    // The client reconnects and receives the missed message.
    let (first, mut reconnected) = reconnect(&world, &query, received[14]["eventId"].as_str()).await;
    assert_eq!(first["data"]["resume"], "ok");
    assert_eq!(reconnected.next_event().await["message"]["seq"], 16);
}

#[tokio::test(start_paused = true)]
async fn a_websocket_client_that_acknowledges_heartbeats_stays_connected() {
    let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    for _ in 0..8 {
        for _ in 0..6 {
            cli.send_message_of_1_mib(&session).await;
        }
        cli.socket.drain().await;
        world.advance(30_000).await;
        assert!(web.types().await.contains(&"heartbeat".to_owned()));
        web.0.send("");
        cli.socket.send("3");
    }
    assert!(web.0.is_open());
}

#[tokio::test(start_paused = true)]
async fn sockets_with_an_expired_token_are_closed_after_the_next_heartbeat() {
    let (world, session, mut cli) = live_session().await;
    let query = format!("sessionId={session}");
    let expires_at = world.now() + 60_000;
    let mut expiring = Vec::new();
    for format in [Format::Json, Format::Sse] {
        expiring.push(world.open_event_stream_with_expiry(&query, None, format, Some(expires_at)).await.unwrap());
    }
    let mut with_access_token = world.web(&query).await;
    world.advance(expires_at - 1 - world.now()).await;
    world.hibernate_and_wake().await;
    cli.send_message(&session, "hello").await;
    for socket in &mut expiring {
        assert!(socket.is_open());
        assert_eq!(socket.drain().await.len(), 5, "connection-changed, two heartbeats, a session and a message");
    }
    with_access_token.events().await;
    world.hibernate_and_wake().await;
    world.advance(30_000).await;
    for socket in &mut expiring {
        assert_eq!(socket.wait_for_close().await, 4401);
        assert_eq!(socket.drain().await.len(), 1, "the last heartbeat");
    }
    let last = with_access_token.next_event_of("heartbeat").await;
    assert!(with_access_token.0.is_open(), "an access token does not expire");
    // With a new token, the client resumes although the hub has hibernated.
    cli.send_message(&session, "more").await;
    let (first, mut reconnected) = reconnect(&world, &query, last["eventId"].as_str()).await;
    assert_eq!(first["data"]["resume"], "ok");
    assert_eq!(reconnected.next_event().await["message"]["seq"], 2);
}
