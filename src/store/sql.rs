//! Every SQL statement of the hub. Rows go in as one JSON parameter (`json_each`): one statement for any number of
//! rows, whatever D1's limit of 100 parameters, and one crossing of the border to JavaScript.
//! Every statement carries the namespace, or a session whose owner the statement itself checks.

/// Whether the parts of a row's values are all there: `parts` counts them, and there are none of nearly every row.
#[rustfmt::skip]
macro_rules! has_parts {
    ($one:literal, $other:literal) => { concat!(
        "value ->> 'parts' IS NULL OR value ->> 'parts' = (SELECT count(*) FROM value_parts
    WHERE namespace = ?2 AND owner = value ->> 'id' AND whole IN (value ->> '", $one, "', value ->> '", $other, "'))"
    ) };
}

/// Sessions written whole. A value whose parts are not all there breaks the NOT NULL of `tag`.
/// `?1`: JSON array of rows, `?2`: namespace, `?3` to `?5`: a metadata, agent state, todos that is bound alone.
pub const UPSERT_SESSIONS: &str = concat!(
    "
INSERT INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking, mode,
  metadata, metadata_version, agent_state, agent_state_version, todos, permission_mode, model_mode, metadata_parts,
  agent_state_parts)
SELECT value ->> 'id', ?2, CASE WHEN ",
    has_parts!("metadata_parts", "agent_state_parts"),
    " THEN value ->> 'tag' END, value ->> 'seq', value ->> 'created_at', value ->> 'updated_at',
  value ->> 'active_at', value ->> 'thinking_at', value ->> 'active', value ->> 'thinking', value ->> 'mode',
  coalesce(?3, value ->> 'metadata'), value ->> 'metadata_version', coalesce(?4, value ->> 'agent_state'),
  value ->> 'agent_state_version', coalesce(?5, value ->> 'todos'), value ->> 'permission_mode', value ->> 'model_mode',
  value ->> 'metadata_parts', value ->> 'agent_state_parts'
FROM json_each(?1) WHERE true
ON CONFLICT (id) DO UPDATE SET
  tag = excluded.tag, seq = excluded.seq, updated_at = excluded.updated_at, active_at = excluded.active_at,
  thinking_at = excluded.thinking_at, active = excluded.active, thinking = excluded.thinking, mode = excluded.mode,
  metadata = excluded.metadata, metadata_version = excluded.metadata_version, agent_state = excluded.agent_state,
  agent_state_version = excluded.agent_state_version, todos = excluded.todos,
  permission_mode = excluded.permission_mode, model_mode = excluded.model_mode,
  metadata_parts = excluded.metadata_parts, agent_state_parts = excluded.agent_state_parts
WHERE sessions.namespace = excluded.namespace"
);

/// Only the small columns of sessions, so that a message does not write their metadata and state again.
/// `?1`: JSON array of rows, `?2`: namespace.
pub const TOUCH_SESSIONS: &str = "
UPDATE sessions SET
  seq = j.value ->> 'seq', updated_at = j.value ->> 'updated_at', active_at = j.value ->> 'active_at',
  thinking_at = j.value ->> 'thinking_at', active = j.value ->> 'active', thinking = j.value ->> 'thinking',
  mode = j.value ->> 'mode', permission_mode = j.value ->> 'permission_mode', model_mode = j.value ->> 'model_mode'
FROM json_each(?1) AS j
WHERE sessions.id = j.value ->> 'id' AND sessions.namespace = ?2";

/// Messages. A batch that is sent again after a lost answer finds its own rows and leaves them; another message under
/// the same seq breaks the NOT NULL of `id`, and with it the batch: two writers can never mix their histories. So does a
/// session of another namespace, and a message whose parts are not all there. `?1`: JSON array of rows, `?2`: namespace,
/// `?3`: a large content.
pub const INSERT_MESSAGES: &str = "
INSERT INTO messages (session_id, seq, id, local_id, created_at, parts, bytes, content)
SELECT value ->> 'session_id', value ->> 'seq',
  CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE id = value ->> 'session_id' AND namespace = ?2)
    AND (value ->> 'parts' = 0 OR value ->> 'parts' = (SELECT count(*) FROM message_parts
      WHERE session_id = value ->> 'session_id' AND message_id = value ->> 'id')) THEN value ->> 'id' END,
  value ->> 'local_id', value ->> 'created_at', value ->> 'parts', value ->> 'bytes', coalesce(?3, value ->> 'content')
