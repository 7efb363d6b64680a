//! Inactive sessions with pending permission requests. If the CLI of such a session does not reconnect within [`KEEP_REQUESTS_MS`],
//! the requests are canceled.

use std::collections::BTreeMap;

/// How long the pending permission requests of an inactive session are kept, in milliseconds (PROTOCOL.md "States of a session").
const KEEP_REQUESTS_MS: u64 = 24 * 60 * 60_000;

/// When the requests of each session are canceled, in Unix milliseconds.
#[derive(Debug, Default)]
pub struct KeptRequests(BTreeMap<String, u64>);

impl KeptRequests {
    /// Schedules the cancellation of a session's requests in [`KEEP_REQUESTS_MS`]. Returns the time of the cancellation.
    pub fn keep(&mut self, session: &str, now: u64) -> u64 {
        let until = now + KEEP_REQUESTS_MS;
        self.set(session, until);
        until
    }

    /// Sets the time at which the requests of a session are canceled.
    pub fn set(&mut self, session: &str, until: u64) {
        self.0.insert(session.to_owned(), until);
    }

    pub fn contains(&self, session: &str) -> bool {
        self.0.contains_key(session)
    }

    /// Removes and returns the sessions whose requests must be canceled now.
    pub fn take_due(&mut self, now: u64) -> Vec<String> {
        self.0.extract_if(.., |_, until| *until <= now).map(|(session, _)| session).collect()
    }

    /// Returns the Unix milliseconds at which the first requests are canceled.
    pub fn next_deadline(&self) -> Option<u64> {
        self.0.values().min().copied()
    }
}
