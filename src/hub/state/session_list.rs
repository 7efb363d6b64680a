//! The session list: the summaries of sessions that are not cached, and its pages.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::hub::state::evictions::Generation;
use crate::limits::{MAX_CACHED_SUMMARY_BYTES, MAX_LIST_BYTES};
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::order::sort_by;
use crate::model::summary::SessionSummary;

/// The estimated memory of a summary besides its JSON, in bytes.
const SUMMARY_BYTES: usize = 150;

/// Which sessions a list contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchivedFilter {
    Exclude,
    Include,
    Only,
}

impl ArchivedFilter {
    fn includes(self, summary: &SessionSummary) -> bool {
        match self {
            Self::Exclude => !summary.archived,
            Self::Include => true,
            Self::Only => summary.archived,
        }
    }
}

/// The place of a session in the list: whether it is active, `updatedAt`, and its id. Greater ones come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position(bool, u64, String);

impl Position {
    /// Parses the text that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let active = match parts.next()? {
            "1" => true,
            "0" => false,
            _ => return None,
        };
        let updated_at = parts.next()?.parse().ok().filter(|at| *at <= MAX_SAFE_INTEGER)?;
        Some(Self(active, updated_at, parts.next()?.to_owned()))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", u8::from(self.0), self.1, self.2)
    }
}

/// A request for a page of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    pub archived: ArchivedFilter,
    /// The page begins after this position.
    pub after: Option<Position>,
    /// At least 1.
    pub limit: usize,
}

/// The JSON of summaries that were read for one request, by id, with the generation in which the read began.
pub type ReadSummaries = HashMap<String, (Generation, Box<str>)>;

/// The summaries of sessions that are not cached.
#[derive(Debug, Default)]
pub struct SessionList {
    summaries: HashMap<String, SessionSummary>,
    /// The total size of their JSON.
    json_bytes: usize,
    /// Whether all sessions of the namespace are known.
    is_complete: bool,
    /// Until then, the sessions up to this tag are known.
    last_tag: String,
    /// The last page, until a session changes.
    last_page: Option<(ListRequest, Arc<str>)>,
}

impl SessionList {
    /// Returns the tag after which the sessions are not known; `None` if all are.
    pub fn unread_after(&self) -> Option<String> {
        (!self.is_complete).then(|| self.last_tag.clone())
    }

    /// Records that the sessions up to `tag` are known, or all.
    pub fn set_read(&mut self, last_tag: Option<String>, is_complete: bool) {
        self.last_tag = last_tag.unwrap_or_default();
        self.is_complete = is_complete;
        self.last_page = None;
    }

    pub fn contains(&self, id: &str) -> bool {
        self.summaries.contains_key(id)
    }

    /// Adds the summary of a session, without its JSON if there is no room for it.
    pub fn insert(&mut self, id: String, mut summary: SessionSummary) {
        let bytes = summary.json.as_ref().map_or(0, |json| json.len());
        match self.json_bytes + bytes > MAX_CACHED_SUMMARY_BYTES {
            true => summary.json = None,
            false => self.json_bytes += bytes,
        }
        self.summaries.insert(id, summary);
    }

    /// Removes the summary of a session.
    pub fn take(&mut self, id: &str) -> Option<SessionSummary> {
        let summary = self.summaries.remove(id)?;
        self.json_bytes -= summary.json.as_ref().map_or(0, |json| json.len());
        Some(summary)
    }

    /// Stores the JSON of summaries that was read. Drops all other JSON if there is no room for it.
    pub fn store_json(&mut self, read: ReadSummaries) {
        if self.json_bytes + read.values().map(|(_, json)| json.len()).sum::<usize>() > MAX_CACHED_SUMMARY_BYTES {
            self.drop_json();
        }
        for (id, (_, json)) in read {
            if let Some(summary) = self.summaries.get_mut(&id).filter(|summary| summary.json.is_none()) {
                self.json_bytes += json.len();
                summary.json = Some(json);
            }
        }
    }

    /// Drops what can be read again.
    pub fn drop_json(&mut self) {
        self.summaries.values_mut().for_each(|summary| summary.json = None);
        (self.json_bytes, self.last_page) = (0, None);
    }

    /// Discards the last page, because a session has changed.
    pub fn invalidate(&mut self) {
        self.last_page = None;
    }

    pub fn last_page(&self, request: &ListRequest) -> Option<Arc<str>> {
        self.last_page.as_ref().filter(|(of, _)| of == request).map(|(_, page)| Arc::clone(page))
    }

    pub fn set_last_page(&mut self, request: &ListRequest, page: &Arc<str>) {
        self.last_page = Some((request.clone(), Arc::clone(page)));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &SessionSummary)> {
        self.summaries.iter().map(|(id, summary)| (id.as_str(), summary))
    }

    /// Returns the estimated memory, in bytes.
    pub fn bytes(&self) -> usize {
        let page_bytes = self.last_page.as_ref().map_or(0, |(_, page)| page.len());
        self.summaries.len() * SUMMARY_BYTES + self.json_bytes + page_bytes
    }
}

/// Returns a page of the given sessions as JSON, or the ids of sessions of the page whose JSON `find_json` does not find.
pub fn write_page<'a>(
    request: &ListRequest,
    sessions: impl Iterator<Item = (&'a str, &'a SessionSummary)>,
    find_json: impl Fn(&str, &'a SessionSummary) -> Option<&'a str>,
) -> Result<String, Vec<String>> {
    let position = |(id, summary): &(&'a str, &'a SessionSummary)| (summary.active, summary.updated_at, *id);
    let after = request.after.as_ref().map(|Position(active, updated_at, id)| (*active, *updated_at, id.as_str()));
    let is_requested = |session: &(&'a str, &'a SessionSummary)| {
        request.archived.includes(session.1) && after.is_none_or(|after| position(session) < after)
    };
    let mut listed: Vec<_> = sessions.filter(is_requested).collect();
    sort_by(&mut listed, |a, b| position(b).cmp(&position(a)));
    let (mut page, mut missing, mut last, mut is_complete) = (r#"{"sessions":["#.to_owned(), Vec::new(), None, true);
    for (index, (id, summary)) in listed.into_iter().enumerate() {
        let json = find_json(id, summary);
        is_complete = index == 0 || (index < request.limit && page.len() + json.map_or(0, str::len) < MAX_LIST_BYTES);
        if !is_complete {
            break;
        }
        match json {
            Some(json) => page.extend([if index > 0 { "," } else { "" }, json]),
            None => missing.push(id.to_owned()),
        }
        last = Some((id, summary));
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    page.push(']');
    if let Some((id, summary)) = last.filter(|_| !is_complete) {
        let cursor = Position(summary.active, summary.updated_at, id.to_owned()).to_string();
        page.extend([r#","nextCursor":"#, Json::of(&cursor).text()]);
    }
    page.push('}');
    Ok(page)
}
