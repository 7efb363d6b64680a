//! The quotas of a namespace, and how long its data is kept. All are optional settings of the deployment.

use std::ops::RangeInclusive;

use crate::model::json::MAX_SAFE_INTEGER;

/// The largest number of sessions in a namespace: about 3 MB of the list always stay in memory.
pub const MAX_SESSIONS: usize = 20_000;

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
    /// Parses the variables that `variable` returns.
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

    /// The largest number of sessions.
    pub fn max_sessions(&self) -> usize {
        self.max_sessions.map_or(MAX_SESSIONS, |max| usize::try_from(max).unwrap_or(MAX_SESSIONS))
    }
}

/// What a namespace uses of its quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The contents of all messages, in bytes. Too low until the messages from before the quota are counted.
    pub bytes: u64,
    pub max_bytes: Option<u64>,
    pub sessions: usize,
    pub max_sessions: usize,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
