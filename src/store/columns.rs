//! Strict decoding of rows: a column that is missing or has an unexpected type is an error with its name, never a default value.

use super::{Database, DbError, Found, Row, Statement, Value};
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, LargeRef};

/// Reads the columns of one row in the order of the SELECT.
pub struct Columns {
    /// The table, for errors.
    table: &'static str,
    values: std::vec::IntoIter<Value>,
}

/// The type of a column of a table.
pub trait Column: Sized {
    /// What a row has that was written before the column existed.
    const DEFAULT: Value;

    fn read(columns: &mut Columns, column: &'static str) -> Result<Self, DbError>;
}

impl Column for bool {
    const DEFAULT: Value = Value::Integer(0);

    fn read(columns: &mut Columns, column: &'static str) -> Result<Self, DbError> {
        columns.flag(column)
    }
}

impl Column for Option<String> {
    const DEFAULT: Value = Value::Null;

    fn read(columns: &mut Columns, column: &'static str) -> Result<Self, DbError> {
        columns.optional(column, Columns::text)
    }
}

impl Columns {
    pub fn new(table: &'static str, row: Row) -> Self {
        Self { table, values: row.into_iter() }
    }

    pub fn text(&mut self, column: &'static str) -> Result<String, DbError> {
        match self.values.next() {
            Some(Value::Text(text)) => Ok(text),
            other => Err(self.unexpected(column, "a text", describe_type(other.as_ref()))),
        }
    }

    /// The next column as a non-negative integer.
    pub fn number(&mut self, column: &'static str) -> Result<u64, DbError> {
        match self.values.next() {
            Some(Value::Integer(number @ 0..)) => Ok(number.cast_unsigned()),
            other => Err(self.unexpected(column, "a non-negative integer", describe_type(other.as_ref()))),
        }
    }

    pub fn count(&mut self, column: &'static str) -> Result<usize, DbError> {
        Ok(usize::try_from(self.number(column)?).unwrap_or(usize::MAX))
    }

    pub fn flag(&mut self, column: &'static str) -> Result<bool, DbError> {
        match self.values.next() {
            Some(Value::Integer(number @ (0 | 1))) => Ok(number == 1),
            other => Err(self.unexpected(column, "0 or 1", describe_type(other.as_ref()))),
        }
    }

    pub fn json(&mut self, column: &'static str) -> Result<Json, DbError> {
        self.parse(column, "JSON", Json::from_string)
    }

    /// The next column as a text that `parse` accepts.
    pub fn parse<T>(
        &mut self,
        column: &'static str,
        expected: &'static str,
        parse: impl FnOnce(String) -> Option<T>,
    ) -> Result<T, DbError> {
        let text = self.text(column)?;
        parse(text).ok_or_else(|| self.unexpected(column, expected, "another text"))
    }

    /// The next column as read by another method of this type, or `None` if it is NULL.
    pub fn optional<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        if self.values.as_slice().first() == Some(&Value::Null) {
            self.values.next();
            return Ok(None);
        }
        read(self, column).map(Some)
    }

    /// The next three columns as a versioned value: the value, its version, and the reference to a large value's parts. Parts of
    /// another version are ignored: an earlier release, which did not know large values, may have overwritten the value.
    pub fn versioned(&mut self, [value, version, parts]: ValueColumns) -> Result<(InlineOrLarge, u64), DbError> {
        let (value, version) = (self.optional(value, Self::json)?, self.number(version)?);
        let parse = |name: String| LargeRef::parse(&name);
        let large = self.optional(parts, |columns, column| columns.parse(column, "a name of parts", parse))?;
        Ok((InlineOrLarge::new(value, large.filter(|large| large.version == version)), version))
    }

    fn unexpected(&self, column: &'static str, expected: &'static str, found: &'static str) -> DbError {
        DbError::UnexpectedColumn { table: self.table, column, expected, found }
    }
}

/// The columns of a versioned value: the value, its version, and the name of a large value's parts.
pub type ValueColumns = [&'static str; 3];

pub const METADATA: ValueColumns = ["metadata", "metadata_version", "metadata_parts"];
pub const AGENT_STATE: ValueColumns = ["agent_state", "agent_state_version", "agent_state_parts"];
pub const RUNNER_STATE: ValueColumns = ["runner_state", "runner_state_version", "runner_state_parts"];

/// Decodes the rows of a statement. `read` decodes one row.
pub(super) fn read_rows<T>(
    table: &'static str,
    rows: Vec<Row>,
    read: impl Fn(&mut Columns) -> Result<T, DbError>,
) -> Result<Vec<T>, DbError> {
    rows.into_iter().map(|row| read(&mut Columns::new(table, row))).collect()
}

/// Runs statements as a transaction, and returns the last row of the last statement; `None` if it has no row.
pub(super) async fn find_last(
    db: &dyn Database,
    table: &'static str,
    mut statements: Vec<Statement>,
) -> Result<Option<Columns>, DbError> {
    let row = db.batch(&mut statements).await?.pop().and_then(|mut rows| rows.pop());
    Ok(row.map(|row| Columns::new(table, row)))
}

/// Returns a row like [`find_last`]. Without a row, each column is missing.
pub(super) async fn read_last(
    db: &dyn Database,
    table: &'static str,
    statements: Vec<Statement>,
) -> Result<Columns, DbError> {
    Ok(find_last(db, table, statements).await?.unwrap_or_else(|| Columns::new(table, Row::new())))
}

/// Decodes the result of a statement that looks up an id: one row with the flag `owned` (whether the id belongs to the
/// namespace), or no row if the id does not exist.
pub fn read_owned(table: &'static str, mut rows: Vec<Row>) -> Result<Found<()>, DbError> {
    Ok(match rows.pop().map(|row| Columns::new(table, row).flag("owned")).transpose()? {
        Some(true) => Found::InNamespace(()),
        Some(false) => Found::Foreign,
        None => Found::Missing,
    })
}

fn describe_type(value: Option<&Value>) -> &'static str {
    match value {
        None => "missing",
        Some(Value::Null) => "NULL",
        Some(Value::Integer(..0)) => "a negative integer",
        Some(Value::Integer(_)) => "an integer",
        Some(Value::Text(_)) => "a text",
    }
}
