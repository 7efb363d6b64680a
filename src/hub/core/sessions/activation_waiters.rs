//! Requests that wait for a session to become active: the request that resumes the session, and other requests that wait for
//! the same resume.

use futures::channel::oneshot;

use crate::hub::core::error::Error;

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
    /// Adds a request that waits for a CLI that a machine starts. The receiver resolves when one of the sessions is active, and
    /// is canceled at the deadline.
    pub fn add_start_waiter(&mut self, ids: Vec<String>, deadline: Option<u64>) -> oneshot::Receiver<Activation> {
        self.add(ids, deadline, false)
    }

    /// Adds a request that waits for a report of a connected CLI. The receiver resolves when the session is active. The receiver
    /// is canceled at the deadline, or when a CLI leaves the session.
    pub fn add_report_waiter(&mut self, id: &str, deadline: u64) -> oneshot::Receiver<Activation> {
        self.add(vec![id.to_owned()], Some(deadline), true)
    }

    fn add(&mut self, ids: Vec<String>, deadline: Option<u64>, expects_report: bool) -> oneshot::Receiver<Activation> {
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
