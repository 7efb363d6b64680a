//! Events and acknowledgements that a CLI receives.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cli::Role;
use super::oracle::ValueKind;
use super::world::{ConnectionId, World};

impl World {
    /// Checks that messages that were sent once, on one connection, have seqs in the order of sending.
    pub fn check_order(
        &mut self,
        ns: usize,
        connection: Option<ConnectionId>,
        session: &str,
        local_id: &str,
        seq: u64,
    ) {
        let oracle = self.oracle(ns);
        let once = |local_id: &str| oracle.messages[local_id].connections.len() == 1;
        let (Some(connection), true) = (connection, once(local_id)) else { return };
        let known = &oracle.sessions[session];
        let same =
            |other: &&str| oracle.messages[*other].connections == [connection] && oracle.messages[*other].acknowledged;
        let seqs: BTreeMap<&str, u64> = known.seqs.iter().map(|(seq, id)| (&**id, *seq)).collect();
        for (other, sent) in &oracle.messages {
            let Some(other_seq) = sent.id.as_deref().filter(|_| same(&&**other)).and_then(|id| seqs.get(id)) else {
                continue;
            };
            let (earlier, before) = (number(other) < number(local_id), *other_seq < seq);
            assert!(
                known.is_merging || other == local_id || earlier == before,
                "{other} and {local_id} were sent on one connection, but have the seqs {other_seq} and {seq}"
            );
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn cli_on_update_ack(
        &mut self,
        i: usize,
        owner: &str,
        kind: ValueKind,
        expected: u64,
        value: &Value,
        request: Option<String>,
        ack: &Value,
    ) {
        let ns = self.clis[i].ns;
        let field = kind.field();
        let version = ack["version"].as_u64().unwrap_or(0);
        match ack["result"].as_str() {
            Some("success") => {
                assert!(version == expected + 1, "an update of version {expected} resulted in version {version}");
                assert!(ack[field] == *value, "{value} was sent, but {ack} acknowledged");
                self.oracle(ns).observe_version(owner, kind, version, value);
                if let Some(request) = request {
                    self.oracle(ns).session(owner).requests.entry(request).or_default().acknowledged = true;
                }
            }
            Some("version-mismatch") => {
                assert!(version != expected, "a mismatch with the expected version: {ack}");
                self.oracle(ns).observe_version(owner, kind, version, &ack[field]);
            }
            Some("error") => return assert!(self.db.faults() > 0 || !self.exists(ns, owner), "{ack}"),
            _ => panic!("unexpected acknowledgement of an update: {ack}"),
        }
        self.clis[i].store_version(kind, version, &ack[field]);
    }

    pub fn cli_on_update(&mut self, i: usize, body: &Value) {
        let ns = self.clis[i].ns;
        let (session, machine) = (body["sid"].as_str(), body["machineId"].as_str());
        let named = match &self.clis[i].role {
            Role::Session { id, .. } => session.is_some() && session == id.as_deref(),
            Role::Machine(id) => machine == Some(id),
        };
        assert!(named, "a CLI of {:?} received {body}", self.clis[i].role);
        let owner = session.or(machine).unwrap_or_default();
        if body["t"] == "new-message" {
            let message = &body["message"];
            self.oracle(ns).observe_message(owner, message);
            let sent = &self.oracles[ns].messages[message["localId"].as_str().unwrap()];
            let own = self.clis[i].connection.is_some_and(|connection| sent.connections == [connection]);
            assert!(!own, "a CLI received its own message: {body}");
            let (seq, id) = (message["seq"].as_u64().unwrap(), message["id"].as_str().unwrap().to_owned());
            return self.clis[i].on_message(seq, id);
        }
        let parts = [
            ("metadata", ValueKind::Metadata),
            ("agentState", ValueKind::AgentState),
            ("runnerState", ValueKind::RunnerState),
        ];
        for (field, kind) in parts {
            if session.is_some() || kind == ValueKind::RunnerState {
                let Some(version) = body[field]["version"].as_u64() else { continue };
                self.oracle(ns).observe_version(owner, kind, version, &body[field]["value"]);
                self.clis[i].store_version(kind, version, &body[field]["value"]);
            }
        }
    }

    /// The session of the CLI was deleted.
    pub fn cli_on_error(&mut self, i: usize, error: &Value) {
        let ns = self.clis[i].ns;
        assert!(error["code"] == "not-found", "unexpected error: {error}");
        let Some(id) = error["id"].as_str().map(str::to_owned) else { return };
        assert!(!self.exists(ns, &id), "session {id} exists, but a CLI received {error}");
        self.cli_disconnect(i);
        let cli = &mut self.clis[i];
        cli.forget_history();
        cli.unacknowledged.clear();
        cli.values.clear();
        if let Role::Session { id, .. } = &mut cli.role {
            *id = None;
        }
    }
}

/// The number in a local id, which increases.
fn number(local_id: &str) -> u64 {
    local_id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}
