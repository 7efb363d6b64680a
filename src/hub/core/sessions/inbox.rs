//! The pages of the inbox: what waits for a person in all sessions of the namespace.

use std::collections::{HashMap, HashSet};

use crate::hub::core::sessions::cache::Cache;
use crate::hub::core::sessions::cached_session::HubQueue;
use crate::hub::core::sessions::evictions::{Key, ReadTicket};
use crate::hub::core::sessions::session_list::MAX_LIST_BYTES;
use crate::model::inbox::{Item, Position, items};
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::order::sort_by;
use crate::model::summary::SessionSummary;
use crate::store::inbox::Items;
use crate::store::summaries::Selection;

/// Above this number of collected items, the items after the page are dropped. The next session adds at most
/// [`MAX_PENDING_REQUESTS`](crate::limits::MAX_PENDING_REQUESTS) and one.
const MAX_UNSORTED_ITEMS: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRequest {
    /// The page begins after this position.
    pub after: Position,
    /// At least 1.
    pub limit: usize,
}

impl InboxRequest {
    /// The position before the first item.
    pub const BEGINNING: Position = (0, String::new(), String::new());

    pub fn parse_cursor(cursor: &str) -> Option<Position> {
        let mut fields = cursor.splitn(3, '.');
        let (since, session, request) = (fields.next()?.parse().ok()?, fields.next()?, fields.next()?);
        (since <= MAX_SAFE_INTEGER).then(|| (since, session.to_owned(), request.to_owned()))
    }
}

/// The items of sessions that were not in memory.
pub struct InboxRead {
    pub sessions: HashSet<String>,
    pub ticket: ReadTicket,
    pub result: Items,
}

/// What must be read before a page of the inbox is complete.
pub enum Missing {
    Summaries(Selection),
    /// The items of these sessions.
    Items(HashSet<String>),
}

fn has_items(summary: &SessionSummary) -> bool {
    !summary.archived && count_items(summary) > 0
}

fn count_items(summary: &SessionSummary) -> usize {
    summary.pending_requests_count + usize::from(summary.unseen_since.is_some())
}

impl Cache {
    /// Returns a page of the committed inbox as JSON, or what must be read for it. `read`: the items that were read before.
    pub fn inbox_page(
        &mut self,
        request: &InboxRequest,
        read: Option<&InboxRead>,
        write_queue: &HubQueue,
        now: u64,
    ) -> Result<String, Missing> {
        if let Some(tag) = self.session_list.next_read_after() {
            return Err(Missing::Summaries(Selection::After(tag.to_owned())));
        }
        self.update_summaries();
        let waiting: HashMap<&str, (&SessionSummary, Option<_>)> = self
            .committed_summaries(write_queue)
            .filter(|(_, summary, _)| has_items(summary))
            .map(|(id, summary, session)| (id, (summary, session)))
            .collect();
        let total: usize = waiting.values().map(|(summary, _)| count_items(summary)).sum();
        let is_unloaded = |id: &str| waiting.get(id).is_some_and(|(_, session)| session.is_none());
        let is_read = |id: &str| {
            read.is_some_and(|read| {
                read.sessions.contains(id) && self.evictions.redeem(&read.ticket, Key::Id(id)).is_some()
            })
        };
        if !waiting.keys().all(|id| !is_unloaded(id) || is_read(id)) {
            let unloaded = waiting.keys().filter(|id| is_unloaded(id));
            return Err(Missing::Items(unloaded.map(|id| (*id).to_owned()).collect()));
        }
        // Items after the last one that was read may be incomplete.
        let end = read.filter(|read| !read.result.is_complete).and_then(|read| read.result.items.last());
        let is_listed =
            |item: &Item<'_>| item.position > request.after && end.is_none_or(|end| item.position <= end.position);
        let mut listed: Vec<Item<'_>> = Vec::new();
        let read_items = read.iter().flat_map(|read| &read.result.items);
        listed.extend(read_items.filter(|item| is_unloaded(&item.position.1)).map(Item::reborrow));
        for session in waiting.values().filter_map(|(_, session)| *session) {
            listed.extend(items(session, now).into_iter().filter(is_listed));
            if listed.len() > MAX_UNSORTED_ITEMS {
                keep_first(&mut listed, request.limit + 1);
            }
        }
        keep_first(&mut listed, request.limit + 1);
        let summary = |id: &str| waiting.get(id).and_then(|(summary, _)| summary.json.as_deref());
        let page = encode_inbox_page(request, &listed, end.is_some(), total, summary);
        page.map_err(|ids| Missing::Summaries(Selection::Ids(ids)))
    }
}

fn keep_first(listed: &mut Vec<Item<'_>>, count: usize) {
    sort_by(listed, |a, b| a.position.cmp(&b.position));
    listed.truncate(count);
}

/// Returns a page as JSON, or the ids of sessions whose summaries are not in memory. `has_more`: items follow the listed items.
fn encode_inbox_page<'a>(
    request: &InboxRequest,
    listed: &[Item<'_>],
    has_more: bool,
    total: usize,
    summary: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, Vec<String>> {
    let (mut page, mut missing, mut last) = (r#"{"items":["#.to_owned(), Vec::new(), None);
    let mut has_next_page = has_more;
    for (index, item) in listed.iter().enumerate() {
        if index == request.limit || page.len() >= MAX_LIST_BYTES {
            has_next_page = true;
            break;
        }
        let (since, session, request_id) = &item.position;
        match summary(session) {
            Some(json) => {
                page.push_str(if index > 0 { "," } else { "" });
                item.write(&mut page, json);
            }
            None if missing.contains(session) => {}
            None => missing.push(session.clone()),
        }
        last = Some(format!("{since}.{session}.{request_id}"));
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    page.push_str(&format!(r#"],"total":{total}"#));
    if let Some(cursor) = last.filter(|_| has_next_page) {
        page.extend([r#","nextCursor":"#, Json::of(&cursor).text()]);
    }
    page.push('}');
    Ok(page)
}
