use serde::Serialize;

use super::json::JsonObject;
use super::large::{InlineOrLarge, VersionedField};
use super::namespace::Namespace;
use super::session::list_ids;

/// A machine on which users can start sessions (PROTOCOL-WEB.md "Machines"), as clients see it. Its runner is the CLI that
/// registers the machine and starts the sessions. Times are Unix milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Chosen by the machine, 1 to 255 bytes.
    pub id: String,
    pub namespace: Namespace,
    /// The number of changes since the registration.
    pub seq: u64,
    pub created_at: u64,
    pub updated_at: u64,
    /// Whether the last keep-alive is at most 45 s old.
    pub active: bool,
    /// The time of the last keep-alive.
    pub active_at: u64,
    /// Written by the machine.
    pub metadata: InlineOrLarge,
    /// Starts at 1.
    pub metadata_version: u64,
    /// Written by the machine and opaque to the hub.
    pub runner_state: InlineOrLarge,
    /// Starts at 1.
    pub runner_state_version: u64,
}

impl Machine {
    pub fn field(&self, field: VersionedField) -> (&InlineOrLarge, u64) {
        match field {
            VersionedField::RunnerState => (&self.runner_state, self.runner_state_version),
            _ => (&self.metadata, self.metadata_version),
        }
    }

    /// Returns a versioned field and its version for a change.
    pub fn field_mut(&mut self, field: VersionedField) -> (&mut InlineOrLarge, &mut u64) {
        match field {
            VersionedField::RunnerState => (&mut self.runner_state, &mut self.runner_state_version),
            _ => (&mut self.metadata, &mut self.metadata_version),
        }
    }

    pub fn new(id: String, namespace: Namespace, now: u64) -> Self {
        Self {
            id,
            namespace,
            created_at: now,
            updated_at: now,
            active_at: now,
            metadata_version: 1,
            runner_state_version: 1,
            ..Self::default()
        }
    }

    /// Returns the bytes of the values in memory.
    pub fn text_bytes(&self) -> usize {
        [&self.metadata, &self.runner_state].into_iter().filter_map(InlineOrLarge::json).map(|v| v.text().len()).sum()
    }

    /// Whether the metadata's `agents` lists an agent. The machine can start it, even if the deployment does not know it.
    pub fn has_agent(&self, id: &str) -> bool {
        list_ids(JsonObject::of(self.metadata.json()).get("agents")).iter().any(|agent| agent == id)
    }
}
