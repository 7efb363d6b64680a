//! Retention: once a day, old messages and old archived sessions are deleted, a batch at each alarm.

use crate::support::merge::{resumable_metadata, resume, success};
use crate::support::prelude::*;
use session_gateway_hub::hub::core::namespace::quotas::Quotas;
use session_gateway_hub::hub::core::ports::Runtime as _;
use session_gateway_hub::limits::BACKGROUND_RETRY_MS;

/// The storage key of the time of the next run.
const RETENTION: &str = "retention";
const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

fn messages(days: u64) -> Quotas {
    Quotas { message_retention_ms: Some(days * DAY_MS), ..Quotas::default() }
}

fn archived_sessions(days: u64) -> Quotas {
    Quotas { archived_session_retention_ms: Some(days * DAY_MS), ..Quotas::default() }
}

/// A namespace with these quotas whose object was restarted after its first client.
fn world_with(quotas: Quotas) -> World {
    let world = World::with_quotas(quotas);
    world.hub().store_namespace();
    world.redeploy();
    world
}

/// Adds messages of this age to a session.
fn add_messages(world: &World, session: &str, seqs: std::ops::RangeInclusive<u64>, age_ms: u64) {
    let (first, last, at) = (seqs.start(), seqs.end(), world.now() - age_ms);
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})
         INSERT INTO messages (session_id, seq, id, created_at, content, bytes) SELECT '{session}', i, '{session}' || i, {at}, '1', 1 FROM n"
    ));
}

/// The seqs of all messages of a session, read page by page from the newest.
async fn seqs(world: &World, session: &str) -> Vec<u64> {
    let (mut seqs, mut before) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/api/sessions/{session}/messages?limit=100{before}")).await.ok();
        seqs.extend(page["messages"].as_array().unwrap().iter().map(|message| message["seq"].as_u64().unwrap()));
        match page["page"]["nextBeforeSeq"].as_u64() {
            Some(seq) => before = format!("&beforeSeq={seq}"),
            None => break,
        }
    }
    seqs.sort_unstable();
    seqs
}

fn count(world: &World, table: &str) -> i64 {
    world.db.number(&format!("SELECT count(*) FROM {table}"))
}

#[tokio::test(start_paused = true)]
async fn old_messages_are_deleted_in_batches_and_the_numbers_of_new_ones_continue() {
    let world = world_with(messages(30));
    let (long, empty) = (world.create_session("/long").await, world.create_session("/empty").await);
    add_messages(&world, &long, 1..=600, 31 * DAY_MS);
    add_messages(&world, &long, 601..=700, 29 * DAY_MS);
    add_messages(&world, &empty, 1..=3, 31 * DAY_MS);
    world.redeploy();
    let mut left = Vec::new();
    while left.last() != Some(&100) {
        let at = world.rt.alarm().unwrap();
        world.fire_alarm_at(at).await;
        left.push(count(&world, "messages"));
    }
    assert_eq!(left, [450, 200, 100], "at most 250 messages of a session with each alarm");
    assert_eq!(seqs(&world, &long).await, (601..=700).collect::<Vec<_>>());
    assert_eq!(seqs(&world, &empty).await, [0; 0]);

    world.redeploy();
    let session = world.get_session(&empty).await;
    assert_eq!((&session["seq"], session.get("lastMessageAt")), (&json!(3), None));
    let mut cli = world.live_cli(&empty).await;
    assert_eq!(cli.send_message(&empty, "hello").await["seq"], 4);
    let mut cli = world.live_cli(&long).await;
    assert_eq!(cli.send_message(&long, "hello").await["seq"], 701);
}

#[tokio::test(start_paused = true)]
async fn an_idle_namespace_wakes_once_a_day() {
    let world = world_with(messages(30));
    run_until_idle().await;
    let first = world.rt.alarm().unwrap();
    assert!(first < world.now() + HOUR_MS, "the first runs of all namespaces are spread over an hour");
    world.redeploy();
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), Some(first), "a restart does not delay the run");
    world.fire_alarm_at(first).await;
    assert_eq!(world.rt.alarm(), Some(first + DAY_MS));
    assert_eq!(world.rt.stored_entries()[RETENTION], (first + DAY_MS).to_string());
    let session = world.create_session("/a").await;
    add_messages(&world, &session, 1..=1, 30 * DAY_MS - HOUR_MS);
    let set = world.rt.alarms_set();
    world.advance(3 * DAY_MS + HOUR_MS).await;
    assert_eq!((count(&world, "messages"), world.rt.alarms_set() - set), (0, 4), "one more alarm for the batch");
}

#[tokio::test(start_paused = true)]
async fn without_the_settings_and_without_a_client_there_is_no_alarm() {
    let world = world_with(Quotas { max_bytes: Some(1), ..Quotas::default() });
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), None);
    let world = World::with_quotas(messages(30));
    world.redeploy();
    run_until_idle().await;
    assert_eq!((world.rt.alarm(), world.rt.stored_entries().len()), (None, 0), "no client has sent a valid token");
}

