//! Batches that nobody waits for any more, and that reach the database all the same, when newer ones have been written.

use std::sync::{Arc, Mutex};

use crate::support::cli::Cli;
use crate::support::sqlite::{On, Sqlite};
use crate::support::{World, quiet};
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use session_gateway_hub::hub::ports::Runtime;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::store::fence::{BEGIN_EPOCH, Epoch, Fenced};
use session_gateway_hub::store::{Database, DbError, JoinedRows, Row, Statement, secrets};

fn silent() -> DbError {
    DbError::from_message("D1 did not answer in time".into())
}

fn passing() -> DbError {
    DbError::from_message("Network connection lost".into())
}

/// A message of a CLI gets no answer from the database; its batch is still on its way there.
async fn message_on_its_way(world: &World, cli: &mut Cli, session: &str, text: &str) -> Vec<Statement> {
    world.db.fail(On::Writes, silent());
    assert_eq!(cli.ask("message", &message(session, text)).await["code"], "unavailable");
    world.db.written().pop().unwrap()
}

fn message(session: &str, text: &str) -> Value {
    json!({"sid": session, "message": {"text": text}})
}

/// What a session's messages say, in their order.
async fn said(world: &World, session: &str) -> Vec<String> {
    let page = world.get(&format!("/cli/sessions/{session}/messages")).await.ok();
    let text = |message: &Value| message["content"]["text"].as_str().unwrap().to_owned();
    page["messages"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_and_arrives_late_does_not_overwrite_what_was_written_since() {
    let world = World::new();
    let session = world.session("/code").await;
    let path = format!("/api/sessions/{session}");
    world.db.fail(On::Writes, silent());
    world.request("PATCH", &path, r#"{"name":"early"}"#).await.refuses(503, "hub_unavailable");
    let late = world.db.written().pop().unwrap();
    world.request("PATCH", &path, r#"{"name":"newer"}"#).await.ok();
    world.db.arrives_late(&late).unwrap_err();
    world.sleep_and_wake().await;
    assert_eq!(world.shown(&session).await["metadata"]["name"], "newer");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_late_is_not_there_and_the_counting_goes_on() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    let late = message_on_its_way(&world, &mut cli, &session, "late").await;
    // Another change, after which the session is written with as many messages as were known.
    cli.ask("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true})).await;
    world.db.arrives_late(&late).unwrap_err();
    for text in ["second", "third"] {
        assert_eq!(cli.ask("message", &message(&session, text)).await["ok"], true);
    }
    assert_eq!(said(&world, &session).await, ["second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_read_after_a_silence_is_never_changed_by_what_was_on_its_way() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    let late = message_on_its_way(&world, &mut cli, &session, "late").await;
    assert_eq!(world.shown(&session).await["seq"], 0);
    world.db.arrives_late(&late).unwrap_err();
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_before_anything_is_read_again_is_found() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    world.db.break_down(On::Reads, passing());
    let late = message_on_its_way(&world, &mut cli, &session, "late").await;
    world.db.arrives_late(&late).unwrap();
    world.db.repair();
    assert_eq!(world.shown(&session).await["seq"], 1);
    assert_eq!(cli.ask("message", &message(&session, "next")).await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_repeated_does_not_arrive_once_more_after_newer_changes() {
    let world = World::new();
    let session = world.session("/code").await;
    let path = format!("/api/sessions/{session}");
    world.db.fail(On::Writes, passing());
    let renamed = world.start("PATCH", &path, r#"{"name":"early"}"#.to_owned());
    quiet().await;
    let first = world.db.written().pop().unwrap();
    world.rt.set_now(world.now() + 1_000);
    renamed.reply().await.ok();
    world.request("PATCH", &path, r#"{"name":"newer"}"#).await.ok();
    world.db.arrives_late(&first).unwrap_err();
    world.sleep_and_wake().await;
    assert_eq!(world.shown(&session).await["metadata"]["name"], "newer");
}

#[tokio::test(start_paused = true)]
async fn a_restart_before_the_database_could_be_told_takes_nothing_from_this() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    world.db.break_down(On::Reads, passing());
    let late = message_on_its_way(&world, &mut cli, &session, "late").await;
    world.redeploy();
    world.db.repair();
    let mut cli = world.live_cli(&session).await;
    assert_eq!(cli.ask("message", &message(&session, "newer")).await["ok"], true);
    world.db.arrives_late(&late).unwrap_err();
    assert_eq!(said(&world, &session).await, ["newer"]);
}

#[tokio::test(start_paused = true)]
async fn epochs_go_on_over_restarts_also_when_the_notes_are_lost() {
    let world = World::new();
    let session = world.session("/code").await;
    for keeps_notes in [true, false] {
        let mut cli = world.live_cli(&session).await;
        message_on_its_way(&world, &mut cli, &session, "lost").await;
        assert_eq!(cli.ask("message", &message(&session, "now")).await["ok"], true);
        world.pass(1_000).await;
        if !keeps_notes {
            world.rt.notebook().keys().for_each(|note| world.rt.kv_delete(note));
        }
        world.redeploy();
        let mut cli = world.live_cli(&session).await;
        assert_eq!(cli.ask("message", &message(&session, "after")).await["ok"], true, "keeps notes: {keeps_notes}");
    }
}

/// A rename of a session of which nobody hears any more: its batch is on its way when the hub ends.
async fn rename_on_its_way(world: &World, session: &str) -> Vec<Statement> {
    world.db.linger(On::Writes);
    let path = format!("/api/sessions/{session}");
    let _lost = world.start("PATCH", &path, r#"{"name":"late"}"#.to_owned());
    quiet().await;
    world.db.written().pop().unwrap()
}

/// What the hub has read of a session is what the database holds, whatever arrives there late.
async fn assert_never_renamed(world: &World, session: &str, late: &[Statement]) {
    assert_eq!(world.shown(session).await["metadataVersion"], 1);
    world.db.arrives_late(late).unwrap_err();
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"newer"}"#).await.ok();
    world.sleep_and_wake().await;
    let shown = world.shown(session).await;
    assert_eq!((&shown["metadata"]["name"], &shown["metadataVersion"]), (&json!("newer"), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_when_the_hub_ended_is_not_done_once_the_next_one_has_read() {
    for ends in [World::redeploy, World::restart] {
        let world = World::new();
        let session = world.session("/code").await;
        let _cli = world.live_cli(&session).await;
        let late = rename_on_its_way(&world, &session).await;
        ends(&world);
        assert_never_renamed(&world, &session, &late).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_when_the_hub_ended_and_arrives_before_the_next_one_reads_is_found() {
    let world = World::new();
    let session = world.session("/code").await;
    let late = rename_on_its_way(&world, &session).await;
    world.redeploy();
    world.db.arrives_late(&late).unwrap();
    assert_eq!(world.shown(&session).await["metadata"]["name"], "late");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_slept_before_it_asked_the_database_for_anything_knows_that_the_one_before_was_cut_off() {
    let world = World::new();
    let session = world.session("/code").await;
    let late = rename_on_its_way(&world, &session).await;
    world.redeploy();
    let _cli = world.bare_cli().await;
    let reads = world.db.reads();
    world.sleep_and_wake().await;
    assert_eq!(world.db.reads(), reads, "a CLI that names nothing needs nothing of the database");
    assert_never_renamed(&world, &session, &late).await;
}

#[tokio::test(start_paused = true)]
async fn a_sleep_before_the_database_could_be_told_of_a_fault_takes_nothing_from_this() {
    let world = World::new();
    let session = world.session("/code").await;
    let _cli = world.live_cli(&session).await;
    world.db.break_down(On::Reads, passing());
    world.db.fail(On::Writes, silent());
    let path = format!("/api/sessions/{session}");
    world.request("PATCH", &path, r#"{"name":"late"}"#).await.refuses(503, "hub_unavailable");
    let late = world.db.written().pop().unwrap();
    world.sleep_and_wake().await;
    world.db.repair();
    assert_never_renamed(&world, &session, &late).await;
}

/// Of the batches that a session's showing takes, those that begin an epoch.
async fn begun_by_showing(world: &World, session: &str) -> Vec<bool> {
    let (reads, writes) = (world.db.reads(), world.db.writes());
    world.shown(session).await;
    assert_eq!(world.db.writes(), writes);
    let begins = |batch: &Vec<Statement>| batch.iter().any(|statement| statement.sql == BEGIN_EPOCH);
    world.db.read().iter().skip(reads).map(begins).collect()
}

#[tokio::test(start_paused = true)]
async fn only_a_hub_that_found_nobody_there_begins_an_epoch_and_with_what_it_reads_first() {
    let world = World::new();
    let session = world.session("/code").await;
    let _cli = world.live_cli(&session).await;
    let noted = world.rt.noted();
    world.sleep_and_wake().await;
    let usual = begun_by_showing(&world, &session).await;
    assert!(usual.iter().all(|begins| !begins), "a sleep begins none");
    assert_eq!(world.rt.noted(), noted, "and notes none");
    world.redeploy();
    let noted = world.rt.noted();
    let begun = begun_by_showing(&world, &session).await;
    assert_eq!(begun.len(), usual.len(), "no batch of its own");
    assert!(begun[0] && begun[1..].iter().all(|begins| !begins));
    assert_eq!(world.rt.noted(), noted + 1, "it is noted that the database knows of it");
    let _cli = world.live_cli(&session).await;
    world.sleep_and_wake().await;
    assert_eq!(begun_by_showing(&world, &session).await, usual);
}

/// A database that lets each batch in when it is told to.
struct Gate {
    db: Sqlite,
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
async fn a_batch_that_a_later_epoch_has_overtaken_was_not_done_and_may_be_sent_again() {
    let gate = Arc::new(Gate { db: Sqlite::with_schema(), waiting: Mutex::default() });
    let fenced = {
        let epoch = Epoch::at_start(Some("1"), true, 0);
        Fenced::new(Arc::clone(&gate) as _, Namespace::default(), epoch, Box::new(|_| {}))
    };
    let enter = |at: usize| gate.waiting.lock().unwrap().remove(at).send(()).unwrap();
    let writes = |name: &str| vec![Statement::new(secrets::INSERT, [name.into(), "".into()])];
    let (mut first, mut second, mut third) = (writes("first"), writes("second"), writes("third"));
    let mut overtaken = Box::pin(fenced.batch(&mut first));
    assert!(overtaken.as_mut().now_or_never().is_none(), "it is on its way");
    let mut lost = Box::pin(fenced.batch(&mut second));
    assert!(lost.as_mut().now_or_never().is_none());
    gate.db.fail(On::Writes, passing());
    enter(1);
    assert_eq!(lost.await, Err(passing()));
    let mut newer = Box::pin(fenced.batch(&mut third));
    assert!(newer.as_mut().now_or_never().is_none());
    enter(1);
    newer.await.unwrap();
    enter(0);
    assert!(matches!(overtaken.await, Err(DbError::Retryable(_))));
    assert_eq!(gate.db.number("SELECT count(*) FROM secrets"), 1);
    let mut again = Box::pin(fenced.batch(&mut first));
    assert!(again.as_mut().now_or_never().is_none());
    enter(0);
    again.await.unwrap();
    assert_eq!(gate.db.number("SELECT count(*) FROM secrets"), 2);
}
