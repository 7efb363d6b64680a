//! Quotas of a namespace: what is refused beyond them, and that everything else works.

use crate::support::merge::{resumable_metadata, resume, success};
use crate::support::prelude::*;
use crate::support::pushes::pending;
use session_gateway_hub::hub::core::namespace::quotas::Quotas;

const MAX_BYTES: u64 = 1_000;

fn storage() -> Quotas {
    Quotas { max_bytes: Some(MAX_BYTES), ..Quotas::default() }
}

fn new_session(tag: &str) -> Value {
    json!({"tag": tag, "metadata": {"path": "/code", "host": "box"}})
}

/// Sends a message whose content has this number of bytes. Returns the acknowledgement.
async fn send_bytes(cli: &mut Cli, session: &str, bytes: usize, local_id: &str) -> Value {
    let message = json!({"sid": session, "message": "x".repeat(bytes - 2), "localId": local_id});
    cli.emit_with_ack("message", &message).await
}

fn assert_storage_full(ack: &Value) {
    assert_eq!((&ack["ok"], &ack["code"]), (&json!(false), &json!("overloaded")), "{ack}");
    assert_eq!((&ack["quota"], &ack["retryAfterMs"]), (&json!("storage"), &json!(60_000)), "{ack}");
    assert!(ack["error"].as_str().unwrap().contains("storage of the namespace is full"), "{ack}");
}