FROM json_each(?1) WHERE true
ON CONFLICT (session_id, seq) DO UPDATE SET id = CASE WHEN messages.id = excluded.id THEN messages.id END";

/// Completed permission requests, those that changed. A session of another namespace breaks the NOT NULL of `value`.
/// `?1`: JSON array of rows, `?2`: namespace, `?3`: a large value.
pub const UPSERT_COMPLETED: &str = "
INSERT INTO completed_requests (session_id, request_id, completed_at, value)
SELECT value ->> 'session_id', value ->> 'request_id', value ->> 'completed_at',
  CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE id = value ->> 'session_id' AND namespace = ?2)
    THEN coalesce(?3, value ->> 'value') END
FROM json_each(?1) WHERE true
ON CONFLICT (session_id, request_id) DO UPDATE SET completed_at = excluded.completed_at, value = excluded.value";

/// What an entry of a record counts for: see `MAX_RECORD_BYTES` in `rows.rs`.
macro_rules! entry_bytes {
    () => {
        "length(CAST(request_id AS BLOB)) + length(CAST(value AS BLOB)) + 200"
    };
}

/// The entries of sessions' records as their rows, each with how many bytes it and all newer ones have.
#[rustfmt::skip]
macro_rules! weighed_entries {
    ($of:literal) => { concat!(
        "SELECT rowid AS entry,
    sum(", entry_bytes!(), ") OVER (PARTITION BY session_id ORDER BY completed_at DESC, request_id DESC) AS from_newest
  FROM completed_requests WHERE session_id IN (", $of, ")"
    ) };
}

