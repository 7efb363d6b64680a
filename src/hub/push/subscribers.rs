//! The cached push subscriptions of the namespace, with the VAPID keys and tokens for them.

use std::sync::Arc;

use crate::push::endpoint::{Endpoint, EndpointId};
use crate::push::vapid::{TokenCache, VapidKeys};
use crate::store::push::PushSubscription;

/// How long the hub assumes that there are no subscribers without asking the database, in milliseconds. It is limited because
/// a database restored to an earlier moment may have some.
const ASSUME_NONE_MS: u64 = 24 * 60 * 60 * 1000;

/// A push subscription, with what is derived from its endpoint.
#[derive(Debug)]
pub struct Subscriber {
    /// By which queued notifications refer to it.
    pub id: EndpointId,
    /// The origin of its push service; empty when the endpoint is invalid.
    pub service: String,
    /// The subscription as stored.
    pub subscription: PushSubscription,
}

impl From<PushSubscription> for Subscriber {
    fn from(subscription: PushSubscription) -> Self {
        let endpoint = &subscription.endpoint;
        let service = Endpoint::parse(endpoint, true).map(|endpoint| endpoint.origin()).unwrap_or_default();
        Self { id: EndpointId::of(endpoint), service, subscription }
    }
}

/// Returns the subscriber with this id.
pub fn find(subscribers: &[Subscriber], id: EndpointId) -> Option<&Subscriber> {
    subscribers.iter().find(|subscriber| subscriber.id == id)
}

/// The subscribers as last read from the database.
#[derive(Debug, Default)]
pub struct SubscriberCache {
    /// Until when the hub assumes that there are no subscribers, in Unix milliseconds; 0 when it does not.
    assume_none_until: u64,
    loaded: Option<Arc<[Subscriber]>>,
    generation: u64,
    pub(super) keys: Option<VapidKeys>,
    pub(super) tokens: TokenCache,
}

impl SubscriberCache {
    /// Restores the assumption that there are no subscribers, after a sleep or restart.
    pub fn restore_assume_none(&mut self, until: u64) {
        self.assume_none_until = until;
    }

    /// Whether the hub assumes that there are no subscribers.
    pub fn assumes_none(&self, now: u64) -> bool {
        now < self.assume_none_until
    }

    /// Starts to assume that there are no subscribers (`none`), or stops it. Returns the end of the assumption before and
    /// now, in Unix milliseconds; 0 stands for no assumption.
    pub fn set_assume_none(&mut self, none: bool, now: u64) -> (u64, u64) {
        let until = if none { now + ASSUME_NONE_MS } else { 0 };
        (std::mem::replace(&mut self.assume_none_until, until), until)
    }

    /// The cached subscribers. An empty list expires with the assumption that there are none.
    pub fn get(&self, now: u64) -> Option<Arc<[Subscriber]>> {
        self.loaded.clone().filter(|loaded| !loaded.is_empty() || self.assumes_none(now))
    }

    /// A counter of the changes, for [`insert_loaded`](Self::insert_loaded).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Caches subscribers that were read in this generation. Returns false when they have changed since.
    pub fn insert_loaded(&mut self, subscribers: Arc<[Subscriber]>, generation: u64) -> bool {
        let is_current = self.generation == generation;
        if is_current {
            self.loaded = Some(subscribers);
        }
        is_current
    }

    /// Drops the cached subscribers, because they change.
    pub fn invalidate(&mut self) {
        self.loaded = None;
        self.generation += 1;
    }
}
