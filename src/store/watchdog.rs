//! Ends calls that the database will not answer. A call whose answer was lost would delay everything behind it by
//! [`DB_TIMEOUT_MS`], also when the database has long recovered from a stall.
//!
//! The database answers calls in the order in which they arrive. So a call is lost if a later one was answered: another
//! request, or the probe that is sent while calls are silent. It ends with an unknown outcome, and a
//! [`Fenced`](super::fence::Fenced) database rejects it if it arrives after all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, Either, select};

use super::fence::is_read_only;
use super::retry::Host;
use super::{Database, DbError, JoinedRows, Row, Statement};
use crate::limits::{DB_SILENCE_MS, DB_TIMEOUT_MS};

/// A database whose lost calls end.
pub struct Watched {
    db: Arc<dyn Database>,
    host: Box<dyn Host>,
    calls: Mutex<Calls>,
}

struct Calls {
    /// When the last call was sent, in Unix milliseconds.
    last_sent_at: u64,
    /// When the last of the calls that were answered was sent, in Unix milliseconds.
    last_answered_sent_at: u64,
    /// A call is lost if one that was sent this much later was answered, in milliseconds. Doubles with each lost call until
    /// a write is answered: a large batch may arrive after a small one that was sent later.
    patience_ms: u64,
}

impl Watched {
    pub fn new(db: Arc<dyn Database>, host: Box<dyn Host>) -> Self {
        let calls = Calls { last_sent_at: 0, last_answered_sent_at: 0, patience_ms: DB_SILENCE_MS };
        Self { db, host, calls: Mutex::new(calls) }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_sent(&self) -> u64 {
        let now = self.host.now();
        self.calls().last_sent_at = now;
        now
    }

    fn record_answer(&self, sent_at: u64, error: Option<&DbError>) {
        // An error without a known outcome may come from anything between the hub and the database.
        if !error.is_some_and(DbError::may_have_committed) {
            let mut calls = self.calls();
            calls.last_answered_sent_at = calls.last_answered_sent_at.max(sent_at);
        }
    }

    /// Returns the error of a call when it is lost. Sends a probe if no other call shows whether the database answers.
    fn wait_until_lost(&self, sent_at: u64) -> BoxFuture<'_, DbError> {
        Box::pin(async move {
            loop {
                self.host.sleep(DB_SILENCE_MS / 2).await;
                let now = self.host.now();
                if now >= sent_at + DB_TIMEOUT_MS {
                    return DbError::Retryable("D1 did not answer in time".into());
                }
                if now >= sent_at + DB_SILENCE_MS && now >= self.calls().last_sent_at + DB_SILENCE_MS {
                    self.probe().await;
                }
                let mut calls = self.calls();
                if calls.last_answered_sent_at >= sent_at + calls.patience_ms {
                    calls.patience_ms = DB_TIMEOUT_MS.min(calls.patience_ms * 2);
                    return DbError::Retryable("D1 answered a later call".into());
                }
            }
        })
    }

    async fn probe(&self) {
        let sent_at = self.record_sent();
        let mut statements = vec![Statement::new("SELECT 1", [])];
        if let Either::Left((result, _)) = select(self.db.batch(&mut statements), self.host.sleep(DB_SILENCE_MS)).await
        {
            self.record_answer(sent_at, result.err().as_ref());
        }
    }
}

impl Database for Watched {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let (sent_at, writes) = (self.record_sent(), !is_read_only(statements));
            match select(self.db.batch(statements), self.wait_until_lost(sent_at)).await {
                Either::Left((result, _)) => {
                    self.record_answer(sent_at, result.as_ref().err());
                    if writes && result.is_ok() {
                        self.calls().patience_ms = DB_SILENCE_MS;
                    }
                    result
                }
                Either::Right((error, _)) => Err(error),
            }
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let sent_at = self.record_sent();
            match select(self.db.query_joined(statement, limit), self.wait_until_lost(sent_at)).await {
                Either::Left((result, _)) => result,
                Either::Right((error, _)) => Err(error),
            }
        })
    }
}
