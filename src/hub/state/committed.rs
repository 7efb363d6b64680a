//! The last committed states of sessions and machines with changes that are not durable. Reads are answered with them while
//! the database is stalled.

use std::collections::{HashMap, VecDeque};

use crate::hub::state::entry::Entry;

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

/// States of sessions or of machines by id: for each batch, from the one in flight to the one being queued, those before its
/// first change.
#[derive(Debug)]
pub struct CommittedStates<T>(VecDeque<HashMap<String, Committed<T>>>);

impl<T> Default for CommittedStates<T> {
    fn default() -> Self {
        Self(VecDeque::from([HashMap::new()]))
    }
}

impl CommittedStates<Entry> {
    /// Records that a message was appended to a session before any of the batches.
    pub fn record_appended(&mut self, id: &str, seq: u64, updated_at: u64) {
        for state in self.0.iter_mut().filter_map(|states| states.get_mut(id)) {
            if let Committed::Present(entry) = state {
                entry.record_appended(seq, updated_at);
            }
        }
    }
}

impl<T> CommittedStates<T> {
    /// Records a state before a change, unless there was an earlier change since the last batch was sealed.
    pub fn record(&mut self, id: &str, state: impl FnOnce() -> Committed<T>) {
        if let Some(queued) = self.0.back_mut().filter(|queued| !queued.contains_key(id)) {
            queued.insert(id.to_owned(), state());
        }
    }

    /// Replaces a state after a write outside of the journal, before which all batches were written. `None` if the session or
    /// machine has no other changes.
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

    /// Returns the committed states of everything that has changed and was not created since.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().enumerate().flat_map(move |(batch, states)| {
            let has_older = move |id: &str| self.0.iter().take(batch).any(|older| older.contains_key(id));
            states.iter().filter_map(move |(id, state)| match state {
                Committed::Present(state) if !has_older(id) => Some(&**state),
                _ => None,
            })
        })
    }

    /// Starts the states of the next batch.
    pub fn seal(&mut self) {
        self.0.push_back(HashMap::new());
    }

    /// Drops the states before the oldest batch, which was written.
    pub fn drop_oldest(&mut self) {
        self.0.pop_front();
    }
}
