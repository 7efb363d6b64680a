//! Live text: the hub forwards the text that an agent is writing. The hub does not store the text, and drops it under load. A
//! web client that connects gets the text so far.

use session_gateway_hub::hub::core::peers::send_window::MAX_UNACKED_BYTES_WITH_DELTAS;
use session_gateway_hub::hub::core::sessions::live_text::MAX_DELTAS_PER_SECOND;
use session_gateway_hub::limits::MAX_QUEUED_BYTES;
use session_gateway_hub::wire::cli::MAX_DELTA_TEXT_BYTES;

use crate::support::prelude::*;

/// Opens an SSE stream of a session. `last`: the id of the last event.
async fn open_stream(world: &World, session: &str, last: Option<&str>) -> Web {
    let query = format!("sessionId={session}");
    let mut web = Web(world.open_event_stream(&query, last, Format::Sse).await.unwrap());
    assert_eq!(web.next_event().await["type"], "connection-changed");
    web
}

async fn send_delta(cli: &mut Cli, delta: Value) {
    assert_eq!(cli.emit_with_ack("message-delta", &delta).await, json!({"ok": true}));
}

/// The deltas among the unread events of a client.
async fn deltas(web: &mut Web) -> Vec<Value> {
    web.events().await.into_iter().filter(|event| event["type"] == "message-delta").collect()
}

#[tokio::test(start_paused = true)]
async fn a_delta_goes_to_the_web_clients_of_its_session_without_an_id() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let mut of_session = world.web(&format!("all=true&sessionId={session}")).await;
    let mut of_stream = open_stream(&world, &session, None).await;
    let mut of_all = world.web("").await;
    let mut of_other = world.web(&format!("sessionId={other}")).await;
    let mut second_cli = world.cli(&session).await;
    send_delta(&mut cli, json!({"sid": session, "id": "m1", "text": "Hel", "kind": "thinking"})).await;
    send_delta(&mut cli, json!({"sid": session, "id": "m1", "text": "lo\n", "offset": 3})).await;
    let expected = [
        json!({"type": "message-delta", "sessionId": session, "id": "m1", "offset": 0, "text": "Hel", "kind": "thinking"}),
        json!({"type": "message-delta", "sessionId": session, "id": "m1", "offset": 3, "text": "lo\n"}),
    ];
    assert_eq!(of_session.events().await, expected);
    assert_eq!(of_stream.events().await, expected);
    of_all.0.assert_no_frames().await;
    of_other.0.assert_no_frames().await;
    second_cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_delta_changes_no_history_and_no_event_id_and_is_not_replayed() {
    let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    cli.send_message(&session, "one").await;
    let last = web.next_event_of("message-received").await["eventId"].clone();
    let before = world.get_session(&session).await;
    send_delta(&mut cli, json!({"sid": session, "id": "m2", "text": "tw"})).await;
    assert_eq!(deltas(&mut web).await.len(), 1);
    assert_eq!(world.get_session(&session).await, before);
    let message = json!({"sid": session, "message": {"role": "agent", "content": "two"}, "localId": "m2"});
    assert_eq!(cli.emit_with_ack("message", &message).await["seq"], 2);
    let stored = web.next_event_of("message-received").await;
    assert_eq!(stored["message"]["localId"], "m2", "the message that the delta belonged to");
    let mut resumed = open_stream(&world, &session, last.as_str()).await;
    assert_eq!(resumed.events().await, [stored]);
}

