//! [`Database`] on SQLite, whose SQL dialect D1 uses, with the migrations of D1. It can inject faults, lose the result of a
//! committed batch and delay results.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use rusqlite::StatementStatus;
use rusqlite::backup::Backup;
use session_gateway_hub::store::columns::Columns;
use session_gateway_hub::store::fence::is_read_only;
use session_gateway_hub::store::{JoinedRows, Row, Statement, Value, query};

use super::prelude::*;

/// An error after which the hub retries a batch.
pub fn retryable_error() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

/// An error that the hub does not retry: the database refuses the batch.
pub fn permanent_error() -> DbError {
    DbError::Refused("constraint failed".into())
}

/// Whether a batch only reads.
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

/// The bytes of the parameters of a batch.
pub fn parameter_bytes(batch: &[Statement]) -> usize {
    let bytes = |value: &Value| if let Value::Text(text) = value { text.len() } else { 8 };
    batch.iter().flat_map(|statement| &statement.params).map(bytes).sum()
}

struct Fault {
    kind: BatchKind,
    error: DbError,
    /// Whether the batch is committed although its result is the error.
    is_committed: bool,
}

#[derive(Default)]
struct Script {
    /// Faults of the next batches. A batch gets the first fault of its kind.
    faults: VecDeque<Fault>,
    /// The next batch of this kind is not executed and never returns.
    never_returns_next: Option<BatchKind>,
    /// No batch is executed or returns.
    is_silent: bool,
    /// The error of every batch of a kind that has no other fault.
    outages: Vec<(BatchKind, DbError)>,
    /// The kinds of batches whose results are held.
    held_kinds: Vec<BatchKind>,
    /// One sender for each held result, in the order of the batches. A message releases the result.
    held_results: Vec<oneshot::Sender<()>>,
    /// The statements of every read, in order, including failed reads.
    reads: Vec<Vec<Statement>>,
    /// The statements of every write, in order, including failed writes.
    writes: Vec<Vec<Statement>>,
    /// How long a batch takes on tokio's clock.
    round_trip: Duration,
    /// Called for each batch.
    hook: Option<Hook>,
}

/// Decides what happens to a batch.
pub type Hook = Arc<dyn Fn(&[Statement]) -> Fate + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Execute,
    /// The batch is not executed and never returns.
    Lost,
    /// The batch is executed and never returns.
    ExecutedAndLost,
}

const SELECT_SIZE: &str = "SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size";

/// An in-memory database.
pub struct Sqlite {
    connection: Mutex<rusqlite::Connection>,
    script: Mutex<Script>,
    /// The most steps in SQLite's virtual machine that a statement has taken since [`Sqlite::take_most_steps`].
    most_steps: AtomicI32,
}

impl Sqlite {
    /// A database with every migration applied.
    pub fn with_schema() -> Self {
        // Migrated once, because the migrations take longer than most tests.
        static MIGRATED: LazyLock<Sqlite> = LazyLock::new(|| {
            let db = Sqlite::without_schema();
            db.migrate();
            db
        });
        let db = Self::without_schema();
        Backup::new(&lock(&MIGRATED.connection), &mut lock(&db.connection)).unwrap().step(-1).unwrap();
        db
    }

    pub fn without_schema() -> Self {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        connection.set_prepared_statement_cache_capacity(100);
        Self { connection: Mutex::new(connection), script: Mutex::default(), most_steps: AtomicI32::new(0) }
    }

    /// Returns how many steps the longest statement of a batch has taken in SQLite's virtual machine since the last call.
    pub fn take_most_steps(&self) -> i32 {
        self.most_steps.swap(0, Ordering::Relaxed)
    }

    /// Runs every migration.
    pub fn migrate(&self) {
        Self::migrations().iter().for_each(|sql| self.execute(sql));
    }

