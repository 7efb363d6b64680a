//! The state of web push, and its keys in the key-value storage.

use crate::auth::answer_token::AnswerKey;
use crate::hub::core::push::log::PushLog;
use crate::hub::core::push::queue::Queue;
use crate::hub::core::push::subscribers::SubscriberCache;
use crate::hub::core::push::throttle::{RateLimiter, SendSlots};

/// The prefix of all keys below.
pub const PUSH_KEY_PREFIX: &str = "push:";
/// Followed by the id of a [`Delivery`](super::delivery::Delivery). The value is its JSON.
const DELIVERY_PREFIX: &str = "push:item:";
/// Followed by the id of a session in cooldown. The value is the end of the cooldown in Unix milliseconds.
const COOLDOWN_PREFIX: &str = "push:cool:";
/// The value is [`RateLimiter::encode`].
pub(in crate::hub) const RATE_LIMITER_KEY: &str = "push:minute";
/// The value is the time until which the hub assumes that there are no subscribers, in Unix milliseconds. A new object
/// has no such entry and reads the database, which may be a copy from another deployment.
pub(in crate::hub) const ASSUMED_EMPTY_KEY: &str = "push:none";

#[derive(Debug, Default)]
pub struct PushState {
    /// The key of answer tokens, once it is loaded.
    pub(in crate::hub) answer_key: Option<AnswerKey>,
    pub(in crate::hub) subscribers: SubscriberCache,
    pub(in crate::hub) queue: Queue,
    pub(in crate::hub) slots: SendSlots,
    pub(in crate::hub) rate_limiter: RateLimiter,
    pub(in crate::hub) log: PushLog,
}

impl PushState {
    /// Restores the state from the entries under [`PUSH_KEY_PREFIX`], after hibernation or a restart.
    pub fn restore(entries: Vec<(String, String)>) -> Self {
        let mut push = Self::default();
        for (key, value) in entries {
            if key == ASSUMED_EMPTY_KEY {
                push.subscribers.set_assumed_empty_until(value.parse().unwrap_or_default());
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

pub(in crate::hub) fn delivery_key(id: u64) -> String {
    format!("{DELIVERY_PREFIX}{id}")
}

pub(in crate::hub) fn cooldown_key(session: &str) -> String {
    format!("{COOLDOWN_PREFIX}{session}")
}