/// The newest completed requests, as many as a record may have, and how many bytes all have. Nearly every record is not too
/// large, and is not weighed entry by entry. `?1`: session, `?2`: namespace.
pub const COMPLETED_OF_SESSION: &str = concat!(
    "
SELECT request_id, completed_at, value, total
FROM completed_requests, (SELECT sum(",
    entry_bytes!(),
    ") AS total FROM completed_requests WHERE session_id = ?1)
WHERE session_id = ?1 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)
  AND (total <= 10000000 OR completed_requests.rowid IN (SELECT entry FROM (
  ",
    weighed_entries!("?1"),
    ")
WHERE from_newest <= 10000000))"
);

/// The oldest entries of records that became too large go. `?1`: JSON array of session ids, `?2`: namespace.
pub const TRIM_COMPLETED: &str = concat!(
    "
DELETE FROM completed_requests WHERE rowid IN (SELECT entry FROM (
  ",
    weighed_entries!("SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) AND namespace = ?2"),
    ")
WHERE from_newest > 9000000)"
);

/// Sessions with their messages and completed requests (by cascade). `?1`: JSON array of ids, `?2`: namespace.
pub const DELETE_SESSIONS: &str = "
DELETE FROM sessions WHERE namespace = ?2 AND id IN (SELECT value FROM json_each(?1))";

/// Deletes machines. `?1`: JSON array of ids, `?2`: namespace.
pub const DELETE_MACHINES: &str = "
DELETE FROM machines WHERE namespace = ?2 AND id IN (SELECT value FROM json_each(?1))";

/// Machines written whole. An id that another namespace holds breaks the NOT NULL of `namespace`, a value whose parts are
/// not all there that of `seq`. `?1`: JSON array of rows, `?2`: namespace, `?3`, `?4`: a metadata, runner state that is
/// bound alone.
pub const UPSERT_MACHINES: &str = concat!(
    "
INSERT INTO machines (id, namespace, seq, created_at, updated_at, active, active_at, metadata, metadata_version,
  runner_state, runner_state_version, metadata_parts, runner_state_parts)
SELECT value ->> 'id', ?2, CASE WHEN ",
    has_parts!("metadata_parts", "runner_state_parts"),
    " THEN value ->> 'seq' END, value ->> 'created_at', value ->> 'updated_at', value ->> 'active',
  value ->> 'active_at', coalesce(?3, value ->> 'metadata'), value ->> 'metadata_version',
  coalesce(?4, value ->> 'runner_state'), value ->> 'runner_state_version', value ->> 'metadata_parts',
  value ->> 'runner_state_parts'
FROM json_each(?1) WHERE true
ON CONFLICT (id) DO UPDATE SET
  namespace = CASE WHEN machines.namespace = excluded.namespace THEN excluded.namespace END,
  seq = excluded.seq, updated_at = excluded.updated_at, active = excluded.active, active_at = excluded.active_at,
  metadata = excluded.metadata, metadata_version = excluded.metadata_version, runner_state = excluded.runner_state,
  runner_state_version = excluded.runner_state_version, metadata_parts = excluded.metadata_parts,
  runner_state_parts = excluded.runner_state_parts"
);

/// Parts of values larger than a row. `?1`: JSON array of rows, `?2`: namespace, `?3`: a large content.
pub const UPSERT_VALUE_PARTS: &str = "
INSERT INTO value_parts (namespace, owner, whole, part, content)
SELECT ?2, value ->> 'owner', value ->> 'whole', value ->> 'part', coalesce(?3, value ->> 'content')
FROM json_each(?1) WHERE true
ON CONFLICT (namespace, owner, whole, part) DO UPDATE SET content = excluded.content";

/// Parts of values that are no more: others have taken their place, their owner is gone, or they never came to be.
/// `?1`: JSON array of ids of sessions and machines, `?2`: namespace.
pub const SWEEP_VALUE_PARTS: &str = "
DELETE FROM value_parts
WHERE namespace = ?2 AND owner IN (SELECT value FROM json_each(?1))
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = owner AND namespace = ?2
    AND whole IN (coalesce(metadata_parts, ''), coalesce(agent_state_parts, '')))
  AND NOT EXISTS (SELECT 1 FROM machines WHERE id = owner AND namespace = ?2
    AND whole IN (coalesce(metadata_parts, ''), coalesce(runner_state_parts, '')))";

/// Some parts of a value in their order. `?1`: namespace, `?2`: owner, `?3`: the value's parts, `?4`: the part before the
/// first, `?5`: the last.
pub const VALUE_PARTS: &str = "
SELECT content FROM value_parts WHERE namespace = ?1 AND owner = ?2 AND whole = ?3 AND part > ?4 AND part <= ?5
ORDER BY part";

/// A whole session by a column of its own.
#[rustfmt::skip]
macro_rules! session_by {
    ($column:literal) => { concat!(
        "SELECT id, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking, mode, metadata,
  metadata_version, agent_state, agent_state_version, todos, permission_mode, model_mode, metadata_parts,
  agent_state_parts
FROM sessions WHERE ", $column, " = ?1 AND namespace = ?2"
    ) };
}

/// A row of the log of events; again when its batch is sent again.
/// `?1`: namespace, `?2`: last number, `?3`: number before the first, `?4`: how many, `?5`: bytes, `?6`: the events.
pub const UPSERT_EVENTS: &str = "
INSERT INTO events (namespace, last, floor, events, bytes, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, last) DO UPDATE SET
  floor = excluded.floor, events = excluded.events, bytes = excluded.bytes, body = excluded.body";

/// Deletes rows of the log that are followed by enough others. `?1`: namespace, `?2`: how many events are enough,
/// `?3`: how many bytes, `?4`: number up to which none is kept.
pub const TRIM_EVENTS: &str = "
DELETE FROM events WHERE namespace = ?1 AND last <= max(?4, coalesce((
  SELECT max(last) FROM (
    SELECT last, sum(events) OVER newer - events AS events_after, sum(bytes) OVER newer - bytes AS bytes_after
    FROM events WHERE namespace = ?1 WINDOW newer AS (ORDER BY last DESC))
  WHERE events_after >= ?2 OR bytes_after >= ?3), 0))";

/// `?1`: namespace, `?2`: the largest last number of a row that goes.
pub const DELETE_EVENTS: &str = "DELETE FROM events WHERE namespace = ?1 AND last <= ?2";

/// Rows of the log, oldest first. `?1`: namespace, `?2`: number above which the last one is, `?3`: at most this.
pub const EVENTS: &str = "
SELECT last, floor, events, body FROM events WHERE namespace = ?1 AND last > ?2 AND last <= ?3 ORDER BY last";

/// The number of the last event of the log, or NULL. `?1`: namespace.
pub const LAST_EVENT: &str = "SELECT max(last) FROM events WHERE namespace = ?1";

/// `?1`: id, `?2`: namespace.
pub const SESSION_BY_ID: &str = session_by!("id");

/// `?1`: tag, `?2`: namespace.
pub const SESSION_BY_TAG: &str = session_by!("tag");

/// What the list shows of the sessions, each as one JSON text: of the large columns only what a line needs leaves the
/// database. What SQLite cannot read as JSON (it was kept before nesting had a limit) counts as nothing, and spoils no
/// other line. `?1`: namespace.
pub const LINES_OF_NAMESPACE: &str = "
SELECT json_object('id', id, 'active', json(iif(active, 'true', 'false')), 'thinking', json(iif(thinking, 'true', 'false')),
  'active_at', active_at, 'updated_at', updated_at, 'created_at', created_at,
  'metadata', iif(meta IS NULL, NULL, json_object('name', meta -> '$.name', 'path', meta -> '$.path',
    'host', meta -> '$.host', 'machineId', meta -> '$.machineId', 'summary', meta -> '$.summary',
    'flavor', meta -> '$.flavor', 'worktree', meta -> '$.worktree', 'lifecycleState', meta -> '$.lifecycleState')),
  'todo_progress', iif(todos IS NULL, NULL, json_object('total', json_array_length(todos),
    'completed', (SELECT count(*) FROM json_each(todos) WHERE value ->> 'status' = 'completed'))),
  'pending_requests', iif(json_type(state, '$.requests') = 'object',
    (SELECT count(*) FROM json_each(state, '$.requests')), 0),
  'permission_mode', permission_mode, 'model_mode', model_mode)
FROM (SELECT *, iif(json_valid(metadata), metadata, NULL) AS meta, iif(json_valid(agent_state), agent_state, NULL) AS state
  FROM sessions WHERE namespace = ?1)";

/// Whether a session exists, and whether it belongs to the namespace. `?1`: id, `?2`: namespace.
pub const SESSION_OWNED: &str = "SELECT namespace = ?2 AS owned FROM sessions WHERE id = ?1";

/// The local ids of a session's messages, newest first. `?1`: session, `?2`: namespace, `?3`: how many at most.
pub const LOCAL_IDS: &str = "
SELECT local_id, id, seq, created_at FROM messages
WHERE session_id = ?1 AND local_id IS NOT NULL AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)
ORDER BY seq DESC LIMIT ?3";

/// One message by its local id. `?1`: session, `?2`: namespace, `?3`: local id.
pub const MESSAGE_BY_LOCAL_ID: &str = "
SELECT local_id, id, seq, created_at FROM messages
WHERE session_id = ?1 AND local_id = ?3 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)";

