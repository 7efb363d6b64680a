//! The object's only alarm, which is set to the earliest deadline of all components.

use crate::hub::core::state::State;
use crate::hub::core::storage_keys::LAST_TICK;
use crate::hub::turn::Turn;
use crate::limits::{HEARTBEAT_INTERVAL_MS, PING_INTERVAL_MS};

/// After this time, in milliseconds, the hub tries again to set an alarm that it failed to set.
const ALARM_RETRY_MS: u64 = 1_000;

impl Turn<'_> {
    pub fn request_alarm(&mut self, at: Option<u64>) {
        let now = self.hub.rt.now();
        let at = if self.state.schedule.is_alarm_lost(now) {
            at.into_iter().chain(self.state.next_deadline()).min()
        } else {
            at
        };
        // The runtime drops an alarm in the past that is set while another alarm is being handled (measured).
        let at = at.map(|at| at.max(now + 1));
        let Some(at) = at.filter(|at| self.state.schedule.record_if_earlier(*at, now)) else { return };
        let set = self.hub.rt.set_alarm(at);
        self.hub.spawn(|hub| async move {
            if !set.await {
                hub.turn().schedule.on_set_failed(at);
                hub.rt.sleep(ALARM_RETRY_MS).await;
                hub.turn().set_next_alarm();
            }
        });
    }

    pub fn set_next_alarm(&mut self) {
        self.request_alarm(self.state.next_deadline());
    }

    /// Starts heartbeats and pings when the first client connects. Skips the ticks that were missed without clients.
    pub fn start_ticks(&mut self) {
        if !self.state.connections.has_clients() {
            let now = self.hub.rt.now();
            self.state.schedule.skip_ticks(now);
            self.hub.rt.kv_put(LAST_TICK, &now.to_string());
        }
    }
}

impl State {
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines = [
            self.connections.clis().next().map(|_| self.schedule.next_tick(PING_INTERVAL_MS)),
            self.connections.subscriptions().next().map(|_| self.schedule.next_tick(HEARTBEAT_INTERVAL_MS)),
            self.connections.awaiting_connect().map(|(_, connecting)| connecting.expires_at()).min(),
            self.events.logging_ends_at(),
            self.push.queue.next_deadline(),
            self.rpc.next_deadline(),
            self.liveness.next_deadline(),
            self.kept_requests.next_deadline(),
            self.sweep.next_deadline(),
            self.retention.due_at,
            self.activation_waiters.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
