//! Copies the rows of a namespace to another database until both have the same rows. Source: docs/design/databases.md.
//!
//! A row of `messages`, `message_parts` and `value_parts` never changes, so such rows are compared by their keys. Rows of the other tables
//! that differ are written again. Sessions of an unfinished copy are tombstones: nothing shows them, and a deletion or a
//! [sweep](super::removals) deletes them with their messages.

use super::columns::read_last;
use super::relocation_tables::{
    EVENTS, HELD, MACHINES, MESSAGE_PARTS, MESSAGES, PartTable, REQUESTS, SELECT_SESSION_ROWS, SIZES, Table,
    VALUE_PARTS,
};
use super::removals::CREATE_TOMBSTONES_OF_MERGED;
use super::sessions::{assignments, small_columns};
use super::{Database, DbError, Row, Statement, Value, query};
use crate::model::namespace::Namespace;
use crate::model::settings::settings;

/// The columns with which a session is compared: the id, the key, then one for each table, in the order of [`Column`]. The version of the
/// agent state changes with each completed request.
macro_rules! compared {
    () => {
        "s.id, json_array(s.namespace, s.tag) AS key,
  (SELECT json_array(count(*), min(seq), max(seq)) FROM messages WHERE session_id = s.id) AS messages,
  (SELECT json_array(count(*), min(message_id), max(message_id)) FROM message_parts WHERE session_id = s.id) AS parts,
  (SELECT json_array(s.agent_state_version, count(*), sum(completed_at), sum(length(request_id)))
    FROM completed_requests WHERE session_id = s.id) AS requests,
  (SELECT json_array(count(*), sum(created_at), sum(length(local_id))) FROM held_messages WHERE session_id = s.id) AS held,
  (SELECT json_array(seq, bytes) FROM history_sizes WHERE session_id = s.id) AS size"
    };
}

#[derive(Clone, Copy)]
enum Column {
    Key = 1,
    Messages,
    Parts,
    Requests,
    Held,
    Size,
}

/// Some sessions in the order of their ids, also those whose history another session has. `?1`: namespace, `?2`: the id before the first.
const SELECT_SESSIONS: &str = concat!(
    "SELECT ",
    compared!(),
    " FROM (SELECT id FROM sessions WHERE namespace IN (?1, '//' || ?1) AND id > ?2 ORDER BY id LIMIT 200) AS page
JOIN sessions AS s ON s.id = page.id ORDER BY s.id"
);

/// The copies of sessions, and whether another namespace has them. `?1`: namespace, `?2`: JSON array of ids.
const SELECT_COPIES: &str = concat!(
    "SELECT ",
    compared!(),
    ", ltrim(s.namespace, '/') <> ?1 FROM sessions AS s WHERE s.id IN (SELECT value FROM json_each(?2))"
);

