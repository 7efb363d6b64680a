//! A merge of two histories that fails or is cut off: all of it is done, or nothing.

use crate::support::cli::Cli;
use crate::support::merge::{
    MergeFixture, begin_merge, merge_fixture, permanent, resume, send_text, success, texts, transient,
};
use crate::support::sqlite::BatchKind;
use crate::support::{World, run_until_idle};
use serde_json::json;

/// Either both sessions are as they were, or they are merged with all that belongs to it; and what stands can be used.
async fn nothing_is_half_done(world: &World, old: &str, new: &str, cli: &mut Cli) {
    world.db.repair();
    world.db.release();
    run_until_idle().await;
    let merged = world.get(&format!("/api/sessions/{old}")).await.status == 404;
    send_text(cli, new, "five", None).await;
    if merged {
        assert_eq!(texts(world, new).await, ["one", "two", "three", "four", "five"]);
        assert_eq!(
            world.get_session(new).await["metadata"]["name"],
            "Mine",
            "the history came along, the name did not"
        );
        return;
    }
    assert_eq!(texts(world, old).await, ["one", "two", "three"]);
    assert_eq!(texts(world, new).await, ["two", "four", "five"]);
    assert_eq!(world.get_session(old).await["metadata"]["name"], "Mine");
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_the_database_refuses_is_not_half_done() {
    for lost in [false, true] {
        let mut merge_fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
        begin_merge(&mut merge_fixture, Some((permanent(), lost))).await;
        let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture;
        let late = cli.emit_for_ack("message", &json!({"sid": new, "message": {"text": "two"}, "localId": "b"}));
        run_until_idle().await;
        world.db.release();
        reply.reply().await.assert_error(503, "hub_unavailable");
        assert_eq!(cli.wait_for_ack(late).await["ok"], true, "whoever waited for it goes on");
        nothing_is_half_done(&world, &old, &new, &mut cli).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_passing_fault_of_the_database_does_not_stop_a_merge() {
    for lost in [false, true] {
        let mut merge_fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
        let mut web = merge_fixture.world.web("all=true").await;
        begin_merge(&mut merge_fixture, Some((transient(), lost))).await;
        let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture;
        world.db.release();
        world.advance(1_000).await;
        assert_eq!(reply.reply().await.ok(), success(&new), "every other write is tried again");
        assert_eq!(web.next_event_of("session-removed").await["sessionId"], old.as_str());
        nothing_is_half_done(&world, &old, &new, &mut cli).await;
        world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_after_the_merge_may_fail_and_nothing_is_half_done() {
    for lost in [false, true] {
        let mut merge_fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
        let mut web = merge_fixture.world.web("all=true").await;
        begin_merge(&mut merge_fixture, None).await;
        let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture;
        match lost {
            true => world.db.lose_response(permanent()),
            false => world.db.fail(BatchKind::Writes, permanent()),
        }
        world.db.release();
        reply.reply().await;
        nothing_is_half_done(&world, &old, &new, &mut cli).await;
        assert_eq!(web.next_event_of("session-removed").await["sessionId"], old.as_str(), "whoever shows it must hear");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_a_merge_leaves_nothing_half_done() {
    let mut merge_fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
    begin_merge(&mut merge_fixture, None).await;
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture;
    reply.abort();
    world.restart();
    nothing_is_half_done(&world, &old, &new, &mut cli).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_while_the_session_comes_back_does_not_leave_its_history_behind() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let second = resume(&world, &old);
    run_until_idle().await;
    world.db.fail(BatchKind::Writes, permanent());
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": new, "message": {"text": "lost"}})).await["ok"], false);
    cli.send_keep_alive(&world, &new).await;
    for reply in [reply, second] {
        assert_eq!(reply.reply().await.ok(), success(&new));
    }
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four"]);
    world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
}
