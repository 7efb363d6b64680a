//! Persistence in D1 (SQLite): one module for each kind of data, with its SQL, its parameters and its strict row decoding
//! ([`columns`]) side by side. The hub queues changes in the [`write_queue`], which writes them in batches.
//!
//! - A batch is one transaction. A [fence] rejects late batches. An unknown outcome is [retried](retry). [Lost](watchdog) queries fail.
//! - Every statement names the namespace, or a session whose namespace it checks.
//! - A statement that finds sessions or machines by a JSON array of ids, or by `history`, has `+namespace`. The unary `+` keeps
//!   SQLite from using the index of the namespace, with which it would read every session or machine of the namespace.
//! - `migrations/` is the only schema.
//!
//! Limits of D1 (<https://developers.cloudflare.com/d1/platform/limits/>): 100 parameters a statement, 2 MB a value and
//! a row, 30 s a batch. Integers are exact up to 2^53.

mod bulk;
pub mod columns;
pub mod completed_requests;
pub mod counts;
pub mod devices;
pub mod events;
pub mod fence;
pub mod held_messages;
pub mod history;
pub mod inbox;
pub mod machines;
pub mod memory;
pub mod messages;
pub mod namespace_rows;
pub mod parts;
pub mod places;
pub mod push;
pub mod relocation;
mod relocation_tables;
pub mod removals;
pub mod retention;
pub mod retry;
pub mod secrets;
pub mod sessions;
pub mod summaries;
pub mod values;
pub mod watchdog;
pub mod write_queue;
pub mod wrong_tokens;

use futures::future::{BoxFuture, ready};
use serde::Serialize;
use thiserror::Error;

use crate::model::namespace::Namespace;
use crate::model::session::ControlMode;

/// A parameter of a statement or a column of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Integer(i64),
    Text(String),
}

impl Value {
    /// Returns a JSON text. Serialization fails only for maps with keys that are not strings, which no parameter has.
    fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        Self::Text(serde_json::to_string(value).unwrap_or_default())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl From<&Namespace> for Value {
    fn from(namespace: &Namespace) -> Self {
        namespace.as_str().into()
    }
}

impl From<ControlMode> for Value {
    fn from(mode: ControlMode) -> Self {
        Self::from(<&str>::from(mode))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The SQL text, with `?1, ?2, ...` for the parameters.
    pub sql: &'static str,
    pub params: Vec<Value>,
}

impl Statement {
    pub fn new(sql: &'static str, params: impl Into<Vec<Value>>) -> Self {
        Self { sql, params: params.into() }
    }
}

/// The result of a lookup by id.
#[derive(Debug, Clone, PartialEq)]
pub enum Found<T> {
    InNamespace(T),
    /// The row belongs to another namespace.
    Foreign,
    Missing,
}

/// The columns of a row in the order of the SELECT.
pub type Row = Vec<Value>;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DbError {
    /// The outcome is unknown: the batch may have been committed, or may be committed later. The caller may repeat the batch.
    #[error("the database is unavailable: {0}")]
    Retryable(String),
    /// The outcome is unknown, and all retries have failed.
    #[error("the database is still unavailable: {0}")]
    Unavailable(String),
    /// The namespace is in a database that is no longer bound. The name of the binding.
    #[error("the namespace is in {0}, which is not bound")]
    NotBound(String),
    /// The migrations have not been applied.
    #[error("the database has no schema: {0}")]
    NoSchema(String),
    /// The batch was rejected, and would be rejected again.
    #[error("the database rejected the batch: {0}")]
    Refused(String),
    /// The batch was rejected because the database is full or a quota of its plan is used up.
    #[error("the database has reached a limit of its plan: {0}")]
    LimitReached(String),
    /// A row does not match its SELECT, for example because the row was not written by the hub.
    #[error("column `{column}` of table `{table}` must be {expected}, but is {found}")]
    UnexpectedColumn {
        table: &'static str,
        column: &'static str,
        /// A type with its article, such as `a text`.
        expected: &'static str,
        found: &'static str,
    },
    /// The rows were not read, because the [memory budget](crate::memory_budget) has too few free bytes for them.
    #[error("too many large responses are in memory")]
    NoMemory,
}

/// Parts of the messages with which SQLite and D1 refuse a batch that they would refuse again: errors of constraints, syntax,
/// schema and sizes (<https://www.sqlite.org/rescode.html>). SQLite's own messages come without the code. The outcome of any
/// other error is unknown: D1 documents only some of its faults
/// (<https://developers.cloudflare.com/d1/observability/debug-d1/>).
const REFUSALS: [&str; 17] = [
    "constraint failed",
    "syntax error",
    "incomplete input",
    "unrecognized token",
    "no such function",
    "wrong number of arguments",
    "malformed JSON",
    "datatype mismatch",
    "string or blob too big",
    "too many SQL variables",
    "D1_TYPE_ERROR",
    "SQLITE_AUTH",
    "SQLITE_CONSTRAINT",
    "SQLITE_ERROR",
    "SQLITE_MISMATCH",
    "SQLITE_RANGE",
    "SQLITE_TOOBIG",
];

/// Parts of the messages with which D1 refuses a batch above a limit of the plan. The limits are: rows read or written in a day, the
/// size of the database, and the size of all databases of the account.
const LIMITS: [&str; 3] = ["exceeded D1's", "Exceeded maximum", "SQLITE_FULL"];

impl DbError {
    /// Whether the outcome of a batch is unknown: it may have been committed, or may be committed later, despite the error. For
    /// a read: whether the error may have another source than the database.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Retryable(_) | Self::Unavailable(_))
    }

