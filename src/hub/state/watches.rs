//! Who waits for a session to be active: a resume, and those who share it. A state machine without IO.

use futures::channel::oneshot;

use crate::hub::error::Error;

/// What a watch comes to: the id of the session that is active, or why there is none.
pub type Watched = Result<String, Error>;

/// Somebody who waits for one of some sessions to be active.
#[derive(Debug)]
struct Watch {
    ids: Vec<String>,
    /// When it gives up, in Unix milliseconds; without one somebody else's resume decides.
    deadline: Option<u64>,
    told: oneshot::Sender<Watched>,
}

impl Watch {
    fn is_for(&self, id: &str) -> bool {
        self.ids.iter().any(|watched| watched == id)
    }
}

/// The watches of a namespace.
#[derive(Debug, Default)]
pub struct Watches(Vec<Watch>);

impl Watches {
    /// Waits for one of the sessions, until the deadline if there is one: the receiver is canceled then.
    pub fn watch(&mut self, ids: Vec<String>, deadline: Option<u64>) -> oneshot::Receiver<Watched> {
        let (told, outcome) = oneshot::channel();
        self.0.push(Watch { ids, deadline, told });
        outcome
    }

    /// Whether anybody waits for a session.
    pub fn any(&self, id: &str) -> bool {
        self.0.iter().any(|watch| watch.is_for(id))
    }

    /// Tells those who wait for the session `id` what came of it.
    pub fn tell(&mut self, id: &str, outcome: &Watched) {
        for watch in self.0.extract_if(.., |watch| watch.is_for(id)) {
            let _ = watch.told.send(outcome.clone());
        }
    }

    /// Gives up waiting where the time is over.
    pub fn expire(&mut self, now: u64) {
        self.0.retain(|watch| watch.deadline.is_none_or(|deadline| deadline > now));
    }

    /// When the next one gives up.
    pub fn next_deadline(&self) -> Option<u64> {
        self.0.iter().filter_map(|watch| watch.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_for_a_session_are_told_and_no_others() {
        let mut watches = Watches::default();
        let mut one = watches.watch(vec!["s".into(), "t".into()], Some(10));
        let mut other = watches.watch(vec!["u".into()], None);
        assert!(watches.any("s") && watches.any("t") && watches.any("u") && !watches.any("v"));
        watches.tell("t", &Ok("t".into()));
        assert_eq!(one.try_recv(), Ok(Some(Ok("t".into()))));
        assert_eq!(other.try_recv(), Ok(None));
        assert!(!watches.any("s"));
        watches.tell("u", &Err(Error::ResumeFailed));
        assert_eq!(other.try_recv(), Ok(Some(Err(Error::ResumeFailed))));
    }

    #[test]
    fn a_watch_ends_with_its_time_and_one_without_a_time_goes_on() {
        let mut watches = Watches::default();
        let mut one = watches.watch(vec!["s".into()], Some(10));
        let mut other = watches.watch(vec!["s".into()], None);
        assert_eq!(watches.next_deadline(), Some(10));
        watches.expire(9);
        assert_eq!(one.try_recv(), Ok(None));
        watches.expire(10);
        assert!(one.try_recv().is_err());
        assert_eq!((other.try_recv(), watches.next_deadline()), (Ok(None), None));
    }
}
