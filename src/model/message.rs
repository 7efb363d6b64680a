//! A message of a session's history.

use serde::Serialize;

use super::json::Json;

/// A message as clients see it. `seq` counts from 1 within its session, without gaps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The id, a UUID v7.
    pub id: String,
    /// The place in the session's history.
    pub seq: u64,
    /// The sender's own id, by which a message that is sent again is known.
    pub local_id: Option<String>,
    /// The content, opaque to the hub.
    pub content: Json,
    /// When it was taken, in Unix milliseconds.
    pub created_at: u64,
}
