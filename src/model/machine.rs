//! A machine: where a runner daemon can start sessions (PROTOCOL.md "Machines").

use serde::Serialize;

use super::json::Json;
use super::large::Large;
use super::namespace::Namespace;

/// A machine as the listing shows it. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The id, which the machine chose itself; 1 to 255 bytes.
    pub id: String,
    /// Whose it is.
    pub namespace: Namespace,
    /// How often it has changed since it was first made known.
    pub seq: u64,
    /// When it was first made known.
    pub created_at: u64,
    /// When it last changed.
    pub updated_at: u64,
    /// Whether its runner is there: a sign of life came in the last 45 s.
    pub active: bool,
    /// The last sign of life.
    pub active_at: u64,
    /// What the machine says of itself ("Machines" in PROTOCOL.md); of a large value only its head.
    pub metadata: Option<Json>,
    /// Where the whole of a large one is.
    #[serde(skip)]
    pub metadata_large: Option<Large>,
    /// The version of the metadata, from 1 on.
    pub metadata_version: u64,
    /// What its runner is doing, opaque to the hub; of a large value only its head.
    pub runner_state: Option<Json>,
    /// Where the whole of a large one is.
    #[serde(skip)]
    pub runner_state_large: Option<Large>,
    /// The version of the runner state, from 1 on.
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
