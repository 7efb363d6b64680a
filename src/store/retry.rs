//! The retry policy of all reads and writes: after a transient fault a batch is repeated, after pauses that double.
//!
//! A repeated write is harmless in a [`Fenced`](super::fence::Fenced) database: an earlier attempt that arrives late is
//! rejected, and writing the same rows twice changes nothing. Without a fence only idempotent writes may be retried.

use futures::future::BoxFuture;

use super::{Database, DbError, JoinedRows, Row, Statement};
use crate::limits::{FIRST_DB_RETRY_MS, MAX_DB_ATTEMPTS};

/// Sleeps for a number of milliseconds.
pub type Sleep = Box<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>;

/// A database whose batches are retried.
pub struct Retrying<D> {
    db: D,
    sleep: Sleep,
}

/// The retries of one batch.
struct Retries<'a> {
    sleep: &'a Sleep,
    attempts_left: u32,
    pause_ms: u64,
    /// The last transient fault.
    fault: Option<DbError>,
}

impl<D: Database> Retrying<D> {
    pub fn new(db: D, sleep: Sleep) -> Self {
        Self { db, sleep }
    }

    fn retries(&self) -> Retries<'_> {
        Retries { sleep: &self.sleep, attempts_left: MAX_DB_ATTEMPTS - 1, pause_ms: FIRST_DB_RETRY_MS, fault: None }
    }
}

impl Retries<'_> {
    /// Waits before the next attempt. If there is none, returns the last transient fault in place of `error`: the
    /// attempt that met it may have committed the batch, even if a later attempt was refused.
    async fn wait_after(&mut self, error: DbError) -> Result<(), DbError> {
        if !matches!(error, DbError::Retryable(_)) || self.attempts_left == 0 {
            return Err(self.fault.take().unwrap_or(error));
        }
        self.fault = Some(error);
        (self.sleep)(self.pause_ms).await;
        self.pause_ms *= 2;
        self.attempts_left -= 1;
        Ok(())
    }
}

impl<D: Database> Database for Retrying<D> {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let mut retries = self.retries();
            loop {
                match self.db.batch(statements).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => retries.wait_after(error).await?,
                }
            }
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let mut retries = self.retries();
            loop {
                match self.db.query_joined(statement, limit).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => retries.wait_after(error).await?,
                }
            }
        })
    }
}
