//! What a push says (PROTOCOL.md "Push notifications"): a notification as the service worker of a web client shows it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::request::MAX_MESSAGE_BYTES;
use super::to_base64url;

/// The largest payload, in bytes of JSON.
pub const MAX_PAYLOAD: usize = MAX_MESSAGE_BYTES - 1;
/// The largest payload for a push service that takes no longer one, in bytes; the data always fits.
pub const SHORT_PAYLOAD: usize = 2_000;
/// How much of a body is kept, in characters: no more would fit.
const MAX_BODY_CHARS: usize = MAX_PAYLOAD;

/// For how many requests besides its own a notification stands, at most.
const MAX_EARLIER: usize = 100;

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotificationKind {
    /// An agent asks for permission.
    Permission,
    /// An agent is done and waits.
    Ready,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// What calls for it.
    pub kind: NotificationKind,
    /// The session that it is about.
    pub session_id: String,
    /// The permission request that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What it says, as a line for a person.
    pub body: String,
    /// The requests that came shortly before this one, the newest last: it stands for them too, and one of them takes its
    /// place should it be answered before anybody was told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
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
    /// A permission request of a tool in a session of this name.
    pub fn permission(session_id: &str, session_name: &str, request_id: &str, tool: &str) -> Self {
        let body = clipped(&format!("{session_name} ({tool})"));
        let (session_id, request_id) = (session_id.into(), Some(request_id.into()));
        Self { kind: NotificationKind::Permission, session_id, request_id, body, earlier: Vec::new() }
    }

    /// An agent that waits in a session of this name.
    pub fn ready(session_id: &str, session_name: &str, agent: &str) -> Self {
        let body = clipped(&format!("{agent} is waiting in {session_name}"));
        Self {
            kind: NotificationKind::Ready,
            session_id: session_id.into(),
            request_id: None,
            body,
            earlier: Vec::new(),
        }
    }

    /// It takes the place of another one, of which nobody was told.
    pub fn stand_for(&mut self, other: &Self) {
        let ids = other.earlier.iter().chain(&other.request_id).chain(&self.earlier);
        let mut earlier: Vec<String> = ids.filter(|id| self.request_id.as_ref() != Some(*id)).cloned().collect();
        self.earlier = earlier.split_off(earlier.len().saturating_sub(MAX_EARLIER));
    }

    /// The heading.
    pub fn title(&self) -> &'static str {
        match self.kind {
            NotificationKind::Permission => "Permission Request",
            NotificationKind::Ready => "Session Ready",
        }
    }

    /// The session's page.
    pub fn url(&self) -> String {
        format!("/sessions/{}", self.session_id)
    }

    /// A notification of the same tag takes the place of an earlier one.
    fn tag(&self) -> String {
        let kind = if self.kind == NotificationKind::Permission { "permission" } else { "ready" };
        format!("{kind}-{}", self.session_id)
    }

    /// The header `Topic`: the tag in the 32 characters that it may have (RFC 8030 section 5.4).
    pub fn topic(&self) -> String {
        let digest = Sha256::digest(self.tag().as_bytes());
        to_base64url(digest.get(..24).unwrap_or_default())
    }

    /// The header `Urgency`: an agent that asks is at a standstill.
    pub fn urgency(&self) -> &'static str {
        match self.kind {
            NotificationKind::Permission => "high",
            NotificationKind::Ready => "normal",
        }
    }

    /// The payload as JSON of at most `limit` bytes: where that is too little, the body is shortened, never the data.
    pub fn payload(&self, limit: usize) -> String {
        let mut body = self.body.clone();
        loop {
            let text = self.payload_with(&body);
            let excess = text.len().saturating_sub(limit);
            if excess == 0 || body.is_empty() {
                return text;
            }
            // A character has at most six bytes as JSON, and one at least goes; the ellipsis takes three bytes.
            let chars = body.chars().count();
            let keep = chars.saturating_sub((excess / 6).max(1) + 1);
            body = body.chars().take(keep).collect();
            if keep > 0 {
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

fn clipped(body: &str) -> String {
    body.chars().take(MAX_BODY_CHARS).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_two_kinds_say_what_they_should() {
        let ask = Notification::permission("s1", "demo", "r1", "Bash");
        assert_eq!(
            ask.payload(MAX_PAYLOAD),
            r#"{"title":"Permission Request","body":"demo (Bash)","tag":"permission-s1","data":{"sessionId":"s1","requestId":"r1","url":"/sessions/s1"}}"#
        );
        let ready = Notification::ready("s1", "demo", "alpha");
        assert_eq!(
            ready.payload(MAX_PAYLOAD),
            r#"{"title":"Session Ready","body":"alpha is waiting in demo","tag":"ready-s1","data":{"sessionId":"s1","url":"/sessions/s1"}}"#
        );
        assert_eq!((ask.urgency(), ready.urgency()), ("high", "normal"));
    }

    #[test]
    fn a_topic_has_thirty_two_characters_and_is_one_for_a_session_and_kind() {
        let topic = Notification::permission("s1", "a", "r1", "T").topic();
        assert_eq!(topic.len(), 32);
        assert!(topic.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{topic}");
        assert_eq!(Notification::permission("s1", "b", "r2", "U").topic(), topic);
        assert_ne!(Notification::ready("s1", "a", "alpha").topic(), topic);
        assert_ne!(Notification::permission("s2", "a", "r1", "T").topic(), topic);
    }

    proptest! {
        #[test]
        fn whatever_it_says_it_fits_and_its_data_is_whole(
            name in "\\PC{0,200}|[\u{1}\"é🦀]{0,4500}", id in "\\PC{1,60}", limit in SHORT_PAYLOAD..=MAX_PAYLOAD,
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
