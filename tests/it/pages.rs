//! Pages of a session's messages: content, size limit and number of statements.

use crate::support::prelude::*;
use crate::support::store;
use crate::support::worker_edge::{edge_with_memory_budget, respond, route, with_token};
use proptest::prelude::*;
use session_gateway_hub::http::edge::{Action, Edge};
use session_gateway_hub::limits::MEMORY_TIMEOUT_MS;
use session_gateway_hub::memory_budget::{MAX_BUFFER_BYTES, MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
use session_gateway_hub::store::history::{MAX_PAGE_BYTES, MAX_SMALL_READS_OF_NAMESPACE, PageRange};
use std::time::Duration;

/// A database with a session `s`, whose messages have these sizes in the column `bytes`.
fn database(bytes: &[u64]) -> Sqlite {
    let db = Sqlite::with_schema();
    db.execute(
        "INSERT INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking,
           metadata_version, agent_state_version)
         VALUES ('s', 'team', '/', 0, 0, 0, 0, 0, 0, 0, 1, 1)",
    );
    for (index, bytes) in bytes.iter().enumerate() {
        let seq = index + 1;
        db.execute(&format!(
            "INSERT INTO messages (session_id, seq, id, created_at, content, bytes) VALUES ('s', {seq}, 'm{seq}', 5, '{{}}', {bytes})"
        ));
    }
    db
}

/// The seqs of a page, and whether there are more messages.
fn seqs(db: &Sqlite, range: PageRange, limit: u64) -> (Vec<u64>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store::seqs(db, "s", range, limit))
}

#[test]
fn has_more_is_exact_for_a_page_that_reaches_the_size_limit() {
    let half = MAX_PAGE_BYTES / 2;
    let all = PageRange::After(0);
    assert_eq!(seqs(&database(&[half, half]), all, 5), (vec![1, 2], false), "the last message reaches the limit");
    assert_eq!(seqs(&database(&[MAX_PAGE_BYTES * 2]), all, 5), (vec![1], false));
    assert_eq!(seqs(&database(&[half, half, 1]), all, 5), (vec![1, 2], true));
    assert_eq!(seqs(&database(&[half, half - 1, 1]), all, 5), (vec![1, 2, 3], false));
    assert_eq!(seqs(&database(&[half, half, 1]), PageRange::Before(None), 5), (vec![3, 2, 1], false));
    assert_eq!(seqs(&database(&[half, half, 1]), all, 2), (vec![1, 2], true), "both limits are reached");
    assert_eq!(seqs(&database(&[half, half]), all, 2), (vec![1, 2], false));
    assert_eq!(seqs(&database(&[]), all, 2), (vec![], false));
}

#[test]
fn a_page_below_the_size_limit_is_one_statement() {
    let db = database(&[1_000; 60]);
    let before = db.read_count();
    assert_eq!(seqs(&db, PageRange::Before(Some(61)), 50), ((11..=60).rev().collect(), true));
    assert_eq!(db.read_count() - before, 1);
    let statement = db.read_batches().pop().unwrap().pop().unwrap();
    assert!(!statement.sql.contains("OVER"), "a page below the size limit needs no window function");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn consecutive_pages_have_no_gap_and_an_exact_has_more(
        sizes in prop::collection::vec(prop_oneof![0..2_000_000_u64, 4_000_000..9_000_000_u64], 0..12),
        limit in 1..6_u64,
        backwards: bool,
    ) {
        let db = database(&sizes);
        let mut remaining: Vec<u64> = (1..=sizes.len() as u64).collect();
        if backwards {
            remaining.reverse();
        }
        let mut range = if backwards { PageRange::Before(None) } else { PageRange::After(0) };
        loop {
            let mut bytes = 0;
            let expected: Vec<u64> = remaining.iter().take(limit as usize).copied().take_while(|seq| {
                let fits = bytes < MAX_PAGE_BYTES;
                bytes += sizes[*seq as usize - 1];
                fits
            }).collect();
            let rest = remaining.split_off(expected.len());
            prop_assert_eq!(seqs(&db, range, limit), (expected, !rest.is_empty()));
            let Some(last) = remaining.last() else { break };
            range = if backwards { PageRange::Before(Some(*last)) } else { PageRange::After(*last) };
            remaining = rest;
        }
    }
}

/// The edge in the isolate of a namespace.
fn edge(world: &World) -> Arc<Edge> {
    Arc::new(edge_with_memory_budget(&world.db, world.memory_budget(), "token", ""))
}

/// Reads a page in a task.
fn start_read(edge: &Arc<Edge>, session: &str, query: &str) -> PendingReply {
    start_read_as("team", edge, session, query)
}

