//! What concerns a whole namespace: its quotas, what it uses of them, and the deletion of old data. State machines without IO.

pub mod quotas;
pub mod recent_writers;

use strum::{EnumString, IntoStaticStr};

use crate::hub::core::ports::Runtime;
use crate::hub::core::storage_keys::CLOSED_FOR;

/// Why a namespace accepts only the operator's requests to import, move or delete it. The names are the values in the object's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ClosedFor {
    Import,
    Move,
    Deletion,
}

impl ClosedFor {
    /// Reads the object's storage; `None` if the namespace is not closed.
    pub fn load(rt: &dyn Runtime) -> Option<Self> {
        rt.kv_get(CLOSED_FOR)?.parse().ok()
    }
}

/// The schedule of the deletion of old data: a run a day, a batch at each alarm. At most one batch is in progress.
pub struct Retention {
    /// When the next batch is due, in Unix milliseconds; `None` while a batch is in progress, or if the deployment has no retention.
    pub due_at: Option<u64>,
    /// The tag up to which this run has searched for archived sessions; `None` when it has searched all.
    pub searched_tag: Option<String>,
}

impl Retention {
    pub fn new(due_at: Option<u64>) -> Self {
        Self { due_at, searched_tag: Some(String::new()) }
    }

    /// Begins a batch if one is due. Returns whether it began.
    pub fn begin(&mut self, now: u64) -> bool {
        self.due_at.take_if(|at| *at <= now).is_some()
    }
}

/// The schedule of the sweep, which deletes the messages of deleted sessions. At most one batch is in progress.
pub struct Sweep {
    /// When the next batch is due, in Unix milliseconds; `None` if there is nothing to delete. It begins after the batch in progress.
    pub due_at: Option<u64>,
    is_running: bool,
}

impl Sweep {
    pub fn new(due_at: Option<u64>) -> Self {
        Self { due_at, is_running: false }
    }

    /// Returns when the next batch is due; `None` while a batch is being deleted.
    pub fn next_deadline(&self) -> Option<u64> {
        self.due_at.filter(|_| !self.is_running)
    }

    /// Begins a batch if a batch is due. Returns whether a batch began.
    pub fn begin(&mut self, now: u64) -> bool {
        let is_due = self.next_deadline().is_some_and(|at| at <= now);
        if is_due {
            *self = Self { due_at: None, is_running: true };
        }
        is_due
    }

    /// Ends a batch. Returns whether the next batch was scheduled meanwhile.
    pub fn end_batch(&mut self) -> bool {
        self.is_running = false;
        self.due_at.is_some()
    }
}
