//! The inactivity deadlines of active sessions and machines (PROTOCOL-CLI.md "Liveness").
//!
//! Activity moves a deadline in memory, and writes neither to the database nor to storage. The attachment of a socket has the last
//! activity of each owner. The storage has a [`StoredDeadline`] for each active owner: the part of the deadline that is in no
//! attachment. So deadlines survive hibernation. After a restart, which closes all sockets, they start again.
//!
//! The pending permission requests of an inactive session have a deadline, too. If its CLI does not reconnect within
//! [`KEEP_REQUESTS_MS`], the requests are canceled.
//!
//! [`Reminders`] limit the rate of the events that repeat an unchanged presence to web clients.

use std::collections::BTreeMap;
use std::fmt;

use crate::hub::core::peers::rpc::{RECONNECT_GRACE_MS, RESTART_GRACE_MS};
use crate::limits::{MIN_ATTACHMENT_WRITE_INTERVAL_MS, PRESENCE_INTERVAL_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

/// How long the pending permission requests of an inactive session are kept, in milliseconds (PROTOCOL.md "States of a session").
pub const KEEP_REQUESTS_MS: u64 = 24 * 60 * 60_000;

/// When the requests of each session are canceled, in Unix milliseconds.
#[derive(Debug, Default)]
pub struct KeptRequests(BTreeMap<String, u64>);

impl KeptRequests {
    /// Sets the time at which the requests of a session are canceled.
    pub fn set(&mut self, session: &str, until: u64) {
        self.0.insert(session.to_owned(), until);
    }

    pub fn contains(&self, session: &str) -> bool {
        self.0.contains_key(session)
    }

    /// Removes and returns the sessions whose requests must be canceled now.
    pub fn take_due(&mut self, now: u64) -> Vec<String> {
        self.0.extract_if(.., |_, until| *until <= now).map(|(session, _)| session).collect()
    }

    /// Returns the Unix milliseconds at which the first requests are canceled.
    pub fn next_deadline(&self) -> Option<u64> {
        self.0.values().min().copied()
    }
}

/// How long a machine stays online after its last keep-alive, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const MACHINE_TIMEOUT_MS: u64 = 45_000;

/// The suffix of a [`StoredDeadline`] in storage if a CLI has ended the session.
const END_REQUESTED: &str = " end";

/// The part of a deadline that is in storage. Activity resets this part to the default; a disconnect or `session-end` sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredDeadline {
    /// The time when a socket closed, or of the last activity before a `session-end`, in Unix milliseconds.
    pub active_at: Option<u64>,
    /// Whether a CLI has ended the session while another CLI served the session.
    pub is_end_requested: bool,
}

impl StoredDeadline {
    /// Reads the text of a deadline in storage.
    pub fn parse(text: &str) -> Self {
        let time = text.strip_suffix(END_REQUESTED);
        Self { active_at: time.unwrap_or(text).parse().ok(), is_end_requested: time.is_some() }
    }
}

impl fmt::Display for StoredDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.active_at.iter().try_for_each(|at| write!(f, "{at}"))?;
        f.write_str(if self.is_end_requested { END_REQUESTED } else { "" })
    }
}

#[derive(Debug, Default)]
struct Deadline {
    /// The time from which the timeout counts, in Unix milliseconds.
    started_at: u64,
    /// The `activeAt` of clients: the last activity or disconnect. 0 if only the database has this time.
    active_at: u64,
    stored: StoredDeadline,
    /// The value of [`Liveness::reports`] at the last report of this session; 0 if there was none since the hub woke.
    last_report: u64,
    /// Whether the session expires when its CLI disconnects: it was aborted, and no report has followed. Lost in hibernation.
    expires_on_disconnect: bool,
    /// From when on the session counts as disconnected, because its last socket closed and no activity has followed.
    disconnected_from: Option<u64>,
    /// Whether web clients know that the session is disconnected. Lost in hibernation: they may then learn it twice.
    is_disconnect_published: bool,
}

/// The deadlines of a namespace.
#[derive(Debug, Default)]
pub struct Liveness {
    pending: BTreeMap<Owner, Deadline>,
    /// Deadlines that have passed. A deadline is removed when the change to inactive is written, or restarted by activity.
    expired: BTreeMap<Owner, Deadline>,
    /// The number of reports so far: times in milliseconds do not tell which of two reports came first.
    pub reports: u64,
}

impl Liveness {
    pub fn live_session_count(&self) -> usize {
        self.pending.keys().filter(|owner| matches!(owner, Owner::Session(_))).count()
    }

    /// Starts or restarts a deadline after activity. Returns whether storage must be updated.
    pub fn record_activity(&mut self, owner: Owner, at: u64) -> bool {
        let is_new = !self.has_deadline(&owner);
        let deadline = self.start(owner, at);
        deadline.active_at = deadline.active_at.max(at);
        is_new || std::mem::take(&mut deadline.stored) != StoredDeadline::default()
    }

    /// Counts a report, which is a `session-alive`. Other activity does not count.
    pub fn record_report(&mut self, session: &Owner) {
        self.reports += 1;
        if let Some(deadline) = self.pending.get_mut(session) {
            (deadline.last_report, deadline.expires_on_disconnect) = (self.reports, false);
        }
    }

