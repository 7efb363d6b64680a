use serde::Serialize;

use super::json::Json;

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
