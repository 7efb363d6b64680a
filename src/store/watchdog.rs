//! Ends queries that the database will not answer. Without the watchdog, a lost query would delay all queries behind it by
//! [`DB_TIMEOUT_MS`], even after the database has recovered from a stall.
//!
//! The database answers queries in the order in which they arrive. So a query is lost if a query that was sent later was answered. If
//! there is no later query, the watchdog sends a probe. A lost query ends with an unknown outcome; a
//! [`Fenced`](super::fence::Fenced) database rejects the query if it arrives after all.

use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, Either, select};

use super::fence::is_read_only;
use super::retry::Environment;
use super::{Database, DbError, JoinedRows, Row, Statement};
use crate::limits::{DB_RETRY_PERIOD_MS, DB_TIMEOUT_MS};
use crate::memory_budget::lock;

/// The time without a result after which a query is lost if the database has answered a later query, in milliseconds.
pub const DB_SILENCE_MS: u64 = 2_000;
const _: () = assert!(DB_SILENCE_MS < DB_TIMEOUT_MS);

/// A database that ends lost queries with an error. [`Retrying`](super::retry::Retrying) repeats them.
pub struct Watchdog {
    db: Arc<dyn Database>,
    environment: Box<dyn Environment>,
    times: Mutex<QueryTimes>,
}

/// When queries were sent and answered, and when the next query counts as lost.
#[derive(Default)]
struct QueryTimes {
    /// When the last query was sent, in Unix milliseconds.
    last_sent_at: u64,
    /// When the last of the answered queries was sent, in Unix milliseconds.
    last_answered_sent_at: u64,
    /// A query without an answer is lost once a query is answered that was sent this many milliseconds later. Doubles with each
    /// lost query, because a large batch may arrive after a small batch that was sent later.
    loss_threshold_ms: u64,
    /// When the retries of the last lost query end, in Unix milliseconds. The threshold is reset then, or when a write succeeds.
    threshold_resets_at: u64,
}

impl QueryTimes {
    fn is_lost(&mut self, sent_at: u64, now: u64) -> bool {
        if self.threshold_resets_at <= now {
            self.loss_threshold_ms = DB_SILENCE_MS;
        }
        let is_lost = self.last_answered_sent_at >= sent_at + self.loss_threshold_ms;
        if is_lost {
            self.loss_threshold_ms = DB_TIMEOUT_MS.min(self.loss_threshold_ms * 2);
            self.threshold_resets_at = now + DB_RETRY_PERIOD_MS;
        }
        is_lost
    }
}

impl Watchdog {
    pub fn new(db: Arc<dyn Database>, environment: Box<dyn Environment>) -> Self {
        Self { db, environment, times: Mutex::default() }
    }

    fn record_sent(&self) -> u64 {
        let now = self.environment.now();
        lock(&self.times).last_sent_at = now;
        now
    }

    fn record_answer(&self, sent_at: u64, error: Option<&DbError>) {
        // An error without a known outcome may come from anything between the hub and the database.
        if !error.is_some_and(DbError::is_outcome_unknown) {
            let mut times = lock(&self.times);
            times.last_answered_sent_at = times.last_answered_sent_at.max(sent_at);
        }
    }

    /// Returns the error of a query when it is lost. Sends a probe if no other query shows whether the database answers.
    fn wait_until_lost(&self, sent_at: u64) -> BoxFuture<'_, DbError> {
        Box::pin(async move {
            loop {
                self.environment.sleep(DB_SILENCE_MS / 2).await;
                let now = self.environment.now();
                if now >= sent_at + DB_TIMEOUT_MS {
                    return DbError::Retryable("D1 did not answer in time".into());
                }
                if now >= sent_at + DB_SILENCE_MS && now >= lock(&self.times).last_sent_at + DB_SILENCE_MS {
                    self.probe().await;
                }
                if lock(&self.times).is_lost(sent_at, now) {
                    return DbError::Retryable("D1 answered a later query".into());
                }
            }
        })
    }

    /// Runs a query until it is answered or lost.
    async fn watch<T>(&self, query: BoxFuture<'_, Result<T, DbError>>) -> Result<T, DbError> {
        let sent_at = self.record_sent();
        match select(query, self.wait_until_lost(sent_at)).await {
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
        if let Either::Left((result, _)) =
            select(self.db.batch(&mut statements), self.environment.sleep(DB_SILENCE_MS)).await
        {
            self.record_answer(sent_at, result.err().as_ref());
        }
    }
}

impl Database for Watchdog {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let writes = !is_read_only(statements);
            let result = self.watch(self.db.batch(statements)).await;
            if writes && result.is_ok() {
                lock(&self.times).loss_threshold_ms = DB_SILENCE_MS;
            }
            result
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(self.watch(self.db.query_joined(statement, limit)))
    }

    // Without retries: only an operator requests the size, and can repeat the request.
    fn size(&self) -> BoxFuture<'_, Result<u64, DbError>> {
        self.db.size()
    }
}
