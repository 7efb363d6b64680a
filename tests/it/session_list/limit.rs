//! The limit of sessions in a namespace.

use crate::support::prelude::*;
use crate::support::session_list::add_sessions;
use session_gateway_hub::hub::core::namespace::quotas::MAX_SESSIONS;

fn body(tag: &str) -> Value {
    json!({"tag": tag, "metadata": {"path": "/code", "host": "box"}})
}

#[tokio::test(start_paused = true)]
async fn a_namespace_at_its_limit_of_sessions_refuses_new_sessions_and_serves_the_existing_ones() {
    let world = World::new();
    add_sessions(&world, 0..MAX_SESSIONS - 1, "'{}'");
    let last = world.create_session("/last").await;
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        let refused = world.post("/cli/sessions", &body("/new")).await;
        refused.assert_error(409, "too_many_sessions");
        assert_eq!(refused.headers.get("retry-after"), None);
        assert_eq!(world.post("/cli/sessions", &body("/7")).await.ok()["session"]["id"], "s7");
        world.post("/api/sessions/s8/archive", &json!({})).await.ok();
        assert_eq!(world.post("/cli/sessions", &body("/8")).await.ok()["session"]["id"], "s8");
    }
    let mut cli = world.live_cli(&last).await;
    assert_eq!(cli.send_message(&last, "hello").await["seq"], 1);
    world.request("DELETE", "/api/sessions/s9", "").await.ok();
    let created = world.create_session("/new").await;
    world.post("/cli/sessions", &body("/newer")).await.assert_error(409, "too_many_sessions");
    world.request("DELETE", &format!("/api/sessions/{created}"), "").await.ok();
    world.hibernate_and_wake().await;
    world.create_session("/newer").await;
    assert_eq!(world.db.number("SELECT count(*) FROM sessions WHERE namespace = 'team'"), MAX_SESSIONS as i64);
    world.neighbour().create_session("/of-a-neighbour").await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_do_not_exceed_the_limit_of_sessions() {
    let world = World::new();
    add_sessions(&world, 0..MAX_SESSIONS - 3, "'{}'");
    let requests: Vec<_> =
        (0..10).map(|n| world.start("POST", "/cli/sessions", body(&format!("/new/{n}")).to_string())).collect();
    let mut created = 0;
    for request in requests {
        created += usize::from(request.reply().await.status == 200);
    }
    assert_eq!(created, 3);
}

#[tokio::test(start_paused = true)]
async fn the_sessions_are_counted_once_and_only_for_a_new_tag() {
    let world = World::new();
    world.create_session("/a").await;
    world.create_session("/b").await;
    let count_queries = |world: &World| {
        world.db.read_batches().concat().iter().filter(|statement| statement.sql.contains("substr(tag,")).count()
    };
    assert_eq!(count_queries(&world), 1);
    world.hibernate_and_wake().await;
    world.db.take_most_steps();
    add_sessions(&world, 0..5_000, "'{}'");
    world.db.take_most_steps();
    world.create_session("/a").await;
    let steps = world.db.take_most_steps();
    assert!(steps < 1_000, "{steps} steps for a session that exists");
}
