//! The object's one alarm: set to the earliest of all deadlines, moved only when an earlier one comes up.
//!
//! Heartbeats and pings beat on the wall clock (at its whole half minutes and minutes), so that a wake in between does
//! not put them off.

use crate::hub::limits::{HEARTBEAT_INTERVAL_MS, PING_INTERVAL_MS};

/// The next beat after a moment.
pub fn next_beat(now: u64, every: u64) -> u64 {
    (now / every + 1) * every
}

/// What the alarm is set to.
#[derive(Debug, Default)]
pub struct Schedule {
    armed: Option<u64>,
    /// Beats up to this moment have been sounded, or nobody was there to hear them.
    beaten: u64,
}

impl Schedule {
    /// A schedule that takes up beats after this moment.
    pub fn beaten_until(beaten: u64) -> Self {
        Self { armed: None, beaten }
    }

    /// Beats up to now count as sounded.
    pub fn begin(&mut self, now: u64) {
        self.beaten = now;
    }

    /// When the next beat of an interval is due; in the past when it was missed.
    pub fn next_beat(&self, every: u64) -> u64 {
        next_beat(self.beaten, every)
    }

    /// Asks for an alarm at a moment; `true` when it has to be set because none comes as early.
    pub fn want(&mut self, at: u64) -> bool {
        let earlier = self.armed.is_none_or(|armed| at < armed);
        if earlier {
            self.armed = Some(at);
        }
        earlier
    }

    /// The alarm could not be set to this moment: unless another one was wanted since, none is.
    pub fn failed(&mut self, at: u64) {
        if self.armed == Some(at) {
            self.armed = None;
        }
    }

    /// The alarm went off: nothing is set any more. Answers whether beats of the two intervals are due.
    pub fn ring(&mut self, now: u64) -> Beats {
        let since = std::mem::replace(&mut self.beaten, now);
        self.armed = None;
        let due = |every: u64| next_beat(since, every) <= now;
        Beats { heartbeat: due(HEARTBEAT_INTERVAL_MS), ping: due(PING_INTERVAL_MS) }
    }
}

/// Which beats are due.
#[derive(Debug, PartialEq, Eq)]
pub struct Beats {
    /// That of web clients.
    pub heartbeat: bool,
    /// That of CLIs.
    pub ping: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_moves_the_alarm() {
        let mut schedule = Schedule::default();
        assert!(schedule.want(100));
        assert!(!schedule.want(100));
        assert!(!schedule.want(200));
        assert!(schedule.want(50));
        schedule.ring(50);
        assert!(schedule.want(200));
    }

    #[test]
    fn an_alarm_that_could_not_be_set_is_wanted_anew() {
        let mut schedule = Schedule::default();
        assert!(schedule.want(100));
        schedule.failed(100);
        assert!(schedule.want(200));
        assert!(schedule.want(50));
        schedule.failed(200);
        assert!(!schedule.want(60), "the one at 50 stands");
    }

    #[test]
    fn each_beat_sounds_once_wherever_the_alarm_falls() {
        let mut schedule = Schedule::beaten_until(60_500);
        let none = Beats { heartbeat: false, ping: false };
        assert_eq!(schedule.ring(89_999), none);
        assert_eq!(schedule.ring(90_000), Beats { heartbeat: true, ping: false });
        assert_eq!(schedule.ring(90_001), none);
        assert_eq!(schedule.ring(125_000), Beats { heartbeat: true, ping: true });
    }

    #[test]
    fn a_beat_that_was_missed_is_still_due() {
        let mut schedule = Schedule::beaten_until(60_500);
        assert_eq!(schedule.next_beat(PING_INTERVAL_MS), 120_000);
        assert_eq!(schedule.ring(135_000), Beats { heartbeat: true, ping: true });
        assert_eq!(schedule.next_beat(PING_INTERVAL_MS), 180_000);
        schedule.begin(200_000);
        assert_eq!(schedule.next_beat(PING_INTERVAL_MS), 240_000);
    }
}
