//! The retry policy of all reads and writes: a batch without a known outcome is repeated for [`DB_RETRY_MS`], after pauses
//! that double up to [`MAX_DB_PAUSE_MS`], so that the first attempt after a stall of the database follows soon.
//!
//! A repeated write is harmless in a [`Fenced`](super::fence::Fenced) database: an earlier attempt that arrives late is
//! rejected, and writing the same rows twice changes nothing. Without a fence only idempotent writes may be retried.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::{Database, DbError, JoinedRows, Row, Statement};
use crate::limits::{DB_RETRY_MS, DB_STALL_MS, DB_TIMEOUT_MS, FIRST_DB_PAUSE_MS, MAX_DB_PAUSE_MS};
use crate::model::json::Json;

/// What retries need besides the database: time, randomness, and a record of stalls.
pub trait Host: Send + Sync {
    /// Returns the Unix time in milliseconds.
    fn now(&self) -> u64;
    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()>;
    /// Returns a random byte. Hubs that lose the database at the same time must not repeat their batches at the same time.
    fn random(&self) -> u8;
    /// Stores when a call that had stalled ended, in Unix milliseconds, if anything depends on it.
    fn record_stall(&self, _ended_at: u64) {}
    /// Logs a line of JSON at the level `warn`.
    fn log_warning(&self, line: &str);
}

/// A database whose batches are retried.
pub struct Retrying<D> {
    db: D,
    host: Box<dyn Host>,
    calls: Mutex<Calls>,
}

/// A call without a result.
struct Call {
    id: u64,
    /// Unix milliseconds.
    started_at: u64,
}

/// The calls without a result, the oldest first, and when calls last stalled.
#[derive(Default)]
struct Calls {
    last_id: u64,
    pending: Vec<Call>,
    /// In Unix milliseconds.
    last_stall_ended_at: Option<u64>,
    /// Whether the last call that ended did so because of an outage that outlasted the retries.
    is_unreachable: bool,
    /// When the stall began that was logged and whose end was not, in Unix milliseconds.
    logged_since: Option<u64>,
}

impl Calls {
    fn is_stalled(&self, now: u64) -> bool {
        self.pending.first().is_some_and(|call| call.started_at + DB_STALL_MS <= now)
    }

    /// Ends a call. Returns whether it had stalled, except for further ones within a second.
    fn end(&mut self, id: u64, now: u64) -> bool {
        let Some(index) = self.pending.iter().position(|call| call.id == id) else { return false };
        let has_stalled = self.pending.remove(index).started_at + DB_STALL_MS <= now;
        let is_new = has_stalled && self.last_stall_ended_at.is_none_or(|at| at + 1_000 <= now);
        if is_new {
            self.last_stall_ended_at = Some(now);
        }
        is_new
    }
}

/// The retries of one batch. Ends its call when it is dropped.
struct Retries<'a> {
    host: &'a dyn Host,
    calls: &'a Mutex<Calls>,
    id: u64,
    ends_at: u64,
    pause_ms: u64,
    /// The last fault after which the batch was repeated.
    fault: Option<String>,
    /// Whether the result is an outage; `None` without a result.
    is_unreachable: Option<bool>,
}

impl<D: Database> Retrying<D> {
    pub fn new(db: D, host: Box<dyn Host>) -> Self {
        Self { db, host, calls: Mutex::default() }
    }

    /// Returns how long until the database counts as stalled unless it answers, in milliseconds: 0 while it is stalled or
    /// unreachable.
    pub fn ms_until_stalled(&self, now: u64) -> u64 {
        let calls = lock(&self.calls);
        let ms = calls.pending.first().map_or(DB_STALL_MS, |call| (call.started_at + DB_STALL_MS).saturating_sub(now));
        if calls.is_unreachable { 0 } else { ms }
    }

    /// Returns when the last stall ended, in Unix milliseconds: `now` while a call has no result for [`DB_STALL_MS`], or the
    /// database is unreachable. `None` if no call has stalled.
    pub fn stalled_until(&self, now: u64) -> Option<u64> {
        let calls = lock(&self.calls);
        if calls.is_stalled(now) || calls.is_unreachable { Some(now) } else { calls.last_stall_ended_at }
    }

    /// Whether no call is in progress.
    pub fn is_idle(&self) -> bool {
        lock(&self.calls).pending.is_empty()
    }

