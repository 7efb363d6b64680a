//! Merges that fail or are interrupted: a merge is atomic.

use crate::support::merge::{MergeFixture, begin_merge, begun_merge, merge_fixture, resume, send_text, success, texts};
use crate::support::prelude::*;
use session_gateway_hub::model::large::MAX_INLINE_METADATA_BYTES;
use session_gateway_hub::store::Statement;

/// Asserts that the two sessions are either unchanged or merged completely, and that the new session accepts messages.
async fn assert_atomic(world: &World, old: &str, new: &str, cli: &mut Cli) {
    world.db.repair();
    world.release_results().await;
    let is_merged = world.get(&format!("/api/sessions/{old}")).await.status == 404;
    send_text(cli, new, "five", None).await;
    if is_merged {
        assert_eq!(texts(world, new).await, ["one", "two", "three", "four", "five"]);
        assert_eq!(world.get_session(new).await["metadata"]["name"], "Mine", "the history was moved, but not the name");
        return;
    }
    assert_eq!(texts(world, old).await, ["one", "two", "three"]);
    assert_eq!(texts(world, new).await, ["two", "four", "five"]);
    assert_eq!(world.get_session(old).await["metadata"]["name"], "Mine");
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_fails_permanently_is_atomic() {
    for committed in [false, true] {
        let MergeFixture { world, old, new, mut cli, reply, .. } =
            begun_merge(json!({"name": "Mine"}), Some((permanent_error(), committed))).await;
        let waiting_ack = cli.emit_for_ack("message", &json!({"sid": new, "message": {"text": "two"}, "localId": "b"}));
        world.release_results().await;
        reply.reply().await.assert_error(503, "hub_unavailable");
        assert_eq!(cli.wait_for_ack(waiting_ack).await["ok"], true, "messages that waited for the merge are stored");
        assert_atomic(&world, &old, &new, &mut cli).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_merge_is_retried_after_a_retryable_error() {
    for committed in [false, true] {
        let mut fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
        let mut web = fixture.world.web("all=true").await;
        begin_merge(&mut fixture, Some((retryable_error(), committed))).await;
        let MergeFixture { world, old, new, mut cli, reply, .. } = fixture;
        world.db.release_results();
        world.advance(1_000).await;
        assert_eq!(reply.reply().await.ok(), success(&new), "the write is retried");
        assert_eq!(web.next_event_of("session-removed").await["sessionId"], old.as_str());
        assert_atomic(&world, &old, &new, &mut cli).await;
        world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
    }
}

#[tokio::test(start_paused = true)]
async fn a_merge_is_atomic_even_if_the_write_after_it_fails() {
    for committed in [false, true] {
        let mut fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
        let mut web = fixture.world.web("all=true").await;
        begin_merge(&mut fixture, None).await;
        let MergeFixture { world, old, new, mut cli, reply, .. } = fixture;
        world.db.fail_write(permanent_error(), committed);
        world.db.release_results();
        reply.reply().await;
        assert_atomic(&world, &old, &new, &mut cli).await;
        assert_eq!(web.next_event_of("session-removed").await["sessionId"], old.as_str(), "the removal is published");
    }
}

#[tokio::test(start_paused = true)]
async fn a_merge_is_atomic_across_a_restart() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = begun_merge(json!({"name": "Mine"}), None).await;
    reply.abort();
    world.restart();
    assert_atomic(&world, &old, &new, &mut cli).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_before_the_keep_alive_does_not_prevent_the_merge() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let second = resume(&world, &old);
    run_until_idle().await;
    world.db.fail(BatchKind::Writes, permanent_error());
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": new, "message": {"text": "lost"}})).await["ok"], false);
    cli.send_keep_alive(&world, &new).await;
    for reply in [reply, second] {
        assert_eq!(reply.reply().await.ok(), success(&new));
    }
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four"]);
    world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_merge_whose_batch_could_take_too_long_leaves_both_sessions_unchanged() {
    // The new session has two messages before these.
    for (count, bytes) in [(299_999, 1), (61, 10_000_000)] {
        let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
        world.db.execute(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < {count} + 2)
             INSERT INTO messages (session_id, seq, id, created_at, content, bytes)
             SELECT '{new}', i, 'n' || i, 1, '1', {bytes} FROM n"
        ));
        let writes = world.db.write_count();
        cli.send_keep_alive(&world, &new).await;
        assert_eq!(reply.reply().await.ok(), success(&new));
        assert_eq!(texts(&world, &old).await, ["one", "two", "three"]);
        let reason = "the new session has more than 300,000 messages or 600 MB";
        let refused = json!({"event": "merge-refused", "session": old, "newSession": new, "reason": reason});
        let lines: Vec<Value> = world.rt.logs().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, [refused]);
        let is_move = |batch: &Vec<Statement>| batch.iter().any(|statement| statement.sql.contains("UPDATE messages"));
        assert!(!world.db.write_batches()[writes..].iter().any(is_move));
    }
}

#[tokio::test(start_paused = true)]
async fn a_merge_keeps_large_metadata_that_changes_while_it_waits_for_a_write() {
    let padding = json!({"padding": "x".repeat(MAX_INLINE_METADATA_BYTES)});
    let MergeFixture { world, old, new, cli, reply, .. } = merge_fixture(json!({}), padding).await;
    world.db.hold_results(BatchKind::Reads);
    let rename = world.start("PATCH", &format!("/api/sessions/{new}"), r#"{"name":"Renamed"}"#);
    assert_eq!(world.held_results().await, 1, "the rename reads the metadata");
    world.db.hold_results(BatchKind::Writes);
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    assert_eq!(world.held_results().await, 2, "the merge waits for the write of the keep-alive");
    world.release_result(0).await;
    world.db.release_results();
    assert_eq!(reply.reply().await.ok(), success(&new));
    rename.reply().await.ok();
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four"]);
    assert_eq!(world.get_session(&new).await["metadata"]["name"], "Renamed");
    world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
}