fn start_read_as(namespace: &str, edge: &Arc<Edge>, session: &str, query: &str) -> PendingReply {
    let (edge, url) = (Arc::clone(edge), format!("/api/sessions/{session}/messages?{query}"));
    let token = format!("secret:{namespace}");
    PendingReply::of(async move { respond(&edge, &with_token("GET", &url, &token)).await })
}

/// A session with messages of these sizes in bytes. The messages are not in memory.
async fn stored_messages(sizes: &[usize]) -> (World, String) {
    let (world, session, mut cli) = live_session().await;
    for bytes in sizes {
        cli.send_message(&session, &"x".repeat(*bytes)).await;
    }
    (world, session)
}

#[tokio::test(start_paused = true)]
async fn a_large_page_is_reserved_before_its_content_is_read() {
    let (world, session) = stored_messages(&[1_000_000, 2_000_000, 1_000_000, 1_000]).await;
    let (edge, before) = (edge(&world), world.held_bytes());
    world.db.hold_results(BatchKind::Reads);
    let reads = world.db.read_count();
    let read = start_read(&edge, &session, "limit=10");
    let mut held_bytes = Vec::new();
    run_until_idle().await;
    while world.db.held_result_count() > 0 {
        held_bytes.push(world.held_bytes() - before);
        world.release_result(0).await;
    }
    let page = read.reply().await;
    // The reads: a page that may be small, then the sizes of a large page, then the content of the large page.
    let sql: Vec<_> = world.db.read_batches()[reads..].iter().map(|batch| batch[0].sql).collect();
    assert!(sql[0].contains("AS body") && !sql[1].contains("body"), "{sql:#?}");
    assert_eq!(held_bytes[..2], [0, 0]);
    assert!(held_bytes[2..].iter().all(|bytes| (4_000_000..4_100_000).contains(bytes)), "{held_bytes:?}");
    assert_eq!(page.ok()["messages"].as_array().unwrap().len(), 4);
    assert_eq!(world.held_bytes(), before);
}

#[tokio::test(start_paused = true)]
async fn a_large_page_holds_a_reservation_of_its_size_until_the_response_is_read() {
    let (world, session) = stored_messages(&[900_000; 3]).await;
    let (edge, before) = (edge(&world), world.held_bytes());
    let url = format!("/api/sessions/{session}/messages");
    let head = with_token("GET", &url, "secret:team");
    let Action::History(history) = route(&edge, &head).await else { panic!("not a page") };
    let response = edge.read_history(&history, "").await;
    let (bytes, held_bytes) = (response.body().len(), world.held_bytes() - before);
    assert!(bytes > 2_700_000 && held_bytes >= bytes && held_bytes < bytes + 1_000, "{bytes} {held_bytes}");
    drop(response);
    assert_eq!(world.held_bytes(), before);
}

