//! Web clients that reconnect after a fault: an interrupted commit, a lost response, an unavailable database, a missing row.

use crate::support::prelude::*;
use crate::support::replay::{
    FORMATS, TEN_MINUTES_MS, connect_and_read_first_event, id, message, missed_message, missed_texts, received_message,
    reconnect, replay_fixture, resume_outcome, texts,
};
use futures::future::{Either, join_all, select};
use session_gateway_hub::hub::core::ports::Runtime as _;
use session_gateway_hub::limits::{BACKGROUND_RETRY_MS, DB_RETRY_PERIOD_MS, RETAINED_BYTES, RETAINED_EVENTS};
use std::pin::pin;

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_a_commit_loses_no_event() {
    for format in FORMATS {
        let (world, session, mut cli, web_query) = replay_fixture().await;
        let mut web = world.web(&web_query).await;
        let mut connected = Web(world.open_event_stream(&web_query, None, format).await.unwrap());
        cli.send_message(&session, "received").await;
        let received = id(&web.next_event().await);
        connected.events().await;
        world.db.hold_results(BatchKind::Writes);
        cli.emit("message", &message(&session, "unpublished"));
        assert_eq!(world.held_results().await, 1, "the batch will be committed, but not published");
        world.restart();
        world.db.release_results();
        let (outcome, mut reconnected) = reconnect(&world, &web_query, &received, format).await;
        cli.send_message(&session, "next").await;
        assert_eq!((outcome.as_str(), texts(&reconnected.events().await)), ("ok", vec!["unpublished", "next"]));
        // Clients whose sockets survived the restart receive the event, too.
        assert_eq!(texts(&connected.events().await), ["unpublished", "next"]);
        assert_eq!(texts(&web.events().await), ["unpublished", "next"]);
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_stay_connected_over_a_restart_receive_missed_events_late_and_no_event_twice() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut first = world.web(&web_query).await;
    let mut second = world.web(&web_query).await;
    for n in 0..3 {
        cli.send_message(&session, "published").await;
        if n == 1 {
            // Closed, because the attachment of the first client would contain the number of the last published event.
            drop(first.0.drain().await);
            first.0.close();
        }
    }
    assert_eq!(second.events().await.len(), 3);
    world.restart();
    cli.send_message(&session, "next").await;
    assert_eq!(texts(&second.events().await), ["next"]);
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &message(&session, "unpublished")).await;
    world.restart();
    world.db.release_results();
    second.0.assert_no_frames().await;
    cli.send_message(&session, "last").await;
    assert_eq!(texts(&second.events().await), ["unpublished", "last"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_during_an_interrupted_commit_has_a_gap() {
    let (world, session, cli, web_query) = replay_fixture().await;
    world.db.hold_results(BatchKind::Writes);
    cli.emit("message", &message(&session, "lost"));
    assert_eq!(world.held_results().await, 1);
    let first = connect_and_read_first_event(&world, &web_query).await;
    assert_eq!(first["data"]["resume"], "ok");
    world.redeploy();
    world.db.release_results();
    assert_eq!(resume_outcome(&world, &web_query, &id(&first)).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_during_a_commit_receives_the_event_of_the_commit_once() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &message(&session, "m")).await;
    let mut first = world.web(&web_query).await;
    world.db.release_results();
    let published = first.events().await;
    assert_eq!(texts(&published), ["m"]);
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &message(&session, "n")).await;
    let (outcome, mut second) = reconnect(&world, &web_query, &id(&published[0]), Format::Json).await;
    world.db.release_results();
    assert_eq!((outcome.as_str(), texts(&second.events().await)), ("ok", vec!["n"]));
    assert_eq!(cli.send_message(&session, "o").await["seq"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_lost_results_is_published_as_soon_as_it_is_found_in_the_log() {
    for format in FORMATS {
        let (world, session, mut cli, web_query) = replay_fixture().await;
        let mut web = Web(world.open_event_stream(&web_query, None, format).await.unwrap());
        let first = web.next_event().await;
        for _ in 0..5 {
            world.db.lose_response(retryable_error());
        }
        // The last attempt is refused, although an earlier one has committed the batch.
        world.db.fail(BatchKind::Writes, permanent_error());
        let ack = cli.emit_for_ack("message", &message(&session, "m"));
        world.exhaust_retries().await;
        assert_eq!(cli.wait_for_ack(ack).await["ok"], false);
        assert_eq!(texts(&web.events().await), ["m"]);
        assert_eq!(world.get_session(&session).await["seq"], 1);
        cli.send_message(&session, "n").await;
        assert_eq!(texts(&web.events().await), ["n"]);
        world.redeploy();
        let (outcome, mut reconnected) = reconnect(&world, &web_query, &id(&first), format).await;
        assert_eq!((outcome.as_str(), texts(&reconnected.events().await)), ("ok", vec!["m", "n"]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_not_committed_is_not_published() {
    let (world, session, mut cli, web_query, mut web, received) = received_message().await;
    for error in [retryable_error(), permanent_error()] {
        world.db.fail_all(BatchKind::Writes, error);
        let ack = cli.emit_for_ack("message", &message(&session, "m"));
        world.exhaust_retries().await;
        assert_eq!(cli.wait_for_ack(ack).await["ok"], false);
        world.db.repair();
        web.0.assert_no_frames().await;
        assert_eq!(resume_outcome(&world, &web_query, &received).await, "ok");
    }
    cli.send_message(&session, "next").await;
    world.redeploy();
    assert_eq!(missed_texts(&world, &web_query, &received).await, ["next"]);
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_unavailable_no_client_can_resume() {
    let (world, session, cli, _, mut web, received) = received_message().await;
    world.db.lose_response(DbError::Unavailable("D1 did not answer in time".into()));
    world.db.fail_all(BatchKind::Reads, retryable_error());
    cli.emit("message", &message(&session, "m"));
    world.exhaust_retries().await;
    let hub = world.hub();
    let load = tokio::spawn(async move { hub.load_missed_events(Some(&received)).await });
    world.exhaust_retries().await;
    assert!(load.await.unwrap().is_err());
    web.0.assert_no_frames().await;
    world.db.repair();
    // The next heartbeat retries.
    world.advance(30_000).await;
    let mut events = web.events().await;
    events.retain(|event| event["type"] != "heartbeat");
    assert_eq!(texts(&events), ["m"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_gets_a_gap_if_a_batch_was_committed_after_later_events() {
    let (world, session, mut cli, web_query, mut web, received) = received_message().await;
    world.advance(1_000).await;
    cli.send_message(&session, "next").await;
    let next = id(&web.next_event().await);
    // Simulates a batch from before the last restart that is committed only now.
    let insert_late_row = "INSERT INTO events SELECT namespace, last - 1, floor, events, bytes, body FROM events
        ORDER BY last DESC LIMIT 1";
    world.db.execute(insert_late_row);
    world.redeploy();
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "gap");
    assert_eq!(resume_outcome(&world, &web_query, &next).await, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_missed_event_that_is_too_large_for_the_log_is_a_gap_for_connected_clients() {
    let (world, session, mut cli, web_query, mut web, received) = received_message().await;
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &message(&session, &"x".repeat(2_500_000))).await;
    // Before the batch, the hub deletes parts of earlier values and writes the parts of this message.
    for _ in 0..2 {
        world.release_result(0).await;
    }
    assert_eq!(world.db.held_result_count(), 1, "the batch will be committed, but not published");
    world.restart();
    world.db.release_results();
    cli.send_message(&session, "next").await;
    let gap = web.next_event().await;
    assert_eq!((&gap["type"], &gap["data"]["resume"]), (&json!("connection-changed"), &json!("gap")));
    assert!(gap["data"]["subscriptionId"].is_string());
    assert_eq!(texts(&web.events().await), ["next"]);
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "gap");
    assert_eq!(missed_texts(&world, &web_query, &id(&gap)).await, ["next"]);
}

#[tokio::test(start_paused = true)]
async fn no_client_resumes_across_a_missing_row() {
    for missing in 0..4 {
        let (world, session, mut cli, web_query) = replay_fixture().await;
        let mut web = world.web(&web_query).await;
        for n in 0..4 {
            cli.send_message(&session, &format!("{n}")).await;
        }
        let ids: Vec<String> = web.events().await.iter().map(id).collect();
        let last = ids[missing].rsplit('-').next().unwrap();
        world.db.execute(&format!("DELETE FROM events WHERE last = {last}"));
        world.redeploy();
        for (position, last_event_id) in ids.iter().enumerate() {
            let expected = if position >= missing && missing < 3 { "ok" } else { "gap" };
            // The hub cannot notice that the last row is missing. Only the id of the event in the last row is unknown.
            let expected = if missing == 3 && position < 3 { "ok" } else { expected };
            assert_eq!(
                resume_outcome(&world, &web_query, last_event_id).await,
                expected,
                "row {missing} is missing, event {position}"
            );
        }
        // After a further event, the hub also notices that the last row is missing.
        world.advance(1_000).await;
        cli = world.cli(&session).await;
        cli.send_message(&session, "now").await;
        let expected = if missing == 3 { "gap" } else { "ok" };
        assert_eq!(resume_outcome(&world, &web_query, &ids[3]).await, expected, "without row {missing}, last event");
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_logged_after_a_batch_that_deleted_reusable_rows_and_whose_outcome_is_unknown() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    for text in ["1", "2", "3", "4", "5"] {
        cli.send_message(&session, text).await;
    }
    let set_events = |events: usize| {
        let last = "(SELECT max(last) FROM events)";
        world.db.execute(&format!("UPDATE events SET events = {events} WHERE last = {last}"));
    };
    // The hub counts the first rows as reusable. The batch with the lost response deletes these rows.
    set_events(RETAINED_EVENTS + 1);
    world.hibernate_and_wake().await;
    for text in ["6", "7"] {
        cli.send_message(&session, text).await;
    }
    set_events(2 * RETAINED_EVENTS);
    world.db.lose_response(DbError::Unavailable("D1 did not answer in time".into()));
    assert_eq!(cli.emit_with_ack("message", &message(&session, &"x".repeat(RETAINED_BYTES / 3))).await["ok"], false);
    let last = web.events().await.pop().unwrap();
    for text in ["next", "last"] {
        assert_eq!(cli.send_message(&session, text).await["ok"], true);
    }
    world.redeploy();
    assert_eq!(missed_texts(&world, &web_query, &id(&last)).await, ["next", "last"]);
}

#[tokio::test(start_paused = true)]
async fn if_the_first_read_of_the_log_is_rejected_a_later_read_publishes_the_events_of_an_unknown_outcome() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    cli.send_message(&session, "received").await;
    web.events().await;
    world.db.lose_response(DbError::Unavailable("D1 did not answer in time".into()));
    world.db.fail(BatchKind::Reads, permanent_error());
    assert_eq!(cli.emit_with_ack("message", &message(&session, "committed")).await["ok"], false);
    assert_eq!(texts(&web.events().await), [""; 0]);
    world.advance_in_steps(BACKGROUND_RETRY_MS + 1_000).await;
    assert_eq!(texts(&web.events().await).last(), Some(&"committed"));
}

#[tokio::test(start_paused = true)]
async fn the_object_can_hibernate_if_the_database_has_rejected_reads_of_the_log_for_ten_minutes() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    cli.send_message(&session, "received").await;
    web.events().await;
    world.db.lose_response(DbError::Unavailable("D1 did not answer in time".into()));
    world.db.fail_all(BatchKind::Reads, permanent_error());
    assert_eq!(cli.emit_with_ack("message", &message(&session, "committed")).await["ok"], false);
    world.advance_in_steps(TEN_MINUTES_MS).await;
    assert_eq!(world.rt.sleeping_tasks(), 0);
    world.db.repair();
    cli = world.cli(&session).await;
    cli.send_message(&session, "next").await;
    let events = web.events().await;
    let messages: Vec<&str> = texts(&events).into_iter().filter(|text| ["committed", "next"].contains(text)).collect();
    assert_eq!(messages, ["committed", "next"]);
}

#[tokio::test(start_paused = true)]
async fn when_the_first_read_of_the_log_fails_in_an_outage_all_clients_that_resume_fail() {
    let (world, web_query, received) = missed_message().await;
    connect_and_read_first_event(&world, &web_query).await;
    world.db.fail_all(BatchKind::Reads, retryable_error());
    let started_at = world.now();
    let failed_after = async |delay_ms: u64| {
        world.rt.sleep(delay_ms).await;
        assert!(world.open_event_stream(&web_query, Some(&received), Format::Json).await.is_err());
        world.now() - started_at
    };
    let resumes = join_all([0, 0, 1_000, 60_000, 110_000].map(failed_after));
    let Either::Left((failed_after, _)) = select(pin!(resumes), pin!(world.advance_in_steps(700_000))).await else {
        panic!("a client waits for more than ten minutes");
    };
    assert!(failed_after.iter().all(|ms| *ms <= DB_RETRY_PERIOD_MS + 5_000), "{failed_after:?}");
    world.db.repair();
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_resumes_fails_if_the_changes_that_it_waits_for_fail() {
    let (world, session, cli, _, _web, received) = received_message().await;
    world.restart();
    world.db.fail_everything(&retryable_error());
    cli.deliver("message", &message(&session, "not stored")).await;
    let resumed = pin!(world.open_event_stream("all=true", Some(&received), Format::Json));
    let Either::Left((resumed, _)) = select(resumed, pin!(world.advance_in_steps(DB_RETRY_PERIOD_MS + 5_000))).await
    else {
        panic!("the client waits longer than the changes");
    };
    assert!(resumed.is_err());
}
