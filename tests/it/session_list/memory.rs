//! The memory of the session list: it is small, counted, and reserved before it is read.

use crate::support::prelude::*;
use crate::support::session_list::{add_sessions, ids, read_pages};
use session_gateway_hub::hub::workspace::uploads::UPLOAD_MEMORY_BYTES;
use session_gateway_hub::limits::DB_RETRY_PERIOD_MS;
use session_gateway_hub::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};

/// Metadata with which a session has about 1.2 KB of JSON in the list.
const LONG_METADATA: &str =
    "json_object('name', printf('%.600c', 'x'), 'summary', json_object('text', printf('%.600c', 'x')))";

/// Reserves memory for another namespace for a moment, so that the hub must release the memory of the list. Returns whether
/// the other namespace got the memory.
fn take_memory_of_list(world: &World) -> bool {
    let hub = world.neighbour().hub();
    [MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES].map(|bytes| hub.memory.try_reserve(bytes)).iter().all(Result::is_ok)
}

#[tokio::test(start_paused = true)]
async fn a_list_with_long_summaries_and_worktrees_is_small_and_its_bytes_are_counted() {
    const SESSIONS: usize = 300;
    let world = World::new();
    for n in 0..SESSIONS {
        let summary = json!({"text": "s".repeat(16_000)});
        let worktree = json!({"branch": "b".repeat(14_900), "other": "not listed"});
        world.create_session_with(&format!("/{n}"), json!({"summary": summary, "worktree": worktree})).await;
    }
    run_until_idle().await;
    let before = world.held_bytes();
    let from_memory = world.get("/api/sessions").await.text;
    assert!(from_memory.len() < SESSIONS * 1_400, "{}", from_memory.len());
    let counted = world.held_bytes() - before;
    // The separators between the sessions are only in the response.
    assert!(counted + SESSIONS + 20 >= from_memory.len(), "{counted}");
    world.hibernate_and_wake().await;
    assert_eq!(world.held_bytes(), 0);
    let from_database = world.get("/api/sessions").await.text;
    assert_eq!(from_database, from_memory);
    let held = world.held_bytes();
    assert!((from_memory.len()..3 * from_memory.len()).contains(&held), "{held}");
}

#[tokio::test(start_paused = true)]
async fn the_list_of_a_small_namespace_needs_only_the_share_of_the_namespace() {
    let world = World::new();
    add_sessions(&world, 0..1_000, "'{}'");
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let list = world.get("/api/sessions").await.ok();
    assert_eq!(ids(&list).len(), 1_000);
    drop(pool);
}

