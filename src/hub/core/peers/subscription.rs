//! The subscription of a web client: which events it receives, and whether its page is visible.

use serde::{Deserialize, Serialize};

use crate::limits::{HEARTBEAT_INTERVAL_MS, MIN_ATTACHMENT_WRITE_INTERVAL_MS};
use crate::model::event::Audience;

/// How long a visibility report is valid, in milliseconds, if the client acknowledges heartbeats or names its device. Two
/// heartbeat intervals, and 15 s for the acknowledgement.
const SHORT_VISIBILITY_MS: u64 = 2 * HEARTBEAT_INTERVAL_MS + 15_000;
/// How long a visibility report of any other client is valid, in milliseconds. Equals the lifetime of a JWT.
const LONG_VISIBILITY_MS: u64 = 15 * 60_000;

/// The format of the events that a web client receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Each frame is a JSON object with `eventId`.
    #[default]
    Json,
    /// Each frame is SSE text, which the worker copies to its HTTP response.
    Sse,
}

/// A web client's subscription, in the attachment of its socket, which survives a deploy: the serialized names must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subscription {
    /// The `subscriptionId` (PROTOCOL-EVENTS.md "Events for web clients").
    pub id: String,
    /// Whether the client receives the events of every session and machine, except messages.
    #[serde(rename = "all")]
    pub receives_all: bool,
    /// The session whose events and messages the client receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The machine whose events the client receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The visibility that the client reported last; see [`Subscription::counts_as_visible`].
    #[serde(rename = "visible")]
    pub is_reported_visible: bool,
    /// When the client reported its visibility, or confirmed it by a heartbeat acknowledgement, in Unix milliseconds.
    #[serde(rename = "seenAt")]
    pub visibility_confirmed_at: u64,
    /// When the client reported its visibility, in Unix milliseconds.
    #[serde(rename = "reportedAt")]
    pub visibility_reported_at: u64,
    /// Whether the client has ever acknowledged a heartbeat.
    #[serde(rename = "answers")]
    pub acks_heartbeats: bool,
    /// The id of the client's device, which the client chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The id of the device whose token opened the stream. Independent of `device`.
    #[serde(rename = "by", skip_serializing_if = "Option::is_none")]
    pub token_device: Option<String>,
    pub format: Format,
    /// The number of the namespace's last event when the attachment was written. Not specific to this client: the attachments of
    /// sockets are the cheapest storage that survives hibernation.
    #[serde(rename = "told")]
    pub last_published: u64,
    /// When the client's JWT expires, in Unix milliseconds; `None` for an access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl Subscription {
    /// Whether the client's last report is `visible` and has not expired: a page on a closed laptop cannot report `hidden`.
    pub fn counts_as_visible(&self, now: u64) -> bool {
        let expires_soon = self.acks_heartbeats || self.device.is_some();
        let lifetime_ms = if expires_soon { SHORT_VISIBILITY_MS } else { LONG_VISIBILITY_MS };
        self.is_reported_visible && now < self.visibility_confirmed_at + lifetime_ms
    }

    /// Whether the client and a push subscription may be on the same device. `device`: the device that the push subscription
    /// names. A client or push subscription that names no device may be on any device.
    pub fn may_be_on(&self, device: Option<&str>) -> bool {
        self.device.is_none() || device.is_none() || self.device.as_deref() == device
    }

    /// Records a report of the client. `now`: Unix milliseconds, from which the report expires.
    pub fn set_visibility(&mut self, visible: bool, now: u64) {
        self.is_reported_visible = visible;
        (self.visibility_confirmed_at, self.visibility_reported_at) = (now, now);
    }

    /// Records a heartbeat acknowledgement. Returns whether the attachment must be written.
    pub fn record_heartbeat_ack(&mut self, now: u64) -> bool {
        let is_confirmation_due =
            self.is_reported_visible && now >= self.visibility_confirmed_at + MIN_ATTACHMENT_WRITE_INTERVAL_MS;
        let is_changed = is_confirmation_due || !self.acks_heartbeats;
        if is_changed {
            (self.acks_heartbeats, self.visibility_confirmed_at) = (true, now);
        }
        is_changed
    }

    /// Whether an event for this audience is sent to the client.
    pub fn receives(&self, audience: &Audience) -> bool {
        match audience {
            Audience::Session(id) => self.receives_all || self.session.as_ref() == Some(id),
            // Messages.
            Audience::SessionOnly(id) => self.session.as_ref() == Some(id),
            Audience::Machine(id) => self.receives_all || self.machine.as_ref() == Some(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visibility_expires_sooner_for_a_client_that_acknowledges_heartbeats() {
        let mut subscription = Subscription::default();
        let expires_exactly_at = |subscription: &Subscription, time: u64| {
            subscription.counts_as_visible(time - 1) && !subscription.counts_as_visible(time)
        };
        subscription.set_visibility(true, 1_000);
        assert!(expires_exactly_at(&subscription, 1_000 + LONG_VISIBILITY_MS));
        assert!(subscription.record_heartbeat_ack(1_500), "the first acknowledgement is always written");
        assert!(expires_exactly_at(&subscription, 1_500 + SHORT_VISIBILITY_MS));
        assert!(!subscription.record_heartbeat_ack(2_499) && subscription.record_heartbeat_ack(2_500));
        assert!(expires_exactly_at(&subscription, 2_500 + SHORT_VISIBILITY_MS));
        subscription.set_visibility(false, 3_000);
        assert!(!subscription.counts_as_visible(3_000) && !subscription.record_heartbeat_ack(9_000));
        subscription.set_visibility(true, 900_000);
        assert!(expires_exactly_at(&subscription, 900_000 + SHORT_VISIBILITY_MS));
    }
}
