//! Events for web clients (PROTOCOL.md "Events for web clients"): what happened, and who may hear of it.

use serde::Serialize;

use super::message::Message;

/// The largest content of a message that an event carries, in bytes. It goes out to everybody who listens, and waits in
/// memory for each of them; what is larger is told of, and has to be read from the history.
pub const MAX_EVENT_CONTENT: usize = 8 * 1024 * 1024;

/// Who hears of an event among the subscribers of its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Subscribers of everything, or of this session.
    Session(String),
    /// Subscribers of this session only: its conversation is not broadcast.
    Conversation(String),
    /// Subscribers of everything, or of this machine.
    Machine(String),
}

/// An event with its JSON text (`{"type": ..., ...}`, without its id).
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Who may hear it.
    pub audience: Audience,
    /// The event as one JSON object.
    pub body: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum Body<'a, T> {
    SessionAdded { session_id: &'a str, data: &'a T },
    SessionUpdated { session_id: &'a str, data: &'a T },
    SessionRemoved { session_id: &'a str },
    MessageReceived { session_id: &'a str, message: &'a T },
    MachineUpdated { machine_id: &'a str, data: &'a T },
}

/// A message whose content an event leaves out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithoutContent<'a> {
    id: &'a str,
    seq: u64,
    local_id: Option<&'a str>,
    content_bytes: usize,
    created_at: u64,
}

impl<'a> WithoutContent<'a> {
    fn of(m: &'a Message) -> Self {
        let content_bytes = m.content.text().len();
        let (id, local_id) = (m.id.as_str(), m.local_id.as_deref());
        Self { id, seq: m.seq, local_id, content_bytes, created_at: m.created_at }
    }
}

impl Event {
    fn new<T: Serialize>(audience: Audience, body: &Body<'_, T>) -> Self {
        // Only a map with non-text keys can fail here, and no event has one.
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { audience, body }
    }

    /// A session came into being; `data` is the whole session.
    pub fn session_added<T: Serialize>(session_id: &str, data: &T) -> Self {
        Self::new(Audience::Session(session_id.into()), &Body::SessionAdded { session_id, data })
    }

    /// Some fields of a session changed; `data` holds those.
    pub fn session_updated<T: Serialize>(session_id: &str, data: &T) -> Self {
        Self::new(Audience::Session(session_id.into()), &Body::SessionUpdated { session_id, data })
    }

    /// A session is gone.
    pub fn session_removed(session_id: &str) -> Self {
        Self::new(Audience::Session(session_id.into()), &Body::SessionRemoved::<()> { session_id })
    }

    /// A message was added to a session. A very large one is told of without its content.
    pub fn message_received(session_id: &str, message: &Message) -> Self {
        let audience = Audience::Conversation(session_id.into());
        if message.content.text().len() > MAX_EVENT_CONTENT {
            return Self::new(audience, &Body::MessageReceived { session_id, message: &WithoutContent::of(message) });
        }
        Self::new(audience, &Body::MessageReceived { session_id, message })
    }

    /// Some fields of a machine changed; `data` holds those.
    pub fn machine_updated<T: Serialize>(machine_id: &str, data: &T) -> Self {
        Self::new(Audience::Machine(machine_id.into()), &Body::MachineUpdated { machine_id, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::json::Json;

    #[test]
    fn events_carry_their_type_in_kebab_case_and_opaque_content_as_it_was_written() {
        let message = Message {
            id: "m".into(),
            seq: 3,
            local_id: None,
            content: Json::parse(r#"{"b":1.0,"a":2}"#).unwrap(),
            created_at: 9,
        };
        let event = Event::message_received("s", &message);
        assert_eq!(event.audience, Audience::Conversation("s".into()));
        assert_eq!(
            event.body,
            r#"{"type":"message-received","sessionId":"s","message":{"id":"m","seq":3,"localId":null,"content":{"b":1.0,"a":2},"createdAt":9}}"#
        );
        let large = Json::of(&"x".repeat(MAX_EVENT_CONTENT));
        let event = Event::message_received("s", &Message { content: large, ..message });
        assert_eq!(
            event.body,
            r#"{"type":"message-received","sessionId":"s","message":{"id":"m","seq":3,"localId":null,"contentBytes":8388610,"createdAt":9}}"#
        );
        assert_eq!(Event::session_removed("s").body, r#"{"type":"session-removed","sessionId":"s"}"#);
    }
}
