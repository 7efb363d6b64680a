//! Timeouts of sessions and machines. An owner without activity for its timeout expires: a session becomes inactive, a
//! machine goes offline. Activity is a keep-alive, an update, a CONNECT or a registration of a method (PROTOCOL.md
//! "Liveness"); it writes nothing to the database.

use std::sync::Arc;

use super::error::Error;
use super::large;
use super::peers::connections::Peer;
use super::ports::ConnId;
use super::storage_keys::{alive_key, kept_requests_key};
use super::{Hub, State};
use crate::limits::{MIN_ATTACHMENT_WRITE_INTERVAL_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

impl Hub {
    /// Restarts the timeout of an owner after activity on the socket `from`, and stores the time in the socket's attachment.
    /// `at`: when the frame arrived.
    pub(super) fn record_keep_alive(&self, state: &mut State, owner: Owner, from: ConnId, at: u64) {
        if state.liveness.record_keep_alive(owner.clone(), at) {
            self.store_timer(state, &owner);
        }
        let deadline = state.liveness.deadline(&owner);
        self.request_alarm(state, deadline);
        let is_due = |last: Option<u64>| last.is_none_or(|last| at >= last + MIN_ATTACHMENT_WRITE_INTERVAL_MS);
        // A socket that does not serve the owner yet does so after this event ([`Hub::add_served`]).
        if state.connections.of_owner(&owner).contains(&from)
            && let Some(cli) = state.connections.cli(from).filter(|cli| is_due(cli.last_keep_alive_at(&owner)))
        {
            let mut cli = cli.clone();
            cli.record_keep_alive(&owner, at);
            self.set_peer(state, from, Peer::Cli(cli));
        }
    }

    /// Restarts the timeout of an owner that is active, or whose expiry is being written, as soon as a frame with activity
    /// arrives: the frame may have to wait for the database or for earlier frames of its socket.
    pub(super) fn record_arrival(&self, state: &mut State, owner: Owner, from: ConnId, at: u64) {
        if state.liveness.has(&owner) {
            state.cache.set_active_at(&owner, at);
            self.record_keep_alive(state, owner, from, at);
        }
    }

    /// Starts the timeout of an owner without activity.
    pub(super) fn begin_timeout(&self, state: &mut State, owner: Owner) {
        if state.liveness.begin(owner.clone(), self.rt.now()) {
            self.store_timer(state, &owner);
        }
        let deadline = state.liveness.deadline(&owner);
        self.request_alarm(state, deadline);
    }

    /// Starts the timeout of an owner that the database says is active, unless it runs or has just passed.
    pub(super) fn start_timeout(&self, state: &mut State, owner: Owner) {
        if !state.liveness.has(&owner) {
            self.begin_timeout(state, owner);
        }
    }

    /// Writes an owner's timeout to the object's storage.
    pub(super) fn store_timer(&self, state: &State, owner: &Owner) {
        self.rt.kv_put(&alive_key(owner), &state.liveness.stored(owner).to_string());
    }

    /// Makes owners inactive whose timeout has passed, except those with activity since then. If an expiry can't be written, the
    /// timeout starts again.
    pub(super) async fn end_expired(self: &Arc<Self>, expired: Vec<Owner>) {
        for owner in expired {
            let ended = match &owner {
                Owner::Session(id) => self.expire_session(id).await,
                Owner::Machine(id) => self.expire_machine(id).await,
            };
            match ended {
                Ok(()) => {}
                Err(Error::NotFound(_) | Error::Forbidden(_)) => {
                    self.state().liveness.stop(&owner);
                    self.rt.kv_delete(&alive_key(&owner));
                }
                Err(_) => self.begin_timeout(&mut self.state(), owner),
            }
        }
        self.start_commit();
    }

    /// Cancels the pending requests of sessions that have been inactive for too long.
    pub(super) async fn cancel_kept_requests(self: &Arc<Self>, sessions: Vec<String>) {
        for id in sessions {
            let canceled = self.with_field(&id, large::state_if_pending, |state, stored| {
                // An active session, or one that has expired again since, keeps its requests.
                if !state.cache.require_entry(&id)?.session.active && !state.kept_requests.contains(&id) {
                    self.cancel_pending(state, &id, stored)?;
                }
                Ok(state.commit_waiter())
            });
            let canceled = match canceled.await {
                Ok(committed) => self.wait_for_commit(committed).await,
                Err(error) => Err(error),
            };
            let mut state = self.state();
            match canceled {
                _ if state.kept_requests.contains(&id) => {}
                Ok(()) | Err(Error::NotFound(_) | Error::Forbidden(_)) => self.rt.kv_delete(&kept_requests_key(&id)),
                Err(_) => {
                    state.kept_requests.set(&id, self.rt.now() + SESSION_TIMEOUT_MS);
                    let next = state.kept_requests.next_deadline();
                    self.request_alarm(&mut state, next);
                }
            }
        }
    }
}