    /// Classifies an error message of D1 or SQLite.
    pub fn from_message(message: String) -> Self {
        let has = |part: &&str| message.contains(*part);
        if ["no such table", "no such column", "has no column"].iter().any(has) {
            Self::NoSchema(message)
        } else if LIMITS.iter().any(has) {
            Self::LimitReached(message)
        } else if REFUSALS.iter().any(has) {
            Self::Refused(message)
        } else {
            Self::Retryable(message)
        }
    }
}

/// The result of [`Database::query_joined`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoinedRows {
    pub text: String,
    /// The number of rows, including those after the limit.
    pub rows: u64,
    /// The first column of the last joined row.
    pub last_seq: Option<u64>,
}

/// A database with transactions: D1, or SQLite in the native tests.
pub trait Database: Send + Sync {
    /// Runs the statements in order as one transaction and returns the rows of each. On success, the whole transaction is
    /// durable. After an error, nothing was written, unless the [outcome is unknown](DbError::is_outcome_unknown).
    ///
    /// `statements` is mutable so that a wrapper can append its own meanwhile, instead of copying a large batch.
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>>;

    /// Runs a statement whose columns are a number and a text, and joins the texts of the first `limit` rows by commas.
    /// Over D1, JavaScript joins them: one text is copied into wasm faster than many.
    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>>;

    /// Returns the size of the database in bytes; 0 if it is unknown.
    fn size(&self) -> BoxFuture<'_, Result<u64, DbError>> {
        Box::pin(ready(Ok(0)))
    }
}

impl<D: Database + ?Sized> Database for std::sync::Arc<D> {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        (**self).batch(statements)
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        (**self).query_joined(statement, limit)
    }

    fn size(&self) -> BoxFuture<'_, Result<u64, DbError>> {
        (**self).size()
    }
}

/// Runs one statement as a transaction, and returns its rows.
pub async fn query(db: &dyn Database, statement: Statement) -> Result<Vec<Row>, DbError> {
    Ok(db.batch(&mut vec![statement]).await?.pop().unwrap_or_default())
}

/// Runs statements as a transaction, without their rows. Does nothing if there are none.
pub async fn execute(db: &dyn Database, mut statements: Vec<Statement>) -> Result<(), DbError> {
    if statements.is_empty() { Ok(()) } else { db.batch(&mut statements).await.map(drop) }
}

/// Creates a statement with the namespace as its only parameter from each text.
fn of_namespace<const N: usize>(namespace: &Namespace, sql: [&'static str; N]) -> Vec<Statement> {
    sql.map(|sql| Statement::new(sql, [namespace.into()])).into()
}
