//! The log of events for web clients that reconnect. Its rows are written in the transaction of the changes that caused the events.
//!
//! The text of a row has one line for each event. A line has three columns, separated by tabs:
//!
//! ```text
//! <number of the event> TAB <letter><id as JSON>           TAB <body>
//! <number of the event> TAB r<id of the session, as JSON>  TAB <seq of the message>
//! ```
//!
//! The letter and the id are the [`Audience`]. The letter is `s` for `Session`, `c` for `SessionOnly`, `m` for `Machine`. The
//! second form is a reference to the row of a message, and is replaced by the event of the message when the rows are loaded.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::columns::{Columns, read_last, read_rows};
use super::sessions::history_of;
use super::{Database, DbError, Row, Statement, Value, of_namespace, query};
use crate::limits::{RETAINED_BYTES, RETAINED_EVENTS};
use crate::model::event::{Audience, Event};
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;
use crate::model::text_parts::TextParts;

/// After this many new events, the hub searches for reusable rows ([`Appender`]).
pub const TRIM_EVENTS: usize = RETAINED_EVENTS / 4;
/// After this many bytes of new events, the hub searches for reusable rows.
pub const TRIM_BYTES: usize = RETAINED_BYTES / 4;

/// Writes a row. A repeated batch overwrites it with the same values. `?1`: namespace, `?2`: last number, `?3`: number before the first,
/// `?4`: number of events, `?5`: bytes, `?6`: events.
const UPSERT: &str = "
INSERT INTO events (namespace, last, floor, events, bytes, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, last) DO UPDATE SET
  floor = excluded.floor, events = excluded.events, bytes = excluded.bytes, body = excluded.body";

/// Replaces an old row by a new one. This costs one written row instead of an insertion and a deletion. Does nothing if the batch is
/// repeated, because the old row is gone.
/// `?1` to `?6`: as for `UPSERT`, `?7`: last number of the row that is replaced.
const REPLACE: &str = "
UPDATE events SET last = ?2, floor = ?3, events = ?4, bytes = ?5, body = ?6 WHERE namespace = ?1 AND last = ?7";

/// Writes a row into any reusable row, for an appender that knows no reusable row. Changes nothing if no row is reusable, or if the
/// batch is repeated.
/// `?1` to `?6`: as for `UPSERT`, `?7` and `?8`: as `?2` and `?3` of `SELECT_REUSABLE`.
const REPLACE_ANY: &str = "
UPDATE events SET last = ?2, floor = ?3, events = ?4, bytes = ?5, body = ?6
WHERE namespace = ?1 AND NOT EXISTS (SELECT 1 FROM events WHERE namespace = ?1 AND last = ?2) AND last = (
  SELECT last FROM (
    SELECT last, bytes, sum(events) OVER newer - events AS events_after, sum(bytes) OVER newer - bytes AS bytes_after
    FROM events WHERE namespace = ?1 WINDOW newer AS (ORDER BY last DESC))
  WHERE events_after >= ?7 OR bytes_after >= ?8 ORDER BY bytes DESC LIMIT 1)";

/// Writes a row unless `REPLACE_ANY` did. The parameters are those of `UPSERT`.
const INSERT_MISSING: &str = "
INSERT INTO events (namespace, last, floor, events, bytes, body) SELECT ?1, ?2, ?3, ?4, ?5, ?6
WHERE NOT EXISTS (SELECT 1 FROM events WHERE namespace = ?1 AND last = ?2)";

/// Deletes rows that at least `?2` events or `?3` bytes follow, and all rows up to number `?4`. `?1`: namespace.
const TRIM: &str = "
DELETE FROM events WHERE namespace = ?1 AND last <= max(?4, coalesce((
  SELECT max(last) FROM (
    SELECT last, sum(events) OVER newer - events AS events_after, sum(bytes) OVER newer - bytes AS bytes_after
    FROM events WHERE namespace = ?1 WINDOW newer AS (ORDER BY last DESC))
  WHERE events_after >= ?2 OR bytes_after >= ?3), 0))";