/// The latest messages that may hold a todo list, among a session's last 2,000 and none larger than any list that is kept:
/// a search must not read a long history.
/// `?1`: session, `?2`: namespace, `?3`: how many at most, `?4`: seq below this.
pub const TODO_CANDIDATES: &str = r#"
SELECT seq, content FROM messages
WHERE session_id = ?1 AND parts = 0 AND bytes < 300000 AND seq < ?4
  AND seq > (SELECT max(seq) FROM messages WHERE session_id = ?1) - 2000
  AND (content LIKE '%"TodoWrite"%' OR content LIKE '%"plan"%')
  AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)
ORDER BY seq DESC LIMIT ?3"#;

/// What the content of messages larger than a row goes on with. `?1`: JSON array of rows, `?2`: namespace, `?3`: a large
/// content.
pub const UPSERT_PARTS: &str = "
INSERT INTO message_parts (session_id, message_id, part, content)
SELECT value ->> 'session_id', value ->> 'message_id', value ->> 'part',
  CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE id = value ->> 'session_id' AND namespace = ?2)
    THEN coalesce(?3, value ->> 'content') END
FROM json_each(?1) WHERE true
ON CONFLICT (session_id, message_id, part) DO UPDATE SET content = excluded.content";

/// Parts whose message was never written: a fault came between. To be run before the parts of another one are written.
/// `?1`: JSON array of session ids, `?2`: namespace.
pub const SWEEP_PARTS: &str = "
DELETE FROM message_parts
WHERE session_id IN (SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) AND namespace = ?2)
  AND NOT EXISTS (SELECT 1 FROM messages AS m
    WHERE m.session_id = message_parts.session_id AND m.id = message_parts.message_id AND m.parts > 0)";

