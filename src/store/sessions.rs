//! Reading sessions, and what a session's local ids stand for.

use super::rows::MAX_RECORD_BYTES;
use super::{Columns, Database, DbError, Found, Row, Statement, sql};
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::model::session::Session;
use crate::model::summary::SummaryFields;

/// Where a message stands that was seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRef {
    /// The message's id.
    pub id: String,
    /// Its place in the session's history.
    pub seq: u64,
    /// When it was taken, in Unix milliseconds.
    pub created_at: u64,
}

/// The session of this id.
pub async fn by_id(db: &dyn Database, namespace: &Namespace, id: &str) -> Result<Found<Session>, DbError> {
    let params = [id.into(), namespace.as_ref().into()];
    let statements = [Statement::new(sql::SESSION_BY_ID, params.clone()), Statement::new(sql::SESSION_OWNED, params)];
    let mut results = db.batch(&statements).await?.into_iter();
    let row = results.next().and_then(|mut rows| rows.pop());
    let exists = results.next().is_some_and(|rows| !rows.is_empty());
    Ok(match row {
        Some(row) => Found::Owned(from_row(namespace, row)),
        None if exists => Found::Foreign,
        None => Found::Missing,
    })
}

/// The namespace's session of this tag.
pub async fn by_tag(db: &dyn Database, namespace: &Namespace, tag: &str) -> Result<Option<Session>, DbError> {
    let statement = Statement::new(sql::SESSION_BY_TAG, [tag.into(), namespace.as_ref().into()]);
    let row = super::query(db, statement).await?.pop();
    Ok(row.map(|row| from_row(namespace, row)))
}

/// What the lines of all sessions of the namespace are made of.
pub async fn facts(db: &dyn Database, namespace: &Namespace) -> Result<Vec<SummaryFields>, DbError> {
    let rows = super::query(db, Statement::new(sql::LINES_OF_NAMESPACE, [namespace.as_ref().into()])).await?;
    let facts = |row: Row| serde_json::from_str(&Columns::of(row).text()).ok();
    Ok(rows.into_iter().filter_map(facts).collect())
}

/// The newest `limit` local ids of a session, with the messages they stand for.
pub async fn local_ids(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    limit: u64,
) -> Result<Vec<(String, MessageRef)>, DbError> {
    let params = [session.into(), namespace.as_ref().into(), limit.into()];
    let rows = super::query(db, Statement::new(sql::LOCAL_IDS, params)).await?;
    Ok(rows.into_iter().map(local_id).collect())
}

/// The message that a local id stands for.
pub async fn by_local_id(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    id: &str,
) -> Result<Option<MessageRef>, DbError> {
    let params = [session.into(), namespace.as_ref().into(), id.into()];
    let row = super::query(db, Statement::new(sql::MESSAGE_BY_LOCAL_ID, params)).await?.pop();
    Ok(row.map(|row| local_id(row).1))
}

/// The latest messages below a seq that may hold a todo list, newest first.
pub async fn todo_candidates(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    limit: u64,
    before: u64,
) -> Result<Vec<(u64, String)>, DbError> {
    let params = [session.into(), namespace.as_ref().into(), limit.into(), before.into()];
    let rows = super::query(db, Statement::new(sql::TODO_CANDIDATES, params)).await?;
    let candidate = |row: Row| {
        let mut columns = Columns::of(row);
        (columns.number(), columns.text())
    };
    Ok(rows.into_iter().map(candidate).collect())
}

/// The record of a session's completed permission requests.
pub struct Completed {
    /// The newest: id, time, entry.
    pub entries: Vec<(String, u64, Json)>,
    /// Whether there are older ones, which do not count any more.
    pub is_overfull: bool,
}

/// The completed permission requests of a session, as many as a record may have.
pub async fn completed(db: &dyn Database, namespace: &Namespace, session: &str) -> Result<Completed, DbError> {
    let statement = Statement::new(sql::COMPLETED_OF_SESSION, [session.into(), namespace.as_ref().into()]);
    let rows = super::query(db, statement).await?;
    let mut total = 0;
    let entry = |row: Row| {
        let mut columns = Columns::of(row);
        let entry = (columns.text(), columns.number(), columns.json());
        total = columns.number();
        Some((entry.0, entry.1, entry.2?))
    };
    let entries = rows.into_iter().filter_map(entry).collect();
    Ok(Completed { entries, is_overfull: total > MAX_RECORD_BYTES as u64 })
}

/// Puts the messages and completed requests of `old` in front of `new`'s and removes `old`.
pub fn merge(namespace: &Namespace, old: &str, new: &str) -> Vec<Statement> {
    let params = [old.into(), new.into(), namespace.as_ref().into()];
    sql::MERGE.iter().map(|sql| Statement::new(sql, params.clone())).collect()
}

fn local_id(row: Row) -> (String, MessageRef) {
    let mut columns = Columns::of(row);
    let local_id = columns.text();
    (local_id, MessageRef { id: columns.text(), seq: columns.number(), created_at: columns.number() })
}

fn from_row(namespace: &Namespace, row: Row) -> Session {
    let mut c = Columns::of(row);
    let mut session = Session {
        id: c.text(),
        namespace: namespace.clone(),
        tag: c.text(),
        seq: c.number(),
        created_at: c.number(),
        updated_at: c.number(),
        active_at: c.number(),
        thinking_at: c.number(),
        active: c.flag(),
        thinking: c.flag(),
        mode: c.maybe_text().and_then(|word| word.parse().ok()),
        metadata: c.json(),
        metadata_large: None,
        metadata_version: c.number(),
        agent_state: c.json(),
        agent_state_large: None,
        agent_state_version: c.number(),
        todos: c.json(),
        permission_mode: c.maybe_text(),
        model_mode: c.maybe_text(),
    };
    session.metadata_large = c.large(session.metadata_version);
    session.agent_state_large = c.large(session.agent_state_version);
    session
}
