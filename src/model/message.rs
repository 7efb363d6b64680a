//! A message of a session's history.

use serde::Serialize;

use super::json::Json;

/// A message as clients see it. `seq` counts from 1 within its session, without gaps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: String,
    pub seq: u64,
    pub local_id: Option<String>,
    pub content: Json,
    pub created_at: u64,
}
