//! Deletes all rows of a namespace. Source: docs/design/namespaces.md.

use super::columns::Columns;
use super::removals::{CREATE_TOMBSTONES_OF_MERGED, DELETE_SOME_SESSIONS, sweep};
use super::{Database, DbError, Statement, query};
use crate::model::namespace::Namespace;

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

const DELETE_FENCE: &str = "DELETE FROM fences WHERE namespace = ?1";
const SELECT_FENCE: &str = "SELECT 1 FROM fences WHERE namespace = ?1";

const COUNT_SESSIONS: &str = "SELECT count(*) AS sessions FROM sessions WHERE namespace IN (?1, '/' || ?1, '//' || ?1)";

/// Counts the sessions, also deleted and merged ones.
pub async fn count_sessions(db: &dyn Database, namespace: &Namespace) -> Result<u64, DbError> {
    let row = query(db, Statement::new(COUNT_SESSIONS, [namespace.as_ref().into()])).await?.pop();
    Columns::new("sessions", row.unwrap_or_default()).number("sessions")
}

/// Deletes a part of the rows of a namespace: a part of the messages of one session, and a part of each other table. Returns whether
/// rows remain, except the fence.
pub async fn delete_part(db: &dyn Database, namespace: &Namespace) -> Result<bool, DbError> {
    sweep(db, namespace).await?;
    let mut statements = DELETE_PART.map(|sql| Statement::new(sql, [namespace.as_ref().into()])).to_vec();
    let row = db.batch(&mut statements).await?.pop().and_then(|mut rows| rows.pop());
    Columns::new("sessions", row.unwrap_or_default()).flag("remain")
}

/// Deletes the rows of a namespace in the tables of access, except the generation of its tokens.
pub async fn delete_access(access: &dyn Database, namespace: &Namespace) -> Result<(), DbError> {
    let mut statements = DELETE_ACCESS.map(|sql| Statement::new(sql, [namespace.as_ref().into()])).to_vec();
    access.batch(&mut statements).await.map(drop)
}

/// Deletes a fence of a namespace without other rows. If the batch begins an epoch, it stores the fence again, so the deletion is
/// repeated.
pub async fn delete_fence(db: &dyn Database, key: &str) -> Result<(), DbError> {
    let statement = |sql| Statement::new(sql, [key.into()]);
    while !query(db, statement(SELECT_FENCE)).await?.is_empty() {
        db.batch(&mut vec![statement(DELETE_FENCE)]).await?;
    }
    Ok(())
}