/// Some parts of a message in their order. `?1`: session, `?2`: namespace, `?3`: id of the message, `?4`: the part before
/// the first, `?5`: the last.
pub const PARTS: &str = "
SELECT content FROM message_parts
WHERE session_id = ?1 AND message_id = ?3 AND part > ?4 AND part <= ?5
  AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)
ORDER BY part";

/// The columns of a page's rows: seq, the message as JSON text (finished, when it has no further parts), how many parts
/// it has besides, how many bytes its content has, its id, its time.
macro_rules! message_columns {
    () => {
        r#"seq, '{"id":"' || id || '","seq":' || seq || ',"localId":' || json_quote(local_id) || ',"content":' || content
  || CASE parts WHEN 0 THEN ',"createdAt":' || created_at || '}' ELSE '' END AS body, parts, bytes, id, created_at"#
    };
}

/// The messages next to a seq on one side of it.
#[rustfmt::skip]
macro_rules! messages_beside {
    ($columns:expr, $side:literal, $order:literal $(, $condition:expr)?) => { concat!(
        "SELECT ", $columns, " FROM messages
  WHERE session_id = ?1 AND seq ", $side, " ?3 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND namespace = ?2)",
        $($condition,)? "
  ORDER BY seq ", $order, " LIMIT ?4"
    ) };
}

/// A page of a session's history, or no row at all when its messages have more bytes than a page may have: that is asked
/// beforehand, which costs less than to count while reading.
/// `?1`: session, `?2`: namespace, `?3`: seq, `?4`: how many, `?5`: how many bytes of content are too many.
#[rustfmt::skip]
macro_rules! page {
    ($side:literal, $order:literal) => {
        messages_beside!(message_columns!(), $side, $order, concat!(
            " AND (SELECT sum(bytes) FROM (", messages_beside!("bytes", $side, $order), ")) < ?5"
        ))
    };
}

/// A page that ends by its bytes: with the message that reaches `?5`. The last column says how many messages there would
/// be without that. The parameters are the same.
#[rustfmt::skip]
macro_rules! bounded_page {
    ($side:literal, $order:literal) => { concat!(
        "SELECT ", message_columns!(), ", found FROM (
  SELECT *, count(*) OVER () AS found, sum(bytes) OVER (ORDER BY seq ", $order, " ROWS UNBOUNDED PRECEDING) AS total
  FROM (", messages_beside!("*", $side, $order), "))
WHERE total - bytes < ?5
ORDER BY seq ", $order
    ) };
}

/// A page of the messages below a seq, newest first.
pub const PAGE_BEFORE: &str = page!("<", "DESC");
/// A page of the messages above a seq, oldest first, for catching up.
pub const PAGE_AFTER: &str = page!(">", "ASC");
/// The same as [`PAGE_BEFORE`] where the messages are too large for it.
pub const BOUNDED_PAGE_BEFORE: &str = bounded_page!("<", "DESC");
/// The same as [`PAGE_AFTER`] where the messages are too large for it.
pub const BOUNDED_PAGE_AFTER: &str = bounded_page!(">", "ASC");

/// `?1`: namespace.
pub const MACHINES_OF_NAMESPACE: &str = "
SELECT id, seq, created_at, updated_at, active, active_at, metadata, metadata_version, runner_state, runner_state_version,
  metadata_parts, runner_state_parts
FROM machines WHERE namespace = ?1";

/// Whether a machine exists, and whether it belongs to the namespace. `?1`: id, `?2`: namespace.
pub const MACHINE_OWNED: &str = "SELECT namespace = ?2 AS owned FROM machines WHERE id = ?1";

