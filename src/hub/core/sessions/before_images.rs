//! Before-images: the last committed states of sessions and machines with changes that are not durable yet. A before-image belongs to
//! the batch of the change, and is dropped with the batch. While the database is stalled, reads return before-images.

use std::collections::HashMap;

use crate::hub::core::effect::Effect;
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::model::machine::Machine;
use crate::store::write_queue::WriteQueue;

/// The write queue of the hub, whose batches own before-images.
pub type HubQueue = WriteQueue<Effect, BeforeImages>;

/// The state of a session or machine before changes that are not durable.
#[derive(Debug)]
pub enum Committed<T> {
    /// The session or machine did not exist.
    Absent,
    Present(Box<T>),
}

impl<T> Committed<T> {
    pub fn present(state: T) -> Self {
        Self::Present(Box::new(state))
    }

    /// Returns the committed state; `None` if the owner is not stored yet.
    pub fn state(&self) -> Option<&T> {
        match self {
            Self::Absent => None,
            Self::Present(state) => Some(state),
        }
    }
}

/// The sessions and machines that a batch changes, by id, as they were before the batch.
#[derive(Debug, Default)]
pub struct BeforeImages {
    pub sessions: HashMap<String, Committed<CachedSession>>,
    pub machines: HashMap<String, Committed<Machine>>,
}

/// Records a state before a change, unless the batch contains an earlier change.
pub(super) fn record_before_image<T>(
    images: &mut HashMap<String, Committed<T>>,
    id: &str,
    state: impl FnOnce() -> Committed<T>,
) {
    if !images.contains_key(id) {
        images.insert(id.to_owned(), state());
    }
}

impl HubQueue {
    /// Returns the committed state of a session; `None` if all changes of the session are durable.
    pub fn committed_session(&self, id: &str) -> Option<&Committed<CachedSession>> {
        self.before_images().find_map(|images| images.sessions.get(id))
    }

    /// Returns the committed state of a machine; `None` if all changes of the machine are durable.
    pub fn committed_machine(&self, id: &str) -> Option<&Committed<Machine>> {
        self.before_images().find_map(|images| images.machines.get(id))
    }

    /// Returns the committed states of all changed sessions.
    pub fn committed_sessions(&self) -> HashMap<&str, &Committed<CachedSession>> {
        oldest_states(self.before_images().map(|images| &images.sessions))
    }

    /// Returns the committed states of all changed machines.
    pub fn committed_machines(&self) -> HashMap<&str, &Committed<Machine>> {
        oldest_states(self.before_images().map(|images| &images.machines))
    }
}

fn oldest_states<'a, T: 'a>(
    images: impl DoubleEndedIterator<Item = &'a HashMap<String, Committed<T>>>,
) -> HashMap<&'a str, &'a Committed<T>> {
    images.rev().flatten().map(|(id, state)| (id.as_str(), state)).collect()
}
