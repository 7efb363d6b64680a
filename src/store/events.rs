//! The log of events for web clients that reconnect. Its rows are written in the transaction of the changes that caused
//! the events.

use super::columns::Columns;
use super::{Database, DbError, Row, Statement, Value, query};
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;

/// Writes a row. A repeated batch overwrites it with the same values.
/// `?1`: namespace, `?2`: last number, `?3`: number before the first, `?4`: number of events, `?5`: bytes, `?6`:
/// events.
const UPSERT: &str = "
INSERT INTO events (namespace, last, floor, events, bytes, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, last) DO UPDATE SET
  floor = excluded.floor, events = excluded.events, bytes = excluded.bytes, body = excluded.body";

/// Deletes rows that are followed by `?2` events or `?3` bytes, and all rows up to number `?4`. `?1`: namespace.
const TRIM: &str = "
DELETE FROM events WHERE namespace = ?1 AND last <= max(?4, coalesce((
  SELECT max(last) FROM (
    SELECT last, sum(events) OVER newer - events AS events_after, sum(bytes) OVER newer - bytes AS bytes_after
    FROM events WHERE namespace = ?1 WINDOW newer AS (ORDER BY last DESC))
  WHERE events_after >= ?2 OR bytes_after >= ?3), 0))";

/// `?1`: namespace, `?2`: the largest last number to delete.
const DELETE: &str = "DELETE FROM events WHERE namespace = ?1 AND last <= ?2";

/// Selects rows, oldest first. `?1`: namespace, `?2`: the last number is above this, `?3`: and at most this.
pub const SELECT: &str = "
SELECT last, floor, events, body FROM events WHERE namespace = ?1 AND last > ?2 AND last <= ?3 ORDER BY last";

/// The number of the last event, or NULL. `?1`: namespace.
const SELECT_LAST: &str = "SELECT max(last) FROM events WHERE namespace = ?1";

/// Consecutive events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsRow {
    pub last: u64,
    /// The number before the first event: the row covers the numbers above `floor` up to `last`.
    pub floor: u64,
    pub events: usize,
    /// The events as text. Empty if the log holds neither these events nor any before them.
    pub body: String,
}

impl EventsRow {
    /// Creates an empty row, to which the events after `number` are appended.
    pub fn after(number: u64) -> Self {
        Self { last: number, floor: number, events: 0, body: String::new() }
    }
}

/// Statements that write rows.
pub fn upsert(namespace: &Namespace, rows: Vec<EventsRow>) -> impl Iterator<Item = Statement> {
    rows.into_iter().map(|EventsRow { last, floor, events, body }| {
        let (events, bytes) = (events as u64, body.len() as u64);
        let namespace = namespace.as_ref().into();
        let params = [namespace, last.into(), floor.into(), events.into(), bytes.into(), Value::Text(body)];
        Statement::new(UPSERT, params)
    })
}

/// A statement that deletes the oldest rows: those followed by `events` events or `bytes` bytes, and all up to `up_to`.
pub fn trim(namespace: &Namespace, events: usize, bytes: usize, up_to: u64) -> Statement {
    let params = [namespace.as_ref().into(), (events as u64).into(), (bytes as u64).into(), up_to.into()];
    Statement::new(TRIM, params)
}

/// A statement that deletes the rows whose last number is at most `up_to`.
pub fn delete(namespace: &Namespace, up_to: u64) -> Statement {
    Statement::new(DELETE, [namespace.as_ref().into(), up_to.into()])
}

/// Loads the rows whose last number is above `after` and at most `up_to` (unlimited, if `None`), oldest first.
pub async fn load(
    db: &dyn Database,
    namespace: &Namespace,
    after: u64,
    up_to: Option<u64>,
) -> Result<Vec<EventsRow>, DbError> {
    let up_to = up_to.unwrap_or(MAX_SAFE_INTEGER).min(MAX_SAFE_INTEGER);
    let statement = Statement::new(SELECT, [namespace.as_ref().into(), after.into(), up_to.into()]);
    query(db, statement).await?.into_iter().map(from_row).collect()
}

/// Loads the number of the last event; `None` if the log is empty.
pub async fn load_last_number(db: &dyn Database, namespace: &Namespace) -> Result<Option<u64>, DbError> {
    let row = query(db, Statement::new(SELECT_LAST, [namespace.as_ref().into()])).await?.pop();
    Columns::new("events", row.unwrap_or_default()).optional("max(last)", Columns::number)
}

fn from_row(row: Row) -> Result<EventsRow, DbError> {
    let mut c = Columns::new("events", row);
    let (last, floor, events) = (c.number("last")?, c.number("floor")?, c.number("events")?);
    Ok(EventsRow { last, floor, events: usize::try_from(events).unwrap_or(usize::MAX), body: c.text("body")? })
}
