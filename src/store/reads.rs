//! Reads that meet a passing fault are tried again: whoever asks would only do the same.

use futures::future::BoxFuture;

use super::{Database, DbError, Joined, Row, Statement, sql};

/// The pauses before further attempts, in milliseconds.
const PAUSES_MS: [u64; 2] = [50, 150];

/// Waits for so many milliseconds.
pub type Pause = Box<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>;

/// Whether a batch changes nothing, but that an epoch may begin with it ([`super::fence`]), which it does once however often
/// it is run.
pub fn only_reads(statements: &[Statement]) -> bool {
    let reads = |statement: &Statement| statement.sql.trim_start().starts_with("SELECT");
    statements.iter().all(|statement| reads(statement) || statement.sql == sql::BEGIN_EPOCH)
}

/// A database whose batches are tried again when they only read. Who writes decides for itself.
pub struct PatientReads<D> {
    db: D,
    pause: Pause,
}

impl<D: Database> PatientReads<D> {
    /// The same database, asked with patience.
    pub fn new(db: D, pause: Pause) -> Self {
        Self { db, pause }
    }

    async fn patiently<'a, T>(&self, read: impl Fn() -> BoxFuture<'a, Result<T, DbError>>) -> Result<T, DbError> {
        for pause in PAUSES_MS {
            match read().await {
                Err(DbError::Retryable(_)) => (self.pause)(pause).await,
                result => return result,
            }
        }
        read().await
    }
}

impl<D: Database> Database for PatientReads<D> {
    fn batch<'a>(&'a self, statements: &'a [Statement]) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        if only_reads(statements) {
            return Box::pin(self.patiently(|| self.db.batch(statements)));
        }
        self.db.batch(statements)
    }

    fn joined(&self, statement: Statement, limit: u64) -> BoxFuture<'_, Result<Joined, DbError>> {
        Box::pin(async move { self.patiently(|| self.db.joined(statement.clone(), limit)).await })
    }
}
