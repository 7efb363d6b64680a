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

/// A page of messages as finished JSON texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub messages: Vec<String>,
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
    let mut rows = query(db, Statement::new(sql, params)).await?;
    if rows.is_empty() {
        return owner_of_empty(db, namespace, session).await;
    }
    let has_more = rows.len() as u64 > limit;
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut last_seq = None;
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::of(row);
        last_seq = Some(columns.number());
        messages.push(columns.text());
    }
    Ok(Found::Owned(Page { messages, has_more, last_seq }))
}

/// The largest number that D1 carries exactly.
const MAX_SEQ: u64 = (1 << 53) - 1;

async fn owner_of_empty(db: &dyn Database, namespace: &Namespace, session: &str) -> Result<Found<Page>, DbError> {
    let owned = Statement::new(sql::SESSION_OWNED, [session.into(), namespace.as_ref().into()]);
    Ok(match query(db, owned).await?.pop().map(|row| Columns::of(row).flag()) {
        Some(true) => Found::Owned(Page { messages: Vec::new(), has_more: false, last_seq: None }),
        Some(false) => Found::Foreign,
        None => Found::Missing,
    })
}
