//! Batches whose answer never came may still be on their way to the database, and arrive when newer ones have been
//! written. So each that writes names an epoch, and a new one begins with every such fault, and with every hub before which
//! another one may have been cut off: before anything is read or written again the database is told of it, and what is late
//! then fails as a whole.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::{Database, DbError, Joined, Row, Statement, Value, reads, sql};
use crate::model::namespace::Namespace;

/// Keeps an epoch over sleeps and restarts.
pub type Keep = Box<dyn Fn(Epoch) + Send + Sync>;

/// In which epoch a namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    number: u64,
    /// Whether the database may not know of it yet: something of an earlier one may still arrive.
    is_new: bool,
}

/// What stands behind the number of an epoch that is new, in its note.
const NEW: &str = " new";

impl Epoch {
    /// The epoch of a hub that wakes, by the note of the last one. One that `rested` goes on in it: nothing was on its way
    /// when the one before it fell asleep. Else a new one begins; the time, in Unix milliseconds, is above all epochs whose
    /// notes are lost.
    pub fn of_wake(note: Option<&str>, rested: bool, now: u64) -> Self {
        match note.and_then(Self::of_note) {
            Some(noted) if rested => noted,
            Some(noted) => Self { number: now.max(noted.number + 1), is_new: true },
            None => Self { number: now, is_new: true },
        }
    }

    /// The epoch as the notebook has it.
    pub fn note(self) -> String {
        format!("{}{}", self.number, if self.is_new { NEW } else { "" })
    }

    fn of_note(note: &str) -> Option<Self> {
        let number = note.strip_suffix(NEW);
        Some(Self { number: number.unwrap_or(note).parse().ok()?, is_new: number.is_some() })
    }
}

/// The database of one namespace, for the one hub that writes to it.
pub struct Fenced {
    db: Arc<dyn Database>,
    namespace: Namespace,
    epoch: Mutex<Epoch>,
    keep: Keep,
}

impl Fenced {
    /// The database for a hub that wakes in an epoch. Whatever becomes of the epoch later is kept.
    pub fn new(db: Arc<dyn Database>, namespace: Namespace, epoch: Epoch, keep: Keep) -> Self {
        Self { db, namespace, epoch: Mutex::new(epoch), keep }
    }

    fn epoch(&self) -> MutexGuard<'_, Epoch> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a batch once. Statements are added to it while it is under way, so that nothing of it has to be copied.
    pub async fn run(&self, statements: &mut Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError> {
        let (own, writes) = (statements.len(), !reads::only_reads(statements));
        let epoch = *self.epoch();
        let params = || -> [Value; 2] { [self.namespace.as_ref().into(), epoch.number.into()] };
        statements.extend(epoch.is_new.then(|| Statement::new(sql::BEGIN_EPOCH, params())));
        statements.extend(writes.then(|| Statement::new(sql::CHECK_EPOCH, params())));
        let result = self.db.batch(statements).await;
        statements.truncate(own);
        match result {
            Ok(mut rows) => {
                rows.truncate(own);
                self.is_known(epoch);
                Ok(rows)
            }
            Err(error) if !writes => Err(error),
            Err(error) if error.leaves_doubt() => {
                self.begin_next();
                Err(error)
            }
            // It was overtaken by a batch of a later epoch, and may go again in that one.
            Err(DbError::Refused(why)) if self.epoch().number > epoch.number => Err(DbError::Retryable(why)),
            Err(error) => Err(error),
        }
    }

    /// The database knows of an epoch.
    fn is_known(&self, epoch: Epoch) {
        let mut present = self.epoch();
        if epoch.is_new && *present == epoch {
            present.is_new = false;
            (self.keep)(*present);
        }
    }

    fn begin_next(&self) {
        let mut epoch = self.epoch();
        *epoch = Epoch { number: epoch.number + 1, is_new: true };
        (self.keep)(*epoch);
    }
}

impl Database for Fenced {
    fn batch<'a>(&'a self, statements: &'a [Statement]) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        if reads::only_reads(statements) && !self.epoch().is_new {
            return self.db.batch(statements);
        }
        Box::pin(async move { self.run(&mut statements.to_vec()).await })
    }

    // Whatever the epoch is: a page is for whoever asks, and nothing is built on it.
    fn joined(&self, statement: Statement, limit: u64) -> BoxFuture<'_, Result<Joined, DbError>> {
        self.db.joined(statement, limit)
    }
}
