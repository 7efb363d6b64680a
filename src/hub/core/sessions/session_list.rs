//! The session list: the summaries of the sessions whose full state is not in memory, and the pages of the list.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::order::sort_by;
use crate::model::summary::SessionSummary;

/// The size at which a page of the list or of the inbox ends, in bytes.
pub(super) const MAX_LIST_BYTES: usize = 2 * 1024 * 1024;

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

/// The position of a session in the list: its rank and its id. Greater positions come first.
pub type Position = (u64, String);

/// Added to the rank of an active session. Greater than any time.
const ACTIVE_RANK: u64 = MAX_SAFE_INTEGER + 1;
/// Added to the rank of a pinned session. Greater than the sum of any time and [`ACTIVE_RANK`].
const PINNED_RANK: u64 = 2 * ACTIVE_RANK;

fn rank(summary: &SessionSummary) -> u64 {
    summary.updated_at + if summary.active { ACTIVE_RANK } else { 0 } + if summary.pinned { PINNED_RANK } else { 0 }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    pub archived: ArchivedFilter,
    /// The page begins after this position.
    pub after: Position,
    /// At least 1.
    pub limit: usize,
}

impl ListRequest {
    /// The position before the first session.
    pub const BEGINNING: Position = (u64::MAX, String::new());

    /// Parses a cursor, `RANK.ID`. `None` if it is malformed.
    pub fn parse_cursor(cursor: &str) -> Option<Position> {
        let (rank, id) = cursor.split_once('.')?;
        Some((rank.parse().ok()?, id.to_owned()))
    }
}

/// The summaries of the sessions whose full state is not in memory, read from the database in the order of their tags.
#[derive(Debug, Default)]
pub struct SessionList {
    summaries: HashMap<String, SessionSummary>,
    /// The total size of the JSON of the summaries.
    json_bytes: usize,
    /// Whether all sessions of the namespace have been read.
    is_complete: bool,
    /// The sessions up to this tag have been read. Without meaning if `is_complete`.
    last_tag: String,
    /// Each request that reads JSON has a clone. The JSON is not dropped while a clone exists.
    readers: Arc<()>,
}

impl SessionList {
    /// Returns the tag after which the next sessions are to be read; `None` if all sessions have been read.
    pub fn next_read_after(&self) -> Option<&str> {
        (!self.is_complete).then_some(self.last_tag.as_str())
    }

    /// Records that the sessions up to `last_tag` have been read. `is_complete`: all sessions have been read.
    pub fn record_read(&mut self, last_tag: String, is_complete: bool) {
        (self.last_tag, self.is_complete) = (last_tag, is_complete);
    }

    /// While the result exists, [`shrink`](Self::shrink) drops no JSON. A caller that then inserts JSON must reserve memory first.
    pub fn keep_json(&self) -> Arc<()> {
        Arc::clone(&self.readers)
    }

    pub fn get(&self, id: &str) -> Option<&SessionSummary> {
        self.summaries.get(id)
    }

    pub fn insert(&mut self, id: String, summary: SessionSummary) {
        self.json_bytes += json_bytes(&summary);
        if let Some(replaced) = self.summaries.insert(id, summary) {
            self.json_bytes -= json_bytes(&replaced);
        }
    }

    pub fn take(&mut self, id: &str) -> Option<SessionSummary> {
        let summary = self.summaries.remove(id)?;
        self.json_bytes -= json_bytes(&summary);
        Some(summary)
    }

    /// Removes a session that a read did not find in the database. Does nothing if the JSON of its summary is in memory.
    pub fn remove_if_without_json(&mut self, id: &str) {
        if self.summaries.get(id).is_some_and(|summary| summary.json.is_none()) {
            self.summaries.remove(id);
        }
    }

    /// Drops the JSON of all summaries if it has more than `max_bytes`, or `max_bytes` is 0, and no request needs it. It can be read again.
    pub fn shrink(&mut self, max_bytes: usize) {
        if (self.json_bytes > max_bytes || max_bytes == 0) && Arc::strong_count(&self.readers) == 1 {
            self.summaries.values_mut().for_each(|summary| summary.json = None);
            self.json_bytes = 0;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &SessionSummary)> {
        self.summaries.iter().map(|(id, summary)| (id.as_str(), summary))
    }

    pub fn bytes(&self) -> usize {
        self.bytes_without_json() + self.json_bytes
    }

    /// Returns the estimated memory, in bytes, of all except the JSON, which can be dropped.
    pub fn bytes_without_json(&self) -> usize {
        self.summaries.len() * SUMMARY_BYTES
    }
}

pub(super) fn json_bytes(summary: &SessionSummary) -> usize {
    summary.json.as_ref().map_or(0, |json| json.len())
}

/// Returns a page of the given sessions as JSON, or the ids of sessions of the page whose JSON is not in memory.
pub fn encode_list_page<'a>(
    request: &ListRequest,
    sessions: impl Iterator<Item = (&'a str, &'a SessionSummary)>,
) -> Result<String, Vec<String>> {
    let after = (request.after.0, request.after.1.as_str());
    let listed = sessions.filter(|(_, summary)| request.archived.includes(summary));
    let positioned = listed.map(|(id, summary)| ((rank(summary), id), summary));
    let mut listed: Vec<_> = positioned.filter(|(position, _)| *position < after).collect();
    sort_by(&mut listed, |(a, _), (b, _)| b.cmp(a));
    let (mut page, mut missing, mut last) = (r#"{"sessions":["#.to_owned(), Vec::new(), None);
    let mut next = None;
    for (index, ((rank, id), summary)) in listed.into_iter().enumerate() {
        if index > 0 && (index == request.limit || page.len() + json_bytes(summary) >= MAX_LIST_BYTES) {
            next = last;
            break;
        }
        match summary.json.as_deref() {
            Some(json) => page.extend([if index > 0 { "," } else { "" }, json]),
            None => missing.push(id.to_owned()),
        }
        last = Some((rank, id));
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    page.push(']');
    if let Some((rank, id)) = next {
        page.extend([r#","nextCursor":"#, Json::of(&format!("{rank}.{id}")).text()]);
    }
    page.push('}');
    Ok(page)
}
