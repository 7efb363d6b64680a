//! The schedule of the deletion of old data. A run begins once a day; it deletes a batch at each alarm.

/// The runs of a namespace. At most one batch is in progress.
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
