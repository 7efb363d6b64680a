//! The inactivity timers of active sessions and machines (PROTOCOL.md "Liveness").
//!
//! A keep-alive moves a deadline in memory; it writes neither to the database nor to the object's storage. Storage holds
//! which timers run and when the last socket of each closed. A socket's attachment holds the time of its last keep-alive. So
//! timers continue after hibernation. They restart after a restart of the hub, which closes all sockets.

use std::collections::BTreeMap;

use crate::limits::{MACHINE_TIMEOUT_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

#[derive(Debug)]
struct Timer {
    started_at: u64,
    /// The `activeAt` of clients: the last keep-alive or disconnect. 0 if only the database knows it.
    active_at: u64,
    /// Whether storage holds the time of the disconnect.
    is_disconnected: bool,
}

/// The timers of a namespace.
#[derive(Debug, Default)]
pub struct Liveness {
    timers: BTreeMap<Owner, Timer>,
}

impl Liveness {
    /// Starts or restarts a timer. Returns whether storage must be updated: it holds no timer, or the time of a disconnect.
    pub fn record_keep_alive(&mut self, owner: Owner, at: u64) -> bool {
        match self.timers.get_mut(&owner) {
            Some(timer) => {
                timer.started_at = timer.started_at.max(at);
                timer.active_at = timer.active_at.max(at);
                std::mem::take(&mut timer.is_disconnected)
            }
            None => {
                self.timers.insert(owner, Timer { started_at: at, active_at: at, is_disconnected: false });
                true
            }
        }
    }

    /// Starts or restarts a timer without a keep-alive. Returns the same as [`record_keep_alive`](Self::record_keep_alive).
    pub fn start(&mut self, owner: Owner, at: u64) -> bool {
        if let Some(timer) = self.timers.get_mut(&owner) {
            timer.started_at = timer.started_at.max(at);
            return std::mem::take(&mut timer.is_disconnected);
        }
        self.timers.insert(owner, Timer { started_at: at, active_at: 0, is_disconnected: false });
        true
    }

    /// Restores a timer when the object wakes. `active_at` is `None` if the time was lost in a restart. `is_disconnected`:
    /// whether storage holds the time of the disconnect.
    pub fn restore(&mut self, owner: Owner, started_at: u64, active_at: Option<u64>, is_disconnected: bool) {
        self.timers.insert(owner, Timer { started_at, active_at: active_at.unwrap_or(0), is_disconnected });
    }

    /// Returns the time of the last keep-alive or disconnect in Unix milliseconds; 0 if only the database knows it.
    pub fn active_at(&self, owner: &Owner) -> u64 {
        self.timers.get(owner).map_or(0, |timer| timer.active_at)
    }

    /// Restarts a timer, if it runs, because the owner's last socket closed.
    pub fn record_disconnect(&mut self, owner: &Owner, at: u64) {
        if let Some(timer) = self.timers.get_mut(owner) {
            *timer = Timer { started_at: at, active_at: at, is_disconnected: true };
        }
    }

    /// Whether a timer runs.
    pub fn is_running(&self, owner: &Owner) -> bool {
        self.timers.contains_key(owner)
    }

    /// Stops a timer.
    pub fn stop(&mut self, owner: &Owner) {
        self.timers.remove(owner);
    }

    /// Removes the expired timers. Returns their owners with [`active_at`](Self::active_at).
    pub fn take_expired(&mut self, now: u64) -> Vec<(Owner, u64)> {
        let expired = self.timers.extract_if(.., |owner, timer| deadline(owner, timer) <= now);
        expired.map(|(owner, timer)| (owner, timer.active_at)).collect()
    }

    /// Returns the time when the next timer expires.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.iter().map(|(owner, timer)| deadline(owner, timer)).min()
    }
}

fn deadline(owner: &Owner, timer: &Timer) -> u64 {
    timer.started_at
        + match owner {
            Owner::Session(_) => SESSION_TIMEOUT_MS,
            Owner::Machine(_) => MACHINE_TIMEOUT_MS,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_expires_30_s_and_a_machine_45_s_after_the_last_keep_alive() {
        let (session, machine) = (Owner::Session("s".into()), Owner::Machine("m".into()));
        let mut liveness = Liveness::default();
        liveness.record_keep_alive(session.clone(), 1_000);
        liveness.record_keep_alive(machine.clone(), 1_000);
        liveness.record_keep_alive(session.clone(), 2_000);
        assert_eq!(liveness.next_deadline(), Some(32_000));
        assert!(liveness.take_expired(31_999).is_empty());
        assert_eq!(liveness.take_expired(32_000), vec![(session, 2_000)]);
        assert_eq!(liveness.next_deadline(), Some(46_000));
        assert_eq!(liveness.take_expired(46_000), vec![(machine, 1_000)]);
        assert_eq!(liveness.next_deadline(), None);
    }

    #[test]
    fn storage_is_updated_when_a_timer_starts_and_after_a_disconnect_but_not_for_each_keep_alive() {
        let session = Owner::Session("s".into());
        let mut liveness = Liveness::default();
        liveness.record_disconnect(&session, 500);
        assert!(!liveness.is_running(&session), "a disconnect starts no timer");
        assert!(liveness.record_keep_alive(session.clone(), 1_000));
        assert!(!liveness.record_keep_alive(session.clone(), 9_000));
        liveness.record_disconnect(&session, 10_000);
        assert_eq!(liveness.next_deadline(), Some(40_000));
        assert!(liveness.record_keep_alive(session.clone(), 11_000));
        assert!(!liveness.record_keep_alive(session, 12_000));
    }

    #[test]
    fn a_timer_that_starts_without_a_keep_alive_does_not_change_active_at() {
        let (started, restored) = (Owner::Session("started".into()), Owner::Session("restored".into()));
        let mut liveness = Liveness::default();
        assert!(liveness.start(started.clone(), 1_000));
        liveness.restore(restored.clone(), 1_000, None, false);
        assert_eq!((liveness.active_at(&started), liveness.active_at(&restored)), (0, 0));
        assert_eq!(liveness.next_deadline(), Some(31_000));
        liveness.record_keep_alive(started.clone(), 2_000);
        liveness.record_disconnect(&restored, 3_000);
        assert_eq!((liveness.active_at(&started), liveness.active_at(&restored)), (2_000, 3_000));
    }
}