#[tokio::test(start_paused = true)]
async fn a_large_page_waits_for_memory_and_small_pages_do_not_wait_for_it() {
    let (world, session) = stored_messages(&[900_000, 900_000, 10]).await;
    let edge = edge(&world);
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let share: Vec<_> = std::iter::from_fn(|| world.hub().memory.try_reserve(10_000).ok()).collect();
    let large: Vec<_> = (0..2 * MAX_SMALL_READS_OF_NAMESPACE).map(|_| start_read(&edge, &session, "limit=3")).collect();
    run_until_idle().await;
    let small = start_read(&edge, &session, "limit=1");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(small.is_ready());
    assert!(large.iter().all(|read| !read.is_ready()));
    tokio::time::sleep(Duration::from_millis(MEMORY_TIMEOUT_MS / 2)).await;
    drop((pool, share));
    for read in large {
        assert_eq!(read.reply().await.ok()["messages"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_page_that_waits_for_memory_for_ten_seconds_is_answered_as_overloaded() {
    let (world, session) = stored_messages(&[900_000, 900_000]).await;
    let edge = edge(&world);
    let _pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let _share: Vec<_> = std::iter::from_fn(|| world.hub().memory.try_reserve(10_000).ok()).collect();
    let read = start_read(&edge, &session, "limit=3");
    tokio::time::sleep(Duration::from_millis(MEMORY_TIMEOUT_MS - 100)).await;
    assert!(!read.is_ready());
    let reply = read.reply().await;
    reply.assert_error(503, "overloaded");
    assert_eq!(reply.headers["retry-after"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_limited_number_of_pages_is_read_at_a_time_in_the_order_of_their_requests() {
    let (world, session) = stored_messages(&[10; 3]).await;
    let edge = edge(&world);
    world.db.set_round_trip_ms(50);
    let before = world.db.read_count();
    let reads: Vec<_> = (0..3 * MAX_SMALL_READS_OF_NAMESPACE)
        .map(|number| start_read(&edge, &session, &format!("beforeSeq={}", 1_000 + number)))
        .collect();
    for rounds in 1..=3 {
        run_until_idle().await;
        assert_eq!(world.db.read_count() - before, rounds * MAX_SMALL_READS_OF_NAMESPACE);
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(reads.iter().take(rounds * MAX_SMALL_READS_OF_NAMESPACE).all(PendingReply::is_ready));
    }
    let read_seqs: Vec<_> = world.db.read_batches()[before..].iter().map(|batch| batch[0].params[2].clone()).collect();
    let requested_seqs: Vec<_> =
        (0..3 * MAX_SMALL_READS_OF_NAMESPACE as u64).map(|number| (1_000 + number).into()).collect();
    assert_eq!(read_seqs, requested_seqs);
    for read in reads {
        assert_eq!(read.reply().await.ok()["messages"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_waits_for_other_pages_for_ten_seconds_is_answered_as_overloaded() {
    let (world, session) = stored_messages(&[10]).await;
    let edge = edge(&world);
    world.db.hold_results(BatchKind::Reads);
    let first: Vec<_> = (0..MAX_SMALL_READS_OF_NAMESPACE).map(|_| start_read(&edge, &session, "")).collect();
    let later = [0, 1].map(|_| start_read(&edge, &session, ""));
    assert_eq!(world.held_results().await, MAX_SMALL_READS_OF_NAMESPACE);
    tokio::time::sleep(Duration::from_millis(MEMORY_TIMEOUT_MS)).await;
    for read in later {
        let reply = read.reply().await;
        reply.assert_error(503, "overloaded");
        assert_eq!(reply.headers["retry-after"], "1");
    }
    world.db.release_results();
    all_ok(first).await;
    start_read(&edge, &session, "").reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn large_pages_of_several_namespaces_stay_within_the_memory_of_the_isolate() {
    let (world, session) = stored_messages(&[1_200_000; 8]).await;
    let huge = world.create_session("/huge").await;
    world.live_cli(&huge).await.send_message(&huge, &"x".repeat(20 << 20)).await;
    let edge = edge(&world);
    world.db.set_round_trip_ms(20);
    let reads: Vec<_> =
        (0..30).map(|number| start_read(&edge, if number % 5 == 0 { &huge } else { &session }, "limit=20")).collect();
    let mut most_bytes = 0;
    while !reads.iter().all(PendingReply::is_ready) {
        most_bytes = most_bytes.max(world.held_bytes());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!((20 << 20..=MAX_BUFFER_BYTES).contains(&most_bytes), "{most_bytes}");
    all_ok(reads).await;
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_namespace_do_not_wait_for_the_pages_of_another_namespace() {
    let (world, session) = stored_messages(&[1_200_000; 8]).await;
    let neighbour = world.neighbour();
    let (quiet, mut quiet_cli) = neighbour.active_session("/quiet").await;
    for bytes in [1_200_000, 10, 10] {
        quiet_cli.send_message(&quiet, &"x".repeat(bytes)).await;
    }
    run_until_idle().await;
    let edge = edge(&world);
    let read_quiet = async |query: &str| start_read_as("neighbour", &edge, &quiet, query).reply().await.ok();

    let pool = world.hub().memory.try_reserve(MAX_POOL_BYTES).unwrap();
    let large: Vec<_> = (0..100).map(|_| start_read(&edge, &session, "limit=8")).collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(large.iter().all(|read| !read.is_ready()), "the large pages wait for memory");
    assert_eq!(read_quiet("limit=10").await["messages"].as_array().unwrap().len(), 3);
    large.into_iter().for_each(PendingReply::abort);
    drop(pool);

    world.db.hold_results(BatchKind::Reads);
    let small: Vec<_> = (0..100).map(|_| start_read(&edge, &session, "limit=1&beforeSeq=1")).collect();
    assert_eq!(world.held_results().await, MAX_SMALL_READS_OF_NAMESPACE);
    let read = start_read_as("neighbour", &edge, &quiet, "limit=1");
    assert_eq!(world.held_results().await, MAX_SMALL_READS_OF_NAMESPACE + 1);
    world.db.release_results();
    assert_eq!(read.reply().await.ok()["messages"].as_array().unwrap().len(), 1);
    all_ok(small).await;
}
