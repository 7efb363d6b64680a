//! The object's only alarm. The hub sets it to the earliest deadline of all components, and does everything that is due
//! when it fires.

use crate::hub::turn::Turn;
use std::sync::{Arc, Weak};

use crate::hub::Hub;
use crate::hub::base::events::log::EventLog;
use crate::hub::base::state::State;
use crate::hub::base::storage_keys::{LAST_DB_STALL, LAST_TICK};
use crate::limits::{
    ALARM_RETRY_MS, CONNECT_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS, PING_INTERVAL_MS, RECENT_KEEP_ALIVE_MS,
};

impl Hub {
    async fn retry_alarm(&self, at: u64) {
        self.turn().schedule.alarm_failed(at);
        self.rt.sleep(ALARM_RETRY_MS).await;
        self.turn().arm();
    }

    /// Handles the alarm: does everything that is due, and sets the next alarm.
    pub fn on_alarm(self: &Arc<Self>) {
        let now = self.rt.now();
        let (due, is_idle, is_busy) = {
            let mut turn = self.turn();
            (turn.schedule.on_alarm(now), turn.is_idle(), turn.liveness.latest_start() + RECENT_KEEP_ALIVE_MS > now)
        };
        // An alarm between two ticks does not change when the next tick is due, so nothing is stored. Neither does a busy object
        // store the time: it stays in memory. If it is evicted nevertheless, the next instance does a superfluous tick.
        if !is_idle && (due.ping || due.heartbeat) && (due.is_first_tick || !is_busy) {
            self.rt.kv_put(LAST_TICK, &now.to_string());
        }
        self.turn().rpc.expire(now);
        self.turn().expire_resumes(now);
        self.turn().expire_connecting(now);
        if due.ping {
            self.ping_clis();
        }
        if due.heartbeat {
            self.turn().send_heartbeats();
            // After the heartbeats: they carry the event id from which a client with an expired token resumes.
            self.turn().close_expired(now);
        }
        self.turn().stop_expired_log(now);
        self.send_due(now);
        self.restart_timeouts_after_stall(now);
        let expired = self.turn().liveness.expire(now);
        if !expired.is_empty() {
            // In a task: a slow database must not delay the next ticks.
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.end_expired(expired).await }));
        }
        let kept = self.turn().kept_requests.take_due(now);
        if !kept.is_empty() {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.cancel_kept_requests(kept).await }));
        }
        if self.turn().sweep.begin(now) {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.sweep().await }));
        }
        self.turn().arm();
    }

    /// Restarts the timeouts of sessions and machines at the end of a stall of the database, or now during one, so that owners
    /// whose CLIs wait for the database do not expire. Probes an unreachable database.
    fn restart_timeouts_after_stall(self: &Arc<Self>, now: u64) {
        let Some(stalled_until) = self.db.stalled_until(now) else { return };
        if self.turn().liveness.restart_timers_before(stalled_until) {
            self.rt.kv_put(LAST_DB_STALL, &stalled_until.to_string());
        }
        if self.db.is_unreachable() {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.db.probe().await }));
        }
    }
}

impl Turn<'_> {
    /// Sets the alarm for the earliest deadline.
    pub(in crate::hub) fn arm(&mut self) {
        let next = self.state.next_deadline();
        self.request_alarm(next);
    }
}

impl Turn<'_> {
    /// Sets the alarm unless an earlier one is set.
    pub(in crate::hub) fn request_alarm(&mut self, at: Option<u64>) {
        // The runtime drops an alarm in the past that is set while one is being handled (measured).
        let now = self.hub.rt.now();
        let at = if self.state.schedule.is_alarm_lost(now) {
            at.into_iter().chain(self.state.next_deadline()).min()
        } else {
            at
        };
        let at = at.map(|at| at.max(now + 1));
        let Some(at) = at.filter(|at| self.state.schedule.request_alarm(*at, now)) else { return };
        let (set, hub) = (self.hub.rt.set_alarm(at), Weak::clone(&self.hub.this));
        self.hub.rt.spawn(Box::pin(async move {
            if !set.await
                && let Some(hub) = hub.upgrade()
            {
                hub.retry_alarm(at).await;
            }
        }));
    }

    /// Starts heartbeats and pings with the first client. Ticks before that are skipped.
    pub(in crate::hub) fn start_ticks(&mut self) {
        if self.state.is_idle() {
            let now = self.hub.rt.now();
            self.state.schedule.skip_ticks(now);
            self.hub.rt.kv_put(LAST_TICK, &now.to_string());
        }
    }
}

impl State {
    fn next_deadline(&self) -> Option<u64> {
        let deadlines = [
            self.connections.clis().next().map(|_| self.schedule.next_tick(PING_INTERVAL_MS)),
            self.connections.subscriptions().next().map(|_| self.schedule.next_tick(HEARTBEAT_INTERVAL_MS)),
            self.connections.awaiting_connect().map(|(_, connecting)| connecting.opened_at + CONNECT_TIMEOUT_MS).min(),
            self.log.as_ref().and_then(EventLog::ends_at),
            self.push.queue.next_deadline(),
            self.rpc.next_deadline(),
            self.liveness.next_deadline(),
            self.kept_requests.next_deadline(),
            self.sweep.next_deadline(),
            self.activation_waiters.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
