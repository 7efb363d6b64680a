//! How large what clients send may be: up to its limit it is kept whole and comes back whole, one byte more is refused with
//! an error to its sender, and the socket lives on.

use crate::support::live_session::live_session_with_machine;
use crate::support::rest::Reply;
use crate::support::run_until_idle;
use crate::support::sqlite::BatchKind;
use serde_json::{Value, json};
use session_gateway_hub::hub::limits::{MAX_COMPLETED_BYTES, MAX_CONTENT_BYTES};
use session_gateway_hub::model::event::MAX_EVENT_CONTENT_BYTES;
use session_gateway_hub::store::parts::{PART_BYTES, PARTS_AT_ONCE};
use session_gateway_hub::store::{DbError, Statement, Value as Param};

/// JSON of exactly so many bytes: an object with these members and a filling.
fn object(members: &str, bytes: usize) -> String {
    let around = format!(r#"{{{members}"filling":""}}"#).len();
    format!(r#"{{{members}"filling":"{}"}}"#, "x".repeat(bytes - around))
}

/// A kind of value that a client sends.
struct Kind {
    event: &'static str,
    /// The event's payload around the value, `$value`.
    payload: &'static str,
    /// What the value must have, before its filling.
    members: &'static str,
    limit: usize,
    /// Where it is read again, and where it stands there.
    path: &'static str,
    pointer: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind {
        event: "message",
        payload: r#"{"sid":"$session","message":$value}"#,
        members: "",
        limit: MAX_CONTENT_BYTES,
        path: "/api/sessions/$session/messages?limit=1",
        pointer: "/messages/0/content",
    },
    Kind {
        event: "update-metadata",
        payload: r#"{"sid":"$session","expectedVersion":1,"metadata":$value}"#,
        members: r#""path":"/code","host":"box","#,
        limit: MAX_CONTENT_BYTES,
        path: "/api/sessions/$session",
        pointer: "/session/metadata",
    },
    Kind {
        event: "update-state",
        payload: r#"{"sid":"$session","expectedVersion":1,"agentState":$value}"#,
        members: "",
        limit: MAX_CONTENT_BYTES,
        path: "/api/sessions/$session",
        pointer: "/session/agentState",
    },
    Kind {
        event: "update-state",
        payload: r#"{"sid":"$session","expectedVersion":1,"agentState":{"completedRequests":{"q":$value}}}"#,
        members: r#""tool":"T","#,
        limit: MAX_COMPLETED_BYTES,
        path: "/api/sessions/$session",
        pointer: "/session/agentState/completedRequests/q",
    },
    Kind {
        event: "machine-update-metadata",
        payload: r#"{"machineId":"m","expectedVersion":1,"metadata":$value}"#,
        members: "",
        limit: MAX_CONTENT_BYTES,
        path: "/api/machines/m",
        pointer: "/machine/metadata",
    },
    Kind {
        event: "machine-update-state",
        payload: r#"{"machineId":"m","expectedVersion":1,"runnerState":$value}"#,
        members: "",
        limit: MAX_CONTENT_BYTES,
        path: "/api/machines/m",
        pointer: "/machine/runnerState",
    },
];

fn is_taken(ack: &Value) -> bool {
    ack["ok"] == true || ack["result"] == "success"
}

/// A value as it is read again: the text that was sent, in the answer.
fn stands_in(reply: &Reply, pointer: &str, value: &str) -> bool {
    reply.json().pointer(pointer).is_some() && reply.text.contains(value)
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_value_is_kept_whole_up_to_its_limit_and_one_byte_more_is_refused() {
    const MORE_THAN_A_ROW: usize = 2_000_001;
    for Kind { event, payload, members, limit, path, pointer } in KINDS {
        let sizes = [100, MORE_THAN_A_ROW, limit].into_iter().filter(|size| *size <= limit);
        for size in sizes {
            let (world, session, mut cli) = live_session_with_machine().await;
            let value = object(members, size);
            let ack = cli.emit_raw(event, &payload.replace("$session", &session).replace("$value", &value));
            let ack = cli.wait_for_ack(ack).await;
            assert!(is_taken(&ack), "{event} of {size} bytes: {}", &ack.to_string()[..200]);
            // Nothing of it is read from memory.
            run_until_idle().await;
            world.hibernate_and_wake().await;
            let reply = world.get(&path.replace("$session", &session)).await;
            assert!(stands_in(&reply, pointer, &value), "{event} of {size} bytes does not come back");
        }
        let (world, session, mut cli) = live_session_with_machine().await;
        let before = world.db.write_count();
        let value = object(members, limit + 1);
        let ack = cli.emit_raw(event, &payload.replace("$session", &session).replace("$value", &value));
        let refused = cli.wait_for_ack(ack).await;
        assert!(!is_taken(&refused) && refused["code"] == "too-large", "{event}: {refused}");
        assert_eq!(world.db.write_count(), before, "{event}: nothing of it is written");
        assert_eq!(cli.send_message(&session, "after").await["ok"], true, "{event}: the socket lives on");
    }
}

#[tokio::test(start_paused = true)]
async fn the_largest_message_comes_whole_in_every_order_of_pages_and_as_json_in_a_string() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let content = object(r#""é\"\\\n":"\u00fc","#, MAX_CONTENT_BYTES);
    cli.send_message(&session, "before").await;
    let wrapped = cli.emit_raw("message", &format!(r#"{{"sid":"{session}","message":{}}}"#, json!(content)));
    assert_eq!(cli.wait_for_ack(wrapped).await["seq"], 2);
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
        let besides = MAX_CONTENT_BYTES.div_ceil(PART_BYTES) - 1;
        assert_eq!(parts, besides.div_ceil(PARTS_AT_ONCE), "they come a few at a time");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_of_the_largest_messages_at_once_one_is_told_to_come_again() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let mut second = world.cli(&session).await;
    let event = format!(r#"{{"sid":"{session}","message":{}}}"#, object("", MAX_CONTENT_BYTES));
    world.db.hold(BatchKind::Writes);
    let first = cli.emit_raw("message", &event);
    run_until_idle().await;
    let refused = second.emit_raw("message", &event);
    let refused = second.wait_for_ack(refused).await;
    assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("overloaded")), "{refused}");
    let small = second.emit_for_ack("message", &json!({"sid": session, "message": "small"}));
    world.db.release();
    assert_eq!(cli.wait_for_ack(first).await["seq"], 1);
    assert_eq!(second.wait_for_ack(small).await["seq"], 2, "what is small has room beside it");
    let again = second.emit_raw("message", &event);
    assert_eq!(second.wait_for_ack(again).await["seq"], 3);
}

fn size(batch: &[Statement]) -> usize {
    let bytes = |value: &Param| if let Param::Text(text) = value { text.len() } else { 8 };
    batch.iter().flat_map(|statement| &statement.params).map(bytes).sum()
}

#[tokio::test(start_paused = true)]
async fn a_message_larger_than_a_transaction_is_written_a_few_parts_at_a_time_and_seen_when_it_is_whole() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    let before = world.db.write_count();
    world.db.hold(BatchKind::Writes);
    let event = format!(r#"{{"sid":"{session}","message":{}}}"#, object("", MAX_CONTENT_BYTES));
    let ack = cli.emit_raw("message", &event);
    let mut steps = 0;
    loop {
        run_until_idle().await;
        let batch = world.db.write_batches().pop().unwrap();
        assert!(size(&batch) < 7_000_000, "{} bytes in one transaction", size(&batch));
        if batch.iter().any(|statement| statement.sql.contains("INSERT INTO messages")) {
            break;
        }
        assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
        web.0.assert_no_frames().await;
        steps += 1;
        world.db.release();
        world.db.hold(BatchKind::Writes);
    }
    assert!(steps >= 6, "{steps}");
    assert_eq!(world.db.write_count() - before, steps + 1);
    world.db.release();
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_between_the_parts_of_a_message_leaves_nothing_that_anybody_sees_and_nothing_for_ever() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let event = format!(r#"{{"sid":"{session}","message":{},"localId":"l"}}"#, object("", 10_000_000));
    let parts = || world.db.number("SELECT count(*) FROM message_parts");
    for written in 0..3 {
        world.db.hold(BatchKind::Writes);
        let ack = cli.emit_raw("message", &event);
        for _ in 0..written {
            run_until_idle().await;
            world.db.release();
            world.db.hold(BatchKind::Writes);
        }
        run_until_idle().await;
        world.db.fail(BatchKind::Writes, DbError::Refused("disk I/O error".into()));
        world.db.release();
        assert_eq!(cli.wait_for_ack(ack).await["code"], "unavailable");
        assert_eq!(world.get_session(&session).await["seq"], 0);
        assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
    }
    assert!(parts() > 0, "some were written before the fault");
    // Whichever transaction of it loses its answer or meets a passing fault, it is tried again.
    let transient = || DbError::Retryable("Network connection lost".into());
    world.db.hold(BatchKind::Writes);
    let ack = cli.emit_raw("message", &event);
    for _ in 0..4 {
        run_until_idle().await;
        world.db.fail(BatchKind::Writes, transient());
        world.db.lose_response(transient());
        for _ in 0..4 {
            world.db.release();
            world.db.hold(BatchKind::Writes);
            run_until_idle().await;
            world.rt.set_now(world.now() + 1_000);
            run_until_idle().await;
        }
    }
    world.db.repair();
    world.db.release();
    for _ in 0..2 {
        run_until_idle().await;
        world.rt.set_now(world.now() + 1_000);
    }
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(parts(), 6, "those of the messages that never came are gone");
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert!(page.text.contains(&object("", 10_000_000)));
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert_eq!(parts(), 0, "they go with their session");
}

#[tokio::test(start_paused = true)]
async fn an_event_carries_a_message_of_eight_megabytes_and_tells_of_a_larger_one() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    for size in [MAX_EVENT_CONTENT_BYTES, MAX_EVENT_CONTENT_BYTES + 1, MAX_CONTENT_BYTES] {
        let content = object("", size);
        let whole: Value = serde_json::from_str(&content).unwrap();
        let ack = cli.emit_raw("message", &format!(r#"{{"sid":"{session}","message":{content}}}"#));
        let ack = cli.wait_for_ack(ack).await;
        let update = second.next_event("update").await;
        assert!(update["body"]["message"]["content"] == whole, "a CLI hears all of it");
        second.socket.send("3");
        let told = web.next_event_of("message-received").await;
        let message = &told["message"];
        assert_eq!((&message["id"], &message["seq"]), (&ack["id"], &ack["seq"]));
        if size <= MAX_EVENT_CONTENT_BYTES {
            assert!(message["content"] == whole);
        } else {
            assert_eq!((message.get("content"), &message["contentBytes"]), (None, &json!(size)));
        }
        // A web client that reads says so.
        world.advance(30_000).await;
        web.0.send("read");
        cli.send_heartbeat(&world, &session).await;
        web.next_event_of("heartbeat").await;
    }
    assert!(web.0.is_open());
}
