//! Size limits of values from clients. A value up to the limit is stored and returned unchanged. A value with one byte more is
//! rejected with an error, and the socket stays open.

use crate::support::prelude::*;
use crate::support::sqlite::parameter_bytes;
use session_gateway_hub::limits::{MAX_CONTENT_BYTES, MAX_PART_BYTES};
use session_gateway_hub::model::event::MAX_EVENT_CONTENT_BYTES;
use session_gateway_hub::store::memory::MEMORY_RETRY_MS;
use session_gateway_hub::store::parts::PARTS_AT_ONCE;

/// Returns a JSON object of exactly `bytes` bytes with these members, padded with a string.
fn object(members: &str, bytes: usize) -> String {
    let unpadded = format!(r#"{{{members}"padding":""}}"#).len();
    format!(r#"{{{members}"padding":"{}"}}"#, "x".repeat(bytes - unpadded))
}

/// A value in an event that has a size limit.
struct SizedValue {
    event: &'static str,
    /// The event's payload, with the placeholders `$session` and `$value`.
    payload: &'static str,
    /// Required members of the value, as JSON.
    members: &'static str,
    /// The route that returns the value.
    path: &'static str,
    /// JSON pointer to the value in the reply.
    pointer: &'static str,
}

const SIZED_VALUES: [SizedValue; 5] = [
    SizedValue {
        event: "message",
        payload: r#"{"sid":"$session","message":$value}"#,
        members: "",
        path: "/api/sessions/$session/messages?limit=1",
        pointer: "/messages/0/content",
    },
    SizedValue {
        event: "update-metadata",
        payload: r#"{"sid":"$session","expectedVersion":1,"metadata":$value}"#,
        members: r#""path":"/code","host":"box","#,
        path: "/api/sessions/$session",
        pointer: "/session/metadata",
    },
    SizedValue {
        event: "update-state",
        payload: r#"{"sid":"$session","expectedVersion":1,"agentState":$value}"#,
        members: "",
        path: "/api/sessions/$session",
        pointer: "/session/agentState",
    },
    SizedValue {
        event: "machine-update-metadata",
        payload: r#"{"machineId":"m","expectedVersion":1,"metadata":$value}"#,
        members: "",
        path: "/api/machines/m",
        pointer: "/machine/metadata",
    },
    SizedValue {
        event: "machine-update-state",
        payload: r#"{"machineId":"m","expectedVersion":1,"runnerState":$value}"#,
        members: "",
        path: "/api/machines/m",
        pointer: "/machine/runnerState",
    },
];

fn is_accepted(ack: &Value) -> bool {
    ack["ok"] == true || ack["result"] == "success"
}

/// Whether the response has a value at `pointer` and contains this text.
fn contains(reply: &Reply, pointer: &str, value: &str) -> bool {
    reply.json().pointer(pointer).is_some() && reply.text.contains(value)
}

#[tokio::test(start_paused = true)]
async fn values_up_to_the_limit_are_stored_and_one_byte_more_is_rejected() {
    const MORE_THAN_A_ROW: usize = 2_000_001;
    for SizedValue { event, payload, members, path, pointer } in SIZED_VALUES {
        let payload = |session: &str, value: &str| payload.replace("$session", session).replace("$value", value);
        for size in [100, MORE_THAN_A_ROW, MAX_CONTENT_BYTES] {
            let (world, session, mut cli) = live_session_with_machine().await;
            let value = object(members, size);
            let ack = cli.emit_raw_with_ack(event, &payload(&session, &value)).await;
            assert!(is_accepted(&ack), "{event} of {size} bytes: {}", &ack.to_string()[..200]);
            // After the hibernation, the value is read from the database.
            world.hibernate_and_wake().await;
            let reply = world.get(&path.replace("$session", &session)).await;
            assert!(contains(&reply, pointer, &value), "{event} of {size} bytes is not returned unchanged");
        }
        let (world, session, mut cli) = live_session_with_machine().await;
        let writes = world.db.write_count();
        let value = object(members, MAX_CONTENT_BYTES + 1);
        let error = cli.emit_raw_with_ack(event, &payload(&session, &value)).await;
        assert!(!is_accepted(&error) && error["code"] == "too-large", "{event}: {error}");
        assert_eq!(world.db.write_count(), writes, "{event}: nothing is written");
        assert_eq!(cli.send_message(&session, "after").await["ok"], true, "{event}: the socket stays open");
    }
}

#[tokio::test(start_paused = true)]
async fn the_largest_message_is_returned_by_every_query_and_accepted_as_json_in_a_string() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let content = object(r#""é\"\\\n":"\u00fc","#, MAX_CONTENT_BYTES);
    cli.send_message(&session, "before").await;
    let message = format!(r#"{{"sid":"{session}","message":{}}}"#, json!(content));
    assert_eq!(cli.emit_raw_with_ack("message", &message).await["seq"], 2);
    cli.send_message(&session, "after").await;
    for path in ["/cli/sessions/$/messages", "/api/sessions/$/messages?afterSeq=1", "/api/sessions/$/messages"] {
        let reads = world.db.read_count();
        let reply = world.get(&path.replace('$', &session)).await;
        assert_eq!(reply.text.matches(&content).count(), 1, "{path}");
        let seqs: Vec<u64> =
            reply.ok()["messages"].as_array().unwrap().iter().map(|m| m["seq"].as_u64().unwrap()).collect();
        assert!(seqs.contains(&2), "{path}: {seqs:?}");
        let parts =
            world.db.read_batches()[reads..].iter().filter(|batch| batch[0].sql.contains("FROM message_parts")).count();
        let later_parts = MAX_CONTENT_BYTES.div_ceil(MAX_PART_BYTES) - 1;
        assert_eq!(parts, later_parts.div_ceil(PARTS_AT_ONCE), "parts are read in small groups");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_of_maximum_size_waits_until_a_concurrent_message_of_maximum_size_is_stored() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let mut second = world.cli(&session).await;
    let event = format!(r#"{{"sid":"{session}","message":{}}}"#, object("", MAX_CONTENT_BYTES));
    world.db.hold_results(BatchKind::Writes);
    let first = cli.emit_raw("message", &event);
    run_until_idle().await;
    let waiting = second.emit_raw("message", &event);
    let small = second.emit_for_ack("message", &json!({"sid": session, "message": "small"}));
    world.release_results().await;
    assert_eq!(cli.wait_for_ack(first).await["seq"], 1);
    world.advance(MEMORY_RETRY_MS).await;
    assert_eq!(second.wait_for_ack(waiting).await["seq"], 2);
    assert_eq!(second.wait_for_ack(small).await["seq"], 3, "frames of a socket are handled in order");
}

#[tokio::test(start_paused = true)]
async fn a_large_message_is_written_in_several_transactions_and_becomes_visible_with_the_last_transaction() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    let writes = world.db.write_count();
    world.db.hold_results(BatchKind::Writes);
    let event = format!(r#"{{"sid":"{session}","message":{}}}"#, object("", MAX_CONTENT_BYTES));
    let ack = cli.emit_raw("message", &event);
    let mut steps = 0;
    loop {
        run_until_idle().await;
        let batch = world.db.write_batches().pop().unwrap();
        assert!(parameter_bytes(&batch) < 7_000_000, "{} bytes in one transaction", parameter_bytes(&batch));
        if batch.iter().any(|statement| statement.sql.contains("INSERT INTO messages")) {
            break;
        }
        assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
        web.0.assert_no_frames().await;
        steps += 1;
        world.db.release_results();
        world.db.hold_results(BatchKind::Writes);
    }
    assert!(steps >= 6, "{steps}");
    assert_eq!(world.db.write_count() - writes, steps + 1);
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_between_the_parts_of_a_message_leaves_no_message_and_its_parts_are_deleted_later() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let event = format!(r#"{{"sid":"{session}","message":{},"localId":"l"}}"#, object("", 10_000_000));
    let parts = || world.db.number("SELECT count(*) FROM message_parts");
    for written in 0..3 {
        world.db.hold_results(BatchKind::Writes);
        let ack = cli.emit_raw("message", &event);
        for _ in 0..written {
            run_until_idle().await;
            world.db.release_results();
            world.db.hold_results(BatchKind::Writes);
        }
        run_until_idle().await;
        world.db.fail(BatchKind::Writes, permanent_error());
        world.db.release_results();
        assert_eq!(cli.wait_for_ack(ack).await["code"], "unavailable");
        assert_eq!(world.get_session(&session).await["seq"], 0);
        assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
    }
    assert!(parts() > 0, "some parts were written before the fault");
    // Each transaction of the message is retried after a retryable error or a lost response.
    world.db.hold_results(BatchKind::Writes);
    let ack = cli.emit_raw("message", &event);
    for _ in 0..4 {
        run_until_idle().await;
        world.db.fail(BatchKind::Writes, retryable_error());
        world.db.lose_response(retryable_error());
        for _ in 0..4 {
            world.db.release_results();
            world.db.hold_results(BatchKind::Writes);
            run_until_idle().await;
            world.rt.set_now(world.now() + 1_000);
            run_until_idle().await;
        }
    }
    world.db.repair();
    world.db.release_results();
    for _ in 0..2 {
        run_until_idle().await;
        world.rt.set_now(world.now() + 1_000);
    }
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(parts(), 6, "the parts of the failed messages are deleted");
    assert!(world.get(&format!("/api/sessions/{session}/messages")).await.text.contains(&object("", 10_000_000)));
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    world.advance(1_000).await;
    assert_eq!(parts(), 0, "the parts are deleted after the session");
}

#[tokio::test(start_paused = true)]
async fn an_event_for_web_clients_has_the_length_of_a_message_instead_of_the_message_above_eight_megabytes() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    for size in [MAX_EVENT_CONTENT_BYTES, MAX_EVENT_CONTENT_BYTES + 1, MAX_CONTENT_BYTES] {
        let content = object("", size);
        let whole: Value = serde_json::from_str(&content).unwrap();
        let ack = cli.emit_raw_with_ack("message", &format!(r#"{{"sid":"{session}","message":{content}}}"#)).await;
        let update = second.next_event("update").await;
        assert!(update["body"]["message"]["content"] == whole, "CLIs receive the whole content");
        // Answers the ping that follows a large frame. The ping after 30 s is answered below.
        second.socket.send("3");
        let event = web.next_event_of("message-received").await;
        let message = &event["message"];
        assert_eq!((&message["id"], &message["seq"]), (&ack["id"], &ack["seq"]));
        if size <= MAX_EVENT_CONTENT_BYTES {
            assert!(message["content"] == whole);
        } else {
            assert_eq!((message.get("content"), &message["contentBytes"]), (None, &json!(size)));
        }
        // Acknowledges the events, so that the hub does not close the socket.
        world.advance(30_000).await;
        web.acknowledge_heartbeat();
        second.socket.send("3");
        cli.send_keep_alive(&world, &session).await;
        web.next_event_of("heartbeat").await;
    }
    assert!(web.0.is_open());
}
