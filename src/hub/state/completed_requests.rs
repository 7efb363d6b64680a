//! The record of a session's completed permission requests. At its size limit the oldest entries are removed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::limits::{MAX_RECENT_COMPLETED, MAX_RECENT_COMPLETED_BYTES, MAX_RECORD_BYTES, TRIMMED_RECORD_BYTES};
use crate::model::json::Json;
use crate::model::order::sort_by;
use crate::store::completed_requests::ENTRY_OVERHEAD_BYTES;

/// The record of a session's completed requests.
#[derive(Debug, Default)]
pub struct CompletedRequests {
    /// By id, with the time of completion in Unix milliseconds.
    entries: BTreeMap<String, (u64, Json)>,
    /// The bytes of all ids and entries.
    text_bytes: usize,
}

/// Time of completion, id, entry.
type Entry<'a> = (u64, &'a str, &'a Json);

fn sort_key<'a>((at, id, _): &Entry<'a>) -> (u64, &'a str) {
    (*at, *id)
}

fn compare(a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
    sort_key(a).cmp(&sort_key(b))
}

impl CompletedRequests {
    /// Creates the record from rows of the database: id, time of completion, entry.
    pub fn loaded(entries: Vec<(String, u64, Json)>) -> Self {
        let mut record = Self::default();
        entries.into_iter().for_each(|(id, at, entry)| record.insert(id, at, entry));
        record
    }

    /// Returns the size that counts against the limit: ids, entries, and [`ENTRY_OVERHEAD_BYTES`] for each.
    pub fn bytes(&self) -> usize {
        self.text_bytes + self.entries.len() * ENTRY_OVERHEAD_BYTES
    }

    pub fn contains(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Removes the oldest entries if the record is larger than [`MAX_RECORD_BYTES`], down to [`TRIMMED_RECORD_BYTES`], so
    /// that not every insertion has to. Returns whether it did.
    pub fn trim(&mut self) -> bool {
        if self.bytes() <= MAX_RECORD_BYTES {
            return false;
        }
        let mut ids: Vec<(u64, String)> = self.entries.iter().map(|(id, (at, _))| (*at, id.clone())).collect();
        sort_by(&mut ids, Ord::cmp);
        for (_, id) in ids {
            if self.bytes() <= TRIMMED_RECORD_BYTES {
                break;
            }
            if let Some((_, entry)) = self.entries.remove(&id) {
                self.text_bytes -= id.len() + entry.text().len();
            }
        }
        true
    }

    pub fn insert(&mut self, id: String, completed_at: u64, entry: Json) {
        let id_bytes = id.len();
        self.text_bytes += id_bytes + entry.text().len();
        if let Some((_, old)) = self.entries.insert(id, (completed_at, entry)) {
            self.text_bytes -= id_bytes + old.text().len();
        }
    }

    /// Whether [`insert`](Self::insert) would change the record.
    pub fn is_new_or_changed(&self, id: &str, entry: &Json) -> bool {
        self.entries.get(id).is_none_or(|(_, known)| known != entry)
    }

    pub fn oldest_first(&self) -> impl Iterator<Item = (&str, &Json)> {
        let mut entries = self.unsorted();
        sort_by(&mut entries, compare);
        entries.into_iter().map(|(_, id, entry)| (id, entry))
    }

    /// Returns the newest entries, oldest first, up to [`MAX_RECENT_COMPLETED`] and [`MAX_RECENT_COMPLETED_BYTES`].
    pub fn most_recent(&self) -> Vec<(&str, &Json)> {
        let mut entries = self.unsorted();
        // A selection is cheaper than sorting a long record.
        if let Some(older) = entries.len().checked_sub(MAX_RECENT_COMPLETED + 1) {
            entries.select_nth_unstable_by_key(older, sort_key);
            entries.drain(..=older);
        }
        sort_by(&mut entries, compare);
        let mut bytes = 0;
        let fits = |(_, id, entry): &&Entry<'_>| {
            bytes += id.len() + entry.text().len();
            bytes <= MAX_RECENT_COMPLETED_BYTES
        };
        let count = entries.iter().rev().take_while(fits).count();
        entries.split_off(entries.len() - count).into_iter().map(|(_, id, entry)| (id, entry)).collect()
    }

    fn unsorted(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|(id, (at, entry))| (*at, id.as_str(), entry)).collect()
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
        CompletedRequests::loaded(sizes.iter().enumerate().map(entry).collect())
    }

    fn recent_ids(sizes: &[usize]) -> Vec<String> {
        record(sizes).most_recent().into_iter().map(|(id, _)| id.to_owned()).collect()
    }

    #[test]
    fn the_hundred_newest_requests_are_recent_oldest_first() {
        let newest = recent_ids(&[1; 10_000]);
        assert_eq!((newest.len(), newest.first().unwrap().as_str()), (100, "q9900"));
        assert!(newest.is_sorted());
        assert_eq!(recent_ids(&[1; 100]).len(), 100);
        assert_eq!(recent_ids(&[1; 101]).first().unwrap(), "q0001");
        assert!(recent_ids(&[]).is_empty());
    }

    #[test]
    fn recent_requests_have_a_million_bytes_at_most_without_gaps() {
        assert_eq!(recent_ids(&[1, 600_000, 300_000, 300_000]), ["q0002", "q0003"]);
        assert_eq!(recent_ids(&[1, 2_000_000]), [""; 0], "a request older than an excluded one is excluded, too");
    }

    #[test]
    fn a_record_that_is_too_large_loses_its_oldest_entries() {
        let mut few = record(&[1_000_000; 9]);
        assert!(!few.trim() && few.contains("q0000"));
        let mut many = record(&[1_000_000; 12]);
        assert!(many.trim());
        assert_eq!((many.oldest_first().count(), many.oldest_first().next().map(|(id, _)| id)), (8, Some("q0004")));
        assert!(many.bytes() <= TRIMMED_RECORD_BYTES && !many.trim());
        let mut small = record(&[1; 10_000]);
        assert!(!small.trim(), "many small requests fit");
    }

    #[test]
    fn entries_are_sorted_by_completion_time_then_id() {
        let entry = Json::parse("{}").unwrap();
        let mut record = CompletedRequests::default();
        for (id, at) in [("c", 1), ("a", 2), ("b", 2), ("z", 0)] {
            record.insert(id.into(), at, entry.clone());
        }
        assert_eq!(record.oldest_first().map(|(id, _)| id).collect::<Vec<_>>(), ["z", "c", "a", "b"]);
        assert!(!record.is_new_or_changed("a", &entry) && record.is_new_or_changed("a", &Json::parse("1").unwrap()));
        assert!(record.is_new_or_changed("new", &entry));
    }
}
