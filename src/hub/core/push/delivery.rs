//! The delivery of one notification to all subscribers, in one or more rounds. A round sends the notification to the targets
//! that are due, and schedules the targets that failed for a later round.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::push::endpoint::EndpointId;
use crate::push::payload::Notification;

/// The maximum number of attempts for one subscriber, and of rounds in a row in which the database is unavailable.
pub const MAX_PUSH_ATTEMPTS: u32 = 5;
/// The longest `Retry-After` of a push service that is followed, in milliseconds: a later notification is of no use.
pub const MAX_PUSH_RETRY_MS: u64 = 3_600_000;
/// How many errors a queued notification stores of subscribers that failed, and how many of subscribers that are retried. With
/// `MAX_PUSH_SUBSCRIPTIONS` subscribers, the notification must fit a value of the key-value storage (2 MB).
pub const MAX_PUSH_FAILURES: usize = 10;

/// How long a push is held back after a page on the same device has shown the notification as a toast, in milliseconds. A page reports
/// `visible` for the same time after its last input.
const PUSH_HOLD_MS: u64 = 60_000;
/// The delay after the first failed attempt, in milliseconds. Each further delay is four times as long.
const FIRST_PUSH_RETRY_MS: u64 = 5_000;

/// The reason of a failure when the subscription was deleted before the notification was sent.
pub const UNSUBSCRIBED: &str = "The browser unsubscribed before it was sent.";

/// A queued notification and the progress of its delivery, as stored in the key-value storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub notification: Notification,
    /// In Unix milliseconds, like all times here.
    #[serde(rename = "at")]
    pub created_at: u64,
    /// The earliest time of the next round.
    #[serde(rename = "due")]
    pub due_at: u64,
    /// How many rounds in a row failed because the database was unavailable.
    #[serde(default, rename = "unknown")]
    pub failed_rounds: u32,
    /// The subscribers to which the notification must still be sent; empty before the first round.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// How many subscribers the notification was sent to successfully.
    #[serde(default, rename = "sent")]
    pub sent_count: u32,
    /// The errors of the first [`MAX_PUSH_FAILURES`] subscribers that failed permanently.
    #[serde(default, rename = "failed")]
    pub failures: Vec<Failure>,
    /// How many subscribers failed permanently in addition to those in `failures`.
    #[serde(default, rename = "more_failed")]
    pub unlisted_failures: usize,
    /// Whether a round is running. No round survives a restart.
    #[serde(skip)]
    pub is_in_flight: bool,
    /// Whether the notification is stored and in the push log.
    #[serde(skip)]
    pub is_recorded: bool,
}

/// The state of a notification, as the log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryOutcome {
    /// The first round has not started, or the database is unavailable.
    Waiting,
    /// Some subscribers are retried.
    Sending,
    /// At least one push service accepted it.
    Sent,
    /// No push service accepted it.
    Failed,
    /// Visible web clients showed the notification as a toast, and it was sent to no subscriber.
    Toast,
    NoSubscribers,
    /// The permission request was answered, or the agent no longer waits for input.
    #[serde(rename = "answered")]
    Obsolete,
    SessionGone,
    /// The session's notifications are muted.
    Muted,
    CoolingDown,
    /// A newer notification of the session replaced it.
    Replaced,
    /// The queue was full.
    Overloaded,
    /// The database was unavailable in several rounds in a row.
    Unavailable,
}

/// A subscriber to which the notification must still be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    #[serde(rename = "to")]
    pub id: EndpointId,
    #[serde(rename = "due")]
    pub due_at: u64,
    #[serde(rename = "tries")]
    pub attempts: u32,
    /// Whether the payload is limited to [`MAX_SHORT_PAYLOAD_BYTES`](crate::push::payload::MAX_SHORT_PAYLOAD_BYTES), because the push
    /// service rejected a longer one.
    #[serde(default, rename = "short", skip_serializing_if = "std::ops::Not::not")]
    pub is_short: bool,
    /// Whether the push is held back, because its device got a toast.
    #[serde(default, rename = "held", skip_serializing_if = "std::ops::Not::not")]
    pub is_held_back: bool,
    /// The error of the last attempt; stored for at most [`MAX_PUSH_FAILURES`] targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Why an attempt failed, as shown in the push log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The origin of the push service. The rest of the endpoint is secret.
    pub service: String,
    /// `None` if there was no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub reason: String,
}