#[tokio::test(start_paused = true)]
async fn a_run_continues_after_a_crash_and_after_an_outage_of_the_database() {
    let world = world_with(messages(30));
    let session = world.create_session("/long").await;
    add_messages(&world, &session, 1..=600, 31 * DAY_MS);
    world.redeploy();
    let first = world.rt.alarm().unwrap();
    world.db.hold_results(BatchKind::Writes);
    world.fire_alarm_at(first).await;
    assert_eq!(world.db.held_result_count(), 1, "a batch is in progress");
    world.restart();
    world.db.release_results();
    world.advance(1).await;
    let left = count(&world, "messages");
    assert!(left < 600, "{left}");
    world.db.fail(BatchKind::Reads, DbError::Refused("constraint failed".into()));
    world.advance(BACKGROUND_RETRY_MS).await;
    world.advance(BACKGROUND_RETRY_MS).await;
    assert_eq!(count(&world, "messages"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_large_message_are_deleted_with_it_and_its_bytes_are_free() {
    let world = world_with(Quotas { max_bytes: Some(10_000_000), ..messages(30) });
    let (session, mut cli) = world.active_session("/large").await;
    assert_eq!(cli.send_message(&session, &"x".repeat(4_000_000)).await["ok"], true);
    assert!(world.hub().used_bytes().await.unwrap() > 4_000_000);
    world.hibernate_and_wake().await;
    world.hub().used_bytes().await.unwrap();
    assert_eq!((count(&world, "message_parts"), count(&world, "history_sizes")), (2, 1));
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    world.advance(31 * DAY_MS).await;
    assert_eq!((count(&world, "messages"), count(&world, "message_parts")), (0, 0));
    assert_eq!(world.hub().used_bytes().await.unwrap(), 0);
    world.hibernate_and_wake().await;
    assert_eq!(world.hub().used_bytes().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_merged_session_continues_the_numbers_of_deleted_messages() {
    let world = world_with(messages(30));
    let runner = world.spawner("m", "box").await;
    let old = world.create_session_with("/old", resumable_metadata()).await;
    add_messages(&world, &old, 1..=7, 31 * DAY_MS);
    runner.socket.close();
    world.redeploy();
    world.advance(HOUR_MS).await;
    assert_eq!(count(&world, "messages"), 0);
    let mut runner = world.runner("m").await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    runner.register("spawnSession").await;
    let resumed = resume(&world, &old);
    let call = runner.next_call().await;
    let new = world.create_session("/old#2").await;
    runner.respond(&call, &success(&new));
    let mut cli = world.cli(&new).await;
    assert_eq!(cli.send_message(&new, "first").await["seq"], 1);
    cli.send_keep_alive(&world, &new).await;
    assert_eq!(resumed.reply().await.ok()["sessionId"], json!(new));
    assert_eq!(seqs(&world, &new).await, [8]);
    assert_eq!(cli.send_message(&new, "second").await["seq"], 9);
}

#[tokio::test(start_paused = true)]
async fn old_archived_sessions_are_deleted_as_a_client_deletes_them_except_pinned_ones() {
    let world = world_with(archived_sessions(30));
    let mut expired = Vec::new();
    for number in 0..45 {
        expired.push(world.create_session_with(&format!("/{number}"), json!({"lifecycleState": "archived"})).await);
    }
    add_messages(&world, &expired[0], 1..=3, 1);
    let pinned = world.create_session_with("/pinned", json!({"lifecycleState": "archived"})).await;
    world.request("PATCH", &format!("/api/sessions/{pinned}"), json!({"pinned": true}).to_string()).await.ok();
    let inactive = world.create_session("/inactive").await;
    world.rt.set_now(world.now() + 20 * DAY_MS);
    let recent = world.create_session_with("/recent", json!({"lifecycleState": "archived"})).await;
    let neighbour = world.neighbour();
    let foreign = neighbour.create_session_with("/foreign", json!({"lifecycleState": "archived"})).await;
    world.db.execute(&format!("UPDATE sessions SET updated_at = 1 WHERE id = '{foreign}'"));
    world.rt.set_now(world.now() + 11 * DAY_MS);
    world.redeploy();

    let mut web = world.web("").await;
    world.advance(HOUR_MS).await;
    let events = web.events().await;
    let removed = events.iter().filter(|event| event["type"] == "session-removed");
    let mut removed: Vec<_> = removed.map(|event| event["sessionId"].as_str().unwrap().to_owned()).collect();
    removed.sort_unstable();
    expired.sort_unstable();
    assert_eq!(removed, expired);
    for kept in [&pinned, &inactive, &recent] {
        world.get(&format!("/api/sessions/{kept}")).await.ok();
    }
    assert_eq!(count(&world, "sessions"), 4, "and the session of the neighbour");
    assert_eq!(count(&world, "messages"), 0, "the sweep deletes the rows");
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_that_its_cli_opens_again_is_kept() {
    let world = world_with(archived_sessions(30));
    let archived = json!({"lifecycleState": "archived"});
    let (reopened, expired) =
        (world.create_session_with("/a", archived.clone()).await, world.create_session_with("/b", archived).await);
    world.rt.set_now(world.now() + 31 * DAY_MS);
    assert_eq!(world.create_session("/a").await, reopened);
    world.redeploy();
    world.advance(HOUR_MS).await;
    world.get(&format!("/api/sessions/{reopened}")).await.ok();
    world.get(&format!("/api/sessions/{expired}")).await.assert_error(404, "session_not_found");
    assert_eq!(count(&world, "sessions"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_that_is_being_resumed_is_kept() {
    let world = world_with(archived_sessions(30));
    let mut metadata = resumable_metadata();
    metadata["lifecycleState"] = json!("archived");
    let session = world.create_session_with("/a", metadata).await;
    world.rt.set_now(world.now() + 31 * DAY_MS);
    world.rt.kv_put(RETENTION, &(world.now() + 1_000).to_string());
    world.redeploy();
    let mut runner = world.spawner("m", "box").await;
    let _reply = resume(&world, &session);
    let _call = runner.next_call().await;
    world.advance(2_000).await;
    world.get(&format!("/api/sessions/{session}")).await.ok();
}
