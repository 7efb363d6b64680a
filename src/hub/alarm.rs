//! The handler of the object's alarm, which does everything that is due.

use futures::TryFutureExt;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::handshake::NO_CONNECT;
use crate::hub::core::storage_keys::{KEPT_REQUESTS, LAST_DB_STALL, LAST_TICK, deadline_key};
use crate::hub::sessions::load::state_if_pending;
use crate::limits::SESSION_TIMEOUT_MS;
use crate::model::owner::Owner;

/// If the last keep-alive is younger than this, in milliseconds, the object is expected to stay in memory until the next tick.
const RECENT_KEEP_ALIVE_MS: u64 = 5_000;

impl Hub {
    pub fn on_alarm(&self) {
        let mut turn = self.turn();
        if turn.closed_for.is_some() {
            // The hub that opens the namespace sets the next alarm.
            return;
        }
        let now = self.rt.now();
        let due = turn.schedule.on_alarm(now);
        let is_busy = turn.liveness.latest_start() + RECENT_KEEP_ALIVE_MS > now;
        let is_tick = turn.connections.has_clients() && (due.is_ping_due || due.is_heartbeat_due);
        // The next instance computes its next tick from this time. A busy object does not store the time, because it is expected to
        // stay in memory. If the platform evicts it, the next instance sends one tick too many.
        if is_tick && (due.is_first_tick || !is_busy) {
            self.rt.kv_put(LAST_TICK, &now.to_string());
        }
        turn.rpc.expire(now);
        turn.expire_resumes(now);
        turn.disconnect_where(NO_CONNECT, |connection| connection.missed_connect(now));
        if due.is_ping_due {
            turn.ping_clis(now);
        }
        if due.is_heartbeat_due {
            turn.send_heartbeats();
            // After the heartbeats: they carry the event id from which a client with an expired token resumes.
            turn.disconnect_where((4401, "Token expired: reconnect with a new one"), |client| client.is_expired(now));
        }
        turn.stop_expired_log(now);
        drop(turn);
        self.start_due_deliveries(now);
        self.restart_deadlines_after_stall(now);
        let expired = self.turn().liveness.expire(now);
        if !expired.is_empty() {
            // In a task, because a slow database must not delay the next ticks.
            self.spawn(|hub| async move { hub.deactivate_expired(expired).await });
        }
        self.publish_disconnected(now);
        let overdue = self.turn().kept_requests.take_due(now);
        if !overdue.is_empty() {
            self.spawn(|hub| async move { hub.cancel_kept_requests(overdue).await });
        }
        if self.turn().sweep.begin(now) {
            self.spawn(|hub| async move { hub.sweep().await });
        }
        if self.turn().retention.begin(now) {
            self.spawn(|hub| async move { hub.delete_old_data().await });
        }
        self.turn().set_next_alarm();
    }

    /// Restarts all deadlines during a stall of the database and once after it: CLIs may have waited for it. Probes an unreachable one.
    fn restart_deadlines_after_stall(&self, now: u64) {
        let Some(last_stalled_at) = self.db.last_stalled_at(now) else { return };
        if self.turn().liveness.restart_deadlines_before(last_stalled_at) {
            self.rt.kv_put(LAST_DB_STALL, &last_stalled_at.to_string());
        }
        if self.db.is_unreachable() {
            self.spawn(|hub| async move { hub.db.probe().await });
        }
    }

    /// Makes owners whose deadline has passed inactive, unless activity has restarted it. Restarts the deadline if the write fails.
    async fn deactivate_expired(&self, expired: Vec<Owner>) {
        for owner in expired {
            let deactivated = match &owner {
                Owner::Session(id) => self.expire_session(id).await,
                Owner::Machine(id) => self.expire_machine(id).await,
            };
            match deactivated {
                Ok(()) => {}
                Err(Error::NotFound(_) | Error::Forbidden(_)) => {
                    self.turn().liveness.stop(&owner);
                    self.rt.kv_delete(&deadline_key(&owner));
                }
                Err(_) => self.turn().start_deadline(owner),
            }
        }
        self.start_commit();
    }

    /// Cancels the pending requests of sessions that have been inactive for too long.
    async fn cancel_kept_requests(&self, sessions: Vec<String>) {
        for id in sessions {
            let cancel = self.with_field(&id, state_if_pending, |turn, stored| {
                // The session keeps its requests if it is active again, or if its requests have a new deadline.
                if turn.cache.require_entry(&id)?.session.active || turn.kept_requests.contains(&id) {
                    return Ok(());
                }
                turn.cancel_pending(&id, stored)
            });
            let canceled = cancel.and_then(|()| self.flush()).await;
            let mut turn = self.turn();
            match canceled {
                _ if turn.kept_requests.contains(&id) => {}
                Ok(()) | Err(Error::NotFound(_) | Error::Forbidden(_)) => {
                    self.rt.kv_delete(&format!("{KEPT_REQUESTS}{id}"));
                }
                Err(_) => {
                    turn.kept_requests.set(&id, self.rt.now() + SESSION_TIMEOUT_MS);
                    turn.request_alarm(turn.kept_requests.next_deadline());
                }
            }
        }
    }
}
