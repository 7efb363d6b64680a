//! The payload of a push: a notification that the service worker of a web client shows (PROTOCOL-PUSH.md "Push notifications").

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::to_base64url;
use crate::model::json::Json;

/// The payload limit for a push service that rejected a longer payload, in bytes. The ids and the namespace always fit.
pub const MAX_SHORT_PAYLOAD_BYTES: usize = 2_000;

/// The largest number of requests that one notification supersedes.
const MAX_SUPERSEDED: usize = 100;

/// The largest payload, in bytes of JSON (PROTOCOL.md "Limits"). Some push services accept less than the 3,990 bytes of RFC 8291.
pub const MAX_PAYLOAD_BYTES: usize = 3_000;
/// The longest detail of a request, in bytes.
const MAX_DETAIL_BYTES: usize = 600;
/// The longest name of a tool, an agent or a session in the details, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// A longer body cannot fit the payload, because a character has at least one byte.
const MAX_BODY_CHARS: usize = MAX_PAYLOAD_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotificationKind {
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

/// What a notification says about its session and its request when it is sent. Not stored with the notification.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// The title of the session.
    pub session: Option<String>,
    pub agent: Option<String>,
    pub tool: Option<String>,
    /// The argument that describes the request best.
    pub detail: Option<String>,
    pub request: Option<Call>,
    /// Permits one answer to the request. Only with `request`.
    pub answer_token: Option<String>,
    /// When the notification was sent, in Unix milliseconds.
    pub sent_at: Option<u64>,
    /// The namespace of the session: a browser may be signed in to several. Kept when the other details do not fit the payload.
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Call {
    pub tool: String,
    pub arguments: Box<RawValue>,
}

impl Details {
    pub fn members(&self) -> [(&'static str, Option<Json>); 8] {
        let text = |text: &Option<String>| text.as_ref().map(Json::of);
        [
            ("session", text(&self.session)),
            ("agent", text(&self.agent)),
            ("tool", text(&self.tool)),
            ("detail", text(&self.detail)),
            ("request", self.request.as_ref().map(Json::of)),
            ("answerToken", text(&self.answer_token)),
            ("sentAt", self.sent_at.as_ref().map(Json::of)),
            ("namespace", text(&self.namespace)),
        ]
    }

    /// Shortens the titles, the tool and the detail to their limits in a payload.
    #[must_use]
    pub fn shorten_texts(mut self) -> Self {
        for text in [&mut self.session, &mut self.agent, &mut self.tool].into_iter().flatten() {
            shorten_text(text, MAX_NAME_BYTES);
        }
        self.detail.iter_mut().for_each(|text| shorten_text(text, MAX_DETAIL_BYTES));
        self
    }
}

/// Cuts a text that is longer than `max_bytes` at a character boundary, and ends it with an ellipsis.
fn shorten_text(text: &mut String, max_bytes: usize) {
    const ELLIPSIS: char = '…';
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes - ELLIPSIS.len_utf8()));
        text.push(ELLIPSIS);
    }
}

impl Notification {
    pub fn permission(session_id: &str, session_title: &str, request_id: &str, tool: &str) -> Self {
        let request_id = Some(request_id.into());
        Self { request_id, ..Self::new(NotificationKind::Permission, session_id, &format!("{session_title} ({tool})")) }
    }

    pub fn ready(session_id: &str, session_title: &str, agent: &str) -> Self {
        Self::new(NotificationKind::Ready, session_id, &format!("{agent} is waiting in {session_title}"))
    }

    fn new(kind: NotificationKind, session_id: &str, body: &str) -> Self {
        let body = body.chars().take(MAX_BODY_CHARS).collect();
        Self { kind, session_id: session_id.into(), request_id: None, body, superseded: Vec::new() }
    }

    /// Takes over the requests of `replaced`, an unsent notification that this one replaces.
    pub fn supersede(&mut self, replaced: &Self) {
        let ids = replaced.superseded.iter().chain(&replaced.request_id).chain(&self.superseded);
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

    /// Returns the header `Urgency` (RFC 8030 section 5.3): high for a permission request, which blocks the agent.
    pub fn urgency(&self) -> &'static str {
        match self.kind {
            NotificationKind::Permission => "high",
            NotificationKind::Ready => "normal",
        }
    }

