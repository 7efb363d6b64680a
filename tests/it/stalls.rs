//! Stalls of the database: for 90 s, its calls fail or have no result. Requests and acknowledgements wait. Nothing is lost or
//! stored twice, and nothing expires. Everything continues within five seconds after the stall.

use crate::support::database_errors::{LIMITS_REACHED, UNKNOWN_OUTCOMES};
use crate::support::merge::texts;
use crate::support::prelude::*;
use session_gateway_hub::limits::{DB_RETRY_PERIOD_MS, MAX_QUEUED_BYTES};
use session_gateway_hub::store::write_queue::MAX_BATCH_BYTES;

const STALL_MS: u64 = 90_000;
const RECOVERY_MS: u64 = 5_000;
const CONNECTION_LOST: &str = "D1_ERROR: Network connection lost.";

/// An active session with a pending request and an online machine, its CLI, and a web client.
struct Fixture {
    world: World,
    session: String,
    cli: Cli,
    web: Web,
}

impl Fixture {
    async fn new() -> Self {
        let (world, session, mut cli) = live_session_with_machine().await;
        cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
        let mut web = world.web("all=true").await;
        web.events().await;
        Self { world, session, cli, web }
    }

    /// Sends a message. Returns the id of its acknowledgement.
    fn send_message(&mut self, text: &str) -> u64 {
        self.cli.emit_for_ack("message", &json!({"sid": self.session, "message": {"text": text}, "localId": text}))
    }

    /// Sends a message. Returns the acknowledgement.
    async fn send_and_wait(&mut self, text: &str) -> Value {
        let ack = self.send_message(text);
        self.cli.wait_for_ack(ack).await
    }

    /// The path of the session.
    fn path(&self) -> String {
        format!("/api/sessions/{}", self.session)
    }

    /// Ends the stall, and waits until the hub has recovered.
    async fn recover(&self) {
        self.world.db.repair();
        self.world.advance_in_steps(RECOVERY_MS).await;
    }

    /// Advances the clock while the CLI sends keep-alives.
    async fn advance_with_keep_alives(&self, ms: u64) {
        for _ in 0..ms / 10_000 {
            self.world.advance_in_steps(10_000).await;
            let time = self.world.now();
            self.cli.emit("session-alive", &json!({"sid": self.session, "time": time}));
            self.cli.emit("machine-alive", &json!({"machineId": "m", "time": time}));
        }
        run_until_idle().await;
    }

    /// Checks that nothing has expired or was canceled, neither in the database nor in an event.
    async fn assert_nothing_expired(&mut self, case: &str) {
        assert_eq!(self.world.db.number("SELECT min(active) FROM sessions"), 1, "{case}");
        assert_eq!(self.world.db.number("SELECT min(active) FROM machines"), 1, "{case}");
        let events = self.web.events().await;
        let inactive = events.iter().find(|event| event["data"]["active"] == false);
        assert!(inactive.is_none(), "{case}: {inactive:?}");
        assert_eq!(self.world.get_session(&self.session).await["agentState"]["requests"]["r"]["tool"], "T", "{case}");
        assert!(self.cli.socket.is_open() && self.web.0.is_open(), "{case}");
    }

    /// Checks that the log has one line for the begin of the stall and one for its end.
    fn assert_logged(&self, stall_ms: u64, fault: &str) {
        let lines: Vec<Value> =
            self.world.rt.logs().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let [begin, end] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((&begin["event"], &begin["fault"]), (&json!("database-stalled"), &json!(fault)));
        assert_eq!(end["event"], "database-recovered");
        assert!((5_000..8_000).contains(&begin["ms"].as_u64().unwrap()), "{begin}");
        assert!((stall_ms..=stall_ms + RECOVERY_MS).contains(&end["ms"].as_u64().unwrap()), "{end}");
    }
}

fn fail_all(world: &World, message: &str) {
    world.db.fail_everything(&DbError::from_message(message.into()));
}

