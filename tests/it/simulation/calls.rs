//! How CLIs and runners answer the hub's calls: at once, late, never, with a refusal, or by losing their socket.

use serde_json::{Value, json};

use super::cli::{Call, Cli, Phase, Role, Waiting};
use super::ledger::Part;
use super::world::World;
use crate::support::RPC_TIMEOUT_MS;

/// A call that was heard within this time is still open, unless it was answered: it is heard at most a second late.
const STILL_OPEN_MS: u64 = RPC_TIMEOUT_MS - 2_000;

/// What a CLI does about a call.
#[derive(Debug, Clone, Copy)]
enum Manner {
    AtOnce,
    /// Or never.
    Later,
    Refuse,
    Drop,
}

impl World {
    pub fn cli_called(&mut self, at: usize, ack: u64, request: &Value) {
        let Some(link) = self.clis[at].link else { return };
        let method = request["method"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let params = serde_json::from_str(request["params"].as_str().unwrap()).unwrap();
        let call = Call { link, ack, method, params, heard_at: self.now(), crashes: self.crashes };
        self.check_call(at, &call);
        let manners = [(66, Manner::AtOnce), (18, Manner::Later), (8, Manner::Refuse), (8, Manner::Drop)];
        match self.dice.weighted(&manners) {
            Manner::AtOnce => self.cli_obeys(at, call),
            Manner::Later => self.clis[at].owed.push(call),
            Manner::Refuse => self.cli_answers(at, &call, &json!({"success": false, "error": "not today"})),
            Manner::Drop => self.cli_leaves(at),
        }
    }

    /// Nobody is asked for what is done, or under way.
    fn check_call(&mut self, at: usize, call: &Call) {
        let place = self.clis[at].place;
        if call.method == "permission" {
            let session = self.clis[at].session().unwrap();
            let id = call.params["id"].as_str().unwrap();
            let answered = self.ledger(place).session(&session).requests.get(id).and_then(|request| request.answered);
            assert!(answered.is_none(), "the CLI is asked about request {id}, which was answered with {answered:?}");
        }
        let same = |other: &&Call| {
            let named = !call.params["id"].is_null() || !call.params["sessionId"].is_null();
            let once = named && matches!(&*call.method, "spawnSession" | "permission") && other.method == call.method;
            let fresh = call.heard_at < other.heard_at + STILL_OPEN_MS && other.crashes == call.crashes;
            once && fresh && ["id", "sessionId"].iter().all(|name| other.params[*name] == call.params[*name])
        };
        let twice = self.clis.iter().filter(|cli| cli.place == place).flat_map(|cli| &cli.owed).find(same);
        assert!(twice.is_none(), "two calls for one thing at once: {twice:?} and {call:?}");
    }

    /// The CLI does what it was told and answers.
    pub fn cli_obeys(&mut self, at: usize, call: Call) {
        if self.clis[at].link != Some(call.link) {
            return;
        }
        match &*call.method {
            "readFile" => {
                let answer = json!({"success": true, "echo": call.params["path"]});
                self.cli_answers(at, &call, &answer);
            }
            "permission" => {
                if self.dice.chance(30) {
                    self.cli_moves_request(at, &call.params);
                }
                self.cli_answers(at, &call, &json!({}));
            }
            "abort" => {
                self.cli_answers(at, &call, &json!({"success": true}));
                if self.dice.chance(60) {
                    self.cli_lives(at);
                }
            }
            "killSession" => {
                self.cli_answers(at, &call, &json!({}));
                if self.dice.chance(70) {
                    self.cli_ends(at);
                    self.cli_leaves(at);
                }
            }
            "set-session-config" => self.cli_answers(at, &call, &json!({"applied": call.params})),
            "spawnSession" => self.runner_spawns(at, call),
            _ => self.cli_answers(at, &call, &json!({"success": true})),
        }
    }

    pub fn cli_answers(&mut self, at: usize, call: &Call, result: &Value) {
        if self.clis[at].link == Some(call.link) {
            self.send(call.link, format!("43/cli,{}[{}]", call.ack, json!(result.to_string())));
        }
    }

    /// The CLI says goodbye for its session.
    pub fn cli_ends(&mut self, at: usize) {
        let (place, now) = (self.clis[at].place, self.now());
        let Some(session) = self.clis[at].session() else { return };
        self.ledger(place).end(&session);
        self.cli_asks(at, "session-end", &json!({"sid": session, "time": now}), Waiting::End { session });
    }

    /// The CLI moves a request to the completed ones itself.
    fn cli_moves_request(&mut self, at: usize, params: &Value) {
        let id = params["id"].as_str().unwrap();
        let (_, mut state) = self.clis[at].values.get(&Part::State).cloned().unwrap_or_default();
        let Some(request) = state["requests"].as_object_mut().and_then(|requests| requests.remove(id)) else { return };
        let status = if params["approved"] == true { "approved" } else { "denied" };
        let now = self.now();
        state["completedRequests"] =
            json!({id: {"tool": request["tool"], "status": status, "completedAt": now, "by": "cli"}});
        self.cli_updates_state(at, state, None, false);
    }

    /// Puts a state in place of the one that the CLI knows, or of the one before it.
    pub fn cli_updates_state(&mut self, at: usize, mut state: Value, request: Option<String>, stale: bool) {
        let Some(session) = self.clis[at].session() else { return };
        let (version, _) = self.clis[at].values.get(&Part::State).cloned().unwrap_or((1, Value::Null));
        let expected = if stale { version.saturating_sub(1) } else { version };
        state["n"] = json!(self.fresh());
        let update = json!({"sid": session, "expectedVersion": expected, "agentState": state});
        let waiting = Waiting::Update { of: session, part: Part::State, expected, value: state, request };
        self.cli_asks(at, "update-state", &update, waiting);
    }

    /// A runner starts a CLI: for a new session, or again for one, under its own id or another one.
    fn runner_spawns(&mut self, at: usize, call: Call) {
        let place = self.clis[at].place;
        let Some(session) = call.params["sessionId"].as_str().map(str::to_owned) else {
            return self.runner_starts(at, call, "spawned");
        };
        if self.dice.chance(65) || !self.is_there(place, &session) {
            let answer = json!({"success": true, "sessionId": session});
            if self.dice.chance(80) {
                self.start_cli(place, &session);
            }
            return self.cli_answers(at, &call, &answer);
        }
        self.runner_starts(at, call, "again");
    }

    /// A CLI with a tag of its own comes; the runner answers once it has a session.
    fn runner_starts(&mut self, at: usize, call: Call, why: &str) {
        let (place, number) = (self.clis[at].place, self.fresh());
        let tag = format!("/{}-{why}-{number}", self.objects[place].name);
        let mut cli = Cli::new(place, Role::Session { tag, id: None });
        cli.spawned_for = Some((at, call));
        self.clis.push(cli);
        self.cli_comes(self.clis.len() - 1);
    }

    /// A CLI for a session comes: one that is away, or a new one.
    fn start_cli(&mut self, place: usize, session: &str) {
        let away =
            |cli: &Cli| cli.phase == Phase::Away && cli.place == place && cli.session().as_deref() == Some(session);
        let at = self.clis.iter().position(away).unwrap_or_else(|| {
            let tag = self.ledgers[place].sessions[session].tag.clone();
            self.clis.push(Cli::new(place, Role::Session { tag, id: Some(session.to_owned()) }));
            self.clis.len() - 1
        });
        self.cli_comes(at);
    }

    /// A CLI that was started has a session: its runner says so. When it came in the place of another session's, the hub
    /// will put the two together.
    pub fn tell_runner(&mut self, at: usize) {
        let Some((runner, call)) = self.clis[at].spawned_for.take() else { return };
        let Some(new) = self.clis[at].session() else { return };
        let place = self.clis[at].place;
        if self.clis[runner].link != Some(call.link) {
            return;
        }
        if let Some(old) = call.params["sessionId"].as_str() {
            if !self.is_there(place, old) {
                return;
            }
            self.shift(place, old, &new);
        }
        self.cli_answers(runner, &call, &json!({"success": true, "sessionId": new}));
    }
}