#[tokio::test(start_paused = true)]
async fn an_upload_fits_the_share_of_a_namespace_whose_list_and_sessions_were_read() {
    let world = World::new();
    add_sessions(&world, 0..10, "json_object('padding', printf('%.300000c', 'x'))");
    add_sessions(&world, 10..1_000, "'{}'");
    for number in 0..10 {
        world.get_session(&format!("s{number}")).await;
    }
    assert_eq!(ids(&world.get("/api/sessions").await.ok()).len(), 1_000);
    let _pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let _upload = world.hub().memory.try_reserve(UPLOAD_MEMORY_BYTES).unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_free_memory_the_list_is_not_read_and_the_request_is_overloaded() {
    let world = World::new();
    add_sessions(&world, 0..5_000, LONG_METADATA);
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let mut share = Vec::new();
    share.extend(std::iter::from_fn(|| world.hub().memory.try_reserve(500_000).ok()));
    let refused = world.start("GET", "/api/sessions", "");
    world.advance_in_steps(11_000).await;
    let refused = refused.reply().await;
    refused.assert_error(503, "overloaded");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(world.db.read_count(), 0);
    drop((pool, share));
    assert_eq!(read_pages(&world, "").await.concat().len(), 5_000);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_exceeds_its_memory_is_complete() {
    const SESSIONS: usize = 6_000;
    let world = World::new();
    add_sessions(&world, 0..SESSIONS, LONG_METADATA);
    let expected: Vec<String> = (0..SESSIONS).map(|number| format!("s{number}")).collect();
    for round in 0..3 {
        if round == 2 {
            // Another namespace takes the memory of the list, so the list is read again.
            assert!(take_memory_of_list(&world));
            assert!(world.held_bytes() < 1_000_000, "{}", world.held_bytes());
        }
        assert_eq!(read_pages(&world, "").await.concat(), expected);
        let text = world.get("/api/sessions?limit=1").await.text;
        assert!(text.len() > 1_200 && text.contains(r#""name":"xxx"#), "{text}");
        assert!(world.held_bytes() < 7_500_000, "{}", world.held_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_exceeds_its_memory_shows_changes_during_its_reads() {
    let world = World::new();
    add_sessions(&world, 0..4_000, LONG_METADATA);
    assert_eq!(read_pages(&world, "").await.concat().len(), 4_000);
    assert!(take_memory_of_list(&world));
    world.db.hold_results(BatchKind::Reads);
    let listed = world.start("GET", "/api/sessions?limit=4", "");
    assert_eq!(world.held_results().await, 1, "the list reads the sessions that are not in memory");
    world.db.stop_holding();
    world.request("PATCH", "/api/sessions/s1", r#"{"name":"new"}"#).await.ok();
    world.request("DELETE", "/api/sessions/s0", "").await.ok();
    world.db.release_results();
    let listed = listed.reply().await.ok();
    assert_eq!(
        (ids(&listed), &listed["sessions"][0]["metadata"]["name"]),
        (["s1", "s2", "s3", "s4"].map(str::to_owned).to_vec(), &json!("new"))
    );
    // A session that was deleted only in the database leaves the list when the list is read.
    world.db.execute("DELETE FROM sessions WHERE id = 's6'");
    assert_eq!(ids(&world.get("/api/sessions?limit=6").await.ok()), ["s1", "s2", "s3", "s4", "s5", "s7"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_is_completed_even_if_other_namespaces_need_memory_all_the_time() {
    let world = World::new();
    let text = "printf('%.600c', 'x')";
    let worktree = format!("json_object('basePath', {text}, 'branch', {text}, 'worktreePath', {text})");
    add_sessions(&world, 0..8_000, &format!("json_object('worktree', {worktree})"));
    assert_eq!(read_pages(&world, "").await.concat().len(), 8_000);
    assert!(take_memory_of_list(&world));
    world.db.hold_results(BatchKind::Reads);
    let listed = world.start("GET", "/api/sessions", "");
    for reads in 0.. {
        run_until_idle().await;
        if listed.is_ready() {
            break;
        }
        assert!(reads < 5, "the same sessions are read again");
        take_memory_of_list(&world);
        world.db.release_result(0);
    }
    assert_eq!(ids(&listed.reply().await.ok()).len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_read_of_the_list() {
    let world = World::new();
    add_sessions(&world, 0..2_500, LONG_METADATA);
    let reads = world.db.read_count();
    world.db.hold_results(BatchKind::Reads);
    let lists: Vec<_> = (0..10).map(|_| world.start("GET", "/api/sessions", "")).collect();
    run_until_idle().await;
    while !lists.iter().all(PendingReply::is_ready) {
        assert_eq!(world.db.held_result_count(), 1);
        world.release_result(0).await;
    }
    world.db.stop_holding();
    let chunks = (world.db.read_count() - reads) * 500_000;
    assert!(chunks < 2 * 2_500 * 1_700, "{chunks} bytes were read");
    for list in lists {
        assert_eq!(ids(&list.reply().await.ok()).len(), 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_changes_while_the_list_is_loaded_is_listed_once_with_the_change() {
    let world = World::new();
    add_sessions(&world, 0..2_000, "'{}'");
    world.db.hold_results(BatchKind::Reads);
    let listed = world.start("GET", "/api/sessions", "");
    for chunk in 0.. {
        run_until_idle().await;
        if listed.is_ready() {
            break;
        }
        world.db.stop_holding();
        world.request("PATCH", &format!("/api/sessions/s{}", 3 * chunk), r#"{"name":"new"}"#).await.ok();
        world.request("DELETE", &format!("/api/sessions/s{}", 3 * chunk + 1), "").await.ok();
        world.db.hold_results(BatchKind::Reads);
        world.db.release_result(0);
    }
    world.db.stop_holding();
    let first = listed.reply().await.ok();
    let mut all = [ids(&first), read_pages(&world, "").await.concat()].concat();
    all.sort();
    all.dedup();
    assert!(first["sessions"][0]["metadata"]["name"] == "new" && all.len() < 2_000, "{}", all.len());
    let pages = read_pages(&world, "").await.concat();
    assert_eq!(pages.len(), all.len(), "the deleted sessions are not listed");
    world.hibernate_and_wake().await;
    assert_eq!(read_pages(&world, "").await.concat(), pages);
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_a_request_for_the_list_does_not_wait_for_the_retries_of_another_request() {
    let world = World::new();
    add_sessions(&world, 0..3, LONG_METADATA);
    world.db.fail_all(BatchKind::Reads, retryable_error());
    let requests: Vec<PendingReply> = (0..5).map(|_| world.start("GET", "/api/sessions", "")).collect();
    for _ in 0..=DB_RETRY_PERIOD_MS / 5_000 {
        world.advance_in_steps(5_000).await;
    }
    assert!(requests.iter().all(PendingReply::is_ready));
    for request in requests {
        request.reply().await.assert_error(503, "hub_unavailable");
    }
}
