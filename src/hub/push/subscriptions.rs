//! Push subscriptions and the hub's VAPID key pair: the use cases behind `/api/push`.

use std::sync::{Arc, Mutex};

use crate::auth::token::SecretId;
use crate::hub::core::config::Config;
use crate::hub::core::error::Error;
use crate::hub::core::ports::Runtime;
use crate::hub::core::push::state::{ASSUMED_EMPTY_KEY, Subscriber, SubscriberCache};
use crate::memory_budget::lock;
use crate::push::endpoint::Endpoint;
use crate::push::request::{InvalidKey, Keys};
use crate::push::vapid::VapidKeys;
use crate::store::fence::FencedDb;
use crate::store::push::{self, PushSubscription};
use crate::store::{DbError, Statement, Value, execute, secrets};

/// The push subscriptions of a namespace, in the tables of access.
pub struct Subscriptions {
    db: FencedDb,
    config: Arc<Config>,
    rt: Arc<dyn Runtime>,
    cache: Mutex<SubscriberCache>,
}

impl Subscriptions {
    pub(in crate::hub) fn new(
        db: FencedDb,
        config: Arc<Config>,
        rt: Arc<dyn Runtime>,
        subscribers: SubscriberCache,
    ) -> Self {
        Self { db, config, rt, cache: Mutex::new(subscribers) }
    }

    /// Returns the configured key pair, or the key pair in the database. Generates a key pair if there is neither.
    pub async fn load_vapid_keys(&self) -> Result<VapidKeys, Error> {
        let known = self.config.push.keys.clone().or_else(|| lock(&self.cache).keys.clone());
        if let Some(keys) = known {
            return Ok(keys);
        }
        let mut random = [0; 32];
        self.rt.random(&mut random)?;
        // One in 2^32 random numbers is not a valid P-256 key.
        let invalid_key = || Error::Unavailable("The hub could not generate a VAPID key pair. Try again.".into());
        let generated = VapidKeys::from_bytes(&random).ok_or_else(invalid_key)?;
        let stored = secrets::get_or_insert(&self.db, "VAPID_PRIVATE_KEY", &generated.private()).await?;
        let malformed = || {
            Error::Unavailable("The VAPID private key in the database is malformed. Set VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY instead.".into())
        };
        let keys = VapidKeys::parse(&stored).ok_or_else(malformed)?;
        lock(&self.cache).keys = Some(keys.clone());
        Ok(keys)
    }

    /// `POST /api/push/subscribe`. An identical subscription is not written again. Writes nothing if `credential` is revoked.
    pub async fn subscribe(&self, subscription: PushSubscription, credential: Value) -> Result<(), Error> {
        let invalid = |field, reason: &str| Error::field(field, format!("Field `{field}` {reason}."));
        Endpoint::parse(&subscription.endpoint, self.config.push.allows_insecure_endpoints)
            .map_err(|error| invalid("endpoint", error.0))?;
        Keys::parse(&subscription.p256dh, &subscription.auth).map_err(|error| match error {
            InvalidKey::P256dh => {
                invalid("keys.p256dh", "must be base64 of an uncompressed point of P-256, as the browser exports it")
            }
            InvalidKey::Auth => invalid("keys.auth", "must be base64 of 16 bytes, as the browser exports it"),
        })?;
        if self.load().await?.iter().any(|known| known.subscription == subscription) {
            return Ok(());
        }
        // Before the write: if the hub stopped right after it, the assumption would hold, and the subscriber would get no notifications.
        self.end_assuming_no_subscribers();
        let max = self.config.push.max_subscriptions;
        let statements = push::upsert(&self.config.namespace, &subscription, credential, self.rt.now(), max);
        self.change(statements.into()).await?;
        // Again after the write, because a concurrent read may have found no subscribers and stored it.
        self.end_assuming_no_subscribers();
        Ok(())
    }

    /// `DELETE /api/push/subscribe`. Does nothing if the subscription does not exist.
    pub async fn unsubscribe(&self, endpoint: String) -> Result<(), Error> {
        let known = self.load().await?.iter().any(|known| known.subscription.endpoint == endpoint);
        if known {
            self.delete(&[endpoint]).await?;
        }
        Ok(())
    }

    pub(in crate::hub) async fn delete(&self, endpoints: &[String]) -> Result<(), Error> {
        self.change(vec![push::delete(&self.config.namespace, endpoints)]).await?;
        // If no subscription is left, this read stores the assumption that there are no subscribers.
        self.load().await?;
        Ok(())
    }

    pub(in crate::hub) async fn change(&self, statements: Vec<Statement>) -> Result<(), DbError> {
        // Before the commit, so that a read in flight does not put the old subscriptions into the cache during the commit.
        lock(&self.cache).invalidate();
        let result = execute(&self.db, statements).await;
        // Again after the commit, because a read that began during the commit may have found the old subscriptions.
        lock(&self.cache).invalidate();
        result
    }

    /// Returns the namespace's subscribers, oldest first, from the cache or the database.
    pub(in crate::hub) async fn load(&self) -> Result<Arc<[Subscriber]>, DbError> {
        loop {
            let generation = {
                let cache = lock(&self.cache);
                if let Some(cached) = cache.get(self.rt.now()) {
                    return Ok(cached);
                }
                cache.generation
            };
            let read = push::load_all(&self.db, &self.config.namespace).await?;
            let has_none = read.is_empty();
            let valid: Arc<[Subscriber]> = self.retain_valid(read).await?.into_iter().map(Subscriber::from).collect();
            if lock(&self.cache).insert_loaded(Arc::clone(&valid), generation) {
                if has_none {
                    let until = lock(&self.cache).begin_assuming_empty(self.rt.now());
                    self.rt.kv_put(ASSUMED_EMPTY_KEY, &until.to_string());
                } else {
                    self.end_assuming_no_subscribers();
                }
                return Ok(valid);
            }
        }
    }

    /// Returns the subscriptions of devices, and of tokens whose access secret is still valid. Others are skipped, not deleted: for
    /// minutes after a deployment, an object may have the earlier settings, and would delete the subscriptions of the new secret.
    async fn retain_valid(&self, mut read: Vec<PushSubscription>) -> Result<Vec<PushSubscription>, DbError> {
        let (namespace, tokens) = (&self.config.namespace, &self.config.tokens);
        // An earlier version stored no secret.
        let lacks_secret = |s: &PushSubscription| s.token_device.is_none() && s.secret.is_none();
        if read.iter().any(lacks_secret) {
            let SecretId(oldest) = tokens.oldest_secret();
            execute(&self.db, vec![push::set_missing_secret(namespace, oldest)]).await?;
            read.iter_mut().filter(|s| lacks_secret(s)).for_each(|s| s.secret = Some(oldest.clone()));
        }
        read.retain(|s| s.token_device.is_some() || s.secret.as_ref().is_some_and(|id| tokens.accepts_secret(id)));
        Ok(read)
    }

    fn end_assuming_no_subscribers(&self) {
        if lock(&self.cache).end_assuming_empty() {
            self.rt.kv_delete(ASSUMED_EMPTY_KEY);
        }
    }

    /// Whether the namespace counts as one without subscribers.
    pub(in crate::hub) fn is_assumed_empty(&self, now: u64) -> bool {
        lock(&self.cache).is_assumed_empty(now)
    }
}
