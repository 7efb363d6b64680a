//! The operations in flight of each session, so that none of them runs twice, and no merge runs during a change. The operations are
//! not part of the [`cache`](crate::hub::core::sessions::cache): a failed write clears the cache, but the operations continue. Requests
//! that wait for a session to become active: the request that resumes the session, and other requests that wait for the same resume.

use std::collections::{BTreeSet, HashMap};

use futures::channel::oneshot;

use crate::hub::core::error::Error;

#[derive(Debug, Default)]
struct Operations {
    /// The permission requests whose answer is being sent to the CLI.
    answering: BTreeSet<String>,
    is_resuming: bool,
    /// Until when a keep-alive may reactivate an archived session, in Unix milliseconds: a machine has confirmed that it starts it.
    reactivation_until: Option<u64>,
    /// The number of merges in progress. Only the merges may change the session.
    locks: usize,
    /// Resolve when the session is unlocked.
    lock_waiters: Vec<oneshot::Sender<()>>,
}

/// The operations in flight of a namespace, by session.
#[derive(Debug, Default)]
pub struct InFlight(HashMap<String, Operations>);

impl InFlight {
    fn operations_of(&mut self, session: &str) -> &mut Operations {
        self.0.entry(session.to_owned()).or_default()
    }

    pub fn has_any(&self, session: &str) -> bool {
        self.0.contains_key(session)
    }

    /// Begins answering a permission request. Returns false if another answer to it is in flight.
    pub fn begin_answer(&mut self, session: &str, request: &str) -> bool {
        self.operations_of(session).answering.insert(request.to_owned())
    }

    pub fn end_answer(&mut self, session: &str, request: &str) {
        self.operations_of(session).answering.remove(request);
        self.remove_if_idle(session);
    }

    /// Begins a resume. Returns false if another resume is in flight.
    pub fn begin_resume(&mut self, session: &str) -> bool {
        !std::mem::replace(&mut self.operations_of(session).is_resuming, true)
    }

    pub fn end_resume(&mut self, session: &str) {
        self.operations_of(session).is_resuming = false;
        self.remove_if_idle(session);
    }

    pub fn count_resumes(&self, now: u64) -> usize {
        self.0.keys().filter(|session| self.expects_reactivation(session, now)).count()
    }

    /// Allows a keep-alive to reactivate the session until a time in Unix milliseconds.
    pub fn expect_reactivation(&mut self, session: &str, until: u64) {
        self.operations_of(session).reactivation_until = Some(until);
    }

    /// Whether a keep-alive may reactivate the session although it is archived.
    pub fn expects_reactivation(&self, session: &str, now: u64) -> bool {
        let expects = |operations: &Operations| {
            operations.is_resuming || operations.reactivation_until.is_some_and(|until| now < until)
        };
        self.0.get(session).is_some_and(expects)
    }

    /// Reverts [`expect_reactivation`](Self::expect_reactivation). Returns whether a reactivation was expected.
    pub fn clear_reactivation(&mut self, session: &str) -> bool {
        let Some(operations) = self.0.get_mut(session) else { return false };
        let was_expected = operations.reactivation_until.take().is_some();
        self.remove_if_idle(session);
        was_expected
    }

    /// Clears the expected reactivations whose time has passed. Returns their sessions.
    pub fn expire_reactivations(&mut self, now: u64) -> Vec<String> {
        let is_over = |operations: &Operations| operations.reactivation_until.is_some_and(|until| until <= now);
        let expired = self.0.iter().filter(|(_, operations)| is_over(operations));
        let expired: Vec<String> = expired.map(|(session, _)| session.clone()).collect();
        for session in &expired {
            self.clear_reactivation(session);
        }
        expired
    }

    /// Locks a session for a merge. Locks are counted, because several merges of a session may wait for the lock of the write queue.
    pub fn lock(&mut self, session: &str) {
        self.operations_of(session).locks += 1;
    }

    /// Ends a lock. When the last lock ends, resolves all waiters.
    pub fn unlock(&mut self, session: &str) {
        let operations = self.operations_of(session);
        operations.locks -= 1;
        if operations.locks == 0 {
            for waiter in operations.lock_waiters.drain(..) {
                let _ = waiter.send(());
            }
        }
        self.remove_if_idle(session);
    }

    pub fn is_locked(&self, session: &str) -> bool {
        self.0.get(session).is_some_and(|operations| operations.locks > 0)
    }

    /// Returns a receiver that resolves when the session is unlocked; `None` if it is not locked.
    pub fn wait_for_unlock(&mut self, session: &str) -> Option<oneshot::Receiver<()>> {
        let operations = self.0.get_mut(session).filter(|operations| operations.locks > 0)?;
        let (waiter, receiver) = oneshot::channel();
        operations.lock_waiters.push(waiter);
        Some(receiver)
    }

    fn remove_if_idle(&mut self, session: &str) {
        let is_idle = |operations: &Operations| {
            operations.answering.is_empty()
                && !operations.is_resuming
                && operations.reactivation_until.is_none()
                && operations.locks == 0
        };
        if self.0.get(session).is_some_and(is_idle) {
            self.0.remove(session);
        }
    }
}

/// The id of the session that became active, or why no session became active.
pub type Activation = Result<String, Error>;

#[derive(Debug)]
struct Waiter {
    /// The sessions of which any one may become active.
    ids: Vec<String>,
    /// In Unix milliseconds. `None`: the waiter shares another request's resume, which has a deadline.
    deadline: Option<u64>,
    /// Whether the request waits for a report (`session-alive`) of a connected CLI, and not for a CLI that a machine starts.
    expects_report: bool,
    sender: oneshot::Sender<Activation>,
}

impl Waiter {
    fn waits_for(&self, id: &str) -> bool {
        self.ids.iter().any(|waited| waited == id)
    }
}

#[derive(Debug, Default)]
pub struct ActivationWaiters(Vec<Waiter>);

impl ActivationWaiters {
    /// Adds a request. The receiver resolves when one of the sessions is active. It is canceled at the deadline, and with
    /// `expects_report` also when a CLI leaves the session.
    pub fn add(
        &mut self,
        ids: Vec<String>,
        deadline: Option<u64>,
        expects_report: bool,
    ) -> oneshot::Receiver<Activation> {
        let (sender, receiver) = oneshot::channel();
        self.0.push(Waiter { ids, deadline, expects_report, sender });
        receiver
    }

    /// Cancels the requests that wait for a report of a session by a connected CLI, because a CLI has left the session.
    pub fn cancel_report_waiters(&mut self, id: &str) {
        let canceled = self.0.iter_mut().filter(|waiter| waiter.expects_report && waiter.waits_for(id));
        canceled.for_each(|waiter| waiter.deadline = Some(0));
        self.expire(0);
    }

    pub fn has_waiter(&self, id: &str) -> bool {
        self.0.iter().any(|waiter| waiter.waits_for(id))
    }

    /// Completes all requests that wait for the session `id`.
    pub fn complete(&mut self, id: &str, result: &Activation) {
        for waiter in self.0.extract_if(.., |waiter| waiter.waits_for(id)) {
            let _ = waiter.sender.send(result.clone());
        }
    }

    /// Cancels the waiters whose deadline has passed.
    pub fn expire(&mut self, now: u64) {
        self.0.retain(|waiter| waiter.deadline.is_none_or(|deadline| deadline > now));
    }

    /// Returns the Unix milliseconds at which the first waiting request times out; `None` if none has a deadline.
    pub fn next_deadline(&self) -> Option<u64> {
        self.0.iter().filter_map(|waiter| waiter.deadline).min()
    }
}
