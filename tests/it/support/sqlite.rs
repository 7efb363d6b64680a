//! [`Database`] on SQLite, whose dialect D1 has, with the migrations of D1. It can inject faults, lose the result of a
//! committed batch and delay results.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::oneshot;
use futures::future::BoxFuture;
use session_gateway_hub::store::columns::Columns;
use session_gateway_hub::store::fence::is_read_only;
use session_gateway_hub::store::{Database, DbError, JoinedRows, Row, Statement, Value, query};

/// An error after which the hub retries a batch.
pub fn retryable_error() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

/// An error that the hub does not retry.
pub fn permanent_error() -> DbError {
    DbError::Refused("disk I/O error".into())
}

/// An error after which the hub retries a batch.
/// An error that the hub does not retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    Reads,
    Writes,
}

impl BatchKind {
    pub fn of(statements: &[Statement]) -> Self {
        if is_read_only(statements) { Self::Reads } else { Self::Writes }
    }
}

struct Fault {
    on: BatchKind,
    error: DbError,
    /// Whether the batch is committed before the fault.
    after_commit: bool,
}

#[derive(Default)]
struct Script {
    /// Each applies to one batch of its kind.
    faults: VecDeque<Fault>,
    /// The next batch of this kind never returns.
    hanging: Option<BatchKind>,
    /// Applies to every batch of its kind without another fault.
    permanent: Option<(BatchKind, DbError)>,
    held: Vec<BatchKind>,
    waiting: Vec<oneshot::Sender<()>>,
    /// The statements of every read, in order.
    reads: Vec<Vec<Statement>>,
    /// The statements of every write, in order, including failed ones.
    writes: Vec<Vec<Statement>>,
}

/// An in-memory database.
pub struct Sqlite {
    connection: Mutex<rusqlite::Connection>,
    script: Mutex<Script>,
}

impl Sqlite {
    /// A database with every migration applied.
    pub fn with_schema() -> Self {
        let db = Self::without_schema();
        db.migrate();
        db
    }

    pub fn without_schema() -> Self {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        connection.set_prepared_statement_cache_capacity(100);
        Self { connection: Mutex::new(connection), script: Mutex::default() }
    }

    /// Runs every migration.
    pub fn migrate(&self) {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
        let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files {
            self.execute(&std::fs::read_to_string(file).unwrap());
        }
    }

    /// Runs SQL that is neither counted nor subject to faults.
    pub fn execute(&self, sql: &str) {
        lock(&self.connection).execute_batch(sql).unwrap();
    }

    /// Runs a query that is neither counted nor subject to faults.
    pub fn select(&self, sql: &str) -> Vec<Row> {
        run(&lock(&self.connection), sql, &[]).unwrap()
    }

