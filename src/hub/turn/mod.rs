//! A turn of the hub: an atomic step, which holds the lock of the hub's state and does not await. The turn of an agent, in the protocol,
//! is something else.

pub mod deadlines;
pub mod effects;
pub mod outbox;
pub mod schedule;
pub mod sockets;

use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError};

use crate::hub::Hub;
use crate::hub::core::state::State;

/// Holds the lock of the hub's state. A turn is atomic: no other task runs before the turn is dropped. Must not be held across
/// an await.
pub(in crate::hub) struct Turn<'a> {
    pub(in crate::hub) hub: &'a Hub,
    pub(in crate::hub) state: MutexGuard<'a, State>,
}

impl Hub {
    pub(in crate::hub) fn turn(&self) -> Turn<'_> {
        // Poisoning is ignored: in the deployed build a panic ends the whole instance (`platform::guard`).
        Turn { hub: self, state: self.state.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Deref for Turn<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}
