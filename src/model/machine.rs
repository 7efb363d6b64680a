//! A machine: where a runner daemon can start sessions (decisions.md "Machines").

use serde::Serialize;

use super::json::Json;
use super::large::Large;
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
    /// Of a large one only its head.
    pub metadata: Option<Json>,
    /// Where the whole of a large one is.
    #[serde(skip)]
    pub metadata_large: Option<Large>,
    pub metadata_version: u64,
    /// Of a large one only its head.
    pub runner_state: Option<Json>,
    /// Where the whole of a large one is.
    #[serde(skip)]
    pub runner_state_large: Option<Large>,
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
            metadata_large: None,
            metadata_version: 1,
            runner_state: None,
            runner_state_large: None,
            runner_state_version: 1,
        }
    }
}
