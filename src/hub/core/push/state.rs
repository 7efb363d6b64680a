//! The state of web push with its keys in the key-value storage, and the cache of the namespace's subscribers.

use std::sync::Arc;

use crate::hub::core::push::log::PushLog;
use crate::hub::core::push::queue::Queue;
use crate::hub::core::push::throttle::{RateLimiter, SendSlots};
use crate::push::endpoint::{Endpoint, EndpointId};
use crate::push::vapid::{TokenCache, VapidKeys};
use crate::store::push::PushSubscription;

/// The prefix of all keys below.
pub const PUSH_KEY_PREFIX: &str = "push:";
/// Followed by the id of a [`Delivery`](super::delivery::Delivery). The value is its JSON.
pub(in crate::hub) const DELIVERIES: &str = "push:item:";
/// Followed by the id of a session in cooldown. The value is the end of the cooldown in Unix milliseconds.
pub(in crate::hub) const COOLDOWNS: &str = "push:cool:";
/// The value is [`RateLimiter::encode`].
pub(in crate::hub) const RATE_LIMITER_KEY: &str = "push:minute";
/// The value is the time until which the hub assumes that there are no subscribers, in Unix milliseconds. A new object
/// has no such entry and reads the database, which may be a copy from another deployment.
pub(in crate::hub) const ASSUMED_EMPTY_KEY: &str = "push:none";

/// How long the hub assumes that there are no subscribers after a read, in milliseconds: a restored database may have some.
const ASSUME_NO_SUBSCRIBERS_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, Default)]
pub struct PushState {
    pub(in crate::hub) queue: Queue,
    pub(in crate::hub) slots: SendSlots,
    pub(in crate::hub) rate_limiter: RateLimiter,
    pub(in crate::hub) log: PushLog,
    pub(in crate::hub) tokens: TokenCache,
}

impl PushState {
    /// Restores the state from the entries under [`PUSH_KEY_PREFIX`], after hibernation or a restart.
    pub fn restore(entries: Vec<(String, String)>) -> Self {
        let mut push = Self::default();
        for (key, value) in entries {
            if key == RATE_LIMITER_KEY {
                push.rate_limiter = RateLimiter::decode(&value);
            } else if let Some(id) = key.strip_prefix(DELIVERIES) {
                if let (Ok(id), Ok(delivery)) = (id.parse(), serde_json::from_str(&value)) {
                    push.queue.restore(id, delivery);
                }
            } else if let (Some(session), Ok(until)) = (key.strip_prefix(COOLDOWNS), value.parse()) {
                push.queue.cooldowns.insert(session.to_owned(), until);
            }
        }
        push
    }
}

/// A push subscription, with the values that are derived from its endpoint.
#[derive(Debug)]
pub struct Subscriber {
    /// Identifies the endpoint in stored deliveries.
    pub id: EndpointId,
    /// The origin of the push service; empty when the endpoint is invalid.
    pub service: String,
    pub subscription: PushSubscription,
}

impl From<PushSubscription> for Subscriber {
    fn from(subscription: PushSubscription) -> Self {
        let endpoint = &subscription.endpoint;
        let service = Endpoint::parse(endpoint, true).map(|endpoint| endpoint.origin()).unwrap_or_default();
        Self { id: EndpointId::of(endpoint), service, subscription }
    }
}

pub fn find_subscriber(subscribers: &[Subscriber], id: EndpointId) -> Option<&Subscriber> {
    subscribers.iter().find(|subscriber| subscriber.id == id)
}

#[derive(Debug, Default)]
pub struct SubscriberCache {
    /// Until when the hub assumes that there are no subscribers, in Unix milliseconds; 0 without this assumption.
    assumed_empty_until: u64,
    loaded: Option<Arc<[Subscriber]>>,
    /// How often the subscribers have changed, for [`insert_loaded`](Self::insert_loaded).
    pub(in crate::hub) generation: u64,
    pub(in crate::hub) keys: Option<VapidKeys>,
}

impl SubscriberCache {
    /// Restores the assumption that there are no subscribers from the entries under [`PUSH_KEY_PREFIX`].
    pub fn restore(entries: &[(String, String)]) -> Self {
        let until = entries.iter().find(|(key, _)| key == ASSUMED_EMPTY_KEY).and_then(|(_, until)| until.parse().ok());
        Self { assumed_empty_until: until.unwrap_or_default(), ..Self::default() }
    }

    /// Whether the namespace counts as one without subscribers, so that no query is needed.
    pub fn is_assumed_empty(&self, now: u64) -> bool {
        now < self.assumed_empty_until
    }

    /// Begins to assume that there are no subscribers. Returns until when, in Unix milliseconds.
    pub fn begin_assuming_empty(&mut self, now: u64) -> u64 {
        self.assumed_empty_until = now + ASSUME_NO_SUBSCRIBERS_MS;
        self.assumed_empty_until
    }

    /// Ends the assumption that there are no subscribers. Returns whether the hub had made the assumption, expired or not.
    pub fn end_assuming_empty(&mut self) -> bool {
        std::mem::take(&mut self.assumed_empty_until) > 0
    }

    /// Returns the cached subscribers. An empty list expires with the assumption that there are no subscribers.
    pub fn get(&self, now: u64) -> Option<Arc<[Subscriber]>> {
        self.loaded.clone().filter(|loaded| !loaded.is_empty() || self.is_assumed_empty(now))
    }

    /// Caches subscribers that were read in this generation. Returns false, and caches nothing, if they have changed since.
    pub fn insert_loaded(&mut self, subscribers: Arc<[Subscriber]>, generation: u64) -> bool {
        let is_current = self.generation == generation;
        if is_current {
            self.loaded = Some(subscribers);
        }
        is_current
    }

    /// Drops the cached subscribers. The result of a read in progress will not be cached.
    pub fn invalidate(&mut self) {
        self.loaded = None;
        self.generation += 1;
    }
}
