//! Inactivity deadlines, after which a session becomes inactive, and a machine goes offline. Activity is a keep-alive, an update, a
//! CONNECT or a registration of a method (PROTOCOL-CLI.md "Liveness"). Activity writes nothing to the database.

use crate::hub::core::peers::connections::Peer;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::deadline_key;
use crate::hub::turn::Turn;
use crate::limits::{MIN_ATTACHMENT_WRITE_INTERVAL_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

impl Turn<'_> {
    /// Restarts the deadline of an owner after activity that arrived at `at` on the socket `from`. Stores the time in its attachment.
    pub fn restart_deadline_on_activity(&mut self, owner: Owner, from: ConnId, at: u64) {
        if self.state.liveness.record_activity(owner.clone(), at) {
            self.store_deadline(&owner);
        }
        // The socket may have closed before this frame was handled.
        if self.state.connections.cli(from).is_some() {
            self.state.liveness.record_connected(&owner);
        }
        self.request_alarm(self.state.liveness.deadline(&owner));
        let is_due = |last: Option<u64>| last.is_none_or(|last| at >= last + MIN_ATTACHMENT_WRITE_INTERVAL_MS);
        // Skipped if the socket does not serve the owner yet: then this function is called again, after `add_served`.
        if self.state.connections.clis_of_owner(&owner).contains(&from)
            && let Some(cli) = self.state.connections.cli(from).filter(|cli| is_due(cli.last_activity_at(&owner)))
        {
            let mut cli = cli.clone();
            cli.set_last_activity(&owner, Some(at));
            self.set_peer(from, Peer::Cli(cli));
        }
    }

    /// Restarts the deadline of an owner as soon as a frame with activity arrives, because the frame may then wait for the database or
    /// earlier frames. Does nothing if the owner is inactive and so has no deadline, or if another installation serves it.
    pub fn restart_deadline_on_arrival(&mut self, owner: Owner, from: ConnId, at: u64) {
        if self.state.liveness.has_deadline(&owner) && !self.state.connections.is_served_elsewhere(&owner, from) {
            self.state.cache.set_active_at(&owner, at);
            self.restart_deadline_on_activity(owner, from, at);
        }
    }

    /// Starts or restarts the deadline of an owner without changing the time of its last activity.
    pub fn start_deadline(&mut self, owner: Owner) {
        if self.state.liveness.start_without_activity(owner.clone(), self.hub.rt.now()) {
            self.store_deadline(&owner);
        }
        self.request_alarm(self.state.liveness.deadline(&owner));
    }

    /// Starts the deadline of an active owner unless it has one. Returns when it was last active, and whether it has lost its CLIs.
    pub fn restore_liveness(&mut self, owner: Owner, stored_at: u64) -> (u64, bool) {
        let liveness = &self.state.liveness;
        let active_at = stored_at.max(liveness.active_at(&owner));
        let is_disconnected = liveness.is_disconnected(&owner, self.hub.rt.now());
        if !liveness.has_deadline(&owner) {
            self.start_deadline(owner);
        }
        (active_at, is_disconnected)
    }

    pub fn store_deadline(&self, owner: &Owner) {
        self.hub.rt.kv_put(&deadline_key(owner), &self.state.liveness.deadline_to_store(owner).to_string());
    }

    /// Restarts the deadline of a session or machine after its socket closed, so that its CLI can reconnect before the deadline.
    pub fn restart_deadline_on_disconnect(&mut self, owner: &Owner, now: u64) {
        let is_served = self.state.is_served(owner, None, now);
        if self.state.liveness.record_disconnect(owner, now, is_served) {
            self.state.cache.set_active_at(owner, now);
            // Stored even if another socket serves the owner. The attachment of the closed socket held the time of its last activity,
            // and is lost. The attachment of the other socket may hold only an earlier time.
            self.store_deadline(owner);
            self.request_alarm(self.state.liveness.deadline(owner));
        }
    }
}

impl State {
    /// Whether a CLI other than `except` serves an owner: its socket is open, and its last activity for the owner is within the timeout.
    pub fn is_served(&self, owner: &Owner, except: Option<ConnId>, now: u64) -> bool {
        // An attachment is written at most once per interval, so the last activity may be later than `at` by that much.
        let is_live = |at: u64| now < at + SESSION_TIMEOUT_MS + MIN_ATTACHMENT_WRITE_INTERVAL_MS;
        let others = self.connections.clis_of_owner(owner).iter().filter(|conn| Some(**conn) != except);
        others.filter_map(|conn| self.connections.cli(*conn)?.last_activity_at(owner)).any(is_live)
    }
}
