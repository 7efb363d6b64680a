//! The configuration of web push.

use crate::push::vapid::VapidKeys;

/// The default of `PUSH_MAX_SUBSCRIPTIONS`: on its smallest plan, the platform limits an event to 50 outgoing requests.
const DEFAULT_PUSH_SUBSCRIPTIONS: u64 = 50;
/// The largest valid `PUSH_MAX_SUBSCRIPTIONS`: with more, a queued notification would not fit a value of the key-value storage.
const MAX_PUSH_SUBSCRIPTIONS: u64 = 1_000;

/// How the deployment sends push messages.
#[derive(Debug, Clone)]
pub struct PushConfig {
    /// The VAPID key pair (RFC 8292). If `None`, the hub generates a pair and stores it in the database.
    pub keys: Option<VapidKeys>,
    /// The VAPID claim `sub`: a `mailto:` or `https:` contact; by default the URL at which the client reached the hub.
    pub subject: Option<String>,
    /// Whether endpoints on the local machine are allowed, also over `http`: for development.
    pub allows_insecure_endpoints: bool,
    /// The limit per namespace. A new subscription beyond the limit replaces the oldest one.
    pub max_subscriptions: u64,
}

impl Default for PushConfig {
    fn default() -> Self {
        Self {
            keys: None,
            subject: None,
            allows_insecure_endpoints: false,
            max_subscriptions: DEFAULT_PUSH_SUBSCRIPTIONS,
        }
    }
}

/// Parses `PUSH_MAX_SUBSCRIPTIONS`. The error names the valid range.
pub fn parse_max_subscriptions(text: Option<&str>) -> Result<u64, String> {
    let Some(text) = text else { return Ok(DEFAULT_PUSH_SUBSCRIPTIONS) };
    let number = text.trim().parse().ok().filter(|number| (1..=MAX_PUSH_SUBSCRIPTIONS).contains(number));
    number.ok_or_else(|| {
        format!("PUSH_MAX_SUBSCRIPTIONS must be a whole number from 1 to {MAX_PUSH_SUBSCRIPTIONS}, but is `{text}`.")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn max_subscriptions_is_a_whole_number_from_1_to_1000() {
        assert_eq!(parse_max_subscriptions(None), Ok(50));
        assert_eq!(parse_max_subscriptions(Some(" 200 ")), Ok(200));
        for invalid in ["0", "1001", "-1", "x", "1.5"] {
            assert!(
                parse_max_subscriptions(Some(invalid)).unwrap_err().contains("PUSH_MAX_SUBSCRIPTIONS"),
                "{invalid}"
            );
        }
    }
}
