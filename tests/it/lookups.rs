//! Lookups of sessions in the database: concurrent lookups share a batch.

use session_gateway_hub::hub::write::commit::MAX_GROUPED_LOOKUPS;

use crate::support::prelude::*;

fn session_body(tag: &str) -> String {
    json!({"tag": tag, "metadata": {"path": tag, "host": "box"}}).to_string()
}

#[tokio::test(start_paused = true)]
async fn the_tags_of_concurrent_requests_to_create_sessions_are_looked_up_together() {
    const REQUESTS: usize = 2 * MAX_GROUPED_LOOKUPS;
    let world = World::new();
    world.create_session("/code").await;
    world.hibernate_and_wake().await;
    let before = world.db.read_count();
    let create = |creator| world.start("POST", "/cli/sessions", session_body(&format!("/code/{creator}")));
    let replies: Vec<_> = (0..REQUESTS).map(create).collect();
    all_ok(replies).await;
    assert_eq!(world.db.read_count() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_changed_together_after_a_wake_are_read_in_one_batch() {
    let world = World::new();
    let ids = each(0..MAX_GROUPED_LOOKUPS, async |n| world.create_session(&format!("/code/{n}")).await).await;
    world.hibernate_and_wake().await;
    let before = world.db.read_count();
    let rename = |id: &String| world.start("PATCH", &format!("/api/sessions/{id}"), r#"{"name":"new"}"#);
    let replies: Vec<_> = ids.iter().map(rename).collect();
    all_ok(replies).await;
    assert_eq!(world.db.read_count() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lookup_survives_the_request_that_began_its_batch() {
    let (world, existing) = idle_session().await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    let create = || world.start("POST", "/cli/sessions", session_body("/code"));
    let (first, second) = (create(), create());
    run_until_idle().await;
    first.abort();
    world.db.release_results();
    assert_eq!(second.reply().await.ok()["session"]["id"], *existing);
}
