//! Timeouts of sessions and machines. An owner without activity for its timeout expires: a session becomes inactive, a
//! machine goes offline. Activity is a keep-alive, an update, a CONNECT or a registration of a method (PROTOCOL.md
//! "Liveness"); it writes nothing to the database.

use crate::hub::turn::Turn;
use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::base::peers::connections::Peer;
use crate::hub::base::ports::ConnId;
use crate::hub::base::storage_keys::{alive_key, kept_requests_key};
use crate::hub::write::large;
use crate::limits::{MIN_ATTACHMENT_WRITE_INTERVAL_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

impl Hub {
    /// Makes owners inactive whose timeout has passed, except those with activity since then. If an expiry can't be written, the
    /// timeout starts again.
    pub(in crate::hub) async fn end_expired(self: &Arc<Self>, expired: Vec<Owner>) {
        for owner in expired {
            let ended = match &owner {
                Owner::Session(id) => self.expire_session(id).await,
                Owner::Machine(id) => self.expire_machine(id).await,
            };
            match ended {
                Ok(()) => {}
                Err(Error::NotFound(_) | Error::Forbidden(_)) => {
                    self.turn().liveness.stop(&owner);
                    self.rt.kv_delete(&alive_key(&owner));
                }
                Err(_) => self.turn().begin_timeout(owner),
            }
        }
        self.start_commit();
    }

    /// Cancels the pending requests of sessions that have been inactive for too long.
    pub(in crate::hub) async fn cancel_kept_requests(self: &Arc<Self>, sessions: Vec<String>) {
        for id in sessions {
            let canceled = self.with_field(&id, large::state_if_pending, |turn, stored| {
                // An active session, or one that has expired again since, keeps its requests.
                if !turn.cache.require_entry(&id)?.session.active && !turn.kept_requests.contains(&id) {
                    turn.cancel_pending(&id, stored)?;
                }
                Ok(turn.commit_waiter())
            });
            let canceled = match canceled.await {
                Ok(committed) => self.wait_for_commit(committed).await,
                Err(error) => Err(error),
            };
            let mut turn = self.turn();
            match canceled {
                _ if turn.kept_requests.contains(&id) => {}
                Ok(()) | Err(Error::NotFound(_) | Error::Forbidden(_)) => self.rt.kv_delete(&kept_requests_key(&id)),
                Err(_) => {
                    turn.kept_requests.set(&id, self.rt.now() + SESSION_TIMEOUT_MS);
                    let next = turn.kept_requests.next_deadline();
                    turn.request_alarm(next);
                }
            }
        }
    }
}

impl Turn<'_> {
    /// Restarts the timeout of an owner after activity on the socket `from`, and stores the time in the socket's attachment.
    /// `at`: when the frame arrived.
    pub(in crate::hub) fn record_keep_alive(&mut self, owner: Owner, from: ConnId, at: u64) {
        if self.state.liveness.record_keep_alive(owner.clone(), at) {
            self.store_timer(&owner);
        }
        let deadline = self.state.liveness.deadline(&owner);
        self.request_alarm(deadline);
        let is_due = |last: Option<u64>| last.is_none_or(|last| at >= last + MIN_ATTACHMENT_WRITE_INTERVAL_MS);
        // A socket that does not serve the owner yet does so after this event ([`Hub::add_served`]).
        if self.state.connections.of_owner(&owner).contains(&from)
            && let Some(cli) = self.state.connections.cli(from).filter(|cli| is_due(cli.last_keep_alive_at(&owner)))
        {
            let mut cli = cli.clone();
            cli.record_keep_alive(&owner, at);
            self.set_peer(from, Peer::Cli(cli));
        }
    }

    /// Restarts the timeout of an owner that is active, or whose expiry is being written, as soon as a frame with activity
    /// arrives: the frame may have to wait for the database or for earlier frames of its socket.
    pub(in crate::hub) fn record_arrival(&mut self, owner: Owner, from: ConnId, at: u64) {
        if self.state.liveness.has(&owner) {
            self.state.cache.set_active_at(&owner, at);
            self.record_keep_alive(owner, from, at);
        }
    }

    /// Starts the timeout of an owner without activity.
    pub(in crate::hub) fn begin_timeout(&mut self, owner: Owner) {
        if self.state.liveness.begin(owner.clone(), self.hub.rt.now()) {
            self.store_timer(&owner);
        }
        let deadline = self.state.liveness.deadline(&owner);
        self.request_alarm(deadline);
    }

    /// Starts the timeout of an owner that the database says is active, unless it runs or has just passed.
    pub(in crate::hub) fn start_timeout(&mut self, owner: Owner) {
        if !self.state.liveness.has(&owner) {
            self.begin_timeout(owner);
        }
    }

    /// Writes an owner's timeout to the object's storage.
    pub(in crate::hub) fn store_timer(&self, owner: &Owner) {
        self.hub.rt.kv_put(&alive_key(owner), &self.state.liveness.stored(owner).to_string());
    }
}
