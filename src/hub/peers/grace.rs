//! The grace for CLIs on their way back: a call of a method whose socket left a moment ago, or was lost in a restart of the
//! hub, waits a little for it to be registered again. A state machine without IO.

use std::collections::HashMap;

use futures::channel::oneshot;

use crate::hub::limits::{MAX_LOST_METHODS, RECONNECT_GRACE_MS, RESTART_GRACE_MS};
use crate::model::owner::Owner;

/// A call that waits for its method.
#[derive(Debug)]
struct Waiting {
    owner: Owner,
    method: String,
    deadline: u64,
    back: oneshot::Sender<()>,
}

/// Who is on the way back, and the calls that wait for it.
#[derive(Debug, Default)]
pub struct Grace {
    /// Methods whose socket left, until when they are missed, in Unix milliseconds.
    missed: HashMap<(Owner, String), u64>,
    /// Those that the last restart took their sockets from, until when any of their methods is missed.
    cut_off: HashMap<Owner, u64>,
    waiting: Vec<Waiting>,
}

impl Grace {
    /// The socket of a method has left.
    pub fn left(&mut self, owner: Owner, method: String, now: u64) {
        if self.missed.len() < MAX_LOST_METHODS {
            self.missed.insert((owner, method), now + RECONNECT_GRACE_MS);
        }
    }

    /// A session or machine had a socket until a moment, which a restart came upon; `None`: until the restart.
    pub fn cut_off(&mut self, owner: Owner, left: Option<u64>, now: u64) {
        let until = left.map_or(now + RESTART_GRACE_MS, |left| left + RECONNECT_GRACE_MS);
        if until > now {
            self.cut_off.insert(owner, until);
        }
    }

    /// A method is served again: whoever waits for it goes on. What else its CLI served will follow shortly, or not at all.
    pub fn back(&mut self, owner: &Owner, method: &str, now: u64) {
        if let Some(until) = self.cut_off.get_mut(owner) {
            *until = (*until).min(now + RECONNECT_GRACE_MS);
        }
        if !self.missed.is_empty() {
            self.missed.remove(&(owner.clone(), method.to_owned()));
        }
        let is_for = |waiting: &mut Waiting| waiting.owner == *owner && waiting.method == method;
        for waiting in self.waiting.extract_if(.., is_for) {
            let _ = waiting.back.send(());
        }
    }

    /// Whether a method that nobody serves may be served again in a moment.
    pub fn misses(&self, owner: &Owner, method: &str, now: u64) -> bool {
        let known = self.missed.get(&(owner.clone(), method.to_owned())).or_else(|| self.cut_off.get(owner));
        known.is_some_and(|until| now < *until)
    }

    /// Where a call may wait, until the deadline at most, for a method that nobody serves; `None` when it is not missed.
    pub fn wait(&mut self, owner: &Owner, method: &str, now: u64, deadline: u64) -> Option<oneshot::Receiver<()>> {
        let waits = now < deadline && self.misses(owner, method, now);
        waits.then(|| {
            let (back, receiver) = oneshot::channel();
            self.waiting.push(Waiting { owner: owner.clone(), method: method.to_owned(), deadline, back });
            receiver
        })
    }

    /// Sends away the calls that waited long enough, and forgets what is missed no more.
    pub fn expire(&mut self, now: u64) {
        self.waiting.retain(|waiting| waiting.deadline > now);
        self.missed.retain(|_, until| *until > now);
        self.cut_off.retain(|_, until| *until > now);
    }

    /// When the next call has waited long enough.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Owner {
        Owner::Session("s".into())
    }

    #[test]
    fn a_method_is_missed_for_two_seconds_after_its_socket_left_and_no_other_is() {
        let mut grace = Grace::default();
        grace.left(session(), "m".into(), 1_000);
        assert!(grace.misses(&session(), "m", 2_999));
        assert!(!grace.misses(&session(), "m", 3_000));
        assert!(!grace.misses(&session(), "other", 1_000));
        assert!(!grace.misses(&Owner::Machine("s".into()), "m", 1_000));
        assert!(grace.wait(&session(), "other", 1_000, 3_000).is_none());
    }

    #[test]
    fn whoever_waits_goes_on_when_the_method_is_back_and_no_sooner() {
        let mut grace = Grace::default();
        grace.left(session(), "m".into(), 0);
        let mut waiting = grace.wait(&session(), "m", 10, 2_010).unwrap();
        grace.back(&session(), "other", 20);
        assert_eq!(waiting.try_recv(), Ok(None));
        grace.back(&session(), "m", 30);
        assert_eq!(waiting.try_recv(), Ok(Some(())));
        assert!(!grace.misses(&session(), "m", 40), "it is served");
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let mut grace = Grace::default();
        grace.left(session(), "m".into(), 0);
        let mut waiting = grace.wait(&session(), "m", 1_999, 3_999).unwrap();
        assert_eq!(grace.next_deadline(), Some(3_999));
        grace.expire(3_998);
        assert_eq!(waiting.try_recv(), Ok(None));
        grace.expire(3_999);
        assert!(waiting.try_recv().is_err());
        assert_eq!(grace.next_deadline(), None);
        assert!(grace.missed.is_empty());
    }

    #[test]
    fn after_a_restart_every_method_is_missed_for_ten_seconds_or_two_after_the_first_is_back() {
        let mut grace = Grace::default();
        grace.cut_off(session(), None, 0);
        assert!(grace.misses(&session(), "m", 9_999) && !grace.misses(&session(), "m", 10_000));
        grace.back(&session(), "m", 1_000);
        assert!(grace.misses(&session(), "n", 2_999) && !grace.misses(&session(), "n", 3_000));
        let mut grace = Grace::default();
        grace.cut_off(session(), Some(500), 1_000);
        assert!(grace.misses(&session(), "m", 2_499) && !grace.misses(&session(), "m", 2_500));
        grace.expire(2_500);
        assert!(grace.cut_off.is_empty());
    }

    #[test]
    fn the_number_of_lost_methods_is_limited() {
        let mut grace = Grace::default();
        for n in 0..MAX_LOST_METHODS + 1 {
            grace.left(session(), n.to_string(), 0);
        }
        assert_eq!(grace.missed.len(), MAX_LOST_METHODS);
    }
}
