//! Updates of versioned values that CLIs send.

use serde_json::{Value, json};

use super::cli::{PendingAck, Role, is_archived};
use super::oracle::ValueKind;
use super::world::World;

impl World {
    /// Updates the metadata of the CLI's session, sometimes with a stale expected version.
    pub fn update_metadata(&mut self, i: usize) {
        let Some(session) = self.clis[i].session() else { return };
        let (version, mut value) = self.clis[i].values.get(&ValueKind::Metadata).cloned().unwrap_or_default();
        if !value.is_object() {
            return;
        }
        let stale = version > 1 && self.rng.chance(20);
        let expected = if stale { version - 1 } else { version };
        value["n"] = json!(self.next_number());
        if self.rng.chance(10) {
            let state = if is_archived(&value) { "running" } else { "archived" };
            value["lifecycleState"] = json!(state);
        }
        self.record_archive(i, &session, &value);
        self.pad_value(&mut value);
        self.cli_update_value(i, &session, ValueKind::Metadata, expected, value);
    }

    pub fn update_runner_state(&mut self, i: usize) {
        let Role::Machine(machine) = self.clis[i].role.clone() else { return };
        let expected = self.clis[i].values.get(&ValueKind::RunnerState).map_or(1, |(version, _)| *version);
        let mut value = json!({"n": self.next_number()});
        self.pad_value(&mut value);
        self.cli_update_value(i, &machine, ValueKind::RunnerState, expected, value);
    }

    /// Adds a permission request to the agent state, sometimes with a stale expected version.
    pub fn request_permission(&mut self, i: usize) {
        let namespace_index = self.clis[i].namespace_index;
        let (_, state) = self.clis[i].values.get(&ValueKind::AgentState).cloned().unwrap_or_default();
        let mut state = if state.is_object() { state } else { json!({}) };
        let request = format!("r{}", self.oracle(namespace_index).next_number());
        if !state["requests"].is_object() {
            state["requests"] = json!({});
        }
        state["requests"][&request] = json!({"tool": "T", "arguments": {}});
        self.pad_value(&mut state);
        let stale = self.rng.chance(10);
        self.cli_update_state(i, state, Some(request), stale);
    }

    /// Updates a value of `owner`, a session or machine.
    pub fn cli_update_value(&mut self, i: usize, owner: &str, kind: ValueKind, expected: u64, value: Value) {
        let (name, id) = match kind {
            ValueKind::Metadata => ("update-metadata", "sid"),
            ValueKind::AgentState => ("update-state", "sid"),
            ValueKind::RunnerState => ("machine-update-state", "machineId"),
        };
        let update = json!({id: owner, "expectedVersion": expected, kind.field(): value});
        let sent_at = self.now();
        let pending_ack = PendingAck::Update { owner: owner.to_owned(), kind, expected, value, request: None, sent_at };
        self.cli_emit(i, name, &update, pending_ack);
    }
}
