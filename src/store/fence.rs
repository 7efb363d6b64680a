//! Fencing tokens: D1 rejects a batch from an earlier epoch.
//!
//! A batch without an answer may still be in flight, and arrive after newer batches. So every write names the epoch of its hub. A new
//! epoch begins after every write with an unknown outcome, and at the start of a hub after an instance that may have been
//! interrupted. The first batch of an epoch stores the epoch before it reads or writes anything else; from then on, D1 rejects
//! batches of earlier epochs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;

use super::devices::SELECT_BY_TOKEN;
use super::retry::Retrying;
use super::{Database, DbError, JoinedRows, Row, Statement, Value};
use crate::memory_budget::lock;

/// A database with retries and a fence.
pub type FencedDb = Arc<Retrying<Fenced>>;

/// Stores the epoch of a namespace. `history_epoch` tells the trigger of migration `0011` that this version reads the current
/// format of rows (docs/design/durability.md "A rollback to a version before 0009"). `?1`: namespace, `?2`: epoch.
pub const BEGIN_EPOCH: &str = "
INSERT INTO fences (namespace, epoch, history_epoch) VALUES (?1, ?2, ?2)
ON CONFLICT (namespace) DO UPDATE SET epoch = excluded.epoch, history_epoch = excluded.epoch
WHERE fences.epoch < excluded.epoch";

/// Violates the NOT NULL constraint of `epoch` if a later epoch is stored, else writes nothing. `?1`: namespace, `?2`: epoch.
pub const CHECK_EPOCH: &str = "
INSERT INTO fences (namespace, epoch) SELECT namespace, NULL FROM fences WHERE namespace = ?1 AND epoch > ?2";

/// The refusal of the writes of a hub after another one has started in its object.
const RETIRED: &str = "another hub of the namespace has started";

/// Whether a fence refused a write. The error of D1 then names the table of fences.
pub fn is_fence_refusal(why: &str) -> bool {
    why == RETIRED || why.contains("fences.epoch")
}

/// Writes an epoch to the object's storage.
pub type Persist = Box<dyn Fn(Epoch) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    number: u64,
    /// Whether D1 may not have stored it yet.
    is_new: bool,
}

/// The suffix of a new epoch in the object's storage. Not JSON: the form that earlier releases wrote must remain readable.
const NEW: &str = " new";

impl Epoch {
    /// Returns the epoch of a hub that starts. After hibernation, this is the persisted epoch, because no batch was in flight.
    /// Otherwise a new one: `now` in Unix milliseconds, which exceeds all earlier epochs even if the persisted one was lost.
    pub fn at_start(persisted: Option<&str>, is_after_hibernation: bool, now: u64) -> Self {
        match persisted.and_then(Self::decode) {
            Some(epoch) if is_after_hibernation => epoch,
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
    /// The key in the table of fences: the namespace.
    key: String,
    epoch: Mutex<Epoch>,
    persist: Persist,
    /// Whether another hub of the namespace has started in this object.
    is_retired: AtomicBool,
}

impl Fenced {
    /// Wraps a database for a hub that starts in `epoch`. Later changes of the epoch are passed to `persist`. `key` is the namespace.
    pub fn new(db: Arc<dyn Database>, key: String, epoch: Epoch, persist: Persist) -> Self {
        Self { db, key, epoch: Mutex::new(epoch), persist, is_retired: AtomicBool::new(false) }
    }

    /// Refuses all further writes.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    fn mark_stored(&self, stored: Epoch) {
        let mut epoch = lock(&self.epoch);
        if stored.is_new && *epoch == stored && !self.is_retired() {
            epoch.is_new = false;
            (self.persist)(*epoch);
        }
    }

    fn begin_next(&self) {
        let mut epoch = lock(&self.epoch);
        *epoch = Epoch { number: epoch.number + 1, is_new: true };
        if !self.is_retired() {
            (self.persist)(*epoch);
        }
    }
}

impl Database for Fenced {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let (count, writes) = (statements.len(), !is_read_only(statements));
            if writes && self.is_retired() {
                return Err(DbError::Refused(RETIRED.to_owned()));
            }
            let epoch = *lock(&self.epoch);
            let params = || -> [Value; 2] { [self.key.as_str().into(), epoch.number.into()] };
            // A CLI whose token is looked up may have named a namespace that does not exist: it gets no fence.
            let is_lookup = statements.iter().all(|statement| statement.sql == SELECT_BY_TOKEN);
            let begins = epoch.is_new && !is_lookup;
            statements.extend(begins.then(|| Statement::new(BEGIN_EPOCH, params())));
            statements.extend(writes.then(|| Statement::new(CHECK_EPOCH, params())));
            let result = self.db.batch(statements).await;
            statements.truncate(count);
            match result {
                Ok(mut rows) => {
                    rows.truncate(count);
                    if begins {
                        self.mark_stored(epoch);
                    }
                    Ok(rows)
                }
                Err(error) if !writes => Err(error),
                Err(error) if error.is_outcome_unknown() => {
                    self.begin_next();
                    Err(error)
                }
                // A batch of a later epoch arrived first, so this one was not committed and may be repeated in the current epoch.
                Err(DbError::Refused(why)) if lock(&self.epoch).number > epoch.number => Err(DbError::Retryable(why)),
                Err(error) => Err(error),
            }
        })
    }

    // Does not check the epoch, because no write depends on the result.
    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        self.db.query_joined(statement, limit)
    }
}
