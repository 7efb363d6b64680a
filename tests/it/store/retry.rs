//! The retry policy: for how long a batch is repeated, the pauses between the attempts, and stalls of the database.

use crate::support::environment::FakeEnvironment;
use crate::support::prelude::*;
use session_gateway_hub::limits::{DB_RETRY_PERIOD_MS, DB_TIMEOUT_MS};
use session_gateway_hub::store::retry::{Environment, Retrying};
use session_gateway_hub::store::{Statement, push, secrets};

/// A database, the same database with retries, and their environment.
fn retrying() -> (Arc<Sqlite>, Retrying<Arc<Sqlite>>, FakeEnvironment) {
    let (db, environment) = (Arc::new(Sqlite::with_schema()), FakeEnvironment::default());
    (Arc::clone(&db), Retrying::new(db, Box::new(environment.clone())), environment)
}

fn pauses(environment: &FakeEnvironment) -> Vec<u64> {
    std::mem::take(&mut *environment.pauses.lock().unwrap())
}

fn write() -> Vec<Statement> {
    vec![Statement::new(secrets::INSERT, ["name".into(), "value".into()])]
}

async fn run(db: &dyn Database, kind: BatchKind) -> Result<(), DbError> {
    match kind {
        BatchKind::Reads => push::load_all(db, &crate::support::store::team_namespace()).await.map(drop),
        BatchKind::Writes => db.batch(&mut write()).await.map(drop),
    }
}

#[tokio::test]
async fn reads_and_writes_are_repeated_after_pauses_that_double_up_to_two_seconds() {
    let (db, retrying, environment) = retrying();
    for kind in [BatchKind::Reads, BatchKind::Writes] {
        for faults in 0..=8 {
            (0..faults).for_each(|_| db.fail(kind, retryable_error()));
            run(&retrying, kind).await.unwrap();
            assert_eq!(pauses(&environment), [100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000][..faults], "{kind:?}");
        }
    }
}

#[tokio::test]
async fn each_pause_is_shortened_at_random_by_at_most_half() {
    let (db, retrying, environment) = retrying();
    for (random, expected) in [([0, 0], [50, 100]), ([255, 255], [100, 200]), ([51, 102], [60, 140])] {
        environment.random.lock().unwrap().extend(random);
        (0..2).for_each(|_| db.fail(BatchKind::Writes, retryable_error()));
        run(&retrying, BatchKind::Writes).await.unwrap();
        assert_eq!(pauses(&environment), expected, "{random:?}");
    }
}

#[tokio::test]
async fn after_two_minutes_of_faults_a_batch_is_not_repeated() {
    let (db, retrying, environment) = retrying();
    for kind in [BatchKind::Reads, BatchKind::Writes] {
        db.fail_all(kind, retryable_error());
        let error = run(&retrying, kind).await.unwrap_err();
        assert!(matches!(error, DbError::Unavailable(_)) && error.is_outcome_unknown(), "{error}");
        let waited_ms: u64 = pauses(&environment).iter().sum();
        assert!((118_000..=120_000).contains(&waited_ms), "{waited_ms}");
    }
}

#[tokio::test]
async fn a_refused_batch_is_not_repeated() {
    let (db, retrying, environment) = retrying();
    let error = DbError::Refused("constraint failed".into());
    db.fail(BatchKind::Writes, error.clone());
    assert_eq!(retrying.batch(&mut write()).await, Err(error));
    assert_eq!((db.write_count(), pauses(&environment)), (1, vec![]));
}

#[tokio::test]
async fn if_the_first_result_was_lost_a_refused_retry_leaves_the_outcome_unknown() {
    let (db, retrying, _) = retrying();
    db.lose_response(retryable_error());
    db.fail(BatchKind::Writes, DbError::Refused("constraint failed".into()));
    let error = retrying.batch(&mut write()).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert_eq!(db.number("SELECT count(*) FROM secrets"), 1);
}

#[tokio::test]
async fn a_query_without_a_result_for_five_seconds_is_a_stall_until_it_ends() {
    let (db, retrying, environment) = retrying();
    db.fail(BatchKind::Writes, retryable_error());
    retrying.batch(&mut write()).await.unwrap();
    assert_eq!(retrying.last_stalled_at(environment.now()), None, "a short fault is no stall");
    db.hold_results(BatchKind::Writes);
    let mut batch = write();
    let mut query = Box::pin(retrying.batch(&mut batch));
    assert!(futures::poll!(&mut query).is_pending());
    environment.advance(4_999);
    assert_eq!(retrying.last_stalled_at(environment.now()), None);
    environment.advance(1);
    assert_eq!(retrying.last_stalled_at(environment.now()), Some(environment.now()));
    db.release_results();
    query.await.unwrap();
    let ended_at = environment.now();
    environment.advance(60_000);
    assert_eq!((retrying.last_stalled_at(environment.now()), retrying.is_unreachable()), (Some(ended_at), false));
}

#[tokio::test]
async fn an_outage_is_a_stall_until_a_query_succeeds() {
    let (db, retrying, environment) = retrying();
    db.fail_everything(&retryable_error());
    run(&retrying, BatchKind::Writes).await.unwrap_err();
    environment.advance(60_000);
    assert_eq!(
        (retrying.last_stalled_at(environment.now()), retrying.is_unreachable()),
        (Some(environment.now()), true)
    );
    retrying.probe().await;
    assert!(retrying.is_unreachable());
    db.repair();
    retrying.probe().await;
    assert!(retrying.last_stalled_at(environment.now()).is_some_and(|at| at < environment.now()));
}

#[tokio::test]
async fn a_dropped_query_does_not_end_an_outage() {
    let (db, retrying, environment) = retrying();
    db.fail_all(BatchKind::Writes, retryable_error());
    run(&retrying, BatchKind::Writes).await.unwrap_err();
    db.never_return_next(BatchKind::Writes);
    let mut batch = write();
    let mut query = Box::pin(retrying.batch(&mut batch));
    assert!(futures::poll!(&mut query).is_pending());
    drop(query);
    assert!(retrying.is_unreachable());
    assert!(!environment.logs.lock().unwrap().iter().any(|line| line.contains("database-recovered")));
}

#[tokio::test]
async fn a_leaked_query_counts_as_a_stall_only_until_the_next_query_after_its_timeout() {
    let (db, retrying, environment) = retrying();
    db.hold_results(BatchKind::Reads);
    let mut query = Box::pin(run(&retrying, BatchKind::Reads));
    assert!(futures::poll!(&mut query).is_pending());
    std::mem::forget(query);
    db.release_results();
    environment.advance(DB_RETRY_PERIOD_MS + DB_TIMEOUT_MS + 1);
    assert!(retrying.last_stalled_at(environment.now()).is_some());
    run(&retrying, BatchKind::Reads).await.unwrap();
    assert_eq!(retrying.last_stalled_at(environment.now()), None);
}
