//! The limits of the event log: the number and size of the events, how long they are retained, and the number of queries.

use crate::support::prelude::*;
use crate::support::replay::{
    TEN_MINUTES_MS, connect_and_read_first_event, count_event_rows, id, message, missed_message, missed_texts,
    received_message, reconnect, replay_fixture, resume_outcome,
};
use futures::future::{Either, join_all, select};
use session_gateway_hub::memory_budget::Reservation;
use std::pin::pin;

#[tokio::test(start_paused = true)]
async fn at_least_1000_events_are_retained_and_a_client_whose_last_event_is_older_gets_a_gap() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    let mut events = Vec::new();
    for n in 0..130 {
        for m in 0..20 {
            cli.emit("message", &message(&session, &format!("{}", 20 * n + m)));
        }
        events.extend(web.events().await);
        if n % 40 == 39 {
            world.hibernate_and_wake().await;
        }
        let retained = world.db.number("SELECT sum(events) FROM events");
        assert!(retained <= 1_300, "{retained}");
    }
    assert_eq!(events.len(), 2_600);
    for from_memory in [true, false] {
        for (position, expected) in [(0, "gap"), (1_300, "gap"), (1_599, "ok"), (2_599, "ok")] {
            let (outcome, mut web) = reconnect(&world, &web_query, &id(&events[position]), Format::Sse).await;
            assert_eq!(outcome, expected, "{position}, from memory: {from_memory}");
            let missed = if expected == "ok" { &events[position + 1..] } else { &[] };
            assert_eq!(web.events().await, missed, "{position}, from memory: {from_memory}");
        }
        world.redeploy();
    }
    cli = world.cli(&session).await;
    assert_eq!(cli.send_message(&session, "next").await["seq"], 2_601);
}

#[tokio::test(start_paused = true)]
async fn about_two_megabytes_of_events_are_retained_over_many_hibernations() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    let mut ids = Vec::new();
    for n in 0..100 {
        cli.send_message(&session, &"x".repeat(100_000)).await;
        ids.push(id(&web.next_event().await));
        if n % 3 == 2 {
            world.hibernate_and_wake().await;
        }
        let bytes = world.db.number("SELECT sum(bytes) FROM events");
        assert!(bytes <= 2_800_000, "{bytes}");
    }
    let (outcome, mut web) = reconnect(&world, &web_query, &ids[80], Format::Json).await;
    assert_eq!((outcome.as_str(), web.events().await.len()), ("ok", 19));
    assert_eq!(resume_outcome(&world, &web_query, &ids[70]).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_too_large_for_the_log_is_published_and_is_a_gap_for_a_client_that_missed_it() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    cli.send_message(&session, "before").await;
    let before = id(&web.next_event().await);
    cli.send_message(&session, &"x".repeat(1_800_000)).await;
    let large = id(&web.next_event().await);
    assert_eq!(resume_outcome(&world, &web_query, &before).await, "ok", "the large event is just below the limit");
    cli.send_message(&session, &"x".repeat(2_500_000)).await;
    let huge = id(&web.next_event().await);
    for _ in 0..2 {
        assert_eq!(resume_outcome(&world, &web_query, &before).await, "gap");
        assert_eq!(resume_outcome(&world, &web_query, &large).await, "gap");
        assert_eq!(resume_outcome(&world, &web_query, &huge).await, "ok");
        world.redeploy();
    }
    cli = world.cli(&session).await;
    cli.send_message(&session, "after").await;
    assert_eq!(missed_texts(&world, &web_query, &huge).await, ["after"]);
}