/// Selects the reusable rows, which are followed by `?2` events or `?3` bytes, smallest first. `?1`: namespace.
const SELECT_REUSABLE: &str = "
SELECT last FROM (
  SELECT last, bytes, sum(events) OVER newer - events AS events_after, sum(bytes) OVER newer - bytes AS bytes_after
  FROM events WHERE namespace = ?1 WINDOW newer AS (ORDER BY last DESC))
WHERE events_after >= ?2 OR bytes_after >= ?3
ORDER BY bytes";

/// The messages that events refer to, as JSON in one line each. `?1`: JSON array of arrays of session and seq, `?2`: namespace.
#[rustfmt::skip]
const SELECT_MESSAGES: &str = concat!(r#"
SELECT r.value ->> 0 AS session_id, m.seq, '{"type":"message-received","sessionId":' || json_quote(r.value ->> 0)
  || ',"message":{"id":"' || m.id || '","seq":' || m.seq || ',"localId":' || json_quote(m.local_id)
  || ',"content":' || replace(replace(m.content, char(10), ' '), char(13), ' ')
  || ',"createdAt":' || m.created_at || '}}' AS event
FROM json_each(?1) AS r JOIN messages AS m ON m.session_id = "#, history_of!("r.value ->> 0", "?2"),
    " AND m.seq = r.value ->> 1
WHERE m.parts = 0");

/// Selects the rows whose last number is above `?2` and at most `?3`, oldest first. `?1`: namespace.
pub const SELECT: &str = "
SELECT last, floor, events, bytes, body FROM events WHERE namespace = ?1 AND last > ?2 AND last <= ?3 ORDER BY last";

/// A row of the log: consecutive events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsRow {
    pub last: u64,
    /// The number before the first event: the row covers the numbers above `floor` up to `last`.
    pub floor: u64,
    pub events: usize,
    /// The size of the events and of the messages to which they refer, in bytes.
    pub bytes: usize,
    /// The events as lines. Empty for a gap: the log has neither these events nor any earlier event.
    pub body: String,
}

impl EventsRow {
    /// Creates a row without events. The caller appends the events after `number`.
    pub fn empty_after(number: u64) -> Self {
        Self { last: number, floor: number, events: 0, bytes: 0, body: String::new() }
    }

    fn into_params(self, namespace: &Namespace) -> Vec<Value> {
        let [last, floor, events, bytes] =
            [self.last, self.floor, self.events as u64, self.bytes as u64].map(Value::from);
        vec![namespace.into(), last, floor, events, bytes, Value::Text(self.body)]
    }
}

/// Writes new events into *reusable* rows: rows of old events that the log need not retain. To update a row costs one written row; to
/// insert a row and delete another costs two. An appender belongs to one namespace, and its batches must not overlap.
#[derive(Debug)]
pub struct Appender {
    /// The last numbers of reusable rows, which new rows pop from the end.
    reusable_rows: Vec<u64>,
    events_since_trim: usize,
    bytes_since_trim: usize,
}

impl Default for Appender {
    /// The first rows trim the log, because its size is unknown.
    fn default() -> Self {
        Self { reusable_rows: Vec::new(), events_since_trim: TRIM_EVENTS, bytes_since_trim: TRIM_BYTES }
    }
}

