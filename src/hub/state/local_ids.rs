//! The local ids of a session's messages. A message that a client sends again is recognized by its local id.

use std::collections::HashMap;

use crate::limits::MAX_LOCAL_IDS;
use crate::store::messages::MessageRef;

/// The estimated memory of an entry, in bytes: two ids of the usual length.
const ENTRY_BYTES: usize = 200;

/// The newest local ids of a session, with their messages.
#[derive(Debug, Default)]
pub struct LocalIds {
    messages: HashMap<String, MessageRef>,
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
    pub fn loaded(ids: Vec<(String, MessageRef)>, seq: u64) -> Self {
        let is_complete = seq <= MAX_LOCAL_IDS as u64;
        Self { messages: ids.into_iter().collect(), is_complete }
    }

    /// Returns the estimated memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.messages.len() * ENTRY_BYTES
    }

    pub fn look_up(&self, local_id: &str) -> Seen {
        match self.messages.get(local_id) {
            Some(message) => Seen::Before(message.clone()),
            None if self.is_complete => Seen::Never,
            None => Seen::Unknown,
        }
    }

    /// Adds a local id. Beyond twice [`MAX_LOCAL_IDS`], the ids of the oldest messages are evicted.
    pub fn insert(&mut self, local_id: String, message: MessageRef) {
        self.messages.insert(local_id, message);
        if self.messages.len() > 2 * MAX_LOCAL_IDS {
            let newest = self.messages.values().map(|message| message.seq).max().unwrap_or(0);
            self.messages.retain(|_, message| message.seq + MAX_LOCAL_IDS as u64 > newest);
            self.is_complete = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64) -> MessageRef {
        MessageRef { id: format!("m{seq}"), seq, created_at: 0 }
    }

    #[test]
    fn a_missing_local_id_is_new_only_if_none_was_evicted() {
        let mut ids = LocalIds::loaded(vec![("a".into(), message(1))], 1);
        assert_eq!(ids.look_up("a"), Seen::Before(message(1)));
        assert_eq!(ids.look_up("b"), Seen::Never);
        for seq in 2..=(2 * MAX_LOCAL_IDS as u64 + 1) {
            ids.insert(format!("l{seq}"), message(seq));
        }
        assert_eq!(ids.look_up("a"), Seen::Unknown);
        assert_eq!(ids.look_up("l10000"), Seen::Before(message(10_000)));
    }
}
