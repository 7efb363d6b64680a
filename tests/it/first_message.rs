//! The first message after a wake: its session is not in memory.

use crate::support::prelude::*;
use crate::support::replay::{count_event_rows, id, reconnect};
use session_gateway_hub::limits::{DB_RETRY_PERIOD_MS, RETAINED_EVENTS};

/// A session with a message, its CLI, and a web client. The object has hibernated since.
struct Fixture {
    world: World,
    session: String,
    cli: Cli,
    web: Web,
}

impl Fixture {
    /// A fixture whose object was interrupted while it wrote the message "1". The message is committed.
    async fn interrupted_while_writing() -> Self {
        let fixture = Self::new().await;
        fixture.world.db.hold_results(BatchKind::Writes);
        fixture.cli.deliver("message", &message(&fixture.session, "1")).await;
        fixture.world.restart();
        fixture.world.db.release_results();
        fixture
    }

    async fn new() -> Self {
        let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
        assert_eq!(cli.emit_with_ack("message", &message(&session, "0")).await["seq"], 1);
        web.events().await;
        world.hibernate_and_wake().await;
        Self { world, session, cli, web }
    }

    async fn send(&mut self, local_id: impl Into<Value>) -> Value {
        let message = message(&self.session, local_id);
        self.cli.emit_with_ack("message", &message).await
    }

    /// The seqs and local ids of the messages, in order.
    async fn history(&self) -> Vec<(u64, Value)> {
        let page = self.world.get(&format!("/api/sessions/{}/messages", self.session)).await.ok();
        let mut history: Vec<_> = page["messages"].as_array().unwrap().iter().map(seq_and_local_id).collect();
        history.sort_by_key(|(seq, _)| *seq);
        history
    }

    /// The seqs and local ids of the messages that the web client received, and the types of other events.
    async fn events(&mut self) -> Vec<(u64, Value)> {
        let events = self.web.events().await;
        let ids_or_type = |event: &Value| {
            if event["message"].is_object() { seq_and_local_id(&event["message"]) } else { (0, event["type"].clone()) }
        };
        events.iter().map(ids_or_type).collect()
    }
}

fn message(session: &str, local_id: impl Into<Value>) -> Value {
    json!({"sid": session, "localId": local_id.into(), "message": {"role": "agent", "content": "hello"}})
}

fn seq_and_local_id(message: &Value) -> (u64, Value) {
    (message["seq"].as_u64().unwrap(), message["localId"].clone())
}

