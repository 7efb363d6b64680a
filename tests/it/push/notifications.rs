//! Notifications about permission requests and finished agents, from the CLI to the browser.

use crate::support::prelude::*;
use crate::support::pushes::{Browser, ENDPOINT, header, pending, push_fixture, second_browser};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[tokio::test(start_paused = true)]
async fn a_permission_request_is_pushed_to_the_browser() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    assert!(world.pushes_after(499).await.is_empty());
    let pushes = world.pushes_after(2).await;
    let (message, mut payload) = (&pushes[0], browser.read_one(&pushes));
    let token = payload["data"].as_object_mut().unwrap().remove("answerToken").unwrap();
    assert!(token.as_str().unwrap().starts_with("sga_"));
    let expected = json!({
        "title": "Permission Request", "body": "demo (Bash)", "tag": format!("permission-{session}"),
        "data": {
            "sessionId": session, "requestId": "r1", "url": format!("/sessions/{session}"), "session": "demo", "agent": "Beta",
            "tool": "Bash", "request": {"tool": "Bash", "arguments": {}}, "sentAt": world.now() - 1,
            "namespace": "team",
        },
    });
    assert_eq!(payload, expected);
    assert_eq!((header(message, "Urgency"), header(message, "TTL")), ("high", "86400"));
    assert_eq!(header(message, "Content-Encoding"), "aes128gcm");
    assert_eq!(header(message, "Topic").len(), 32);
    assert!(header(message, "Authorization").starts_with("vapid t=ey"));
    let log = world.push_log().await;
    assert_eq!((log.len(), &log[0]["outcome"], &log[0]["sent"]), (1, &json!("sent"), &json!(1)), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_an_agent_state_larger_than_a_row_is_pushed_with_its_tool() {
    let (world, session, mut cli, browser) = push_fixture().await;
    let mut state = pending(&["r1"]);
    state["context"] = json!("x".repeat(3_000_000));
    cli.update_agent_state(&session, 1, &state).await;
    assert_eq!(browser.read_one(&world.pushes_after(501).await)["body"], "demo (Bash)");
}

#[tokio::test(start_paused = true)]
async fn a_finished_agent_is_pushed_at_most_once_in_five_seconds() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.send_ready(&session).await;
    let pushes = world.pushes_after(1).await;
    let payload = browser.read_one(&pushes);
    let expected = json!(["Session Ready", "Beta is waiting in demo", format!("ready-{session}")]);
    assert_eq!(pick(&payload, ["title", "body", "tag"]), expected);
    assert_eq!(payload["data"]["url"], format!("/sessions/{session}"));
    assert_eq!(header(&pushes[0], "Urgency"), "normal");
    world.advance(4_000).await;
    cli.send_ready(&session).await;
    assert!(world.pushes_after(500).await.is_empty());
    world.advance(600).await;
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 1);
    assert_eq!(world.outcomes_newest_first().await, ["sent", "cooling-down", "sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_has_the_name_of_the_agent_or_the_label_of_its_flavor() {
    let vocabulary = r#"{"agents":{"zeta":"alpha"},"labels":{"zeta":"Zeta coder"}}"#;
    let world = World::with_vocabulary(vocabulary);
    let browser = Browser::subscribed(&world, ENDPOINT, 1).await;
    let cases = [
        (json!({"flavor": "zeta", "agentName": "Product"}), "Product is waiting in demo"),
        (json!({"flavor": "zeta", "agentName": " "}), "Zeta coder is waiting in demo"),
        (json!({"flavor": "theta"}), "Theta is waiting in demo"),
        (json!({}), "Zeta coder is waiting in demo"),
    ];
    for (number, (metadata, expected)) in cases.into_iter().enumerate() {
        let (session, mut cli) = world.active_session_with(&format!("/{number}/demo"), metadata).await;
        cli.send_ready(&session).await;
        assert_eq!(browser.read_one(&world.pushes_after(1).await)["body"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_visible_web_client_gets_a_toast_and_no_push_is_sent() {
    let (world, session, mut cli, _) = push_fixture().await;
    let mut visible = world.web("visibility=visible").await;
    let mut hidden = world.web("").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    let toast = visible.next_event_of("toast").await;
    let expected = json!({
        "title": "Permission Request", "body": "demo (Bash)", "sessionId": session, "url": format!("/sessions/{session}"),
        "session": "demo", "agent": "Beta", "tool": "Bash", "request": {"tool": "Bash", "arguments": {}},
    });
    assert_eq!(toast["data"], expected);
    assert!(!hidden.types().await.contains(&"toast".to_owned()));
    assert!(world.rt.take_pushes().is_empty());
    assert_eq!(world.outcomes_newest_first().await, ["toast"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_gone_is_deleted() {
    for status in [404, 410] {
        let (world, session, mut cli, browser) = push_fixture().await;
        second_browser(&world, &[(status, None)]).await;
        cli.send_ready(&session).await;
        assert_eq!(world.pushes_after(1).await.len(), 2);
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["sent"], &log["failed"]), (&json!("sent"), &json!(1), &json!(1)));
        assert_eq!(log["failures"][0]["service"], "https://other.service.com:8443");
        assert_eq!(log["failures"][0]["status"], status);
        assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 1);
        world.advance(6_000).await;
        cli.send_ready(&session).await;
        let [message] = &world.pushes_after(1).await[..] else { panic!("not one message") };
        assert_eq!(message.uri().to_string(), browser.endpoint);
    }
}

#[tokio::test(start_paused = true)]
async fn without_subscriptions_notifications_need_no_read() {
    let world = World::new();
    let (session, mut cli) = world.active_session("/code/demo").await;
    let browser = second_browser(&world, &[(410, None)]).await;
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 1);
    assert!(world.rt.stored_entries().contains_key("push:none"));
    world.advance(6_000).await;
    let reads = world.db.read_count();
    cli.send_ready(&session).await;
    assert_eq!((world.db.read_count(), world.pushes_after(1).await.len()), (reads, 0));
    assert_eq!(world.outcomes_newest_first().await, ["failed"], "without subscriptions nothing is logged");
    world.post("/api/push/subscribe", &browser.subscription()).await.ok();
    world.rt.respond_to_pushes(&browser.endpoint, &[(202, None)]);
    cli.send_ready(&session).await;
    world.advance(1).await;
    assert_eq!(world.outcomes_newest_first().await[0], "sent");
}

/// The reads and writes of the database, and the alarms that were set.
fn database_calls_and_alarms(world: &World) -> (usize, usize, usize) {
    (world.db.read_count(), world.db.write_count(), world.rt.alarms_set())
}

#[tokio::test(start_paused = true)]
async fn without_subscriptions_notifications_need_no_statement_and_no_alarm() {
    let world = World::new();
    let (session, mut cli) = world.active_session("/code/demo").await;
    // The first notification reads the database. The key-value storage keeps the result during hibernation.
    cli.send_ready(&session).await;
    world.advance(6_000).await;
    world.hibernate_and_wake().await;
    cli.update_agent_state(&session, 1, &pending(&[])).await;
    let mut deltas = Vec::new();
    for notifies in [false, true] {
        let before = database_calls_and_alarms(&world);
        match notifies {
            false => drop(cli.send_message(&session, "words").await),
            true => cli.send_ready(&session).await,
        }
        cli.update_agent_state(&session, 2 + u64::from(notifies), &pending(if notifies { &["r1"] } else { &[] })).await;
        world.advance(1_000).await;
        let after = database_calls_and_alarms(&world);
        deltas.push((after.0 - before.0, after.1 - before.1, after.2 - before.2));
    }
    assert_eq!(deltas[0], deltas[1]);
    assert_eq!(world.outcomes_newest_first().await, ["no-subscribers"], "only the first notification is logged");
}

#[tokio::test(start_paused = true)]
async fn a_new_object_reads_the_subscriptions() {
    let (world, session, _, browser) = push_fixture().await;
    // Simulates a new deployment with a copy of the database.
    let restored = World::in_namespace("team", std::sync::Arc::clone(&world.db));
    restored.live_cli(&session).await.send_ready(&session).await;
    restored.advance(1).await;
    let [message] = &restored.rt.take_pushes()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["title"], "Session Ready");
}

#[tokio::test(start_paused = true)]
async fn the_result_that_there_are_no_subscriptions_is_cached_for_a_day() {
    for hibernates in [true, false] {
        let (world, session, mut cli, browser) = push_fixture().await;
        world.db.execute("CREATE TABLE backup AS SELECT * FROM push_subscriptions");
        let unsubscribe = json!({"endpoint": browser.endpoint}).to_string();
        world.request("DELETE", "/api/push/subscribe", unsubscribe).await.ok();
        // Simulates a restore of the database from a backup.
        world.db.execute("INSERT INTO push_subscriptions SELECT * FROM backup");
        for (pause, outcomes) in [(DAY_MS - 1_000, &[][..]), (1_000 + 5_000, &["sent"])] {
            world.rt.set_now(world.now() + pause);
            world.hibernate_if(hibernates).await;
            cli.send_ready(&session).await;
            world.advance(1).await;
            assert_eq!(world.outcomes_newest_first().await, outcomes);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_read_once() {
    let (world, session, mut cli, _) = push_fixture().await;
    cli.send_ready(&session).await;
    world.advance(6_000).await;
    let before = database_calls_and_alarms(&world);
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 2);
    let after = database_calls_and_alarms(&world);
    assert_eq!((after.0, after.1), (before.0, before.1 + 1), "the write is the message");
}

#[tokio::test(start_paused = true)]
async fn a_push_message_to_a_busy_service_is_retried_after_its_retry_after() {
    for (status, retry_after, delay) in [
        (429, Some("7"), 7_000),
        (503, Some("Fri, 15 Jan 2027 08:00:15 GMT"), 10_000),
        (500, None, 5_000),
        (502, Some("soon"), 5_000),
        (0, None, 5_000),
    ] {
        let (world, session, mut cli, _) = push_fixture().await;
        let browser = second_browser(&world, &[(status, retry_after), (201, None)]).await;
        cli.send_ready(&session).await;
        world.fire_alarm_at(world.now() + 1).await;
        let sent_at = world.now();
        world.rt.take_pushes();
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["waiting"], &log["failures"]), (&json!("sending"), &json!(1), &json!([])));
        let [retry] = &log["retries"].as_array().unwrap()[..] else { panic!("not one retry: {log}") };
        assert_eq!(retry["service"], "https://other.service.com:8443");
        assert_eq!(retry.get("status"), (status > 0).then(|| json!(status)).as_ref());
        let reason = if status > 0 { "The push service was busy." } else { "The push service could not be reached." };
        assert_eq!(retry["reason"], reason);
        let until = if status == 503 { START + delay } else { sent_at + delay };
        assert!(world.pushes_after(until - 1 - world.now()).await.is_empty(), "{status} {retry_after:?}");
        assert_eq!(retry["at"], until);
        let [message] = &world.pushes_after(1).await[..] else {
            panic!("not one message after {status} {retry_after:?}")
        };
        assert_eq!(browser.read(message)["title"], "Session Ready");
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["sent"], &log["failed"]), (&json!("sent"), &json!(2), &json!(0)));
        assert_eq!(log["retries"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_message_is_sent_at_most_five_times() {
    let (world, session, mut cli, _) = push_fixture().await;
    second_browser(&world, &[(500, None)]).await;
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(3_600_000).await.len(), 1 + 5);
    assert_eq!(pick(&world.push_log().await[0], ["outcome", "waiting", "failures/0/status"]), json!(["sent", 0, 500]));
    assert!(!world.rt.stored_entries().keys().any(|key| key.starts_with("push:item")));
}

#[tokio::test(start_paused = true)]
async fn a_retry_survives_hibernation_and_a_restart() {
    let (world, session, mut cli, _) = push_fixture().await;
    let browser = second_browser(&world, &[(503, Some("60")), (503, Some("60")), (201, None)]).await;
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 2);
    world.hibernate_and_wake().await;
    assert_eq!(world.pushes_after(60_001).await.len(), 1);
    world.restart();
    assert_eq!(browser.read_one(&world.pushes_after(60_001).await)["data"]["sessionId"], *session);
    assert_eq!(world.outcomes_newest_first().await, ["sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_debounced_request_and_a_cooldown_survive_a_restart() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.restart();
    assert_eq!(browser.read_one(&world.pushes_after(501).await)["data"]["requestId"], "r1");
    world.hibernate_and_wake().await;
    cli.send_ready(&session).await;
    world.advance(1).await;
    world.restart();
    cli.send_ready(&session).await;
    world.advance(1).await;
    assert_eq!(world.outcomes_newest_first().await, ["cooling-down", "sent", "sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_push_message_that_is_too_large_is_shortened_once() {
    let world = World::new();
    let (session, mut cli) = world.active_session_with("/code/demo", json!({"name": "n".repeat(200)})).await;
    let browser = second_browser(&world, &[(413, None)]).await;
    let request = json!({"requests": {"r1": {"tool": "T".repeat(9_000)}}});
    cli.update_agent_state(&session, 1, &request).await;
    let pushed = world.pushes_after(60_000).await;
    let [long, short] = &pushed[..] else { panic!("not two messages, but {}", pushed.len()) };
    assert_eq!(long.body().len(), 3_103, "a payload of 3,000 bytes");
    assert!(short.body().len() < 2_200);
    assert_eq!(browser.read(short)["data"], browser.read(long)["data"]);
    assert_eq!(world.push_log().await[0]["failures"][0]["status"], 413);
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(60_000).await.len(), 1, "a short message is not retried");
}

#[tokio::test(start_paused = true)]
async fn push_messages_with_other_statuses_are_not_retried() {
    for status in [200, 301, 307, 400, 401, 403, 406] {
        let (world, session, mut cli, _) = push_fixture().await;
        second_browser(&world, &[(status, None)]).await;
        cli.send_ready(&session).await;
        assert_eq!(world.pushes_after(600_000).await.len(), 2, "{status}");
        assert_eq!(world.push_log().await[0]["failures"][0]["status"], status);
        assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_push_service_blocks_nothing_else() {
    let (world, session, mut cli, _) = push_fixture().await;
    world.rt.hang_pushes(ENDPOINT);
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 1);
    assert_eq!(cli.send_message(&session, "words").await["ok"], true);
    assert_eq!(world.get_session(&session).await["seq"], 2);
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    assert_eq!(world.pushes_after(501).await.len(), 1, "the next notification is sent");
}

#[tokio::test(start_paused = true)]
async fn permission_requests_within_half_a_second_are_one_notification() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(400).await;
    cli.update_agent_state(&session, 2, &pending(&["r1", "r2"])).await;
    assert!(world.pushes_after(99).await.is_empty());
    assert_eq!(browser.read_one(&world.pushes_after(1).await)["data"]["requestId"], "r2");
    cli.update_agent_state(&session, 3, &pending(&["r2"])).await;
    assert!(world.pushes_after(1_000).await.is_empty(), "there is no new request");
    assert_eq!(world.outcomes_newest_first().await, ["sent", "replaced"]);
}

#[tokio::test(start_paused = true)]
async fn further_permission_requests_do_not_delay_the_first_notification() {
    let (world, session, mut cli, browser) = push_fixture().await;
    for version in 1..=5 {
        cli.update_agent_state(&session, version, &pending(&[&format!("r{version}")])).await;
        world.advance(125).await;
    }
    let [message] = &world.rt.take_pushes()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["data"]["requestId"], "r4", "the last one within half a second");
}

#[tokio::test(start_paused = true)]
async fn the_log_shows_what_was_sent_before_a_notification_was_replaced() {
    let (world, session, mut cli, _) = push_fixture().await;
    let slow = Browser::subscribed(&world, "https://slow.com/1", 2).await;
    world.rt.hang_pushes(&slow.endpoint);
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    // The first push service has accepted the message, the other push service has not responded yet.
    cli.update_agent_state(&session, 2, &pending(&["r1", "r2"])).await;
    world.rt.time_out_pushes();
    let log = &world.push_log().await[1];
    assert_eq!((&log["requestId"], &log["outcome"], &log["sent"]), (&json!("r1"), &json!("sent"), &json!(1)), "{log}");
    assert_eq!(log["retries"], json!([]), "the replaced notification is not retried: {log}");
}

#[tokio::test(start_paused = true)]
async fn a_notification_is_about_the_last_request_that_is_still_pending() {
    // The requests arrive in one update, or in one update each.
    for states in [
        vec![pending(&["r1", "r2", "r3"])],
        vec![pending(&["r1"]), pending(&["r1", "r2"]), pending(&["r1", "r2", "r3"])],
    ] {
        let (world, session, mut cli, browser) = push_fixture().await;
        let versions = states.len() as u64;
        for (version, state) in (1..).zip(&states) {
            cli.update_agent_state(&session, version, state).await;
        }
        cli.update_agent_state(&session, versions + 1, &pending(&["r1", "r2"])).await;
        assert_eq!(browser.read_one(&world.pushes_after(501).await)["data"]["requestId"], "r2");
        cli.update_agent_state(&session, versions + 2, &pending(&["r1", "r4"])).await;
        cli.update_agent_state(&session, versions + 3, &pending(&["r1"])).await;
        assert!(world.pushes_after(501).await.is_empty(), "the push for r2 covered r1");
        assert_eq!(world.outcomes_newest_first().await[0], "answered");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_request_and_a_deleted_session_are_not_pushed() {
    let (world, session, mut cli, _) = push_fixture().await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    cli.update_agent_state(&session, 2, &pending(&[])).await;
    world.advance(1_000).await;
    cli.update_agent_state(&session, 3, &pending(&["r2"])).await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert!(world.pushes_after(1_000).await.is_empty());
    assert_eq!(world.outcomes_newest_first().await, ["session-gone", "answered"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_not_committed_is_not_pushed() {
    let (world, session, mut cli, _) = push_fixture().await;
    world.db.fail_all(BatchKind::Writes, permanent_error());
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.db.repair();
    assert!(world.pushes_after(1_000).await.is_empty());
    assert_eq!(world.outcomes_newest_first().await, <[String; 0]>::default());
}

#[tokio::test(start_paused = true)]
async fn a_notification_waits_while_the_database_is_unavailable() {
    let (world, session, mut cli, _) = push_fixture().await;
    cli.send_ready(&session).await;
    let fault = DbError::Unavailable("D1 did not answer in time".into());
    world.hibernate_and_wake().await;
    world.db.fail_all(BatchKind::Reads, fault.clone());
    world.advance(1).await;
    assert_eq!(world.outcomes_newest_first().await, ["waiting"]);
    world.db.repair();
    assert_eq!(world.pushes_after(5_000).await.len(), 1);
    assert_eq!(world.outcomes_newest_first().await, ["sent"]);
    cli.send_ready(&session).await;
    world.hibernate_and_wake().await;
    world.db.fail_all(BatchKind::Reads, fault);
    world.advance(3_600_000).await;
    assert_eq!(world.outcomes_newest_first().await[0], "unavailable");
}
