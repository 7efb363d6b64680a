//! The log of events: rows that are written with the changes that they tell of.

use super::{Columns, Row, Statement, Value, sql};
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;

/// Some events that were told one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsRow {
    /// The number of the last one.
    pub last: u64,
    /// The number of the event before the first one: all events in between are in this row.
    pub floor: u64,
    /// How many there are.
    pub events: usize,
    /// The events as text; empty when they are not held, and nothing before them either.
    pub body: String,
}

impl EventsRow {
    /// A row without events after this number.
    pub fn after(number: u64) -> Self {
        Self { last: number, floor: number, events: 0, body: String::new() }
    }
}

/// Writes rows. One that is written again takes the place of the first.
pub fn append(namespace: &Namespace, rows: Vec<EventsRow>) -> impl Iterator<Item = Statement> {
    rows.into_iter().map(|EventsRow { last, floor, events, body }| {
        let (events, bytes) = (events as u64, body.len() as u64);
        let namespace = namespace.as_ref().into();
        let params = [namespace, last.into(), floor.into(), events.into(), bytes.into(), Value::Text(body)];
        Statement::new(sql::UPSERT_EVENTS, params)
    })
}

/// Deletes the oldest rows, as far as those after them hold so many events or bytes; and those up to a number.
pub fn trim(namespace: &Namespace, events: usize, bytes: usize, up_to: u64) -> Statement {
    let params = [namespace.as_ref().into(), (events as u64).into(), (bytes as u64).into(), up_to.into()];
    Statement::new(sql::TRIM_EVENTS, params)
}

/// Deletes a namespace's rows whose last number is at most `up_to`.
pub fn delete(namespace: &Namespace, up_to: u64) -> Statement {
    Statement::new(sql::DELETE_EVENTS, [namespace.as_ref().into(), up_to.into()])
}

/// Selects the rows whose last number is above `after` and at most `up_to` (all, when `None`), oldest first.
pub fn select(namespace: &Namespace, after: u64, up_to: Option<u64>) -> Statement {
    let up_to = up_to.unwrap_or(MAX_SAFE_INTEGER).min(MAX_SAFE_INTEGER);
    Statement::new(sql::EVENTS, [namespace.as_ref().into(), after.into(), up_to.into()])
}

/// Selects the number of the last event.
pub fn select_end(namespace: &Namespace) -> Statement {
    Statement::new(sql::LAST_EVENT, [namespace.as_ref().into()])
}

/// A row as it was selected.
pub fn row(row: Row) -> EventsRow {
    let mut columns = Columns::of(row);
    let (last, floor, events) = (columns.number(), columns.number(), columns.number());
    EventsRow { last, floor, events: usize::try_from(events).unwrap_or(usize::MAX), body: columns.text() }
}