    /// Serializes the payload with at most `max_bytes`. If the payload is larger, leaves out the whole request; if it is still
    /// larger, leaves out all details except the namespace, and cuts the body.
    pub fn payload(&self, details: &Details, max_bytes: usize) -> String {
        let without_request = Details { request: None, answer_token: None, ..details.clone() };
        let texts = [details, &without_request].map(|details| self.payload_with(&self.body, details));
        if let Some(text) = texts.into_iter().find(|text| text.len() <= max_bytes) {
            return text;
        }
        let without_details = Details { namespace: details.namespace.clone(), ..Details::default() };
        let mut body = self.body.clone();
        loop {
            let text = self.payload_with(&body, &without_details);
            let excess = text.len().saturating_sub(max_bytes);
            if excess == 0 || body.is_empty() {
                return text;
            }
            // A character takes at most six bytes in JSON, so at least `excess / 6` characters must go. Each round removes at least
            // one character, and one more for the ellipsis.
            let chars = body.chars().count();
            let kept = chars.saturating_sub((excess / 6).max(1) + 1);
            body = body.chars().take(kept).collect();
            if kept > 0 {
                body.push('…');
            }
        }
    }

    fn payload_with(&self, body: &str, details: &Details) -> String {
        let request_id = self.request_id.as_ref().map(Json::of);
        let url = Json::of(&self.url());
        let data = [("sessionId", Some(Json::of(&self.session_id))), ("requestId", request_id), ("url", Some(url))];
        let data = Json::object_of_some(&[&data[..], &details.members()].concat());
        let (title, tag) = (Json::of(self.title()), Json::of(&self.tag()));
        let members = [("title", title), ("body", Json::of(body)), ("tag", tag), ("data", data)];
        Json::object(&members).text().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_topic_has_32_characters_and_depends_on_session_and_kind() {
        let topic = Notification::permission("s1", "a", "r1", "T").topic();
        assert_eq!(topic.len(), 32);
        assert!(topic.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{topic}");
        assert_eq!(Notification::permission("s1", "b", "r2", "U").topic(), topic);
        assert_ne!(Notification::ready("s1", "a", "alpha").topic(), topic);
        assert_ne!(Notification::permission("s2", "a", "r1", "T").topic(), topic);
    }

    fn details(arguments: &str) -> Details {
        let call = Call { tool: "Bash".into(), arguments: RawValue::from_string(arguments.into()).unwrap() };
        Details {
            session: Some("demo".into()),
            tool: Some("Bash".into()),
            detail: Some("é".repeat(1_000)),
            request: Some(call),
            answer_token: Some("sga_x.y".into()),
            namespace: Some("n".repeat(64)),
            ..Details::default()
        }
        .shorten_texts()
    }

    #[test]
    fn a_payload_omits_the_request_before_the_detail_and_the_detail_before_the_body() {
        let notification = Notification::permission("s1", "demo", "r1", "Bash");
        let present_fields = |details: &Details, max_bytes| {
            let text = notification.payload(details, max_bytes);
            assert!(text.len() <= max_bytes, "{}", text.len());
            let payload: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(payload["body"], "demo (Bash)");
            let data = payload["data"].as_object().unwrap();
            assert_eq!(data["namespace"], "n".repeat(64));
            ["detail", "request", "answerToken"].map(|name| data.contains_key(name))
        };
        let (short, long) = (details(r#"{"command":"ls"}"#), details(&format!("\"{}\"", "x".repeat(2_500))));
        assert_eq!(short.detail.as_ref().unwrap().len(), 599, "cut at a character boundary");
        assert_eq!(present_fields(&short, MAX_PAYLOAD_BYTES), [true; 3]);
        assert_eq!(present_fields(&long, MAX_PAYLOAD_BYTES), [true, false, false]);
        assert_eq!(present_fields(&long, 500), [false; 3]);
    }

    proptest! {
        #[test]
        fn a_payload_is_within_its_limit_and_keeps_the_request_id_and_the_start_of_the_body(
            name in "\\PC{0,200}|[\u{1}\"é🦀]{0,4500}", id in "\\PC{1,60}", limit in MAX_SHORT_PAYLOAD_BYTES..=MAX_PAYLOAD_BYTES,
        ) {
            let text = Notification::permission("018f0000-0000-7000-8000-000000000000", &name, &id, "Tool")
                .payload(&details(r#"{"command":"ls"}"#), limit);
            prop_assert!(text.len() <= limit, "{} of {limit}", text.len());
            let payload: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&payload["data"]["requestId"], &id);
            let body = payload["body"].as_str().unwrap();
            let whole = format!("{name} (Tool)");
            prop_assert!(body == whole || whole.starts_with(body.strip_suffix('…').unwrap()));
        }
    }
}
