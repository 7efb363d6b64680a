//! The last committed states of sessions and machines with changes that are not durable. Reads are answered with them while
//! the database is stalled.

use std::collections::{HashMap, VecDeque};

/// The state of a session or machine before changes that are not durable.
#[derive(Debug)]
pub enum Committed<T> {
    /// It did not exist.
    Absent,
    Present(Box<T>),
}

impl<T> Committed<T> {
    pub fn present(state: T) -> Self {
        Self::Present(Box::new(state))
    }
}

/// One map for each batch that is not durable, the oldest first. A map has, by id, the state of each session (or machine) that the
/// batch changes, as it was before the batch.
#[derive(Debug)]
pub struct CommittedStates<T>(VecDeque<HashMap<String, Committed<T>>>);

impl<T> Default for CommittedStates<T> {
    fn default() -> Self {
        Self(VecDeque::from([HashMap::new()]))
    }
}

impl<T> CommittedStates<T> {
    /// Records a state before a change, unless there was an earlier change since the last batch was sealed.
    pub fn record(&mut self, id: &str, state: impl FnOnce() -> Committed<T>) {
        if let Some(queued) = self.0.back_mut().filter(|queued| !queued.contains_key(id)) {
            queued.insert(id.to_owned(), state());
        }
    }

    /// Sets the committed state after a write outside of the write queue. The caller has flushed the write queue, so there is one map.
    /// `state`: `None` if the current state is committed.
    pub fn replace(&mut self, id: &str, state: Option<Committed<T>>) {
        if let Some(queued) = self.0.back_mut() {
            queued.remove(id);
            queued.extend(state.map(|state| (id.to_owned(), state)));
        }
    }

    /// Returns the committed state; `None` if the session or machine has not changed since it was committed.
    pub fn get(&self, id: &str) -> Option<&Committed<T>> {
        self.0.iter().find_map(|states| states.get(id))
    }

    /// Whether all changes are durable.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(HashMap::is_empty)
    }

    /// Returns the committed states of all changed sessions (or machines) that existed before their change.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().enumerate().flat_map(move |(batch, states)| {
            let has_older = move |id: &str| self.0.iter().take(batch).any(|older| older.contains_key(id));
            states.iter().filter_map(move |(id, state)| match state {
                Committed::Present(state) if !has_older(id) => Some(&**state),
                _ => None,
            })
        })
    }

    /// Adds the map of the next batch.
    pub fn seal(&mut self) {
        self.0.push_back(HashMap::new());
    }

    /// Drops the map of the oldest batch, which was written.
    pub fn drop_oldest(&mut self) {
        self.0.pop_front();
    }
}
