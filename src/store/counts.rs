//! Counting what a namespace has stored.

use super::columns::Columns;
use super::{Database, DbError, Statement, query};
use crate::model::namespace::Namespace;

/// Reads one row for each session, one for its last message, and one for each machine. The last seq of a session is the number of
/// its messages.
const COUNT: &str = "
SELECT count(*) AS sessions, coalesce(sum(active), 0) AS active_sessions, 
  coalesce(sum((SELECT max(m.seq) FROM messages AS m WHERE m.session_id = coalesce(sessions.history, sessions.id))), 0)
    AS messages,
  (SELECT count(*) FROM machines WHERE namespace = ?1) AS machines,
  (SELECT count(*) FROM machines WHERE namespace = ?1 AND active = 1) AS online_machines
FROM sessions WHERE namespace = ?1";

/// How much a namespace has stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub sessions: u64,
    pub active_sessions: u64,
    pub messages: u64,
    pub machines: u64,
    pub online_machines: u64,
}

pub async fn load(db: &dyn Database, namespace: &Namespace) -> Result<Counts, DbError> {
    let rows = query(db, Statement::new(COUNT, [namespace.as_ref().into()])).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(Counts::default()) };
    let mut c = Columns::new("sessions", row);
    Ok(Counts {
        sessions: c.number("sessions")?,
        active_sessions: c.number("active_sessions")?,
        messages: c.number("messages")?,
        machines: c.number("machines")?,
        online_machines: c.number("online_machines")?,
    })
}
