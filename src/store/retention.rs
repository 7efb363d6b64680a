//! Finds and deletes what is older than its retention.

use super::columns::{Columns, read_rows};
use super::sessions::history_of;
use super::{Database, DbError, Statement, Value, query};
use crate::model::namespace::Namespace;

/// How many archived sessions are found at once.
pub const ARCHIVED_AT_ONCE: usize = 20;
/// The most bytes of messages that a batch deletes, unless its first session has a larger message.
const MAX_BATCH_BYTES: u64 = 60_000_000;

/// Selects archived sessions without a change since `?3`, in the order of their tags. The cheap conditions come first.
/// `?1`: namespace, `?2`: the tag before the first, `?4`: limit.
const SELECT_ARCHIVED: &str = "
SELECT tag, id FROM sessions
WHERE namespace = ?1 AND tag > ?2 AND updated_at < ?3 AND NOT active AND NOT pinned
  AND CASE WHEN json_valid(metadata) THEN metadata ->> 'lifecycleState' = 'archived' END
ORDER BY tag LIMIT ?4";

/// Selects at most 20 sessions whose first message is older than `?2`. Each row has the last `seq` to delete, and the bytes of the
/// messages up to this `seq`: at most 250 messages, and about 3 MB. A message counts as old only if all earlier messages are old, so that a
/// history never has a gap. `?1`: namespace.
const SELECT_EXPIRED: &str = "
SELECT id, max(seq) AS last, sum(bytes) AS bytes FROM (
  SELECT e.id, m.seq, m.bytes, max(m.created_at) OVER preceding AS newest, sum(m.bytes) OVER preceding - m.bytes AS before
  FROM (SELECT * FROM (
      SELECT id, coalesce(history, id) AS history,
        (SELECT min(seq) FROM messages WHERE session_id = coalesce(s.history, s.id)) AS first
      FROM sessions AS s WHERE namespace = ?1)
    WHERE (SELECT created_at FROM messages WHERE session_id = history AND seq = first) < ?2 LIMIT 20) AS e
  CROSS JOIN messages AS m
  WHERE m.session_id = e.history AND m.seq < e.first + 250
  WINDOW preceding AS (PARTITION BY e.id ORDER BY m.seq ROWS UNBOUNDED PRECEDING))
WHERE newest < ?2 AND before < 3000000
GROUP BY id";

/// The first messages of a session, up to a `seq`. A merge may have given the session another history since they were selected, so
/// their age is checked again. `?1`: JSON array of pairs of a session and a `seq`, `?2`: namespace, `?3`: the cutoff.
#[rustfmt::skip]
macro_rules! expired {
    () => {
        concat!("m.session_id = ", history_of!("r.value ->> 0", "?2"),
            " AND m.seq <= r.value ->> 1 AND m.created_at < ?3")
    };
}

/// The statements that delete the messages. The first copies the values that a read takes from the newest message to its session.
#[rustfmt::skip]
const DELETE_EXPIRED: [&str; 4] = [
    "
UPDATE sessions SET seq = max(sessions.seq, m.seq), updated_at = max(sessions.updated_at, m.created_at)
FROM json_each(?1) AS r CROSS JOIN messages AS m
WHERE sessions.id = r.value ->> 0 AND +sessions.namespace = ?2
  AND m.session_id = coalesce(sessions.history, sessions.id) AND m.seq = r.value ->> 1 AND m.created_at < ?3",
    concat!("
DELETE FROM message_parts WHERE rowid IN (
  SELECT p.rowid FROM json_each(?1) AS r CROSS JOIN messages AS m CROSS JOIN message_parts AS p
  WHERE ", expired!(), " AND m.parts > 0 AND p.session_id = m.session_id AND p.message_id = m.id)"),
    concat!("
UPDATE history_sizes SET bytes = history_sizes.bytes - deleted.bytes FROM (
  SELECT m.session_id, sum(m.bytes) AS bytes FROM json_each(?1) AS r CROSS JOIN history_sizes AS h CROSS JOIN messages AS m
  WHERE h.session_id = ", history_of!("r.value ->> 0", "?2"),
        " AND m.session_id = h.session_id AND m.seq <= min(h.seq, r.value ->> 1) AND m.created_at < ?3 GROUP BY m.session_id) AS deleted
WHERE history_sizes.session_id = deleted.session_id"),
    concat!("
DELETE FROM messages WHERE rowid IN (SELECT m.rowid FROM json_each(?1) AS r CROSS JOIN messages AS m WHERE ",
        expired!(), ")"),
];

/// Returns tag and id of at most [`ARCHIVED_AT_ONCE`] archived, not pinned sessions after a tag, unchanged since `cutoff`.
pub async fn find_archived(
    db: &dyn Database,
    namespace: &Namespace,
    after_tag: &str,
    cutoff: u64,
) -> Result<Vec<(String, String)>, DbError> {
    let params = [namespace.into(), after_tag.into(), cutoff.into(), (ARCHIVED_AT_ONCE as u64).into()];
    let rows = query(db, Statement::new(SELECT_ARCHIVED, params)).await?;
    read_rows("sessions", rows, |c| Ok((c.text("tag")?, c.text("id")?)))
}

/// Deletes a batch of messages that were created before `cutoff`. Returns whether it deleted any.
pub async fn delete_expired(db: &dyn Database, namespace: &Namespace, cutoff: u64) -> Result<bool, DbError> {
    let rows = query(db, Statement::new(SELECT_EXPIRED, [namespace.into(), cutoff.into()])).await?;
    let (mut expired, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let mut c = Columns::new("messages", row);
        let (id, last, session_bytes) = (c.text("id")?, c.number("last")?, c.number("bytes")?);
        bytes += session_bytes;
        if expired.is_empty() || bytes <= MAX_BATCH_BYTES {
            expired.push((id, last));
        }
    }
    if expired.is_empty() {
        return Ok(false);
    }
    let expired = Value::json(&expired);
    let statement = |sql| Statement::new(sql, [expired.clone(), namespace.into(), cutoff.into()]);
    db.batch(&mut DELETE_EXPIRED.map(statement).into()).await?;
    Ok(true)
}
