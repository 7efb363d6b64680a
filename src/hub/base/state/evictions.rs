//! The latest evictions of sessions, by id and by tag. They show whether the result of a database read is stale.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::limits::MAX_TRACKED_EVICTIONS;

/// What identifies an evicted session. Two sessions with the same hash only cause a needless read.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Key<'a> {
    Id(&'a str),
    Tag(&'a str),
}

impl Key<'_> {
    fn digest(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(&self, &mut hasher);
        hasher.finish()
    }
}

/// The state of the cache when a database read begins. The result is stale if the cache has evicted the session since
/// then, or was cleared: the session may have been loaded and changed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    evictions: u64,
    clears: u64,
}

/// The last evictions.
#[derive(Debug, Default)]
pub struct Evictions {
    count: u64,
    clears: u64,
    /// The number of the last eviction of each key.
    last: HashMap<u64, u64>,
    /// Numbers and keys, oldest first.
    order: VecDeque<(u64, u64)>,
    /// The keys of evictions up to this number are unknown.
    forgotten: u64,
}

impl Evictions {
    pub fn generation(&self) -> Generation {
        Generation { evictions: self.count, clears: self.clears }
    }

    /// Records an eviction. At [`MAX_TRACKED_EVICTIONS`] keys, the oldest is forgotten.
    pub fn record(&mut self, keys: &[Key<'_>]) {
        self.count += 1;
        for key in keys {
            let key = key.digest();
            self.last.insert(key, self.count);
            self.order.push_back((self.count, key));
        }
        while self.order.len() > MAX_TRACKED_EVICTIONS {
            let Some((number, key)) = self.order.pop_front() else { return };
            self.forgotten = number;
            if self.last.get(&key) == Some(&number) {
                self.last.remove(&key);
            }
        }
    }

    /// Makes everything that was read before stale.
    pub fn clear(&mut self) {
        let count = self.count + 1;
        *self = Self { count, clears: self.clears + 1, forgotten: count, ..Self::default() };
    }

    /// Whether a session was evicted after the generation, or may have been.
    pub fn contains_since(&self, generation: Generation, key: Key<'_>) -> bool {
        self.forgotten_since(generation) || self.last.get(&key.digest()).is_some_and(|at| *at > generation.evictions)
    }

    /// Whether some evictions after the generation are no longer tracked.
    pub fn forgotten_since(&self, generation: Generation) -> bool {
        self.forgotten > generation.evictions
    }

    /// Whether [`clear`](Self::clear) was called after the generation.
    pub fn cleared_since(&self, generation: Generation) -> bool {
        self.clears != generation.clears
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_concerns_its_own_id_and_tag_only() {
        let mut evictions = Evictions::default();
        let before = evictions.generation();
        evictions.record(&[Key::Id("s"), Key::Tag("/code")]);
        for (key, is_evicted) in
            [(Key::Id("s"), true), (Key::Tag("/code"), true), (Key::Tag("s"), false), (Key::Id("t"), false)]
        {
            assert_eq!(evictions.contains_since(before, key), is_evicted, "{key:?}");
            assert!(!evictions.contains_since(evictions.generation(), key), "{key:?}");
        }
        assert!(!evictions.cleared_since(before) && !evictions.forgotten_since(before));
    }

    #[test]
    fn every_id_counts_as_evicted_after_more_evictions_than_are_tracked() {
        let mut evictions = Evictions::default();
        evictions.record(&[Key::Id("first")]);
        let before = evictions.generation();
        let ids: Vec<String> = (0..=MAX_TRACKED_EVICTIONS).map(|n| n.to_string()).collect();
        for id in &ids[1..] {
            evictions.record(&[Key::Id(id)]);
        }
        assert!(!evictions.contains_since(before, Key::Id("other")), "the first eviction was before");
        evictions.record(&[Key::Id("last")]);
        assert!(evictions.contains_since(before, Key::Id("other")) && evictions.forgotten_since(before));
        assert!(!evictions.contains_since(evictions.generation(), Key::Id("other")));
        assert!(evictions.last.len() <= MAX_TRACKED_EVICTIONS);
    }

    #[test]
    fn a_clear_makes_every_earlier_read_stale() {
        let mut evictions = Evictions::default();
        let before = evictions.generation();
        evictions.clear();
        assert!(evictions.contains_since(before, Key::Id("s")) && evictions.cleared_since(before));
        assert!(!evictions.contains_since(evictions.generation(), Key::Id("s")));
    }
}