    /// The SQL of every migration, in order.
    pub fn migrations() -> Vec<String> {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
        let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    /// Runs SQL. It is not counted, and no injected fault applies.
    pub fn execute(&self, sql: &str) {
        lock(&self.connection).execute_batch(sql).unwrap();
    }

    /// Runs a query. It is not counted, and no injected fault applies.
    pub fn select(&self, sql: &str) -> Vec<Row> {
        run(&lock(&self.connection), sql, &[]).unwrap().0
    }

    /// Like [`select`](Self::select), for a query that returns one number.
    pub fn number(&self, sql: &str) -> i64 {
        match self.select(sql).pop().and_then(|mut row| row.pop()) {
            Some(Value::Integer(number)) => number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// Makes the next batch of this kind fail without a commit.
    pub fn fail(&self, kind: BatchKind, error: DbError) {
        lock(&self.script).faults.push_back(Fault { kind, error, is_committed: false });
    }

    /// Makes the next write return an error although it is committed.
    pub fn lose_response(&self, error: DbError) {
        self.fail_write(error, true);
    }

    /// Makes the next write return an error, although it is committed if `is_committed`.
    pub fn fail_write(&self, error: DbError, is_committed: bool) {
        lock(&self.script).faults.push_back(Fault { kind: BatchKind::Writes, error, is_committed });
    }

    /// Makes the next batch of this kind never return. The batch is not executed.
    pub fn never_return_next(&self, kind: BatchKind) {
        lock(&self.script).never_returns_next = Some(kind);
    }

    /// Sets a function that is called for each batch before its execution.
    pub fn set_hook(&self, hook: Option<Hook>) {
        lock(&self.script).hook = hook;
    }

    /// If `is_silent`: makes all later batches never return. Otherwise: makes later batches return again.
    pub fn set_silent(&self, is_silent: bool) {
        lock(&self.script).is_silent = is_silent;
    }

    /// Makes every batch of this kind fail until [`repair`](Self::repair).
    pub fn fail_all(&self, kind: BatchKind, error: DbError) {
        let mut script = lock(&self.script);
        script.outages.retain(|(outage_kind, _)| *outage_kind != kind);
        script.outages.push((kind, error));
    }

    /// Makes every batch fail until [`repair`](Self::repair).
    pub fn fail_everything(&self, error: &DbError) {
        [BatchKind::Reads, BatchKind::Writes].into_iter().for_each(|kind| self.fail_all(kind, error.clone()));
    }

    /// Ends all faults.
    pub fn repair(&self) {
        let mut script = lock(&self.script);
        script.outages.clear();
        script.faults.clear();
    }

    /// Holds the results of batches of this kind until [`release_results`](Self::release_results). The batches are executed
    /// immediately.
    pub fn hold_results(&self, kind: BatchKind) {
        lock(&self.script).held_kinds = vec![kind];
    }

    pub fn hold_all_results(&self) {
        lock(&self.script).held_kinds = vec![BatchKind::Reads, BatchKind::Writes];
    }

    /// Releases the held result with this index.
    pub fn release_result(&self, index: usize) {
        let _ = lock(&self.script).held_results.remove(index).send(());
    }

    /// Releases all held results and stops holding.
    pub fn release_results(&self) {
        let mut script = lock(&self.script);
        script.held_kinds.clear();
        for held_result in script.held_results.drain(..) {
            let _ = held_result.send(());
        }
    }

    /// Stops holding the results of later batches. Results that are held already remain held.
    pub fn stop_holding(&self) {
        lock(&self.script).held_kinds.clear();
    }

    /// Makes each later batch take this long on tokio's clock. Half of this time passes before the execution, half after it.
    pub fn set_round_trip_ms(&self, ms: u64) {
        lock(&self.script).round_trip = Duration::from_millis(ms);
    }

    pub fn held_result_count(&self) -> usize {
        lock(&self.script).held_results.len()
    }

    /// The number of reads, including failed reads.
    pub fn read_count(&self) -> usize {
        lock(&self.script).reads.len()
    }

    /// The statements of each read, including failed reads.
    pub fn read_batches(&self) -> Vec<Vec<Statement>> {
        lock(&self.script).reads.clone()
    }

    /// The number of writes, including failed writes.
    pub fn write_count(&self) -> usize {
        lock(&self.script).writes.len()
    }

    /// The statements of each write, including failed writes.
    pub fn write_batches(&self) -> Vec<Vec<Statement>> {
        lock(&self.script).writes.clone()
    }

    /// Executes a batch that the hub has sent before. No injected fault applies.
    pub fn execute_late(&self, batch: &[Statement]) -> Result<(), DbError> {
        self.commit(batch).map(drop)
    }

    fn commit(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, DbError> {
        check_limits(statements)?;
        let to_error = |error: rusqlite::Error| DbError::from_message(error.to_string());
        let mut connection = lock(&self.connection);
        // Dropping the transaction rolls it back.
        let transaction = connection.transaction().map_err(to_error)?;
        let results = statements.iter().map(|s| {
            let (rows, steps) = run(&transaction, s.sql, &s.params)?;
            self.most_steps.fetch_max(steps, Ordering::Relaxed);
            Ok(rows)
        });
        let results = results.collect::<Result<_, _>>().map_err(to_error)?;
        transaction.commit().map_err(to_error)?;
        Ok(results)
    }

    fn run_batch(&self, kind: BatchKind, statements: &[Statement]) -> Result<Vec<Vec<Row>>, DbError> {
        let fault = {
            let mut script = lock(&self.script);
            let position = script.faults.iter().position(|fault| fault.kind == kind);
            let queued = position.and_then(|position| script.faults.remove(position));
            let outage = script.outages.iter().find(|(outage_kind, _)| *outage_kind == kind).cloned();
            queued.or(outage.map(|(kind, error)| Fault { kind, error, is_committed: false }))
        };
        match fault {
            Some(Fault { error, is_committed: false, .. }) => Err(error),
            Some(Fault { error, .. }) => self.commit(statements).and(Err(error)),
            None => self.commit(statements),
        }
    }
}

impl Database for Sqlite {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move {
            let kind = BatchKind::of(statements);
            let never_returns = {
                let mut script = lock(&self.script);
                match kind {
                    BatchKind::Reads => script.reads.push(statements.to_vec()),
                    BatchKind::Writes => script.writes.push(statements.to_vec()),
                }
                script.is_silent || script.never_returns_next.take_if(|next| *next == kind).is_some()
            };
            let hook = lock(&self.script).hook.clone();
            let fate = hook.map_or(Fate::Execute, |hook| hook(statements));
            if fate == Fate::ExecutedAndLost {
                let _ = self.commit(statements);
            }
            if never_returns || fate != Fate::Execute {
                return std::future::pending().await;
            }
            let round_trip = lock(&self.script).round_trip;
            wait(round_trip / 2).await;
            let result = self.run_batch(kind, statements);
            wait(round_trip / 2).await;
            let held_result = {
                let mut script = lock(&self.script);
                script.held_kinds.contains(&kind).then(|| {
                    let (sender, receiver) = oneshot::channel();
                    script.held_results.push(sender);
                    receiver
                })
            };
            if let Some(held_result) = held_result {
                let _ = held_result.await;
            }
            result
        })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move {
            let rows = query(self, statement.clone()).await?;
            let mut joined = JoinedRows { rows: rows.len() as u64, ..JoinedRows::default() };
            let mut texts = Vec::new();
            for (index, row) in rows.into_iter().enumerate() {
                let mut columns = Columns::new("messages", row);
                let (seq, text) = (columns.number("seq")?, columns.text("body")?);
                if (index as u64) < limit {
                    joined.last_seq = Some(seq);
                    texts.push(text);
                }
            }
            joined.text = texts.join(",");
            Ok(joined)
        })
    }

    fn size(&self) -> BoxFuture<'_, Result<u64, DbError>> {
        Box::pin(async move {
            let rows = query(self, Statement::new(SELECT_SIZE, [])).await?;
            Columns::new("sqlite_master", rows.into_iter().next().unwrap_or_default()).number("bytes")
        })
    }
}

