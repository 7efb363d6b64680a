//! What a namespace uses of its quotas: the storage of its messages, and the messages of the last minute.

use std::collections::VecDeque;

use futures::channel::oneshot;

use crate::hub::core::error::Error;

/// The window of [`MessageRate`], in seconds.
const WINDOW_S: u64 = 60;

/// Above this percentage of a quota, the hub reports to clients that the storage is nearly full.
const NEARLY_FULL_PERCENT: u64 = 90;

/// How much of a quota of storage is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageLevel {
    Free,
    NearlyFull,
    Full,
}

impl StorageLevel {
    /// Returns the level of the stored bytes, compared with the quota.
    pub fn of(bytes: u64, max_bytes: u64) -> Self {
        match bytes {
            _ if bytes >= max_bytes => Self::Full,
            _ if bytes.saturating_mul(100) >= max_bytes.saturating_mul(NEARLY_FULL_PERCENT) => Self::NearlyFull,
            _ => Self::Free,
        }
    }
}

/// The bytes of the messages of a namespace. The first use counts them in the database; later, each new
/// message adds its bytes.
#[derive(Debug, Default)]
pub struct StoredBytes {
    /// `None` until they are counted.
    bytes: Option<u64>,
    /// The bytes of the messages that were added since the object started.
    added: u64,
    /// How often the count was forgotten.
    forgets: u64,
    /// The callers that wait for the count in progress.
    waiters: Vec<oneshot::Sender<Result<(), Error>>>,
    /// The level that was last reported to clients.
    pub announced_level: Option<StorageLevel>,
}

impl StoredBytes {
    /// Returns the stored bytes; `None` until a count has ended.
    pub fn get(&self) -> Option<u64> {
        self.bytes
    }

    /// Returns the argument for [`set_counted`](Self::set_counted). Call this before the writes are flushed for the count.
    pub fn start_of_count(&self) -> (u64, u64) {
        (self.added, self.forgets)
    }

    /// Adds the bytes of a new message, also to the result of a count in progress.
    pub fn add(&mut self, bytes: u64) {
        self.added += bytes;
        self.bytes = self.bytes.map(|stored| stored + bytes);
    }

    /// Sets the bytes that a count has found. Does nothing if [`forget`](Self::forget) was called after the count began. Messages that
    /// were added during the count may count twice, until the next count.
    pub fn set_counted(&mut self, counted: u64, (added, forgets): (u64, u64)) {
        if forgets == self.forgets {
            self.bytes = Some(counted + (self.added - added));
        }
    }

    /// Requires another count, because messages were deleted, or a change was not written.
    pub fn forget(&mut self) {
        self.bytes = None;
        self.forgets += 1;
    }

    /// Returns a receiver of the result of the next count, and whether the caller must start the count.
    pub fn wait_for_count(&mut self) -> (oneshot::Receiver<Result<(), Error>>, bool) {
        let (sender, receiver) = oneshot::channel();
        let is_first = self.waiters.is_empty();
        self.waiters.push(sender);
        (receiver, is_first)
    }

    /// Sends the result of the count to all tasks that wait for it.
    pub fn end_count(&mut self, result: &Result<(), Error>) {
        for waiter in std::mem::take(&mut self.waiters) {
            let _ = waiter.send(result.clone());
        }
    }
}

/// The new messages of the last minute, in a sliding window with a resolution of a second. Not stored: the
/// window is empty after the object has left memory.
#[derive(Debug, Default)]
pub struct MessageRate {
    /// The Unix time in seconds, and how many messages came in this second; oldest first.
    seconds: VecDeque<(u64, u64)>,
    count: u64,
}

impl MessageRate {
    /// Returns how long the sender of a further message must wait, in milliseconds; 0 if the window has room for it.
    pub fn wait_ms(&mut self, now: u64, max: u64) -> u64 {
        while let Some((_, messages)) =
            self.seconds.front().copied().filter(|(second, _)| second + WINDOW_S <= now / 1000)
        {
            self.count -= messages;
            self.seconds.pop_front();
        }
        match self.seconds.front() {
            Some((oldest, _)) if self.count >= max => ((oldest + WINDOW_S) * 1000).saturating_sub(now),
            _ => 0,
        }
    }

    /// Counts a new message. `now`: Unix milliseconds.
    pub fn record(&mut self, now: u64) {
        let second = now / 1000;
        match self.seconds.back_mut() {
            Some((last, messages)) if *last >= second => *messages += 1,
            _ => self.seconds.push_back((second, 1)),
        }
        self.count += 1;
    }
}
