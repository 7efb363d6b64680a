//! Counting what a namespace has stored, and the bytes of its messages.

use super::columns::read_last;
use super::{Database, DbError, of_namespace};
use crate::model::namespace::Namespace;

/// Reads one row for each session, one for its last message, and one for each machine: the last seq is the number of messages.
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
    let mut c = read_last(db, "sessions", of_namespace(namespace, [COUNT])).await?;
    Ok(Counts {
        sessions: c.number("sessions")?,
        active_sessions: c.number("active_sessions")?,
        messages: c.number("messages")?,
        machines: c.number("machines")?,
        online_machines: c.number("online_machines")?,
    })
}

/// The histories of a namespace's sessions. A history remains under its id when its session is merged into another one.
macro_rules! histories {
    () => {
        "sessions AS s LEFT JOIN history_sizes AS h ON h.session_id = coalesce(s.history, s.id) WHERE s.namespace = ?1"
    };
}

/// Counts the bytes of messages that are not counted yet: of at most 20 histories, and with 250 consecutive seqs of each. The table
/// `history_sizes` has the size of each history up to a `seq`, so each message is counted once, and only in namespaces that need the
/// size. `?1`: namespace.
#[rustfmt::skip]
const COUNT_BYTES: &str = concat!("
INSERT INTO history_sizes (session_id, seq, bytes)
SELECT m.session_id, max(m.seq), sum(m.bytes) FROM (
  SELECT * FROM (
    SELECT coalesce(s.history, s.id) AS history, (SELECT min(seq) FROM messages
      WHERE session_id = coalesce(s.history, s.id) AND seq > coalesce(h.seq, 0)) AS first
    FROM ", histories!(), ") WHERE first IS NOT NULL LIMIT 20) AS uncounted CROSS JOIN messages AS m
WHERE m.session_id = uncounted.history AND m.seq BETWEEN uncounted.first AND uncounted.first + 249
GROUP BY m.session_id
ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, bytes = bytes + excluded.bytes");

/// The counted bytes, and whether uncounted messages remain. `?1`: namespace.
#[rustfmt::skip]
const SELECT_BYTES: &str = concat!("
SELECT coalesce(sum(h.bytes), 0) AS bytes, coalesce(max(EXISTS (SELECT 1 FROM messages
  WHERE session_id = coalesce(s.history, s.id) AND seq > coalesce(h.seq, 0))), 0) AS remain
FROM ", histories!());

/// Counts the bytes of some messages. Returns the bytes of all counted messages, and whether all messages are counted.
pub async fn count_bytes(db: &dyn Database, namespace: &Namespace) -> Result<(u64, bool), DbError> {
    let mut c = read_last(db, "history_sizes", of_namespace(namespace, [COUNT_BYTES, SELECT_BYTES])).await?;
    Ok((c.number("bytes")?, !c.flag("remain")?))
}