    /// The same for a query that returns one number.
    pub fn number(&self, sql: &str) -> i64 {
        match self.select(sql).pop().and_then(|mut row| row.pop()) {
            Some(Value::Integer(number)) => number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The next batch of this kind fails and is not committed.
    pub fn fail(&self, on: BatchKind, error: DbError) {
        lock(&self.script).faults.push_back(Fault { on, error, after_commit: false });
    }

    /// The next write is committed, but returns the error.
    pub fn lose_response(&self, error: DbError) {
        lock(&self.script).faults.push_back(Fault { on: BatchKind::Writes, error, after_commit: true });
    }

    /// The next batch of this kind is not run and never returns.
    pub fn hang_next(&self, on: BatchKind) {
        lock(&self.script).hanging = Some(on);
    }

    /// Every batch of this kind fails from now on.
    pub fn fail_all(&self, on: BatchKind, error: DbError) {
        lock(&self.script).permanent = Some((on, error));
    }

    /// Ends all faults.
    pub fn repair(&self) {
        let mut script = lock(&self.script);
        script.permanent = None;
        script.faults.clear();
    }

    /// Batches of this kind are run, but their results wait for [`release`](Self::release).
    pub fn hold(&self, on: BatchKind) {
        lock(&self.script).held = vec![on];
    }

    /// Batches of every kind are run, but their results wait.
    pub fn hold_all(&self) {
        lock(&self.script).held = vec![BatchKind::Reads, BatchKind::Writes];
    }

    /// Releases one held result by its index.
    pub fn release_one(&self, at: usize) {
        let _ = lock(&self.script).waiting.remove(at).send(());
    }

    /// Releases all held results and stops holding.
    pub fn release(&self) {
        let mut script = lock(&self.script);
        script.held.clear();
        for waiting in script.waiting.drain(..) {
            let _ = waiting.send(());
        }
    }

    /// Stops holding further results.
    pub fn stop_holding(&self) {
        lock(&self.script).held.clear();
    }

    pub fn held_count(&self) -> usize {
        lock(&self.script).waiting.len()
    }

    pub fn read_count(&self) -> usize {
        lock(&self.script).reads.len()
    }

    pub fn read_batches(&self) -> Vec<Vec<Statement>> {
        lock(&self.script).reads.clone()
    }

    /// The number of writes, including failed ones.
    pub fn write_count(&self) -> usize {
        lock(&self.script).writes.len()
    }

    /// The statements of each write, including failed ones.
    pub fn write_batches(&self) -> Vec<Vec<Statement>> {
        lock(&self.script).writes.clone()
    }

    /// Executes a batch that timed out before.
    pub fn execute_late(&self, batch: &[Statement]) -> Result<(), DbError> {
        self.commit(batch).map(drop)
    }

    fn commit(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, DbError> {
        check_limits(statements)?;
        let to_error = |error: rusqlite::Error| DbError::from_message(error.to_string());
        let mut connection = lock(&self.connection);
        // Dropping the transaction rolls it back.
        let transaction = connection.transaction().map_err(to_error)?;
        let results = statements.iter().map(|s| run(&transaction, s.sql, &s.params));
        let results = results.collect::<Result<_, _>>().map_err(to_error)?;
        transaction.commit().map_err(to_error)?;
        Ok(results)
    }

    fn run_batch(&self, on: BatchKind, statements: &[Statement]) -> Result<Vec<Vec<Row>>, DbError> {
        let fault = {
            let mut script = lock(&self.script);
            let position = script.faults.iter().position(|fault| fault.on == on);
            let queued = position.and_then(|position| script.faults.remove(position));
            let permanent = script.permanent.clone().filter(|(kind, _)| *kind == on);
            queued.or(permanent.map(|(on, error)| Fault { on, error, after_commit: false }))
        };
        match fault {
            Some(Fault { error, after_commit: false, .. }) => Err(error),
            Some(Fault { error, .. }) => self.commit(statements).and(Err(error)),
            None => self.commit(statements),
        }
    }
}

impl Database for Sqlite {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let on = BatchKind::of(statements);
            let hangs = {
                let mut script = lock(&self.script);
                match on {
                    BatchKind::Reads => script.reads.push(statements.to_vec()),
                    BatchKind::Writes => script.writes.push(statements.to_vec()),
                }
                script.hanging.take_if(|kind| *kind == on).is_some()
            };
            if hangs {
                return std::future::pending().await;
            }
            let result = self.run_batch(on, statements);
            let waiting = {
                let mut script = lock(&self.script);
                script.held.contains(&on).then(|| {
                    let (sender, receiver) = oneshot::channel();
                    script.waiting.push(sender);
                    receiver
                })
            };
            if let Some(waiting) = waiting {
                let _ = waiting.await;
            }
            result
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let rows = query(self, statement.clone()).await?;
            let mut joined = JoinedRows { rows: rows.len() as u64, ..JoinedRows::default() };
            let mut texts = Vec::new();
            for (at, row) in rows.into_iter().enumerate() {
                let mut c = Columns::new("messages", row);
                let (seq, text, parts) = (c.number("seq")?, c.text("body")?, c.number("parts")?);
                if (at as u64) < limit {
                    joined.last_seq = Some(seq);
                    joined.in_parts |= parts > 0;
                    texts.push(text);
                }
            }
            joined.text = texts.join(",");
            Ok(joined)
        })
    }
}

/// Checks the limits of D1 that SQLite does not have: 100 parameters, texts of 2 MB.
fn check_limits(statements: &[Statement]) -> Result<(), DbError> {
    for Statement { sql, params } in statements {
        let is_too_long = |param: &Value| matches!(param, Value::Text(text) if text.len() > 2_000_000);
        if params.len() > 100 || sql.len() > 100_000 || params.iter().any(is_too_long) {
            return Err(DbError::from_message("string or blob too big: SQLITE_TOOBIG".into()));
        }
    }
    Ok(())
}

fn run(connection: &rusqlite::Connection, sql: &str, params: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let mut prepared = connection.prepare_cached(sql)?;
    let params = params.iter().map(|param| match param {
        Value::Null => rusqlite::types::Value::Null,
        Value::Integer(number) => rusqlite::types::Value::Integer(*number),
        Value::Text(text) => rusqlite::types::Value::Text(text.clone()),
    });
    let width = prepared.column_count();
    let mut rows = prepared.query(rusqlite::params_from_iter(params))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |i| match row.get_ref(i).unwrap() {
            rusqlite::types::ValueRef::Null => Value::Null,
            rusqlite::types::ValueRef::Integer(number) => Value::Integer(number),
            rusqlite::types::ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
            other => panic!("the hub stores no column of this type: {other:?}"),
        };
        found.push((0..width).map(column).collect());
    }
    Ok(found)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
