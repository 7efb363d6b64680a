//! Pages of the message history of a session, read from the database alone, without state of the hub. The row of a message holds the
//! first part of its content; a large content has *further parts* in the table `message_parts`.

use super::columns::{Columns, read_owned};
use super::memory::ReadMemory;
use super::{Database, DbError, Found, JoinedRows, Statement, Value, parts};
use crate::limits::{MAX_LOCAL_ID_BYTES, MAX_PART_BYTES};
use crate::memory_budget::Reservation;
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;
use crate::store::parts::PARTS_AT_ONCE;

/// How many reads of small pages a namespace runs at a time: fewer than an isolate, so that other namespaces can read too.
pub const MAX_SMALL_READS_OF_NAMESPACE: usize = 24;
/// The total content size at which a page of history ends, in bytes.
pub const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// How many reads of pages below [`SMALL_PAGE_BYTES`] run in an isolate at a time: they reserve no memory.
const MAX_SMALL_READS: usize = 32;
/// How many reads of larger pages run in an isolate at a time. Limited because JavaScript copies the rows of a read. The same number of
/// reads of one namespace may run or wait for memory.
const MAX_LARGE_READS: usize = 2;
/// The content size below which a page of history reserves no memory, in bytes: with the JSON around 200 messages, it is smaller
/// than [`MAX_UNRESERVED_BYTES`](crate::limits::MAX_UNRESERVED_BYTES).
const SMALL_PAGE_BYTES: u64 = 640 * 1024;
/// How much content of messages is read at once for a larger page, in bytes: JavaScript's copies of the content are not reserved.
const MAX_BYTES_AT_ONCE: usize = PARTS_AT_ONCE * MAX_PART_BYTES;

/// The most bytes of the JSON around the content of a message: an escape in a local id has six characters.
const MESSAGE_OVERHEAD_BYTES: usize = 6 * MAX_LOCAL_ID_BYTES + 256;

/// Space for the JSON around the messages of a page, in bytes: a string that grows is moved, and is in memory twice meanwhile.
const RESPONSE_OVERHEAD_BYTES: usize = 256;

/// The id under which the messages of a session are stored. NULL if the namespace has no such session, or has moved to another database:
/// a worker may read from the earlier one. `?1`: session, `?2`: namespace.
#[rustfmt::skip]
macro_rules! readable_history {
    () => {
        concat!("(SELECT coalesce(history, id) FROM sessions WHERE id = ?1 AND namespace = ?2 AND ", has_not_moved!(),
            ")")
    };
}

macro_rules! has_not_moved {
    () => {
        "NOT EXISTS (SELECT 1 FROM moved_namespaces WHERE namespace = ?2)"
    };
}

/// Like `SELECT_OWNED` of the sessions, but finds no session of a namespace that has moved.
#[rustfmt::skip]
const SELECT_READABLE: &str = concat!(
    "SELECT namespace = ?2 AS owned FROM sessions WHERE id = ?1 AND namespace NOT GLOB '/*' AND ", has_not_moved!());

/// The JSON of a message, up to its content.
macro_rules! message_start {
    () => {
        r#"'{"id":"' || id || '","seq":' || seq || ',"localId":' || json_quote(local_id)"#
    };
}

macro_rules! message_content {
    () => {
        r#"',"content":' || content"#
    };
}

