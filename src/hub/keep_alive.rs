//! Keep-alives of sessions and machines. An owner whose CLI sends none in time ends: a session becomes inactive, a machine
//! goes offline. A keep-alive writes nothing to the database.

use std::sync::Arc;

use super::error::Error;
use super::peers::connections::Peer;
use super::ports::ConnId;
use super::storage_keys::alive_key;
use super::{Hub, State};
use crate::limits::MIN_ATTACHMENT_WRITE_INTERVAL_MS;
use crate::model::owner::Owner;

impl Hub {
    /// Restarts the timeout of an owner. `from` is the socket that sent the keep-alive, whose attachment stores it; without
    /// one no keep-alive came, and only the timeout starts.
    pub(super) fn record_keep_alive(&self, state: &mut State, owner: Owner, from: Option<ConnId>) {
        let now = self.rt.now();
        let needs_entry = match from {
            Some(_) => state.liveness.record_keep_alive(owner.clone(), now),
            None => state.liveness.start(owner.clone(), now),
        };
        if needs_entry {
            self.rt.kv_put(&alive_key(&owner), "");
        }
        if let Some((conn, cli)) = from.and_then(|conn| Some((conn, state.connections.cli(conn)?))) {
            let is_due = cli.last_keep_alive_at(&owner).is_none_or(|at| now >= at + MIN_ATTACHMENT_WRITE_INTERVAL_MS);
            if !cli.owns(&owner) {
                // The socket did not name this owner when it connected, so its attachment has no field for it.
                self.rt.kv_put(&alive_key(&owner), &now.to_string());
            } else if is_due {
                let cli = cli.with_keep_alive(&owner, now);
                self.set_peer(state, conn, Peer::Cli(cli));
            }
        }
        let next = state.liveness.next_deadline();
        self.request_alarm(state, next);
    }

    /// Starts the timeout of an owner that the database says is active, unless it runs or has just passed.
    pub(super) fn start_timeout(&self, state: &mut State, owner: Owner) {
        if !state.liveness.is_running(&owner) && !state.ending.contains_key(&owner) {
            self.record_keep_alive(state, owner, None);
        }
    }

    /// Takes the owners whose timeout has passed. Until [`Hub::end_expired`] has written their end, a load from the
    /// database does not restart the timeout.
    pub(super) fn take_expired(&self, now: u64) -> Vec<Owner> {
        let mut state = self.state();
        let expired = state.liveness.take_expired(now);
        let owners = expired.iter().map(|(owner, _)| owner.clone()).collect();
        state.ending.extend(expired);
        owners
    }

    /// Ends owners. One whose end can't be written gets another timeout.
    pub(super) async fn end_expired(self: &Arc<Self>, expired: Vec<Owner>) {
        for owner in expired {
            let loaded = match &owner {
                Owner::Session(id) => self.load_session(id).await,
                Owner::Machine(id) => self.load_machine(id).await,
            };
            let is_alive_again = {
                let mut state = self.state();
                state.ending.remove(&owner);
                state.liveness.is_running(&owner)
            };
            let ended = match (&owner, loaded) {
                (_, Ok(())) if is_alive_again => Ok(()),
                (Owner::Session(id), Ok(())) => self.end_session(id).await,
                (Owner::Machine(id), Ok(())) => self.end_machine(id).await,
                (_, Err(error)) => Err(error),
            };
            match ended {
                Ok(()) => {}
                Err(Error::NotFound(_) | Error::Forbidden(_)) => self.rt.kv_delete(&alive_key(&owner)),
                Err(_) => self.record_keep_alive(&mut self.state(), owner, None),
            }
        }
    }
}
