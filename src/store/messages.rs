//! Messages: writing them with the parts of large ones, and lookups by local id. Pages: [`history`](super::history).

use super::bulk::{BulkRow, BulkStatements};
use super::columns::{Columns, read_rows};
use super::sessions::history_of;
use super::{DbError, Row, Statement, Value, parts};
use crate::limits::{MAX_LOCAL_ID_LOOKUPS, MAX_PART_BYTES};
use crate::model::message::Message;
use crate::model::namespace::Namespace;

/// Inserts messages. A repeated batch does not change the rows that it wrote before. Another message with the same seq violates
/// the NOT NULL constraint of `id`, so two writers can't mix their histories. A message with missing parts violates the same
/// constraint. A session of another namespace violates the NOT NULL constraint of `session_id`. `?1`: JSON array of
/// messages, `?2`: namespace, `?3`: a large content.
#[rustfmt::skip]
const INSERT: &str = concat!("
INSERT INTO messages (session_id, seq, id, local_id, created_at, parts, bytes, content)
SELECT history, value ->> 'seq',
  CASE WHEN value ->> 'parts' = 0 OR value ->> 'parts' = (SELECT count(*) FROM message_parts
    WHERE session_id = history AND message_id = value ->> 'id') THEN value ->> 'id' END,
  value ->> 'local_id', value ->> 'created_at', value ->> 'parts', value ->> 'bytes', coalesce(?3, value ->> 'content')
FROM (SELECT value, ", history_of!("value ->> 'session_id'", "?2"), " AS history FROM json_each(?1)) WHERE true
ON CONFLICT (session_id, seq) DO UPDATE SET id = CASE WHEN messages.id = excluded.id THEN messages.id END");

/// `?1`: JSON array of [parts](parts::rows), `?2`: namespace, `?3`: a large content.
#[rustfmt::skip]
const UPSERT_PARTS: &str = concat!("
INSERT INTO message_parts (session_id, message_id, part, content)
SELECT ", history_of!("value ->> 'owner'", "?2"),
    ", value ->> 'whole', value ->> 'part', coalesce(?3, value ->> 'content')
FROM json_each(?1) WHERE true
ON CONFLICT (session_id, message_id, part) DO UPDATE SET content = excluded.content");

/// Deletes parts whose message was never written. `?1`: JSON array of session ids, `?2`: namespace.
const DELETE_UNREACHABLE_PARTS: &str = "
DELETE FROM message_parts
WHERE session_id IN (SELECT coalesce(history, id) FROM sessions
    WHERE id IN (SELECT value FROM json_each(?1)) AND +namespace = ?2)
  AND NOT EXISTS (SELECT 1 FROM messages AS m
    WHERE m.session_id = message_parts.session_id AND m.id = message_parts.message_id AND m.parts > 0)";

/// The local ids among the last messages of a session. The unary `+` makes SQLite search by `seq`: the index of local ids
/// would scan the whole session. `?1`: session, `?2`: namespace, `?3`: number of messages.
#[rustfmt::skip]
const SELECT_LOCAL_IDS: &str = concat!("
SELECT local_id, id, seq, created_at FROM messages
WHERE session_id = ", history_of!("?1", "?2"), " AND seq > (SELECT max(seq) FROM messages WHERE session_id = ",
    history_of!("?1", "?2"), ") - ?3 AND +local_id IS NOT NULL
ORDER BY seq DESC");

/// Finds messages by the index of local ids. `CROSS JOIN` keeps SQLite from scanning all messages of a session for each pair.
/// `?1`: JSON array of pairs of a session and a local id, `?2`: namespace.
#[rustfmt::skip]
pub const SELECT_BY_LOCAL_IDS: &str = concat!("
SELECT w.key AS position, m.id, m.seq, m.created_at
FROM json_each(?1) AS w CROSS JOIN messages AS m
WHERE m.session_id = ", history_of!("w.value ->> 0", "?2"), " AND m.local_id = w.value ->> 1");

/// Selects messages that may contain a todo list, newest first. Searches the last 2,000 messages, except messages that are
/// larger than a todo list may be. If the session has a todo list, the lower bound is NULL, and no message is read.
/// `?1`: session, `?2`: namespace, `?3`: limit, `?4`: seq below which to search.
#[rustfmt::skip]
const SELECT_TODO_CANDIDATES: &str = concat!(r#"
SELECT seq, content FROM messages
WHERE session_id = "#, history_of!("?1", "?2"), r#" AND parts = 0 AND bytes < 300000 AND seq < ?4
  AND seq > CASE WHEN (SELECT todos IS NULL FROM sessions WHERE id = ?1 AND namespace = ?2)
    THEN (SELECT max(seq) FROM messages WHERE session_id = "#, history_of!("?1", "?2"), r#") - 2000 END
  AND (content LIKE '%"TodoWrite"%' OR content LIKE '%"plan"%')
ORDER BY seq DESC LIMIT ?3"#);

/// A stored message, as a lookup by local id returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRef {
    pub id: String,
    /// The position of the message in the history of the session.
    pub seq: u64,
    /// The time when the hub received the message, in Unix milliseconds.
    pub created_at: u64,
}

/// Whether a message is larger than a row.
pub(super) fn is_large(m: &Message) -> bool {
    m.content.text().len() > MAX_PART_BYTES
}

/// Inserts messages, each with the first part of its content.
pub(super) fn insert<'a>(bulk: &mut BulkStatements, messages: impl Iterator<Item = &'a (String, Message)>) {
    let row = |(session, m): &'a (String, Message)| {
        let content = m.content.text();
        BulkRow {
            columns: vec![
                ("session_id", session.as_str().into()),
                ("seq", m.seq.into()),
                ("id", m.id.as_str().into()),
                ("local_id", m.local_id.as_deref().into()),
                ("created_at", m.created_at.into()),
                ("parts", (parts::split(content).count().saturating_sub(1) as u64).into()),
                ("bytes", (content.len() as u64).into()),
            ],
            texts: vec![("content", parts::split(content).next())],
        }
    };
    bulk.add_rows(INSERT, messages.map(row));
}

/// Builds the transactions that must be committed before large messages are inserted: the parts of their contents after the first.
pub(super) fn write_parts<'a>(
    namespace: &'a Namespace,
    messages: &'a [(String, Message)],
) -> impl Iterator<Item = Vec<Statement>> + 'a {
    let sessions = messages.iter().map(|(session, _)| session.as_str());
    let rows = messages
        .iter()
        .flat_map(|(session, m)| parts::rows(session, m.id.as_str().into(), m.content.text(), 0).skip(1));
    parts::build_transactions(namespace, (DELETE_UNREACHABLE_PARTS, sessions), (UPSERT_PARTS, rows))
}

/// A statement that selects the local ids of the last `count` messages of a session, for [`read_local_ids`].
pub fn select_local_ids(namespace: &Namespace, session: &str, count: u64) -> Statement {
    Statement::new(SELECT_LOCAL_IDS, [session.into(), namespace.into(), count.into()])
}

pub fn read_local_ids(rows: Vec<Row>) -> Result<Vec<(String, MessageRef)>, DbError> {
    read_rows("messages", rows, |c| Ok((c.text("local_id")?, read_ref(c)?)))
}

/// The statements that find messages by pairs of a session and a local id, for [`read_by_local_ids`].
pub fn select_by_local_ids<'a>(
    namespace: &'a Namespace,
    pairs: &'a [(String, String)],
) -> impl Iterator<Item = Statement> + 'a {
    pairs
        .chunks(MAX_LOCAL_ID_LOOKUPS)
        .map(|pairs| Statement::new(SELECT_BY_LOCAL_IDS, [Value::json(pairs), namespace.into()]))
}

