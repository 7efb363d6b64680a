//! Who wants pushes: the subscriptions of a namespace, and the hub's key pair.
//!
//! That there are none is noted in the notebook, so that a notification costs no read where nobody subscribed, save one a
//! day.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::push::endpoint::{Endpoint, EndpointId};
use crate::push::request::{BadKey, Keys};
use crate::push::vapid::{Tokens, VapidKeys};
use crate::store::push::{self, PushSubscription};
use crate::store::{DbError, Statement, secrets};

/// The note that nobody has subscribed, with the time until which that is believed, in Unix milliseconds. Without it the
/// database is asked: it may know more than this object, which is new when the database was put back elsewhere.
pub const NOTE_NO_SUBSCRIBERS: &str = "push:none";

/// The name of the hub's private key among its secrets.
const VAPID_SECRET: &str = "VAPID_PRIVATE_KEY";
/// For how long it is believed that nobody has subscribed, in milliseconds: the database may have been put back to a moment
/// when somebody had.
const NONE_BELIEVED_MS: u64 = 24 * 60 * 60 * 1000;

/// How pushes are sent, as the deployment is configured.
#[derive(Debug, Clone)]
pub struct PushConfig {
    /// The key pair; without one the hub makes its own.
    pub keys: Option<VapidKeys>,
    /// Who is to be asked about the hub's pushes (`mailto:` or `https:`); the hub's own address where it is not set.
    pub subject: Option<String>,
    /// Whether push services on this machine may be called, also over `http`: for development.
    pub insecure: bool,
    /// How many subscriptions a namespace may have; beyond that the oldest go.
    pub max_subscriptions: u64,
}

/// How many subscriptions a namespace has room for unless it is configured. On its smallest plan
/// the platform lets one event of an object call so many addresses.
pub const MAX_SUBSCRIPTIONS: u64 = 50;

impl Default for PushConfig {
    fn default() -> Self {
        Self { keys: None, subject: None, insecure: false, max_subscriptions: MAX_SUBSCRIPTIONS }
    }
}

/// Reads `PUSH_MAX_SUBSCRIPTIONS`; the error says what is wrong.
pub fn parse_max_subscriptions(text: Option<&str>) -> Result<u64, String> {
    let Some(text) = text else { return Ok(MAX_SUBSCRIPTIONS) };
    let number = text.trim().parse().ok().filter(|number| (1..=1_000).contains(number));
    number.ok_or_else(|| format!("PUSH_MAX_SUBSCRIPTIONS must be a whole number from 1 to 1000, but is `{text}`."))
}

/// A subscription with what is looked up of it again and again.
#[derive(Debug)]
pub struct Subscriber {
    /// What notifications on their way know it by.
    pub id: EndpointId,
    /// The origin of its push service; empty when it may not be called.
    pub service: String,
    /// The subscription.
    pub subscription: PushSubscription,
}

impl From<PushSubscription> for Subscriber {
    fn from(subscription: PushSubscription) -> Self {
        let endpoint = &subscription.endpoint;
        let service = Endpoint::parse(endpoint, true).map(|endpoint| endpoint.origin()).unwrap_or_default();
        Self { id: EndpointId::of(endpoint), service, subscription }
    }
}

/// What the hub holds of subscriptions.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Until when it is believed that there are none, in Unix milliseconds; 0 when that is not what was read.
    pub(in crate::hub) none_until: u64,
    /// Those of the database, as far as they were read.
    loaded: Option<Arc<[Subscriber]>>,
    /// Counts the changes: what was read before one is not what stands.
    changes: u64,
    keys: Option<VapidKeys>,
    pub(in crate::hub) tokens: Tokens,
}

impl Subscriptions {
    /// Whether it is known that there are none.
    pub(in crate::hub) fn known_none(&self, now: u64) -> bool {
        now < self.none_until
    }

    fn change(&mut self) {
        self.loaded = None;
        self.changes += 1;
    }
}

impl Hub {
    /// The hub's key pair: the configured one, or the one that the first hub of all made.
    pub(in crate::hub) async fn vapid_keys(&self) -> Result<VapidKeys, Error> {
        let known = self.config.push.keys.clone().or_else(|| self.state().push.subscriptions.keys.clone());
        if let Some(keys) = known {
            return Ok(keys);
        }
        let mut random = [0; 32];
        self.rt.random(&mut random)?;
        // One in 2^32 random numbers is not a key of the curve: the next request draws another one.
        let failed = || Error::Unavailable("No key pair could be generated for pushes. Try again.".into());
        let fresh = VapidKeys::of(&random).ok_or_else(failed)?;
        let kept = secrets::keep(&self.db, VAPID_SECRET, &fresh.private()).await?;
        let broken = || Error::Unavailable("The key pair for pushes in the database is broken.".into());
        let keys = VapidKeys::parse(&kept).ok_or_else(broken)?;
        self.state().push.subscriptions.keys = Some(keys.clone());
        Ok(keys)
    }

