//! Events for web clients (PROTOCOL-EVENTS.md "Events for web clients"): the payload, and the audience that receives it.

use serde::Serialize;

use super::json::Json;
use super::message::{Message, TextKind};
use super::text_parts::TextParts;
use crate::limits::MAX_PART_BYTES;

/// The largest message content that an event carries, in bytes. An event is held in memory for each subscriber, so a larger
/// content is replaced by its size; clients read it from the history.
pub const MAX_EVENT_CONTENT_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// The subscribers of this session, and the subscribers of all sessions and machines.
    Session(String),
    /// The subscribers of this session only. Messages have this audience.
    SessionOnly(String),
    /// The subscribers of this machine, and the subscribers of all sessions and machines.
    Machine(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub audience: Audience,
    /// The event as a JSON object `{"type": ..., ...}`, without its id.
    pub body: TextParts,
    /// The seq of the message in the event, if one row contains the whole message. `None` for other events.
    pub message_seq: Option<u64>,
}

/// A piece of a message that an agent is writing. Unlike an [`Event`], it has no number and is never stored.
#[derive(Serialize)]
#[serde(tag = "type", rename = "message-delta", rename_all = "camelCase")]
pub struct DeltaEvent<'a> {
    pub session_id: &'a str,
    /// The `localId` of the message.
    pub id: &'a str,
    /// Where `text` begins in the text of the message, in UTF-16 code units.
    pub offset: u64,
    pub text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TextKind>,
}

impl DeltaEvent<'_> {
    pub fn encode(&self) -> String {
        serialize(self)
    }
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
        Self { audience, body: TextParts::from(serialize(body)), message_seq: None }
    }

    /// `data` is the whole session.
    pub fn session_added<T: Serialize>(session_id: &str, data: &T) -> Self {
        Self::new(Audience::Session(session_id.into()), &Body::SessionAdded { session_id, data })
    }

    /// `data` has the fields that changed.
    pub fn session_updated<T: Serialize>(session_id: &str, data: &T) -> Self {
        Self::new(Audience::Session(session_id.into()), &Body::SessionUpdated { session_id, data })
    }

    pub fn session_removed(session_id: &str) -> Self {
        Self::new(Audience::Session(session_id.into()), &Body::SessionRemoved::<()> { session_id })
    }

    pub fn message_received(session_id: &str, message: &Message) -> Self {
        let audience = Audience::SessionOnly(session_id.into());
        if message.content.text().len() > MAX_EVENT_CONTENT_BYTES {
            let message = Json::object(&[
                ("id", Json::of(&message.id)),
                ("seq", Json::of(&message.seq)),
                ("localId", Json::of(&message.local_id)),
                ("contentBytes", Json::of(&message.content.text().len())),
                ("createdAt", Json::of(&message.created_at)),
            ]);
            return Self::new(audience, &Body::MessageReceived { session_id, message: &message });
        }
        let serialize = |message: &Message| serialize(&Body::MessageReceived { session_id, message });
        let message_seq = (message.content.text().len() <= MAX_PART_BYTES).then_some(message.seq);
        Self { audience, body: message.serialize_in_parts(serialize), message_seq }
    }

    /// `data` is the whole machine.
    pub fn machine_updated<T: Serialize>(machine_id: &str, data: &T) -> Self {
        Self::new(Audience::Machine(machine_id.into()), &Body::MachineUpdated { machine_id, data })
    }
}

fn serialize<T: Serialize>(body: &T) -> String {
    // Fails only for maps with keys that are not strings, which no event has.
    serde_json::to_string(body).unwrap_or_default()
}
