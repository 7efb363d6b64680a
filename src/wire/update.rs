//! The `update` event: notifies a CLI of a change by another client (PROTOCOL-CLI.md "Events to a CLI").

use serde::Serialize;

use super::cli::NAMESPACE;
use super::socketio;
use crate::model::message::Message;

/// The placeholder for a versioned value in an `update` event. This text occurs nowhere else, because quotes in a string are
/// escaped.
pub const VALUE_PLACEHOLDER: &str = r#""value":null"#;

/// Encodes the event. Opaque values in `body` are placeholders: [`TextParts`](crate::model::text_parts::TextParts) replaces them.
pub fn update_frame(id: &str, seq: u64, created_at: u64, body: &UpdateBody<'_>) -> String {
    let update = Update { id, seq, created_at, body };
    // Fails only for maps with keys that are not strings, which no update has.
    let update = serde_json::to_string(&update).unwrap_or_default();
    socketio::event_frame(NAMESPACE, None, "update", &[&update])
}

#[derive(Serialize)]
#[serde(tag = "t", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum UpdateBody<'a> {
    NewMessage {
        sid: &'a str,
        message: &'a Message,
    },
    /// One of the two values changed; the other is `None`.
    UpdateSession {
        sid: &'a str,
        metadata: Option<Versioned>,
        /// The agent state, with only the completed requests that changed.
        agent_state: Option<Versioned>,
    },
    /// One of the two values changed; the other is `None`.
    UpdateMachine {
        machine_id: &'a str,
        metadata: Option<Versioned>,
        runner_state: Option<Versioned>,
    },
}

/// A version, and a placeholder for its value.
#[derive(Serialize)]
pub struct Versioned {
    version: u64,
    value: (),
}

impl Versioned {
    pub fn new(version: u64) -> Self {
        Self { version, value: () }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    /// A UUID v7.
    id: &'a str,
    /// Increases monotonically in the namespace.
    seq: u64,
    /// Unix milliseconds.
    created_at: u64,
    body: &'a UpdateBody<'a>,
}
