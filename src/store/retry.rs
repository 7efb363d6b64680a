//! The retry policy of all reads and writes. A batch with an unknown outcome is repeated for [`DB_RETRY_PERIOD_MS`]. The pauses between
//! attempts double up to [`MAX_DB_PAUSE_MS`], which is short, so that an attempt soon follows the end of a stall.
//!
//! A repeated write is harmless in a [`Fenced`](super::fence::Fenced) database: an earlier attempt that arrives late is
//! rejected, and writing the same rows twice changes nothing. Without a fence only idempotent writes may be retried.

use std::future::poll_fn;
use std::sync::Mutex;

use futures::future::BoxFuture;

use super::{Database, DbError, JoinedRows, Row, Statement};
use crate::limits::{DB_RETRY_PERIOD_MS, DB_STALL_MS, DB_TIMEOUT_MS};
use crate::log::{Level, LogLine};
use crate::memory_budget::lock;

/// The longest pause between two attempts of a query, in milliseconds. After a stall, requests continue within this time.
pub const MAX_DB_PAUSE_MS: u64 = 2_000;

/// The longest pause after the first failed attempt, in milliseconds. Then the pause doubles, up to [`MAX_DB_PAUSE_MS`].
const FIRST_DB_PAUSE_MS: u64 = 100;

/// What retries need besides the database: time, randomness, a log, and a record of stalls.
pub trait Environment: Send + Sync {
    /// Returns the Unix time in milliseconds.
    fn now(&self) -> u64;
    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()>;
    /// Returns a random byte for jitter: hubs that lose the database at the same time must not repeat their batches at the same time.
    fn random(&self) -> u8;
    /// Generates a secret of 32 random bytes. `None`, which is also the default, without a random source.
    fn generate_secret(&self) -> Option<String> {
        None
    }
    /// Records that a stalled query ended, at a time in Unix milliseconds. The default does nothing.
    fn record_stall(&self, _ended_at: u64) {}
    /// Records that a query is repeated. The default does nothing.
    fn record_retry(&self) {}
    fn log(&self, line: LogLine);
}

pub struct Retrying<D> {
    /// The database without retries.
    pub db: D,
    environment: Box<dyn Environment>,
    queries: Mutex<Queries>,
}

struct PendingQuery {
    id: u64,
    /// Unix milliseconds.
    started_at: u64,
}

/// The queries without a result, the oldest first, and when queries last stalled.
#[derive(Default)]
struct Queries {
    last_id: u64,
    pending: Vec<PendingQuery>,
    /// In Unix milliseconds.
    last_stall_ended_at: Option<u64>,
    /// Whether the last query that ended failed because an outage was longer than its retries.
    is_unreachable: bool,
    /// The start of the stall that was logged and has not ended, in Unix milliseconds.
    logged_stall_since: Option<u64>,
}

impl Queries {
    fn is_stalled(&self, now: u64) -> bool {
        self.pending.first().is_some_and(|query| query.started_at + DB_STALL_MS <= now)
    }

    /// Removes a query that has ended. Returns whether to record the end of a stall: it had stalled, and none was recorded for a second.
    fn remove(&mut self, id: u64, now: u64) -> bool {
        let Some(index) = self.pending.iter().position(|query| query.id == id) else { return false };
        let has_stalled = self.pending.remove(index).started_at + DB_STALL_MS <= now;
        let is_new = has_stalled && self.last_stall_ended_at.is_none_or(|at| at + 1_000 <= now);
        if is_new {
            self.last_stall_ended_at = Some(now);
        }
        is_new
    }
}

/// The retries of one query. When dropped, removes the query from the pending queries.
struct Retries<'a> {
    environment: &'a dyn Environment,
    queries: &'a Mutex<Queries>,
    id: u64,
    ends_at: u64,
    pause_ms: u64,
    /// The last fault after which the batch was repeated.
    fault: Option<String>,
    /// Whether the query failed because of an outage; `None` while the query has no result.
    is_unreachable: Option<bool>,
}

impl<D: Database> Retrying<D> {
    pub fn new(db: D, environment: Box<dyn Environment>) -> Self {
        Self { db, environment, queries: Mutex::default() }
    }

    /// Returns how long until an unanswered query makes the database count as stalled, in milliseconds; 0 if stalled or unreachable.
    pub fn ms_until_stalled(&self, now: u64) -> u64 {
        let queries = lock(&self.queries);
        let ms =
            queries.pending.first().map_or(DB_STALL_MS, |query| (query.started_at + DB_STALL_MS).saturating_sub(now));
        if queries.is_unreachable { 0 } else { ms }
    }

    /// Returns the last time at which the database was stalled, in Unix milliseconds: `now` if a query has no result for
    /// [`DB_STALL_MS`] or the database is unreachable, else the end of the last stall. `None` if no query has stalled.
    pub fn last_stalled_at(&self, now: u64) -> Option<u64> {
        let queries = lock(&self.queries);
        if queries.is_stalled(now) || queries.is_unreachable { Some(now) } else { queries.last_stall_ended_at }
    }

