//! Pages of a session's message history, read from the database alone: no live state is needed for them.

use super::sessions::Found;
use super::{Columns, Database, DbError, Statement, query, sql};
use crate::model::namespace::Namespace;

/// Which part of the history is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Messages with a seq below this one (all, when `None`), newest first.
    Before(Option<u64>),
    /// Messages with a seq above this one, oldest first.
    After(u64),
}

/// A page of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The messages as JSON texts, joined by commas.
    pub messages: String,
    /// Whether the history goes on behind the page's last message.
    pub has_more: bool,
    /// The seq of the page's last message.
    pub last_seq: Option<u64>,
}

/// A page of at most `limit` messages.
pub async fn page(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    range: Range,
    limit: u64,
) -> Result<Found<Page>, DbError> {
    let (sql, bound) = match range {
        Range::Before(seq) => (sql::MESSAGES_BEFORE, seq.unwrap_or(MAX_SEQ)),
        Range::After(seq) => (sql::MESSAGES_AFTER, seq),
    };
    // One row more than the page tells whether the history goes on.
    let params = [session.into(), namespace.as_ref().into(), bound.min(MAX_SEQ).into(), (limit + 1).into()];
    let joined = db.joined(Statement::new(sql, params), limit).await?;
    if joined.rows == 0 {
        return owner_of_empty(db, namespace, session).await;
    }
    Ok(Found::Owned(Page { messages: joined.text, has_more: joined.rows > limit, last_seq: joined.last }))
}

/// The largest number that D1 carries exactly.
const MAX_SEQ: u64 = (1 << 53) - 1;

async fn owner_of_empty(db: &dyn Database, namespace: &Namespace, session: &str) -> Result<Found<Page>, DbError> {
    let owned = Statement::new(sql::SESSION_OWNED, [session.into(), namespace.as_ref().into()]);
    Ok(match query(db, owned).await?.pop().map(|row| Columns::of(row).flag()) {
        Some(true) => Found::Owned(Page::default()),
        Some(false) => Found::Foreign,
        None => Found::Missing,
    })
}
