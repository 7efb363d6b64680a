//! Pages of a session's message history, read from the database alone: no live state is needed for them.

use super::sessions::Found;
use super::{Columns, Database, DbError, Joined, Statement, query, sql};
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
    let bound = bound.min(MAX_SEQ);
    let params = [session.into(), namespace.as_ref().into(), bound.into(), (limit + 1).into(), MAX_PAGE_BYTES.into()];
    let statement = Statement::new(sql, params);
    let joined = db.joined(statement.clone(), limit).await?;
    if joined.rows == 0 {
        return owner_of_empty(db, namespace, session).await;
    }
    let joined = if joined.in_parts { with_parts(db, namespace, session, statement, limit).await? } else { joined };
    let has_more = joined.rows > limit || joined.total >= MAX_PAGE_BYTES;
    Ok(Found::Owned(Page { messages: joined.text, has_more, last_seq: joined.last }))
}

/// The page when some of its messages are larger than a row.
async fn with_parts(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    statement: Statement,
    limit: u64,
) -> Result<Joined, DbError> {
    struct Piece {
        seq: u64,
        text: String,
        parts: u64,
        created_at: u64,
    }
    let rows = query(db, statement).await?;
    let mut joined = Joined { rows: rows.len() as u64, ..Joined::default() };
    let mut pieces = Vec::with_capacity(rows.len());
    for row in rows {
        let mut c = Columns::of(row);
        let (seq, text, parts) = (c.number(), c.text(), c.number());
        joined.total = c.number();
        pieces.push(Piece { seq, text, parts, created_at: c.number() });
    }
    pieces.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    joined.last = pieces.last().map(|piece| piece.seq);
    let seqs: Vec<u64> = pieces.iter().filter(|piece| piece.parts > 0).map(|piece| piece.seq).collect();
    let seqs = serde_json::to_string(&seqs).unwrap_or_default();
    let params = [session.into(), namespace.as_ref().into(), seqs.as_str().into()];
    for row in query(db, Statement::new(sql::PARTS, params)).await? {
        let mut columns = Columns::of(row);
        let seq = columns.number();
        if let Some(piece) = pieces.iter_mut().find(|piece| piece.seq == seq) {
            piece.text.push_str(&columns.text());
        }
    }
    let finished = pieces.into_iter().map(|piece| match piece.parts {
        0 => piece.text,
        _ => format!(r#"{},"createdAt":{}}}"#, piece.text, piece.created_at),
    });
    joined.text = finished.collect::<Vec<_>>().join(",");
    Ok(joined)
}

/// After how many bytes of content a page ends, however many messages it was to have: a page must fit the memory of a
/// worker (128 MB) several times over.
const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// The largest number that D1 carries exactly.
pub const MAX_SEQ: u64 = (1 << 53) - 1;

async fn owner_of_empty(db: &dyn Database, namespace: &Namespace, session: &str) -> Result<Found<Page>, DbError> {
    let owned = Statement::new(sql::SESSION_OWNED, [session.into(), namespace.as_ref().into()]);
    Ok(match query(db, owned).await?.pop().map(|row| Columns::of(row).flag()) {
        Some(true) => Found::Owned(Page::default()),
        Some(false) => Found::Foreign,
        None => Found::Missing,
    })
}
