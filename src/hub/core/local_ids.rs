//! The local ids of a session's messages. A message that a client sends again is recognized by its local id.

use std::collections::HashMap;

use crate::limits::{MAX_LOCAL_ID_LOOKUPS, MAX_LOCAL_IDS};
use crate::store::messages::MessageRef;

/// The estimated memory of an entry, in bytes: two ids of the usual length.
const ENTRY_BYTES: usize = 200;

/// The newest local ids of a session, and the latest results of lookups in the database.
#[derive(Debug, Default)]
pub struct LocalIds {
    /// The message of each local id; `None` if no message has it.
    messages: HashMap<String, Option<MessageRef>>,
    /// Whether these are all local ids of the session.
    is_complete: bool,
}

/// What memory knows about a local id.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A message with this local id was stored before.
    Before(MessageRef),
    /// No message has this local id.
    Never,
    /// Only the database knows.
    Unknown,
}

impl LocalIds {
    /// Creates the set from the ids of the last [`MAX_LOCAL_IDS`] messages of a session with `seq` messages.
    pub fn from_rows(ids: Vec<(String, MessageRef)>, seq: u64) -> Self {
        let is_complete = seq <= MAX_LOCAL_IDS as u64;
        Self { messages: ids.into_iter().map(|(local_id, message)| (local_id, Some(message))).collect(), is_complete }
    }

    /// Returns the estimated memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.messages.len() * ENTRY_BYTES
    }

    pub fn look_up(&self, local_id: &str) -> Seen {
        match self.messages.get(local_id) {
            Some(Some(message)) => Seen::Before(message.clone()),
            Some(None) => Seen::Never,
            None if self.is_complete => Seen::Never,
            None => Seen::Unknown,
        }
    }

    /// Adds the local id of a new message, or the result of a lookup. Returns whether other local ids were evicted. If so, lookups in
    /// flight are stale: an evicted local id may belong to a message that is newer than their results.
    #[must_use]
    pub fn insert(&mut self, local_id: String, message: Option<MessageRef>) -> bool {
        self.messages.insert(local_id, message);
        self.evict_above(2 * MAX_LOCAL_IDS)
    }

    /// Evicts local ids if there is no room for the results of a lookup.
    pub fn make_room(&mut self) {
        self.evict_above(2 * MAX_LOCAL_IDS - MAX_LOCAL_ID_LOOKUPS);
    }

    /// Evicts all but the [`MAX_LOCAL_IDS`] newest local ids if there are more than `max`. Returns whether it evicted any.
    fn evict_above(&mut self, max: usize) -> bool {
        let must_evict = self.messages.len() > max;
        if must_evict {
            let newest = self.messages.values().flatten().map(|message| message.seq).max().unwrap_or(0);
            let is_new = |message: &MessageRef| message.seq + MAX_LOCAL_IDS as u64 > newest;
            self.messages.retain(|_, message| message.as_ref().is_some_and(is_new));
            self.is_complete = false;
        }
        must_evict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64) -> MessageRef {
        MessageRef { id: format!("m{seq}"), seq, created_at: 0 }
    }

    /// Adds messages with the local ids `l1`, `l2`, and so on. Returns how often local ids were evicted.
    fn insert_all(ids: &mut LocalIds, seqs: std::ops::RangeInclusive<u64>) -> usize {
        seqs.map(|seq| ids.insert(format!("l{seq}"), Some(message(seq)))).filter(|evicted| *evicted).count()
    }

    #[test]
    fn a_local_id_that_a_lookup_did_not_find_is_unused_until_a_message_has_it() {
        let mut ids = LocalIds::from_rows(Vec::new(), 2 * MAX_LOCAL_IDS as u64);
        assert_eq!(ids.look_up("l1"), Seen::Unknown);
        assert!(!ids.insert("l1".into(), None));
        assert_eq!(ids.look_up("l1"), Seen::Never);
        assert_eq!(insert_all(&mut ids, 1..=2 * MAX_LOCAL_IDS as u64), 0);
        assert_eq!(ids.look_up("l1"), Seen::Before(message(1)));
        assert_eq!(insert_all(&mut ids, 10_001..=10_001), 1);
        assert_eq!(ids.look_up("l1"), Seen::Unknown, "`l1` was evicted");
    }

    #[test]
    fn results_of_lookups_take_bounded_memory() {
        let mut ids = LocalIds::from_rows(vec![("newest".into(), message(1_000_000))], 1_000_000);
        for lookup in 0..20 {
            ids.make_room();
            for n in 0..MAX_LOCAL_ID_LOOKUPS as u64 / 2 {
                let evicted = ids.insert(format!("old{lookup}-{n}"), Some(message(n)))
                    || ids.insert(format!("new{lookup}-{n}"), None);
                assert!(!evicted, "results of a lookup stay until they are used");
            }
            assert!(ids.bytes() <= 2 * MAX_LOCAL_IDS * ENTRY_BYTES);
        }
        assert_eq!(ids.look_up("newest"), Seen::Before(message(1_000_000)));
    }
}
