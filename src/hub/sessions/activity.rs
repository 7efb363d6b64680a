//! Making sessions inactive, and the errors of operations that need an active session.

use crate::hub::core::effect::Effect;
use crate::hub::core::error::Error;
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::{KEPT_REQUESTS, REACTIVATION};
use crate::hub::turn::Turn;
use crate::model::agent_state::count_pending;
use crate::model::owner::Owner;

impl State {
    /// Whether a connected CLI is expected to report an inactive session alive: the session is not archived, and a socket serves it.
    pub fn expects_report(&self, session: &str, now: u64) -> bool {
        let is_inactive =
            |entry: &CachedSession| !entry.session.active && !entry.session.metadata_fields().is_archived();
        self.cache.entry(session).is_some_and(is_inactive)
            && self.is_served(&Owner::Session(session.to_owned()), None, now)
    }

    /// Returns the error for an operation that needs an active session. `disconnected`: the error if no CLI is connected.
    pub fn inactive_error(&self, session: &str, disconnected: Error) -> Error {
        if self.connections.clis_of_session(session).is_empty() { disconnected } else { Error::CliNotAlive }
    }
}

impl Turn<'_> {
    /// Makes a session inactive. `has_ended`: whether the session has ended, rather than lost its connection.
    pub fn deactivate(&mut self, id: &str, has_ended: bool) -> Result<(), Error> {
        let (owner, now) = (Owner::Session(id.to_owned()), self.hub.rt.now());
        self.state.change_session(id, |s| {
            s.ended_at = s.ended_at.or(has_ended.then_some(now));
            if s.active || s.thinking {
                s.thinking_at = if s.thinking { now } else { s.thinking_at };
                (s.active, s.thinking, s.updated_at, s.activity, s.activity_at) = (false, false, now, None, None);
                s.disconnected = false;
            }
        })?;
        self.state.liveness.stop(&owner);
        // Queued even if the session is inactive in memory, because an earlier change to inactive may not be durable yet.
        self.state.write_queue.on_commit(Effect::BecameInactive(owner));
        Ok(())
    }

    /// Makes an archived session inactive at once, because an archived session ignores keep-alives. Returns whether the session was
    /// active; if it was, the caller must call `Hub::cancel_archived`.
    pub fn deactivate_if_archived(&mut self, id: &str) -> Result<bool, Error> {
        let session = &self.state.cache.require_entry(id)?.session;
        let must_end = session.active && session.metadata_fields().is_archived();
        if must_end {
            self.deactivate(id, true)?;
            // The alarm cancels the pending requests if the object ends before `Hub::cancel_archived`.
            self.start_request_retention(id)?;
        }
        Ok(must_end)
    }

    /// Sets the time at which the pending requests of an inactive session are canceled. Does nothing if the session is active or has
    /// no pending requests.
    pub fn start_request_retention(&mut self, id: &str) -> Result<(), Error> {
        let session = &self.state.cache.require_entry(id)?.session;
        if !session.active && count_pending(session.agent_state.json()) > 0 {
            let until = self.state.kept_requests.keep(id, self.hub.rt.now());
            self.hub.rt.kv_put(&format!("{KEPT_REQUESTS}{id}"), &until.to_string());
            self.request_alarm(Some(until));
        }
        Ok(())
    }

    /// Ends the expectation of a reactivation, because the session is active, has ended, or was deleted.
    pub fn clear_reactivation(&mut self, id: &str) {
        if self.state.in_flight.clear_reactivation(id) {
            self.hub.rt.kv_delete(&format!("{REACTIVATION}{id}"));
        }
    }
}
