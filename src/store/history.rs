//! Pages of the message history of a session, read from the database alone, without state of the hub.

use std::sync::Arc;

use super::columns::{Columns, read_owned};
use super::sessions::history_of;
use super::{Database, DbError, Found, Row, Statement, parts, sessions};
use crate::ledger::{Account, Reservation};
use crate::limits::{MAX_PAGE_BYTES, MAX_UNRESERVED_BYTES};
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;

/// Space for the JSON around the content of a message, in bytes.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// The JSON of a message, up to the end of its content.
macro_rules! message_start {
    () => {
        r#"'{"id":"' || id || '","seq":' || seq || ',"localId":' || json_quote(local_id) || ',"content":' || content"#
    };
}

/// The rest of the JSON of a message.
macro_rules! message_end {
    () => {
        r#"',"createdAt":' || created_at || '}'"#
    };
}

/// The messages on one side of a seq.
#[rustfmt::skip]
macro_rules! messages_beside {
    ($columns:expr, $side:literal, $order:literal $(, $condition:expr)?) => { concat!(
        "SELECT ", $columns, " FROM messages
  WHERE session_id = ", history_of!("?1", "?2"), " AND seq ", $side, " ?3", $($condition,)? "
  ORDER BY seq ", $order, " LIMIT ?4"
    ) };
}

/// Selects a page. Selects no row if a message has parts, or the messages have `?5` bytes or more: a plain sum is cheaper than a
/// running one.
/// `?1`: session, `?2`: namespace, `?3`: seq, `?4`: number of messages, `?5`: bytes of content.
#[rustfmt::skip]
macro_rules! page {
    ($side:literal, $order:literal) => {
        messages_beside!(concat!("seq, ", message_start!(), " || ", message_end!(), " AS body"), $side, $order, concat!(
            " AND (SELECT sum(CASE parts WHEN 0 THEN bytes ELSE ?5 END) FROM (",
            messages_beside!("parts, bytes", $side, $order), ")) < ?5"
        ))
    };
}

/// A page that ends with the message at which the total reaches `?5` bytes. If further parts of a message follow, its `body`
/// ends within its content. `found` is the number of messages that the page would have without that limit. The parameters are
/// those of `page!`.
#[rustfmt::skip]
macro_rules! bounded_page {
    ($side:literal, $order:literal) => { concat!(
        "SELECT seq, ", message_start!(), " || CASE parts WHEN 0 THEN ", message_end!(), " ELSE '' END AS body, parts, bytes, id,
  created_at, found FROM (
  SELECT *, count(*) OVER () AS found, sum(bytes) OVER (ORDER BY seq ", $order, " ROWS UNBOUNDED PRECEDING) AS total
  FROM (", messages_beside!("*", $side, $order), "))
WHERE total - bytes < ?5
ORDER BY seq ", $order
    ) };
}

const PAGE_BEFORE: &str = page!("<", "DESC");
const PAGE_AFTER: &str = page!(">", "ASC");
const BOUNDED_PAGE_BEFORE: &str = bounded_page!("<", "DESC");
const BOUNDED_PAGE_AFTER: &str = bounded_page!(">", "ASC");