#[tokio::test(start_paused = true)]
async fn after_a_stall_of_90_s_everything_that_waited_succeeds_once_within_5_s() {
    for error in UNKNOWN_OUTCOMES {
        let mut fixture = Fixture::new().await;
        fail_all(&fixture.world, error);
        let acks = ["a", "b"].map(|text| fixture.send_message(text));
        let renamed = fixture.world.start("PATCH", &fixture.path(), r#"{"name":"new"}"#);
        let listed = fixture.world.start("GET", "/api/sessions", "");
        fixture.advance_with_keep_alives(STALL_MS).await;
        assert!(!renamed.is_ready() && !listed.is_ready(), "{error}");
        assert_eq!(fixture.world.db.number("SELECT count(*) FROM messages"), 0, "{error}");
        fixture.recover().await;
        assert!(renamed.is_ready() && listed.is_ready(), "{error}");
        renamed.reply().await.ok();
        assert_eq!(listed.reply().await.ok()["sessions"][0]["metadata"]["name"], "new", "{error}");
        for ack in acks {
            assert_eq!(fixture.cli.wait_for_ack(ack).await["ok"], true, "{error}");
        }
        assert_eq!(texts(&fixture.world, &fixture.session).await, ["a", "b"], "{error}");
        fixture.assert_nothing_expired(error).await;
        fixture.advance_with_keep_alives(60_000).await;
        fixture.assert_nothing_expired(error).await;
        fixture.assert_logged(STALL_MS, error);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_fail_at_once_while_a_limit_of_the_plan_is_reached_and_succeed_later() {
    for error in LIMITS_REACHED {
        let mut fixture = Fixture::new().await;
        fixture.world.db.fail_all(BatchKind::Writes, DbError::from_message(error.into()));
        assert_eq!(fixture.send_and_wait("a").await["code"], "unavailable");
        let path = fixture.path();
        let renamed = fixture.world.request("PATCH", &path, r#"{"name":"new"}"#).await;
        let body = renamed.assert_error(503, "hub_unavailable");
        assert!(body["error"].as_str().unwrap().starts_with("The database is full"), "{body}");
        fixture.world.db.repair();
        assert_eq!(fixture.send_and_wait("a").await["seq"], 1);
        assert_eq!(texts(&fixture.world, &fixture.session).await, ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_ten_seconds_is_logged_with_its_end() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.hold_all_results();
    let ack = fixture.send_message("a");
    fixture.world.advance_in_steps(10_000).await;
    fixture.world.db.release_results();
    assert_eq!(fixture.cli.wait_for_ack(ack).await["ok"], true);
    fixture.assert_logged(10_000, "D1 has not answered");
}

#[tokio::test(start_paused = true)]
async fn after_calls_without_a_result_for_90_s_everything_that_waited_succeeds() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.hold_all_results();
    let ack = fixture.send_message("a");
    run_until_idle().await;
    let later = fixture.send_message("b");
    fixture.advance_with_keep_alives(STALL_MS).await;
    fixture.world.db.release_results();
    fixture.world.advance_in_steps(RECOVERY_MS).await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(fixture.cli.wait_for_ack(later).await["seq"], 2);
    assert_eq!(texts(&fixture.world, &fixture.session).await, ["a", "b"]);
    fixture.assert_nothing_expired("no result").await;
}

#[tokio::test(start_paused = true)]
async fn after_calls_that_never_get_a_result_everything_that_waited_succeeds_within_5_s() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.set_silent(true);
    let ack = fixture.send_message("a");
    let listed = fixture.world.start("GET", "/api/sessions/unknown", "");
    fixture.advance_with_keep_alives(STALL_MS).await;
    let later = fixture.send_message("b");
    fixture.world.db.set_silent(false);
    fixture.world.advance_in_steps(RECOVERY_MS).await;
    assert!(listed.is_ready());
    assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(fixture.cli.wait_for_ack(later).await["seq"], 2);
    assert_eq!(texts(&fixture.world, &fixture.session).await, ["a", "b"]);
    fixture.assert_nothing_expired("silence").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_delays_its_change_by_seconds_and_is_rejected_if_it_arrives_late() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.never_return_next(BatchKind::Writes);
    let ack = fixture.send_message("a");
    run_until_idle().await;
    let lost = fixture.world.db.write_batches().pop().unwrap();
    fixture.world.advance_in_steps(RECOVERY_MS).await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 1);
    assert!(fixture.world.db.execute_late(&lost).is_err());
    assert_eq!(texts(&fixture.world, &fixture.session).await, ["a"]);
    fixture.assert_nothing_expired("lost").await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_slower_than_later_reads_succeeds_after_a_few_attempts() {
    let mut fixture = Fixture::new().await;
    let writes = fixture.world.db.write_count();
    fixture.world.db.hold_results(BatchKind::Writes);
    let ack = fixture.send_message("a");
    fixture.advance_with_keep_alives(60_000).await;
    let attempts = fixture.world.db.write_count() - writes;
    assert!((4..=8).contains(&attempts), "{attempts} attempts");
    fixture.world.db.release_results();
    fixture.world.advance_in_steps(RECOVERY_MS).await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(texts(&fixture.world, &fixture.session).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn batches_that_are_committed_despite_their_errors_are_stored_and_published_once() {
    let mut fixture = Fixture::new().await;
    let mut subscriber = fixture.world.web(&format!("sessionId={}", fixture.session)).await;
    for error in UNKNOWN_OUTCOMES {
        fixture.world.db.lose_response(DbError::from_message(error.into()));
    }
    let ack = fixture.send_message("a");
    fixture.advance_with_keep_alives(60_000).await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["seq"], 1);
    assert_eq!(fixture.cli.send_message(&fixture.session, "b").await["seq"], 2);
    let received = subscriber.events().await;
    let seqs: Vec<&Value> = received.iter().filter(|event| event["type"] == "message-received").collect();
    assert_eq!(seqs.iter().map(|event| &event["message"]["seq"]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(fixture.world.db.number("SELECT count(*) FROM messages"), 2);
    fixture.assert_nothing_expired("committed").await;
}

#[tokio::test(start_paused = true)]
async fn after_two_minutes_waiting_requests_fail_and_a_message_that_is_sent_again_is_stored_once() {
    for committed in [false, true] {
        let mut fixture = Fixture::new().await;
        if committed {
            fixture.world.db.lose_response(retryable_error());
        }
        fail_all(&fixture.world, CONNECTION_LOST);
        let ack = fixture.send_message("a");
        fixture.advance_with_keep_alives(DB_RETRY_PERIOD_MS - 10_000).await;
        let path = fixture.path();
        let renamed = fixture.world.start("PATCH", &path, r#"{"name":"new"}"#);
        fixture.advance_with_keep_alives(20_000).await;
        assert_eq!(fixture.cli.wait_for_ack(ack).await["code"], "unavailable");
        let refused = renamed.reply().await;
        refused.assert_error(503, "hub_unavailable");
        assert!(refused.headers.contains_key("retry-after"));
        fixture.advance_with_keep_alives(120_000).await;
        fixture.recover().await;
        fixture.cli = Cli::connect(&fixture.world, json!({"sessionId": fixture.session, "machineId": "m"})).await;
        assert_eq!(fixture.send_and_wait("a").await["seq"], 1, "{committed}");
        fixture.advance_with_keep_alives(10_000).await;
        assert_eq!(fixture.world.db.number("SELECT count(*) FROM messages"), 1, "{committed}");
        assert_eq!(fixture.world.db.number("SELECT min(active) FROM sessions"), 1, "{committed}");
        assert_eq!(fixture.world.get_session(&fixture.session).await["agentState"]["requests"]["r"]["tool"], "T");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_committed_before_an_outage_is_published_within_5_s_after_it() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.lose_response(retryable_error());
    fail_all(&fixture.world, CONNECTION_LOST);
    let path = fixture.path();
    let renamed = fixture.world.start("PATCH", &path, r#"{"name":"new"}"#);
    fixture.advance_with_keep_alives(600_000).await;
    renamed.reply().await.assert_error(503, "hub_unavailable");
    let events = fixture.web.events().await;
    assert!(events.iter().all(|event| event["type"] == "heartbeat"), "{events:?}");
    fixture.recover().await;
    let events = fixture.web.events().await;
    assert!(events.iter().any(|event| event["data"]["metadata"]["name"] == "new"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn committed_data_in_memory_can_be_read_during_a_stall() {
    let mut fixture = Fixture::new().await;
    let other = fixture.world.create_session("/other").await;
    for path in [format!("/api/sessions/{other}"), "/api/machines".to_owned()] {
        fixture.world.get(&path).await.ok();
    }
    fail_all(&fixture.world, CONNECTION_LOST);
    let ack = fixture.send_message("a");
    run_until_idle().await;
    assert_eq!(fixture.world.get_session(&other).await["id"], other.as_str());
    assert_eq!(fixture.world.get("/api/machines").await.ok()["machines"][0]["id"], "m");
    fixture.recover().await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn rpc_calls_keep_alives_and_live_text_pass_during_a_stall() {
    let mut fixture = Fixture::new().await;
    let session = fixture.session.clone();
    fixture.cli.register("readFile").await;
    let mut subscriber = fixture.world.web(&format!("sessionId={session}")).await;
    assert_eq!(fixture.send_and_wait("before").await["seq"], 1);
    fixture.world.db.set_silent(true);
    let waiting = fixture.send_message("waiting");
    fixture.advance_with_keep_alives(30_000).await;
    assert_eq!(fixture.cli.try_ack(waiting).await, None);
    subscriber.events().await;
    fixture.cli.emit("message-delta", &json!({"sid": session, "id": "m", "text": "Hel"}));
    assert_eq!(subscriber.next_event_of("message-delta").await["text"], "Hel");
    let read = fixture.world.start("GET", &format!("/api/sessions/{session}/file?path=a"), "");
    let call = fixture.cli.next_call().await;
    fixture.cli.respond(&call, &json!({"success": true, "content": "YQ=="}));
    assert_eq!(read.reply().await.ok()["content"], "YQ==");
    fixture.world.db.set_silent(false);
    fixture.world.advance_in_steps(RECOVERY_MS).await;
    assert_eq!(fixture.cli.wait_for_ack(waiting).await["seq"], 2);
    fixture.assert_nothing_expired("calls").await;
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_keep_alives_wait_for_the_database_does_not_expire() {
    let fixture = Fixture::new().await;
    fixture.cli.socket.close();
    fixture.world.hibernate_and_wake().await;
    fail_all(&fixture.world, "D1_ERROR: D1 DB is overloaded. Requests queued for too long.");
    // The CONNECT waits, because the session must be read.
    let mut cli = Cli::start_connect(&fixture.world, &json!({"token": "secret:team", "sessionId": fixture.session}));
    fixture.world.advance_in_steps(STALL_MS).await;
    fixture.recover().await;
    assert!(cli.socket.is_open());
    assert_eq!(cli.emit_with_ack("ping", &Value::Null).await["ok"], true);
    fixture.world.advance_in_steps(20_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 1, "the timeout restarts after the stall");
    cli.socket.close();
    fixture.world.advance_in_steps(40_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 0);
}

#[tokio::test(start_paused = true)]
async fn timeouts_that_restart_after_a_stall_survive_hibernation() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.hold_all_results();
    fixture.send_message("a");
    fixture.advance_with_keep_alives(10_000).await;
    fixture.cli.socket.close();
    fixture.world.advance_in_steps(STALL_MS).await;
    fixture.world.db.release_results();
    fixture.world.hibernate_and_wake().await;
    fixture.world.advance_in_steps(15_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 1);
    fixture.world.advance_in_steps(20_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 0);
}

#[tokio::test(start_paused = true)]
async fn timeouts_wait_until_an_unreachable_database_answers_a_probe() {
    let mut fixture = Fixture::new().await;
    fail_all(&fixture.world, CONNECTION_LOST);
    let ack = fixture.send_message("a");
    fixture.advance_with_keep_alives(130_000).await;
    assert_eq!(fixture.cli.wait_for_ack(ack).await["code"], "unavailable");
    fixture.cli.socket.close();
    fixture.world.advance_in_steps(600_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 1);
    fixture.world.db.repair();
    fixture.world.advance_in_steps(25_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 1);
    fixture.world.advance_in_steps(45_000).await;
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 0, "noticed without a client");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_reset_during_a_stall_loses_only_unacknowledged_messages() {
    let mut fixture = Fixture::new().await;
    assert_eq!(fixture.send_and_wait("before").await["seq"], 1);
    fail_all(&fixture.world, CONNECTION_LOST);
    fixture.send_message("a");
    fixture.advance_with_keep_alives(40_000).await;
    fixture.world.redeploy();
    let again = Cli::start_connect(
        &fixture.world,
        &json!({"token": "secret:team", "sessionId": fixture.session, "machineId": "m"}),
    );
    fixture.world.advance_in_steps(50_000).await;
    fixture.recover().await;
    fixture.cli = again;
    assert_eq!(fixture.send_and_wait("a").await["seq"], 2);
    assert_eq!(texts(&fixture.world, &fixture.session).await.last().map(String::as_str), Some("a"));
    assert_eq!(fixture.world.db.number("SELECT count(*) FROM messages"), 2);
    assert_eq!(fixture.world.db.number("SELECT active FROM sessions"), 1);
}

#[tokio::test(start_paused = true)]
async fn if_40_mb_are_queued_more_changes_are_overloaded_and_the_queued_changes_are_stored_after_the_stall() {
    let mut fixture = Fixture::new().await;
    fail_all(&fixture.world, "D1_ERROR: D1 DB is overloaded. Too many requests queued.");
    let text = "x".repeat(1_000_000);
    let mut acks = Vec::new();
    for n in 0..60 {
        let payload = json!({"sid": fixture.session, "message": {"text": text}, "localId": n.to_string()});
        acks.push(fixture.cli.emit_for_ack("message", &payload));
        run_until_idle().await;
    }
    let path = fixture.path();
    let refused = fixture.world.request("PATCH", &path, r#"{"name":"new"}"#).await;
    refused.assert_error(503, "overloaded");
    assert!(refused.headers.contains_key("retry-after"));
    fixture.advance_with_keep_alives(STALL_MS).await;
    fixture.recover().await;
    let mut stored = 0;
    for ack in acks {
        let ack = fixture.cli.wait_for_ack(ack).await;
        assert!(ack["ok"] == true || ack["code"] == "overloaded", "{ack}");
        stored += i64::from(ack["ok"] == true);
    }
    assert_eq!(fixture.world.db.number("SELECT count(*) FROM messages"), stored);
    // A message is queued twice: as its row and as its event.
    assert!((10..=MAX_QUEUED_BYTES / 1_000_000).contains(&usize::try_from(stored).unwrap()), "{stored}");
    let largest = fixture.world.db.write_batches().iter().map(|b| crate::support::sqlite::parameter_bytes(b)).max();
    assert!(largest < Some(2 * MAX_BATCH_BYTES), "{largest:?}");
    fixture.world.request("PATCH", &path, r#"{"name":"new"}"#).await.ok();
}