/// Reads the results of a batch with the statements of [`select_by_local_ids`] for `count` pairs. Returns the message of each pair.
pub fn read_by_local_ids(
    count: usize,
    batch: &[Statement],
    results: &mut [Vec<Row>],
) -> Result<Vec<Option<MessageRef>>, DbError> {
    let mut found = vec![None; count];
    let lookups = batch.iter().zip(results).filter(|(statement, _)| statement.sql == SELECT_BY_LOCAL_IDS);
    for ((_, rows), slots) in lookups.zip(found.chunks_mut(MAX_LOCAL_ID_LOOKUPS)) {
        for row in std::mem::take(rows) {
            let mut c = Columns::new("messages", row);
            let position = c.number("position")?;
            let message = read_ref(&mut c)?;
            if let Some(slot) = usize::try_from(position).ok().and_then(|position| slots.get_mut(position)) {
                *slot = Some(message);
            }
        }
    }
    Ok(found)
}

/// A statement that selects messages that may contain a todo list, for [`read_todo_candidates`]: the newest `limit` messages
/// below the seq `before`. Selects none if the session has a todo list.
pub fn select_todo_candidates(namespace: &Namespace, session: &str, limit: u64, before: u64) -> Statement {
    let params = [session.into(), namespace.into(), limit.into(), before.into()];
    Statement::new(SELECT_TODO_CANDIDATES, params)
}

pub fn read_todo_candidates(rows: Vec<Row>) -> Result<Vec<(u64, String)>, DbError> {
    read_rows("messages", rows, |c| Ok((c.number("seq")?, c.text("content")?)))
}

fn read_ref(c: &mut Columns) -> Result<MessageRef, DbError> {
    Ok(MessageRef { id: c.text("id")?, seq: c.number("seq")?, created_at: c.number("created_at")? })
}
