//! Reading what waits for a person in sessions that are not in memory.

use std::borrow::Cow;
use std::collections::HashSet;

use super::columns::Columns;
use super::{Database, DbError, Statement, Value, query};
use crate::model::agent_state::MAX_CLOCK_DIFFERENCE_MS;
use crate::model::inbox::{Item, Position, Subject};
use crate::model::namespace::Namespace;

/// Selects items after a position, in their order: at most `?6` items, of at most 500,000 bytes. `found` is the number of items without
/// these limits. The rules are those of [`crate::model::inbox::items`]. `?1`: namespace, `?2`: JSON array of session ids, `?3` to `?5`:
/// the position, `?7`: the last plausible time of a request.
const SELECT: &str = "
SELECT id, request, since, is_failed, value, found
FROM (WITH sessions_read AS MATERIALIZED (
  SELECT id, thinking_at, unseen_since, request_times, CASE WHEN json_valid(metadata) THEN metadata END AS meta,
    CASE WHEN json_valid(agent_state) THEN iif(json_type(agent_state, '$.requests') = 'object', agent_state, NULL) END AS state
  FROM sessions WHERE id IN (SELECT value FROM json_each(?2)) AND +namespace = ?1),
items AS (
  SELECT s.id, r.key AS request, coalesce(
      (SELECT t.value FROM json_each(s.request_times) AS t WHERE t.key = r.key),
      (SELECT CAST(t AS INTEGER) FROM (SELECT r.value ->> '$.createdAt' AS t)
        WHERE t BETWEEN 1577836800000 AND ?7 AND t = CAST(t AS INTEGER)),
      s.thinking_at) AS since, 0 AS is_failed,
    CASE WHEN length(CAST(r.value AS BLOB)) <= 65536 THEN r.value ELSE json_patch('{}', json_object(
      'tool', iif(length(CAST(r.value -> '$.tool' AS BLOB)) <= 200, json(r.value -> '$.tool'), NULL),
      'createdAt', iif(length(r.value -> '$.createdAt') <= 20, json(r.value -> '$.createdAt'), NULL),
      'argumentsBytes', length(CAST(r.value -> '$.arguments' AS BLOB)))) END AS value
  FROM sessions_read AS s, json_each(s.state, '$.requests') AS r
  UNION ALL
  SELECT id, '', unseen_since, coalesce(meta ->> '$.lifecycleState' = 'failed', 0),
    iif(json_type(meta, '$.agentError') = 'text', substr(meta ->> '$.agentError', 1, 1000), NULL)
  FROM sessions_read WHERE unseen_since IS NOT NULL)
  SELECT *, count(*) OVER () AS found, sum(300 + length(CAST(ifnull(value, '') AS BLOB)))
    OVER (ORDER BY since, id, request ROWS UNBOUNDED PRECEDING) AS bytes
  FROM items WHERE (since, id, request) > (?3, ?4, ?5))
WHERE bytes <= 500000 ORDER BY since, id, request LIMIT ?6";

#[derive(Debug, Default)]
pub struct Items {
    pub items: Vec<Item<'static>>,
    /// Whether these are all items of the sessions after the position.
    pub is_complete: bool,
}

/// Loads the first `limit` items of the sessions after a position.
pub async fn load(
    db: &dyn Database,
    namespace: &Namespace,
    sessions: &HashSet<String>,
    after: &Position,
    limit: usize,
    now: u64,
) -> Result<Items, DbError> {
    let (since, session, request) = after;
    let params: [Value; 7] = [
        namespace.into(),
        Value::json(sessions),
        (*since).into(),
        session.as_str().into(),
        request.as_str().into(),
        (limit as u64).into(),
        (now + MAX_CLOCK_DIFFERENCE_MS).into(),
    ];
    let rows = query(db, Statement::new(SELECT, params)).await?;
    let count = rows.len();
    let mut read = Items { items: Vec::with_capacity(count), is_complete: true };
    for row in rows {
        let mut c = Columns::new("sessions", row);
        let (session, request, since) = (c.text("id")?, c.text("request")?, c.number("since")?);
        let is_failed = c.flag("is_failed")?;
        let subject = match (request.is_empty(), is_failed) {
            (false, _) => Subject::Request(Cow::Owned(c.json("value")?.raw().to_owned())),
            (true, true) => Subject::Failed(c.optional("value", Columns::text)?.map(Cow::Owned)),
            (true, false) => {
                c.optional("value", Columns::text)?;
                Subject::Ready
            }
        };
        read.items.push(Item { position: (since, session, request), subject });
        read.is_complete &= c.count("found")? == count;
    }
    Ok(read)
}
