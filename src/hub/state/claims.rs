//! What is under way for a session and may be done by one at a time. Kept apart from [`crate::hub::state::cache`]: a write that
//! fails makes memory forget, but what was begun goes on.

use std::collections::{BTreeSet, HashMap};

use futures::channel::oneshot;

#[derive(Debug, Default)]
struct Claim {
    /// The permission requests whose answer is on its way to the CLI.
    answering: BTreeSet<String>,
    /// Whether somebody has asked a machine to bring it back, and waits.
    resuming: bool,
    /// Until when a CLI may report it alive although it is archived: a machine said that it brings it back. In Unix
    /// milliseconds.
    awaited: Option<u64>,
    /// How many merges with another session are under way.
    merges: usize,
    /// Those who wait for the last of these to end before they add a message.
    waiting: Vec<oneshot::Sender<()>>,
}

/// The claims on the sessions of a namespace.
#[derive(Debug, Default)]
pub struct Claims(HashMap<String, Claim>);

impl Claims {
    fn of(&mut self, session: &str) -> &mut Claim {
        self.0.entry(session.to_owned()).or_default()
    }

    /// Whether anything is under way for a session.
    pub fn any(&self, session: &str) -> bool {
        self.0.contains_key(session)
    }

    /// Claims the answer to a permission request; `false` when somebody else's is on its way.
    pub fn answer(&mut self, session: &str, request: &str) -> bool {
        self.of(session).answering.insert(request.to_owned())
    }

    /// The answer has reached the CLI, or has not.
    pub fn answered(&mut self, session: &str, request: &str) {
        self.of(session).answering.remove(request);
        self.tidy(session);
    }

    /// Claims a resume; `false` when one is under way.
    pub fn resume(&mut self, session: &str) -> bool {
        !std::mem::replace(&mut self.of(session).resuming, true)
    }

    /// The resume has ended, well or not.
    pub fn resumed(&mut self, session: &str) {
        self.of(session).resuming = false;
        self.tidy(session);
    }

    /// A machine has promised to bring the session back; until a moment that is believed.
    pub fn expect(&mut self, session: &str, until: u64) {
        self.of(session).awaited = Some(until);
    }

    /// Whether a resume may bring the session back to life.
    pub fn expected(&self, session: &str, now: u64) -> bool {
        self.0.get(session).is_some_and(|claim| claim.resuming || claim.awaited.is_some_and(|until| now < until))
    }

    /// The session is back, has ended, or is gone: nothing is expected of it any more.
    pub fn expect_no_more(&mut self, session: &str) {
        if let Some(claim) = self.0.get_mut(session) {
            claim.awaited = None;
            self.tidy(session);
        }
    }

    /// Gives up expecting what did not come in time.
    pub fn expire(&mut self, now: u64) {
        let late = |claim: &Claim| claim.awaited.is_some_and(|until| until <= now);
        let late: Vec<String> = self.0.iter().filter(|(_, claim)| late(claim)).map(|(id, _)| id.clone()).collect();
        late.iter().for_each(|id| self.expect_no_more(id));
    }

    /// A merge begins: it keeps new messages of a session waiting.
    pub fn hold(&mut self, session: &str) {
        self.of(session).merges += 1;
    }

    /// A merge has ended. After the last one those who waited go on.
    pub fn let_go(&mut self, session: &str) {
        let claim = self.of(session);
        claim.merges -= 1;
        if claim.merges == 0 {
            for waiting in claim.waiting.drain(..) {
                let _ = waiting.send(());
            }
        }
        self.tidy(session);
    }

    /// Where to wait before a message may be added; `None` when it may be now.
    pub fn running_merge(&mut self, session: &str) -> Option<oneshot::Receiver<()>> {
        let claim = self.0.get_mut(session).filter(|claim| claim.merges > 0)?;
        let (sender, receiver) = oneshot::channel();
        claim.waiting.push(sender);
        Some(receiver)
    }

    fn tidy(&mut self, session: &str) {
        let idle = |claim: &Claim| {
            claim.answering.is_empty() && !claim.resuming && claim.awaited.is_none() && claim.merges == 0
        };
        if self.0.get(session).is_some_and(idle) {
            self.0.remove(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_answers_one_is_claimed() {
        let mut claims = Claims::default();
        assert!(claims.answer("s", "r"));
        assert!(!claims.answer("s", "r"));
        assert!(claims.answer("s", "other") && claims.answer("t", "r"));
        claims.answered("s", "r");
        assert!(claims.answer("s", "r"));
    }

    #[test]
    fn a_session_is_expected_until_it_is_back_and_nothing_is_left_then() {
        let mut claims = Claims::default();
        assert!(claims.resume("s") && !claims.resume("s"));
        claims.expect("s", 10);
        claims.resumed("s");
        assert!(claims.expected("s", 9));
        claims.expect_no_more("s");
        claims.expect_no_more("another");
        assert!(!claims.expected("s", 9) && claims.0.is_empty());
    }

    #[test]
    fn a_session_that_does_not_come_is_not_expected_for_ever() {
        let mut claims = Claims::default();
        claims.expect("s", 10);
        assert!(!claims.expected("s", 10));
        claims.expire(9);
        assert!(claims.any("s"));
        claims.expire(10);
        assert!(!claims.any("s"));
    }

    #[test]
    fn messages_wait_while_any_merge_is_under_way() {
        let mut claims = Claims::default();
        assert!(claims.running_merge("s").is_none());
        claims.hold("s");
        claims.hold("s");
        let mut running_merge = claims.running_merge("s").unwrap();
        claims.let_go("s");
        assert_eq!(running_merge.try_recv(), Ok(None), "another one is under way");
        claims.let_go("s");
        assert_eq!(running_merge.try_recv(), Ok(Some(())));
        assert!(claims.running_merge("s").is_none());
    }
}
