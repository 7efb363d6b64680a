//! Answers from notifications (PROTOCOL-PUSH.md "Answers"): the token inside a push answers one request once.

use crate::auth::answer_token::{ANSWER_TOKEN_LIFETIME_MS, AnswerClaims, Refusal, fingerprint};
use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::ANSWERED_REQUESTS;
use crate::hub::sessions::load::state_if_pending;
use crate::hub::sessions::permissions::PermissionAnswer;
use crate::hub::turn::Turn;
use crate::model::json::Json;
use crate::model::pending_request::PendingCall;
use crate::store::push::PushSubscription;

impl Hub {
    /// Answers the request that a token names, once. The use of the token is stored before the CLI is called.
    pub async fn answer_by_token(&self, token: &str, approved: bool) -> Result<(), Error> {
        let claims = self.access.load_answer_key().await?.verify(token, self.rt.now())?;
        if claims.namespace != self.config.namespace {
            return Err(Error::InvalidAnswerToken);
        }
        self.load_completed(&claims.session).await?;
        let subscribers = self.subscriptions.load().await?;
        let is_subscribed = subscribers.iter().any(|known| fingerprint_of(&known.subscription) == claims.subscription);
        let answer = PermissionAnswer { approved, ..PermissionAnswer::default() };
        let begin = |turn: &mut Turn<'_>, stored: Option<Json>| {
            // Check first for the reasons for which the token can never be used again.
            if self.access.is_device_revoked(&claims.device) {
                return Err(Error::DeviceRevoked);
            }
            if !is_subscribed {
                return Err(Error::Unsubscribed);
            }
            let used_at = self.rt.kv_get(&request_key(&claims)).and_then(|at| at.parse().ok());
            turn.check_unused(&claims, stored.as_ref(), used_at)?;
            turn.begin_answer(&self.config, &claims.session, stored, &claims.request, &answer)?;
            self.record_answer(&claims).inspect_err(|_| turn.in_flight.end_answer(&claims.session, &claims.request))
        };
        self.with_field(&claims.session, state_if_pending, begin).await?;
        self.finish_answer(&claims.session, &claims.request, answer).await
    }

    /// Stores that a request was answered, which uses up its earlier tokens. Deletes the records of requests whose tokens have expired.
    fn record_answer(&self, claims: &AnswerClaims) -> Result<(), Error> {
        let now = self.rt.now();
        for (key, at) in self.rt.kv_list(ANSWERED_REQUESTS) {
            if at.parse().is_ok_and(|at: u64| at + ANSWER_TOKEN_LIFETIME_MS < now) {
                self.rt.kv_delete(&key);
            }
        }
        let (key, value) = (request_key(claims), now.to_string());
        self.rt.kv_put(&key, &value);
        // `kv_put` only logs an error, so the value is read back.
        match self.rt.kv_get(&key) == Some(value) {
            true => Ok(()),
            false => Err(Error::Unavailable("The answer could not be stored. Try again.".into())),
        }
    }
}

impl State {
    /// Checks that the request is pending in `stored` with the content of the token, and was not answered since the token was issued.
    /// `used_at`: when a token for the request was last used.
    fn check_unused(&self, claims: &AnswerClaims, stored: Option<&Json>, used_at: Option<u64>) -> Result<(), Error> {
        if used_at.is_some_and(|at| claims.issued_at <= at) {
            return Err(Error::AnswerTokenUsed);
        }
        // An agent may ask again under the id of a request that was answered on the page.
        let completed = self.cache.require_entry(&claims.session)?.completed.as_ref();
        let completed_at = completed.and_then(|completed| completed.completed_at(&claims.request));
        let pending = PendingCall::find(stored, &claims.request).ok_or(Error::NotFound(Kind::Request))?;
        let is_unchanged = fingerprint(&[pending.text]) == claims.content && pending.is_yes_or_no();
        let was_completed_since = completed_at.is_some_and(|at| claims.issued_at <= at);
        if is_unchanged && !was_completed_since { Ok(()) } else { Err(Error::RequestChanged) }
    }
}

/// Returns what identifies a subscription in a token: another subscription of the same browser has other keys.
pub(in crate::hub) fn fingerprint_of(subscription: &PushSubscription) -> String {
    let PushSubscription { endpoint, p256dh, auth, token_device, .. } = subscription;
    fingerprint(&[endpoint, p256dh, auth, token_device.as_deref().unwrap_or_default()])
}

fn request_key(claims: &AnswerClaims) -> String {
    format!("{ANSWERED_REQUESTS}{}", fingerprint(&[&claims.session, &claims.request]))
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid => Self::InvalidAnswerToken,
            Refusal::Expired => Self::AnswerTokenExpired,
        }
    }
}