async fn wait(time: Duration) {
    if time > Duration::ZERO {
        tokio::time::sleep(time).await;
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

/// Returns the rows and the number of steps of SQLite's virtual machine.
fn run(connection: &rusqlite::Connection, sql: &str, params: &[Value]) -> rusqlite::Result<(Vec<Row>, i32)> {
    let mut prepared = connection.prepare_cached(sql)?;
    let params = params.iter().map(|param| match param {
        Value::Null => rusqlite::types::Value::Null,
        // D1 binds numbers of JavaScript, which are floating-point numbers.
        #[allow(clippy::cast_precision_loss)] // D1 knows no larger numbers than JavaScript.
        Value::Integer(number) => rusqlite::types::Value::Real(*number as f64),
        Value::Text(text) => rusqlite::types::Value::Text(text.clone()),
    });
    let width = prepared.column_count();
    let mut rows = prepared.query(rusqlite::params_from_iter(params))?;
    let mut results = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |i| match row.get_ref(i).unwrap() {
            rusqlite::types::ValueRef::Null => Value::Null,
            rusqlite::types::ValueRef::Integer(number) => Value::Integer(number),
            #[allow(clippy::cast_possible_truncation)] // Columns hold whole numbers only.
            rusqlite::types::ValueRef::Real(number) => Value::Integer(number as i64),
            rusqlite::types::ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
            other => panic!("the hub stores no column of this type: {other:?}"),
        };
        results.push((0..width).map(column).collect());
    }
    drop(rows);
    Ok((results, prepared.reset_status(StatementStatus::VmStep)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
