//! The *record* of a session in memory: its completed permission requests. Above its size limit, its oldest entries are removed.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;

use crate::limits::MAX_COMPLETED_REQUEST_BYTES;
use crate::model::agent_state::{completed_at, pending_map, shorten};
use crate::model::json::Json;
use crate::model::order::sort_by;
use crate::store::completed_requests::{ENTRY_OVERHEAD_BYTES, MAX_COMPLETED_REQUESTS_BYTES};

/// The most completed permission requests in an update to a CLI: the full list can be larger than a frame.
const MAX_RECENT_COMPLETED: usize = 100;
/// The most bytes of completed permission requests in an update to a CLI.
const MAX_RECENT_COMPLETED_BYTES: usize = 1_000_000;
/// The size to which a record is trimmed, in bytes. The SQL in `store::completed_requests` repeats the number.
const TRIMMED_COMPLETED_REQUESTS_BYTES: usize = 9_000_000;

/// The record of a session's completed requests.
#[derive(Debug, Clone, Default)]
pub struct CompletedRequests {
    /// By id, with the time of completion in Unix milliseconds.
    entries: BTreeMap<String, (u64, Json)>,
    /// The bytes of all ids and entries.
    text_bytes: usize,
    /// Time and id of the newest entry that was removed or did not fit. Entries up to this one are not accepted again.
    trimmed_up_to: Option<(u64, String)>,
}

/// The time of completion, the id, and the entry.
type DatedEntry<'a> = (u64, &'a str, &'a Json);

/// The size of an entry that counts against the limit.
fn entry_bytes(id: &str, entry: &str) -> usize {
    id.len() + entry.len() + ENTRY_OVERHEAD_BYTES
}

impl CompletedRequests {
    /// Creates the record from rows of the database: id, time of completion, entry.
    pub fn from_rows(entries: Vec<(String, u64, Json)>) -> Self {
        let mut record = Self::default();
        entries.into_iter().for_each(|(id, at, entry)| record.insert(id, at, entry));
        record
    }

    /// Returns the size that counts against the limit: ids, entries, and [`ENTRY_OVERHEAD_BYTES`] for each.
    pub fn bytes(&self) -> usize {
        self.text_bytes + self.entries.len() * ENTRY_OVERHEAD_BYTES
    }

    /// Returns when a request was completed, in Unix milliseconds.
    pub fn completed_at(&self, id: &str) -> Option<u64> {
        self.entries.get(id).map(|(at, _)| *at)
    }

    pub fn contains(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Removes the oldest entries if the record is larger than [`MAX_COMPLETED_REQUESTS_BYTES`], down to
    /// [`TRIMMED_COMPLETED_REQUESTS_BYTES`], so that not every insertion has to trim. Returns whether it removed entries.
    pub fn trim(&mut self) -> bool {
        if self.bytes() <= MAX_COMPLETED_REQUESTS_BYTES {
            return false;
        }
        let ids: Vec<String> = self.sorted().into_iter().map(|(_, id, _)| id.to_owned()).collect();
        for id in ids {
            if self.bytes() <= TRIMMED_COMPLETED_REQUESTS_BYTES {
                break;
            }
            if let Some((at, entry)) = self.entries.remove(&id) {
                self.text_bytes -= id.len() + entry.text().len();
                self.trimmed_up_to = Some((at, id));
            }
        }
        true
    }

    /// Returns copies of the received entries that are new or changed, newest first, at most [`MAX_COMPLETED_REQUESTS_BYTES`]. Skips
    /// entries that are as old as trimmed ones. Shortens entries above [`MAX_COMPLETED_REQUEST_BYTES`].
    ///
    /// An entry without a time gets the time `now`. Such an entry is new if its request is pending in `previous_state`, the agent state
    /// before the update. Otherwise the entry is uncertain: a trim may have removed it before. Selects only the last uncertain entries,
    /// as many as the record has room for; after a trim, none.
    pub fn select<'a>(
        &mut self,
        received: impl DoubleEndedIterator<Item = (&'a str, &'a RawValue)>,
        previous_state: Option<&Json>,
        now: u64,
    ) -> Vec<(String, Json)> {
        let pending = LazyCell::new(|| -> HashSet<String> {
            pending_map(previous_state).members().map(|(id, _)| id.to_owned()).collect()
        });
        let mut free_bytes =
            if self.trimmed_up_to.is_some() { 0 } else { MAX_COMPLETED_REQUESTS_BYTES.saturating_sub(self.bytes()) };
        let mut selected: Vec<(u64, &str, Result<Json, &RawValue>)> = Vec::new();
        for (id, entry) in received.rev() {
            let entry = shorten(entry.get(), MAX_COMPLETED_REQUEST_BYTES).ok_or(entry);
            let text = entry.as_ref().map_or_else(|raw| raw.get(), Json::text);
            let completed_at = completed_at(text);
            let at = completed_at.unwrap_or(now);
            if !self.accepts(id, at, text) {
                continue;
            }
            if completed_at.is_none() && !self.contains(id) && !pending.contains(id) {
                // An entry that does not fit leaves no room for earlier entries.
                free_bytes = free_bytes.saturating_sub(entry_bytes(id, text));
                if free_bytes == 0 {
                    continue;
                }
            }
            selected.push((at, id, entry));
        }
        sort_by(&mut selected, |a, b| (b.0, b.1).cmp(&(a.0, a.1)));
        let mut bytes = 0;
        let fits = |(_, id, entry): &&(u64, &str, Result<Json, &RawValue>)| {
            bytes += entry_bytes(id, entry.as_ref().map_or_else(|raw| raw.get(), Json::text));
            bytes <= MAX_COMPLETED_REQUESTS_BYTES
        };
        let count = selected.iter().take_while(fits).count();
        if let Some((at, id, _)) = selected.get(count) {
            self.trimmed_up_to = Some((*at, (*id).to_owned()));
        }
        let newest = selected.into_iter().take(count);
        newest.map(|(_, id, entry)| (id.to_owned(), entry.unwrap_or_else(Json::from))).collect()
    }