fn unknown_outcome() -> DbError {
    DbError::Unavailable("D1 did not answer in time".into())
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_batch_is_repeated_is_stored_and_published_once() {
    for local_id in [json!("1"), Value::Null] {
        let mut fixture = Fixture::new().await;
        fixture.world.db.lose_response(retryable_error());
        let ack = fixture.cli.emit_for_ack("message", &message(&fixture.session, local_id.clone()));
        fixture.world.advance(60_000).await;
        assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 2);
        assert_eq!(fixture.history().await, [(1, json!("0")), (2, local_id.clone())]);
        assert_eq!(fixture.send(Value::Null).await["seq"], 3);
        let events = fixture.events().await.into_iter().filter(|(seq, _)| *seq > 0);
        assert_eq!(events.collect::<Vec<_>>(), [(2, local_id), (3, Value::Null)]);
        assert_eq!(
            fixture.world.db.number("SELECT count(DISTINCT body) FROM events"),
            count_event_rows(&fixture.world)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_arrives_late_is_rejected_and_the_next_message_gets_its_seq() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.fail(BatchKind::Writes, unknown_outcome());
    assert_eq!(fixture.send("late").await["code"], "unavailable");
    let late_batch = fixture.world.db.write_batches().pop().unwrap();
    assert_eq!(fixture.send("next").await["seq"], 2);
    fixture.world.db.execute_late(&late_batch).unwrap_err();
    assert_eq!(fixture.history().await, [(1, json!("0")), (2, json!("next"))]);
    assert_eq!(fixture.events().await, [(2, json!("next"))]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_again_after_its_batch_was_committed_late_is_stored_and_published_once() {
    let mut fixture = Fixture::new().await;
    let mut other = fixture.world.cli(&fixture.session).await;
    fixture.world.hibernate_and_wake().await;
    fixture.world.db.fail(BatchKind::Writes, unknown_outcome());
    fixture.world.db.hold_results(BatchKind::Writes);
    let ack = fixture.cli.emit_for_ack("message", &message(&fixture.session, "1"));
    run_until_idle().await;
    fixture.world.db.fail_all(BatchKind::Reads, retryable_error());
    fixture.world.db.release_results();
    assert_eq!(fixture.cli.wait_for_ack(ack).await["code"], "unavailable");
    assert_eq!(other.socket.wait_for_close().await, 1013, "the other CLI has missed an update");
    let late_batch = fixture.world.db.write_batches().pop().unwrap();
    fixture.world.db.execute_late(&late_batch).unwrap();
    fixture.world.db.repair();
    fixture.world.advance_in_steps(5_000).await;
    assert_eq!(fixture.send("1").await["seq"], 2);
    assert_eq!(fixture.send("2").await["seq"], 3);
    assert_eq!(fixture.history().await, [(1, json!("0")), (2, json!("1")), (3, json!("2"))]);
    let events = fixture.events().await.into_iter().filter(|(seq, _)| *seq > 0);
    assert_eq!(events.collect::<Vec<_>>(), [(2, json!("1")), (3, json!("2"))]);
}

#[tokio::test(start_paused = true)]
async fn the_batch_of_an_interrupted_object_is_rejected_after_the_first_write_of_the_next_object() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.never_return_next(BatchKind::Writes);
    fixture.cli.deliver("message", &message(&fixture.session, "late")).await;
    let late_batch = fixture.world.db.write_batches().pop().unwrap();
    fixture.world.restart();
    assert_eq!(fixture.send("next").await["seq"], 2);
    fixture.world.db.execute_late(&late_batch).unwrap_err();
    assert_eq!(fixture.history().await, [(1, json!("0")), (2, json!("next"))]);
}

#[tokio::test(start_paused = true)]
async fn a_client_resumes_from_before_several_wakes_with_one_message_each() {
    let mut fixture = Fixture::new().await;
    assert_eq!(fixture.send("1").await["seq"], 2);
    let first = fixture.web.events().await.pop().unwrap();
    for local_id in ["2", "3"] {
        fixture.world.hibernate_and_wake().await;
        fixture.send(local_id).await;
    }
    fixture.world.hibernate_and_wake().await;
    let query = format!("sessionId={}", fixture.session);
    let (resume, web) = reconnect(&fixture.world, &query, &id(&first), Format::Json).await;
    assert_eq!(resume, "ok");
    let mut resumed = Fixture { web, ..fixture };
    assert_eq!(resumed.send("4").await["seq"], 5);
    assert_eq!(resumed.events().await, [(3, json!("2")), (4, json!("3")), (5, json!("4"))]);
}

#[tokio::test(start_paused = true)]
async fn events_that_an_interrupted_object_committed_are_published_before_the_event_of_the_message() {
    let mut fixture = Fixture::interrupted_while_writing().await;
    assert_eq!(fixture.send("2").await["seq"], 3);
    assert_eq!(fixture.events().await, [(2, json!("1")), (3, json!("2"))]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_two_clis_send_at_once_have_different_seqs() {
    let mut fixture = Fixture::new().await;
    let mut second = fixture.world.live_cli(&fixture.session).await;
    fixture.world.hibernate_and_wake().await;
    fixture.world.db.hold_all_results();
    let one = fixture.cli.emit_for_ack("message", &message(&fixture.session, "1"));
    let other = second.emit_for_ack("message", &message(&fixture.session, "2"));
    fixture.world.release_results().await;
    assert_eq!(fixture.cli.wait_for_ack(one).await["seq"], 2);
    assert_eq!(second.wait_for_ack(other).await["seq"], 3);
    assert_eq!(second.next_event("update").await["body"]["message"]["localId"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_rejected_if_its_session_was_deleted() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.execute("UPDATE sessions SET namespace = '/team'");
    assert_eq!(pick(&fixture.send("1").await, ["ok", "code"]), json!([false, "not-found"]));
}

#[tokio::test(start_paused = true)]
async fn a_session_in_memory_can_be_read_while_the_batch_stalls() {
    let mut fixture = Fixture::new().await;
    let other = fixture.world.create_session("/other").await;
    fixture.world.hibernate_and_wake().await;
    fixture.world.get(&format!("/api/sessions/{other}")).await.ok();
    fixture.world.db.fail_everything(&retryable_error());
    let ack = fixture.cli.emit_for_ack("message", &message(&fixture.session, "1"));
    run_until_idle().await;
    assert_eq!(fixture.world.get_session(&other).await["id"], other.as_str());
    fixture.world.db.repair();
    fixture.world.advance_in_steps(5_000).await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn the_event_log_is_trimmed_even_if_the_object_hibernates_after_each_message() {
    let mut fixture = Fixture::new().await;
    assert_eq!(fixture.send("1").await["seq"], 2);
    let set_events =
        format!("UPDATE events SET events = {} WHERE last = (SELECT max(last) FROM events)", 2 * RETAINED_EVENTS);
    fixture.world.db.execute(&set_events);
    for local_id in ["2", "3"] {
        fixture.world.hibernate_and_wake().await;
        fixture.send(local_id).await;
    }
    assert_eq!(count_event_rows(&fixture.world), 3, "the rows before the one with many events are deleted");
    fixture.world.db.execute(&set_events);
    fixture.world.hibernate_and_wake().await;
    fixture.send("4").await;
    assert_eq!(count_event_rows(&fixture.world), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_stalled_database_fail_together_with_the_first_message() {
    let mut fixture = Fixture::new().await;
    let (other, _cli) = fixture.world.active_session("/other").await;
    fixture.world.hibernate_and_wake().await;
    fixture.world.get(&format!("/api/sessions/{other}")).await.ok();
    fixture.world.db.fail_everything(&retryable_error());
    let ack = fixture.cli.emit_for_ack("message", &message(&fixture.session, "1"));
    run_until_idle().await;
    let posts = [&fixture.session, &other].map(|session| {
        fixture.world.start("POST", &format!("/api/sessions/{session}/messages"), r#"{"text":"hello"}"#)
    });
    for _ in 0..=DB_RETRY_PERIOD_MS / 10_000 {
        fixture.world.advance_in_steps(10_000).await;
        let alive = json!({"sid": fixture.session, "time": fixture.world.now()});
        fixture.cli.emit("session-alive", &alive);
    }
    assert!(posts.iter().all(|post| post.is_ready()), "the requests do not wait for separate retries");
    assert_eq!(fixture.cli.wait_for_ack(ack).await["code"], "unavailable");
    for post in posts {
        assert_eq!(post.reply().await.status, 503);
    }
}
