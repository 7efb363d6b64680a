//! Inactive sessions with pending permission requests. Their CLI may come back, and the requests be answered, within
//! [`KEEP_REQUESTS_MS`]; after that the requests are canceled.

use std::collections::BTreeMap;

use crate::limits::KEEP_REQUESTS_MS;

/// When the requests of each session are canceled, in Unix milliseconds.
#[derive(Debug, Default)]
pub struct KeptRequests(BTreeMap<String, u64>);

impl KeptRequests {
    /// Keeps the requests of a session from now on. Returns until when.
    pub fn keep(&mut self, session: &str, now: u64) -> u64 {
        let until = now + KEEP_REQUESTS_MS;
        self.set(session, until);
        until
    }

    /// Sets when the requests of a session are canceled.
    pub fn set(&mut self, session: &str, until: u64) {
        self.0.insert(session.to_owned(), until);
    }

    pub fn contains(&self, session: &str) -> bool {
        self.0.contains_key(session)
    }

    /// Removes and returns the sessions whose time is over.
    pub fn take_due(&mut self, now: u64) -> Vec<String> {
        self.0.extract_if(.., |_, until| *until <= now).map(|(session, _)| session).collect()
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_a_day_after_the_last_expiry() {
        let mut kept = KeptRequests::default();
        assert_eq!(kept.next_deadline(), None);
        assert_eq!(kept.keep("s", 1_000), 86_401_000);
        assert_eq!(kept.keep("t", 2_000), 86_402_000);
        assert_eq!(kept.keep("s", 3_000), 86_403_000, "it was active in between");
        assert_eq!(kept.next_deadline(), Some(86_402_000));
        assert!(kept.take_due(86_401_999).is_empty());
        assert_eq!(kept.take_due(86_402_000), ["t"]);
        assert!(kept.contains("s") && !kept.contains("t"));
    }
}
