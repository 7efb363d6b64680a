//! Deletes and merges sessions, and deletes whole namespaces (docs/design/namespaces.md). The row of a removed session becomes a
//! tombstone, whose namespace has a prefix that no token can have: `/` for a deleted session, `//` for a merged one.

use super::bulk::BulkStatements;
use super::columns::{Columns, read_last};
use super::sessions::{history_of, upsert};
use super::{Database, DbError, Statement, Value, of_namespace, query};
use crate::model::namespace::Namespace;
use crate::model::session::Session;

/// A session is merged only if it has at most this many times 5,000 messages, and this many times 10 MB: D1 limits the batch to 30 s.
const MAX_MERGE_UNITS: u64 = 60;

/// Turns the rows of deleted sessions into tombstones, until a [sweep](SWEEP) deletes them. Their tags become free.
#[rustfmt::skip]
macro_rules! create_tombstones {
    ($condition:literal) => {
        concat!("
UPDATE sessions SET namespace = '/' || namespace, tag = id, metadata = NULL, agent_state = NULL, todos = NULL,
  metadata_parts = NULL, agent_state_parts = NULL
WHERE ", $condition)
    };
}

/// `?1`: JSON array of ids, `?2`: namespace.
pub(super) const CREATE_TOMBSTONES: &str =
    create_tombstones!("+namespace = ?2 AND id IN (SELECT value FROM json_each(?1))");

/// Deletes some sessions of a namespace. `?1`: namespace.
const DELETE_SOME_SESSIONS: &str = create_tombstones!("id IN (SELECT id FROM sessions WHERE namespace = ?1 LIMIT 40)");

/// Turns the rows of merged sessions into tombstones if no session has their history any more, or yet: the session was deleted, or is not
/// in a copy of the namespace. `?1`: namespace.
pub(super) const CREATE_TOMBSTONES_OF_MERGED: &str =
    "UPDATE sessions SET namespace = '/' || ?1 WHERE namespace = '//' || ?1
  AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.history = sessions.history AND +s.namespace = ?1)";

/// A column of the first tombstone: the deleted session of the namespace `?1` with the smallest id.
macro_rules! of_first_tombstone {
    ($column:literal) => {
        concat!("(SELECT ", $column, " FROM sessions WHERE namespace = '/' || ?1 ORDER BY tag LIMIT 1)")
    };
}