    /// Whether the last call that ended did so because of an outage that outlasted the retries.
    pub fn is_unreachable(&self) -> bool {
        lock(&self.calls).is_unreachable
    }

    /// Checks once whether the database is reachable again, unless a call is in progress that will show it.
    pub async fn probe(&self) {
        if lock(&self.calls).pending.is_empty() {
            let mut call = begin(&*self.host, &self.calls);
            let result = self.db.batch(&mut vec![Statement::new("SELECT 1", [])]).await;
            call.is_unreachable = Some(result.is_err_and(|error| error.may_have_committed()));
        }
    }
}

fn begin<'a>(host: &'a dyn Host, calls: &'a Mutex<Calls>) -> Retries<'a> {
    let started_at = host.now();
    let mut state = lock(calls);
    // The platform ends a request of the worker without dropping its future.
    state.pending.retain(|call| call.started_at + DB_RETRY_MS + DB_TIMEOUT_MS >= started_at);
    state.last_id += 1;
    let id = state.last_id;
    state.pending.push(Call { id, started_at });
    let ends_at = started_at + DB_RETRY_MS;
    Retries { host, calls, id, ends_at, pause_ms: FIRST_DB_PAUSE_MS, fault: None, is_unreachable: None }
}

impl Retries<'_> {
    /// Waits until the next attempt. Otherwise returns the error of the batch: [`DbError::Unavailable`] if an earlier attempt
    /// may have committed it although the last one was refused.
    fn wait_after(&mut self, error: DbError) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move {
            let DbError::Retryable(fault) = error else {
                self.is_unreachable = Some(false);
                return Err(self.fault.take().map_or(error, DbError::Unavailable));
            };
            // At least half of the pause.
            let pause_ms = self.pause_ms / 2 + self.pause_ms * u64::from(self.host.random()) / 510;
            if self.host.now() + pause_ms > self.ends_at {
                self.is_unreachable = Some(true);
                return Err(DbError::Unavailable(fault));
            }
            self.fault = Some(fault);
            self.log_stall();
            self.host.sleep(pause_ms).await;
            self.pause_ms = MAX_DB_PAUSE_MS.min(self.pause_ms * 2);
            Ok(())
        })
    }

    /// Makes an attempt. Meanwhile the [watchdog](super::watchdog) wakes it every second, which shows a stall.
    async fn attempt<T>(&mut self, mut call: BoxFuture<'_, Result<T, DbError>>) -> Result<T, DbError> {
        let result = poll_fn(|context| {
            let result = call.as_mut().poll(context);
            if result.is_pending() {
                self.log_stall();
            }
            result
        });
        let result = result.await;
        if result.is_ok() {
            self.is_unreachable = Some(false);
        }
        result
    }

    /// Logs that the database is stalled, once for a stall.
    fn log_stall(&self) {
        let now = self.host.now();
        let mut calls = lock(self.calls);
        if calls.logged_since.is_none() && calls.is_stalled(now) {
            let since = calls.pending.first().map_or(now, |call| call.started_at);
            calls.logged_since = Some(since);
            let (ms, fault) = (now - since, Json::of(self.fault.as_deref().unwrap_or("D1 has not answered")));
            self.host.log_warning(&format!(r#"{{"event":"database-stalled","ms":{ms},"fault":{}}}"#, fault.text()));
        }
    }
}

impl Drop for Retries<'_> {
    fn drop(&mut self) {
        let now = self.host.now();
        let mut calls = lock(self.calls);
        if calls.end(self.id, now) {
            self.host.record_stall(now);
        }
        let Some(is_unreachable) = self.is_unreachable else { return };
        calls.is_unreachable = is_unreachable;
        if !is_unreachable
            && !calls.is_stalled(now)
            && let Some(since) = calls.logged_since.take()
        {
            self.host.log_warning(&format!(r#"{{"event":"database-recovered","ms":{}}}"#, now - since));
        }
    }
}

impl<D: Database> Database for Retrying<D> {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let mut retries = begin(&*self.host, &self.calls);
            loop {
                match retries.attempt(self.db.batch(statements)).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => retries.wait_after(error).await?,
                }
            }
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let mut retries = begin(&*self.host, &self.calls);
            loop {
                match retries.attempt(self.db.query_joined(statement, limit)).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => retries.wait_after(error).await?,
                }
            }
        })
    }
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
