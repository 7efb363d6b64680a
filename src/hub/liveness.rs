//! Who is alive: the clocks of active sessions and machines. A state machine without IO.
//!
//! A session is inactive 30 s, a machine 45 s after its last sign of life (decisions.md "Liveness"). A sign of life only
//! moves a deadline, it never writes to the database; the notebook remembers the sign coarsely, so that the clock goes
//! on where it was after a sleep or a restart.

use std::collections::HashMap;

use super::rpc::Owner;

/// How long a session stays active after its last sign of life, in milliseconds.
pub const SESSION_MS: u64 = 30_000;
/// How long a machine stays online after its last sign of life, in milliseconds.
pub const MACHINE_MS: u64 = 45_000;
/// Signs of life older than this are ignored, in milliseconds.
pub const STALE_MS: u64 = 600_000;
/// How much newer a sign must be before the notebook hears of it, in milliseconds.
const NOTE_EVERY_MS: u64 = 5_000;

/// Whether the time that an alive event tells makes it a sign of life now: a message that lay somewhere for too long does
/// not. The clock itself starts when the sign arrives, so that a CLI whose own clock is off is not taken for dead.
pub fn is_fresh(time: f64, now: u64) -> bool {
    #[allow(clippy::cast_precision_loss)] // A time in milliseconds fits a JavaScript number.
    let oldest = now.saturating_sub(STALE_MS) as f64;
    time.is_finite() && time >= oldest
}

#[derive(Debug)]
struct Life {
    last_sign: u64,
    noted: u64,
}

/// The clocks.
#[derive(Debug, Default)]
pub struct Liveness {
    lives: HashMap<Owner, Life>,
}

impl Liveness {
    /// Starts or moves a clock. Answers whether the notebook should hear of it.
    pub fn sign(&mut self, owner: Owner, at: u64) -> bool {
        let life = self.lives.entry(owner).or_insert(Life { last_sign: 0, noted: 0 });
        life.last_sign = life.last_sign.max(at);
        let note = life.noted == 0 || life.last_sign >= life.noted + NOTE_EVERY_MS;
        if note {
            life.noted = life.last_sign;
        }
        note
    }

    /// Takes a clock up again from what the notebook remembers; the real sign may have been a little later.
    pub fn restore(&mut self, owner: Owner, noted: u64) {
        self.lives.insert(owner, Life { last_sign: noted + NOTE_EVERY_MS, noted });
    }

    /// Whether a clock runs.
    pub fn runs(&self, owner: &Owner) -> bool {
        self.lives.contains_key(owner)
    }

    /// Stops a clock.
    pub fn stop(&mut self, owner: &Owner) {
        self.lives.remove(owner);
    }

    /// The clocks that ran out.
    pub fn expired(&self, now: u64) -> Vec<Owner> {
        self.lives.iter().filter(|(owner, life)| deadline(owner, life) <= now).map(|(owner, _)| owner.clone()).collect()
    }

    /// When the next clock runs out.
    pub fn next_deadline(&self) -> Option<u64> {
        self.lives.iter().map(|(owner, life)| deadline(owner, life)).min()
    }
}

fn deadline(owner: &Owner, life: &Life) -> u64 {
    life.last_sign
        + match owner {
            Owner::Session(_) => SESSION_MS,
            Owner::Machine(_) => MACHINE_MS,
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
        assert!(liveness.expired(31_999).is_empty());
        assert_eq!(liveness.expired(32_000), vec![session.clone()]);
        liveness.stop(&session);
        assert_eq!(liveness.next_deadline(), Some(46_000));
        assert_eq!(liveness.expired(46_000), vec![machine]);
    }

    #[test]
    fn the_notebook_hears_of_the_first_sign_and_then_every_five_seconds() {
        let session = Owner::Session("s".into());
        let mut liveness = Liveness::default();
        assert!(liveness.sign(session.clone(), 1_000));
        assert!(!liveness.sign(session.clone(), 5_999));
        assert!(liveness.sign(session, 6_000));
    }

    #[test]
    fn a_restored_clock_never_runs_out_before_the_real_one() {
        let session = Owner::Session("s".into());
        let mut liveness = Liveness::default();
        liveness.sign(session.clone(), 1_000);
        liveness.sign(session.clone(), 5_500);
        let real = liveness.next_deadline().unwrap();
        let mut woken = Liveness::default();
        woken.restore(session, 1_000);
        assert!(woken.next_deadline().unwrap() >= real);
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
