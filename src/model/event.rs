//! Events for web clients (decisions.md "Events to web clients"): what happened, and who may hear of it.

use serde::Serialize;

use super::message::Message;

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
    pub audience: Audience,
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

    /// A message was added to a session.
    pub fn message_received(session_id: &str, message: &Message) -> Self {
        Self::new(Audience::Conversation(session_id.into()), &Body::MessageReceived { session_id, message })
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
        assert_eq!(Event::session_removed("s").body, r#"{"type":"session-removed","sessionId":"s"}"#);
    }
}
