//! The retry policy: the number of attempts at a batch and the delays between them.

use std::sync::{Arc, Mutex};

use crate::support::sqlite::{BatchKind, Sqlite, retryable_error};
use session_gateway_hub::store::retry::Retrying;
use session_gateway_hub::store::{Database, DbError, Statement, push, secrets};

type Delays = Arc<Mutex<Vec<u64>>>;

/// A database with retries, and the recorded delays.
fn retrying() -> (Arc<Sqlite>, Retrying<Arc<Sqlite>>, Delays) {
    let (db, delays) = (Arc::new(Sqlite::with_schema()), Delays::default());
    let recorded = Arc::clone(&delays);
    let sleep = Box::new(move |ms| -> futures::future::BoxFuture<'static, ()> {
        recorded.lock().unwrap().push(ms);
        Box::pin(async {})
    });
    (Arc::clone(&db), Retrying::new(db, sleep), delays)
}

fn write() -> Vec<Statement> {
    vec![Statement::new(secrets::INSERT, ["name".into(), "value".into()])]
}

#[tokio::test]
async fn reads_and_writes_are_retried_up_to_five_times_with_doubled_delays() {
    let (db, retrying, delays) = retrying();
    for kind in [BatchKind::Reads, BatchKind::Writes] {
        for faults in 0..=6 {
            let before = (db.read_count(), db.write_count());
            (0..faults).for_each(|_| db.fail(kind, retryable_error()));
            let result = match kind {
                BatchKind::Reads => read(&retrying).await,
                BatchKind::Writes => retrying.batch(&mut write()).await.map(drop),
            };
            assert_eq!(result, if faults < 6 { Ok(()) } else { Err(retryable_error()) }, "{kind:?}, {faults} faults");
            let attempts = db.read_count() - before.0 + db.write_count() - before.1;
            assert_eq!(attempts, (faults + 1).min(6), "{kind:?}, {faults} faults");
            assert_eq!(std::mem::take(&mut *delays.lock().unwrap()), [50, 100, 200, 400, 800][..faults.min(5)]);
        }
    }
}

async fn read(db: &dyn Database) -> Result<(), DbError> {
    push::load_all(db, &crate::support::store::team()).await.map(drop)
}

#[tokio::test]
async fn only_transient_faults_are_retried() {
    for error in [DbError::TimedOut("late".into()), DbError::Refused("constraint failed".into())] {
        let (db, retrying, delays) = retrying();
        db.fail(BatchKind::Writes, error.clone());
        assert_eq!(retrying.batch(&mut write()).await, Err(error));
        assert_eq!((db.write_count(), delays.lock().unwrap().len()), (1, 0));
    }
}

#[tokio::test]
async fn the_error_of_a_refused_retry_after_a_lost_result_says_that_the_batch_may_be_committed() {
    let (db, retrying, _) = retrying();
    db.lose_response(retryable_error());
    db.fail(BatchKind::Writes, DbError::Refused("constraint failed".into()));
    let error = retrying.batch(&mut write()).await.unwrap_err();
    assert!(error.may_have_committed(), "{error}");
    assert_eq!(db.number("SELECT count(*) FROM secrets"), 1);
}
