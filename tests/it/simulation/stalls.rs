//! Faults that last: stalls of the database, and alarms that do not fire.

use super::database::{retryable_error, timeout};
use super::world::{TEAM, World};
use crate::support::sqlite::BatchKind;

/// How long no alarm fires, in milliseconds.
const TEN_MINUTES_MS: u64 = 600_000;

impl World {
    /// Advances the clock by ten minutes without alarms.
    pub fn pass_without_alarms(&mut self) {
        let delayed = std::mem::replace(&mut self.are_alarms_delayed, true);
        self.deliver_all_frames();
        self.advance(TEN_MINUTES_MS);
        self.run_actions(40);
        self.are_alarms_delayed = delayed;
    }

    /// Stalls the database for up to two minutes, while the clients continue: all operations fail, or none gets a result. The
    /// object may crash meanwhile.
    pub fn stall(&mut self) {
        match self.rng.below(3) {
            0 => self.db.start_silence(),
            _ => {
                for kind in [BatchKind::Reads, BatchKind::Writes] {
                    self.db.fail_all(kind, if self.rng.chance(50) { retryable_error() } else { timeout() });
                }
            }
        }
        let (min, max) = self.rng.pick(&[(1, 60), (60, 120)]).unwrap();
        let seconds = self.rng.between(min, max);
        let reset_at = if self.rng.chance(25) { self.rng.between(1, seconds) } else { 0 };
        for second in 1..=seconds {
            self.advance(1_000);
            self.run_actions(20);
            if second == reset_at {
                self.crash_object(TEAM);
            }
        }
        self.db.repair();
    }
}
