//! Message history for web clients and CLIs, read from the database alone: the worker responds without the object. The worker finds the
//! database of the namespace, if the deployment has several (docs/design/databases.md).

use std::sync::Arc;

use super::edge::{Edge, HistoryRequest, Reader};
use super::error::ErrorResponse;
use super::extract::{Query, RoutedRequest};
use super::response::{Reply, Response, to_response};
use crate::hub::core::error::{Error, Kind};
use crate::memory_budget::{ResponseText, lock};
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;
use crate::store::history::{Page, PageRange, read_page};
use crate::store::memory::ReadMemory;
use crate::store::places::{DIRECTORY, DatabaseNumber, find};
use crate::store::{Database, DbError, Found};

/// The worker forgets all places when it has this many.
const MAX_CACHED_PLACES: usize = 10_000;

/// On request, a page has an excerpt of each content above this size, in bytes. An excerpt has at most half of this size.
pub const MAX_BYTES_WITHOUT_EXCERPT: u64 = 64 * 1024;

impl HistoryRequest {
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

impl Edge {
    pub async fn read_history(&self, request: &HistoryRequest, query: &str) -> Response {
        let page = self.find_page(request, query).await;
        to_response(page.map_err(ErrorResponse::from))
    }

    /// Reads a page as [`HistoryRequest::read`] does. A cached place may be out of date: the earlier database has no page then, because the
    /// namespace is marked as moved there. So the place is looked up again before the request fails. With one database, the place is looked
    /// up only if the session is missing: the database of the namespace may be no longer bound.
    async fn find_page(&self, request: &HistoryRequest, query: &str) -> Result<ResponseText, Error> {
        let namespace = &request.namespace;
        let budget = self.memory_budget.namespace_budget(namespace.as_str());
        let memory = ReadMemory::new(budget, Arc::clone(&self.authentication.environment));
        let is_single = self.databases.is_single();
        let cached = if is_single { Some(DIRECTORY) } else { lock(&self.places).get(namespace).copied() };
        let mut number = match cached {
            Some(number) => number,
            None => self.look_up(namespace).await?,
        };
        loop {
            let page = request.read(&**self.databases.get(number)?, &memory, query).await;
            if page.as_ref().map_or_else(|error| is_single && !matches!(error, Error::NotFound(_)), |_| true) {
                return page;
            }
            match self.look_up(namespace).await? {
                current if current == number => return page,
                current => number = current,
            }
        }
    }

    /// Looks up a place. A namespace without a place is in the database [`DIRECTORY`]. This result is not cached, because the object of the
    /// namespace may still choose another database.
    async fn look_up(&self, namespace: &Namespace) -> Result<DatabaseNumber, DbError> {
        let Some(number) = find(&**self.databases.get(DIRECTORY)?, namespace).await? else { return Ok(DIRECTORY) };
        let mut places = lock(&self.places);
        if places.len() >= MAX_CACHED_PLACES {
            places.clear();
        }
        places.insert(namespace.clone(), number);
        Ok(number)
    }
}

/// The routes of the object, for the requests that the worker forwards.
pub async fn list(request: RoutedRequest) -> Reply {
    let hub = &request.hub;
    let reader = if request.is_of_cli() { Reader::Cli } else { Reader::Web };
    let history = HistoryRequest { namespace: hub.config.namespace.clone(), reader, session: request.param("id")? };
    Ok(history.read(&hub.db, &hub.memory, request.raw_query()).await?)
}
