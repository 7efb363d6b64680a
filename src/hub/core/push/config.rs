//! The configuration of web push.

use crate::push::vapid::VapidKeys;

/// The default of `PUSH_MAX_SUBSCRIPTIONS`: on its smallest plan, the platform limits an event to 50 outgoing requests.
pub const DEFAULT_PUSH_SUBSCRIPTIONS: u64 = 50;
/// The largest valid `PUSH_MAX_SUBSCRIPTIONS`: with more, a queued notification would not fit a value of the key-value storage.
pub const MAX_PUSH_SUBSCRIPTIONS: u64 = 1_000;

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
