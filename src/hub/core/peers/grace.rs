//! Grace periods for CLIs that reconnect: a call of a method whose CLI has just disconnected waits until the CLI registers the
//! method again.

use std::collections::HashMap;

use futures::channel::oneshot;

use crate::model::owner::Owner;

/// How long the hub expects a disconnected CLI to reconnect, and how long a call waits for the CLI at least, in milliseconds.
/// Then web clients learn that the session is disconnected.
pub const RECONNECT_GRACE_MS: u64 = 2_000;
/// How long after a restart of the hub a call waits for a CLI, in milliseconds: the official client reconnects within 7.5 s.
pub const RESTART_GRACE_MS: u64 = 10_000;
const _: () = assert!(RECONNECT_GRACE_MS < RESTART_GRACE_MS);

/// How many methods of disconnected CLIs the hub remembers for [`RECONNECT_GRACE_MS`].
const MAX_LOST_METHODS: usize = 10_000;

#[derive(Debug)]
struct WaitingCall {
    owner: Owner,
    method: String,
    deadline: u64,
    registered: oneshot::Sender<()>,
}

/// The grace periods of a namespace, and the calls that wait. All times are in Unix milliseconds.
#[derive(Debug, Default)]
pub struct GracePeriods {
    /// Methods whose socket closed, with the end of the grace period.
    lost_methods: HashMap<(Owner, String), u64>,
    /// Sessions and machines whose sockets a restart closed, with the end of the grace period of all their methods.
    lost_owners: HashMap<Owner, u64>,
    waiting_calls: Vec<WaitingCall>,
}

impl GracePeriods {
    /// Starts the grace period of a method whose socket closed.
    pub fn on_method_lost(&mut self, owner: Owner, method: String, now: u64) {
        if self.lost_methods.len() < MAX_LOST_METHODS {
            self.lost_methods.insert((owner, method), now + RECONNECT_GRACE_MS);
        }
    }

    /// Starts the grace period of a session or machine after a restart of the hub. `disconnected_at`: when the last socket of
    /// the session or machine closed; `None` if the restart closed the socket.
    pub fn on_owner_lost(&mut self, owner: Owner, disconnected_at: Option<u64>, now: u64) {
        let until = disconnected_at.map_or(now + RESTART_GRACE_MS, |at| at + RECONNECT_GRACE_MS);
        if until > now {
            self.lost_owners.insert(owner, until);
        }
    }

    /// Ends the grace period of a method that is registered, and resumes the calls that wait for the method. The grace periods of
    /// the owner's other methods end within [`RECONNECT_GRACE_MS`].
    pub fn on_method_registered(&mut self, owner: &Owner, method: &str, now: u64) {
        if let Some(until) = self.lost_owners.get_mut(owner) {
            *until = (*until).min(now + RECONNECT_GRACE_MS);
        }
        for call in self.waiting_calls.iter_mut().filter(|call| call.owner == *owner) {
            call.deadline = call.deadline.min(now + RECONNECT_GRACE_MS);
        }
        if !self.lost_methods.is_empty() {
            self.lost_methods.remove(&(owner.clone(), method.to_owned()));
        }
        let waits_for_method = |call: &mut WaitingCall| call.owner == *owner && call.method == method;
        for call in self.waiting_calls.extract_if(.., waits_for_method) {
            let _ = call.registered.send(());
        }
    }

    /// Whether a method that is not registered is in its grace period.
    pub fn is_expected(&self, owner: &Owner, method: &str, now: u64) -> bool {
        self.grace_end(owner, method, now).is_some()
    }

    fn grace_end(&self, owner: &Owner, method: &str, now: u64) -> Option<u64> {
        let until = self.lost_methods.get(&(owner.clone(), method.to_owned())).or_else(|| self.lost_owners.get(owner));
        until.copied().filter(|until| now < *until)
    }

    /// Returns a receiver that resolves when the method is registered; `None` if the method is not in its grace period. The
    /// receiver is canceled at the deadline, or earlier when the grace period has ended and the call has waited for
    /// [`RECONNECT_GRACE_MS`].
    pub fn wait_for_method(
        &mut self,
        owner: &Owner,
        method: &str,
        now: u64,
        deadline: u64,
    ) -> Option<oneshot::Receiver<()>> {
        let grace_end = self.grace_end(owner, method, now)?;
        let deadline = deadline.min(grace_end.max(now + RECONNECT_GRACE_MS));
        (now < deadline).then(|| {
            let (registered, receiver) = oneshot::channel();
            let call = WaitingCall { owner: owner.clone(), method: method.to_owned(), deadline, registered };
            self.waiting_calls.push(call);
            receiver
        })
    }

    /// Cancels the calls whose deadline has passed, and removes the grace periods that have ended.
    pub fn expire(&mut self, now: u64) {
        self.waiting_calls.retain(|call| call.deadline > now);
        self.lost_methods.retain(|_, until| *until > now);
        self.lost_owners.retain(|_, until| *until > now);
    }

    /// Returns the Unix milliseconds at which the first waiting call fails; `None` if no call waits.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting_calls.iter().map(|call| call.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Owner {
        Owner::Session("s".into())
    }

    #[test]
    fn the_number_of_lost_methods_is_limited() {
        let mut grace = GracePeriods::default();
        for n in 0..MAX_LOST_METHODS + 1 {
            grace.on_method_lost(session(), n.to_string(), 0);
        }
        assert_eq!(grace.lost_methods.len(), MAX_LOST_METHODS);
    }
}