/// The content of a message. If it has more than `?6` bytes, its size, and its first and last 4,000 characters. The last part
/// may be shorter than 4,000 characters, so the last characters are taken from the last two parts. Both parts are cut before
/// they are joined, because the database limits the length of a text.
#[rustfmt::skip]
macro_rules! content_or_excerpt {
    () => {
        concat!(
            r#"CASE WHEN bytes > ?6 THEN ',"contentBytes":' || bytes || ',"excerpt":' || json_array(substr(content, 1, 4000),
    substr(substr(coalesce("#, part_of_message!("parts - 1"), ", content), -4000) || substr(coalesce(",
            part_of_message!("parts"), ", ''), -4000), -4000)) ELSE ", message_content!(), " END")
    };
}

#[rustfmt::skip]
macro_rules! part_of_message {
    ($part:literal) => {
        concat!(
            "(SELECT p.content FROM message_parts AS p WHERE p.session_id = messages.session_id AND p.message_id = messages.id AND p.part = ",
            $part, ")")
    };
}

/// The number of further parts, and of bytes, of a message with its whole content.
macro_rules! whole_size {
    () => {
        "parts, bytes"
    };
}

/// The number of further parts, and of bytes, of a message with [`content_or_excerpt!`]. An excerpt has no further parts, and
/// 8,000 characters of at most 4 bytes. But the database reads up to three parts of a message to make an excerpt, and other queries
/// wait meanwhile. So an excerpt counts as at least a quarter of the bytes of these parts.
macro_rules! size_or_excerpt_size {
    () => {
        "iif(bytes > ?6, 0, parts) AS parts, iif(bytes > ?6, max(32100, min(bytes, 4500000) / 4), bytes) AS bytes"
    };
}

/// The JSON of a message after its content.
macro_rules! message_end {
    () => {
        r#"',"createdAt":' || created_at || '}'"#
    };
}

/// The messages on one side of a seq.
#[rustfmt::skip]
macro_rules! messages_beside {
    ($columns:expr, $side:literal, $order:literal $(, $condition:expr)?) => { concat!("SELECT ", $columns,
        " FROM messages
  WHERE session_id = ", readable_history!(), " AND seq ", $side, " ?3", $($condition,)? "
  ORDER BY seq ", $order, " LIMIT ?4") };
}

/// Selects a page. Selects no row if a message has further parts, or if all messages together have `?5` bytes or more. One sum is
/// cheaper than a running sum, which would show how many messages fit. `?1`: session, `?2`: namespace, `?3`: seq, `?4`: number of
/// messages, `?5`: bytes of content, with excerpts `?6`: the largest whole content.
#[rustfmt::skip]
macro_rules! page {
    ($side:literal, $order:literal, $content:ident, $size:ident) => {
        messages_beside!(concat!("seq, ", message_start!(), " || ", $content!(), " || ", message_end!(), " AS body"), $side, $order, concat!(
            " AND (SELECT sum(CASE parts WHEN 0 THEN bytes ELSE ?5 END) FROM (",
            messages_beside!($size!(), $side, $order), ")) < ?5"))
    };
}

/// The sizes of the messages of a page, which ends with the message at which the total reaches `?5` bytes. `found` is the number of
/// messages that the page would have without that limit. The parameters are those of `page!`.
#[rustfmt::skip]
macro_rules! page_sizes {
    ($side:literal, $order:literal, $size:ident) => { concat!("SELECT seq, parts, bytes, id, created_at, found FROM (
  SELECT *, count(*) OVER () AS found, sum(bytes) OVER (ORDER BY seq ", $order, " ROWS UNBOUNDED PRECEDING) AS total
  FROM (", messages_beside!(concat!("seq, id, created_at, ", $size!()), $side, $order), "))
WHERE total - bytes < ?5
ORDER BY seq ", $order) };
}

/// The statements of one kind of pages.
struct PageSql {
    before: &'static str,
    after: &'static str,
}

macro_rules! both_sides {
    ($sql:ident, $($column:ident),+) => {
        PageSql { before: $sql!("<", "DESC", $($column),+), after: $sql!(">", "ASC", $($column),+) }
    };
}

const PAGE: PageSql = both_sides!(page, message_content, whole_size);
const PAGE_OF_EXCERPTS: PageSql = both_sides!(page, content_or_excerpt, size_or_excerpt_size);
const SIZES: PageSql = both_sides!(page_sizes, whole_size);
const SIZES_OF_EXCERPTS: PageSql = both_sides!(page_sizes, size_or_excerpt_size);

/// Selects the JSON of a large message, up to the first part of its content. `?1`: session, `?2`: namespace, `?3`: seq.
#[rustfmt::skip]
const SELECT_START: &str = concat!("SELECT seq, ", message_start!(), " || ", message_content!(),
    " AS body FROM messages WHERE session_id = ", readable_history!(), " AND seq = ?3");

/// Selects parts of a message in order. `?1`: session, `?2`: namespace, `?3`: message, `?4`: the part before the first, `?5`: the last.
#[rustfmt::skip]
const SELECT_PARTS: &str = concat!("
SELECT content FROM message_parts
WHERE session_id = ", readable_history!(), " AND message_id = ?3 AND part > ?4 AND part <= ?5
ORDER BY part");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRange {
    /// Messages below this seq (the newest, if `None`), newest first.
    Before(Option<u64>),
    /// Messages above this seq, oldest first.
    After(u64),
}

#[derive(Debug)]
pub struct Page {
    /// The messages as JSON texts, joined by commas.
    pub messages: String,
    pub has_more: bool,
    pub last_seq: Option<u64>,
    pub reservation: Option<Reservation>,
}

struct MessageSize {
    seq: u64,
    parts: u64,
    bytes: usize,
    id: String,
    created_at: u64,
}

/// Reads a page of at most `limit` messages, with excerpts of contents above `max_bytes_without_excerpt`. Waits for other reads, and
/// for memory if the page is large. Fails with [`DbError::NoMemory`] if the wait is too long.
pub async fn read_page(
    db: &dyn Database,
    memory: &ReadMemory,
    (namespace, session): (&Namespace, &str),
    range: PageRange,
    limit: u64,
    max_bytes_without_excerpt: Option<u64>,
) -> Result<Found<Page>, DbError> {
    let deadline = memory.deadline();
    let history = History { db, namespace: namespace.as_str(), session, max_bytes_without_excerpt };
    let (of_namespace, of_isolate) = (&memory.budget.reads, &memory.budget.memory_budget.reads);
    let namespace_place = memory.wait_to_read(&of_namespace.small, MAX_SMALL_READS_OF_NAMESPACE, deadline).await?;
    let isolate_place = memory.wait_to_read(&of_isolate.small, MAX_SMALL_READS, deadline).await?;
    // One message above the limit shows whether more follow.
    let joined = history.read_joined(range, limit + 1, limit, SMALL_PAGE_BYTES).await?;
    if joined.rows > 0 {
        let JoinedRows { text: messages, rows, last_seq } = joined;
        return Ok(Found::InNamespace(Page { messages, has_more: rows > limit, last_seq, reservation: None }));
    }
    let (sizes, has_more) = match history.read_sizes(range, limit).await? {
        Found::InNamespace(sizes) => sizes,
        Found::Foreign => return Ok(Found::Foreign),
        Found::Missing => return Ok(Found::Missing),
    };
    let last_seq = sizes.last().map(|size| size.seq);
    let content_bytes: usize = sizes.iter().map(|size| size.bytes).sum();
    let bytes = content_bytes + sizes.len() * MESSAGE_OVERHEAD_BYTES + RESPONSE_OVERHEAD_BYTES;
    let (_places, mut reservation) = if (content_bytes as u64) < SMALL_PAGE_BYTES {
        // Only the message after the page is large.
        ((namespace_place, isolate_place), None)
    } else {
        // Reads that wait for memory must not delay small reads, or reads of other namespaces.
        drop((namespace_place, isolate_place));
        let namespace_place = memory.wait_to_read(&of_namespace.large, MAX_LARGE_READS, deadline).await?;
        let reservation = memory.reserve_until(bytes, deadline).await?;
        let isolate_place = memory.wait_to_read(&of_isolate.large, MAX_LARGE_READS, deadline).await?;
        ((namespace_place, isolate_place), Some(reservation))
    };
    let mut messages = String::with_capacity(bytes);
    history.append_messages(&mut messages, range, &sizes).await?;
    messages.shrink_to(messages.len() + RESPONSE_OVERHEAD_BYTES);
    if let Some(reservation) = &mut reservation {
        reservation.resize(messages.capacity());
    }
    Ok(Found::InNamespace(Page { messages, has_more, last_seq, reservation }))
}

struct History<'a> {
    db: &'a dyn Database,
    namespace: &'a str,
    session: &'a str,
    max_bytes_without_excerpt: Option<u64>,
}

impl History<'_> {
    /// Returns a statement with the parameters of `page!`.
    fn page_statement(
        &self,
        (whole, excerpts): (PageSql, PageSql),
        range: PageRange,
        rows: u64,
        max_bytes: u64,
    ) -> Statement {
        let page = if self.max_bytes_without_excerpt.is_some() { excerpts } else { whole };
        let (sql, seq) = match range {
            PageRange::Before(seq) => (page.before, seq.unwrap_or(MAX_SAFE_INTEGER)),
            PageRange::After(seq) => (page.after, seq),
        };
        let seq = seq.min(MAX_SAFE_INTEGER);
        let mut params = vec![self.session.into(), self.namespace.into(), seq.into(), rows.into(), max_bytes.into()];
        params.extend(self.max_bytes_without_excerpt.map(Value::from));
        Statement::new(sql, params)
    }

    /// Reads up to `rows` messages of a range and joins the first `limit`. Reads no message if one of them has further parts, or if
    /// all of them together have `max_bytes` or more.
    async fn read_joined(
        &self,
        range: PageRange,
        rows: u64,
        limit: u64,
        max_bytes: u64,
    ) -> Result<JoinedRows, DbError> {
        let page = self.page_statement((PAGE, PAGE_OF_EXCERPTS), range, rows, max_bytes);
        self.db.query_joined(&page, limit).await
    }

    /// Reads the sizes of the messages of a page, and whether more follow.
    async fn read_sizes(&self, range: PageRange, limit: u64) -> Result<Found<(Vec<MessageSize>, bool)>, DbError> {
        let sizes = self.page_statement((SIZES, SIZES_OF_EXCERPTS), range, limit + 1, MAX_PAGE_BYTES);
        let owned = Statement::new(SELECT_READABLE, [self.session.into(), self.namespace.into()]);
        let mut results = self.db.batch(&mut vec![sizes, owned]).await?;
        match read_owned("sessions", results.pop().unwrap_or_default())? {
            Found::InNamespace(()) => {}
            Found::Foreign => return Ok(Found::Foreign),
            Found::Missing => return Ok(Found::Missing),
        }
        let mut found = 0;
        let mut sizes = Vec::new();
        for row in results.pop().into_iter().flatten().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let mut c = Columns::new("messages", row);
            sizes.push(MessageSize {
                seq: c.number("seq")?,
                parts: c.number("parts")?,
                bytes: c.count("bytes")?,
                id: c.text("id")?,
                created_at: c.number("created_at")?,
            });
            found = c.number("found")?;
        }
        let has_more = found > sizes.len() as u64;
        Ok(Found::InNamespace((sizes, has_more)))
    }

    /// Appends the messages of a page, in pieces of at most [`MAX_BYTES_AT_ONCE`].
    async fn append_messages(
        &self,
        text: &mut String,
        range: PageRange,
        mut sizes: &[MessageSize],
    ) -> Result<(), DbError> {
        while let Some(first) = sizes.first() {
            if !text.is_empty() {
                text.push(',');
            }
            let (batch, later) = sizes.split_at_checked(batch_length(sizes)).unwrap_or((sizes, &[]));
            if first.parts > 0 {
                self.append_in_parts(text, first).await?;
            } else {
                let from_first = match range {
                    PageRange::Before(_) => PageRange::Before(Some(first.seq + 1)),
                    PageRange::After(_) => PageRange::After(first.seq.saturating_sub(1)),
                };
                let rows = batch.len() as u64;
                let joined = self.read_joined(from_first, rows, rows, MAX_SAFE_INTEGER).await?;
                if joined.rows != rows {
                    return Err(changed_during_read());
                }
                text.push_str(&joined.text);
            }
            sizes = later;
        }
        Ok(())
    }

    /// Appends a message whose content has further parts.
    async fn append_in_parts(&self, text: &mut String, size: &MessageSize) -> Result<(), DbError> {
        let select = Statement::new(SELECT_START, [self.session.into(), self.namespace.into(), size.seq.into()]);
        text.push_str(&self.db.query_joined(&select, 1).await?.text);
        let select = |after: u64, last: u64| {
            let id = size.id.as_str().into();
            Statement::new(SELECT_PARTS, [self.session.into(), self.namespace.into(), id, after.into(), last.into()])
        };
        if !parts::append(text, self.db, "message_parts", size.parts, &select).await? {
            return Err(changed_during_read());
        }
        text.push_str(&format!(r#","createdAt":{}}}"#, size.created_at));
        Ok(())
    }
}

/// Returns how many messages are read at once: one message if it has parts, or as many as fit [`MAX_BYTES_AT_ONCE`].
fn batch_length(sizes: &[MessageSize]) -> usize {
    let mut bytes = 0;
    let fits = |size: &&MessageSize| {
        bytes += size.bytes;
        size.parts == 0 && bytes <= MAX_BYTES_AT_ONCE
    };
    sizes.iter().take_while(fits).count().max(1)
}

fn changed_during_read() -> DbError {
    DbError::Retryable("a message was moved or deleted while its page was read".into())
}
