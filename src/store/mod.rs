//! The durable record behind one port: [`Database`] runs statements, everything above it is plain Rust over rows.
//! `migrations/` is the only schema; every statement is a constant of [`sql`].

pub mod events;
pub mod fence;
pub mod history;
pub mod journal;
pub mod machines;
pub mod push;
pub mod reads;
pub mod response_budget;
pub mod rows;
pub mod secrets;
pub mod sessions;
pub mod sql;
pub mod values;

use futures::future::BoxFuture;
use thiserror::Error;

use crate::model::json::Json;
use crate::model::large::LargeRef;

/// A value bound to a statement or read from a row. D1 knows integers only to 2^53.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
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

/// One statement of a batch: a constant of [`sql`] and its parameters in the order `?1, ?2, ...`
/// (at most 100 of them, each at most 2 MB: D1 limits).
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The text, with `?1, ?2, ...` for the parameters.
    pub sql: &'static str,
    /// The parameters.
    pub params: Vec<Value>,
}

impl Statement {
    /// A statement with its parameters.
    pub fn new(sql: &'static str, params: impl Into<Vec<Value>>) -> Self {
        Self { sql, params: params.into() }
    }
}

/// What the database knows of an id.
#[derive(Debug, Clone, PartialEq)]
pub enum Found<T> {
    /// It belongs to the namespace.
    Owned(T),
    /// It exists, in another namespace.
    Foreign,
    /// There is none.
    Missing,
}

/// A row: its columns in the order of the SELECT.
pub type Row = Vec<Value>;

/// Why the database did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DbError {
    /// A passing fault (connection lost, overloaded): the same batch may be sent again.
    #[error("the database is unreachable for the moment: {0}")]
    Retryable(String),
    /// It took too long. Nobody knows whether the batch was, or will be, done: what was sent must not be sent again.
    #[error("the database did not answer: {0}")]
    Silent(String),
    /// The migrations were never applied.
    #[error("the database has no schema yet: {0}")]
    NoSchema(String),
    /// The batch was refused, and would be again.
    #[error("the database refused: {0}")]
    Refused(String),
    /// The rows were not read: too many bytes of large responses are in memory.
    #[error("too many large responses are in memory")]
    OverBudget,
}

/// What `glue.js` says of a database that took too long.
const SILENT: &str = "D1 did not answer in time";

impl DbError {
    /// Whether nobody knows what became of the batch that met it.
    pub fn leaves_doubt(&self) -> bool {
        matches!(self, Self::Retryable(_) | Self::Silent(_))
    }

    /// Sorts an error message of D1 (or SQLite) by who must act. The passing faults are those that the D1
    /// documentation lists as retryable.
    pub fn from_message(message: String) -> Self {
        const PASSING: [&str; 8] = [
            "Network connection lost",
            "storage caused object to be reset",
            "reset because its code was updated",
            "D1 DB is overloaded",
            "DB is not available",
            "internal error",
            "Cannot resolve D1 DB due to transient issue",
            "database is locked",
        ];
        if message.contains("no such table") || message.contains("no such column") || message.contains("has no column")
        {
            Self::NoSchema(message)
        } else if message.contains(SILENT) {
            Self::Silent(message)
        } else if PASSING.iter().any(|part| message.contains(part)) {
            Self::Retryable(message)
        } else {
            Self::Refused(message)
        }
    }
}

/// A page's rows, with the texts of the first ones joined by commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Joined {
    /// The texts, joined by commas.
    pub text: String,
    /// How many rows there were in all.
    pub rows: u64,
    /// The first column of the last row that was joined.
    pub last: Option<u64>,
    /// Whether a text that was joined is not the whole: the third column of its row is not 0.
    pub in_parts: bool,
}

/// The port to the SQL database. A batch is one transaction: all of it is durable when the future resolves, or none.
pub trait Database: Send + Sync {
    /// Runs the statements in order and answers the rows of each.
    fn batch<'a>(&'a self, statements: &'a [Statement]) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>>;

    /// Runs one statement whose rows are those of [`sql::PAGE_BEFORE`], and joins the texts of the first `limit` rows
    /// where they are: many rows cross the border as one text.
    fn joined(&self, statement: Statement, limit: u64) -> BoxFuture<'_, Result<Joined, DbError>>;
}

impl<D: Database + ?Sized> Database for std::sync::Arc<D> {
    fn batch<'a>(&'a self, statements: &'a [Statement]) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        (**self).batch(statements)
    }

    fn joined(&self, statement: Statement, limit: u64) -> BoxFuture<'_, Result<Joined, DbError>> {
        (**self).joined(statement, limit)
    }
}

/// Runs one statement.
pub async fn query(db: &dyn Database, statement: Statement) -> Result<Vec<Row>, DbError> {
    Ok(db.batch(&[statement]).await?.pop().unwrap_or_default())
}

/// Reads the columns of a row one after the other; a column that is missing or of another kind reads as its default.
pub struct Columns(std::vec::IntoIter<Value>);

impl Columns {
    /// The columns of a row, from the first.
    pub fn of(row: Row) -> Self {
        Self(row.into_iter())
    }

    /// The next column as a text.
    pub fn text(&mut self) -> String {
        self.maybe_text().unwrap_or_default()
    }

    /// The next column as a text or NULL.
    pub fn maybe_text(&mut self) -> Option<String> {
        match self.0.next() {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The next column as a whole number that is not negative.
    pub fn number(&mut self) -> u64 {
        match self.0.next() {
            Some(Value::Integer(number)) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        }
    }

    /// The next column as a truth value (0 or 1).
    pub fn flag(&mut self) -> bool {
        self.number() != 0
    }

    /// The next column as a JSON text or NULL.
    pub fn json(&mut self) -> Option<Json> {
        self.maybe_text().and_then(|text| Json::parse(&text).ok())
    }

    /// The next column as the parts of a value of this version; none when the value stands in its own column.
    pub fn large(&mut self, version: u64) -> Option<LargeRef> {
        self.maybe_text().and_then(|name| LargeRef::parse(&name, version))
    }
}