    /// Keeps an aborted session active if a report of the session has come since there were `reports`.
    /// Such a session expires if its CLI disconnects before the next report. Returns whether the session is kept.
    pub fn keep_if_reported_after(&mut self, session: &Owner, reports: u64) -> bool {
        let deadline = self.pending.get_mut(session).filter(|deadline| deadline.last_report > reports);
        deadline.map(|deadline| deadline.expires_on_disconnect = true).is_some()
    }

    /// Starts or restarts a deadline, without changing `active_at`. Returns whether storage must be updated.
    pub fn start_without_activity(&mut self, owner: Owner, at: u64) -> bool {
        let is_new = !self.has_deadline(&owner);
        self.start(owner, at);
        is_new
    }

    fn start(&mut self, owner: Owner, at: u64) -> &mut Deadline {
        let expired = self.expired.remove(&owner);
        let deadline = self.pending.entry(owner).or_insert_with(|| expired.unwrap_or_default());
        deadline.started_at = deadline.started_at.max(at);
        deadline
    }

    /// Restores a deadline when the object wakes. `stored` is from storage. `attached_at` is the last activity in the attachments. If
    /// neither has a time, because a restart closed all sockets, the deadline starts now. Returns whether storage must be updated.
    pub fn restore(&mut self, owner: Owner, mut stored: StoredDeadline, attached_at: Option<u64>, now: u64) -> bool {
        let active_at = attached_at.max(stored.active_at);
        // An attachment is written at most once per interval, so the last activity may be later than `attached_at` by that much.
        let latest_attached_at = attached_at.map(|at| at + MIN_ATTACHMENT_WRITE_INTERVAL_MS);
        let started_at = latest_attached_at.max(stored.active_at).unwrap_or(now);
        let (is_restart, mut grace_ms) = (active_at.is_none(), RECONNECT_GRACE_MS);
        if is_restart {
            (stored.active_at, grace_ms) = (Some(now), RESTART_GRACE_MS);
        }
        let active_at = active_at.unwrap_or(0);
        let disconnected_from = stored.active_at.filter(|_| attached_at.is_none()).map(|at| at + grace_ms);
        let deadline = Deadline { started_at, active_at, stored, disconnected_from, ..Deadline::default() };
        self.pending.insert(owner, deadline);
        is_restart
    }

    /// Returns the part of a deadline that storage must hold.
    pub fn deadline_to_store(&self, owner: &Owner) -> StoredDeadline {
        self.get(owner).map_or(StoredDeadline::default(), |deadline| deadline.stored)
    }

    /// Returns the time of the last activity or disconnect in Unix milliseconds; 0 if only the database has it.
    pub fn active_at(&self, owner: &Owner) -> u64 {
        self.get(owner).map_or(0, |deadline| deadline.active_at)
    }

    /// Records that a CLI has ended the session, which ends at its deadline, unless activity moves that. Returns whether to update storage.
    pub fn request_end(&mut self, owner: &Owner) -> bool {
        let Some(deadline) = self.pending.get_mut(owner) else { return false };
        let last_known_at = if deadline.active_at == 0 { deadline.started_at } else { deadline.active_at };
        deadline.stored = StoredDeadline { active_at: Some(last_known_at), is_end_requested: true };
        true
    }

    /// Restarts a pending deadline, because a socket of the owner closed. `is_served`: whether another socket serves the owner.
    /// Returns whether storage must be updated.
    pub fn record_disconnect(&mut self, owner: &Owner, at: u64, is_served: bool) -> bool {
        let Some(deadline) = self.pending.get_mut(owner) else { return false };
        (deadline.started_at, deadline.active_at, deadline.stored.active_at) = (at, at, Some(at));
        if deadline.expires_on_disconnect && !is_served {
            deadline.started_at = at.saturating_sub(SESSION_TIMEOUT_MS);
        }
        (deadline.disconnected_from, deadline.is_disconnect_published) =
            ((!is_served).then_some(at + RECONNECT_GRACE_MS), false);
        true
    }

    pub fn record_connected(&mut self, owner: &Owner) {
        self.pending.get_mut(owner).into_iter().for_each(|deadline| deadline.disconnected_from = None);
    }

    /// Whether no CLI is connected to an active session, and none has reconnected in time.
    pub fn is_disconnected(&self, session: &Owner, now: u64) -> bool {
        self.get(session).and_then(|deadline| deadline.disconnected_from).is_some_and(|from| from <= now)
    }

    /// Returns the ids of the sessions that have become disconnected since the last call.
    pub fn take_disconnected(&mut self, now: u64) -> Vec<String> {
        let due = self.pending.iter_mut().filter_map(|(owner, deadline)| {
            let is_due = publishes_disconnect_at(owner, deadline).is_some_and(|at| at <= now);
            deadline.is_disconnect_published |= is_due;
            is_due.then(|| owner.id().to_owned())
        });
        due.collect()
    }

