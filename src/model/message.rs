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

/// What the text of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextKind {
    /// An answer.
    Text,
    /// A thought.
    Thinking,
}

impl Message {
    /// Serializes a text that contains the message, without a copy of its content: `serialize` is called with a message whose
    /// content is null.
    pub fn serialize_in_parts(&self, serialize: impl FnOnce(&Self) -> String) -> TextParts {
        let text = serialize(&Self { content: Json::null(), ..self.clone() });
        // No string contains the placeholder: there its quotes would be escaped.
        TextParts::value(Some(self.content.clone())).insert_into(&text, r#""content":null"#)
    }
}