impl Appender {
    /// Adds statements that write the rows, and after [`TRIM_EVENTS`] or [`TRIM_BYTES`] trim the log, which begins after `start`.
    pub fn append(&mut self, namespace: &Namespace, start: u64, mut rows: Vec<EventsRow>, batch: &mut Vec<Statement>) {
        self.events_since_trim += rows.iter().map(|row| row.events).sum::<usize>();
        self.bytes_since_trim += rows.iter().map(|row| row.bytes).sum::<usize>();
        let is_full = self.events_since_trim >= TRIM_EVENTS || self.bytes_since_trim >= TRIM_BYTES;
        let is_trim_due = is_full && !rows.is_empty();
        // The rows of an earlier log may have been deleted.
        self.reusable_rows.retain(|last| *last > start);
        if is_trim_due && self.reusable_rows.is_empty() {
            batch.extend(write_into_reusable_row(namespace, rows.remove(0), RETAINED_EVENTS, RETAINED_BYTES));
        }
        for row in rows {
            let (sql, replaced) = self.reusable_rows.pop().map_or((UPSERT, None), |last| (REPLACE, Some(last.into())));
            let mut params = row.into_params(namespace);
            params.extend(replaced);
            batch.push(Statement::new(sql, params));
        }
        if is_trim_due {
            // The batch may delete reusable rows; `SELECT_REUSABLE` returns the remaining ones.
            *self = Self { reusable_rows: Vec::new(), events_since_trim: 0, bytes_since_trim: 0 };
            // Deletes rows that became reusable before a hibernation and were not replaced.
            let limits =
                |events: usize, bytes: usize| [namespace.into(), (events as u64).into(), (bytes as u64).into()];
            let [of_namespace, events, bytes] = limits(RETAINED_EVENTS + TRIM_EVENTS, RETAINED_BYTES + TRIM_BYTES);
            batch.push(Statement::new(TRIM, [of_namespace, events, bytes, start.into()]));
            batch.push(Statement::new(SELECT_REUSABLE, limits(RETAINED_EVENTS, RETAINED_BYTES)));
        }
    }

    /// Reads the results of a batch to which rows were appended.
    pub fn on_written(&mut self, batch: &[Statement], results: Vec<Vec<Row>>) {
        if let Some((_, rows)) = batch.iter().zip(results).find(|(statement, _)| statement.sql == SELECT_REUSABLE) {
            let last = |row| Columns::new("events", row).number("last").ok();
            self.reusable_rows = rows.into_iter().filter_map(last).collect();
        }
    }

    /// Handles the failure of a batch. Forgets the reusable rows, because the batch may still have replaced or deleted them.
    pub fn on_failed(&mut self) {
        *self = Self::default();
    }
}

/// Returns statements that write a row into one that `events` events or `bytes` bytes follow, or insert it if there is none.
pub fn write_into_reusable_row(namespace: &Namespace, row: EventsRow, events: usize, bytes: usize) -> [Statement; 2] {
    let mut params = row.into_params(namespace);
    let insert = Statement::new(INSERT_MISSING, params.clone());
    params.extend([(events as u64).into(), (bytes as u64).into()]);
    [Statement::new(REPLACE_ANY, params), insert]
}

pub fn delete(namespace: &Namespace, up_to: u64) -> Statement {
    Statement::new("DELETE FROM events WHERE namespace = ?1 AND last <= ?2", [namespace.into(), up_to.into()])
}

/// Loads the rows, oldest first, whose last number is above `after` and at most `up_to` (`None`: any), with resolved references.
pub async fn load(
    db: &dyn Database,
    namespace: &Namespace,
    after: u64,
    up_to: Option<u64>,
) -> Result<Vec<EventsRow>, DbError> {
    let up_to = up_to.unwrap_or(MAX_SAFE_INTEGER).min(MAX_SAFE_INTEGER);
    let statement = Statement::new(SELECT, [namespace.into(), after.into(), up_to.into()]);
    let mut rows = read_rows("events", query(db, statement).await?, |c| {
        let (last, floor) = (c.number("last")?, c.number("floor")?);
        Ok(EventsRow { last, floor, events: c.count("events")?, bytes: c.count("bytes")?, body: c.text("body")? })
    })?;
    let references: Vec<_> = rows.iter().flat_map(|row| references(&row.body)).collect();
    if references.is_empty() {
        return Ok(rows);
    }
    // The messages of a deleted session are missing; `session-removed` follows.
    let mut events = HashMap::new();
    for row in query(db, Statement::new(SELECT_MESSAGES, [Value::json(&references), namespace.into()])).await? {
        let mut c = Columns::new("messages", row);
        events.insert((c.text("session_id")?, c.number("seq")?), c.text("event")?);
    }
    for row in &mut rows {
        row.body = resolve_references(&row.body, |message| events.remove(message));
    }
    Ok(rows)
}

/// Loads the number of the last event; `None` if the log is empty.
pub async fn load_last_number(db: &dyn Database, namespace: &Namespace) -> Result<Option<u64>, DbError> {
    let sql = "SELECT max(last) FROM events WHERE namespace = ?1";
    read_last(db, "events", of_namespace(namespace, [sql])).await?.optional("max(last)", Columns::number)
}

