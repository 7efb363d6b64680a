//! Namespaces share a database and an isolate fairly: each namespace has at most one batch at the database, and a namespace that floods
//! the hub pauses while other namespaces write.

use std::ops::Range;

use crate::support::prelude::*;

/// The CLIs that flood the hub.
const FLOOD_CLIS: usize = 4;
/// The messages of each CLI.
const MESSAGES_OF_EACH_CLI: usize = 500;

fn message(session: &str, number: usize) -> Value {
    json!({"sid": session, "localId": format!("{number}"), "message": {"text": "flood"}})
}

async fn live_session(world: &World, tag: &str) -> (String, Cli) {
    let (session, cli) = world.active_session(tag).await;
    (session, cli)
}

#[tokio::test(start_paused = true)]
async fn a_quiet_namespace_waits_for_at_most_one_batch_of_a_namespace_that_floods_the_database() {
    let world = World::new();
    let quiet = world.neighbour();
    let (quiet_session, mut quiet_cli) = live_session(&quiet, "/quiet").await;
    let mut flood = each(0..FLOOD_CLIS, async |number| live_session(&world, &format!("/flood-{number}")).await).await;
    run_until_idle().await;
    world.db.hold_all_results();
    let mut acks = vec![Vec::new(); FLOOD_CLIS];
    // Messages that arrive during a batch wait for the next batch.
    for numbers in [0..1, 1..MESSAGES_OF_EACH_CLI] {
        for ((session, cli), acks) in flood.iter_mut().zip(&mut acks) {
            acks.extend(numbers.clone().map(|number| cli.emit_for_ack("message", &message(session, number))));
        }
        assert_eq!(world.held_results().await, 1, "the flood has several batches at the database");
    }
    let quiet_ack = quiet_cli.emit_for_ack("message", &message(&quiet_session, 0));
    assert_eq!(world.held_results().await, 2);
    // The database answers batches in the order in which they arrived. So it answers the quiet namespace before the next batch of the flood.
    world.db.release_result(0);
    assert_eq!(world.held_results().await, 2);
    world.db.release_result(0);
    assert_eq!(quiet_cli.try_ack(quiet_ack).await.expect("the message waits for a second batch")["ok"], true);
    let mut batches = 1;
    while world.db.held_result_count() > 0 {
        assert_eq!(world.db.held_result_count(), 1, "the flood has several batches at the database");
        world.release_result(0).await;
        batches += 1;
    }
    assert!(batches > 1, "one batch took the whole flood");
    for ((_, cli), acks) in flood.iter_mut().zip(acks) {
        for ack in acks {
            assert_eq!(cli.try_ack(ack).await.expect("a message was not stored")["ok"], true);
        }
    }
}

/// Sends messages at once.
fn send_burst(cli: &mut Cli, session: &str, numbers: Range<usize>) -> Vec<u64> {
    numbers.map(|number| cli.emit_for_ack("message", &message(session, number))).collect()
}

/// Advances the clock of a namespace by this many milliseconds.
fn advance_clock(world: &World, ms: u64) {
    world.rt.set_now(world.now() + ms);
}

/// Lets the database answer all batches, each after this time in milliseconds.
async fn answer_batches(world: &World, after_ms: u64) {
    while world.db.held_result_count() > 0 {
        advance_clock(world, after_ms);
        world.release_result(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_another_namespace_writes_a_flood_gets_its_acks_after_a_pause() {
    /// How long a batch takes: less than the longest pause after a burst of 100 messages.
    const BATCH_MS: u64 = 20;
    let world = World::new();
    let quiet = world.neighbour();
    let (quiet_session, mut quiet_cli) = live_session(&quiet, "/quiet").await;
    let (session, mut cli) = live_session(&world, "/flood").await;
    // From now on, the other namespace has not written for ten seconds.
    advance_clock(&world, 10_001);
    world.db.hold_all_results();
    let acks = send_burst(&mut cli, &session, 0..100);
    run_until_idle().await;
    answer_batches(&world, BATCH_MS).await;
    for ack in acks {
        assert_eq!(cli.try_ack(ack).await.expect("a burst waits although no other namespace writes")["ok"], true);
    }

    quiet.rt.set_now(world.now());
    let quiet_ack = quiet_cli.emit_for_ack("message", &message(&quiet_session, 0));
    run_until_idle().await;
    answer_batches(&world, 0).await;
    assert_eq!(quiet_cli.try_ack(quiet_ack).await.expect("a single message waits")["ok"], true);
    let acks = send_burst(&mut cli, &session, 100..200);
    run_until_idle().await;
    answer_batches(&world, BATCH_MS).await;
    advance_clock(&world, BATCH_MS - 1);
    assert_eq!(cli.try_ack(acks[0]).await, None, "a flood does not wait");
    advance_clock(&world, 1);
    run_until_idle().await;
    for ack in acks {
        assert_eq!(cli.try_ack(ack).await.expect("the pause is too long")["ok"], true);
    }
}
