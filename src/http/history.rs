//! Message history for web clients and CLIs, from the database alone: the worker answers it without the object.

use std::sync::Arc;

use axum::extract::{RawQuery, State};

use super::JsonText;
use super::error::Refusal;
use super::extract::PathId;
use super::query::Query;
use crate::hub::Hub;
use crate::hub::error::{Error, Kind};
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::namespace::Namespace;
use crate::store::history::{Page, PageRange, read_page};
use crate::store::response_budget::{ResponseBudget, ResponseText};
use crate::store::{Database, Found};

/// Who asks: the two answer shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A web client: the newest page unless it asks for another; `{messages, hasMore, page}`.
    Web,
    /// A CLI: the oldest page unless it asks for another; `{messages, hasMore}`.
    Cli,
}

/// A page of a session's messages as JSON text.
pub async fn messages(
    db: &dyn Database,
    budget: &Arc<ResponseBudget>,
    asker: Asker,
    (namespace, session): (&Namespace, &str),
    query: &str,
) -> Result<ResponseText, Error> {
    let asked = Query::parse(query).and_then(|query| Asked::read(asker, &query));
    // Ids are checked before the query is: 404 and 403 come before 400.
    let (range, limit) = asked.as_ref().map_or((PageRange::Before(None), 1), |asked| (asked.range, asked.limit));
    match read_page(db, budget, (namespace, session), range, limit).await? {
        Found::Owned(page) => asked.map(|asked| asked.shape(asker, page)),
        Found::Foreign => Err(Error::Foreign(Kind::Session)),
        Found::Missing => Err(Error::Missing(Kind::Session)),
    }
}

struct Asked {
    range: PageRange,
    limit: u64,
}

impl Asked {
    fn read(asker: Asker, query: &Query) -> Result<Self, Error> {
        let default = if asker == Asker::Web { 50 } else { 200 };
        let limit = query.number("limit", 1..=200)?.unwrap_or(default);
        let before = query.number("beforeSeq", 0..=MAX_SAFE_INTEGER)?;
        let after = query.number("afterSeq", 0..=MAX_SAFE_INTEGER)?;
        let range = match (asker, before, after) {
            (_, Some(_), Some(_)) => {
                return Err(Error::field(
                    "afterSeq",
                    "Query parameters `afterSeq` and `beforeSeq` exclude each other.",
                ));
            }
            (_, None, Some(after)) => PageRange::After(after),
            (Asker::Cli, None, None) => PageRange::After(0),
            (_, before, None) => PageRange::Before(before),
        };
        Ok(Self { range, limit })
    }

    /// The answer around the messages, which stay where they are: there may be 30 MB of them.
    fn shape(&self, asker: Asker, page: Page) -> ResponseText {
        let rest = self.rest(asker, &page);
        let Page { messages: mut text, reservation, .. } = page;
        text.insert_str(0, r#"{"messages":["#);
        text.push_str(&rest);
        ResponseText { text, reservation }
    }

    /// What follows the messages.
    fn rest(&self, asker: Asker, page: &Page) -> String {
        let has_more = page.has_more;
        if asker == Asker::Cli {
            return format!(r#"],"hasMore":{has_more}}}"#);
        }
        let number = |n: Option<u64>| n.map_or("null".to_owned(), |n| n.to_string());
        let limit = self.limit;
        let edges = match self.range {
            PageRange::Before(before) => {
                let next = if has_more { page.last_seq } else { None };
                format!(r#""beforeSeq":{},"nextBeforeSeq":{}"#, number(before), number(next))
            }
            PageRange::After(after) => {
                let next = if has_more { page.last_seq } else { None };
                format!(r#""afterSeq":{after},"nextAfterSeq":{}"#, number(next))
            }
        };
        format!(r#"],"hasMore":{has_more},"page":{{"limit":{limit},{edges},"hasMore":{has_more}}}}}"#)
    }
}

/// `GET /api/sessions/:id/messages`.
pub async fn web(hub: State<Arc<Hub>>, id: PathId, query: RawQuery) -> Result<JsonText, Refusal> {
    respond(Asker::Web, hub, id, query).await
}

/// `GET /cli/sessions/:id/messages`.
pub async fn cli(hub: State<Arc<Hub>>, id: PathId, query: RawQuery) -> Result<JsonText, Refusal> {
    respond(Asker::Cli, hub, id, query).await
}

async fn respond(
    asker: Asker,
    State(hub): State<Arc<Hub>>,
    PathId(id): PathId,
    RawQuery(query): RawQuery,
) -> Result<JsonText, Refusal> {
    let query = query.unwrap_or_default();
    Ok(messages(hub.database(), hub.response_budget(), asker, (&hub.config.namespace, &id), &query).await?.into())
}