/// The result of an attempt to send a notification to one subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    Accepted,
    /// The subscription no longer exists at the push service.
    Gone,
    /// The payload is too long for the push service, and can be shortened.
    TooLong,
    /// A temporary failure, with the milliseconds from `Retry-After`.
    Retry(Option<u64>),
    /// No attempt was made, because the rate limit of the namespace is reached until this time.
    RateLimited(u64),
    /// A permanent failure.
    Rejected,
}

impl SendResult {
    /// Interprets the status and the header `Retry-After` of a response (RFC 8030 section 5, RFC 9110 section 10.2.3).
    pub fn from_response(status: u16, retry_after: Option<&str>, now: u64) -> Self {
        match status {
            201 | 202 | 204 => Self::Accepted,
            404 | 410 => Self::Gone,
            413 => Self::TooLong,
            429 | 500..=599 => Self::Retry(retry_after.and_then(|text| parse_retry_after(text, now))),
            _ => Self::Rejected,
        }
    }
}

/// Parses `Retry-After`, which is a number of seconds or a date, into a delay in milliseconds.
fn parse_retry_after(text: &str, now: u64) -> Option<u64> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1000));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(date.as_secs().saturating_mul(1000).saturating_sub(now))
}

impl Delivery {
    /// Returns the value for the object's storage.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn new(notification: Notification, created_at: u64, due_at: u64, is_recorded: bool) -> Self {
        Self {
            notification,
            created_at,
            due_at,
            failed_rounds: 0,
            targets: Vec::new(),
            sent_count: 0,
            failures: Vec::new(),
            unlisted_failures: 0,
            is_in_flight: false,
            is_recorded,
        }
    }

    /// When the next round starts; `None` while one is in flight.
    pub fn next_round_at(&self) -> Option<u64> {
        let first_target = self.targets.iter().map(|target| target.due_at).min().unwrap_or_default();
        (!self.is_in_flight).then_some(first_target.max(self.due_at))
    }

    /// Whether the notification was sent to no push service, or is held back on a device. If so, a newer notification that
    /// replaces this one takes over its permission requests.
    pub fn is_undelivered(&self) -> bool {
        let is_attempted = self.targets.iter().any(|target| target.attempts > 0);
        let is_unsent = self.sent_count == 0 && self.failure_count() == 0 && !is_attempted;
        is_unsent || self.targets.iter().any(|target| target.is_held_back)
    }

    /// Whether the notification is held back on all devices that it was not sent to.
    pub fn is_held_back(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(|target| target.is_held_back)
    }

    /// Holds back the due targets whose device is in use. Of the due targets that were held back before, removes those whose device
    /// has reported use since the toast; the others stay due. `is_in_use(target, since)`: whether the device has reported use since
    /// that time. Returns whether a toast must be sent.
    pub fn hold_back(&mut self, is_in_use: impl Fn(EndpointId, u64) -> bool, now: u64) -> bool {
        let mut needs_toast = false;
        self.targets.retain_mut(|target| {
            if target.due_at > now {
                return true;
            }
            if std::mem::take(&mut target.is_held_back) {
                return !is_in_use(target.id, target.due_at.saturating_sub(PUSH_HOLD_MS - 1));
            }
            if is_in_use(target.id, 0) {
                needs_toast = true;
                (target.is_held_back, target.due_at, target.failure) = (true, now + PUSH_HOLD_MS, None);
            }
            true
        });
        needs_toast
    }

    /// Returns the outcome of a delivery without targets, or whose remaining targets are held back.
    pub fn outcome(&self) -> DeliveryOutcome {
        match (self.sent_count, self.failure_count()) {
            (0, 0) => DeliveryOutcome::Toast,
            (0, _) => DeliveryOutcome::Failed,
            _ => DeliveryOutcome::Sent,
        }
    }

    /// Schedules another round after the database was unavailable. Returns false after [`MAX_PUSH_ATTEMPTS`] such rounds in a row.
    pub fn retry_round(&mut self, now: u64) -> bool {
        self.failed_rounds += 1;
        self.due_at = now + retry_delay_ms(self.failed_rounds);
        self.failed_rounds < MAX_PUSH_ATTEMPTS
    }

    /// Schedules the notification for these subscriptions, due at `now`, in Unix milliseconds.
    pub fn set_targets(&mut self, subscribers: impl Iterator<Item = EndpointId>, now: u64) {
        let target = |id| Target { id, due_at: now, attempts: 0, is_short: false, is_held_back: false, failure: None };
        self.targets = subscribers.map(target).collect();
    }

    /// Counts the targets that are no longer subscribed as failed.
    pub fn remove_unsubscribed(&mut self, is_subscribed: impl Fn(EndpointId) -> bool) {
        let removed: Vec<Target> = self.targets.extract_if(.., |target| !is_subscribed(target.id)).collect();
        for target in removed {
            let reason = UNSUBSCRIBED.to_owned();
            self.add_failure(target.failure.map(|failure| Failure { status: None, reason, ..failure }));
        }
    }

    /// How many subscribers failed permanently.
    pub fn failure_count(&self) -> usize {
        self.failures.len() + self.unlisted_failures
    }

    fn add_failure(&mut self, failure: Option<Failure>) {
        match failure.filter(|_| self.failures.len() < MAX_PUSH_FAILURES) {
            Some(failure) => self.failures.push(failure),
            None => self.unlisted_failures += 1,
        }
    }

    fn retry_at(&mut self, target: Target, due_at: u64, failure: Failure) {
        let stored = self.targets.iter().filter(|target| target.failure.is_some()).count();
        self.targets.push(Target { due_at, failure: (stored < MAX_PUSH_FAILURES).then_some(failure), ..target });
    }

    /// Removes and returns the targets that are due. [`record_result`](Self::record_result) must follow for each.
    pub fn take_due_targets(&mut self, now: u64) -> Vec<Target> {
        self.targets.extract_if(.., |target| target.due_at <= now).collect()
    }

    /// Records the result of an attempt. `failure` is ignored if the push service accepted the message.
    pub fn record_result(&mut self, mut target: Target, result: SendResult, failure: Failure, now: u64) {
        if let SendResult::RateLimited(until) = result {
            return self.retry_at(target, until, failure);
        }
        target.attempts += 1;
        let delay = match result {
            SendResult::Accepted => {
                self.sent_count += 1;
                return;
            }
            SendResult::Retry(delay) => delay.unwrap_or_else(|| retry_delay_ms(target.attempts)),
            SendResult::TooLong => {
                target.is_short = true;
                0
            }
            _ => return self.add_failure(Some(failure)),
        };
        if target.attempts >= MAX_PUSH_ATTEMPTS || delay > MAX_PUSH_RETRY_MS {
            return self.add_failure(Some(failure));
        }
        self.retry_at(target, now + delay, failure);
    }
}

