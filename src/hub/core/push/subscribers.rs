//! The cache of the namespace's push subscriptions, of its VAPID keys, and of the tokens for push services that the keys signed.

use std::sync::Arc;

use crate::push::endpoint::{Endpoint, EndpointId};
use crate::push::vapid::{TokenCache, VapidKeys};
use crate::store::push::PushSubscription;

/// How long the hub assumes that there are no subscribers after a read found none, in milliseconds. The assumption ends, because a
/// restored database may have subscribers.
const ASSUME_NO_SUBSCRIBERS_MS: u64 = 24 * 60 * 60 * 1000;

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
    generation: u64,
    pub(in crate::hub) keys: Option<VapidKeys>,
    pub(in crate::hub) tokens: TokenCache,
}

impl SubscriberCache {
    /// Sets the stored end of the assumption that there are no subscribers, in Unix milliseconds.
    pub fn set_assumed_empty_until(&mut self, until: u64) {
        self.assumed_empty_until = until;
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

    /// Returns how often the subscribers have changed, for [`insert_loaded`](Self::insert_loaded).
    pub fn generation(&self) -> u64 {
        self.generation
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
