//! The inactivity timers of active sessions and machines (PROTOCOL-CLI.md "Liveness").
//!
//! Activity moves a deadline in memory; it writes neither to the database nor to the object's storage. The attachment of a socket
//! holds the time of the last activity of each owner. The storage has a [`StoredTimer`] for each running timer, with what no
//! attachment has. So timers continue after hibernation. After a restart of the hub, which closes all sockets, timers start again.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{MACHINE_TIMEOUT_MS, MIN_ATTACHMENT_WRITE_INTERVAL_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

/// The suffix of a [`StoredTimer`] in storage if a CLI has ended the session.
const END_REQUESTED: &str = " end";

/// The part of a timer that is in storage. Activity resets it to the default; a disconnect or `session-end` sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredTimer {
    /// The time when a socket closed, or of the last activity before a `session-end`, in Unix milliseconds.
    pub active_at: Option<u64>,
    /// Whether a CLI has ended the session while another one served it.
    pub is_end_requested: bool,
}

impl StoredTimer {
    /// Reads the text of a timer in storage.
    pub fn parse(text: &str) -> Self {
        let time = text.strip_suffix(END_REQUESTED);
        Self { active_at: time.unwrap_or(text).parse().ok(), is_end_requested: time.is_some() }
    }
}

impl fmt::Display for StoredTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.active_at.iter().try_for_each(|at| write!(f, "{at}"))?;
        f.write_str(if self.is_end_requested { END_REQUESTED } else { "" })
    }
}

#[derive(Debug, Default)]
struct Timer {
    started_at: u64,
    /// The `activeAt` of clients: the last activity or disconnect. 0 if only the database has it.
    active_at: u64,
    stored: StoredTimer,
    /// The value of [`Liveness::reports`] at the last report of this session; 0 if there was none since the hub woke.
    last_report: u64,
    /// Whether the session expires when its CLI disconnects: it was aborted, and no report has followed. Lost in hibernation.
    expires_on_disconnect: bool,
}

/// The timers of a namespace.
#[derive(Debug, Default)]
pub struct Liveness {
    running: BTreeMap<Owner, Timer>,
    /// Expired timers. They are removed when the change to inactive is written, or restarted by activity.
    expired: BTreeMap<Owner, Timer>,
    /// The number of reports so far. Counted, because times in milliseconds do not tell which of two reports came first.
    reports: u64,
}

impl Liveness {
    /// Starts or restarts a timer after activity. Returns whether storage must be updated.
    pub fn record_keep_alive(&mut self, owner: Owner, at: u64) -> bool {
        let is_new = !self.has_timer(&owner);
        let timer = self.start(owner, at);
        timer.active_at = timer.active_at.max(at);
        is_new || std::mem::take(&mut timer.stored) != StoredTimer::default()
    }

    /// Counts a report, which is a `session-alive`. Other activity does not count.
    pub fn record_report(&mut self, session: &Owner) {
        self.reports += 1;
        if let Some(timer) = self.running.get_mut(session) {
            (timer.last_report, timer.expires_on_disconnect) = (self.reports, false);
        }
    }

    /// Returns the number of reports so far.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Keeps an aborted session active if a report of it came after the first `reports` reports. Such a session expires if its CLI
    /// disconnects before the next report. Returns whether the session is kept.
    pub fn keep_if_reported_after(&mut self, session: &Owner, reports: u64) -> bool {
        let timer = self.running.get_mut(session).filter(|timer| timer.last_report > reports);
        timer.map(|timer| timer.expires_on_disconnect = true).is_some()
    }

    /// Starts or restarts a timer, without changing `active_at`. Returns whether storage must be updated.
    pub fn start_without_activity(&mut self, owner: Owner, at: u64) -> bool {
        let is_new = !self.has_timer(&owner);
        self.start(owner, at);
        is_new
    }

    fn start(&mut self, owner: Owner, at: u64) -> &mut Timer {
        let expired = self.expired.remove(&owner);
        let timer = self.running.entry(owner).or_insert_with(|| expired.unwrap_or_default());
        timer.started_at = timer.started_at.max(at);
        timer
    }

    /// Restores a timer when the object wakes. `stored` is from storage, `attached_at` is the last activity in the attachments. If
    /// both lack a time, because a restart closed all sockets, the timer starts now. Returns whether storage must be updated.
    pub fn restore(&mut self, owner: Owner, mut stored: StoredTimer, attached_at: Option<u64>, now: u64) -> bool {
        let active_at = attached_at.max(stored.active_at);
        // Activity within the interval after the stored time is not written to the attachment.
        let latest_attached_at = attached_at.map(|at| at + MIN_ATTACHMENT_WRITE_INTERVAL_MS);
        let started_at = latest_attached_at.max(stored.active_at).unwrap_or(now);
        if active_at.is_none() {
            stored.active_at = Some(now);
        }
        let timer = Timer { started_at, active_at: active_at.unwrap_or(0), stored, ..Timer::default() };
        self.running.insert(owner, timer);
        active_at.is_none()
    }

