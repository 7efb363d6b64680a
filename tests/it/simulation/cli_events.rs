//! Events and acknowledgements that a CLI receives.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cli::{PendingAck, Role};
use super::connections::ConnectionId;
use super::oracle::ValueKind;
use super::world::World;

impl World {
    pub fn cli_on_ack(&mut self, i: usize, pending_ack: PendingAck, ack: &Value) {
        let (namespace_index, connection) = (self.clis[i].namespace_index, self.clis[i].connection);
        match pending_ack {
            PendingAck::Registration => assert!(ack["ok"] == true || self.may_fail(ack), "{ack}"),
            PendingAck::Alive { session, keep_alive } => {
                assert!(ack["ok"] == true || self.may_fail(ack), "{ack}");
                let is_valid = ack["ok"] == true
                    && keep_alive.disruptions
                        == self.disruptions(namespace_index, &session, keep_alive.connection, self.db.fault_count());
                let record = self.oracle(namespace_index).session(&session);
                record.keep_alive = (is_valid && !record.may_end()).then_some(keep_alive);
            }
            PendingAck::End { session } => {
                assert!(ack["ok"] == true || self.may_fail(ack), "{ack}");
                self.oracle(namespace_index).record_cli_end(&session, connection.unwrap_or(0));
            }
            PendingAck::Message { session, local_id } => {
                if ack["ok"] != true {
                    assert!(self.may_fail(ack), "{ack}");
                    return;
                }
                let (id, seq) = (ack["id"].as_str().unwrap(), ack["seq"].as_u64().unwrap());
                self.oracle(namespace_index).observe_position(&session, &local_id, id, seq);
                let sent = &self.oracles[namespace_index].messages[&local_id];
                if sent.is_ready_event && sent.connections.len() == 1 {
                    self.count_ready(namespace_index, &session, &local_id);
                }
                self.check_order(namespace_index, connection, &session, &local_id, seq);
                let cli = &mut self.clis[i];
                cli.unacknowledged.retain(|id| *id != local_id);
                cli.history.insert(seq, id.to_owned());
                cli.on_message(seq, id.to_owned());
                self.oracle(namespace_index).messages.get_mut(&local_id).unwrap().is_acknowledged = true;
            }
            PendingAck::Update { owner, kind, expected, value, request, sent_at } => {
                self.observe_acknowledged_update(i, &owner, kind, &value, sent_at);
                self.cli_on_update_ack(i, &owner, kind, expected, &value, request, ack);
            }
        }
    }

    /// Whether an error acknowledgement is allowed: after a database fault, or for a deleted session.
    fn may_fail(&self, error: &Value) -> bool {
        match error["code"].as_str() {
            Some("unavailable") => self.db.fault_count() > 0,
            Some("not-found") => true,
            _ => false,
        }
    }

    /// Checks that the seqs of the messages that were sent once on a connection have the order in which they were sent.
    pub fn check_order(
        &mut self,
        namespace_index: usize,
        connection: Option<ConnectionId>,
        session: &str,
        local_id: &str,
        seq: u64,
    ) {
        let oracle = self.oracle(namespace_index);
        let was_sent_once = oracle.messages[local_id].connections.len() == 1;
        let (Some(connection), true) = (connection, was_sent_once) else { return };
        let record = &oracle.sessions[session];
        let is_comparable =
            |other: &str| oracle.messages[other].connections == [connection] && oracle.messages[other].is_acknowledged;
        let seqs: BTreeMap<&str, u64> = record.seqs.iter().map(|(seq, id)| (&**id, *seq)).collect();
        for (other, sent) in &oracle.messages {
            let Some(other_seq) = sent.id.as_deref().filter(|_| is_comparable(other)).and_then(|id| seqs.get(id))
            else {
                continue;
            };
            let (was_sent_earlier, precedes) = (local_id_number(other) < local_id_number(local_id), *other_seq < seq);
            assert!(
                record.is_merging || other == local_id || was_sent_earlier == precedes,
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
        let namespace_index = self.clis[i].namespace_index;
        let field = kind.field();
        let version = ack["version"].as_u64().unwrap_or(0);
        match ack["result"].as_str() {
            Some("success") => {
                assert!(version == expected + 1, "an update of version {expected} resulted in version {version}");
                assert!(ack[field] == *value, "{value} was sent, but {ack} acknowledged");
                self.oracle(namespace_index).observe_version(owner, kind, version, value);
                if let Some(request) = request {
                    self.oracle(namespace_index).session(owner).requests.entry(request).or_default().is_acknowledged =
                        true;
                }
            }
            Some("version-mismatch") => {
                assert!(version != expected, "a mismatch with the expected version: {ack}");
                self.oracle(namespace_index).observe_version(owner, kind, version, &ack[field]);
            }
            Some("error") => {
                return assert!(self.db.fault_count() > 0 || !self.exists(namespace_index, owner), "{ack}");
            }
            _ => panic!("unexpected acknowledgement of an update: {ack}"),
        }
        self.clis[i].store_version(kind, version, &ack[field]);
    }

    pub fn cli_on_update(&mut self, i: usize, body: &Value) {
        let namespace_index = self.clis[i].namespace_index;
        let (session, machine) = (body["sid"].as_str(), body["machineId"].as_str());
        // A runner also serves sessions.
        let is_own = match &self.clis[i].role {
            Role::Session { id, .. } => session.is_some() && session == id.as_deref(),
            Role::Machine(id) => machine.is_none_or(|machine| machine == id),
        };
        assert!(is_own, "a CLI of {:?} received {body}", self.clis[i].role);
        let owner = session.or(machine).unwrap_or_default();
        if body["t"] == "new-message" {
            let message = &body["message"];
            self.oracle(namespace_index).observe_message(owner, message);
            let sent = &self.oracles[namespace_index].messages[message["localId"].as_str().unwrap()];
            let is_sender = self.clis[i].connection.is_some_and(|connection| sent.connections == [connection]);
            assert!(!is_sender, "a CLI received its own message: {body}");
            if self.clis[i].session().is_some() {
                let (seq, id) = (message["seq"].as_u64().unwrap(), message["id"].as_str().unwrap().to_owned());
                self.clis[i].on_message(seq, id);
            }
            return;
        }
        let fields = [
            ("metadata", ValueKind::Metadata),
            ("agentState", ValueKind::AgentState),
            ("runnerState", ValueKind::RunnerState),
        ];
        for (field, kind) in fields {
            if session.is_some() || kind == ValueKind::RunnerState {
                let Some(version) = body[field]["version"].as_u64() else { continue };
                self.oracle(namespace_index).observe_version(owner, kind, version, &body[field]["value"]);
                if session.is_some() == self.clis[i].session().is_some() {
                    self.clis[i].store_version(kind, version, &body[field]["value"]);
                }
            }
        }
    }

    /// Handles the `error` event for a deleted session: disconnects the CLI.
    pub fn cli_on_error(&mut self, i: usize, error: &Value) {
        let namespace_index = self.clis[i].namespace_index;
        assert!(error["code"] == "not-found", "unexpected error: {error}");
        let Some(id) = error["id"].as_str().map(str::to_owned) else { return };
        assert!(!self.exists(namespace_index, &id), "session {id} exists, but a CLI received {error}");
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

/// The number in a local id. A later message has a greater number.
fn local_id_number(local_id: &str) -> u64 {
    local_id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}
