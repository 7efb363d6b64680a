//! Fencing: the database rejects a batch that timed out and arrives after a newer batch.

use std::sync::Mutex;

use crate::support::merge::texts;
use crate::support::prelude::*;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::store::fence::{BEGIN_EPOCH, Epoch, Fenced};
use session_gateway_hub::store::{JoinedRows, Row, Statement, secrets};

fn timeout_error() -> DbError {
    DbError::Unavailable("D1 did not answer in time".into())
}

/// Sends a message whose batch times out, but is still in flight. Returns the batch.
async fn message_in_flight(world: &World, cli: &mut Cli, session: &str, text: &str) -> Vec<Statement> {
    world.db.fail(BatchKind::Writes, timeout_error());
    assert_eq!(cli.emit_with_ack("message", &message(session, text)).await["code"], "unavailable");
    world.db.write_batches().pop().unwrap()
}

fn message(session: &str, text: &str) -> Value {
    json!({"sid": session, "message": {"text": text}})
}

#[tokio::test(start_paused = true)]
async fn a_late_batch_does_not_overwrite_newer_changes() {
    let (world, session) = idle_session().await;
    let path = format!("/api/sessions/{session}");
    world.db.fail(BatchKind::Writes, timeout_error());
    world.request("PATCH", &path, r#"{"name":"early"}"#).await.assert_error(503, "hub_unavailable");
    let late_batch = world.db.write_batches().pop().unwrap();
    world.request("PATCH", &path, r#"{"name":"newer"}"#).await.ok();
    world.db.execute_late(&late_batch).unwrap_err();
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["metadata"]["name"], "newer");
}

#[tokio::test(start_paused = true)]
async fn a_late_message_is_rejected_and_the_seqs_continue() {
    let (world, session, mut cli) = live_session().await;
    let late_batch = message_in_flight(&world, &mut cli, &session, "late").await;
    // This change writes the session with the seq that it had before the message.
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true})).await;
    world.db.execute_late(&late_batch).unwrap_err();
    for text in ["second", "third"] {
        assert_eq!(cli.emit_with_ack("message", &message(&session, text)).await["ok"], true);
    }
    assert_eq!(texts(&world, &session).await, ["second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_batch_is_rejected_after_a_read() {
    let (world, session, mut cli) = live_session().await;
    let late_batch = message_in_flight(&world, &mut cli, &session, "late").await;
    assert_eq!(world.get_session(&session).await["seq"], 0);
    world.db.execute_late(&late_batch).unwrap_err();
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_batch_that_commits_before_the_next_read_takes_effect() {
    let (world, session, mut cli) = live_session().await;
    world.db.fail_all(BatchKind::Reads, retryable_error());
    let late_batch = message_in_flight(&world, &mut cli, &session, "late").await;
    world.db.execute_late(&late_batch).unwrap();
    world.db.repair();
    assert_eq!(world.get_session(&session).await["seq"], 1);
    assert_eq!(cli.emit_with_ack("message", &message(&session, "next")).await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_attempt_of_a_retried_batch_does_not_overwrite_newer_changes() {
    let (world, session) = idle_session().await;
    let path = format!("/api/sessions/{session}");
    world.db.fail(BatchKind::Writes, retryable_error());
    let renamed = world.start_and_run("PATCH", &path, r#"{"name":"early"}"#.to_owned()).await;
    let first = world.db.write_batches().pop().unwrap();
    world.rt.set_now(world.now() + 1_000);
    renamed.reply().await.ok();
    world.request("PATCH", &path, r#"{"name":"newer"}"#).await.ok();
    world.db.execute_late(&first).unwrap_err();
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["metadata"]["name"], "newer");
}

#[tokio::test(start_paused = true)]
async fn epochs_increase_over_restarts_even_if_the_storage_is_lost() {
    let (world, session) = idle_session().await;
    for keeps_storage in [true, false] {
        let mut cli = world.live_cli(&session).await;
        message_in_flight(&world, &mut cli, &session, "lost").await;
        assert_eq!(cli.emit_with_ack("message", &message(&session, "now")).await["ok"], true);
        world.advance(1_000).await;
        if !keeps_storage {
            world.rt.stored_entries().keys().for_each(|key| world.rt.kv_delete(key));
        }
        world.redeploy();
        let mut cli = world.live_cli(&session).await;
        assert_eq!(cli.emit_with_ack("message", &message(&session, "after")).await["ok"], true, "{keeps_storage}");
    }
}

/// Renames a session. The batch is in flight and its result never arrives. Returns the batch.
async fn rename_in_flight(world: &World, session: &str) -> Vec<Statement> {
    world.db.never_return_next(BatchKind::Writes);
    let path = format!("/api/sessions/{session}");
    let _reply = world.start_and_run("PATCH", &path, r#"{"name":"late"}"#.to_owned()).await;
    world.db.write_batches().pop().unwrap()
}

/// Asserts that the late batch is rejected after the hub has read the session.
async fn assert_never_renamed(world: &World, session: &str, late_batch: &[Statement]) {
    assert_eq!(world.get_session(session).await["metadataVersion"], 1);
    world.db.execute_late(late_batch).unwrap_err();
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"newer"}"#).await.ok();
    world.hibernate_and_wake().await;
    assert_eq!(pick(&world.get_session(session).await, ["metadata/name", "metadataVersion"]), json!(["newer", 2]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_an_earlier_hub_is_rejected_after_the_first_read_of_the_next_hub() {
    for start_next_hub in [World::redeploy, World::restart] {
        let (world, session, _cli) = live_session().await;
        let late_batch = rename_in_flight(&world, &session).await;
        start_next_hub(&world);
        assert_never_renamed(&world, &session, &late_batch).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_an_earlier_hub_takes_effect_if_it_commits_before_the_first_read_of_the_next_hub() {
    let (world, session) = idle_session().await;
    let late_batch = rename_in_flight(&world, &session).await;
    world.redeploy();
    world.db.execute_late(&late_batch).unwrap();
    assert_eq!(world.get_session(&session).await["metadata"]["name"], "late");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_hibernates_before_its_first_read_still_begins_a_new_epoch() {
    let (world, session) = idle_session().await;
    let late_batch = rename_in_flight(&world, &session).await;
    world.redeploy();
    let _cli = world.bare_cli().await;
    let reads = world.db.read_count();
    world.hibernate_and_wake().await;
    assert_eq!(world.db.read_count(), reads, "a CLI without session or machine causes no read");
    assert_never_renamed(&world, &session, &late_batch).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_batch_is_rejected_even_if_the_hub_hibernates_or_restarts_before_it_has_stored_the_epoch() {
    for restarts in [false, true] {
        let (world, session, _cli) = live_session().await;
        world.db.fail_all(BatchKind::Reads, retryable_error());
        world.db.fail(BatchKind::Writes, timeout_error());
        let path = format!("/api/sessions/{session}");
        world.request("PATCH", &path, r#"{"name":"late"}"#).await.assert_error(503, "hub_unavailable");
        let late_batch = world.db.write_batches().pop().unwrap();
        match restarts {
            true => world.redeploy(),
            false => world.hibernate_and_wake().await,
        }
        world.db.repair();
        assert_never_renamed(&world, &session, &late_batch).await;
    }
}

/// Requests a session. Returns whether each read batch of the request begins an epoch.
async fn batches_that_begin_an_epoch(world: &World, session: &str) -> Vec<bool> {
    let (reads, writes) = (world.db.read_count(), world.db.write_count());
    world.get_session(session).await;
    assert_eq!(world.db.write_count(), writes);
    let begins_epoch = |batch: &Vec<Statement>| batch.iter().any(|statement| statement.sql == BEGIN_EPOCH);
    world.db.read_batches().iter().skip(reads).map(begins_epoch).collect()
}

#[tokio::test(start_paused = true)]
async fn only_a_hub_without_sockets_begins_an_epoch_with_its_first_read() {
    let (world, session, _cli) = live_session().await;
    let kv_writes = world.rt.kv_writes();
    world.hibernate_and_wake().await;
    let after_hibernation = batches_that_begin_an_epoch(&world, &session).await;
    assert!(after_hibernation.iter().all(|begins| !begins), "hibernation begins no epoch");
    assert_eq!(world.rt.kv_writes(), kv_writes, "hibernation does not write to the storage");
    world.redeploy();
    let kv_writes = world.rt.kv_writes();
    let after_redeploy = batches_that_begin_an_epoch(&world, &session).await;
    assert_eq!(after_redeploy.len(), after_hibernation.len(), "the epoch needs no additional batch");
    assert!(after_redeploy[0] && after_redeploy[1..].iter().all(|begins| !begins));
    assert_eq!(world.rt.kv_writes(), kv_writes + 1, "the storage records that the epoch is stored");
    let _cli = world.live_cli(&session).await;
    world.hibernate_and_wake().await;
    assert_eq!(batches_that_begin_an_epoch(&world, &session).await, after_hibernation);
}

/// A database that executes a batch only when the test permits it.
struct Gate {
    db: Sqlite,
    /// Each sender permits a waiting batch.
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Database for Gate {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            self.waiting.lock().unwrap().push(sender);
            receiver.await.unwrap();
            self.db.batch(statements).await
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        self.db.query_joined(statement, limit)
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_rejected_for_a_later_epoch_may_be_repeated() {
    let gate = Arc::new(Gate { db: Sqlite::with_schema(), waiting: Mutex::default() });
    let fenced = {
        let epoch = Epoch::at_start(Some("1"), true, 0);
        Fenced::new(Arc::clone(&gate) as _, Namespace::default().to_string(), epoch, Box::new(|_| {}))
    };
    let execute = |index: usize| gate.waiting.lock().unwrap().remove(index).send(()).unwrap();
    let writes = |name: &str| vec![Statement::new(secrets::INSERT, [name.into(), "".into()])];
    let (mut first, mut second, mut third) = (writes("first"), writes("second"), writes("third"));
    let mut overtaken = Box::pin(fenced.batch(&mut first));
    assert!(overtaken.as_mut().now_or_never().is_none(), "the first batch is in flight");
    let mut failed = Box::pin(fenced.batch(&mut second));
    assert!(failed.as_mut().now_or_never().is_none());
    gate.db.fail(BatchKind::Writes, retryable_error());
    execute(1);
    assert_eq!(failed.await, Err(retryable_error()));
    let mut newer = Box::pin(fenced.batch(&mut third));
    assert!(newer.as_mut().now_or_never().is_none());
    execute(1);
    newer.await.unwrap();
    execute(0);
    assert!(matches!(overtaken.await, Err(DbError::Retryable(_))));
    assert_eq!(gate.db.number("SELECT count(*) FROM secrets"), 1);
    let mut repeated = Box::pin(fenced.batch(&mut first));
    assert!(repeated.as_mut().now_or_never().is_none());
    execute(0);
    repeated.await.unwrap();
    assert_eq!(gate.db.number("SELECT count(*) FROM secrets"), 2);
}
