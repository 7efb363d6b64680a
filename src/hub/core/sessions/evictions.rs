//! The latest evictions of sessions, by id and by tag. If a session was evicted during a read of the database, the result of
//! the read may be stale: the session may have been loaded and changed in between.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many ids and tags of evicted sessions are remembered, about 50 bytes each. A read that began before a forgotten eviction
/// is stale.
const MAX_TRACKED_EVICTIONS: usize = 20_000;

/// The subject of a read. Only the hash of a key is stored: if two keys have the same hash, a read is repeated in vain.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Key<'a> {
    Id(&'a str),
    Tag(&'a str),
    /// The session list or the machines. Only [`Evictions::clear`] makes a read of the list or of the machines stale.
    Namespace,
}

impl Key<'_> {
    fn digest(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(&self, &mut hasher);
        hasher.finish()
    }
}

/// Marks the start of a read of the database: the number of evictions so far.
#[derive(Debug)]
pub struct ReadTicket(u64);

/// Proof that the result of a read is current. Only [`Evictions::redeem`] creates it, and inserts into the cache require it.
pub struct CurrentRead(());

/// The last evictions.
#[derive(Debug, Default)]
pub struct Evictions {
    count: u64,
    /// The number of the last eviction of each key.
    last: HashMap<u64, u64>,
    /// Numbers and keys, oldest first.
    order: VecDeque<(u64, u64)>,
    /// The keys of evictions up to this number are unknown.
    forgotten_up_to: u64,
}

impl Evictions {
    /// Returns a ticket to take before a read, and to [redeem](Self::redeem) after it.
    pub fn take_ticket(&self) -> ReadTicket {
        ReadTicket(self.count)
    }

    /// Returns a proof that the result of a read is current; `None` if the session was or may have been evicted since the ticket was
    /// taken.
    pub fn redeem(&self, ticket: &ReadTicket, key: Key<'_>) -> Option<CurrentRead> {
        let last = self.last.get(&key.digest()).copied().unwrap_or_default();
        (self.forgotten_up_to.max(last) <= ticket.0).then_some(CurrentRead(()))
    }

    /// Makes the results of a session's reads in progress stale.
    pub fn invalidate_reads(&mut self, id: &str) {
        self.record(&[Key::Id(id)]);
    }

    /// Records an eviction. Above [`MAX_TRACKED_EVICTIONS`] keys, forgets the oldest.
    pub fn record(&mut self, keys: &[Key<'_>]) {
        self.count += 1;
        for key in keys {
            let key = key.digest();
            self.last.insert(key, self.count);
            self.order.push_back((self.count, key));
        }
        while self.order.len() > MAX_TRACKED_EVICTIONS {
            let Some((number, key)) = self.order.pop_front() else { return };
            self.forgotten_up_to = number;
            if self.last.get(&key) == Some(&number) {
                self.last.remove(&key);
            }
        }
    }

    /// Makes the results of all reads in progress stale.
    pub fn clear(&mut self) {
        let count = self.count + 1;
        *self = Self { count, forgotten_up_to: count, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_current(evictions: &Evictions, ticket: &ReadTicket, key: Key<'_>) -> bool {
        evictions.redeem(ticket, key).is_some()
    }

    #[test]
    fn every_earlier_read_is_stale_after_more_evictions_than_are_tracked() {
        let mut evictions = Evictions::default();
        evictions.record(&[Key::Id("first")]);
        let before = evictions.take_ticket();
        let ids: Vec<String> = (0..=MAX_TRACKED_EVICTIONS).map(|n| n.to_string()).collect();
        for id in &ids[1..] {
            evictions.record(&[Key::Id(id)]);
        }
        assert!(is_current(&evictions, &before, Key::Id("other")), "the forgotten eviction is older than the ticket");
        evictions.record(&[Key::Id("last")]);
        for key in [Key::Id("other"), Key::Namespace] {
            assert!(!is_current(&evictions, &before, key), "{key:?}");
            assert!(is_current(&evictions, &evictions.take_ticket(), key), "{key:?}");
        }
        assert!(evictions.last.len() <= MAX_TRACKED_EVICTIONS);
    }

    #[test]
    fn a_clear_makes_every_earlier_read_stale() {
        let mut evictions = Evictions::default();
        let before = evictions.take_ticket();
        evictions.clear();
        for key in [Key::Id("s"), Key::Namespace] {
            assert!(!is_current(&evictions, &before, key) && is_current(&evictions, &evictions.take_ticket(), key));
        }
    }
}
