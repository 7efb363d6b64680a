//! Random reactions of CLIs and runners to RPC calls: an immediate or late response, no response, an error, or a disconnect.

use serde_json::{Value, json};

use super::cli::{Call, Cli, PendingAck, Phase, Role};
use super::long_sessions::stored_messages;
use super::oracle::ValueKind;
use super::world::World;
use crate::support::RPC_TIMEOUT_MS;

/// The hub waits at least this long after the CLI has received a call. A call arrives less than two seconds after its start.
const MIN_PENDING_MS: u64 = RPC_TIMEOUT_MS - 2_000;

#[derive(Debug, Clone, Copy)]
enum Reaction {
    RespondNow,
    /// Responds in a later step, or never.
    RespondLater,
    Reject,
    Disconnect,
}

impl World {
    /// Reacts to a call at random.
    pub fn cli_on_call(&mut self, i: usize, ack: u64, request: &Value) {
        let Some(connection) = self.clis[i].connection else { return };
        let method = request["method"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let params = serde_json::from_str(request["params"].as_str().unwrap()).unwrap();
        let call = Call { connection, ack, method, params, received_at: self.now(), crashes: self.crashes };
        self.check_call(i, &call);
        if let Some(session) = self.clis[i].session().filter(|_| call.method == "abort") {
            // A keep-alive that was sent before the abort no longer proves that the session is active.
            self.oracle(self.clis[i].namespace_index).record_possible_end(&session);
        }
        let reactions = [
            (66, Reaction::RespondNow),
            (18, Reaction::RespondLater),
            (8, Reaction::Reject),
            (8, Reaction::Disconnect),
        ];
        match self.rng.weighted(&reactions) {
            Reaction::RespondNow => self.cli_execute(i, call),
            Reaction::RespondLater => self.clis[i].unanswered_calls.push(call),
            Reaction::Reject => self.cli_respond(i, &call, &json!({"success": false, "error": "rejected at random"})),
            Reaction::Disconnect => self.cli_disconnect(i),
        }
    }

    /// Checks that the hub does not repeat a pending call, or a call for an answered permission request.
    fn check_call(&mut self, i: usize, call: &Call) {
        let namespace_index = self.clis[i].namespace_index;
        if call.method == "permission" {
            let session = self.clis[i].session().unwrap();
            let id = call.params["id"].as_str().unwrap();
            let approved =
                self.oracle(namespace_index).session(&session).requests.get(id).and_then(|request| request.approved);
            assert!(approved.is_none(), "a call for request {id}, which was already answered with {approved:?}");
        }
        let is_duplicate = |other: &&Call| {
            let has_id = !call.params["id"].is_null() || !call.params["sessionId"].is_null();
            // A resume, and an answer to a permission request, must have only one call at a time.
            let is_exclusive =
                has_id && matches!(&*call.method, "spawnSession" | "permission") && other.method == call.method;
            let is_pending = call.received_at < other.received_at + MIN_PENDING_MS && other.crashes == call.crashes;
            is_exclusive
                && is_pending
                && ["id", "sessionId"].iter().all(|name| other.params[*name] == call.params[*name])
        };
        let duplicate = self
            .clis
            .iter()
            .filter(|cli| cli.namespace_index == namespace_index)
            .flat_map(|cli| &cli.unanswered_calls)
            .find(is_duplicate);
        assert!(duplicate.is_none(), "two concurrent calls for one operation: {duplicate:?} and {call:?}");
    }

    /// Executes the call and responds, unless the CLI has reconnected.
    pub fn cli_execute(&mut self, i: usize, call: Call) {
        if self.clis[i].connection != Some(call.connection) {
            return;
        }
        match &*call.method {
            "readFile" => {
                let answer = json!({"success": true, "echo": call.params["path"]});
                self.cli_respond(i, &call, &answer);
            }
            "permission" => {
                if self.rng.chance(30) {
                    self.cli_complete_request(i, &call.params);
                }
                self.cli_respond(i, &call, &json!({}));
            }
            "abort" => {
                if self.rng.chance(40) {
                    self.cli_send_keep_alive(i);
                }
                self.cli_respond(i, &call, &json!({"success": true}));
                if self.rng.chance(40) {
                    self.cli_send_keep_alive(i);
                }
            }
            "killSession" => {
                self.cli_respond(i, &call, &json!({}));
                if self.rng.chance(70) {
                    self.cli_end_session(i);
                    self.cli_disconnect(i);
                }
            }
            "set-session-config" => self.cli_respond(i, &call, &json!({"applied": call.params})),
            "spawnSession" => self.runner_spawn(i, call),
            _ => self.cli_respond(i, &call, &json!({"success": true})),
        }
    }

    /// Responds to the call, unless the CLI has reconnected.
    pub fn cli_respond(&mut self, i: usize, call: &Call, result: &Value) {
        if self.clis[i].connection == Some(call.connection) {
            self.send(call.connection, format!("43/cli,{}[{}]", call.ack, json!(result.to_string())));
        }
    }

    /// Sends a `session-end` for the session of the CLI.
    pub fn cli_end_session(&mut self, i: usize) {
        let (namespace_index, now) = (self.clis[i].namespace_index, self.now());
        let (Some(session), Some(connection)) = (self.clis[i].session(), self.clis[i].connection) else { return };
        self.oracle(namespace_index).record_cli_end(&session, connection);
        self.cli_emit(i, "session-end", &json!({"sid": session, "time": now}), PendingAck::End { session });
    }

    /// Moves a permission request of the agent state from `requests` to `completedRequests`.
    fn cli_complete_request(&mut self, i: usize, params: &Value) {
        let id = params["id"].as_str().unwrap();
        let (_, mut state) = self.clis[i].values.get(&ValueKind::AgentState).cloned().unwrap_or_default();
        let Some(request) = state["requests"].as_object_mut().and_then(|requests| requests.remove(id)) else { return };
        let status = if params["approved"] == true { "approved" } else { "denied" };
        let now = self.now();
        state["completedRequests"] =
            json!({id: {"tool": request["tool"], "status": status, "completedAt": now, "by": "cli"}});
        self.cli_update_state(i, state, None, false);
    }

    /// Updates the agent state. `request`: the id of an added permission request. `stale`: whether the expected version is
    /// stale.
    pub fn cli_update_state(&mut self, i: usize, mut state: Value, request: Option<String>, stale: bool) {
        let Some(session) = self.clis[i].session() else { return };
        let (version, _) = self.clis[i].values.get(&ValueKind::AgentState).cloned().unwrap_or((1, Value::Null));
        let expected = if stale { version.saturating_sub(1) } else { version };
        state["n"] = json!(self.next_number());
        if let Some(request) = &request {
            let record = self.oracle(self.clis[i].namespace_index).session(&session);
            let ends_before = record.cancellations();
            record.requests.entry(request.clone()).or_default().ends_before = ends_before;
        }
        let update = json!({"sid": session, "expectedVersion": expected, "agentState": state});
        let (kind, sent_at) = (ValueKind::AgentState, self.now());
        let pending_ack = PendingAck::Update { owner: session, kind, expected, value: state, request, sent_at };
        self.cli_emit(i, "update-state", &update, pending_ack);
    }

    /// Starts a CLI on a runner. Without `sessionId` in the call, the CLI gets a new session. With `sessionId`, the CLI
    /// resumes that session, or gets a new session that the hub merges with the old session.
    fn runner_spawn(&mut self, i: usize, call: Call) {
        let namespace_index = self.clis[i].namespace_index;
        let Some(session) = call.params["sessionId"].as_str().map(str::to_owned) else {
            return self.runner_start_cli(i, call, "spawned");
        };
        // A session with messages from before the run is not merged, because the checks of a merge need the whole history.
        if self.rng.chance(65) || !self.exists(namespace_index, &session) || stored_messages(&session) > 0 {
            let answer = json!({"success": true, "sessionId": session});
            if self.rng.chance(80) {
                self.start_cli(namespace_index, &session);
            }
            return self.cli_respond(i, &call, &answer);
        }
        self.runner_start_cli(i, call, "resumed");
    }

    /// Starts a CLI with a new tag. The runner responds when the CLI has a session.
    fn runner_start_cli(&mut self, i: usize, call: Call, tag_name: &str) {
        let (namespace_index, number) = (self.clis[i].namespace_index, self.next_number());
        let tag = format!("/{}-{tag_name}-{number}", self.objects[namespace_index].name);
        let mut cli = Cli::new(namespace_index, Role::Session { tag, id: None });
        cli.spawned_for = Some((i, call));
        self.clis.push(cli);
        self.cli_connect(self.clis.len() - 1);
    }

    /// Connects a disconnected or new CLI with a session.
    fn start_cli(&mut self, namespace_index: usize, session: &str) {
        let is_disconnected = |cli: &Cli| {
            cli.phase == Phase::Disconnected
                && cli.namespace_index == namespace_index
                && cli.session().as_deref() == Some(session)
        };
        let i = self.clis.iter().position(is_disconnected).unwrap_or_else(|| {
            let tag = self.oracles[namespace_index].sessions[session].tag.clone();
            self.clis.push(Cli::new(namespace_index, Role::Session { tag, id: Some(session.to_owned()) }));
            self.clis.len() - 1
        });
        self.cli_connect(i);
    }

    /// Responds to the hub's `spawnSession` call with the session of the CLI that the runner started. If the call resumes
    /// another session, the hub merges the two sessions.
    pub fn report_spawned(&mut self, i: usize) {
        let Some((runner, call)) = self.clis[i].spawned_for.take() else { return };
        let Some(new) = self.clis[i].session() else { return };
        let namespace_index = self.clis[i].namespace_index;
        if self.clis[runner].connection != Some(call.connection) {
            return;
        }
        if let Some(old) = call.params["sessionId"].as_str() {
            if !self.exists(namespace_index, old) {
                return;
            }
            self.begin_merge(namespace_index, old, &new);
        }
        self.cli_respond(runner, &call, &json!({"success": true, "sessionId": new}));
    }
}
