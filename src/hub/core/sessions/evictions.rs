//! Reads of the database in progress: lookups that wait for their batch, and the latest evictions of sessions, by id and by tag. If a
//! session was evicted during a read, the result of the read may be stale: the session may have been loaded and changed in between.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::channel::oneshot;

use crate::hub::core::ports::ConnId;
use crate::store::{DbError, Row, Statement};

pub struct Lookup {
    pub statements: Vec<Statement>,
    /// Receives the rows of each statement.
    pub sender: oneshot::Sender<Result<Vec<Vec<Row>>, DbError>>,
}

/// A message whose local id must be looked up.
pub struct UnknownLocalId {
    pub session: String,
    pub local_id: String,
    /// The CLI that sent the message; `None` for a web client.
    pub from: Option<ConnId>,
}

/// The lookups of local ids that a batch contains.
pub struct LocalIdLookup {
    /// Sessions and local ids.
    pub pairs: Vec<(String, String)>,
    pub ticket: ReadTicket,
}

/// How many evictions are remembered, about 20 bytes each. At this number, all are forgotten, and every read in progress is stale.
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

#[derive(Debug, Default)]
pub struct Evictions {
    count: u64,
    /// The number of the last eviction of each key.
    last: HashMap<u64, u64>,
    /// The keys of evictions up to this number are unknown.
    forgotten_up_to: u64,
}

impl Evictions {
    /// Returns a ticket to take before a read, and to [redeem](Self::redeem) after it.
    pub fn take_ticket(&self) -> ReadTicket {
        ReadTicket(self.count)
    }

    /// Returns a proof that the result of a read is current; `None` if the session may have been evicted since the ticket was taken.
    pub fn redeem(&self, ticket: &ReadTicket, key: Key<'_>) -> Option<CurrentRead> {
        let last = self.last.get(&key.digest()).copied().unwrap_or_default();
        (self.forgotten_up_to.max(last) <= ticket.0).then_some(CurrentRead(()))
    }

    /// Makes the results of a session's reads in progress stale.
    pub fn invalidate_reads(&mut self, id: &str) {
        self.record(&[Key::Id(id)]);
    }

    pub fn record(&mut self, keys: &[Key<'_>]) {
        if self.last.len() >= MAX_TRACKED_EVICTIONS {
            self.clear();
        }
        self.count += 1;
        self.last.extend(keys.iter().map(|key| (key.digest(), self.count)));
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
        let before = evictions.take_ticket();
        let ids: Vec<String> = (0..MAX_TRACKED_EVICTIONS).map(|n| n.to_string()).collect();
        ids.iter().for_each(|id| evictions.record(&[Key::Id(id)]));
        assert!(is_current(&evictions, &before, Key::Id("other")) && !is_current(&evictions, &before, Key::Id("0")));
        evictions.record(&[Key::Id("last")]);
        for key in [Key::Id("other"), Key::Namespace] {
            assert!(!is_current(&evictions, &before, key), "{key:?}");
            assert!(is_current(&evictions, &evictions.take_ticket(), key), "{key:?}");
        }
        assert_eq!(evictions.last.len(), 1);
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
