//! The state of web push in memory, and the keys under which it is stored in the key-value storage.

use crate::hub::push::log::PushLog;
use crate::hub::push::queue::Queue;
use crate::hub::push::subscribers::SubscriberCache;
use crate::hub::push::throttle::{RateLimiter, SendSlots};

/// The prefix of all keys that are read after a sleep or restart.
pub const KEY_PREFIX: &str = "push:";
/// The prefix of the keys of queued deliveries, followed by the id. The value is a JSON object.
const DELIVERY_PREFIX: &str = "push:item:";
/// The prefix of the keys of cooldowns, followed by the session's id. The value is the end in Unix milliseconds.
const COOLDOWN_PREFIX: &str = "push:cool:";
/// The key of [`RateLimiter::encode`].
pub(super) const RATE_LIMITER_KEY: &str = "push:minute";
/// The key of the time until which the hub assumes that there are no subscribers, in Unix milliseconds. A new object has no
/// value and reads the database, which may have been restored from another deployment.
pub(super) const ASSUME_NONE_KEY: &str = "push:none";

/// The state of web push of one namespace.
#[derive(Debug, Default)]
pub struct PushState {
    pub(super) subscribers: SubscriberCache,
    pub(in crate::hub) queue: Queue,
    pub(super) slots: SendSlots,
    pub(super) rate_limiter: RateLimiter,
    pub(super) log: PushLog,
}

impl PushState {
    /// Restores the state from the entries under [`KEY_PREFIX`].
    pub fn restore(entries: Vec<(String, String)>) -> Self {
        let mut push = Self::default();
        for (key, value) in entries {
            if key == ASSUME_NONE_KEY {
                push.subscribers.restore_assume_none(value.parse().unwrap_or_default());
            } else if key == RATE_LIMITER_KEY {
                push.rate_limiter = RateLimiter::decode(&value);
            } else if let Some(id) = key.strip_prefix(DELIVERY_PREFIX) {
                if let (Ok(id), Ok(delivery)) = (id.parse(), serde_json::from_str(&value)) {
                    push.queue.restore(id, delivery);
                }
            } else if let (Some(session), Ok(until)) = (key.strip_prefix(COOLDOWN_PREFIX), value.parse()) {
                push.queue.restore_cooldown(session.to_owned(), until);
            }
        }
        push
    }
}

pub(super) fn delivery_key(id: u64) -> String {
    format!("{DELIVERY_PREFIX}{id}")
}

pub(super) fn cooldown_key(session: &str) -> String {
    format!("{COOLDOWN_PREFIX}{session}")
}
