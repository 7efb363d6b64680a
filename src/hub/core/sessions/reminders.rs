//! Rate limit for reminders: events that repeat an unchanged presence to web clients.

use crate::limits::PRESENCE_INTERVAL_MS;

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
    fn the_pause_between_reminders_grows_with_the_number_of_web_clients() {
        let mut reminders = Reminders::default();
        reminders.record(4, 1_000);
        assert!(reminders.is_allowed(1_000));
        reminders.record(200, 1_000);
        assert!(!reminders.is_allowed(1_039));
        assert!(reminders.is_allowed(1_040));
    }

    #[test]
    fn reminders_continue_after_the_clock_goes_back() {
        let mut reminders = Reminders::default();
        reminders.record(200, 3_600_000);
        assert!(reminders.is_allowed(1_000));
    }
}
