//! Canceling held messages, also while they are sent.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_canceled_message_is_never_sent_and_a_sent_message_cannot_be_canceled() {
    let (world, session) = session_without_cli().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    hold_all(&world, &session, &["a", "b", "c"]).await;
    world.hibernate_and_wake().await;
    assert_eq!(cancel(&world, &session, "b").await.ok(), json!({"ok": true}));
    cancel(&world, &session, "b").await.assert_error(404, "held_message_not_found");
    cancel(&world, &session, "unknown").await.assert_error(404, "held_message_not_found");
    assert_eq!(published_counts(&mut web).await, [1, 2, 3, 2]);
    // The local id of the canceled message can be used again. The new message is the last one.
    hold_all(&world, &session, &["b"]).await;
    assert_eq!(held_ids(&world, &session).await, ["a", "c", "b"]);
    let mut cli = world.live_cli(&session).await;
    assert_eq!(receive_local_ids(&mut cli).await, ["a", "c", "b"]);
    cancel(&world, &session, "a").await.assert_error(404, "held_message_not_found");
    assert_eq!(sent_ids(&world, &session).await, ["a", "c", "b"]);
}

#[tokio::test(start_paused = true)]
async fn local_ids_of_any_characters_can_be_canceled() {
    let (world, session) = session_without_cli().await;
    let (id, encoded) = ("a/b ?#%'\"\u{1F980}", "a%2Fb%20%3F%23%25'%22%F0%9F%A6%80");
    hold(&world, &session, "t", id).await.ok();
    assert_eq!(held_ids(&world, &session).await, [id]);
    cancel(&world, &session, encoded).await.ok();
    assert_eq!(held_ids(&world, &session).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn in_a_race_a_message_is_either_sent_or_canceled() {
    for cancels_first in [true, false] {
        let (world, session) = session_without_cli().await;
        hold_all(&world, &session, &["a", "b"]).await;
        let cli = world.cli(&session).await;
        world.db.hold_results(BatchKind::Writes);
        let alive = json!({"sid": session, "time": world.now()});
        let start_cancel = || world.start("DELETE", &format!("/api/sessions/{session}/held-messages/a"), "");
        let canceled = if cancels_first {
            let canceled = start_cancel();
            run_until_idle().await;
            cli.emit("session-alive", &alive);
            canceled
        } else {
            cli.deliver("session-alive", &alive).await;
            start_cancel()
        };
        assert!(!canceled.has_response().await, "nothing is acknowledged before it is durable");
        world.db.release_results();
        let reply = canceled.reply().await;
        run_until_idle().await;
        if cancels_first {
            reply.ok();
            assert_eq!(sent_ids(&world, &session).await, ["b"]);
        } else {
            reply.assert_error(404, "held_message_not_found");
            assert_eq!(sent_ids(&world, &session).await, ["a", "b"]);
        }
        assert_eq!(held_messages_count(&world, &session).await, Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_a_delivery_that_fails_does_not_report_the_message_as_sent() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a"]).await;
    let cli = world.live_cli(&session).await;
    run_until_idle().await;
    cli.socket.close();
    world.advance(2 * SESSION_TIMEOUT_MS).await;
    hold_all(&world, &session, &["b"]).await;
    let mut cli = world.cli(&session).await;
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("session-alive", &json!({"sid": session, "time": world.now()})).await;
    let canceled = world.start_and_run("DELETE", &format!("/api/sessions/{session}/held-messages/b"), "").await;
    world.db.fail_all(BatchKind::Writes, permanent_error());
    world.release_results().await;
    canceled.reply().await.assert_error(503, "hub_unavailable");
    world.db.repair();
    cancel(&world, &session, "b").await.ok();
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(sent_ids(&world, &session).await, ["a"]);
}