/// The push subscriptions of a namespace, oldest first. `?1`: namespace.
pub const PUSH_SUBSCRIPTIONS: &str =
    "SELECT endpoint, p256dh, auth, hub FROM push_subscriptions WHERE namespace = ?1 ORDER BY created_at, endpoint";

/// Writes a push subscription, in the place of one for the same endpoint. `?1`: namespace,
/// `?2`: endpoint, `?3`: p256dh, `?4`: auth, `?5`: the hub's origin or NULL, `?6`: now.
pub const UPSERT_PUSH_SUBSCRIPTION: &str = "
INSERT INTO push_subscriptions (namespace, endpoint, p256dh, auth, hub, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, endpoint) DO UPDATE SET
  p256dh = excluded.p256dh, auth = excluded.auth, hub = excluded.hub, created_at = excluded.created_at";

/// Drops the oldest push subscriptions of a namespace. `?1`: namespace, `?2`: how many stay.
pub const TRIM_PUSH_SUBSCRIPTIONS: &str = "
DELETE FROM push_subscriptions WHERE namespace = ?1 AND endpoint NOT IN (
  SELECT endpoint FROM push_subscriptions WHERE namespace = ?1 ORDER BY created_at DESC, endpoint DESC LIMIT ?2)";

/// `?1`: namespace, `?2`: JSON array of endpoints.
pub const DELETE_PUSH_SUBSCRIPTIONS: &str =
    "DELETE FROM push_subscriptions WHERE namespace = ?1 AND endpoint IN (SELECT value FROM json_each(?2))";

/// A new epoch of a namespace begins. `?1`: namespace, `?2`: its number.
pub const BEGIN_EPOCH: &str = "
INSERT INTO fences (namespace, epoch) VALUES (?1, ?2)
ON CONFLICT (namespace) DO UPDATE SET epoch = excluded.epoch WHERE fences.epoch < excluded.epoch";

/// Breaks the NOT NULL of `epoch`, and with it the whole batch, when a later epoch has begun; else it writes nothing.
/// `?1`: namespace, `?2`: the batch's epoch.
pub const CHECK_EPOCH: &str = "
INSERT INTO fences (namespace, epoch) SELECT namespace, NULL FROM fences WHERE namespace = ?1 AND epoch > ?2";

/// Keeps the first value ever offered under a name. `?1`: name, `?2`: value.
pub const OFFER_SECRET: &str = "INSERT INTO secrets (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";

/// `?1`: name.
pub const SECRET: &str = "SELECT value FROM secrets WHERE name = ?1";

/// Merging two sessions, in this order: `?1` the session that goes, `?2` the one that stays, `?3` their namespace.
/// Messages that both have (by local id) stay where they were first; those of the session that goes come first, and the
/// numbers are gapless again. A batch that is sent again after a lost answer changes nothing any more.
pub const MERGE: [&str; 8] = [
    "DELETE FROM messages WHERE session_id = ?2
       AND local_id IN (SELECT local_id FROM messages WHERE session_id = ?1 AND local_id IS NOT NULL)
       AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)",
    // Negative numbers keep the two histories apart for a moment.
    "UPDATE messages SET seq = -seq WHERE session_id = ?2
       AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)",
    "UPDATE messages SET session_id = ?2 WHERE session_id = ?1
       AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)",
    "UPDATE messages SET seq = moved.seq
     FROM (SELECT seq AS old, row_number() OVER (ORDER BY seq DESC)
             + (SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = ?2 AND seq > 0) AS seq
           FROM messages WHERE session_id = ?2 AND seq < 0) AS moved
     WHERE messages.session_id = ?2 AND messages.seq = moved.old
       AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)",
    "UPDATE message_parts SET session_id = ?2 WHERE session_id = ?1
       AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)",
    "UPDATE OR IGNORE completed_requests SET session_id = ?2 WHERE session_id = ?1
       AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND namespace = ?3)",
    "UPDATE sessions SET seq = (SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = ?2)
     WHERE id = ?2 AND namespace = ?3 AND ?1 IS NOT NULL",
    "DELETE FROM sessions WHERE id = ?1 AND namespace = ?3 AND ?2 IS NOT NULL",
];
