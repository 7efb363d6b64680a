//! The payload of a push: a notification that the service worker of a web client shows (PROTOCOL-PUSH.md "Push notifications").

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::request::MAX_MESSAGE_BYTES;
use super::to_base64url;

/// The largest number of requests that one notification supersedes.
const MAX_SUPERSEDED: usize = 100;

/// The largest payload, in bytes of JSON (PROTOCOL.md "Limits"): one byte less than a push message can hold.
pub const MAX_PAYLOAD_BYTES: usize = MAX_MESSAGE_BYTES - 1;
/// A longer body cannot fit the payload, because a character has at least one byte.
const MAX_BODY_CHARS: usize = MAX_PAYLOAD_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotificationKind {
    /// A pending permission request.
    Permission,
    /// An agent that waits for input.
    Ready,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    pub kind: NotificationKind,
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub body: String,
    /// The ids of earlier pending requests that this notification supersedes, the newest last. If `request_id` is answered
    /// before the push is sent, the hub notifies about the newest superseded request that is still pending.
    #[serde(default, rename = "earlier", skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    title: &'a str,
    body: &'a str,
    tag: String,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    url: String,
}

impl Notification {
    pub fn permission(session_id: &str, session_title: &str, request_id: &str, tool: &str) -> Self {
        Self {
            kind: NotificationKind::Permission,
            session_id: session_id.into(),
            request_id: Some(request_id.into()),
            body: truncate(&format!("{session_title} ({tool})")),
            superseded: Vec::new(),
        }
    }

    pub fn ready(session_id: &str, session_title: &str, agent: &str) -> Self {
        Self {
            kind: NotificationKind::Ready,
            session_id: session_id.into(),
            request_id: None,
            body: truncate(&format!("{agent} is waiting in {session_title}")),
            superseded: Vec::new(),
        }
    }

    /// Adds the requests of `other`, which was not sent and which this notification replaces, to `superseded`.
    pub fn supersede(&mut self, other: &Self) {
        let ids = other.superseded.iter().chain(&other.request_id).chain(&self.superseded);
        let mut superseded: Vec<String> = ids.filter(|id| self.request_id.as_ref() != Some(*id)).cloned().collect();
        self.superseded = superseded.split_off(superseded.len().saturating_sub(MAX_SUPERSEDED));
    }

    pub fn title(&self) -> &'static str {
        match self.kind {
            NotificationKind::Permission => "Permission Request",
            NotificationKind::Ready => "Session Ready",
        }
    }

    /// Returns the path of the session's page in the web client.
    pub fn url(&self) -> String {
        format!("/sessions/{}", self.session_id)
    }

    /// Returns the tag of the displayed notification. A browser replaces a notification with a newer one that has the same tag.
    fn tag(&self) -> String {
        let kind = if self.kind == NotificationKind::Permission { "permission" } else { "ready" };
        format!("{kind}-{}", self.session_id)
    }

    /// Returns the header `Topic`: the tag, hashed to the allowed 32 characters (RFC 8030 section 5.4).
    pub fn topic(&self) -> String {
        let digest = Sha256::digest(self.tag().as_bytes());
        to_base64url(digest.get(..24).unwrap_or_default())
    }

    /// Returns the header `Urgency` (RFC 8030 section 5.3): high for a permission request, because the agent is blocked until the
    /// request is answered.
    pub fn urgency(&self) -> &'static str {
        match self.kind {
            NotificationKind::Permission => "high",
            NotificationKind::Ready => "normal",
        }
    }

    /// Serializes the payload. The body is truncated so that the JSON has at most `max_bytes`.
    pub fn payload(&self, max_bytes: usize) -> String {
        let mut body = self.body.clone();
        loop {
            let text = self.payload_with(&body);
            let excess = text.len().saturating_sub(max_bytes);
            if excess == 0 || body.is_empty() {
                return text;
            }
            // A character has at most six bytes as JSON. Each round removes at least one, and one more for the ellipsis.
            let chars = body.chars().count();
            let kept = chars.saturating_sub((excess / 6).max(1) + 1);
            body = body.chars().take(kept).collect();
            if kept > 0 {
                body.push('…');
            }
        }
    }

    fn payload_with(&self, body: &str) -> String {
        let data = Data { session_id: &self.session_id, request_id: self.request_id.as_deref(), url: self.url() };
        let payload = Payload { title: self.title(), body, tag: self.tag(), data };
        serde_json::to_string(&payload).unwrap_or_default()
    }
}

fn truncate(body: &str) -> String {
    body.chars().take(MAX_BODY_CHARS).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::limits::SHORT_PAYLOAD_BYTES;
    use proptest::prelude::*;

    #[test]
    fn each_kind_of_notification_has_its_payload_and_urgency() {
        let permission = Notification::permission("s1", "demo", "r1", "Bash");
        assert_eq!(
            permission.payload(MAX_PAYLOAD_BYTES),
            r#"{"title":"Permission Request","body":"demo (Bash)","tag":"permission-s1","data":{"sessionId":"s1","requestId":"r1","url":"/sessions/s1"}}"#
        );
        let ready = Notification::ready("s1", "demo", "alpha");
        assert_eq!(
            ready.payload(MAX_PAYLOAD_BYTES),
            r#"{"title":"Session Ready","body":"alpha is waiting in demo","tag":"ready-s1","data":{"sessionId":"s1","url":"/sessions/s1"}}"#
        );
        assert_eq!((permission.urgency(), ready.urgency()), ("high", "normal"));
    }

    #[test]
    fn a_topic_has_32_characters_and_depends_on_session_and_kind() {
        let topic = Notification::permission("s1", "a", "r1", "T").topic();
        assert_eq!(topic.len(), 32);
        assert!(topic.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{topic}");
        assert_eq!(Notification::permission("s1", "b", "r2", "U").topic(), topic);
        assert_ne!(Notification::ready("s1", "a", "alpha").topic(), topic);
        assert_ne!(Notification::permission("s2", "a", "r1", "T").topic(), topic);
    }

    proptest! {
        #[test]
        fn a_payload_is_within_its_limit_and_has_all_data(
            name in "\\PC{0,200}|[\u{1}\"é🦀]{0,4500}", id in "\\PC{1,60}", limit in SHORT_PAYLOAD_BYTES..=MAX_PAYLOAD_BYTES,
        ) {
            let text = Notification::permission("018f0000-0000-7000-8000-000000000000", &name, &id, "Tool").payload(limit);
            prop_assert!(text.len() <= limit, "{} of {limit}", text.len());
            let payload: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&payload["data"]["requestId"], &id);
            let body = payload["body"].as_str().unwrap();
            let whole = format!("{name} (Tool)");
            prop_assert!(body == whole || whole.starts_with(body.strip_suffix('…').unwrap()));
        }
    }
}
