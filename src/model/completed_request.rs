//! Permission requests that were answered.

use super::json::Json;

/// A permission request that was answered, or whose entry changed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedRequest {
    /// The session that it belongs to.
    pub session_id: String,
    /// The id that the agent gave it, unique in the session.
    pub request_id: String,
    /// When it was answered, in Unix milliseconds: the record is in this order.
    pub completed_at: u64,
    /// The whole entry, an object.
    pub value: Json,
}