/// Deletes a part of the messages and completed requests of one deleted session of a namespace. Once none are left, deletes the
/// tombstones of the session and of the sessions that were merged into it. Selects whether deleted sessions remain. Each
/// statement deletes at most 5,000 rows, and about 60 MB. `?1`: namespace.
#[rustfmt::skip]
const SWEEP: [&str; 5] = [
    concat!("DELETE FROM message_parts WHERE rowid IN (SELECT rowid FROM message_parts WHERE session_id = ",
        of_first_tombstone!("coalesce(history, id)"), " LIMIT 40)"),
    concat!("DELETE FROM messages WHERE session_id = ", of_first_tombstone!("coalesce(history, id)"),
        " AND seq <= (SELECT max(seq) FROM (
    SELECT seq, sum(size) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - size AS before FROM (
      SELECT seq, min(bytes, 1500000) AS size FROM messages WHERE session_id = ",
        of_first_tombstone!("coalesce(history, id)"), " ORDER BY seq LIMIT 5000))
  WHERE before < 60000000)"),
    concat!("DELETE FROM completed_requests WHERE rowid IN (SELECT rowid FROM completed_requests WHERE session_id = ",
        of_first_tombstone!("id"), " LIMIT 5000)"),
    concat!("DELETE FROM sessions WHERE (id = ", of_first_tombstone!("id"),
        " OR +namespace = '//' || ?1 AND history = ", of_first_tombstone!("coalesce(history, id)"), ")
  AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ", of_first_tombstone!("coalesce(history, id)"), ")
  AND NOT EXISTS (SELECT 1 FROM message_parts WHERE session_id = ", of_first_tombstone!("coalesce(history, id)"), ")
  AND NOT EXISTS (SELECT 1 FROM completed_requests WHERE session_id = ", of_first_tombstone!("id"), ")"),
    "SELECT EXISTS (SELECT 1 FROM sessions WHERE namespace = '/' || ?1) AS remain",
];

/// Whether both sessions of a merge exist. Without this condition, a repeated merge would change rows again.
macro_rules! both_exist {
    () => {
        "2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)"
    };
}

/// Selects the last seq of each chunk of a session's messages. A chunk has at most 5,000 messages, and about 10 MB. `by_rows` and
/// `by_bytes`: the full units of 5,000 messages and of 10 MB before the chunk. Reads one message more than [`MAX_MERGE_UNITS`]
/// allows, which shows that the session is too large. `?1`: session, `?2`: namespace.
#[rustfmt::skip]
const SELECT_CHUNK_ENDS: &str = concat!("
SELECT max(seq) AS last, by_rows, by_bytes FROM (
  SELECT seq, (row_number() OVER preceding - 1) / 5000 AS by_rows,
    (sum(bytes) OVER preceding - bytes) / 10000000 AS by_bytes
  FROM (SELECT seq, bytes FROM messages WHERE session_id = ", history_of!("?1", "?2"),
    " ORDER BY seq LIMIT 300001) WINDOW preceding AS (ORDER BY seq ROWS UNBOUNDED PRECEDING))
GROUP BY by_rows, by_bytes ORDER BY last");

/// The last seq of the history of `old`, whose newest messages may have been deleted.
#[rustfmt::skip]
macro_rules! last_seq_of_old {
    () => {
        concat!("max((SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = ", history_of!("?1", "?3"),
            "), coalesce((SELECT seq FROM sessions WHERE id = ?1), 0))")
    };
}

/// The statements that move a chunk of the messages of `new` to the end of the history of `old`, in this order. A message that
/// both sessions contain (same local id) keeps its place in the history of `old`. `?1`: `old`, `?2`: `new`, `?3`: namespace,
/// `?4`: the seq before the chunk, `?5`: its last seq.
#[rustfmt::skip]
const MOVE_CHUNK: [&str; 3] = [
    concat!("DELETE FROM messages WHERE session_id = ", history_of!("?2", "?3"), " AND seq > ?4 AND seq <= ?5
  AND EXISTS (SELECT 1 FROM messages AS o WHERE o.session_id = ", history_of!("?1", "?3"),
        " AND o.local_id = messages.local_id)"),
    concat!("UPDATE message_parts SET session_id = ", history_of!("?1", "?3"), " WHERE session_id = ",
        history_of!("?2", "?3"), " AND message_id IN (SELECT id FROM messages WHERE session_id = ",
        history_of!("?2", "?3"), " AND parts > 0 AND seq > ?4 AND seq <= ?5) AND ", both_exist!()),
    concat!("UPDATE messages SET session_id = ", history_of!("?1", "?3"), ", seq = moved.seq
FROM (SELECT seq AS old, row_number() OVER (ORDER BY seq)
    + ", last_seq_of_old!(), " AS seq
  FROM messages WHERE session_id = ", history_of!("?2", "?3"), " AND seq > ?4 AND seq <= ?5) AS moved
WHERE messages.session_id = ", history_of!("?2", "?3"), " AND messages.seq = moved.old AND ", both_exist!()),
];

/// The statements that end a merge, in this order. `new` gets the history of `old`, which stays under the id of `old`: no message is
/// rewritten. The row of `old` becomes a tombstone, which [`SWEEP`] deletes with it. `?1`: `old`, `?2`: `new`, `?3`: namespace.
#[rustfmt::skip]
const END_MERGE: [&str; 8] = [
    // Parts of messages that both sessions contained.
    concat!("DELETE FROM message_parts WHERE session_id = ", history_of!("?2", "?3"), " AND ", both_exist!()),
    concat!("UPDATE OR IGNORE completed_requests SET session_id = ?2 WHERE session_id = ?1 AND ", both_exist!()),
    concat!("DELETE FROM completed_requests WHERE session_id = ?1 AND ", both_exist!()),
    concat!("UPDATE OR IGNORE held_messages SET session_id = ?2 WHERE session_id = ?1 AND ", both_exist!()),
    concat!("DELETE FROM held_messages WHERE session_id = ?1 AND ", both_exist!()),
    concat!("UPDATE sessions SET history = ", history_of!("?1", "?3"),
        " WHERE +namespace = '//' || ?3 AND history = ", history_of!("?2", "?3"), " AND ", both_exist!()),
    concat!("UPDATE sessions SET history = ", history_of!("?1", "?3"), ", seq = ", last_seq_of_old!(),
        " WHERE id = ?2 AND ", both_exist!()),
    concat!(
        "UPDATE sessions SET namespace = '//' || namespace, tag = id, history = coalesce(history, id), metadata = NULL,
  agent_state = NULL, todos = NULL, metadata_parts = NULL, agent_state_parts = NULL WHERE id = ?1 AND ", both_exist!()),
];

/// Deletes a part of the messages and completed requests of deleted sessions. Returns whether any deleted session remains.
pub async fn sweep(db: &dyn Database, namespace: &Namespace) -> Result<bool, DbError> {
    read_last(db, "sessions", of_namespace(namespace, SWEEP)).await?.flag("remain")
}

/// Loads the last seqs of the chunks in which [`merge`] moves the messages of `session`. Returns `None` if the session has more
/// than [`MAX_MERGE_UNITS`] times 5,000 messages or 10 MB.
pub async fn load_chunk_ends(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
) -> Result<Option<Vec<u64>>, DbError> {
    let rows = query(db, Statement::new(SELECT_CHUNK_ENDS, [session.into(), namespace.into()])).await?;
    let mut ends = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new("messages", row);
        ends.push(columns.number("last")?);
        if columns.number("by_rows")?.max(columns.number("by_bytes")?) >= MAX_MERGE_UNITS {
            return Ok(None);
        }
    }
    Ok(Some(ends))
}

/// Returns statements that write `new` and remove `old`. The messages of `new` move to the end of the history of `old`, which then belongs
/// to `new`, as do its completed requests and held messages. `chunk_ends`: of [`load_chunk_ends`] for `new`.
pub fn merge(namespace: &Namespace, old: &str, new: &Session, chunk_ends: &[u64]) -> Vec<Statement> {
    let mut bulk = BulkStatements::new(namespace);
    upsert(&mut bulk, std::iter::once(new));
    let params: Vec<Value> = vec![old.into(), new.id.as_str().into(), namespace.into()];
    let mut before = 0;
    for last in chunk_ends {
        let bounds: [Value; 2] = [before.into(), (*last).into()];
        let params = [params.as_slice(), &bounds].concat();
        bulk.statements.extend(MOVE_CHUNK.map(|sql| Statement::new(sql, params.clone())));
        before = *last;
    }
    bulk.statements.extend(END_MERGE.map(|sql| Statement::new(sql, params.clone())));
    bulk.statements
}

/// Deletes some rows of each table, except the tables of messages and the tables of access. Deletes at most 40 rows of a table whose rows
/// may have 1.5 MB. The last statement selects whether rows remain. `?1`: namespace.
const DELETE_PART: [&str; 8] = [
    DELETE_SOME_SESSIONS,
    "DELETE FROM value_parts WHERE rowid IN (SELECT rowid FROM value_parts WHERE namespace = ?1 LIMIT 40)",
    "DELETE FROM events WHERE namespace = ?1 AND last IN (SELECT last FROM events WHERE namespace = ?1 ORDER BY last LIMIT 40)",
    "DELETE FROM machines WHERE id IN (SELECT id FROM machines WHERE namespace = ?1 LIMIT 40)",
    // Sessions without messages, many at a time: a sweep takes one.
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions AS s WHERE namespace = '/' || ?1 AND history IS NULL
  AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM message_parts WHERE session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM completed_requests WHERE session_id = s.id) LIMIT 200)",
    // Merged sessions without messages.
    "DELETE FROM sessions WHERE namespace = '//' || ?1 AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id)
  AND NOT EXISTS (SELECT 1 FROM message_parts WHERE session_id = sessions.id)",
    CREATE_TOMBSTONES_OF_MERGED,
    "SELECT EXISTS (SELECT 1 FROM sessions WHERE namespace IN (?1, '/' || ?1, '//' || ?1))
  OR EXISTS (SELECT 1 FROM value_parts WHERE namespace = ?1) OR EXISTS (SELECT 1 FROM events WHERE namespace = ?1)
  OR EXISTS (SELECT 1 FROM machines WHERE namespace = ?1) AS remain",
];

/// Keeps the generation of the namespace's tokens, so that revoked tokens are not valid for a later namespace of this name. `?1`: namespace.
const DELETE_ACCESS: [&str; 3] = [
    "DELETE FROM push_subscriptions WHERE namespace = ?1",
    "DELETE FROM devices WHERE namespace = ?1",
    "DELETE FROM pairings WHERE namespace = ?1",
];

/// Counts the sessions, also deleted and merged ones.
pub async fn count_sessions(db: &dyn Database, namespace: &Namespace) -> Result<u64, DbError> {
    let sql = "SELECT count(*) AS sessions FROM sessions WHERE namespace IN (?1, '/' || ?1, '//' || ?1)";
    read_last(db, "sessions", of_namespace(namespace, [sql])).await?.number("sessions")
}

/// Deletes a part of the rows: of the messages of one session, and of each other table. Returns whether rows remain, except the fence.
pub async fn delete_part(db: &dyn Database, namespace: &Namespace) -> Result<bool, DbError> {
    sweep(db, namespace).await?;
    read_last(db, "sessions", of_namespace(namespace, DELETE_PART)).await?.flag("remain")
}

/// Deletes the rows of a namespace in the tables of access, except the generation of its tokens.
pub async fn delete_access(access: &dyn Database, namespace: &Namespace) -> Result<(), DbError> {
    access.batch(&mut of_namespace(namespace, DELETE_ACCESS)).await.map(drop)
}

/// Deletes a fence of a namespace without other rows. Repeated, because a batch that begins an epoch stores the fence again.
pub async fn delete_fence(db: &dyn Database, key: &str) -> Result<(), DbError> {
    let statement = |sql| Statement::new(sql, [key.into()]);
    while !query(db, statement("SELECT 1 FROM fences WHERE namespace = ?1")).await?.is_empty() {
        query(db, statement("DELETE FROM fences WHERE namespace = ?1")).await?;
    }
    Ok(())
}
