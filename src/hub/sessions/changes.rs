//! The fields of a `session-updated` event (PROTOCOL-EVENTS.md "Events for web clients").

use serde::Serialize;

use crate::model::json::Json;
use crate::model::session::{ControlMode, Session};

/// The changed fields of a session.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ControlMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<u64>,
    /// `Some(None)` clears the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Option<u64>>,
    /// `Some(None)` clears the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen_since: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_messages_count: Option<usize>,
    /// `Some(None)` clears the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Option<&'a str>>,
    /// `Some(None)` clears the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_at: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<&'a Json>,
    /// The length of metadata that is too large for an event, in place of `metadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_version: Option<u64>,
    /// Contains only the completed requests that changed. A client merges these requests into its own list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Option<&'a Json>>,
    /// The length of an agent state that is too large for an event, in place of `agent_state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<u64>,
}

impl<'a> Changes<'a> {
    /// Returns activity, modes and times: everything that a list of sessions shows, except the metadata.
    pub fn presence(session: &'a Session) -> Self {
        Self {
            active: Some(session.active),
            active_at: Some(session.active_at),
            thinking: Some(session.thinking),
            thinking_at: Some(session.thinking_at),
            mode: session.mode,
            permission_mode: session.permission_mode.as_deref(),
            model_mode: session.model_mode.as_deref(),
            last_message_at: session.last_message_at,
            ended_at: Some(session.ended_at),
            unseen_since: Some(session.unseen_since),
            activity: Some(session.activity.as_deref()),
            activity_at: Some(session.activity_at),
            seq: Some(session.seq),
            updated_at: Some(session.updated_at),
            ..Self::default()
        }
    }
}
