//! Sweeps: each alarm deletes a batch of the messages of deleted sessions.

use session_gateway_hub::limits::BACKGROUND_RETRY_MS;

use crate::support::prelude::*;

/// The storage key of a sweep that has not ended.
const SWEEP: &str = "sweep";

/// Returns a session with this number of messages.
async fn session_with_messages(world: &World, tag: &str, messages: u64) -> String {
    let session = world.create_session(tag).await;
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {messages})
         INSERT INTO messages (session_id, seq, id, created_at, content, bytes) SELECT '{session}', i, '{tag}' || i, 1, '1', 1 FROM n"
    ));
    session
}

fn message_count(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM messages")
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_deleted_during_a_sweep_is_swept_even_after_a_restart() {
    let world = World::new();
    let (empty, large) = (world.create_session("/empty").await, session_with_messages(&world, "/large", 12_000).await);
    world.request("DELETE", &format!("/api/sessions/{empty}"), "").await.ok();
    world.db.hold_results(BatchKind::Writes);
    world.fire_alarm_at(world.now() + 1).await;
    assert_eq!(world.db.held_result_count(), 1, "the first sweep, which finds nothing else to delete");

    let deleted = world.start("DELETE", &format!("/api/sessions/{large}"), "");
    world.release_result(1).await;
    deleted.reply().await.ok();
    world.fire_alarm_at(world.now() + 1).await;
    assert_eq!(world.db.held_result_count(), 1, "sweeps do not overlap");
    world.release_result(0).await;
    assert!(world.rt.stored_entries().contains_key(SWEEP));
    world.fire_alarm_at(world.now() + 1).await;
    world.release_results().await;
    assert_eq!(message_count(&world), 7_000);

    world.restart();
    world.advance(BACKGROUND_RETRY_MS).await;
    assert_eq!(message_count(&world), 0);
    assert!(!world.rt.stored_entries().contains_key(SWEEP), "nothing is left to sweep");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_pauses_four_times_as_long_as_a_batch_took() {
    let world = World::new();
    let large = session_with_messages(&world, "/large", 6_000).await;
    world.request("DELETE", &format!("/api/sessions/{large}"), "").await.ok();
    world.db.hold_results(BatchKind::Writes);
    world.fire_alarm_at(world.now() + 1).await;
    world.rt.set_now(world.now() + 700);
    world.release_results().await;
    assert_eq!((message_count(&world), world.rt.alarm()), (1_000, Some(world.now() + 2_800)));
    world.advance(2_800).await;
    assert_eq!(message_count(&world), 0);
}
