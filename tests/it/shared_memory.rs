//! The memory of an isolate in which several namespaces run: its limit, and the share of each namespace.

use session_gateway_hub::http::extract::MAX_BODY_BYTES;
use session_gateway_hub::http::response::reserved_bytes;
use session_gateway_hub::hub::core::sessions::cache::MAX_CACHED_BYTES;
use session_gateway_hub::memory_budget::{MAX_BUFFER_BYTES, MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};

use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_namespace_works_while_another_namespace_holds_the_pool() {
    let (world, session, mut cli) = live_session().await;
    let quiet = world.neighbour();
    let (quiet_session, mut quiet_cli) = quiet.active_session("/quiet").await;
    run_until_idle().await;
    let before = world.held_bytes();
    world.db.hold_results(BatchKind::Writes);
    let large = json!({"sid": session, "message": "x".repeat(1 << 20)});
    let mut rejected = 0;
    for _ in 0..(2 * MAX_POOL_BYTES) >> 20 {
        cli.emit_for_ack("message", &large);
        rejected += cli.socket.drain().await.len();
    }
    assert!(rejected > 0, "the write queue of the namespace is full");
    assert!(cli.socket.is_open());
    let mut responses = Vec::new();
    while let Ok(response) = world.hub().memory.try_reserve(100_000) {
        responses.push(response);
    }
    assert!(world.held_bytes() > MAX_POOL_BYTES && world.held_bytes() <= MAX_BUFFER_BYTES);

    let message = json!({"sid": quiet_session, "message": "x".repeat(NAMESPACE_SHARE_BYTES / 8)});
    let acks = [0, 1].map(|_| quiet_cli.emit_for_ack("message", &message));
    let path = format!("/api/sessions/{quiet_session}/messages");
    let request = quiet.start_and_run("POST", &path, r#"{"text":"hello"}"#).await;
    assert!(world.held_bytes() <= MAX_BUFFER_BYTES);
    world.db.release_results();
    for ack in acks {
        assert_eq!(quiet_cli.wait_for_ack(ack).await["ok"], true);
    }
    request.reply().await.ok();
    drop(responses);
    run_until_idle().await;
    assert!(world.held_bytes() < before + 100_000, "everything is released");
    assert_eq!(cli.emit_with_ack("message", &large).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_a_body_is_released_during_the_request_if_no_handler_reads_the_body() {
    let (world, session, _cli) = live_session().await;
    for (method, path) in [("POST", "/switch"), ("DELETE", "")] {
        world.hibernate_and_wake().await;
        let before = world.held_bytes();
        let memory = world.hub().memory.try_reserve(MAX_BODY_BYTES).unwrap();
        let body = reserved_bytes(vec![b' '; MAX_BODY_BYTES].into(), Arc::new(memory));
        world.db.hold_results(BatchKind::Reads);
        assert!(!world.start(method, &format!("/api/sessions/{session}{path}"), body).has_response().await);
        assert!(world.held_bytes() < before + MAX_BODY_BYTES, "{method} {path}");
        world.db.release_results();
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alives_and_small_calls_need_no_free_memory() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let mut share = Vec::new();
    for bytes in [1_000, 1] {
        share.extend(std::iter::from_fn(|| world.hub().memory.try_reserve(bytes).ok()));
    }
    cli.send_keep_alive(&world, &session).await;
    cli.complete(world.start("POST", &format!("/api/sessions/{session}/abort"), "{}"), &json!({"success": true}))
        .await
        .ok();
    let message = json!({"sid": session, "message": "x".repeat(10_000)});
    assert_eq!(cli.emit_with_ack("message", &message).await["code"], "overloaded");
    assert!(cli.socket.is_open());
    drop((pool, share));
    assert_eq!(cli.emit_with_ack("message", &message).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_cache_of_one_namespace_shrinks_for_the_buffers_of_another() {
    let (world, session, mut cli) = live_session().await;
    let neighbour = world.neighbour();
    let mut tags = Vec::new();
    for number in 0..MAX_CACHED_BYTES / 600_000 {
        let tag = format!("/{number}");
        world.create_session_with(&tag, json!({"padding": "x".repeat(590_000)})).await;
        tags.push(tag);
    }
    run_until_idle().await;
    world.get(&format!("/api/sessions/{session}")).await.ok();
    let cached = world.held_bytes();
    assert!(cached > MAX_CACHED_BYTES / 2, "{cached}");
    let buffers = neighbour.hub().memory.try_reserve(MAX_POOL_BYTES).unwrap();
    assert!(world.held_bytes() <= MAX_POOL_BYTES + 2 * NAMESPACE_SHARE_BYTES);
    assert_eq!(cli.send_message(&session, "a message within the share").await["seq"], 1);
    drop(buffers);
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"].as_array().unwrap().len(), tags.len() + 1);
}

#[tokio::test(start_paused = true)]
async fn frames_are_acknowledged_as_overloaded_while_changes_of_other_namespaces_fill_the_pool() {
    let (world, session, mut cli) = live_session().await;
    let neighbour = world.neighbour();
    let (other, mut other_cli) = neighbour.active_session("/other").await;
    run_until_idle().await;
    world.db.hold_results(BatchKind::Writes);
    let large = |session: &str| json!({"sid": session, "message": "x".repeat(1 << 20)});
    for _ in 0..40 {
        cli.emit_for_ack("message", &large(&session));
        other_cli.emit_for_ack("message", &large(&other));
        run_until_idle().await;
    }
    assert!(cli.socket.is_open() && other_cli.socket.is_open());
    assert!(world.held_bytes() <= MAX_POOL_BYTES);
    world.release_results().await;
    assert_eq!(cli.emit_with_ack("message", &large(&session)).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn two_namespaces_in_a_stall_stay_within_the_limit_together_and_lose_nothing() {
    let (world, session, cli) = live_session().await;
    let neighbour = world.neighbour();
    let (other, other_cli) = neighbour.active_session("/other").await;
    run_until_idle().await;
    let mut sides = [(&world, &session, cli, Vec::new()), (&neighbour, &other, other_cli, Vec::new())];
    world.db.fail_everything(&retryable_error());
    let large = "x".repeat(1 << 20);
    for _ in 0..30 {
        for (_, session, cli, acks) in &mut sides {
            acks.push(cli.emit_for_ack("message", &json!({"sid": session, "message": large})));
            run_until_idle().await;
            assert!(world.held_bytes() <= MAX_BUFFER_BYTES);
        }
    }
    for (world, session, ..) in &sides {
        let path = format!("/api/sessions/{session}/messages");
        let refused = world.post(&path, &json!({"text": large})).await;
        refused.assert_error(503, "overloaded");
        assert_eq!(refused.headers["retry-after"], "1");
    }
    for (world, ..) in &sides {
        world.advance_in_steps(30_000).await;
    }
    world.db.repair();
    for (world, ..) in &sides {
        world.advance_in_steps(5_000).await;
    }
    let mut stored = 0;
    for (_, _, cli, acks) in &mut sides {
        let before = stored;
        for ack in acks.drain(..) {
            let ack = cli.wait_for_ack(ack).await;
            assert!(ack["ok"] == true || ack["code"] == "overloaded", "{ack}");
            stored += i64::from(ack["ok"] == true);
        }
        assert!(stored > before, "each namespace has a part of the memory");
    }
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), stored);
}

#[tokio::test(start_paused = true)]
async fn small_frames_that_wait_for_the_database_stay_within_the_memory() {
    let (world, _, _) = live_session().await;
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    world.db.hold_results(BatchKind::Reads);
    let mut clis = Vec::new();
    for number in 0..1_000 {
        let mut cli = world.bare_cli().await;
        cli.emit_for_ack("message", &json!({"sid": format!("unknown-{number}"), "message": "x".repeat(16_000)}));
        clis.push(cli);
    }
    run_until_idle().await;
    assert!(world.held_bytes() <= MAX_BUFFER_BYTES, "{}", world.held_bytes());
    drop(pool);
    world.release_results().await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_is_overloaded_while_another_namespace_holds_the_pool_and_the_place_of_the_waiting_frame() {
    let (world, session, mut cli) = live_session().await;
    let (other, mut other_cli) = world.active_session("/other").await;
    let neighbour = world.neighbour();
    let pool = neighbour.hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let share: Vec<_> = std::iter::from_fn(|| world.hub().memory.try_reserve(1_000).ok()).collect();
    let place = neighbour.hub().memory.budget.reserve_waiting_place();
    for (cli, session) in [(&mut cli, &session), (&mut other_cli, &other)] {
        let message = json!({"sid": session, "message": "x".repeat(1_000_000)});
        assert_eq!(cli.emit_with_ack("message", &message).await["code"], "overloaded");
        assert!(cli.socket.is_open());
    }
    drop((pool, share, place));
    assert_eq!(cli.send_message(&session, &"x".repeat(1_000_000)).await["seq"], 1);
}
