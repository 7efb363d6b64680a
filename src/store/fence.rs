//! Fencing tokens: D1 rejects a batch from an earlier epoch.
//!
//! A batch without an answer may still be in flight, and arrive after newer batches. So every write names the epoch of its hub. A new
//! epoch begins after every write with an unknown outcome, and at the start of a hub after an instance that may have been
//! interrupted. The first batch of an epoch stores the epoch before it reads or writes anything else; from then on, D1 rejects
//! batches of earlier epochs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::{Database, DbError, JoinedRows, Row, Statement, Value};
use crate::model::namespace::Namespace;

/// Stores the epoch of a namespace. `history_epoch` tells the trigger of migration `0011` that this version reads the current
/// format of rows (docs/design/durability.md "A rollback to a version before 0009"). `?1`: namespace, `?2`: epoch.
pub const BEGIN_EPOCH: &str = "
INSERT INTO fences (namespace, epoch, history_epoch) VALUES (?1, ?2, ?2)
ON CONFLICT (namespace) DO UPDATE SET epoch = excluded.epoch, history_epoch = excluded.epoch
WHERE fences.epoch < excluded.epoch";

/// Violates the NOT NULL constraint of `epoch` if a later epoch is stored; writes nothing otherwise.
/// `?1`: namespace, `?2`: epoch of the batch.
pub const CHECK_EPOCH: &str = "
INSERT INTO fences (namespace, epoch) SELECT namespace, NULL FROM fences WHERE namespace = ?1 AND epoch > ?2";

/// Writes an epoch to the object's storage.
pub type Persist = Box<dyn Fn(Epoch) + Send + Sync>;

/// An epoch of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    number: u64,
    /// Whether D1 may not have stored it yet.
    is_new: bool,
}

/// The suffix of a new epoch in the object's storage. Not JSON, because the form that earlier releases have written
/// must remain readable.
const NEW: &str = " new";

impl Epoch {
    /// Returns the epoch of a hub that starts. After hibernation, this is the persisted epoch, because no batch was in flight.
    /// Otherwise it is a new epoch. Its number is the time `now` in Unix milliseconds, which exceeds all earlier epochs even if the
    /// persisted epoch was lost.
    pub fn at_start(persisted: Option<&str>, hibernated: bool, now: u64) -> Self {
        match persisted.and_then(Self::decode) {
            Some(epoch) if hibernated => epoch,
            Some(epoch) => Self { number: now.max(epoch.number + 1), is_new: true },
            None => Self { number: now, is_new: true },
        }
    }

    /// The form in the object's storage.
    pub fn encode(self) -> String {
        format!("{}{}", self.number, if self.is_new { NEW } else { "" })
    }

    fn decode(text: &str) -> Option<Self> {
        let number = text.strip_suffix(NEW);
        Some(Self { number: number.unwrap_or(text).parse().ok()?, is_new: number.is_some() })
    }
}

/// Whether a batch writes nothing, except that it may begin an epoch.
pub fn is_read_only(statements: &[Statement]) -> bool {
    let reads = |statement: &Statement| statement.sql.trim_start().starts_with("SELECT");
    statements.iter().all(|statement| reads(statement) || statement.sql == BEGIN_EPOCH)
}

/// The database of a namespace, with a fence around its writes. One hub at a time writes to a namespace.
pub struct Fenced {
    db: Arc<dyn Database>,
    namespace: Namespace,
    epoch: Mutex<Epoch>,
    persist: Persist,
}

impl Fenced {
    /// Wraps a database for a hub that starts in `epoch`. Later changes of the epoch are passed to `persist`.
    pub fn new(db: Arc<dyn Database>, namespace: Namespace, epoch: Epoch, persist: Persist) -> Self {
        Self { db, namespace, epoch: Mutex::new(epoch), persist }
    }

    fn epoch(&self) -> MutexGuard<'_, Epoch> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_stored(&self, stored: Epoch) {
        let mut epoch = self.epoch();
        if stored.is_new && *epoch == stored {
            epoch.is_new = false;
            (self.persist)(*epoch);
        }
    }

    fn begin_next(&self) {
        let mut epoch = self.epoch();
        *epoch = Epoch { number: epoch.number + 1, is_new: true };
        (self.persist)(*epoch);
    }
}

impl Database for Fenced {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let (count, writes) = (statements.len(), !is_read_only(statements));
            let epoch = *self.epoch();
            let params = || -> [Value; 2] { [self.namespace.as_ref().into(), epoch.number.into()] };
            statements.extend(epoch.is_new.then(|| Statement::new(BEGIN_EPOCH, params())));
            statements.extend(writes.then(|| Statement::new(CHECK_EPOCH, params())));
            let result = self.db.batch(statements).await;
            statements.truncate(count);
            match result {
                Ok(mut rows) => {
                    rows.truncate(count);
                    self.mark_stored(epoch);
                    Ok(rows)
                }
                Err(error) if !writes => Err(error),
                Err(error) if error.is_outcome_unknown() => {
                    self.begin_next();
                    Err(error)
                }
                // A batch of a later epoch arrived first, so this batch was not committed and may be repeated in the
                // current epoch.
                Err(DbError::Refused(why)) if self.epoch().number > epoch.number => Err(DbError::Retryable(why)),
                Err(error) => Err(error),
            }
        })
    }

    // Does not check the epoch, because no write depends on the result.
    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        self.db.query_joined(statement, limit)
    }
}
