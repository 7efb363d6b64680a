//! Who is alive: the clocks of active sessions and machines. A state machine without IO.
//!
//! A session is inactive 30 s, a machine 45 s after its last sign of life (PROTOCOL.md "Liveness"). A sign of life only
//! moves a deadline: it writes neither to the database nor to the object's storage. The notebook knows which clocks run
//! and when a socket left; the last sign itself stands in the attachment of the socket that gave it. After a sleep the
//! clock goes on where it was; after a restart, which takes all sockets, it starts anew.

use std::collections::BTreeMap;

use crate::hub::limits::{MACHINE_TIMEOUT_MS, MAX_KEEP_ALIVE_AGE_MS, SESSION_TIMEOUT_MS};
use crate::model::owner::Owner;

/// Whether the time that an alive event tells makes it a sign of life now: a message that lay somewhere for too long does
/// not. The clock itself starts when the sign arrives, so that a CLI whose own clock is off is not taken for dead.
pub fn is_fresh(time: f64, now: u64) -> bool {
    #[allow(clippy::cast_precision_loss)] // A time in milliseconds fits a JavaScript number.
    let oldest = now.saturating_sub(MAX_KEEP_ALIVE_AGE_MS) as f64;
    time.is_finite() && time >= oldest
}

#[derive(Debug)]
struct Life {
    last_sign: u64,
    /// When it was last heard of, which is what clients are told: only real signs count.
    heard: u64,
    /// Whether the notebook says that its socket is gone.
    departed: bool,
}

/// The clocks.
#[derive(Debug, Default)]
pub struct Liveness {
    lives: BTreeMap<Owner, Life>,
}

impl Liveness {
    /// Starts or moves a clock. Answers whether the notebook has to hear of it: it does not know that the clock runs.
    pub fn sign(&mut self, owner: Owner, at: u64) -> bool {
        match self.lives.get_mut(&owner) {
            Some(life) => {
                life.last_sign = life.last_sign.max(at);
                life.heard = life.heard.max(at);
                std::mem::take(&mut life.departed)
            }
            None => {
                self.lives.insert(owner, Life { last_sign: at, heard: at, departed: false });
                true
            }
        }
    }

    /// Starts the clock of what is said to be active, without a sign. Answers as [`sign`](Self::sign) does.
    pub fn start(&mut self, owner: Owner, at: u64) -> bool {
        if let Some(life) = self.lives.get_mut(&owner) {
            life.last_sign = life.last_sign.max(at);
            return std::mem::take(&mut life.departed);
        }
        self.lives.insert(owner, Life { last_sign: at, heard: 0, departed: false });
        true
    }

    /// Takes a clock up again after a sleep or a restart: since its last sign, or since now when that was lost.
    /// `departed`: whether the notebook holds its time.
    pub fn restore(&mut self, owner: Owner, last_sign: Option<u64>, now: u64, departed: bool) {
        let life = Life { last_sign: last_sign.unwrap_or(now), heard: last_sign.unwrap_or(0), departed };
        self.lives.insert(owner, life);
    }

    /// When what is active was last heard of, in Unix milliseconds; 0 when nobody knows.
    pub fn heard(&self, owner: &Owner) -> u64 {
        self.lives.get(owner).map_or(0, |life| life.heard)
    }

    /// Starts a running clock anew because its socket is gone. Answers whether it runs.
    pub fn depart(&mut self, owner: &Owner, at: u64) -> bool {
        let life = self.lives.get_mut(owner);
        if let Some(life) = life {
            *life = Life { last_sign: at, heard: at, departed: true };
            return true;
        }
        false
    }

    /// Whether a clock runs.
    pub fn runs(&self, owner: &Owner) -> bool {
        self.lives.contains_key(owner)
    }

    /// Stops a clock.
    pub fn stop(&mut self, owner: &Owner) {
        self.lives.remove(owner);
    }

    /// Takes out the clocks that ran out. Answers whose they were, and when each was last heard of.
    pub fn take_expired(&mut self, now: u64) -> Vec<(Owner, u64)> {
        let over = self.lives.iter().filter(|(owner, life)| deadline(owner, life) <= now);
        let expired: Vec<(Owner, u64)> = over.map(|(owner, life)| (owner.clone(), life.heard)).collect();
        expired.iter().for_each(|(owner, _)| self.stop(owner));
        expired
    }

    /// When the next clock runs out.
    pub fn next_deadline(&self) -> Option<u64> {
        self.lives.iter().map(|(owner, life)| deadline(owner, life)).min()
    }
}

fn deadline(owner: &Owner, life: &Life) -> u64 {
    life.last_sign
        + match owner {
            Owner::Session(_) => SESSION_TIMEOUT_MS,
            Owner::Machine(_) => MACHINE_TIMEOUT_MS,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_30_s_and_a_machine_45_s_after_the_last_sign() {
        let (session, machine) = (Owner::Session("s".into()), Owner::Machine("m".into()));
        let mut liveness = Liveness::default();
        liveness.sign(session.clone(), 1_000);
        liveness.sign(machine.clone(), 1_000);
        liveness.sign(session.clone(), 2_000);
        assert_eq!(liveness.next_deadline(), Some(32_000));
        assert!(liveness.take_expired(31_999).is_empty());
        assert_eq!(liveness.take_expired(32_000), vec![(session, 2_000)]);
        assert_eq!(liveness.next_deadline(), Some(46_000));
        assert_eq!(liveness.take_expired(46_000), vec![(machine, 1_000)]);
        assert_eq!(liveness.next_deadline(), None);
    }

    #[test]
    fn the_notebook_hears_when_a_clock_starts_and_when_a_socket_leaves_but_of_no_mere_sign() {
        let session = Owner::Session("s".into());
        let mut liveness = Liveness::default();
        assert!(!liveness.depart(&session, 500), "what does not run does not start by leaving");
        assert!(liveness.sign(session.clone(), 1_000));
        assert!(!liveness.sign(session.clone(), 9_000));
        assert!(liveness.depart(&session, 10_000));
        assert_eq!(liveness.next_deadline(), Some(40_000));
        assert!(liveness.sign(session.clone(), 11_000), "it is back");
        assert!(!liveness.sign(session, 12_000));
    }

    #[test]
    fn a_clock_that_starts_without_a_sign_runs_as_long_but_is_no_sign() {
        let (told, lost) = (Owner::Session("told".into()), Owner::Session("lost".into()));
        let mut liveness = Liveness::default();
        assert!(liveness.start(told.clone(), 1_000));
        liveness.restore(lost.clone(), None, 1_000, false);
        assert_eq!((liveness.heard(&told), liveness.heard(&lost)), (0, 0));
        assert_eq!(liveness.next_deadline(), Some(31_000));
        liveness.sign(told.clone(), 2_000);
        liveness.depart(&lost, 3_000);
        assert_eq!((liveness.heard(&told), liveness.heard(&lost)), (2_000, 3_000));
    }

    #[test]
    fn times_from_the_future_count_and_stale_ones_do_not() {
        assert!(is_fresh(5e15, 1_000_000));
        assert!(is_fresh(400_000.0, 1_000_000));
        assert!(!is_fresh(399_999.0, 1_000_000));
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(!is_fresh(odd, 1_000_000), "{odd}");
        }
    }
}