fn retry_delay_ms(attempts: u32) -> u64 {
    FIRST_PUSH_RETRY_MS << (2 * (attempts.clamp(1, MAX_PUSH_ATTEMPTS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(session: &str) -> Notification {
        Notification::ready(session, "demo", "alpha")
    }

    fn failure() -> Failure {
        Failure { service: "https://a.com".into(), status: Some(500), reason: "busy".into() }
    }

    #[test]
    fn a_stored_delivery_to_a_thousand_subscribers_is_small_with_any_results() {
        let service = format!("https://{}.com", "a.".repeat(120));
        for result in [SendResult::Retry(None), SendResult::RateLimited(1), SendResult::Rejected] {
            let mut delivery = Delivery::new(ready("s"), 0, 0, true);
            delivery.set_targets((0..1_000).map(|number| EndpointId::of(&number.to_string())), 1_700_000_000_000);
            for target in delivery.take_due_targets(u64::MAX) {
                let failure = Failure { service: service.clone(), ..failure() };
                delivery.record_result(target, result.clone(), failure, 1_700_000_000_000);
            }
            assert_eq!(delivery.targets.len() + delivery.failure_count(), 1_000);
            let retried = delivery.targets.iter().filter_map(|target| target.failure.as_ref());
            assert_eq!(delivery.failures.iter().chain(retried).count(), MAX_PUSH_FAILURES, "{result:?}");
            let bytes = serde_json::to_string(&delivery).unwrap().len();
            assert!(bytes < 80_000, "{bytes}");
        }
    }
}