#[tokio::test(start_paused = true)]
async fn the_hub_fills_in_the_offset_that_a_cli_leaves_out() {
    let (_world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    for (id, text) in [("a", "\u{1F980} "), ("b", "x"), ("a", "y"), ("b", "z")] {
        send_delta(&mut cli, json!({"sid": session, "id": id, "text": text})).await;
    }
    let offsets: Vec<u64> = deltas(&mut web).await.iter().map(|delta| delta["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [0, 0, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_web_client_that_reads_too_slowly_misses_deltas_but_no_events() {
    let (world, session, mut cli, mut slow) = watched_session("sessionId=$").await;
    let mut reader = world.web(&format!("sessionId={session}")).await;
    let text = "x".repeat(MAX_DELTA_TEXT_BYTES);
    let rounds = 2 * MAX_UNACKED_BYTES_WITH_DELTAS / MAX_DELTA_TEXT_BYTES;
    let mut received = (0, 0);
    for round in 0..rounds {
        world.advance(1_000).await;
        cli.socket.send("3");
        send_delta(&mut cli, json!({"sid": session, "id": "m", "offset": round, "text": text})).await;
        received.0 += deltas(&mut slow).await.len();
        for event in reader.events().await {
            match event["type"].as_str().unwrap() {
                "heartbeat" => reader.0.send("read"),
                "message-delta" => received.1 += 1,
                _ => {}
            }
        }
    }
    assert!(received.0 > 0 && received.0 < rounds && received.1 == rounds, "{received:?} of {rounds}");
    let full = received.0 * MAX_DELTA_TEXT_BYTES;
    assert!(full <= MAX_UNACKED_BYTES_WITH_DELTAS && full > MAX_UNACKED_BYTES_WITH_DELTAS / 2, "{full}");
    cli.send_message(&session, "stored").await;
    assert_eq!(slow.next_event_of("message-received").await["message"]["content"]["content"], "stored");
    for _ in 0..rounds {
        slow.0.send("read");
    }
    send_delta(&mut cli, json!({"sid": session, "id": "n", "text": "again"})).await;
    assert_eq!(slow.next_event_of("message-delta").await["text"], "again");
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_hub_drops_deltas() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    world.db.hold_results(BatchKind::Writes);
    for _ in 0..=MAX_QUEUED_BYTES / 1_000_000 {
        cli.emit_for_ack("message", &json!({"sid": other, "message": "x".repeat(1_000_000)}));
    }
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "x"})).await;
    web.0.assert_no_frames().await;
    world.db.release_results();
    assert_eq!(deltas(&mut web).await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn deltas_need_no_database_and_arrive_before_messages_that_are_being_written() {
    let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    world.db.hold_results(BatchKind::Writes);
    let message = json!({"sid": session, "message": "stored later", "localId": "m1"});
    let ack = cli.emit_for_ack("message", &message);
    send_delta(&mut cli, json!({"sid": session, "id": "m2", "text": "next"})).await;
    assert_eq!(web.next_event().await["id"], "m2");
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(web.next_event().await["message"]["localId"], "m1");
}

/// The text that a web client shows after these deltas (PROTOCOL-EVENTS.md "Live text").
fn shown_text(deltas: &[Value]) -> String {
    let mut units: Vec<u16> = Vec::new();
    for delta in deltas {
        let offset = usize::try_from(delta["offset"].as_u64().unwrap()).unwrap();
        assert!(offset <= units.len(), "a delta is missing before {delta}");
        units.truncate(offset);
        units.extend(delta["text"].as_str().unwrap().encode_utf16());
    }
    String::from_utf16(&units).unwrap()
}

/// The text of a client that was connected from the start, and the text of a client that connects now.
async fn texts_of_early_and_late_client(
    world: &World,
    session: &str,
    early_deltas: &mut Vec<Value>,
    early_client: &mut Web,
) -> (String, String) {
    early_deltas.extend(deltas(early_client).await);
    let mut joined = world.web(&format!("sessionId={session}")).await;
    (shown_text(early_deltas), shown_text(&deltas(&mut joined).await))
}

#[tokio::test(start_paused = true)]
async fn a_web_client_that_connects_gets_the_text_so_far_and_continues_it() {
    let (world, session, mut cli) = live_session().await;
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "Hel", "kind": "thinking"})).await;
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "lo", "offset": 3, "kind": "thinking"})).await;
    send_delta(&mut cli, json!({"sid": session, "id": "n", "text": "x"})).await;
    let other = world.create_session("/other").await;
    let mut of_other = world.web(&format!("all=true&sessionId={other}")).await;
    let mut of_session = world.web(&format!("all=true&sessionId={session}")).await;
    let mut of_stream = open_stream(&world, &session, None).await;
    let expected = [
        json!({"type": "message-delta", "sessionId": session, "id": "m", "offset": 0, "text": "Hello", "kind": "thinking"}),
        json!({"type": "message-delta", "sessionId": session, "id": "n", "offset": 0, "text": "x"}),
    ];
    assert_eq!(of_session.events().await, expected);
    assert_eq!(of_stream.events().await, expected);
    assert_eq!(deltas(&mut of_other).await, [] as [Value; 0]);
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "!"})).await;
    for web in [&mut of_session, &mut of_stream] {
        assert_eq!(pick(&web.next_event().await, ["offset", "text"]), json!([5, "!"]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_so_far_follows_the_missed_events_and_ends_with_the_stored_message() {
    let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    cli.send_message(&session, "one").await;
    let last = web.next_event_of("message-received").await["eventId"].clone();
    cli.send_message(&session, "two").await;
    send_delta(&mut cli, json!({"sid": session, "id": "m3", "text": "thr"})).await;
    let mut resumed = open_stream(&world, &session, last.as_str()).await;
    let types: Vec<Value> = resumed.events().await.into_iter().map(|mut event| event["type"].take()).collect();
    assert_eq!(types, ["message-received", "message-delta"]);

    world.db.hold_results(BatchKind::Writes);
    let message = json!({"sid": session, "message": "three", "localId": "m3"});
    let ack = cli.emit_for_ack("message", &message);
    let mut joined = open_stream(&world, &session, None).await;
    assert_eq!(deltas(&mut joined).await[0]["text"], "thr", "the message is not stored yet");
    world.db.release_results();
    cli.wait_for_ack(ack).await;
    assert_eq!(joined.next_event().await["message"]["localId"], "m3");
    let mut after = open_stream(&world, &session, None).await;
    assert_eq!(deltas(&mut after).await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_web_client_that_connects_late_shows_the_same_text_as_a_client_that_was_connected_from_the_start() {
    let (world, session, mut cli, mut early_client) = watched_session("sessionId=$").await;
    let mut early_deltas = Vec::new();
    let pieces = [
        (r"abc\ud83d", "", "abc"),
        (r"\ude00", "", "abc\u{1F600}"),
        (r"d\ud83d", "", "abc\u{1F600}d"),
        ("e", "", "abc\u{1F600}d\u{fffd}e"),
        ("x", r#","offset":3"#, "abcx"),
        ("new", r#","offset":0"#, "new"),
    ];
    for (text, offset, expected) in pieces {
        cli.emit_raw_with_ack("message-delta", &format!(r#"{{"sid":"{session}","id":"m","text":"{text}"{offset}}}"#))
            .await;
        let shown = texts_of_early_and_late_client(&world, &session, &mut early_deltas, &mut early_client).await;
        assert_eq!(shown, (expected.to_owned(), expected.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn deltas_that_were_dropped_are_in_the_text_so_far() {
    let (world, session, mut cli) = live_session().await;
    for _ in 0..MAX_DELTAS_PER_SECOND + 10 {
        send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "x"})).await;
    }
    let mut joined = world.web(&format!("sessionId={session}")).await;
    assert_eq!(shown_text(&deltas(&mut joined).await), "x".repeat(MAX_DELTAS_PER_SECOND + 10));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_hub_sends_the_text_since_the_restart_and_the_whole_text_once_the_cli_repeats_it() {
    let (world, session, mut cli) = live_session().await;
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "one "})).await;
    world.hibernate_and_wake().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    assert_eq!(deltas(&mut web).await, [] as [Value; 0]);
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "two", "offset": 4})).await;
    let mut joined = world.web(&format!("sessionId={session}")).await;
    let tail = deltas(&mut joined).await;
    assert_eq!(pick(&json!(tail), ["0/offset", "0/text"]), json!([4, "two"]), "the end of the text, with its offset");
    send_delta(&mut cli, json!({"sid": session, "id": "m", "text": "one two three", "offset": 0})).await;
    let mut after = world.web(&format!("sessionId={session}")).await;
    for web in [&mut joined, &mut after] {
        assert_eq!(shown_text(&deltas(web).await), "one two three");
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_a_surrogate_pair_at_the_end_of_a_delta_is_completed_by_the_next_delta_or_replaced_or_dropped() {
    // The texts of the deltas, some with an offset, and the text that a web client shows.
    let table: [(&[&str], &str); 8] = [
        (&[r#"abc\ud83d""#, r#"\ude00 d\u00e9f""#, r#"!""#], "abc\u{1F600} d\u{e9}f!"),
        (&[r#"abc\ud83d","offset":0"#, r#"\ude00 d\u00e9f","offset":4"#, r#"!","offset":9"#], "abc\u{1F600} d\u{e9}f!"),
        (&[r#"ab\ud83d""#, r#"xyz","offset":0"#, r#"!""#], "xyz!"),
        (&[r#"a\ud83d""#, r#"b""#], "a\u{fffd}b"),
        (&[r#"a\ud83d""#, r#"\ud83d\ude00""#], "a\u{fffd}\u{1F600}"),
        (&[r#"a\ude00b""#], "a\u{fffd}b"),
        (&[r#"\ud83d""#, r#"""#], ""),
        (&[r#"\ud83d""#, r#"""#, r#"\ude00""#], "\u{1F600}"),
    ];
    for (texts, expected) in table {
        let (_world, session, mut cli, mut web) = watched_session("sessionId=$").await;
        for text in texts {
            let delta = format!(r#"{{"sid":"{session}","id":"m","text":"{text}}}"#);
            assert_eq!(cli.emit_raw_with_ack("message-delta", &delta).await, json!({"ok": true}), "{text}");
        }
        assert_eq!(shown_text(&deltas(&mut web).await), expected, "{texts:?}");
    }
}
