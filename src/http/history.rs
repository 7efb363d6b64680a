//! Message history for web clients and CLIs, read from the database alone: the worker responds without the object.

use super::extract::RoutedRequest;
use super::query::Query;
use super::response::Reply;
use crate::hub::core::error::{Error, Kind};
use crate::memory_budget::ResponseText;
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;
use crate::store::history::{Page, PageRange, read_page};
use crate::store::memory::ReadMemory;
use crate::store::{Database, Found};

/// On request, a page of history has an excerpt of each content above this size, in bytes. An excerpt has at most half of this
/// size.
pub const MAX_BYTES_WITHOUT_EXCERPT: u64 = 64 * 1024;

/// The kind of client that reads the history, which determines the default page and the format of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The newest page by default; the response is `{messages, hasMore, page}`.
    Web,
    /// The oldest page by default; the response is `{messages, hasMore}`.
    Cli,
}

#[derive(Debug)]
pub struct HistoryRequest {
    pub namespace: Namespace,
    pub reader: Reader,
    pub session: String,
}

impl HistoryRequest {
    /// Reads the page that `query` selects.
    pub async fn read(&self, db: &dyn Database, memory: &ReadMemory, query: &str) -> Result<ResponseText, Error> {
        let page = Query::parse(query).and_then(|query| PageRequest::parse(self.reader, &query));
        // The query is checked after the session: 404 and 403 take precedence over 400.
        let (range, limit, excerpts) = page
            .as_ref()
            .map_or((PageRange::Before(None), 1, false), |page| (page.range, page.limit, page.has_excerpts));
        let max_bytes = excerpts.then_some(MAX_BYTES_WITHOUT_EXCERPT);
        match read_page(db, memory, (&self.namespace, &self.session), range, limit, max_bytes).await? {
            Found::InNamespace(messages) => page.map(|page| page.response(self.reader, messages)),
            Found::Foreign => Err(Error::Forbidden(Kind::Session)),
            Found::Missing => Err(Error::NotFound(Kind::Session)),
        }
    }
}

struct PageRequest {
    range: PageRange,
    limit: u64,
    has_excerpts: bool,
}

impl PageRequest {
    fn parse(reader: Reader, query: &Query) -> Result<Self, Error> {
        let default = if reader == Reader::Web { 50 } else { 200 };
        let limit = query.number("limit", 1..=200)?.unwrap_or(default);
        let before = query.number("beforeSeq", 0..=MAX_SAFE_INTEGER)?;
        let after = query.number("afterSeq", 0..=MAX_SAFE_INTEGER)?;
        let range = match (reader, before, after) {
            (_, Some(_), Some(_)) => {
                let message = "Query parameters `afterSeq` and `beforeSeq` cannot be combined. Send one of them.";
                return Err(Error::field("afterSeq", message));
            }
            (_, None, Some(after)) => PageRange::After(after),
            (Reader::Cli, None, None) => PageRange::After(0),
            (_, before, None) => PageRange::Before(before),
        };
        let has_excerpts = reader == Reader::Web && query.flag("excerpts")?.unwrap_or(false);
        Ok(Self { range, limit, has_excerpts })
    }

    /// Builds the response in place: the text of the messages may have 30 MB and is not copied.
    fn response(&self, reader: Reader, page: Page) -> ResponseText {
        let suffix = self.suffix(reader, &page);
        let Page { messages: mut text, reservation, .. } = page;
        text.insert_str(0, r#"{"messages":["#);
        text.push_str(&suffix);
        ResponseText { text, reservation }
    }

    fn suffix(&self, reader: Reader, page: &Page) -> String {
        let has_more = page.has_more;
        if reader == Reader::Cli {
            return format!(r#"],"hasMore":{has_more}}}"#);
        }
        let number = |n: Option<u64>| n.map_or("null".to_owned(), |n| n.to_string());
        let next = number(page.last_seq.filter(|_| has_more));
        let cursors = match self.range {
            PageRange::Before(before) => format!(r#""beforeSeq":{},"nextBeforeSeq":{next}"#, number(before)),
            PageRange::After(after) => format!(r#""afterSeq":{after},"nextAfterSeq":{next}"#),
        };
        let limit = self.limit;
        format!(r#"],"hasMore":{has_more},"page":{{"limit":{limit},{cursors},"hasMore":{has_more}}}}}"#)
    }
}

/// The routes of the object, for the requests that the worker forwards.
pub async fn list(request: RoutedRequest) -> Reply {
    let hub = &request.hub;
    let reader = if request.is_of_cli() { Reader::Cli } else { Reader::Web };
    let history = HistoryRequest { namespace: hub.config.namespace.clone(), reader, session: request.param("id")? };
    Ok(history.read(hub.database(), hub.memory(), request.raw_query()).await?)
}