    /// Inserts an entry, unless it is unchanged, or as old as trimmed entries. Returns whether it was inserted.
    pub fn insert_if_new(&mut self, id: &str, completed_at: u64, entry: &Json) -> bool {
        let is_accepted = self.accepts(id, completed_at, entry.text());
        if is_accepted {
            self.insert(id.to_owned(), completed_at, entry.clone());
        }
        is_accepted
    }

    fn accepts(&self, id: &str, at: u64, entry: &str) -> bool {
        match self.entries.get(id) {
            Some((_, known)) => known.text() != entry,
            None => self.trimmed_up_to.as_ref().is_none_or(|(last, last_id)| (at, id) > (*last, last_id.as_str())),
        }
    }

    fn insert(&mut self, id: String, completed_at: u64, entry: Json) {
        let id_bytes = id.len();
        self.text_bytes += id_bytes + entry.text().len();
        if let Some((_, old)) = self.entries.insert(id, (completed_at, entry)) {
            self.text_bytes -= id_bytes + old.text().len();
        }
    }

    pub fn oldest_first(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.sorted().into_iter().map(|(_, id, entry)| (id, entry))
    }

    /// Returns the newest entries, oldest first, up to [`MAX_RECENT_COMPLETED`] and [`MAX_RECENT_COMPLETED_BYTES`].
    pub fn most_recent(&self) -> Vec<(&str, &Json)> {
        let mut entries = self.sorted();
        let mut bytes = 0;
        let fits = |(_, id, entry): &&DatedEntry<'_>| {
            bytes += id.len() + entry.text().len();
            bytes <= MAX_RECENT_COMPLETED_BYTES
        };
        let count = entries.iter().rev().take(MAX_RECENT_COMPLETED).take_while(fits).count();
        entries.split_off(entries.len() - count).into_iter().map(|(_, id, entry)| (id, entry)).collect()
    }

    /// Returns the entries, oldest first.
    fn sorted(&self) -> Vec<DatedEntry<'_>> {
        let mut entries: Vec<_> = self.entries.iter().map(|(id, (at, entry))| (*at, id.as_str(), entry)).collect();
        sort_by(&mut entries, |a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sizes: &[usize]) -> CompletedRequests {
        let entry = |(at, size): (usize, &usize)| {
            let entry = Json::parse(&format!("\"{}\"", "x".repeat(*size))).unwrap();
            (format!("q{at:04}"), at as u64, entry)
        };
        CompletedRequests::from_rows(sizes.iter().enumerate().map(entry).collect())
    }

    #[test]
    fn new_changed_and_recent_entries_are_selected() {
        let mut record = record(&[1_000_000; 12]);
        let json = |text: &str| Json::parse(text).unwrap();
        let at = |at: u64| json(&format!(r#"{{"completedAt":{at}}}"#));
        record.insert("known".into(), 20, at(20));
        let received = [("known", at(20)), ("q0011", at(11)), ("new", at(21)), ("undated", json("{}")), ("old", at(1))];
        let received: Vec<_> = received.into_iter().chain([("pending", json("{}"))]).collect();
        let ids = |record: &mut CompletedRequests, received: &[(&str, Json)]| {
            let state = json(r#"{"requests":{"pending":{}}}"#);
            let selected = record.select(received.iter().map(|(id, entry)| (*id, entry.raw())), Some(&state), 30);
            selected.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&mut record, &received), ["pending", "new", "q0011", "old"], "no room for `undated`");
        assert!(record.trim());
        assert_eq!(
            ids(&mut record, &received),
            ["pending", "new", "q0011"],
            "an entry older than the stored ones is not selected"
        );
        let large = |n: u64| json(&format!(r#"{{"completedAt":{n},"x":"{}"}}"#, "x".repeat(1_800_000)));
        let large: Vec<(String, Json)> = (30..40).map(|n| (format!("l{n}"), large(n))).collect();
        let received: Vec<(&str, Json)> = large.iter().map(|(id, entry)| (id.as_str(), entry.clone())).collect();
        assert_eq!(ids(&mut record, &received), ["l39", "l38", "l37", "l36", "l35"], "as many as the record can hold");
        let huge = json(&format!(r#"{{"arguments":"{}","completedAt":50}}"#, "x".repeat(8_000_000)));
        let selected = record.select([("huge", huge.raw())].into_iter(), None, 0);
        assert_eq!(selected[0].1.text(), r#"{"argumentsBytes":8000002,"completedAt":50}"#);
        record.insert("huge".into(), 50, selected[0].1.clone());
        assert!(record.select([("huge", huge.raw())].into_iter(), None, 0).is_empty(), "the record has the entry");
    }

    #[test]
    fn of_the_entries_without_a_time_the_last_ones_are_selected_as_far_as_they_fit() {
        let entry = Json::parse(&format!("\"{}\"", "x".repeat(1_000_000))).unwrap();
        let small = Json::parse("{}").unwrap();
        let large = ["a", "b", "c"].map(|id| (id, entry.raw()));
        let received = || [("first", small.raw())].into_iter().chain(large).collect::<Vec<_>>().into_iter();
        let mut record = record(&[1_000_000; 7]);
        let ids = |record: &mut CompletedRequests| {
            record.select(received(), None, 30).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&mut record), ["c", "b"]);
        for id in ["b", "c"] {
            assert!(record.insert_if_new(id, 30, &entry));
        }
        assert!(ids(&mut record).is_empty(), "an entry after an excluded one is excluded, too");
    }
}
