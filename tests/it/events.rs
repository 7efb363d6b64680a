//! Events to web clients: who hears what, in which form, and what a client that comes back gets.

use crate::support::World;
use crate::support::cli::Cli;
use crate::support::live::live;
use crate::support::runtime::START;
use crate::support::web::{Web, number};
use serde_json::{Value, json};
use session_gateway_hub::http::error::Refusal;
use session_gateway_hub::hub::peers::subscription::Format;

/// Subscribes as a client that heard this event last; answers its greeting too.
async fn come_back(world: &World, query: &str, last: Option<&str>) -> (Value, Web) {
    let mut web = Web(world.try_subscribe(query, last, Format::Json).await.unwrap());
    (web.event().await, web)
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["eventId"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_greeting_comes_first_and_names_the_subscription() {
    let (world, _, _cli) = live().await;
    let (greeting, mut web) = come_back(&world, "", None).await;
    let subscription = greeting["data"]["subscriptionId"].as_str().unwrap();
    assert!(subscription.len() > 8);
    assert_eq!(
        greeting,
        json!({
            "type": "connection-changed",
            "data": {"status": "connected", "subscriptionId": subscription, "resume": "ok"},
            "eventId": greeting["eventId"],
        })
    );
    web.0.heard_nothing().await;
    let (second, _web) = come_back(&world, "", None).await;
    assert_ne!(second["data"]["subscriptionId"], subscription);
}

#[tokio::test(start_paused = true)]
async fn each_subscriber_hears_what_it_asked_for() {
    let (world, session, mut cli) = live().await;
    let other = world.session("/other").await;
    world.machine("m").await;
    world.machine("n").await;
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
    cli.message(&session, "hello").await;
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    cli.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    cli.ask("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    let heard = async |web: &mut Web| web.types().await;
    let of_all = ["session-updated", "machine-updated", "session-updated", "session-removed"];
    let of_session = ["message-received", "session-updated", "session-updated", "session-removed"];
    let everything = ["message-received", "session-updated", "machine-updated", "session-updated", "session-removed"];
    let expected: [&[&str]; 9] =
        [&of_all, &of_all, &of_session, &[], &["machine-updated"], &[], &everything, &everything, &[]];
    for (position, (web, expected)) in webs.iter_mut().zip(expected).enumerate() {
        assert_eq!(heard(web).await, expected, "subscriber {position}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_to_what_is_not_there_or_not_ones_own_is_refused() {
    let world = World::new();
    let neighbour = world.neighbour();
    let foreign = neighbour.session("/theirs").await;
    neighbour.machine("their-box").await;
    let table = [
        ("sessionId=none".to_owned(), 404, "session_not_found"),
        (format!("sessionId={foreign}"), 403, "forbidden"),
        ("machineId=none".into(), 404, "machine_not_found"),
        ("machineId=their-box".into(), 403, "forbidden"),
        ("visibility=blurred".into(), 400, "invalid_field"),
        ("all=perhaps".into(), 400, "invalid_field"),
        ("all=true&all=true".into(), 400, "invalid_field"),
        ("all=%ff".into(), 400, "invalid_field"),
    ];
    for (query, status, code) in table {
        let error = world.try_subscribe(&query, None, Format::Json).await.err().expect(&query);
        let refusal = Refusal::from(error);
        assert_eq!((refusal.status.as_u16(), refusal.code), (status, code), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_crosses_from_one_namespace_to_another() {
    let (world, session, mut cli) = live().await;
    let neighbour = world.neighbour();
    let mut spy = neighbour.web("all=true").await;
    cli.message(&session, "secret").await;
    world.session("/new").await;
    spy.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn events_carry_their_data_and_growing_ids() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web(&format!("all=true&sessionId={session}")).await;
    let made = world.session("/new").await;
    let added = web.event().await;
    assert_eq!((&added["type"], &added["sessionId"]), (&json!("session-added"), &json!(made)));
    assert_eq!(added["data"], world.shown(&made).await, "the whole session");

    let state = json!({"requests": {"r": {"tool": "shell", "arguments": {}}}});
    cli.ask("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": state})).await;
    let updated = web.event().await;
    assert_eq!((&updated["type"], &updated["sessionId"]), (&json!("session-updated"), &json!(session)));
    assert_eq!((&updated["data"]["agentState"], &updated["data"]["agentStateVersion"]), (&state, &json!(2)));

    let content = r#"{"z":12345678901234567890,"a":1.50}"#;
    let ack = cli.emit_raw("message", &format!(r#"{{"sid":"{session}","message":{content},"localId":"l"}}"#));
    cli.acknowledged(ack).await;
    let text = web.0.text().await;
    assert!(text.contains(content), "content is kept to the letter: {text}");
    let received: Value = serde_json::from_str(&text).unwrap();
    let message = &received["message"];
    assert_eq!(
        (&received["sessionId"], &message["seq"], &message["localId"]),
        (&json!(session), &json!(1), &json!("l"))
    );

    let machine = json!({"id": "m", "metadata": {"host": "box"}});
    world.post("/cli/machines", &machine).await.ok();
    let machine = web.event().await;
    assert_eq!((&machine["type"], &machine["machineId"]), (&json!("machine-updated"), &json!("m")));
    assert_eq!(machine["data"]["metadata"], json!({"host": "box"}));

    let numbers: Vec<u64> = ids(&[added, updated, received, machine])
        .iter()
        .map(|id| id.rsplit('-').next().unwrap().parse().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[tokio::test(start_paused = true)]
async fn todos_are_told_when_an_agent_writes_them() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web("all=true").await;
    let todos = json!([{"id": "1", "content": "c", "status": "completed", "priority": "high"}]);
    let block = json!({"type": "tool_use", "name": "TodoWrite", "input": {"todos": todos}});
    let data = json!({"type": "assistant", "message": {"content": [block]}});
    let record = json!({"role": "agent", "content": {"type": "output", "data": data}});
    cli.ask("message", &json!({"sid": session, "message": record})).await;
    assert_eq!(web.event_of("session-updated").await["data"]["todos"], todos);
    assert_eq!(world.shown(&session).await["todos"], todos);
    let list = world.get("/api/sessions").await.ok();
    assert_eq!(list["sessions"][0]["todoProgress"], json!({"completed": 1, "total": 1}));
    // The web cannot write the agent's list.
    let words = record.to_string();
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": words})).await.ok();
    web.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_gets_what_it_missed_in_order_before_live_events() {
    let (world, session, mut cli) = live().await;
    let other = world.session("/other").await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = web.event().await["eventId"].as_str().unwrap().to_owned();
    web.0.close();
    cli.message(&session, "missed 1").await;
    cli.message(&other, "of another session").await;
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    cli.message(&session, "missed 2").await;

    let (greeting, mut web) = come_back(&world, &query, Some(&heard)).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    cli.message(&session, "live").await;
    let events = web.events().await;
    let told: Vec<&str> = events
        .iter()
        .map(|event| event["message"]["content"]["content"].as_str().or(event["type"].as_str()).unwrap())
        .collect();
    assert_eq!(told, ["missed 1", "session-updated", "missed 2", "live"]);
    // By the query, where a header can't be sent; it counts before the header, which a browser repeats.
    let (_, mut web) = come_back(&world, &format!("{query}&lastEventId={}", ids(&events)[2]), Some(&heard)).await;
    assert_eq!(ids(&web.events().await), [ids(&events)[3]]);
    // Who was cut off right after the greeting comes back with the greeting's id and misses nothing.
    let (greeting, web) = come_back(&world, &query, Some(&heard)).await;
    drop(web);
    let (_, mut web) = come_back(&world, &query, greeting["eventId"].as_str()).await;
    assert_eq!(ids(&web.events().await), ids(&events));
    // Who heard everything misses nothing.
    let (greeting, mut web) = come_back(&world, &query, Some(ids(&events)[3])).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    web.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeats_id_is_as_good_as_any_other_to_come_back_with() {
    let (world, session, mut cli) = live().await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    world.pass(26_000).await;
    let heartbeat = web.event_of("heartbeat").await["eventId"].as_str().unwrap().to_owned();
    cli.message(&session, "missed").await;
    let (greeting, mut web) = come_back(&world, &query, Some(&heartbeat)).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    assert_eq!(web.types().await, ["message-received"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_held_is_a_gap() {
    let (world, session, mut cli) = live().await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = web.event().await["eventId"].as_str().unwrap().to_owned();
    let neighbour = world.neighbour();
    let (of_neighbour, _web) = come_back(&neighbour, "", None).await;
    for odd in [of_neighbour["eventId"].as_str().unwrap(), "", "x", "1", &format!("{heard}9"), "'; --"] {
        let (greeting, mut web) = come_back(&world, &query, Some(odd)).await;
        assert_eq!(greeting["data"]["resume"], "gap", "{odd:?}");
        web.0.heard_nothing().await;
    }
    for n in 0..1_300 {
        cli.emit("message", &json!({"sid": session, "message": {"n": n}}));
    }
    drop(web.events().await);
    let (greeting, mut web) = come_back(&world, &query, Some(&heard)).await;
    assert_eq!(greeting["data"]["resume"], "gap");
    web.0.heard_nothing().await;
    // From here on it goes on without a gap.
    let last = greeting["eventId"].as_str().unwrap().to_owned();
    cli.message(&session, "next").await;
    let (greeting, mut web) = come_back(&world, &query, Some(&last)).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    assert_eq!(web.types().await, ["message-received"]);
}

#[tokio::test(start_paused = true)]
async fn ids_go_on_growing_and_the_past_is_held_after_the_hub_lost_its_memory() {
    let (world, session, mut cli) = live().await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    cli.message(&session, "before").await;
    let before = web.event().await;
    world.pass(5_000).await;
    world.sleep_and_wake().await;
    cli.message(&session, "after").await;
    let after = web.event().await;
    assert!(number(&after) > number(&before));
    let (greeting, mut web) = come_back(&world, &query, before["eventId"].as_str()).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    assert_eq!(web.events().await, [after]);
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_has_an_id_and_one_line_of_data() {
    let (world, session, mut cli) = live().await;
    let mut stream = world.try_subscribe(&format!("sessionId={session}"), None, Format::Sse).await.unwrap();
    let mut web = world.web(&format!("sessionId={session}")).await;
    cli.message(&session, "line one\nline two\r\u{2028}").await;
    world.pass(30_000).await;
    let greeting = stream.text().await;
    assert!(greeting.contains("\"connection-changed\""), "{greeting}");
    for kind in ["message-received", "heartbeat"] {
        let text = stream.text().await;
        let lines: Vec<&str> = text.split('\n').collect();
        let [id, data, "", ""] = lines[..] else { panic!("{lines:?}") };
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event["type"], kind);
        let of_json = web.event_of(kind).await;
        assert_eq!(id.strip_prefix("id: "), of_json["eventId"].as_str(), "the same id in both forms");
        assert!(!data.contains('\r'));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_web_client_says_is_not_answered_with_packets_for_clis() {
    let world = World::new();
    let mut web = world.web("all=true").await;
    for text in
        ["ping", "", "2", "hello", r#"{"type":"ping"}"#, r#"42/cli,0["ping",{}]"#, r#"40/cli,{"token":"secret:team"}"#]
    {
        web.0.send(text);
        let heard = web.0.rest().await;
        assert!(heard.is_empty(), "{text:?} was answered with {heard:?}");
    }
    web.0.send_binary();
    web.0.heard_nothing().await;
    assert!(web.0.is_open());
    world.session("/code").await;
    assert_eq!(web.types().await, ["session-added"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_closed_hears_nothing_more_and_needs_no_heartbeat() {
    let world = World::new();
    let web = world.web("all=true").await;
    assert!(world.rt.alarm().is_some());
    web.0.close();
    world.pass(30_000).await;
    assert_eq!(world.rt.alarm(), Some(START + 600_000), "the log of events ends");
    world.pass(600_000).await;
    assert_eq!(world.rt.alarm(), None);
}

/// A message of a megabyte.
async fn megabyte(cli: &mut Cli, session: &str) {
    assert_eq!(cli.message(session, &"x".repeat(1 << 20)).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn a_web_socket_that_answers_nothing_is_closed_before_more_than_sixteen_megabytes_wait_for_it() {
    let (world, session, mut cli) = live().await;
    let query = format!("sessionId={session}");
    let mut silent = world.web(&query).await;
    let mut stream = world.try_subscribe(&query, None, Format::Sse).await.unwrap();
    for _ in 0..15 {
        megabyte(&mut cli, &session).await;
    }
    let heard = silent.events().await;
    assert_eq!(heard.len(), 15);
    megabyte(&mut cli, &session).await;
    assert_eq!(silent.0.closed().await, 4408);
    silent.0.heard_nothing().await;
    assert_eq!(stream.rest().await.len(), 1 + 16, "the worker sees to its own");
    // Whoever did read comes back and has missed nothing.
    let (greeting, mut back) = come_back(&world, &query, heard[14]["eventId"].as_str()).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    assert_eq!(back.event().await["message"]["seq"], 16);
}

#[tokio::test(start_paused = true)]
async fn a_web_socket_that_answers_heartbeats_is_not_closed_however_much_it_hears() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    for _ in 0..8 {
        for _ in 0..6 {
            megabyte(&mut cli, &session).await;
        }
        cli.socket.rest().await;
        world.pass(30_000).await;
        assert!(web.types().await.contains(&"heartbeat".to_owned()));
        web.0.send("");
        cli.socket.send("3");
    }
    assert!(web.0.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_runs_out_takes_its_sockets_with_it_at_the_next_heartbeat() {
    let (world, session, mut cli) = live().await;
    let query = format!("sessionId={session}");
    let expires = world.now() + 60_000;
    let mut closed = Vec::new();
    for format in [Format::Json, Format::Sse] {
        closed.push(world.try_subscribe_until(&query, None, format, Some(expires)).await.unwrap());
    }
    let mut lasting = world.web(&query).await;
    world.pass(expires - 1 - world.now()).await;
    world.sleep_and_wake().await;
    cli.message(&session, "hello").await;
    for socket in &mut closed {
        assert!(socket.is_open());
        assert_eq!(socket.rest().await.len(), 5, "greeting, two heartbeats, the end of the session's life, message");
    }
    lasting.events().await;
    world.sleep_and_wake().await;
    world.pass(30_000).await;
    for socket in &mut closed {
        assert_eq!(socket.closed().await, 4401);
        assert_eq!(socket.rest().await.len(), 1, "a last heartbeat");
    }
    let last = lasting.event_of("heartbeat").await;
    assert!(lasting.0.is_open(), "an access token does not run out");
    // With a fresh token the others go on where they were, although the hub slept.
    cli.message(&session, "more").await;
    let (greeting, mut back) = come_back(&world, &query, last["eventId"].as_str()).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    assert_eq!(back.event().await["message"]["seq"], 2);
}
