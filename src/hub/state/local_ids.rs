//! The local ids of a session's messages: by them a message that is sent again is recognized.

use std::collections::HashMap;

use crate::hub::limits::MAX_LOCAL_IDS;
use crate::store::sessions::MessageRef;

/// What a local id costs in memory with the message it stands for, in bytes: two ids of the usual length.
const ID_BYTES: usize = 200;

/// The local ids of a session's messages.
#[derive(Debug, Default)]
pub struct LocalIds {
    known: HashMap<String, MessageRef>,
    /// Whether an id that is not known is new for sure.
    complete: bool,
}

/// What is known of a local id.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// It stands for this message.
    Before(MessageRef),
    /// It is new.
    Never,
    /// The database has to be asked.
    Unknown,
}

impl LocalIds {
    /// The ids that the database gave, at most [`MAX_LOCAL_IDS`]; fewer means that these are all.
    pub fn loaded(ids: Vec<(String, MessageRef)>) -> Self {
        let complete = ids.len() < MAX_LOCAL_IDS;
        Self { known: ids.into_iter().collect(), complete }
    }

    /// How much memory they take, about.
    pub fn bytes(&self) -> usize {
        self.known.len() * ID_BYTES
    }

    /// What is known of an id.
    pub fn seen(&self, id: &str) -> Seen {
        match self.known.get(id) {
            Some(message) => Seen::Before(message.clone()),
            None if self.complete => Seen::Never,
            None => Seen::Unknown,
        }
    }

    /// Remembers an id. When too many are held, the oldest messages' ids are left to the database.
    pub fn remember(&mut self, id: String, message: MessageRef) {
        self.known.insert(id, message);
        if self.known.len() > 2 * MAX_LOCAL_IDS {
            let newest = self.known.values().map(|m| m.seq).max().unwrap_or(0);
            self.known.retain(|_, m| m.seq + MAX_LOCAL_IDS as u64 > newest);
            self.complete = false;
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
    fn an_unknown_local_id_is_new_only_while_all_are_held() {
        let mut ids = LocalIds::loaded(vec![("a".into(), message(1))]);
        assert_eq!(ids.seen("a"), Seen::Before(message(1)));
        assert_eq!(ids.seen("b"), Seen::Never);
        for seq in 2..=(2 * MAX_LOCAL_IDS as u64 + 1) {
            ids.remember(format!("l{seq}"), message(seq));
        }
        assert_eq!(ids.seen("a"), Seen::Unknown);
        assert_eq!(ids.seen("l10000"), Seen::Before(message(10_000)));
    }
}
