//! The completed permission requests of a session, its *record*. Above the size limit of a record, the oldest entries are deleted.

use super::bulk::{BulkRow, BulkStatements};
use super::columns::Columns;
use super::{DbError, Row, Statement};
use crate::model::agent_state::CompletedRequest;
use crate::model::json::Json;
use crate::model::namespace::Namespace;

/// The size above which the record of a session's completed requests is trimmed, in bytes, overhead included. The record is read
/// whole and is in memory several times while it is sent. The SQL in `store::completed_requests` repeats this number.
pub const MAX_COMPLETED_REQUESTS_BYTES: usize = 10_000_000;

/// The size of an entry besides its id and value, in bytes.
pub const ENTRY_OVERHEAD_BYTES: usize = 200;

/// Writes requests that are new or changed. A session of another namespace violates the NOT NULL constraint of `value`.
/// `?1`: JSON array of requests, `?2`: namespace, `?3`: a large value.
const UPSERT: &str = "
INSERT INTO completed_requests (session_id, request_id, completed_at, value)
SELECT value ->> 'session_id', value ->> 'request_id', value ->> 'completed_at',
  CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE id = value ->> 'session_id' AND namespace = ?2)
    THEN coalesce(?3, value ->> 'value') END
FROM json_each(?1) WHERE true
ON CONFLICT (session_id, request_id) DO UPDATE SET completed_at = excluded.completed_at, value = excluded.value";

/// SQL: the size of an entry in bytes. 200 is [`ENTRY_OVERHEAD_BYTES`].
macro_rules! entry_bytes {
    () => {
        "length(CAST(request_id AS BLOB)) + length(CAST(value AS BLOB)) + 200"
    };
}

/// SQL that selects the entries of sessions. `$sessions`: SQL that selects the ids of the sessions. The columns: `entry`, the row id;
/// `from_newest`, the total size of the entry and of all newer entries of the session, in bytes.
#[rustfmt::skip]
macro_rules! summed_entries {
    ($sessions:literal) => { concat!("SELECT rowid AS entry,
    sum(", entry_bytes!(),
        ") OVER (PARTITION BY session_id ORDER BY completed_at DESC, request_id DESC) AS from_newest
  FROM completed_requests WHERE session_id IN (", $sessions, ")") };
}

/// Selects the newest entries of a record, which together have at most [`MAX_COMPLETED_REQUESTS_BYTES`], and the total size of
/// the record. The running sum is computed only for a record above the limit, which is rare. `?1`: session, `?2`: namespace.
#[rustfmt::skip]
const SELECT: &str = concat!("
SELECT request_id, completed_at, value, total
FROM completed_requests, (SELECT sum(", entry_bytes!(), ") AS total FROM completed_requests WHERE session_id = ?1)
WHERE session_id = ?1 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)
  AND (total <= 10000000 OR completed_requests.rowid IN (SELECT entry FROM (
  ", summed_entries!("?1"), ")
WHERE from_newest <= 10000000))");

/// Deletes the oldest entries above `TRIMMED_COMPLETED_REQUESTS_BYTES` of records. `?1`: JSON array of session ids, `?2`: namespace.
#[rustfmt::skip]
pub(super) const TRIM: &str = concat!("
DELETE FROM completed_requests WHERE rowid IN (SELECT entry FROM (
  ", summed_entries!("SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) AND +namespace = ?2"), ")
WHERE from_newest > 9000000)");

pub(super) fn upsert<'a>(bulk: &mut BulkStatements, requests: impl Iterator<Item = &'a CompletedRequest>) {
    let row = |r: &'a CompletedRequest| BulkRow {
        columns: vec![
            ("session_id", r.session_id.as_str().into()),
            ("request_id", r.request_id.as_str().into()),
            ("completed_at", r.completed_at.into()),
        ],
        texts: vec![("value", Some(r.value.text()))],
    };
    bulk.add_rows(UPSERT, requests.map(row));
}

pub struct Record {
    /// The newest entries: id, time of completion, value.
    pub entries: Vec<(String, u64, Json)>,
    /// Whether the record exceeds [`MAX_COMPLETED_REQUESTS_BYTES`]. Its oldest entries are then not in `entries`.
    pub exceeds_limit: bool,
}

pub fn select(namespace: &Namespace, session: &str) -> Statement {
    Statement::new(SELECT, [session.into(), namespace.into()])
}

pub fn read(rows: Vec<Row>) -> Result<Record, DbError> {
    let mut record = Record { entries: Vec::with_capacity(rows.len()), exceeds_limit: false };
    for row in rows {
        let mut c = Columns::new("completed_requests", row);
        record.entries.push((c.text("request_id")?, c.number("completed_at")?, c.json("value")?));
        record.exceeds_limit = c.number("total")? > MAX_COMPLETED_REQUESTS_BYTES as u64;
    }
    Ok(record)
}