type MessageKey = (String, u64);

/// An empty id, as JSON. No session has this id, so no client receives the event.
const NO_SESSION: &str = "\"\"";

pub fn push_line(text: &mut String, number: u64, event: &Event) {
    let (kind, id) = match &event.audience {
        Audience::Session(id) => ('s', id),
        Audience::SessionOnly(id) => ('c', id),
        Audience::Machine(id) => ('m', id),
    };
    if let Some(seq) = event.message_seq {
        text.push_str(&encode_reference(number, id, seq));
    } else {
        // JSON escapes the tabs and line breaks that an id may contain.
        let id = serde_json::to_string(id).unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{number}\t{kind}{id}\t");
        event.body.push_single_line(text);
    }
    text.push('\n');
}

/// Decodes the events of a text without references; `None` if it is malformed.
pub fn decode_lines(text: &str) -> Option<Vec<(u64, Event)>> {
    text.lines().map(decode_line).collect()
}

fn decode_line(line: &str) -> Option<(u64, Event)> {
    let mut parts = line.splitn(3, '\t');
    let (number, audience, body) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (kind, id) = audience.split_at_checked(1)?;
    let id = serde_json::from_str(id).ok()?;
    let audience = match kind {
        "s" => Audience::Session(id),
        "c" => Audience::SessionOnly(id),
        "m" => Audience::Machine(id),
        _ => return None,
    };
    Some((number, Event { audience, body: TextParts::from(body.to_owned()), message_seq: None }))
}

/// Encodes a reference to a message as a line, without its line break.
fn encode_reference(number: u64, session: &str, seq: u64) -> String {
    format!("{number}\tr{}\t{seq}", serde_json::Value::from(session))
}

fn references(text: &str) -> impl Iterator<Item = MessageKey> {
    text.lines().filter_map(decode_reference).map(|(_, _, message)| message)
}

/// Replaces references by the events that `find` returns. If `find` returns `None`, replaces the reference by an event that no client
/// receives, so that the number of the event stays in the log.
fn resolve_references(text: &str, mut find: impl FnMut(&MessageKey) -> Option<String>) -> String {
    let mut resolved = String::with_capacity(text.len());
    for line in text.lines() {
        match decode_reference(line) {
            Some((number, session, message)) => {
                let event = find(&message);
                let (session, event) = event.as_ref().map_or((NO_SESSION, "{}"), |event| (session, event));
                [number, "\tc", session, "\t", event].into_iter().for_each(|part| resolved.push_str(part));
            }
            None => resolved.push_str(line),
        }
        resolved.push('\n');
    }
    resolved
}

/// Decodes a reference: the number of the event, the id of the session as JSON, and the message. `None` for any other line.
fn decode_reference(line: &str) -> Option<(&str, &str, MessageKey)> {
    let (number, reference) = line.split_once('\t')?;
    let (session, seq) = reference.strip_prefix('r')?.split_once('\t')?;
    Some((number, session, (serde_json::from_str(session).ok()?, seq.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_texts_are_not_decoded() {
        for malformed in ["x", "1\ts\"a\"", "\ts\"a\"\t{}", "1\tx\"a\"\t{}", "1\tsa\t{}", "1\t\t{}", "1\tä\"a\"\t{}"] {
            assert_eq!(decode_lines(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_reference_becomes_an_event_which_no_client_receives_if_the_message_was_deleted() {
        let text = format!("{}\n2\tm\"a\"\t{{}}\n{}\n", encode_reference(1, "s\t1", 7), encode_reference(3, "gone", 8));
        assert_eq!(references(&text).collect::<Vec<_>>(), [("s\t1".to_owned(), 7), ("gone".to_owned(), 8)]);
        let resolved = resolve_references(&text, |(session, seq)| (session != "gone").then(|| format!("[{seq}]")));
        assert_eq!(resolved, "1\tc\"s\\t1\"\t[7]\n2\tm\"a\"\t{}\n3\tc\"\"\t{}\n");
        assert_eq!(decode_lines(&resolved).map(|events| events.len()), Some(3));
    }
}
