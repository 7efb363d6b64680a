//! Messages and values larger than a row, which a few worlds have: they are kept in parts, and whole or not at all.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use session_gateway_hub::store::columns::Columns;

use super::cli::Role;
use super::ledger::Part;
use super::world::World;

/// One world of so many has them.
const EVERY: u64 = 400;
/// How many such a world has, besides those at its end.
const MOST: u64 = 6;

/// How much a message may be longer than it has to be, in bytes: it has one part besides its row, or so many that they are
/// not written at once.
const MESSAGE_BYTES: &[(u64, usize)] = &[(4, 1_600_000), (1, 7_600_000)];
/// The same of a value; in one part, or in more than are written at once.
const VALUE_BYTES: &[(u64, usize)] = &[(6, 1_100_000), (1, 6_100_000)];

/// How many large things a world of this seed may have; none where it has none at all.
pub fn allowance(seed: u64) -> Option<u64> {
    seed.is_multiple_of(EVERY).then_some(MOST)
}

impl World {
    fn is_large(&mut self) -> bool {
        let large = self.large_left.is_some_and(|left| left > 0) && self.dice.chance(30);
        self.large_left = self.large_left.map(|left| left - u64::from(large));
        large
    }

    /// What makes a message larger than a row, or nothing.
    pub fn message_filling(&mut self) -> String {
        if !self.is_large() {
            return String::new();
        }
        "x".repeat(self.dice.weighted(MESSAGE_BYTES))
    }

    /// Makes a value larger than a row, or takes away what made it so.
    pub fn fill(&mut self, value: &mut Value) {
        let Some(value) = value.as_object_mut() else { return };
        // The next version is a usual one again.
        value.remove("filling");
        if self.is_large() {
            value.insert("filling".to_owned(), json!("x".repeat(self.dice.weighted(VALUE_BYTES))));
        }
    }

    /// Where nothing goes wrong any more, each session and machine gets something large once more: what was left of others
    /// that failed is gone then.
    pub fn sweep(&mut self) {
        let mut swept = BTreeSet::new();
        for at in 0..self.clis.len() {
            let (of, part) = match self.clis[at].role.clone() {
                Role::Session { id: Some(session), .. } => (session, Part::Metadata),
                Role::Session { id: None, .. } => continue,
                Role::Machine(machine) => (machine, Part::RunnerState),
            };
            if self.large_left.is_none() || !swept.insert(of.clone()) {
                continue;
            }
            // A CLI that did not know the newest version does afterwards; one whose session is gone leaves it.
            let grown = (0..2).any(|_| self.clis[at].is_ready() && self.grows(at, &of, part));
            assert!(grown || !self.clis[at].is_ready(), "{of} can have nothing large any more");
            if grown {
                self.check_parts(&of);
            }
        }
    }

    /// Whether a value, and where it is a session's a message with it, could be made large.
    fn grows(&mut self, at: usize, of: &str, part: Part) -> bool {
        let place = self.clis[at].place;
        if part == Part::Metadata {
            let local_id = self.new_message(place);
            let text = format!("{}-{local_id}{}", self.objects[place].name, "x".repeat(1_600_000));
            self.cli_says(at, &local_id, &text, false);
        }
        let (expected, mut value) = self.clis[at].values.get(&part).cloned().unwrap_or((1, json!({})));
        let n = self.fresh();
        value["n"] = json!(n);
        value["filling"] = json!("x".repeat(1_100_000));
        self.cli_updates(at, of, part, expected, value);
        self.rest();
        self.clis[at].values[&part].1["n"] == n && self.clis[at].unacknowledged.is_empty()
    }

    /// The parts of a session or machine are those of what it has, all of them.
    fn check_parts(&self, of: &str) {
        let number = |sql: &str| u64::try_from(self.db.sqlite.number(sql)).unwrap();
        let names = self.db.sqlite.select(&format!(
            "SELECT metadata_version, metadata_parts FROM sessions WHERE id = '{of}'
             UNION ALL SELECT agent_state_version, agent_state_parts FROM sessions WHERE id = '{of}'
             UNION ALL SELECT metadata_version, metadata_parts FROM machines WHERE id = '{of}'
             UNION ALL SELECT runner_state_version, runner_state_parts FROM machines WHERE id = '{of}'"
        ));
        let large = names.into_iter().filter_map(|row| {
            let mut columns = Columns::new("values", row);
            let version = columns.number("version").unwrap();
            columns.large("parts", version).unwrap()
        });
        let values: usize = large.map(|large| large.parts).sum();
        let held = number(&format!("SELECT count(*) FROM value_parts WHERE owner = '{of}'"));
        assert!(held == values as u64, "the values of {of} have {values} parts, and there are {held}");
        let messages = number(&format!("SELECT coalesce(sum(parts), 0) FROM messages WHERE session_id = '{of}'"));
        let held = number(&format!("SELECT count(*) FROM message_parts WHERE session_id = '{of}'"));
        assert!(held == messages, "the messages of {of} have {messages} parts, and there are {held}");
    }
}
