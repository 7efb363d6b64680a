//! The `update` event: notifies a CLI of a change by another client (PROTOCOL.md "Events to a CLI").

use serde::Serialize;

use super::cli::NAMESPACE;
use super::socketio;
use crate::model::json::Json;
use crate::model::message::Message;

/// The placeholder for a versioned value in an `update` event. It occurs nowhere else: in a string its quotes are escaped.
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
        /// The session id.
        sid: &'a str,
        message: &'a Message,
    },
    /// One of the two values changed; the other is `None`.
    UpdateSession {
        /// The session id.
        sid: &'a str,
        metadata: Option<Versioned<'a>>,
        /// The state with those completed requests that changed.
        agent_state: Option<Versioned<'a>>,
    },
    /// One of the two values changed; the other is `None`.
    UpdateMachine { machine_id: &'a str, metadata: Option<Versioned<'a>>, runner_state: Option<Versioned<'a>> },
}

/// A value with its version.
#[derive(Serialize)]
pub struct Versioned<'a> {
    pub version: u64,
    pub value: Option<&'a Json>,
}

/// The argument of an `update` event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Update<'a> {
    /// A UUID v7.
    pub id: &'a str,
    /// Increases monotonically in the namespace.
    pub seq: u64,
    /// Unix milliseconds.
    pub created_at: u64,
    pub body: &'a UpdateBody<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_have_versions_and_opaque_values() {
        let value = Json::parse(r#"{"z":1.0}"#).unwrap();
        let body = UpdateBody::UpdateSession {
            sid: "s",
            metadata: Some(Versioned { version: 4, value: Some(&value) }),
            agent_state: None,
        };
        assert_eq!(
            serde_json::to_string(&Update { id: "u", seq: 7, created_at: 9, body: &body }).unwrap(),
            r#"{"id":"u","seq":7,"createdAt":9,"body":{"t":"update-session","sid":"s","metadata":{"version":4,"value":{"z":1.0}},"agentState":null}}"#
        );
    }
}
