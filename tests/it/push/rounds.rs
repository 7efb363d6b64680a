//! Notifications that need several rounds of push messages: whether a later round is still needed, the limits on push messages,
//! and the push log.

use crate::support::prelude::*;
use crate::support::pushes::{Browser, pending, push_fixture, second_browser};

fn outage() -> DbError {
    DbError::Unavailable("D1 did not answer in time".into())
}

#[tokio::test(start_paused = true)]
async fn a_retry_while_the_database_is_unavailable_is_delayed() {
    let (world, session, mut cli, _) = push_fixture().await;
    let browser = second_browser(&world, &[(503, Some("10")), (201, None)]).await;
    cli.send_ready(&session).await;
    world.pushes_after(1).await;
    world.hibernate_and_wake().await;
    world.db.fail_all(BatchKind::Reads, outage());
    world.advance(10_000).await;
    assert_eq!(pick(&world.push_log().await[0], ["outcome", "sent", "waiting"]), json!(["waiting", 1, 1]));
    world.advance(24_000).await;
    assert_eq!(world.outcomes_newest_first().await, ["waiting"], "the attempts after 5 s and 20 s have failed");
    world.db.repair();
    assert_eq!(browser.read_one(&world.pushes_after(1_001).await)["title"], "Session Ready");
    assert_eq!(world.push_log().await[0]["sent"], 2);
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_ends_a_notification_while_the_database_is_unavailable() {
    let (world, session, mut cli, _) = push_fixture().await;
    second_browser(&world, &[(503, Some("10"))]).await;
    cli.send_ready(&session).await;
    world.advance(1).await;
    world.hibernate_and_wake().await;
    world.db.fail_all(BatchKind::Reads, outage());
    world.advance(3_600_000).await;
    let log = &world.push_log().await[0];
    assert_eq!(pick(log, ["outcome", "sent", "waiting"]), json!(["unavailable", 1, 0]), "{log}");
    assert!(!world.rt.stored_entries().keys().any(|key| key.starts_with("push:item")));
}

#[tokio::test(start_paused = true)]
async fn a_later_round_is_canceled_if_the_notification_is_no_longer_needed() {
    for outcome in ["answered", "session-gone"] {
        let (world, session, mut cli, _) = push_fixture().await;
        second_browser(&world, &[(503, Some("10"))]).await;
        cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
        assert_eq!(world.pushes_after(501).await.len(), 2);
        match outcome {
            "answered" => drop(cli.update_agent_state(&session, 2, &pending(&[])).await),
            _ => {
                cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
                world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
            }
        }
        assert!(world.pushes_after(10_000).await.is_empty(), "{outcome}");
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["sent"], &log["waiting"]), (&json!(outcome), &json!(1), &json!(0)), "{log}");
        assert_eq!(log["retries"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_round_is_about_the_last_request_that_is_still_pending() {
    let (world, session, mut cli, _) = push_fixture().await;
    let busy = second_browser(&world, &[(503, Some("2")), (503, Some("2")), (201, None)]).await;
    cli.update_agent_state(&session, 1, &pending(&["r1", "r2", "r3"])).await;
    for (version, next, expected) in [(2, vec!["r1", "r2"], "r3"), (3, vec!["r1"], "r2"), (4, vec![], "r1")] {
        let pushed = world.pushes_after(2_001).await;
        assert_eq!(
            busy.read(pushed.iter().find(|message| *message.uri() == *busy.endpoint).unwrap())["data"]["requestId"],
            expected
        );
        cli.update_agent_state(&session, version, &pending(&next)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_replaced_during_a_failed_read_is_still_sent() {
    let (world, session, mut cli, browser) = push_fixture().await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.db.hold_results(BatchKind::Reads);
    world.advance(501).await;
    assert_eq!(world.db.held_result_count(), 1, "the subscriptions are being read");
    // During the read, another request arrives and is answered before its notification is sent.
    cli.update_agent_state(&session, 2, &pending(&["r1", "r2"])).await;
    cli.update_agent_state(&session, 3, &pending(&["r1"])).await;
    world.db.fail_all(BatchKind::Reads, outage());
    world.db.release_results();
    world.advance(1).await;
    world.db.repair();
    let pushed = world.pushes_after(6_000).await;
    let [message] = &pushed[..] else { panic!("not one message: {}", pushed.len()) };
    assert_eq!(browser.read(message)["data"]["requestId"], "r1");
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_push_service_delays_no_other_service_and_no_other_notification() {
    let world = World::new();
    let sessions = [world.create_session("/code/a").await, world.create_session("/code/b").await];
    world.rt.hang_pushes("https://unresponsive.com");
    for number in 1..=20 {
        Browser::subscribed(&world, &format!("https://unresponsive.com/{number}"), number).await;
        Browser::subscribed(&world, &format!("https://healthy.com/{number}"), number).await;
    }
    for session in &sessions {
        world.live_cli(session).await.send_ready(session).await;
        world.advance(1).await;
    }
    let pushed = world.rt.take_pushes();
    let count_for =
        |service: &str| pushed.iter().filter(|message| message.uri().to_string().starts_with(service)).count();
    assert_eq!((count_for("https://healthy.com"), count_for("https://unresponsive.com")), (40, 3));
}

#[tokio::test(start_paused = true)]
async fn each_push_message_yields_to_other_tasks() {
    let (world, session, mut cli) = live_session().await;
    for number in 1..=20 {
        Browser::subscribed(&world, &format!("https://a.com/{number}"), number).await;
    }
    let yields = world.rt.yields();
    cli.send_ready(&session).await;
    assert_eq!((world.pushes_after(1).await.len(), world.rt.yields() - yields), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn push_messages_above_600_a_minute_are_delayed_even_after_a_hibernation() {
    let world = World::new();
    for number in 1..=50 {
        Browser::subscribed(&world, &format!("https://a.com/{number}"), number).await;
    }
    // The alarm that sends the first message fires a millisecond later.
    let window_start = world.now() + 1;
    let mut sessions = Vec::new();
    for number in 1..=13 {
        let session = world.create_session(&format!("/code/{number}")).await;
        world.live_cli(&session).await.send_ready(&session).await;
        world.advance(1).await;
        sessions.push(session);
    }
    assert_eq!(world.rt.take_pushes().len(), 600);
    let log = &world.push_log().await[0];
    assert_eq!((&log["outcome"], &log["sent"], &log["waiting"]), (&json!("sending"), &json!(0), &json!(50)), "{log}");
    let retry = &log["retries"][0];
    assert_eq!(retry["reason"], "The limit of 600 push messages per minute is reached.");
    assert_eq!((&retry["service"], &retry["at"]), (&json!("https://a.com"), &json!(window_start + 60_000)), "{log}");
    world.hibernate_and_wake().await;
    world.advance(6_000).await;
    world.live_cli(&sessions[0]).await.send_ready(&sessions[0]).await;
    assert!(world.pushes_after(53_000).await.is_empty(), "a hibernation starts no new window");
    assert_eq!(world.pushes_after(1_000).await.len(), 100);
    assert_eq!(world.outcomes_newest_first().await, ["sent"; 14]);
}

#[tokio::test(start_paused = true)]
async fn a_push_to_a_browser_that_unsubscribes_between_two_rounds_counts_as_failed() {
    let (world, session, mut cli, _) = push_fixture().await;
    let browser = second_browser(&world, &[(503, Some("10"))]).await;
    cli.send_ready(&session).await;
    world.pushes_after(1).await;
    world.request("DELETE", "/api/push/subscribe", json!({"endpoint": browser.endpoint}).to_string()).await.ok();
    world.hibernate_and_wake().await;
    assert!(world.pushes_after(10_000).await.is_empty());
    let log = &world.push_log().await[0];
    assert_eq!((&log["outcome"], &log["sent"], &log["failed"]), (&json!("sent"), &json!(1), &json!(1)), "{log}");
    let failure =
        json!({"service": "https://other.service.com:8443", "reason": "The browser unsubscribed before it was sent."});
    assert_eq!(log["failures"], json!([failure]));
}
