//! Pages of a session's message history, read from the database alone: no live state is needed for them.

use std::sync::Arc;

use super::response_budget::{Reservation, ResponseBudget};
use super::rows::PARTS_AT_ONCE;
use super::{Columns, Database, DbError, Found, Statement, query, sql};
use crate::model::json::MAX_SAFE_INTEGER;
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
#[derive(Debug, Default)]
pub struct Page {
    /// The messages as JSON texts, joined by commas.
    pub messages: String,
    /// Whether the history goes on behind the page's last message.
    pub has_more: bool,
    /// The seq of the page's last message.
    pub last_seq: Option<u64>,
    /// The reservation, if a message is larger than a row.
    pub reservation: Option<Reservation>,
}

/// A page of at most `limit` messages. Messages larger than a row are read within the budget.
pub async fn page(
    db: &dyn Database,
    budget: &Arc<ResponseBudget>,
    (namespace, session): (&Namespace, &str),
    range: Range,
    limit: u64,
) -> Result<Found<Page>, DbError> {
    let (usual, bounded, bound) = match range {
        Range::Before(seq) => (sql::PAGE_BEFORE, sql::BOUNDED_PAGE_BEFORE, seq.unwrap_or(MAX_SAFE_INTEGER)),
        Range::After(seq) => (sql::PAGE_AFTER, sql::BOUNDED_PAGE_AFTER, seq),
    };
    // One row more than the page tells whether the history goes on.
    let (bound, rows) = (bound.min(MAX_SAFE_INTEGER), limit + 1);
    let params = [session.into(), namespace.as_ref().into(), bound.into(), rows.into(), MAX_PAGE_BYTES.into()];
    let joined = db.joined(Statement::new(usual, params.clone()), limit).await?;
    if joined.rows == 0 || joined.in_parts {
        return unusual(db, budget, (namespace, session), Statement::new(bounded, params), limit).await;
    }
    let has_more = joined.rows > limit;
    Ok(Found::Owned(Page { messages: joined.text, has_more, last_seq: joined.last, reservation: None }))
}

/// A message of a page that is put together here.
struct Piece {
    seq: u64,
    text: String,
    parts: u64,
    bytes: u64,
    id: String,
    created_at: u64,
}

/// The page when it is empty, ends by its bytes, or holds messages larger than a row.
async fn unusual(
    db: &dyn Database,
    budget: &Arc<ResponseBudget>,
    (namespace, session): (&Namespace, &str),
    bounded: Statement,
    limit: u64,
) -> Result<Found<Page>, DbError> {
    let owned = Statement::new(sql::SESSION_OWNED, [session.into(), namespace.as_ref().into()]);
    let mut results = db.batch(&[bounded, owned]).await?;
    match results.pop().and_then(|mut rows| rows.pop()).map(|row| Columns::of(row).flag()) {
        Some(true) => {}
        Some(false) => return Ok(Found::Foreign),
        None => return Ok(Found::Missing),
    }
    let mut found = 0;
    let mut pieces = Vec::new();
    for row in results.pop().into_iter().flatten().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let mut c = Columns::of(row);
        let (seq, text, parts) = (c.number(), c.text(), c.number());
        pieces.push(Piece { seq, text, parts, bytes: c.number(), id: c.text(), created_at: c.number() });
        found = c.number();
    }
    let bytes = bytes_of(&pieces);
    let in_parts = pieces.iter().any(|piece| piece.parts > 0);
    let reservation =
        in_parts.then(|| budget.reserve(namespace.as_ref(), bytes).ok_or(DbError::OverBudget)).transpose()?;
    let page = Page {
        has_more: found > pieces.len() as u64,
        last_seq: pieces.last().map(|piece| piece.seq),
        messages: put_together(db, namespace, session, pieces, bytes).await?,
        reservation,
    };
    Ok(Found::Owned(page))
}

/// How many bytes the messages have at most, and what stands around them.
fn bytes_of(pieces: &[Piece]) -> usize {
    let whole =
        |piece: &Piece| if piece.parts > 0 { usize::try_from(piece.bytes).unwrap_or(0) } else { piece.text.len() };
    AROUND + pieces.iter().map(|piece| whole(piece) + AROUND).sum::<usize>()
}

/// The messages with what they go on with, joined by commas; `bytes` is enough for them.
async fn put_together(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    pieces: Vec<Piece>,
    bytes: usize,
) -> Result<String, DbError> {
    // The whole of it is in memory once: a text that grows would be there twice.
    let mut joined = String::with_capacity(bytes);
    for piece in pieces {
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(&piece.text);
        if piece.parts > 0 {
            add_parts(db, namespace, session, &piece, &mut joined).await?;
            joined.push_str(&format!(r#","createdAt":{}}}"#, piece.created_at));
        }
    }
    Ok(joined)
}

/// Room for what stands around a message, and around the page, in bytes.
const AROUND: usize = 256;

async fn add_parts(
    db: &dyn Database,
    namespace: &Namespace,
    session: &str,
    piece: &Piece,
    joined: &mut String,
) -> Result<(), DbError> {
    let at_once = PARTS_AT_ONCE as u64;
    for before in (0..piece.parts).step_by(PARTS_AT_ONCE) {
        let last = piece.parts.min(before + at_once);
        let params = [session.into(), namespace.as_ref().into(), piece.id.as_str().into(), before.into(), last.into()];
        let parts = query(db, Statement::new(sql::PARTS, params)).await?;
        if parts.len() as u64 != last - before {
            return Err(DbError::Retryable("a message was moved or deleted while its parts were read".into()));
        }
        parts.into_iter().for_each(|part| joined.push_str(&Columns::of(part).text()));
    }
    Ok(())
}

/// After how many bytes of content a page ends, however many messages it was to have: a page must fit the memory of a
/// worker (128 MB) several times over.
pub const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;
