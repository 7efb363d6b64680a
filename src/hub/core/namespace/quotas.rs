//! The quotas of a namespace and how long its data is kept, which are optional settings of the deployment, and what the namespace uses of
//! its quotas: the storage of its messages, and the messages of the last minute.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use futures::channel::oneshot;

use crate::hub::core::error::Error;
use crate::model::json::MAX_SAFE_INTEGER;

/// The largest number of sessions in a namespace: about 3 MB of the list always stay in memory.
pub const MAX_SESSIONS: usize = 20_000;

/// The window of [`MessageRate`], in seconds.
const WINDOW_S: u64 = 60;

/// Above this percentage of a quota, the hub reports to clients that the storage is nearly full.
const NEARLY_FULL_PERCENT: u64 = 90;

const DAY_MS: u64 = 86_400_000;
const DAYS: RangeInclusive<u64> = 1..=36_500;

/// What a namespace may use, and how long its data is kept. `None`: without a limit.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    /// The age at which a message is deleted, in milliseconds.
    pub message_retention_ms: Option<u64>,
    /// How long an archived session is kept after its last change, in milliseconds.
    pub archived_session_retention_ms: Option<u64>,
    /// The contents of all messages, in bytes.
    pub max_bytes: Option<u64>,
    /// At most [`MAX_SESSIONS`].
    pub max_sessions: Option<u64>,
    pub max_messages_per_minute: Option<u64>,
}

impl Quotas {
    pub fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str, range: RangeInclusive<u64>| {
            let Some(text) = variable(name) else { return Ok(None) };
            match text.trim().parse() {
                Ok(number) if range.contains(&number) => Ok(Some(number)),
                _ => {
                    let (min, max) = (range.start(), range.end());
                    Err(format!("{name} must be a whole number from {min} to {max}, or unset, but is `{text}`."))
                }
            }
        };
        let days = |name| Ok::<_, String>(number(name, DAYS)?.map(|days| days * DAY_MS));
        Ok(Self {
            message_retention_ms: days("MESSAGE_RETENTION_DAYS")?,
            archived_session_retention_ms: days("ARCHIVED_SESSION_RETENTION_DAYS")?,
            max_bytes: number("NAMESPACE_MAX_BYTES", 1..=MAX_SAFE_INTEGER)?,
            max_sessions: number("NAMESPACE_MAX_SESSIONS", 1..=MAX_SESSIONS as u64)?,
            max_messages_per_minute: number("NAMESPACE_MAX_MESSAGES_PER_MINUTE", 1..=1_000_000)?,
        })
    }

    /// Whether data is deleted because of its age.
    pub fn has_retention(&self) -> bool {
        self.message_retention_ms.or(self.archived_session_retention_ms).is_some()
    }

    pub fn max_sessions(&self) -> usize {
        self.max_sessions.map_or(MAX_SESSIONS, |max| usize::try_from(max).unwrap_or(MAX_SESSIONS))
    }
}

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

/// The bytes of the messages of a namespace. The first use counts them in the database; later, messages add theirs.
#[derive(Debug, Default)]
pub struct StoredBytes {
    /// `None` until a count has ended.
    pub bytes: Option<u64>,
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
    /// Returns the used bytes and the quota; `None` without a quota of storage, or if the bytes are not counted.
    pub fn usage(&self, quotas: &Quotas) -> Option<(u64, u64)> {
        self.bytes.zip(quotas.max_bytes)
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

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLES: [&str; 5] = [
        "MESSAGE_RETENTION_DAYS",
        "ARCHIVED_SESSION_RETENTION_DAYS",
        "NAMESPACE_MAX_BYTES",
        "NAMESPACE_MAX_SESSIONS",
        "NAMESPACE_MAX_MESSAGES_PER_MINUTE",
    ];

    #[test]
    fn quotas_that_are_not_set_limit_nothing() {
        let quotas = Quotas::parse(|_| None).unwrap();
        assert!(!quotas.has_retention() && quotas.max_bytes.is_none() && quotas.max_messages_per_minute.is_none());
        assert_eq!(quotas.max_sessions(), MAX_SESSIONS);
    }

    #[test]
    fn each_quota_is_a_whole_number_within_its_range() {
        let quotas = Quotas::parse(|_| Some(" 30 ".into())).unwrap();
        assert_eq!(quotas.message_retention_ms, Some(30 * DAY_MS));
        assert_eq!((quotas.max_bytes, quotas.max_sessions(), quotas.max_messages_per_minute), (Some(30), 30, Some(30)));
        for name in VARIABLES {
            for invalid in ["0", "-1", "1.5", "many", "10 GB", "9007199254740993"] {
                let error = Quotas::parse(|asked| (asked == name).then(|| invalid.into())).unwrap_err();
                assert!(error.starts_with(&format!("{name} must be")) && error.contains(invalid), "{error}");
            }
        }
        for (name, invalid) in [("NAMESPACE_MAX_SESSIONS", "20001"), ("MESSAGE_RETENTION_DAYS", "36501")] {
            assert!(Quotas::parse(|asked| (asked == name).then(|| invalid.into())).is_err(), "{name}");
        }
    }
}
