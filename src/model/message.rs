use serde::{Deserialize, Serialize};

use super::json::Json;
use super::text_parts::TextParts;

/// A message in a session's history.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// A UUID v7.
    pub id: String,
    /// The position in the session's history: 1, 2, 3 without gaps.
    pub seq: u64,
    /// The sender's idempotency key.
    pub local_id: Option<String>,
    /// Opaque to the hub.
    pub content: Json,
    /// Unix milliseconds.
    pub created_at: u64,
}

/// A message of a web client that waits until the CLI of its session is back. The message is not in the session's history.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldMessage {
    /// The sender's idempotency key.
    pub local_id: String,
    /// Unix milliseconds. Each held message of a session has another time, which determines their order.
    pub created_at: u64,
    pub content: Json,
}

/// The kind of a live text, which an agent sends in pieces (`message-delta`) while it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextKind {
    /// The answer of the agent.
    Text,
    /// The agent's thoughts.
    Thinking,
}

impl Message {
    /// Returns a JSON text with this message, in parts, because the content is not copied. `serialize` makes the text of a
    /// message whose content is `null`. The content then replaces the `null`.
    pub fn serialize_in_parts(&self, serialize: impl FnOnce(&Self) -> String) -> TextParts {
        let text = serialize(&Self { content: Json::null(), ..self.clone() });
        // `"content":null` occurs only once: inside a JSON string its quotes would be escaped.
        TextParts::value(Some(self.content.clone())).insert_into(&text, r#""content":null"#)
    }
}