    /// `GET /api/push/vapid-public-key`.
    pub async fn vapid_public_key(&self) -> Result<String, Error> {
        Ok(self.vapid_keys().await?.public())
    }

    /// `POST /api/push/subscribe`. A subscription that is there already stays as it is.
    pub async fn subscribe_to_push(&self, subscription: PushSubscription) -> Result<(), Error> {
        let field = |field: &str, message: String| Error::field(field, format!("Field `{field}` {message}."));
        Endpoint::parse(&subscription.endpoint, self.config.push.insecure)
            .map_err(|error| field("endpoint", error.0.into()))?;
        Keys::parse(&subscription.p256dh, &subscription.auth).map_err(|bad| match bad {
            BadKey::P256dh => field("keys.p256dh", "must be base64url of an uncompressed point of P-256".into()),
            BadKey::Auth => field("keys.auth", "must be base64url of 16 bytes".into()),
        })?;
        if self.push_subscribers().await?.iter().any(|known| known.subscription == subscription) {
            return Ok(());
        }
        // Before it is written, for a hub that ended in between would never look; and after, for somebody may have looked.
        self.note_none(false);
        let most = self.config.push.max_subscriptions;
        self.change_subscriptions(push::put(&self.config.namespace, &subscription, self.rt.now(), most).into()).await?;
        self.note_none(false);
        Ok(())
    }

    /// `DELETE /api/push/subscribe`. One that is not there is no mistake.
    pub async fn unsubscribe_from_push(&self, endpoint: String) -> Result<(), Error> {
        let known = self.push_subscribers().await?.iter().any(|known| known.subscription.endpoint == endpoint);
        if known {
            self.forget_subscriptions(&[endpoint]).await?;
        }
        Ok(())
    }

    /// Deletes subscriptions.
    pub(in crate::hub) async fn forget_subscriptions(&self, endpoints: &[String]) -> Result<(), Error> {
        self.change_subscriptions(vec![push::delete(&self.config.namespace, endpoints)]).await?;
        // When it was the last one, that is noted.
        self.push_subscribers().await?;
        Ok(())
    }

    async fn change_subscriptions(&self, statements: Vec<Statement>) -> Result<(), DbError> {
        self.state().push.subscriptions.change();
        let result = self.commit(statements).await;
        self.state().push.subscriptions.change();
        result
    }

    /// The namespace's subscribers, oldest first.
    pub(in crate::hub) async fn push_subscribers(&self) -> Result<Arc<[Subscriber]>, DbError> {
        loop {
            let changes = {
                let now = self.rt.now();
                let held = &self.state().push.subscriptions;
                if let Some(loaded) = held.loaded.as_ref().filter(|loaded| !loaded.is_empty() || held.known_none(now)) {
                    return Ok(Arc::clone(loaded));
                }
                held.changes
            };
            let read = push::all(&self.db, &self.config.namespace).await?;
            let read: Arc<[Subscriber]> = read.into_iter().map(Subscriber::from).collect();
            let mut state = self.state();
            let held = &mut state.push.subscriptions;
            // What changed meanwhile may be missing in it.
            if held.changes == changes {
                held.loaded = Some(Arc::clone(&read));
                drop(state);
                self.note_none(read.is_empty());
                return Ok(read);
            }
        }
    }

    fn note_none(&self, none: bool) {
        let until = if none { self.rt.now() + NONE_BELIEVED_MS } else { 0 };
        let noted = std::mem::replace(&mut self.state().push.subscriptions.none_until, until);
        match none {
            true => self.rt.kv_put(NOTE_NO_SUBSCRIBERS, &until.to_string()),
            false if noted > 0 => self.rt.kv_delete(NOTE_NO_SUBSCRIBERS),
            false => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_subscriptions_is_read_exactly_or_refused_by_name() {
        assert_eq!(parse_max_subscriptions(None), Ok(50));
        assert_eq!(parse_max_subscriptions(Some(" 200 ")), Ok(200));
        for odd in ["0", "1001", "-1", "x", "1.5"] {
            assert!(parse_max_subscriptions(Some(odd)).unwrap_err().contains("PUSH_MAX_SUBSCRIPTIONS"), "{odd}");
        }
    }
}
