//! The quotas of a namespace: what is refused beyond them. Deleting, answering, reading and renaming are never refused.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::namespace::quotas::Usage;
use crate::hub::turn::Turn;

/// How many sessions a namespace may have above its quota while sessions are being resumed.
const MAX_SESSIONS_ABOVE_QUOTA: usize = 16;

impl Hub {
    /// Returns what the namespace uses. Reads the database unless the figures are in memory.
    pub async fn usage(self: &Arc<Self>) -> Result<Usage, Error> {
        self.count_stored_bytes().await?;
        let is_counted = self.turn().cache.tags().is_some();
        if !is_counted {
            // No session has an empty tag, so this counts the sessions.
            self.load_by_tag("").await?;
        }
        let turn = self.turn();
        let quotas = &self.config.quotas;
        Ok(Usage {
            bytes: turn.stored_bytes.get().unwrap_or(0),
            max_bytes: quotas.max_bytes,
            sessions: turn.cache.tags().map_or(0, |tags| tags.session_count),
            max_sessions: quotas.max_sessions(),
        })
    }
}

impl Turn<'_> {
    /// Refuses a new message beyond a quota. Returns `false` if the stored bytes must be counted first.
    pub(super) fn check_message_quotas(&mut self) -> Result<bool, Error> {
        if let Some(max) = self.hub.config.quotas.max_messages_per_minute {
            let wait_ms = self.state.message_rate.wait_ms(self.hub.rt.now(), max);
            if wait_ms > 0 {
                return Err(Error::TooManyMessages { wait_ms });
            }
        }
        self.check_storage()
    }

    /// Refuses a new session beyond a quota. A session that is being resumed may have a new session in its place until they are merged.
    /// Returns `false` if the stored bytes must be counted first.
    pub(super) fn check_session_quotas(&self) -> Result<bool, Error> {
        let max = self.hub.config.quotas.max_sessions();
        let resumes = self.state.in_flight.count_resumes(self.hub.rt.now()).min(MAX_SESSIONS_ABOVE_QUOTA);
        if self.state.cache.tags().is_some_and(|tags| tags.session_count >= max + resumes) {
            return Err(Error::TooManySessions(max));
        }
        if resumes > 0 { Ok(true) } else { self.check_storage() }
    }

    fn check_storage(&self) -> Result<bool, Error> {
        let Some(max) = self.hub.config.quotas.max_bytes else { return Ok(true) };
        match self.state.stored_bytes.get() {
            Some(bytes) if bytes >= max => Err(Error::StorageFull),
            stored => Ok(stored.is_some()),
        }
    }
}
