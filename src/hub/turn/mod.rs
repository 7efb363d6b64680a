//! A turn of the hub: an atomic step under the lock of the hub's state, without an await. It is not the turn of an agent. What all turns
//! need: the object's only alarm, set to the earliest deadline of all components, and the attachments of sockets.

pub mod deadlines;
pub mod effects;
pub mod outbox;

use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError};

use crate::hub::Hub;
use crate::hub::core::peers::connections::Peer;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::LAST_TICK;
use crate::limits::{HEARTBEAT_INTERVAL_MS, PING_INTERVAL_MS};

/// After this time, in milliseconds, the hub tries again to set an alarm that it failed to set.
const ALARM_RETRY_MS: u64 = 1_000;

/// Holds the lock of the hub's state. No other task runs before the turn is dropped. Must not be held across an await.
pub(in crate::hub) struct Turn<'a> {
    pub(in crate::hub) hub: &'a Hub,
    pub(in crate::hub) state: MutexGuard<'a, State>,
}

impl Hub {
    pub(in crate::hub) fn turn(&self) -> Turn<'_> {
        // Poisoning is ignored: in the deployed build a panic ends the whole instance (`platform::guard`).
        Turn { hub: self, state: self.state.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub(in crate::hub) fn write_attachment(&self, conn: ConnId, peer: &Peer) {
        self.rt.attach(conn, &serde_json::to_string(peer).unwrap_or_default());
    }
}

impl Deref for Turn<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Turn<'_> {
    pub fn request_alarm(&mut self, at: Option<u64>) {
        let now = self.hub.rt.now();
        let lost = self.state.schedule.is_alarm_lost(now).then(|| self.state.next_deadline()).flatten();
        // The runtime drops an alarm in the past that is set while another alarm is being handled (measured).
        let at = at.into_iter().chain(lost).min().map(|at| at.max(now + 1));
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
            self.state.schedule.last_tick_at = now;
            self.hub.rt.kv_put(LAST_TICK, &now.to_string());
        }
    }

    /// Sets the peer of a socket, in memory and in the attachment that survives hibernation.
    pub fn set_peer(&mut self, conn: ConnId, peer: Peer) {
        self.hub.write_attachment(conn, &peer);
        self.state.connections.insert(conn, peer);
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
