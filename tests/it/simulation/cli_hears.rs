//! What a CLI hears of its session or machine: in acknowledgements, in updates, and that it is gone.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cli::Role;
use super::ledger::Part;
use super::world::{LinkId, World};

impl World {
    /// Messages that were sent once, on one socket, are numbered in the order of their sending.
    pub fn check_order(&mut self, place: usize, link: Option<LinkId>, session: &str, local_id: &str, seq: u64) {
        let ledger = self.ledger(place);
        let once = |local_id: &str| ledger.messages[local_id].links.len() == 1;
        let (Some(link), true) = (link, once(local_id)) else { return };
        let known = &ledger.sessions[session];
        let same = |other: &&str| ledger.messages[*other].links == [link] && ledger.messages[*other].acknowledged;
        let seqs: BTreeMap<&str, u64> = known.seqs.iter().map(|(seq, id)| (&**id, *seq)).collect();
        for (other, sent) in &ledger.messages {
            let Some(other_seq) = sent.id.as_deref().filter(|_| same(&&**other)).and_then(|id| seqs.get(id)) else {
                continue;
            };
            let (earlier, before) = (number(other) < number(local_id), *other_seq < seq);
            assert!(
                known.shifting || other == local_id || earlier == before,
                "{other} and {local_id} were sent on one socket, but stand at {other_seq} and {seq}"
            );
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn cli_updated(
        &mut self,
        at: usize,
        of: &str,
        part: Part,
        expected: u64,
        value: &Value,
        request: Option<String>,
        ack: &Value,
    ) {
        let place = self.clis[at].place;
        let field = part.field();
        let version = ack["version"].as_u64().unwrap_or(0);
        match ack["result"].as_str() {
            Some("success") => {
                assert!(version == expected + 1, "an update of version {expected} made version {version}");
                assert!(ack[field] == *value, "{value} was sent and {ack} acknowledged");
                self.ledger(place).version(of, part, version, value);
                if let Some(request) = request {
                    self.ledger(place).session(of).requests.entry(request).or_default().asked = true;
                }
            }
            Some("version-mismatch") => {
                assert!(version != expected, "{ack} is no mismatch");
                self.ledger(place).version(of, part, version, &ack[field]);
            }
            Some("error") => return assert!(self.db.faults() > 0 || !self.is_there(place, of), "{ack}"),
            _ => panic!("not an answer to an update: {ack}"),
        }
        self.clis[at].take(part, version, &ack[field]);
    }

    pub fn cli_update(&mut self, at: usize, body: &Value) {
        let place = self.clis[at].place;
        let (session, machine) = (body["sid"].as_str(), body["machineId"].as_str());
        let named = match &self.clis[at].role {
            Role::Session { id, .. } => session.is_some() && session == id.as_deref(),
            Role::Machine(id) => machine == Some(id),
        };
        assert!(named, "a CLI of {:?} hears of {body}", self.clis[at].role);
        let of = session.or(machine).unwrap_or_default();
        if body["t"] == "new-message" {
            let message = &body["message"];
            self.ledger(place).message(of, message);
            let sent = &self.ledgers[place].messages[message["localId"].as_str().unwrap()];
            let own = self.clis[at].link.is_some_and(|link| sent.links == [link]);
            assert!(!own, "a CLI hears the message that it sent itself: {body}");
            let (seq, id) = (message["seq"].as_u64().unwrap(), message["id"].as_str().unwrap().to_owned());
            return self.clis[at].handle(seq, id);
        }
        let parts = [("metadata", Part::Metadata), ("agentState", Part::State), ("runnerState", Part::RunnerState)];
        for (field, part) in parts {
            if session.is_some() || part == Part::RunnerState {
                let Some(version) = body[field]["version"].as_u64() else { continue };
                self.ledger(place).version(of, part, version, &body[field]["value"]);
                self.clis[at].take(part, version, &body[field]["value"]);
            }
        }
    }

    /// An id is not the CLI's to use: its session is gone.
    pub fn cli_error(&mut self, at: usize, error: &Value) {
        let place = self.clis[at].place;
        assert!(error["code"] == "not-found", "a CLI did nothing wrong, but hears {error}");
        let Some(id) = error["id"].as_str().map(str::to_owned) else { return };
        assert!(!self.is_there(place, &id), "session {id} is there, but a CLI hears {error}");
        self.cli_leaves(at);
        let cli = &mut self.clis[at];
        cli.forget_history();
        cli.unacknowledged.clear();
        cli.values.clear();
        if let Role::Session { id, .. } = &mut cli.role {
            *id = None;
        }
    }
}

/// The number in a local id: they count up.
fn number(local_id: &str) -> u64 {
    local_id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}