    /// Whether no query waits for its result.
    pub fn is_idle(&self) -> bool {
        lock(&self.queries).pending.is_empty()
    }

    /// Whether the last query that ended failed because an outage was longer than its retries.
    pub fn is_unreachable(&self) -> bool {
        lock(&self.queries).is_unreachable
    }

    /// Checks once whether the database is reachable again, unless a query in progress will show it.
    pub async fn probe(&self) {
        if self.is_idle() {
            let mut retries = Retries::begin(&*self.environment, &self.queries);
            let result = self.db.batch(&mut vec![Statement::new("SELECT 1", [])]).await;
            retries.is_unreachable = Some(result.is_err_and(|error| error.is_outcome_unknown()));
        }
    }
}

impl<'a> Retries<'a> {
    fn begin(environment: &'a dyn Environment, queries: &'a Mutex<Queries>) -> Self {
        let started_at = environment.now();
        let mut state = lock(queries);
        // Removes queries whose request has ended: the platform ends a request of the worker without dropping its future.
        state.pending.retain(|query| query.started_at + DB_RETRY_PERIOD_MS + DB_TIMEOUT_MS >= started_at);
        state.last_id += 1;
        let id = state.last_id;
        state.pending.push(PendingQuery { id, started_at });
        let ends_at = started_at + DB_RETRY_PERIOD_MS;
        Self { environment, queries, id, ends_at, pause_ms: FIRST_DB_PAUSE_MS, fault: None, is_unreachable: None }
    }

    /// Waits for the next attempt if `error` is retryable and time is left. Otherwise returns the error of the query:
    /// [`DbError::Unavailable`] if the last attempt was refused, but an earlier attempt may have committed the batch.
    fn wait_or_fail(&mut self, error: DbError) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move {
            let DbError::Retryable(fault) = error else {
                self.is_unreachable = Some(false);
                return Err(self.fault.take().map_or(error, DbError::Unavailable));
            };
            // Jitter: between half of the pause and all of it.
            let half_ms = self.pause_ms / 2;
            let pause_ms = half_ms + self.pause_ms * u64::from(self.environment.random()) / (2 * u64::from(u8::MAX));
            if self.environment.now() + pause_ms > self.ends_at {
                self.is_unreachable = Some(true);
                return Err(DbError::Unavailable(fault));
            }
            self.fault = Some(fault);
            self.log_stall();
            self.environment.record_retry();
            self.environment.sleep(pause_ms).await;
            self.pause_ms = MAX_DB_PAUSE_MS.min(self.pause_ms * 2);
            Ok(())
        })
    }

    /// Makes an attempt, and logs a stall while it lasts. The [watchdog](super::watchdog) wakes this task every second.
    async fn attempt<T>(&mut self, mut query: BoxFuture<'_, Result<T, DbError>>) -> Result<T, DbError> {
        let result = poll_fn(|context| {
            let result = query.as_mut().poll(context);
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
        let now = self.environment.now();
        let mut queries = lock(self.queries);
        if queries.logged_stall_since.is_none() && queries.is_stalled(now) {
            let since = queries.pending.first().map_or(now, |query| query.started_at);
            queries.logged_stall_since = Some(since);
            let fault = self.fault.as_deref().unwrap_or("D1 has not answered");
            let line = LogLine::new(Level::Warn, "database-stalled");
            self.environment.log(line.number("ms", now - since).text("fault", fault));
        }
    }
}

impl Drop for Retries<'_> {
    fn drop(&mut self) {
        let now = self.environment.now();
        let mut queries = lock(self.queries);
        if queries.remove(self.id, now) {
            self.environment.record_stall(now);
        }
        let Some(is_unreachable) = self.is_unreachable else { return };
        queries.is_unreachable = is_unreachable;
        if !is_unreachable
            && !queries.is_stalled(now)
            && let Some(since) = queries.logged_stall_since.take()
        {
            self.environment.log(LogLine::new(Level::Info, "database-recovered").number("ms", now - since));
        }
    }
}

impl<D: Database> Database for Retrying<D> {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let mut retries = Retries::begin(&*self.environment, &self.queries);
            loop {
                match retries.attempt(self.db.batch(statements)).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => retries.wait_or_fail(error).await?,
                }
            }
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let mut retries = Retries::begin(&*self.environment, &self.queries);
            loop {
                match retries.attempt(self.db.query_joined(statement, limit)).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => retries.wait_or_fail(error).await?,
                }
            }
        })
    }

    // Without retries: only an operator requests the size, and can repeat the request.
    fn size(&self) -> BoxFuture<'_, Result<u64, DbError>> {
        self.db.size()
    }
}
