//! The `update` event, by which a CLI hears of what others changed (PROTOCOL.md "Events to a CLI").

use serde::Serialize;

use super::cli::NAMESPACE;
use super::socketio;
use crate::model::json::Json;
use crate::model::message::Message;

/// The place of a versioned value in an `update` event; in the text of an id its quotes would be escaped.
pub const VALUE: &str = r#""value":null"#;

/// An `update` event as a frame.
pub fn update_frame(id: &str, seq: u64, created_at: u64, body: &UpdateBody<'_>) -> String {
    let update = Update { id, seq, created_at, body };
    socketio::event_of(NAMESPACE, "update", &update, update.size_hint())
}

/// What an `update` event tells a CLI.
#[derive(Serialize)]
#[serde(tag = "t", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum UpdateBody<'a> {
    /// A message was added to the session.
    NewMessage {
        /// The id of the session.
        sid: &'a str,
        /// The message.
        message: &'a Message,
    },
    /// A versioned value of the session changed; the other one is `None`.
    UpdateSession {
        /// The id of the session.
        sid: &'a str,
        /// Its metadata.
        metadata: Option<Versioned<'a>>,
        /// Its agent state, with the completed requests that changed.
        agent_state: Option<Versioned<'a>>,
    },
    /// A versioned value of the machine changed; the other one is `None`.
    UpdateMachine {
        /// The id of the machine.
        machine_id: &'a str,
        /// Its metadata.
        metadata: Option<Versioned<'a>>,
        /// Its runner state.
        runner_state: Option<Versioned<'a>>,
    },
}

/// A value with the version it has now.
#[derive(Serialize)]
pub struct Versioned<'a> {
    /// The version.
    pub version: u64,
    /// The value; `None` stands for null.
    pub value: Option<&'a Json>,
}

/// The argument of an `update` event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Update<'a> {
    /// The id of the update, a UUID v7.
    pub id: &'a str,
    /// A number that only grows within the namespace.
    pub seq: u64,
    /// When it came up, in Unix milliseconds.
    pub created_at: u64,
    /// What it tells.
    pub body: &'a UpdateBody<'a>,
}

impl Update<'_> {
    /// About how many bytes it has as JSON text.
    pub fn size_hint(&self) -> usize {
        let around = 512;
        match self.body {
            UpdateBody::NewMessage { message, .. } => around + message.content.text().len(),
            _ => around,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_carry_versions_and_opaque_values() {
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
