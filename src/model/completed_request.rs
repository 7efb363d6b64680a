use super::json::Json;

/// A permission request that is no longer pending.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedRequest {
    pub session_id: String,
    /// The agent's id of the request, unique in the session.
    pub request_id: String,
    /// Unix milliseconds. Completed requests are ordered by this time.
    pub completed_at: u64,
    pub value: Json,
}
