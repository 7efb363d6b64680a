//! The bytes of a namespace's messages. The table `history_sizes` has the size of each history up to a `seq`. So each message is
//! counted once, and only in namespaces that need the size.

use super::columns::Columns;
use super::{Database, DbError, Statement};
use crate::model::namespace::Namespace;

/// The histories of a namespace's sessions. A history remains under its id when its session is merged into another one.
macro_rules! histories {
    () => {
        "sessions AS s LEFT JOIN history_sizes AS h ON h.session_id = coalesce(s.history, s.id) WHERE s.namespace = ?1"
    };
}

/// Counts messages that are not counted yet: of at most 20 histories, and with 250 consecutive seqs of each. `?1`: namespace.
#[rustfmt::skip]
const COUNT: &str = concat!("
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
const SELECT: &str = concat!("
SELECT coalesce(sum(h.bytes), 0) AS bytes, coalesce(max(EXISTS (SELECT 1 FROM messages
  WHERE session_id = coalesce(s.history, s.id) AND seq > coalesce(h.seq, 0))), 0) AS remain
FROM ", histories!());

/// Counts some messages. Returns the bytes of all counted messages, and whether all messages are counted.
pub async fn count(db: &dyn Database, namespace: &Namespace) -> Result<(u64, bool), DbError> {
    let statement = |sql| Statement::new(sql, [namespace.as_ref().into()]);
    let mut results = db.batch(&mut vec![statement(COUNT), statement(SELECT)]).await?;
    let row = results.pop().and_then(|mut rows| rows.pop());
    let mut c = Columns::new("history_sizes", row.unwrap_or_default());
    Ok((c.number("bytes")?, !c.flag("remain")?))
}