macro_rules! params {
    ($($(#[$_meta:meta])* $_column:ident: $_:ty),*) => { concat!($(params!(@ $_column)),*) };
    (@ $_column:ident) => { ", ?" };
}

/// Writes a whole row; fails with other columns of another version. A foreign session violates the NOT NULL constraint of `namespace`.
#[rustfmt::skip]
const UPSERT_SESSION: &str = concat!("
INSERT INTO sessions VALUES
  (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15", small_columns!(params), settings!(params), ")
ON CONFLICT (id) DO UPDATE SET
  namespace = iif(ltrim(sessions.namespace, '/') = ltrim(excluded.namespace, '/'), excluded.namespace, NULL),
  tag = excluded.tag, seq = excluded.seq, created_at = excluded.created_at, updated_at = excluded.updated_at,
  metadata = excluded.metadata, metadata_version = excluded.metadata_version,
  agent_state = excluded.agent_state, agent_state_version = excluded.agent_state_version, todos = excluded.todos,
  metadata_parts = excluded.metadata_parts, agent_state_parts = excluded.agent_state_parts, history = excluded.history,
  request_times = excluded.request_times", small_columns!(assignments), settings!(assignments));

/// The index of `agent_state_version` in a row of `sessions`.
const AGENT_STATE_VERSION: usize = 14;

/// The number of messages, the first seq and the last. `?1`: session, `?2`: the last seq to count.
const SELECT_BOUNDS: &str = "
SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM messages WHERE session_id = ?1 AND seq <= ?2";

/// `?1`: session, `?2`: the seq after the last to delete.
const DELETE_MESSAGES: [&str; 2] = [
    "DELETE FROM messages WHERE rowid IN (SELECT rowid FROM messages WHERE session_id = ?1 AND seq < ?2 LIMIT 1000)",
    "SELECT 1 FROM messages WHERE session_id = ?1 AND seq < ?2 LIMIT 1",
];

/// Turns sessions of an earlier copy into tombstones. `?1`: namespace.
const HIDE_SESSIONS: [&str; 2] = [
    "UPDATE sessions SET namespace = '/' || ?1, tag = id
WHERE id IN (SELECT id FROM sessions WHERE namespace IN (?1, '//' || ?1) LIMIT 200)",
    "SELECT 1 FROM sessions WHERE namespace IN (?1, '//' || ?1) LIMIT 1",
];

const COUNT_ROWS: &str = "SELECT (SELECT count(*) FROM sessions WHERE namespace IN (?1, '//' || ?1)),
  (SELECT count(*) FROM machines WHERE namespace = ?1), (SELECT count(*) FROM events WHERE namespace = ?1),
  (SELECT count(*) FROM value_parts WHERE namespace = ?1)";

/// More than the seq of any message.
const MAX_SEQ: i64 = 1 << 53;

pub struct Copy<'a> {
    pub from: &'a dyn Database,
    pub to: &'a dyn Database,
    pub namespace: &'a Namespace,
    /// Whether the namespace is closed: then its rows do not change, and all of them are copied.
    pub is_closed: bool,
    /// Whether to interrupt the copy. A repeated call continues it.
    pub must_stop: &'a (dyn Fn() -> bool + Send + Sync),
}

pub struct CopiedPage {
    /// The id of the last session that has the same rows in both databases now.
    pub last: String,
    pub has_changed: bool,
    /// The id of a session that another namespace has in the target database. If there is one, nothing was copied.
    pub foreign: Option<String>,
}

/// Runs two statements until the second finds no row.
async fn repeat_until_empty(db: &dyn Database, sql: [&'static str; 2], params: &[Value]) -> Result<(), DbError> {
    loop {
        let mut statements = sql.map(|sql| Statement::new(sql, params)).to_vec();
        let rows = db.batch(&mut statements).await?.pop();
        if rows.is_none_or(|rows| rows.is_empty()) {
            return Ok(());
        }
    }
}

fn text(row: &Row, column: usize) -> &str {
    if let Some(Value::Text(text)) = row.get(column) { text } else { "" }
}

impl Copy<'_> {
    /// Returns the id of a machine of this namespace that another namespace has in the target database.
    pub async fn find_foreign_machine(&self) -> Result<Option<String>, DbError> {
        let select_ids = "SELECT coalesce(json_group_array(id), '[]') FROM machines WHERE namespace = ?1";
        let ids = query(self.from, Statement::new(select_ids, [self.namespace.into()])).await?.pop();
        let ids = ids.and_then(|mut row| row.pop()).unwrap_or(Value::Null);
        let select_foreign =
            "SELECT id FROM machines WHERE id IN (SELECT value FROM json_each(?2)) AND namespace <> ?1 LIMIT 1";
        let foreign = query(self.to, Statement::new(select_foreign, [self.namespace.into(), ids])).await?.pop();
        Ok(foreign.map(|row| text(&row, 0).to_owned()))
    }

    /// Turns the sessions of an earlier copy into tombstones.
    pub async fn hide_earlier_copy(&self) -> Result<(), DbError> {
        repeat_until_empty(self.to, HIDE_SESSIONS, &[self.namespace.into()]).await
    }

    /// Counts the sessions of the namespace whose ids follow `id`, in the database that it leaves.
    pub async fn sessions_after(&self, id: &str) -> Result<u64, DbError> {
        let sql = "SELECT count(*) AS sessions FROM sessions WHERE namespace IN (?1, '//' || ?1) AND id > ?2";
        let count = vec![Statement::new(sql, [self.namespace.into(), id.into()])];
        read_last(self.from, "sessions", count).await?.number("sessions")
    }

    /// Copies the parts of large values. Returns whether all are copied.
    pub async fn copy_value_parts(&self) -> Result<bool, DbError> {
        self.copy_parts(&VALUE_PARTS, &self.namespace.into()).await
    }

    /// Copies the machines and the log of events of a closed namespace. Merged sessions whose history belongs to a deleted session become
    /// tombstones, which are not copied: nothing would delete the copies.
    pub async fn copy_tables(&self) -> Result<(), DbError> {
        query(self.from, Statement::new(CREATE_TOMBSTONES_OF_MERGED, [self.namespace.into()])).await?;
        self.replace(&MACHINES, &self.namespace.into(), "".into()).await?;
        self.replace(&EVENTS, &self.namespace.into(), Value::Integer(-1)).await
    }

    /// Whether both databases have the same numbers of rows of the tables that [`copy_sessions`](Self::copy_sessions) does not compare.
    pub async fn has_same_counts(&self) -> Result<bool, DbError> {
        let statement = || Statement::new(COUNT_ROWS, [self.namespace.into()]);
        Ok(query(self.from, statement()).await? == query(self.to, statement()).await?)
    }

    /// Copies the rows that differ of a page of sessions after an id. Returns `None` after the last session.
    pub async fn copy_sessions(&self, after: &str) -> Result<Option<CopiedPage>, DbError> {
        let sessions = query(self.from, Statement::new(SELECT_SESSIONS, [self.namespace.into(), after.into()])).await?;
        if sessions.is_empty() {
            return Ok(None);
        }
        let ids: Vec<&str> = sessions.iter().map(|row| text(row, 0)).collect();
        let select = Statement::new(SELECT_COPIES, [self.namespace.into(), Value::json(&ids)]);
        let copies = query(self.to, select).await?;
        let foreign = copies.iter().find(|copy| copy.last() == Some(&Value::Integer(1)));
        let foreign = foreign.map(|copy| text(copy, 0).to_owned());
        let mut page = CopiedPage { last: after.to_owned(), has_changed: false, foreign };
        if page.foreign.is_some() {
            return Ok(Some(page));
        }
        let mut has_other_keys = false;
        for session in &sessions {
            let copy = copies.iter().find(|copy| copy.first() == session.first());
            let differs =
                |column: Column| copy.and_then(|copy| copy.get(column as usize)) != session.get(column as usize);
            has_other_keys |= differs(Column::Key);
            let is_complete = self.copy_session(text(session, 0), &differs, &mut page.has_changed).await?;
            if is_complete {
                page.last = text(session, 0).to_owned();
            }
            if !is_complete || (self.must_stop)() {
                break;
            }
        }
        if self.is_closed && has_other_keys {
            page.has_changed = true;
            self.write_sessions(after, &page.last).await?;
        }
        Ok(Some(page))
    }

    /// Copies the rows that differ of a session, except the row of the session itself. Returns whether everything is copied.
    async fn copy_session(
        &self,
        id: &str,
        differs: &(dyn Fn(Column) -> bool + Send + Sync),
        has_changed: &mut bool,
    ) -> Result<bool, DbError> {
        let session: Value = id.into();
        let [messages, parts, requests] = [Column::Messages, Column::Parts, Column::Requests].map(differs);
        let [held, size] = [Column::Held, Column::Size].map(|column| self.is_closed && differs(column));
        if !(messages || parts || requests || held || size) {
            return Ok(true);
        }
        *has_changed = true;
        // Without a row, the session was deleted meanwhile.
        let Some(tombstone) = self.read_tombstone(id).await? else { return Ok(true) };
        // The copied rows refer to the session, so a tombstone of the session is written first. Until the requests are copied, the
        // tombstone has a version that no session has.
        let mut unfinished = tombstone.clone();
        if requests && let Some(version) = unfinished.get_mut(AGENT_STATE_VERSION) {
            *version = Value::Integer(-1);
        }
        self.upsert_session(unfinished).await?;
        // The parts of a message that was sent again have another key, but may have the same number.
        let copies_parts = parts || (messages && self.is_closed);
        if (copies_parts && !self.copy_parts(&MESSAGE_PARTS, &session).await?)
            || (messages && !self.copy_messages(&session).await?)
        {
            return Ok(false);
        }
        for (table, is_different) in [(&REQUESTS, requests), (&HELD, held), (&SIZES, size)] {
            if is_different {
                self.replace(table, &session, "".into()).await?;
            }
        }
        if requests {
            self.upsert_session(tombstone).await?;
        }
        Ok(true)
    }

    /// Returns the row of a session as a tombstone; `None` if the session does not exist.
    async fn read_tombstone(&self, id: &str) -> Result<Option<Row>, DbError> {
        let sql = "SELECT * FROM sessions WHERE id = ?1 AND namespace IN (?2, '//' || ?2)";
        let mut found = query(self.from, Statement::new(sql, [id.into(), self.namespace.into()])).await?.pop();
        if let Some([_, namespace, tag, ..]) = found.as_deref_mut() {
            *namespace = Value::Text(format!("/{}", self.namespace));
            *tag = id.into();
        }
        Ok(found)
    }

    async fn upsert_session(&self, row: Row) -> Result<(), DbError> {
        self.to.batch(&mut vec![Statement::new(UPSERT_SESSION, row)]).await.map(drop)
    }

    /// Writes the rows of the sessions after an id, up to another one.
    async fn write_sessions(&self, after: &str, last: &str) -> Result<(), DbError> {
        let mut after = after.to_owned();
        loop {
            let params = [self.namespace.into(), after.as_str().into(), last.into()];
            let rows = query(self.from, Statement::new(SELECT_SESSION_ROWS, params)).await?;
            match rows.last() {
                Some(row) => after = text(row, 0).to_owned(),
                None => return Ok(()),
            }
            let mut upserts = rows.into_iter().map(|row| Statement::new(UPSERT_SESSION, row)).collect();
            self.to.batch(&mut upserts).await?;
        }
    }

    /// Returns the number of a session's messages up to a seq, the first seq and the last.
    async fn bounds(&self, db: &dyn Database, session: &Value, last: i64) -> Result<[i64; 3], DbError> {
        let row = query(db, Statement::new(SELECT_BOUNDS, [session.clone(), Value::Integer(last)])).await?.pop();
        match row.unwrap_or_default().as_slice() {
            [Value::Integer(count), Value::Integer(first), Value::Integer(last)] => Ok([*count, *first, *last]),
            _ => Ok([0, 0, 0]),
        }
    }

    /// Copies the messages of a session that follow the last copied one. Deletes copies of messages that were deleted, or merged into
    /// another session. Returns whether all are copied.
    async fn copy_messages(&self, session: &Value) -> Result<bool, DbError> {
        let [_, first_copied, mut last] = self.bounds(self.to, session, MAX_SEQ).await?;
        let [.., until] = self.bounds(self.from, session, MAX_SEQ).await?;
        let [count, first, _] = self.bounds(self.from, session, last).await?;
        if count > 0 && first_copied < first {
            repeat_until_empty(self.to, DELETE_MESSAGES, &[session.clone(), Value::Integer(first)]).await?;
        }
        let [copied, ..] = self.bounds(self.to, session, last).await?;
        if copied != count {
            repeat_until_empty(self.to, DELETE_MESSAGES, &[session.clone(), Value::Integer(MAX_SEQ)]).await?;
            last = -1;
        }
        self.copy_rows(&MESSAGES, session, Value::Integer(last), until).await
    }

    /// Deletes the rows of a table in the target database, and copies all rows.
    async fn replace(&self, table: &Table, scope: &Value, before_first: Value) -> Result<(), DbError> {
        self.to.batch(&mut table.delete.map(|sql| Statement::new(sql, [scope.clone()])).into_iter().collect()).await?;
        let copy = Copy { must_stop: &|| false, ..*self };
        copy.copy_rows(table, scope, before_first, MAX_SEQ).await.map(drop)
    }

    /// Copies the rows after a key. If the keys are numbers, copies no row after the key `until`. Returns whether all are copied.
    async fn copy_rows(&self, table: &Table, scope: &Value, mut after: Value, until: i64) -> Result<bool, DbError> {
        while !matches!(after, Value::Integer(seq) if seq >= until) {
            let rows = query(self.from, Statement::new(table.page, [scope.clone(), after.clone()])).await?;
            match rows.last().and_then(|row| row.get(table.key)) {
                Some(last) => after = last.clone(),
                None => return Ok(true),
            }
            let mut inserts = rows.into_iter().map(|row| Statement::new(table.insert, row)).collect();
            self.to.batch(&mut inserts).await?;
            if (self.must_stop)() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies the rows that are missing, and deletes those that no longer exist. Returns whether all are copied.
    async fn copy_parts(&self, table: &PartTable, scope: &Value) -> Result<bool, DbError> {
        let keys = async |db| query(db, Statement::new(table.keys, [scope.clone()])).await;
        let with_scope = |key: &Row| [std::slice::from_ref(scope), key].concat();
        let (existing, copied) = (keys(self.from).await?, keys(self.to).await?);
        for key in copied.iter().filter(|key| !existing.contains(key)) {
            query(self.to, Statement::new(table.delete, with_scope(key))).await?;
        }
        for key in existing.iter().filter(|key| !copied.contains(key)) {
            for row in query(self.from, Statement::new(table.select, with_scope(key))).await? {
                query(self.to, Statement::new(table.insert, row)).await?;
            }
            if (self.must_stop)() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