/// Inserts messages as a version without quotas does.
fn insert_messages(world: &World, session: &str, count: u64, bytes: u64) {
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO messages (session_id, seq, id, created_at, content, bytes) SELECT '{session}', i, '{session}' || i, 1, '1', {bytes} FROM n"
    ));
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_refuses_new_messages_and_sessions_and_nothing_else() {
    let world = World::with_quotas(storage());
    let (session, other) = (world.create_session("/a").await, world.create_session("/b").await);
    let mut cli = world.live_cli(&session).await;
    assert_eq!(send_bytes(&mut cli, &session, 400, "m1").await["seq"], 1);
    assert_eq!(send_bytes(&mut cli, &session, 600, "m2").await["seq"], 2, "the last message may fill the storage");
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        assert_storage_full(&send_bytes(&mut cli, &session, 10, "m3").await);
        let path = format!("/api/sessions/{session}/messages");
        world.post(&path, &json!({"text": "hello"})).await.assert_error(409, "storage_full");
        world.post("/cli/sessions", &new_session("/new")).await.assert_error(409, "storage_full");

        assert_eq!(send_bytes(&mut cli, &session, 400, "m1").await["seq"], 1, "a message that is stored already");
        assert_eq!(world.post("/cli/sessions", &new_session("/a")).await.ok()["session"]["id"], json!(session));
        assert_eq!(world.get(&path).await.ok()["messages"].as_array().unwrap().len(), 2);
    }
    world.request("PATCH", &format!("/api/sessions/{session}"), json!({"name": "Renamed"}).to_string()).await.ok();
    cli.register("permission").await;
    cli.put_agent_state(&session, 1, &pending(&["r1"])).await;
    let deny = world.start("POST", &format!("/api/sessions/{session}/permissions/r1/deny"), "");
    cli.respond_to_next_call("permission", &json!({})).await;
    deny.reply().await.ok();
    cli.register("abort").await;
    cli.serve(world.start("POST", &format!("/api/sessions/{session}/abort"), ""), "abort", &json!({})).await.ok();

    world.request("DELETE", &format!("/api/sessions/{other}"), "").await.ok();
    assert_storage_full(&send_bytes(&mut cli, &session, 10, "m3").await);
    cli.socket.close();
    world.advance(60_000).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    let (session, mut cli) = world.active_session("/new").await;
    assert_eq!(send_bytes(&mut cli, &session, 10, "m3").await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_cannot_wait_for_its_cli_in_a_full_storage_and_one_that_waits_is_delivered() {
    let world = World::with_quotas(storage());
    let (held, full) = (world.create_session("/held").await, world.create_session("/full").await);
    let path = format!("/api/sessions/{held}/messages");
    assert_eq!(world.post(&path, &json!({"text": "one", "hold": true})).await.ok()["held"], true);
    let mut cli = world.live_cli(&full).await;
    send_bytes(&mut cli, &full, 2_000, "m1").await;
    world.post(&path, &json!({"text": "two", "hold": true})).await.assert_error(409, "storage_full");
    let _cli = world.live_cli(&held).await;
    run_until_idle().await;
    assert_eq!(world.get(&path).await.ok()["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn messages_from_before_the_quota_count_in_batches_and_those_of_deleted_sessions_do_not() {
    let world = World::with_quotas(storage());
    let (large, small) = (world.create_session("/large").await, world.create_session("/small").await);
    insert_messages(&world, &large, 600, 1);
    insert_messages(&world, &small, 10, 10);
    let mut cli = world.live_cli(&small).await;
    world.hibernate_and_wake().await;
    assert_eq!(send_bytes(&mut cli, &small, 250, "m1").await["ok"], true, "700 bytes are stored, 350 are counted");
    world.advance(10_000).await;
    assert_eq!(world.hub().used_bytes().await.unwrap(), 950);
    assert_eq!(send_bytes(&mut cli, &small, 50, "m2").await["ok"], true);
    assert_storage_full(&send_bytes(&mut cli, &small, 10, "m3").await);

    world.request("DELETE", &format!("/api/sessions/{large}"), "").await.ok();
    assert_eq!(world.hub().used_bytes().await.unwrap(), 400, "the rows are not swept yet");
    assert_eq!(send_bytes(&mut cli, &small, 10, "m3").await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn a_version_without_quotas_may_write_between_two_versions_with_them() {
    let world = World::with_quotas(storage());
    let (session, mut cli) = world.active_session("/a").await;
    assert_eq!(send_bytes(&mut cli, &session, 100, "m1").await["seq"], 1);
    world.hibernate_and_wake().await;
    assert_eq!(world.hub().used_bytes().await.unwrap(), 100);
    world.redeploy_with_quotas(Quotas::default());
    let mut cli = world.live_cli(&session).await;
    assert_eq!(send_bytes(&mut cli, &session, 2_000, "m2").await["seq"], 2);
    world.redeploy_with_quotas(storage());
    let mut cli = world.live_cli(&session).await;
    assert_storage_full(&send_bytes(&mut cli, &session, 10, "m3").await);
    assert_eq!(world.hub().used_bytes().await.unwrap(), 2_100);
}

#[tokio::test(start_paused = true)]
async fn without_a_quota_of_storage_nothing_is_counted() {
    let world = World::new();
    let (session, mut cli) = world.active_session("/a").await;
    send_bytes(&mut cli, &session, 2_000, "m1").await;
    let statements = [world.db.read_batches(), world.db.write_batches()].concat().concat();
    assert!(statements.iter().all(|statement| !statement.sql.contains("history_sizes")));
}

#[tokio::test(start_paused = true)]
async fn web_clients_are_told_when_the_storage_is_nearly_full_full_and_free_again() {
    let world = World::with_quotas(storage());
    let session = world.create_session("/a").await;
    let mut web = world.web("").await;
    let data = async |web: &mut Web| web.next_event_of("storage-changed").await["data"].clone();
    assert_eq!(data(&mut web).await, json!({"bytes": 0, "maxBytes": 1_000}));
    let mut cli = world.live_cli(&session).await;
    send_bytes(&mut cli, &session, 899, "m1").await;
    assert!(!web.types().await.contains(&"storage-changed".to_owned()), "below 90 %");
    send_bytes(&mut cli, &session, 3, "m2").await;
    assert_eq!(data(&mut web).await["bytes"], 902);
    send_bytes(&mut cli, &session, 98, "m3").await;
    assert_eq!(data(&mut web).await["bytes"], 1_000);
    let mut late = world.web("").await;
    assert_eq!(data(&mut late).await["bytes"], 1_000, "a client learns the state when it connects");

    world.hibernate_and_wake().await;
    let mut after_wake = world.web("").await;
    assert_eq!(data(&mut after_wake).await["bytes"], 1_000);
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    web.types().await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert_eq!(data(&mut web).await["bytes"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_batch_does_not_count() {
    let world = World::with_quotas(storage());
    let (session, mut cli) = world.active_session("/a").await;
    send_bytes(&mut cli, &session, 100, "m1").await;
    world.db.fail(BatchKind::Writes, DbError::Refused("constraint failed".into()));
    assert_eq!(send_bytes(&mut cli, &session, 900, "m2").await["code"], "unavailable");
    assert_eq!(world.hub().used_bytes().await.unwrap(), 100);
    assert_eq!(send_bytes(&mut cli, &session, 10, "m3").await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_messages_of_a_minute_senders_learn_how_long_to_wait() {
    let world = World::with_quotas(Quotas { max_messages_per_minute: Some(3), ..Quotas::default() });
    let (session, mut cli) = world.active_session("/a").await;
    let path = format!("/api/sessions/{session}/messages");
    send_bytes(&mut cli, &session, 10, "m1").await;
    world.rt.set_now(world.now() + 20_000);
    cli.send_keep_alive(&world, &session).await;
    world.post(&path, &json!({"text": "two"})).await.ok();
    send_bytes(&mut cli, &session, 10, "m3").await;
    let refused = send_bytes(&mut cli, &session, 10, "m4").await;
    assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("overloaded")), "{refused}");
    assert_eq!((&refused["quota"], &refused["retryAfterMs"]), (&json!("messages"), &json!(40_000)), "{refused}");
    let refused = world.post(&path, &json!({"text": "four"})).await;
    refused.assert_error(429, "too_many_messages");
    assert_eq!(refused.headers["retry-after"], "40");
    assert_eq!(send_bytes(&mut cli, &session, 10, "m1").await["seq"], 1, "a message that is stored already");
    world.create_session("/b").await;
    cli.put_agent_state(&session, 1, &json!({})).await;

    world.rt.set_now(world.now() + 40_000);
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(send_bytes(&mut cli, &session, 10, "m4").await["seq"], 4);
    assert_eq!(send_bytes(&mut cli, &session, 10, "m5").await["retryAfterMs"], 20_000);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_all_its_sessions_creates_no_other_and_resumes_the_existing_ones() {
    let world = World::with_quotas(Quotas { max_sessions: Some(2), ..Quotas::default() });
    let mut runner = world.spawner("m", "box").await;
    let old = world.create_session_with("/old", resumable_metadata()).await;
    world.create_session("/b").await;
    let refused = world.post("/cli/sessions", &new_session("/new")).await;
    assert!(refused.assert_error(409, "too_many_sessions")["error"].as_str().unwrap().contains("has 2 sessions"));
    world.post("/cli/sessions", &new_session("/b")).await.ok();

    let resumed = resume(&world, &old);
    let call = runner.next_call().await;
    let new = world.create_session("/old#2").await;
    runner.respond(&call, &success(&new));
    let _cli = world.live_cli(&new).await;
    assert_eq!(resumed.reply().await.ok()["sessionId"], json!(new));
    world.post("/cli/sessions", &new_session("/new")).await.assert_error(409, "too_many_sessions");
    world.request("DELETE", &format!("/api/sessions/{old}"), "").await.assert_error(404, "session_not_found");
}