    /// Returns the timer as storage must hold it.
    pub fn stored_timer(&self, owner: &Owner) -> StoredTimer {
        self.timer(owner).map_or(StoredTimer::default(), |timer| timer.stored)
    }

    /// Returns the time of the last activity or disconnect in Unix milliseconds; 0 if only the database has it.
    pub fn active_at(&self, owner: &Owner) -> u64 {
        self.timer(owner).map_or(0, |timer| timer.active_at)
    }

    /// Records that a CLI has ended the session: it ends when its timer expires, unless activity restarts the timer. Returns
    /// whether storage must be updated.
    pub fn request_end(&mut self, owner: &Owner) -> bool {
        let Some(timer) = self.running.get_mut(owner) else { return false };
        let last_known_at = if timer.active_at == 0 { timer.started_at } else { timer.active_at };
        timer.stored = StoredTimer { active_at: Some(last_known_at), is_end_requested: true };
        true
    }

    /// Restarts a timer, if it runs, because a socket of the owner closed. `is_served`: whether another socket serves the owner.
    /// Returns whether storage must be updated.
    pub fn record_disconnect(&mut self, owner: &Owner, at: u64, is_served: bool) -> bool {
        let Some(timer) = self.running.get_mut(owner) else { return false };
        (timer.started_at, timer.active_at, timer.stored.active_at) = (at, at, Some(at));
        if timer.expires_on_disconnect && !is_served {
            timer.started_at = at.saturating_sub(SESSION_TIMEOUT_MS);
        }
        true
    }

    /// Restarts the timers that started before `at`, as if they had started then. Returns whether there are any.
    pub fn restart_timers_before(&mut self, at: u64) -> bool {
        let mut earlier = self.running.values_mut().filter(|timer| timer.started_at < at).peekable();
        let has_any = earlier.peek().is_some();
        earlier.for_each(|timer| timer.started_at = at);
        has_any
    }

    /// Returns when the last timer was started or restarted, in Unix milliseconds; 0 if none runs.
    pub fn latest_start(&self) -> u64 {
        self.running.values().map(|timer| timer.started_at).max().unwrap_or(0)
    }

    /// Whether a timer runs.
    pub fn is_running(&self, owner: &Owner) -> bool {
        self.running.contains_key(owner)
    }

    /// Whether a timer has expired and the end of its owner is being written.
    pub fn is_expired(&self, owner: &Owner) -> bool {
        self.expired.contains_key(owner)
    }

    /// Whether a timer runs or has expired.
    pub fn has_timer(&self, owner: &Owner) -> bool {
        self.timer(owner).is_some()
    }

    /// Stops a timer.
    pub fn stop(&mut self, owner: &Owner) {
        self.running.remove(owner);
        self.expired.remove(owner);
    }

    /// Expires the timers whose deadline has passed. Returns their owners.
    pub fn expire(&mut self, now: u64) -> Vec<Owner> {
        let expired: Vec<_> = self.running.extract_if(.., |owner, timer| deadline(owner, timer) <= now).collect();
        let owners = expired.iter().map(|(owner, _)| owner.clone()).collect();
        self.expired.extend(expired);
        owners
    }

    /// Returns the time when an owner's timer expires; `None` if it does not run.
    pub fn deadline(&self, owner: &Owner) -> Option<u64> {
        self.running.get(owner).map(|timer| deadline(owner, timer))
    }

    /// Returns the time when the next timer expires.
    pub fn next_deadline(&self) -> Option<u64> {
        self.running.iter().map(|(owner, timer)| deadline(owner, timer)).min()
    }

    fn timer(&self, owner: &Owner) -> Option<&Timer> {
        self.running.get(owner).or_else(|| self.expired.get(owner))
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
    fn a_timer_is_restored_from_storage_and_attachments() {
        let session = Owner::Session("s".into());
        let restored = |stored: &str, attached_at| {
            let mut liveness = Liveness::default();
            let must_store = liveness.restore(session.clone(), StoredTimer::parse(stored), attached_at, 9_000);
            let text = liveness.stored_timer(&session).to_string();
            (liveness.next_deadline().unwrap(), liveness.active_at(&session), must_store, text)
        };
        assert_eq!(restored("", Some(2_000)), (33_000, 2_000, false, "".into()));
        assert_eq!(restored("4000", Some(2_000)), (34_000, 4_000, false, "4000".into()));
        assert_eq!(restored("4000 end", None), (34_000, 4_000, false, "4000 end".into()));
        assert_eq!(restored("", None), (39_000, 0, true, "9000".into()), "after a restart");
    }
}
