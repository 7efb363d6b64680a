//! Sessions: reading and writing them.

use super::bulk::{BulkRow, BulkStatements};
use super::columns::{AGENT_STATE, Column as _, Columns, METADATA};
use super::held_messages::held_messages_count;
use super::values::{all_parts_exist, to_row};
use super::{Database, DbError, Found, Row, Statement, Value};
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::model::session::Session;
use crate::model::settings::{Settings, settings};

/// Calls a macro with the small columns and their types, except `seq`, `updated_at` and the [`settings`]. To add a column, add it here and to
/// [`read_listed_columns`].
macro_rules! small_columns {
    ($macro:ident) => {
        $macro! {
            active_at: u64, thinking_at: u64, active: bool, thinking: bool, mode: Option<ControlMode>,
            permission_mode: Option<String>, model_mode: Option<String>, ended_at: Option<u64>, unseen_since: Option<u64>
        }
    };
}

macro_rules! names {
    ($($(#[$_meta:meta])* $column:ident: $_:ty),*) => { concat!($(", ", stringify!($column)),*) };
}
macro_rules! values {
    ($($(#[$_meta:meta])* $column:ident: $_:ty),*) => { concat!($(", value ->> '", stringify!($column), "'"),*) };
}
macro_rules! assignments {
    ($($(#[$_meta:meta])* $column:ident: $_:ty),*) => { concat!($(", ", stringify!($column), " = excluded.", stringify!($column)),*) };
}
macro_rules! value_assignments {
    ($($(#[$_meta:meta])* $column:ident: $_:ty),*) => { concat!($(", ", stringify!($column), " = j.value ->> '", stringify!($column), "'"),*) };
}
macro_rules! define_small_columns {
    ($($column:ident: $_:ty),*) => {
        fn to_small_columns(s: &Session) -> Vec<(&'static str, Value)> {
            let mut columns = to_settings(&s.settings);
            columns.extend([
                ("id", s.id.as_str().into()), ("seq", s.seq.into()), ("updated_at", s.updated_at.into()),
                $((stringify!($column), s.$column.clone().into())),*
            ]);
            columns
        }
    };
}
small_columns!(define_small_columns);

macro_rules! define_settings {
    ($($(#[$_meta:meta])* $column:ident: $type:ty),*) => {
        fn to_settings(settings: &Settings) -> Vec<(&'static str, Value)> {
            vec![$((stringify!($column), settings.$column.clone().into())),*]
        }

        fn read_settings(c: &mut Columns) -> Result<Settings, DbError> {
            Ok(Settings { $($column: <$type>::read(c, stringify!($column))?),* })
        }
    };
}
settings!(define_settings);

/// Writes whole sessions. If parts of a large value are missing, `tag` becomes NULL, which violates its NOT NULL constraint.
/// `?1`: JSON array of sessions, `?2`: namespace, `?3` to `?5`: the metadata, agent state and todo list
/// of a single session that is too large for the array; otherwise NULL.
#[rustfmt::skip]
const UPSERT: &str = concat!(
    "
INSERT INTO sessions (id, namespace, tag, created_at, metadata, metadata_version, agent_state, agent_state_version, todos,
  metadata_parts, agent_state_parts, request_times, seq, updated_at", small_columns!(names), settings!(names), ")
SELECT value ->> 'id', ?2, CASE WHEN ", all_parts_exist!("metadata_parts", "agent_state_parts"),
    " THEN value ->> 'tag' END, value ->> 'created_at', coalesce(?3, value ->> 'metadata'), value ->> 'metadata_version',
  coalesce(?4, value ->> 'agent_state'), value ->> 'agent_state_version', coalesce(?5, value ->> 'todos'),
  value ->> 'metadata_parts', value ->> 'agent_state_parts', value ->> 'request_times', value ->> 'seq', value ->> 'updated_at'",
    small_columns!(values), settings!(values), "
FROM json_each(?1) WHERE true
ON CONFLICT (id) DO UPDATE SET
  tag = excluded.tag, metadata = excluded.metadata, metadata_version = excluded.metadata_version,
  agent_state = excluded.agent_state, agent_state_version = excluded.agent_state_version, todos = excluded.todos,
  metadata_parts = excluded.metadata_parts, agent_state_parts = excluded.agent_state_parts,
  request_times = excluded.request_times, seq = excluded.seq, updated_at = excluded.updated_at", small_columns!(assignments), settings!(assignments), "
WHERE sessions.namespace = excluded.namespace"
);

/// Writes the small columns of sessions, but not their metadata, agent state and todo list, which can be large.
/// `?1`: JSON array of sessions, `?2`: namespace.
pub const UPDATE_SMALL_COLUMNS: &str = concat!(
    "
UPDATE sessions SET seq = j.value ->> 'seq', updated_at = j.value ->> 'updated_at'",
    small_columns!(value_assignments),
    settings!(value_assignments),
    "
FROM json_each(?1) AS j
WHERE sessions.id = j.value ->> 'id' AND +sessions.namespace = ?2"
);

/// The id under which the messages of a session are stored: after a merge, that of another session. NULL without such a session.
macro_rules! history_of {
    ($session:literal, $namespace:literal) => {
        concat!(
            "(SELECT coalesce(history, id) FROM sessions WHERE id = ",
            $session,
            " AND namespace = ",
            $namespace,
            ")"
        )
    };
}
pub(super) use {assignments, history_of, names, small_columns};

/// The `seq` of a session. A message does not write the row of its session, so the column may be behind the messages.
macro_rules! current_seq {
    () => {
        "max(sessions.seq, coalesce((SELECT max(m.seq) FROM messages AS m 
  WHERE m.session_id = coalesce(sessions.history, sessions.id)), 0))"
    };
}

/// The time of the newest message of a session. A message does not write the row of its session, so `updated_at` may be earlier.
macro_rules! last_message_at {
    () => {
        "(SELECT m.created_at FROM messages AS m
  WHERE m.session_id = coalesce(sessions.history, sessions.id) ORDER BY m.seq DESC LIMIT 1)"
    };
}
pub(super) use last_message_at;

/// Selects a session by a column with unique values.
#[rustfmt::skip]
macro_rules! session_by {
    ($column:literal) => { concat!(
        "SELECT id, tag, created_at, metadata, metadata_version, metadata_parts, agent_state, agent_state_version,
  agent_state_parts, todos, request_times, ", current_seq!(), ", updated_at, ", last_message_at!(), ", ", held_messages_count!(),
        small_columns!(names), settings!(names), "
FROM sessions WHERE ", $column, " = ?1 AND namespace = ?2"
    ) };
}

/// `?1`: id, `?2`: namespace.
pub const SELECT_BY_ID: &str = session_by!("id");

/// `?1`: tag, `?2`: namespace.
const SELECT_BY_TAG: &str = session_by!("tag");

/// Whether a session belongs to the namespace. Returns no row if the session does not exist or was deleted. `?1`: id, `?2`: namespace.
pub(super) const SELECT_OWNED: &str = "
SELECT namespace = ?2 AS owned FROM sessions WHERE id = ?1 AND namespace NOT GLOB '/*'";

pub(super) fn upsert<'a>(bulk: &mut BulkStatements, sessions: impl Iterator<Item = &'a Session>) {
    let row = |s: &'a Session| {
        let values =
            [(METADATA, &s.metadata, s.metadata_version), (AGENT_STATE, &s.agent_state, s.agent_state_version)];
        let mut row = to_row(values);
        row.columns.extend(to_small_columns(s));
        row.columns.extend([
            ("tag", s.tag.as_str().into()),
            ("created_at", s.created_at.into()),
            ("request_times", s.request_times.as_ref().map(Json::text).into()),
        ]);
        row.texts.push(("todos", s.todos.as_ref().map(Json::text)));
        row
    };
    bulk.add_rows(UPSERT, sessions.map(row));
}

pub(super) fn update_small_columns<'a>(bulk: &mut BulkStatements, sessions: impl Iterator<Item = &'a Session>) {
    let row = |s| BulkRow { columns: to_small_columns(s), texts: Vec::new() };
    bulk.add_rows(UPDATE_SMALL_COLUMNS, sessions.map(row));
}

pub async fn load_by_id(db: &dyn Database, namespace: &Namespace, id: &str) -> Result<Found<Session>, DbError> {
    let results = db.batch(&mut select_by_id(namespace, id).into()).await?;
    read_found(namespace, &mut results.into_iter())
}

pub fn select_by_id(namespace: &Namespace, id: &str) -> [Statement; 2] {
    let params = [id.into(), namespace.into()];
    [Statement::new(SELECT_BY_ID, params.clone()), Statement::new(SELECT_OWNED, params)]
}

/// Reads the rows of [`SELECT_BY_ID`] and [`SELECT_OWNED`].
pub fn read_found(
    namespace: &Namespace,
    results: &mut impl Iterator<Item = Vec<Row>>,
) -> Result<Found<Session>, DbError> {
    let (mut sessions, owner_rows) = (results.next().unwrap_or_default(), results.next().unwrap_or_default());
    Ok(match sessions.pop() {
        Some(row) => Found::InNamespace(from_row(namespace, row)?),
        None if owner_rows.is_empty() => Found::Missing,
        None => Found::Foreign,
    })
}

pub fn select_by_tag(namespace: &Namespace, tag: &str) -> Statement {
    Statement::new(SELECT_BY_TAG, [tag.into(), namespace.into()])
}

pub fn read_by_tag(namespace: &Namespace, mut rows: Vec<Row>) -> Result<Option<Session>, DbError> {
    rows.pop().map(|row| from_row(namespace, row)).transpose()
}

fn from_row(namespace: &Namespace, row: Row) -> Result<Session, DbError> {
    let mut c = Columns::new("sessions", row);
    let (id, tag, created_at) = (c.text("id")?, c.text("tag")?, c.number("created_at")?);
    let mut s = Session::new(id, namespace.clone(), tag, None, created_at);
    (s.metadata, s.metadata_version) = c.versioned(METADATA)?;
    (s.agent_state, s.agent_state_version) = c.versioned(AGENT_STATE)?;
    (s.todos, s.request_times) = (c.optional("todos", Columns::json)?, c.optional("request_times", Columns::json)?);
    s.seq = c.number("seq")?;
    read_listed_columns(&mut c, &mut s)?;
    Ok(s)
}

/// Reads the columns that the list shows unchanged: the times, `held_messages_count`, [`small_columns`] and [`settings`].
pub(super) fn read_listed_columns(c: &mut Columns, s: &mut Session) -> Result<(), DbError> {
    let stored_updated_at = c.number("updated_at")?;
    s.last_message_at = c.optional("last_message_at", Columns::number)?;
    s.updated_at = stored_updated_at.max(s.last_message_at.unwrap_or(0));
    s.held_messages_count = c.count("held_messages_count")?;
    (s.active_at, s.thinking_at) = (c.number("active_at")?, c.number("thinking_at")?);
    (s.active, s.thinking) = (c.flag("active")?, c.flag("thinking")?);
    s.mode = c.optional("mode", |c, column| c.parse(column, "a control mode", |word| word.parse().ok()))?;
    s.permission_mode = c.optional("permission_mode", Columns::text)?;
    s.model_mode = c.optional("model_mode", Columns::text)?;
    // A hub of an earlier version changes `active`, but not `ended_at`.
    s.ended_at = c.optional("ended_at", Columns::number)?.filter(|_| !s.active);
    s.unseen_since = c.optional("unseen_since", Columns::number)?;
    s.settings = read_settings(c)?;
    Ok(())
}
