//! The object's one alarm, and the ticks of heartbeats and pings.
//!
//! The alarm is moved only to an earlier time, because setting it is a billed write. Ticks are at multiples of their interval in
//! Unix time: a wake between two ticks does not delay the next tick.

use crate::limits::{HEARTBEAT_INTERVAL_MS, PING_INTERVAL_MS};

/// The hub sets an alarm again when it is overdue by more than this, in milliseconds: the platform's alarms can be a minute late.
const LATE_ALARM_MS: u64 = 60_000;

/// Returns the first tick after a time.
pub fn next_tick(after: u64, interval_ms: u64) -> u64 {
    (after / interval_ms + 1) * interval_ms
}

/// The time to which the alarm is set, and the last tick.
#[derive(Debug, Default)]
pub struct Schedule {
    alarm_at: Option<u64>,
    /// Ticks up to this time, in Unix milliseconds, are done, or were skipped.
    pub last_tick_at: u64,
    /// Whether a tick was done since the object started.
    has_ticked: bool,
}

impl Schedule {
    /// Creates a schedule without an alarm, in which ticks up to `last_tick_at` are done.
    pub fn new(last_tick_at: u64) -> Self {
        Self { alarm_at: None, last_tick_at, has_ticked: false }
    }

    /// Returns the time of the next tick; a time in the past if the tick was missed.
    pub fn next_tick(&self, interval_ms: u64) -> u64 {
        next_tick(self.last_tick_at, interval_ms)
    }

    /// Whether the alarm is overdue by more than [`LATE_ALARM_MS`].
    pub fn is_alarm_lost(&self, now: u64) -> bool {
        self.alarm_at.is_some_and(|alarm_at| alarm_at + LATE_ALARM_MS < now)
    }

    /// Records an alarm at `at`, unless an earlier one is set and not lost. Returns whether the caller must set the alarm.
    pub fn record_if_earlier(&mut self, at: u64, now: u64) -> bool {
        let must_set = self.is_alarm_lost(now) || self.alarm_at.is_none_or(|alarm_at| at < alarm_at);
        if must_set {
            self.alarm_at = Some(at);
        }
        must_set
    }

    /// Records that the alarm could not be set to `at`. Does nothing if another alarm was recorded since.
    pub fn on_set_failed(&mut self, at: u64) {
        if self.alarm_at == Some(at) {
            self.alarm_at = None;
        }
    }

    /// Records that the alarm fired, and returns the ticks that are due.
    pub fn on_alarm(&mut self, now: u64) -> DueTicks {
        let last_tick_at = std::mem::replace(&mut self.last_tick_at, now);
        self.alarm_at = None;
        let is_due = |interval_ms: u64| next_tick(last_tick_at, interval_ms) <= now;
        let (is_heartbeat_due, is_ping_due) = (is_due(HEARTBEAT_INTERVAL_MS), is_due(PING_INTERVAL_MS));
        let is_first_tick = !self.has_ticked;
        self.has_ticked |= is_heartbeat_due || is_ping_due;
        DueTicks { is_heartbeat_due, is_ping_due, is_first_tick }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct DueTicks {
    pub is_heartbeat_due: bool,
    pub is_ping_due: bool,
    /// Whether no tick was done since the object started.
    pub is_first_tick: bool,
}
