//! The completed permission requests of a session: an audit record that only grows, until its oldest entries go.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::hub::limits::{MAX_RECENT_COMPLETED, MAX_RECENT_COMPLETED_BYTES};
use crate::model::json::Json;
use crate::model::order::sort_by;
use crate::store::rows::{COMPLETED_ROW_BYTES, KEPT_COMPLETED_BYTES, MAX_RECORD_BYTES};

/// Completed requests by id, with the time of their completion in Unix milliseconds.
#[derive(Debug, Default)]
pub struct Record {
    entries: BTreeMap<String, (u64, Json)>,
    bytes: usize,
}

/// An entry of the record by the order of completion.
type Ordered<'a> = (u64, &'a str, &'a Json);

/// The sort key: the time of completion, then the id.
fn age<'a>((at, id, _): &Ordered<'a>) -> (u64, &'a str) {
    (*at, *id)
}

fn by_age(a: &Ordered<'_>, b: &Ordered<'_>) -> Ordering {
    age(a).cmp(&age(b))
}

impl Record {
    /// The record as the database gave it: id, time, entry.
    pub fn loaded(entries: Vec<(String, u64, Json)>) -> Self {
        let mut record = Self::default();
        entries.into_iter().for_each(|(id, at, entry)| record.insert(id, at, entry));
        record
    }

    /// How much memory it takes, about.
    pub fn bytes(&self) -> usize {
        self.bytes + self.entries.len() * COMPLETED_ROW_BYTES
    }

    /// Whether an entry is in the record.
    pub fn has(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Lets the oldest entries go when the record has grown too large; answers whether it had. A good many go at once, so
    /// that the next ones find room.
    pub fn trim(&mut self) -> bool {
        if self.bytes() <= MAX_RECORD_BYTES {
            return false;
        }
        let mut ids: Vec<(u64, String)> = self.entries.iter().map(|(id, (at, _))| (*at, id.clone())).collect();
        sort_by(&mut ids, Ord::cmp);
        for (_, id) in ids {
            if self.bytes() <= KEPT_COMPLETED_BYTES {
                break;
            }
            if let Some((_, entry)) = self.entries.remove(&id) {
                self.bytes -= id.len() + entry.text().len();
            }
        }
        true
    }

    /// Takes up an entry, in the place of an older one of its id.
    pub fn insert(&mut self, id: String, completed_at: u64, entry: Json) {
        let id_bytes = id.len();
        self.bytes += id_bytes + entry.text().len();
        if let Some((_, old)) = self.entries.insert(id, (completed_at, entry)) {
            self.bytes -= id_bytes + old.text().len();
        }
    }

    /// Whether an entry is new or says something else than before.
    pub fn differs(&self, id: &str, entry: &Json) -> bool {
        self.entries.get(id).is_none_or(|(_, known)| known != entry)
    }

    /// All entries, oldest first.
    pub fn in_order(&self) -> impl Iterator<Item = (&str, &Json)> {
        let mut entries = self.ordered();
        sort_by(&mut entries, by_age);
        entries.into_iter().map(|(_, id, entry)| (id, entry))
    }

    /// The newest entries, oldest first: as many as a CLI is told.
    pub fn recent(&self) -> Vec<(&str, &Json)> {
        let mut entries = self.ordered();
        // Most of a long record need not be sorted.
        if let Some(older) = entries.len().checked_sub(MAX_RECENT_COMPLETED + 1) {
            entries.select_nth_unstable_by_key(older, age);
            entries.drain(..=older);
        }
        sort_by(&mut entries, by_age);
        let mut room = MAX_RECENT_COMPLETED_BYTES;
        let fits = |(_, id, entry): &&Ordered<'_>| {
            let left = room.checked_sub(id.len() + entry.text().len());
            room = left.unwrap_or(0);
            left.is_some()
        };
        let told = entries.iter().rev().take_while(fits).count();
        entries.split_off(entries.len() - told).into_iter().map(|(_, id, entry)| (id, entry)).collect()
    }

    fn ordered(&self) -> Vec<Ordered<'_>> {
        self.entries.iter().map(|(id, (at, entry))| (*at, id.as_str(), entry)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sizes: &[usize]) -> Record {
        let entry = |(at, size): (usize, &usize)| {
            let entry = Json::parse(&format!("\"{}\"", "x".repeat(*size))).unwrap();
            (format!("q{at:04}"), at as u64, entry)
        };
        Record::loaded(sizes.iter().enumerate().map(entry).collect())
    }

    fn told(sizes: &[usize]) -> Vec<String> {
        record(sizes).recent().into_iter().map(|(id, _)| id.to_owned()).collect()
    }

    #[test]
    fn a_cli_is_told_the_newest_hundred_oldest_first() {
        let newest = told(&[1; 10_000]);
        assert_eq!((newest.len(), newest.first().unwrap().as_str()), (100, "q9900"));
        assert!(newest.is_sorted());
        assert_eq!(told(&[1; 100]).len(), 100);
        assert_eq!(told(&[1; 101]).first().unwrap(), "q0001");
        assert!(told(&[]).is_empty());
    }

    #[test]
    fn a_cli_is_told_a_million_bytes_at_most_and_none_that_comes_after_a_gap() {
        assert_eq!(told(&[1, 600_000, 300_000, 300_000]), ["q0002", "q0003"]);
        assert_eq!(told(&[1, 2_000_000]), [""; 0], "what is older than one left out is left out, too");
    }

    #[test]
    fn a_record_that_is_too_large_lets_its_oldest_entries_go() {
        let mut few = record(&[1_000_000; 9]);
        assert!(!few.trim() && few.has("q0000"));
        let mut many = record(&[1_000_000; 12]);
        assert!(many.trim());
        assert_eq!((many.in_order().count(), many.in_order().next().map(|(id, _)| id)), (8, Some("q0004")));
        assert!(many.bytes() <= KEPT_COMPLETED_BYTES && !many.trim());
        let mut small = record(&[1; 10_000]);
        assert!(!small.trim(), "a long life of small requests stays whole");
    }

    #[test]
    fn entries_are_in_the_order_of_their_completion() {
        let entry = Json::parse("{}").unwrap();
        let mut record = Record::default();
        for (id, at) in [("c", 1), ("a", 2), ("b", 2), ("z", 0)] {
            record.insert(id.into(), at, entry.clone());
        }
        assert_eq!(record.in_order().map(|(id, _)| id).collect::<Vec<_>>(), ["z", "c", "a", "b"]);
        assert!(!record.differs("a", &entry) && record.differs("a", &Json::parse("1").unwrap()));
        assert!(record.differs("new", &entry));
    }
}
