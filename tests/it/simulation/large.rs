//! Messages and values that are larger than a row of the database, which the hub stores in parts. Only few seeds have them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use session_gateway_hub::store::columns::Columns;

use super::cli::Role;
use super::oracle::ValueKind;
use super::world::World;

/// Every seed that is a multiple of this number has large messages and values.
const SEED_INTERVAL: u64 = 400;
/// The number of large messages and values that the steps of a run may send. [`World::store_large_once_more`] stores more.
const MAX_LARGE_VALUES: u64 = 6;

/// Sizes of the padding of a large message, with weights. The first size needs one part. The second size needs more parts than
/// one batch can write.
const MESSAGE_BYTES: &[(u64, usize)] = &[(4, 1_600_000), (1, 7_600_000)];
/// Sizes of the padding of a large value, with weights: one part, and more parts than one batch can write.
const VALUE_BYTES: &[(u64, usize)] = &[(6, 1_100_000), (1, 6_100_000)];

/// The number of large messages and values of a run; `None` for a run without any.
pub fn max_large_values(seed: u64) -> Option<u64> {
    seed.is_multiple_of(SEED_INTERVAL).then_some(MAX_LARGE_VALUES)
}

impl World {
    /// Decides at random whether the next message or value is large, up to the maximum of the run.
    fn is_next_large(&mut self) -> bool {
        let is_large = self.remaining_large_values.is_some_and(|remaining| remaining > 0) && self.rng.chance(30);
        self.remaining_large_values = self.remaining_large_values.map(|remaining| remaining - u64::from(is_large));
        is_large
    }

    /// A padding that makes a message larger than a row, or an empty text.
    pub fn message_padding(&mut self) -> String {
        if !self.is_next_large() {
            return String::new();
        }
        "x".repeat(self.rng.weighted(MESSAGE_BYTES))
    }

    /// Makes a value larger than a row, or small again.
    pub fn pad_value(&mut self, value: &mut Value) {
        let Some(value) = value.as_object_mut() else { return };
        value.remove("padding");
        if self.is_next_large() {
            value.insert("padding".to_owned(), json!("x".repeat(self.rng.weighted(VALUE_BYTES))));
        }
    }

    /// Stores a large value in each session and machine of a run with large values. Checks that this deletes the parts of
    /// failed writes.
    pub fn store_large_once_more(&mut self) {
        let mut visited = BTreeSet::new();
        for i in 0..self.clis.len() {
            let (owner, kind) = match self.clis[i].role.clone() {
                Role::Session { id: Some(session), .. } => (session, ValueKind::Metadata),
                Role::Session { id: None, .. } => continue,
                Role::Machine(machine) => (machine, ValueKind::RunnerState),
            };
            if self.remaining_large_values.is_none() || !visited.insert(owner.clone()) {
                continue;
            }
            // The first attempt may fail with a version mismatch. A CLI disconnects if its session was deleted.
            let is_stored = (0..2).any(|_| self.clis[i].is_ready() && self.store_large(i, &owner, kind));
            assert!(is_stored || !self.clis[i].is_ready(), "no large value can be stored in {owner}");
            if is_stored {
                self.check_parts(&owner);
            }
        }
    }

    /// Stores a large value, and in a session a large message. Returns whether both were stored.
    fn store_large(&mut self, i: usize, owner: &str, kind: ValueKind) -> bool {
        let namespace_index = self.clis[i].namespace_index;
        if kind == ValueKind::Metadata {
            let local_id = self.new_local_id(namespace_index);
            let text = format!("{}-{local_id}{}", self.objects[namespace_index].name, "x".repeat(1_600_000));
            self.cli_send_new(i, &local_id, &text, false);
        }
        // Metadata needs a path and a host.
        let unknown = || (1, json!({"path": "/", "host": "box"}));
        let (expected, mut value) = self.clis[i].values.get(&kind).cloned().unwrap_or_else(unknown);
        let n = self.next_number();
        value["n"] = json!(n);
        value["padding"] = json!("x".repeat(1_100_000));
        self.cli_update_value(i, owner, kind, expected, value);
        self.run_until_idle_and_check();
        self.clis[i].values.get(&kind).is_some_and(|(_, value)| value["n"] == n)
            && self.clis[i].unacknowledged.is_empty()
    }

    /// Checks that the database has exactly the parts of the current values and messages.
    fn check_parts(&self, owner: &str) {
        let select_number = |sql: &str| u64::try_from(self.db.sqlite.number(sql)).unwrap();
        let names = self.db.sqlite.select(&format!(
            "SELECT metadata, metadata_version, metadata_parts FROM sessions WHERE id = '{owner}'
             UNION ALL SELECT agent_state, agent_state_version, agent_state_parts FROM sessions WHERE id = '{owner}'
             UNION ALL SELECT metadata, metadata_version, metadata_parts FROM machines WHERE id = '{owner}'
             UNION ALL SELECT runner_state, runner_state_version, runner_state_parts FROM machines WHERE id = '{owner}'"
        ));
        let large = names.into_iter().filter_map(|row| {
            let (value, _) = Columns::new("values", row).versioned(["value", "version", "parts"]).unwrap();
            value.large().cloned()
        });
        let values: usize = large.map(|large| large.parts).sum();
        let stored = select_number(&format!("SELECT count(*) FROM value_parts WHERE owner = '{owner}'"));
        assert!(stored == values as u64, "the values of {owner} have {values} parts, but {stored} are stored");
        let history = format!("(SELECT coalesce(history, id) FROM sessions WHERE id = '{owner}')");
        let messages =
            select_number(&format!("SELECT coalesce(sum(parts), 0) FROM messages WHERE session_id = {history}"));
        let stored = select_number(&format!("SELECT count(*) FROM message_parts WHERE session_id = {history}"));
        assert!(stored == messages, "the messages of {owner} have {messages} parts, but {stored} are stored");
    }
}
