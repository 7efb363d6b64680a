//! The retry policy of all reads and writes: a batch without a known outcome is repeated for [`DB_RETRY_MS`], after pauses
//! that double up to [`MAX_DB_PAUSE_MS`], so that the first attempt after a stall of the database follows soon.
//!
//! A repeated write is harmless in a [`Fenced`](super::fence::Fenced) database: an earlier attempt that arrives late is
//! rejected, and writing the same rows twice changes nothing. Without a fence only idempotent writes may be retried.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::{Database, DbError, JoinedRows, Row, Statement};
use crate::limits::{DB_RETRY_MS, DB_STALL_MS, FIRST_DB_PAUSE_MS, MAX_DB_PAUSE_MS};

/// What retries need besides the database: time, randomness, and a record of stalls.
pub trait Host: Send + Sync {
    /// Returns the Unix time in milliseconds.
    fn now(&self) -> u64;
    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()>;
    /// Returns a random byte. Hubs that lose the database at the same time must not repeat their batches at the same time.
    fn random(&self) -> u8;
    /// Stores when a call that had stalled ended, in Unix milliseconds, if anything depends on it.
    fn record_stall(&self, _ended_at: u64) {}
}

/// A database whose batches are retried.
pub struct Retrying<D> {
    db: D,
    host: Box<dyn Host>,
    calls: Mutex<Calls>,
}

/// The calls without a result, and when calls last stalled.
#[derive(Default)]
struct Calls {
    last_id: u64,
    /// When each call without a result started, in Unix milliseconds.
    started_at: BTreeMap<u64, u64>,
    /// When the last call that stalled ended, in Unix milliseconds.
    last_stall_at: Option<u64>,
    /// Whether the last result was an outage that outlasted the retries.
    is_unreachable: bool,
}

impl Calls {
    /// Ends a call. Returns whether it had stalled, except for further ones within a second.
    fn end(&mut self, id: u64, now: u64) -> bool {
        let started_at = self.started_at.remove(&id);
        let has_stalled = started_at.is_some_and(|at| at + DB_STALL_MS <= now);
        let is_new = has_stalled && self.last_stall_at.is_none_or(|at| at + 1_000 <= now);
        if is_new {
            self.last_stall_at = Some(now);
        }
        is_new
    }
}

/// The retries of one batch. Removes its call from the list of calls when it is dropped.
struct Retries<'a> {
    host: &'a dyn Host,
    calls: &'a Mutex<Calls>,
    id: u64,
    ends_at: u64,
    pause_ms: u64,
    /// The last fault after which the batch was repeated.
    fault: Option<String>,
}

impl<D: Database> Retrying<D> {
    pub fn new(db: D, host: Box<dyn Host>) -> Self {
        Self { db, host, calls: Mutex::default() }
    }

    /// Returns until when clients may have been cut off by a stall, in Unix milliseconds: `now` while a call has no result
    /// for [`DB_STALL_MS`], or the database is unreachable. `None` if no call has stalled.
    pub fn last_stall_at(&self, now: u64) -> Option<u64> {
        let calls = lock(&self.calls);
        let is_stalled = calls.started_at.values().next().is_some_and(|at| at + DB_STALL_MS <= now);
        if is_stalled || calls.is_unreachable { Some(now) } else { calls.last_stall_at }
    }

    /// Whether the database was unreachable, and no call is in progress that shows whether it still is.
    pub fn needs_probe(&self) -> bool {
        let calls = lock(&self.calls);
        calls.is_unreachable && calls.started_at.is_empty()
    }

    fn begin(&self) -> Retries<'_> {
        let now = self.host.now();
        let mut calls = lock(&self.calls);
        calls.last_id += 1;
        let id = calls.last_id;
        calls.started_at.insert(id, now);
        let ends_at = now + DB_RETRY_MS;
        Retries { host: &*self.host, calls: &self.calls, id, ends_at, pause_ms: FIRST_DB_PAUSE_MS, fault: None }
    }
}

impl Retries<'_> {
    /// Waits until the next attempt after a fault. Otherwise returns the result of the batch: [`DbError::Unavailable`] if an
    /// earlier attempt may have committed it although the last one was refused.
    async fn next<T>(&mut self, result: Result<T, DbError>) -> Option<Result<T, DbError>> {
        let fault = match result {
            Err(DbError::Retryable(fault)) => fault,
            Err(error) => return Some(Err(self.fault.take().map_or(error, DbError::Unavailable))),
            Ok(rows) => return Some(Ok(rows)),
        };
        // At least half of the pause.
        let pause_ms = self.pause_ms / 2 + self.pause_ms * u64::from(self.host.random()) / 510;
        if self.host.now() + pause_ms > self.ends_at {
            return Some(Err(DbError::Unavailable(fault)));
        }
        self.fault = Some(fault);
        self.host.sleep(pause_ms).await;
        self.pause_ms = MAX_DB_PAUSE_MS.min(self.pause_ms * 2);
        None
    }

    fn finish<T>(&self, result: Result<T, DbError>) -> Result<T, DbError> {
        lock(self.calls).is_unreachable = matches!(result, Err(DbError::Unavailable(_)));
        result
    }
}

impl Drop for Retries<'_> {
    fn drop(&mut self) {
        let now = self.host.now();
        if lock(self.calls).end(self.id, now) {
            self.host.record_stall(now);
        }
    }
}

impl<D: Database> Database for Retrying<D> {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let mut retries = self.begin();
            loop {
                if let Some(result) = retries.next(self.db.batch(statements).await).await {
                    return retries.finish(result);
                }
            }
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let mut retries = self.begin();
            loop {
                if let Some(result) = retries.next(self.db.query_joined(statement, limit).await).await {
                    return retries.finish(result);
                }
            }
        })
    }
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
