//! Held messages: messages of web clients that wait until the CLI of their session is back.

use super::bulk::{BulkRow, BulkStatements};
use super::columns::read_rows;
use super::{DbError, Row, Statement};
use crate::model::message::HeldMessage;
use crate::model::namespace::Namespace;

/// Inserts messages. A session of another namespace violates the NOT NULL constraint of `session_id`. `?1`: JSON array, `?2`: namespace.
const UPSERT: &str = "
INSERT INTO held_messages (session_id, local_id, created_at, content)
SELECT (SELECT id FROM sessions WHERE id = value ->> 'session_id' AND namespace = ?2), value ->> 'local_id',
  value ->> 'created_at', value ->> 'content'
FROM json_each(?1) WHERE true
ON CONFLICT (session_id, local_id) DO UPDATE SET created_at = excluded.created_at, content = excluded.content";

/// `?1`: JSON array of pairs of a session and a local id, `?2`: namespace.
pub(super) const DELETE: &str = "
DELETE FROM held_messages
WHERE (session_id, local_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
  AND EXISTS (SELECT 1 FROM sessions WHERE id = session_id AND namespace = ?2)";

/// `?1`: JSON array of session ids, `?2`: namespace.
pub(super) const DELETE_OF_SESSIONS: &str = "
DELETE FROM held_messages WHERE session_id IN (SELECT id FROM sessions
  WHERE id IN (SELECT value FROM json_each(?1)) AND +namespace = ?2)";

/// Selects the held messages of a session in their order. `?1`: session, `?2`: namespace.
const SELECT: &str = "
SELECT local_id, created_at, content FROM held_messages
WHERE session_id = ?1 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)
ORDER BY created_at, local_id";

/// The number of held messages of a session.
macro_rules! held_messages_count {
    () => {
        "(SELECT count(*) FROM held_messages AS h WHERE h.session_id = sessions.id)"
    };
}
pub(super) use held_messages_count;

pub(super) fn upsert<'a>(bulk: &mut BulkStatements, messages: impl Iterator<Item = &'a (String, HeldMessage)>) {
    let row = |(session, m): &'a (String, HeldMessage)| BulkRow {
        columns: vec![
            ("session_id", session.as_str().into()),
            ("local_id", m.local_id.as_str().into()),
            ("created_at", m.created_at.into()),
            ("content", m.content.text().into()),
        ],
        texts: Vec::new(),
    };
    bulk.add_rows(UPSERT, messages.map(row));
}

pub fn select(namespace: &Namespace, session: &str) -> Statement {
    Statement::new(SELECT, [session.into(), namespace.into()])
}

pub fn read(rows: Vec<Row>) -> Result<Vec<HeldMessage>, DbError> {
    read_rows("held_messages", rows, |c| {
        let (local_id, created_at) = (c.text("local_id")?, c.number("created_at")?);
        Ok(HeldMessage { local_id, created_at, content: c.json("content")? })
    })
}
