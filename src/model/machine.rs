//! A machine: where a runner daemon can start sessions (PROTOCOL.md "Machines").

use serde::Serialize;

use super::json::Json;
use super::namespace::Namespace;

/// A machine as the listing shows it. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub id: String,
    pub namespace: Namespace,
    pub seq: u64,
    pub created_at: u64,
    pub updated_at: u64,
    pub active: bool,
    pub active_at: u64,
    pub metadata: Option<Json>,
    pub metadata_version: u64,
    pub runner_state: Option<Json>,
    pub runner_state_version: u64,
}

impl Machine {
    /// A machine that was just made known.
    pub fn new(id: String, namespace: Namespace, now: u64) -> Self {
        Self {
            id,
            namespace,
            seq: 0,
            created_at: now,
            updated_at: now,
            active: false,
            active_at: now,
            metadata: None,
            metadata_version: 1,
            runner_state: None,
            runner_state_version: 1,
        }
    }
}