    /// Moves the start of all deadlines that started before `at` to `at`. Returns whether there are any.
    pub fn restart_deadlines_before(&mut self, at: u64) -> bool {
        let mut earlier = self.pending.values_mut().filter(|deadline| deadline.started_at < at).peekable();
        let has_any = earlier.peek().is_some();
        earlier.for_each(|deadline| deadline.started_at = at);
        has_any
    }

    /// Returns when the last deadline was started or restarted, in Unix milliseconds; 0 if none is pending.
    pub fn latest_start(&self) -> u64 {
        self.pending.values().map(|deadline| deadline.started_at).max().unwrap_or(0)
    }

    /// Whether an owner is active and its deadline has not passed.
    pub fn is_live(&self, owner: &Owner) -> bool {
        self.pending.contains_key(owner)
    }

    /// Whether the deadline of an owner has passed, and the change to inactive is being written.
    pub fn is_expired(&self, owner: &Owner) -> bool {
        self.expired.contains_key(owner)
    }

    /// Whether an owner has a deadline, pending or passed.
    pub fn has_deadline(&self, owner: &Owner) -> bool {
        self.get(owner).is_some()
    }

    pub fn stop(&mut self, owner: &Owner) {
        self.pending.remove(owner);
        self.expired.remove(owner);
    }

    /// Expires the deadlines that have passed. Returns their owners.
    pub fn expire(&mut self, now: u64) -> Vec<Owner> {
        let expired: Vec<_> =
            self.pending.extract_if(.., |owner, deadline| expires_at(owner, deadline) <= now).collect();
        let owners = expired.iter().map(|(owner, _)| owner.clone()).collect();
        self.expired.extend(expired);
        owners
    }

    /// Returns when an owner next expires, or counts as disconnected.
    pub fn deadline(&self, owner: &Owner) -> Option<u64> {
        self.pending.get(owner).map(|deadline| next_change_at(owner, deadline))
    }

    /// Returns the earliest [`deadline`](Self::deadline).
    pub fn next_deadline(&self) -> Option<u64> {
        self.pending.iter().map(|(owner, deadline)| next_change_at(owner, deadline)).min()
    }

    fn get(&self, owner: &Owner) -> Option<&Deadline> {
        self.pending.get(owner).or_else(|| self.expired.get(owner))
    }
}

fn expires_at(owner: &Owner, deadline: &Deadline) -> u64 {
    deadline.started_at
        + match owner {
            Owner::Session(_) => SESSION_TIMEOUT_MS,
            Owner::Machine(_) => MACHINE_TIMEOUT_MS,
        }
}

fn publishes_disconnect_at(owner: &Owner, deadline: &Deadline) -> Option<u64> {
    let is_expected = matches!(owner, Owner::Session(_)) && !deadline.is_disconnect_published;
    deadline.disconnected_from.filter(|_| is_expected)
}

fn next_change_at(owner: &Owner, deadline: &Deadline) -> u64 {
    let expires_at = expires_at(owner, deadline);
    publishes_disconnect_at(owner, deadline).map_or(expires_at, |at| at.min(expires_at))
}

/// The most reminders that are sent per millisecond, counted once for each web client that receives them.
const REMINDERS_PER_MS: u64 = 5;

/// The rate limit of the reminders of all sessions of a namespace.
#[derive(Debug, Default)]
pub struct Reminders {
    next_at: u64,
}

impl Reminders {
    pub fn is_allowed(&self, now: u64) -> bool {
        // If the clock was set back, a time that was computed before is too far in the future.
        now >= self.next_at || self.next_at > now + PRESENCE_INTERVAL_MS
    }

    pub fn record(&mut self, web_clients: usize, now: u64) {
        self.next_at = now + web_clients as u64 / REMINDERS_PER_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_restored_from_storage_and_attachments() {
        let session = Owner::Session("s".into());
        let restored = |stored: &str, attached_at| {
            let mut liveness = Liveness::default();
            let must_store = liveness.restore(session.clone(), StoredDeadline::parse(stored), attached_at, 9_000);
            let text = liveness.deadline_to_store(&session).to_string();
            (liveness.next_deadline().unwrap(), liveness.active_at(&session), must_store, text)
        };
        assert_eq!(restored("", Some(2_000)), (33_000, 2_000, false, "".into()));
        assert_eq!(restored("4000", Some(2_000)), (34_000, 4_000, false, "4000".into()));
        assert_eq!(restored("4000 end", None), (6_000, 4_000, false, "4000 end".into()), "disconnected");
        assert_eq!(
            restored("", None),
            (19_000, 0, true, "9000".into()),
            "after a restart, CLIs have 10 s to reconnect"
        );
    }

    #[test]
    fn the_pause_between_reminders_grows_with_the_number_of_web_clients() {
        let mut reminders = Reminders::default();
        reminders.record(4, 1_000);
        assert!(reminders.is_allowed(1_000));
        reminders.record(200, 1_000);
        assert!(!reminders.is_allowed(1_039));
        assert!(reminders.is_allowed(1_040));
        reminders.record(200, 3_600_000);
        assert!(reminders.is_allowed(1_000), "the clock went back");
    }
}
