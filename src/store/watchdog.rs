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
use crate::limits::{DB_RETRY_MS, DB_SILENCE_MS, DB_TIMEOUT_MS};

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
    /// A call is lost if one that was sent this much later was answered, in milliseconds. Doubles with each lost call,
    /// because a large batch may arrive after a small one that was sent later.
    loss_threshold_ms: u64,
    /// When the threshold falls back, in Unix milliseconds, unless a write is answered before: when the call that was lost last
    /// is not repeated any more.
    falls_back_at: u64,
}

impl Calls {
    fn is_lost(&mut self, sent_at: u64, now: u64) -> bool {
        if self.falls_back_at <= now {
            self.loss_threshold_ms = DB_SILENCE_MS;
        }
        let is_lost = self.last_answered_sent_at >= sent_at + self.loss_threshold_ms;
        if is_lost {
            self.loss_threshold_ms = DB_TIMEOUT_MS.min(self.loss_threshold_ms * 2);
            self.falls_back_at = now + DB_RETRY_MS;
        }
        is_lost
    }
}

impl Watched {
    pub fn new(db: Arc<dyn Database>, host: Box<dyn Host>) -> Self {
        let calls =
            Calls { last_sent_at: 0, last_answered_sent_at: 0, loss_threshold_ms: DB_SILENCE_MS, falls_back_at: 0 };
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
                if self.calls().is_lost(sent_at, now) {
                    return DbError::Retryable("D1 answered a later call".into());
                }
            }
        })
    }

    /// Runs a call until it is answered or lost.
    async fn watch<T>(&self, call: BoxFuture<'_, Result<T, DbError>>) -> Result<T, DbError> {
        let sent_at = self.record_sent();
        match select(call, self.wait_until_lost(sent_at)).await {
            Either::Left((result, _)) => {
                self.record_answer(sent_at, result.as_ref().err());
                result
            }
            Either::Right((error, _)) => Err(error),
        }
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
            let writes = !is_read_only(statements);
            let result = self.watch(self.db.batch(statements)).await;
            if writes && result.is_ok() {
                self.calls().loss_threshold_ms = DB_SILENCE_MS;
            }
            result
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(self.watch(self.db.query_joined(statement, limit)))
    }
}