/// Selects some parts of a message in their order. `?1`: session, `?2`: namespace, `?3`: id of the message, `?4`: the
/// part before the first, `?5`: the last.
const SELECT_PARTS: &str = concat!(
    "
SELECT content FROM message_parts
WHERE session_id = ",
    history_of!("?1", "?2"),
    " AND message_id = ?3 AND part > ?4 AND part <= ?5
ORDER BY part"
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRange {
    /// Messages below this seq (the newest, if `None`), newest first.
    Before(Option<u64>),
    /// Messages above this seq, oldest first.
    After(u64),
}

#[derive(Debug, Default)]
pub struct Page {
    /// The messages as JSON texts, joined by commas.
    pub messages: String,
    /// Whether more messages follow the last one.
    pub has_more: bool,
    /// The seq of the last message.
    pub last_seq: Option<u64>,
    /// The reservation of a large page.
    pub reservation: Option<Reservation>,
}

/// A message as a row of a bounded page.
struct PageMessage {
    seq: u64,
    body: String,
    parts: u64,
    bytes: u64,
    id: String,
    created_at: u64,
}

/// Reads a page of at most `limit` messages. Fails with [`DbError::NoMemory`] if a large page does not fit
/// the ledger.
pub async fn read_page(
    db: &dyn Database,
    account: &Arc<Account>,
    (namespace, session): (&Namespace, &str),
    range: PageRange,
    limit: u64,
) -> Result<Found<Page>, DbError> {
    let (usual, bounded, seq) = match range {
        PageRange::Before(seq) => (PAGE_BEFORE, BOUNDED_PAGE_BEFORE, seq.unwrap_or(MAX_SAFE_INTEGER)),
        PageRange::After(seq) => (PAGE_AFTER, BOUNDED_PAGE_AFTER, seq),
    };
    // One message above the limit shows whether more follow.
    let (seq, rows) = (seq.min(MAX_SAFE_INTEGER), limit + 1);
    let params = [session.into(), namespace.as_ref().into(), seq.into(), rows.into(), MAX_PAGE_BYTES.into()];
    let joined = db.query_joined(&Statement::new(usual, params.clone()), limit).await?;
    if joined.rows == 0 {
        return read_bounded_page(db, account, (namespace, session), Statement::new(bounded, params), limit).await;
    }
    let has_more = joined.rows > limit;
    let reservation = reserve(account, joined.text.len())?;
    Ok(Found::Owned(Page { messages: joined.text, has_more, last_seq: joined.last_seq, reservation }))
}

/// Reads a page that is empty, limited by its bytes, or contains messages larger than a row.
async fn read_bounded_page(
    db: &dyn Database,
    account: &Arc<Account>,
    (namespace, session): (&Namespace, &str),
    page: Statement,
    limit: u64,
) -> Result<Found<Page>, DbError> {
    let owned = Statement::new(sessions::SELECT_OWNED, [session.into(), namespace.as_ref().into()]);
    let mut results = db.batch(&mut vec![page, owned]).await?;
    match read_owned("sessions", results.pop().unwrap_or_default())? {
        Found::Owned(()) => {}
        Found::Foreign => return Ok(Found::Foreign),
        Found::Missing => return Ok(Found::Missing),
    }
    let mut found = 0;
    let mut messages = Vec::new();
    for row in results.pop().into_iter().flatten().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let message;
        (message, found) = from_row(row)?;
        messages.push(message);
    }
    let bytes = MESSAGE_OVERHEAD_BYTES + messages.iter().map(PageMessage::max_bytes).sum::<usize>();
    let reservation = reserve(account, bytes)?;
    let mut page = Page {
        // Allocated in full, because a text that grows is in memory twice while it is moved.
        messages: String::with_capacity(bytes),
        has_more: found > messages.len() as u64,
        last_seq: messages.last().map(|message| message.seq),
        reservation,
    };
    for message in messages {
        if !page.messages.is_empty() {
            page.messages.push(',');
        }
        append_message(&mut page.messages, db, (namespace, session), &message).await?;
    }
    Ok(Found::Owned(page))
}

/// Reserves memory for a large page.
fn reserve(account: &Arc<Account>, bytes: usize) -> Result<Option<Reservation>, DbError> {
    let is_large = bytes > MAX_UNRESERVED_BYTES;
    is_large.then(|| account.reserve(bytes).ok_or(DbError::NoMemory)).transpose()
}

fn from_row(row: Row) -> Result<(PageMessage, u64), DbError> {
    let mut c = Columns::new("messages", row);
    let message = PageMessage {
        seq: c.number("seq")?,
        body: c.text("body")?,
        parts: c.number("parts")?,
        bytes: c.number("bytes")?,
        id: c.text("id")?,
        created_at: c.number("created_at")?,
    };
    Ok((message, c.number("found")?))
}

impl PageMessage {
    /// An upper limit of the size of the whole message.
    fn max_bytes(&self) -> usize {
        let content = if self.parts > 0 { usize::try_from(self.bytes).unwrap_or(0) } else { self.body.len() };
        content + MESSAGE_OVERHEAD_BYTES
    }
}

async fn append_message(
    text: &mut String,
    db: &dyn Database,
    (namespace, session): (&Namespace, &str),
    message: &PageMessage,
) -> Result<(), DbError> {
    text.push_str(&message.body);
    if message.parts == 0 {
        return Ok(());
    }
    let select = |after: u64, last: u64| {
        let params = [session.into(), namespace.as_ref().into(), message.id.as_str().into(), after.into(), last.into()];
        Statement::new(SELECT_PARTS, params)
    };
    if !parts::append(text, db, "message_parts", message.parts, select).await? {
        return Err(DbError::Retryable("a message was moved or deleted while its parts were read".into()));
    }
    text.push_str(&format!(r#","createdAt":{}}}"#, message.created_at));
    Ok(())
}