#[tokio::test(start_paused = true)]
async fn the_log_is_deleted_ten_minutes_after_the_last_client_disconnected() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let (mut first, second) = (world.web(&web_query).await, world.web("").await);
    cli.send_message(&session, "received").await;
    let received = id(&first.next_event().await);
    first.0.close();
    cli.socket.close();
    world.advance(TEN_MINUTES_MS).await;
    cli = world.cli(&session).await;
    cli.send_message(&session, "while another client is connected").await;
    second.0.close();
    cli.socket.close();
    world.advance(TEN_MINUTES_MS - 1).await;
    world.hibernate_and_wake().await;
    cli = world.cli(&session).await;
    cli.send_message(&session, "just in time").await;
    let (outcome, web) = reconnect(&world, &web_query, &received, Format::Json).await;
    assert_eq!(outcome, "ok");
    web.0.close();
    cli.socket.close();
    assert_eq!(count_event_rows(&world), 3);
    world.hibernate_and_wake().await;
    world.advance(TEN_MINUTES_MS).await;
    assert_eq!((count_event_rows(&world), world.rt.alarm()), (0, None), "all rows are deleted, and no alarm is set");
    cli = world.cli(&session).await;
    cli.send_message(&session, "to no client").await;
    assert_eq!(count_event_rows(&world), 0);
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn the_log_is_deleted_ten_minutes_after_a_restart_even_if_the_object_wakes_up_in_between() {
    let (world, session, _, web_query, _web, received) = received_message().await;
    world.rt.set_now(world.now() + TEN_MINUTES_MS);
    world.redeploy();
    for _ in 0..4 {
        world.advance(TEN_MINUTES_MS / 4 - 1).await;
        world.hibernate_and_wake().await;
        let mut cli = world.cli(&session).await;
        cli.send_message(&session, "missed").await;
        cli.socket.close();
    }
    assert_eq!(count_event_rows(&world), 5);
    world.advance(4).await;
    assert_eq!(count_event_rows(&world), 0);
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn rows_that_could_not_be_deleted_are_not_part_of_the_next_log() {
    let (world, session, mut cli, web_query, web, received) = received_message().await;
    cli.send_message(&session, "missed").await;
    web.0.close();
    cli.socket.close();
    world.db.fail(BatchKind::Writes, permanent_error());
    world.advance(TEN_MINUTES_MS).await;
    assert_eq!(count_event_rows(&world), 2);
    let first = connect_and_read_first_event(&world, &web_query).await;
    world.redeploy();
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "gap");
    assert_eq!(missed_texts(&world, &web_query, &id(&first)).await, [""; 0]);
    cli = world.cli(&session).await;
    cli.send_message(&session, "next").await;
    assert_eq!(count_event_rows(&world), 1, "the next batch deletes the old rows");
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_log_deletes_no_row_of_the_next_log() {
    let (world, session, mut cli, web_query, web, received) = received_message().await;
    web.0.close();
    cli.socket.close();
    world.db.fail(BatchKind::Writes, retryable_error());
    world.advance(TEN_MINUTES_MS).await;
    assert_eq!(count_event_rows(&world), 1, "the row is still there: a later retry deletes it");
    let first = connect_and_read_first_event(&world, &web_query).await;
    cli = world.cli(&session).await;
    cli.send_message(&session, "in the next log").await;
    world.exhaust_retries().await;
    assert_eq!(count_event_rows(&world), 1);
    world.redeploy();
    // Both ids resume without a gap, because no event was published between the two logs.
    for last_event_id in [received, id(&first)] {
        assert_eq!(missed_texts(&world, &web_query, &last_event_id).await, ["in the next log"]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_event_is_logged_without_web_clients_and_logging_for_web_clients_needs_no_extra_query() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let event_inserts_in_last_batch = |world: &World| {
        let batches = world.db.write_batches();
        batches.last().unwrap().iter().filter(|statement| statement.sql.contains("INTO events")).count()
    };
    let (kv_writes, reads) = (world.rt.kv_writes(), world.db.read_count());
    for n in 0..20 {
        cli.send_message(&session, &format!("{n}")).await;
        assert_eq!(event_inserts_in_last_batch(&world), 0);
    }
    assert_eq!((world.rt.kv_writes(), world.db.read_count(), count_event_rows(&world)), (kv_writes, reads, 0));
    let web = world.web(&web_query).await;
    let (kv_writes, reads, writes) = (world.rt.kv_writes(), world.db.read_count(), world.db.write_count());
    for n in 0..20 {
        cli.send_message(&session, &format!("{n}")).await;
        assert_eq!(event_inserts_in_last_batch(&world), 1);
    }
    assert_eq!(
        (world.rt.kv_writes(), world.db.read_count(), world.db.write_count() - writes, count_event_rows(&world)),
        (kv_writes, reads, 20, 20)
    );
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &message(&session, "first")).await;
    for n in 0..50 {
        cli.emit("message", &message(&session, &format!("{n}")));
    }
    run_until_idle().await;
    world.db.release_results();
    cli.send_message(&session, "last").await;
    assert!(count_event_rows(&world) <= 23, "a burst has at most two rows");
    drop(web);
}

/// A client has missed a message, and another namespace holds all memory. Returns the world, the URL query and the last event id
/// of the client, and the reservations of the other namespace.
async fn missed_message_without_free_memory() -> (World, String, String, Vec<Reservation>) {
    let (world, web_query, received) = missed_message().await;
    let neighbour = world.neighbour();
    let pool = std::iter::from_fn(|| neighbour.hub().memory.try_reserve(100_000).ok()).collect();
    (world, web_query, received, pool)
}

#[tokio::test(start_paused = true)]
async fn clients_get_a_gap_after_two_seconds_if_another_namespace_holds_all_memory() {
    let (world, web_query, received, pool) = missed_message_without_free_memory().await;
    let resumes = join_all([0, 1, 2].map(|_| resume_outcome(&world, &web_query, &received)));
    let Either::Left((resumed, _)) = select(pin!(resumes), pin!(world.advance_in_steps(2_500))).await else {
        panic!("a client waits for memory");
    };
    assert_eq!(resumed, ["gap"; 3]);
    drop(pool);
    assert_eq!(resume_outcome(&world, &web_query, &received).await, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_resuming_client_waits_for_memory_that_another_namespace_frees_after_half_a_second() {
    let (world, web_query, received, pool) = missed_message_without_free_memory().await;
    let resumed = pin!(resume_outcome(&world, &web_query, &received));
    let Either::Right(((), resumed)) = select(resumed, pin!(world.advance_in_steps(500))).await else {
        panic!("the client does not wait for memory");
    };
    drop(pool);
    let Either::Left((resumed, _)) = select(resumed, pin!(world.advance_in_steps(500))).await else {
        panic!("the client waits although there is memory");
    };
    assert_eq!(resumed, "ok");
}
