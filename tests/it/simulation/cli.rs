//! A CLI that does what docs/PROTOCOL.md asks of one ("Reliable delivery"): it reconnects, sends again what was not
//! acknowledged, and reads what it missed.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::ledger::{Part, Sent, Vital};
use super::replies::Purpose;
use super::world::{End, LinkId, World};
use crate::support::cli::{Heard, read};
use crate::support::runtime::Frame;

/// What a session's CLI serves.
const SESSION_METHODS: &[&str] = &["readFile", "permission", "abort", "switch", "killSession", "set-session-config"];
/// What a machine's runner serves.
const MACHINE_METHODS: &[&str] = &["spawnSession"];

/// What a CLI speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The session of a tag, whose id it knows once it was told.
    Session {
        tag: String,
        id: Option<String>,
    },
    Machine(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Away,
    /// It asks for its session or machine.
    Asking,
    Opening,
    Ready,
}

/// What an acknowledgement that is awaited is for.
#[derive(Debug, Clone)]
pub enum Waiting {
    Registration,
    Alive { session: String, vital: Vital },
    End { session: String },
    Message { session: String, local_id: String },
    Update { of: String, part: Part, expected: u64, value: Value, request: Option<String> },
}

/// A call of the hub that a CLI has not answered yet.
#[derive(Debug, Clone)]
pub struct Call {
    pub link: LinkId,
    pub ack: u64,
    pub method: String,
    pub params: Value,
    pub heard_at: u64,
    /// How often an object had been torn down by then: its calls went with it.
    pub crashes: u64,
}

pub struct Cli {
    pub place: usize,
    pub role: Role,
    pub phase: Phase,
    pub link: Option<LinkId>,
    next_ack: u64,
    pub waiting: BTreeMap<u64, Waiting>,
    /// The local ids of messages that are not acknowledged, in the order of their sending.
    pub unacknowledged: VecDeque<String>,
    /// The ids of its session's messages by seq, as it knows them.
    pub history: BTreeMap<u64, String>,
    /// The last seq that it has handled.
    last_seq: u64,
    /// Whether it reads what it missed; what it hears meanwhile is kept until it is done.
    pub catching_up: bool,
    heard_meanwhile: Vec<(u64, String)>,
    /// Versioned values as it knows them.
    pub values: BTreeMap<Part, (u64, Value)>,
    /// Calls that it has not answered.
    pub owed: Vec<Call>,
    /// The machine's call that is answered once this one has a session.
    pub spawned_for: Option<(usize, Call)>,
}

impl Cli {
    pub fn new(place: usize, role: Role) -> Self {
        Self {
            place,
            role,
            phase: Phase::Away,
            link: None,
            next_ack: 0,
            waiting: BTreeMap::new(),
            unacknowledged: VecDeque::new(),
            history: BTreeMap::new(),
            last_seq: 0,
            catching_up: false,
            heard_meanwhile: Vec::new(),
            values: BTreeMap::new(),
            owed: Vec::new(),
            spawned_for: None,
        }
    }

    /// The session that it speaks for, once it knows its id.
    pub fn session(&self) -> Option<String> {
        match &self.role {
            Role::Session { id, .. } => id.clone(),
            Role::Machine(_) => None,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Forgets a history that was numbered anew.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.last_seq = 0;
        self.heard_meanwhile.clear();
    }

    pub fn handle(&mut self, seq: u64, id: String) {
        if self.catching_up {
            self.heard_meanwhile.push((seq, id));
        } else if seq > self.last_seq {
            self.last_seq = seq;
            self.history.insert(seq, id);
        }
    }

    /// Takes a version of a value unless a newer one is known.
    pub fn take(&mut self, part: Part, version: u64, value: &Value) {
        let known = self.values.entry(part).or_insert((0, Value::Null));
        if version > known.0 {
            *known = (version, value.clone());
        }
    }
}

impl World {
    /// A CLI comes, or comes back.
    pub fn cli_comes(&mut self, at: usize) {
        match &self.clis[at].role {
            Role::Session { id: Some(_), .. } => self.cli_opens(at),
            Role::Session { tag, id: None } => {
                let tag = tag.clone();
                self.clis[at].phase = Phase::Asking;
                self.ask_for_tag(
                    self.clis[at].place,
                    &tag,
                    Purpose::Tag { tag: tag.clone(), cli: Some(at), race: None },
                );
            }
            Role::Machine(id) => {
                let body = json!({"id": id, "metadata": {"host": "box", "platform": "linux"}});
                self.clis[at].phase = Phase::Asking;
                let place = self.clis[at].place;
                self.request(place, "POST", "/cli/machines", body.to_string(), Purpose::Machine { cli: at });
            }
        }
    }

    pub fn ask_for_tag(&mut self, place: usize, tag: &str, purpose: Purpose) {
        let metadata = json!({"path": tag, "host": "box", "machineId": self.machine_of(place), "alphaSessionId": "a"});
        let body = json!({"tag": tag, "metadata": metadata});
        self.request(place, "POST", "/cli/sessions", body.to_string(), purpose);
    }

    /// The name of a namespace's machine.
    pub fn machine_of(&self, place: usize) -> String {
        format!("{}-machine", self.objects[place].name)
    }

    /// A CLI was told its session.
    pub fn cli_has_session(&mut self, at: usize, session: &Value) {
        let cli = &mut self.clis[at];
        let told = session["id"].as_str().map(str::to_owned);
        if let Role::Session { id, .. } = &mut cli.role {
            *id = told;
        }
        cli.forget_history();
        cli.unacknowledged.clear();
        cli.values.clear();
        cli.take(Part::Metadata, session["metadataVersion"].as_u64().unwrap(), &session["metadata"]);
        cli.take(Part::State, session["agentStateVersion"].as_u64().unwrap(), &session["agentState"]);
    }

    /// Opens a socket and sends CONNECT.
    pub fn cli_opens(&mut self, at: usize) {
        let place = self.clis[at].place;
        let mut auth = json!({"token": self.objects[place].token()});
        match &self.clis[at].role {
            Role::Session { id, .. } => auth["sessionId"] = json!(id),
            Role::Machine(id) => auth["machineId"] = json!(id),
        }
        let (key, frames) = self.objects[place].open_cli();
        let link = self.add_link(place, End::Cli(at), key, frames);
        let cli = &mut self.clis[at];
        (cli.phase, cli.link, cli.next_ack) = (Phase::Opening, Some(link), 0);
        self.send(link, format!("40/cli,{auth}"));
    }

    /// The CLI loses its socket, or lets go of it.
    pub fn cli_leaves(&mut self, at: usize) {
        if let Some(link) = self.clis[at].link {
            self.cut(link);
            self.cli_lost(at);
        }
    }

    /// The CLI's socket is gone.
    fn cli_lost(&mut self, at: usize) {
        let cli = &mut self.clis[at];
        (cli.phase, cli.link, cli.catching_up) = (Phase::Away, None, false);
        cli.heard_meanwhile.clear();
        cli.owed.clear();
        let place = cli.place;
        for waiting in std::mem::take(&mut cli.waiting).into_values() {
            // Whether it ended its session will show only when everything has come to rest.
            if let Waiting::End { session } = waiting {
                self.ledger(place).may_end(&session);
            }
        }
    }

    /// Sends an event and waits for its acknowledgement.
    pub fn cli_asks(&mut self, at: usize, name: &str, payload: &Value, waiting: Waiting) {
        let cli = &mut self.clis[at];
        let Some(link) = cli.link else { return };
        let ack = cli.next_ack;
        cli.next_ack += 1;
        cli.waiting.insert(ack, waiting);
        self.send(link, format!("42/cli,{ack}{}", json!([name, payload])));
    }

    pub fn cli_hears(&mut self, at: usize, frame: Frame) {
        let Frame::Text(text) = frame else { return self.cli_lost(at) };
        match read(&text) {
            Heard::Open(_) => {}
            Heard::Connected(_) => self.cli_connected(at),
            Heard::Refused(why) => panic!("a good CONNECT was refused: {why}"),
            Heard::Ping => {
                // Some are not answered in time.
                if let Some(link) = self.clis[at].link.filter(|_| self.dice.chance(80)) {
                    self.send(link, "3".into());
                }
            }
            Heard::Event { name, arg, ack } => match (&*name, ack) {
                ("update", None) => self.cli_update(at, &arg["body"]),
                ("error", None) => self.cli_error(at, &arg),
                ("rpc-request", Some(ack)) => self.cli_called(at, ack, &arg),
                _ => panic!("a CLI does not understand {text}"),
            },
            Heard::Ack { id, arg } => {
                let waiting = self.clis[at].waiting.remove(&id);
                let waiting = waiting.unwrap_or_else(|| panic!("an acknowledgement that nobody asked for: {text}"));
                self.cli_acknowledged(at, waiting, &arg);
            }
        }
    }

    /// What every CLI does when it is connected.
    fn cli_connected(&mut self, at: usize) {
        self.clis[at].phase = Phase::Ready;
        self.cli_registers(at);
        if self.clis[at].session().is_some() {
            self.cli_catches_up(at);
            self.cli_sends_again(at);
        }
        self.cli_lives(at);
    }

    pub fn cli_registers(&mut self, at: usize) {
        let methods = match self.clis[at].role {
            Role::Session { .. } => SESSION_METHODS,
            Role::Machine(_) => MACHINE_METHODS,
        };
        for method in methods {
            self.cli_asks(at, "rpc-register", &json!({"method": method}), Waiting::Registration);
        }
    }

    /// The CLI does not serve one of its methods any more.
    pub fn cli_unregisters(&mut self, at: usize) {
        let method = match self.clis[at].role {
            Role::Session { .. } => self.dice.pick(SESSION_METHODS),
            Role::Machine(_) => self.dice.pick(MACHINE_METHODS),
        };
        self.cli_asks(at, "rpc-unregister", &json!({"method": method}), Waiting::Registration);
    }

    /// The CLI loses its socket and is back at once: a call of this moment waits for it.
    pub fn cli_returns(&mut self, at: usize) {
        let Some(session) = self.clis[at].session() else { return };
        self.cli_leaves(at);
        self.read_file(self.clis[at].place, session);
        self.cli_comes(at);
    }

    /// A sign of life.
    pub fn cli_lives(&mut self, at: usize) {
        let (place, now) = (self.clis[at].place, self.now());
        match self.clis[at].role.clone() {
            Role::Machine(id) => {
                self.cli_asks(at, "machine-alive", &json!({"machineId": id, "time": now}), Waiting::Registration);
            }
            Role::Session { id: Some(session), .. } => {
                let mut alive = json!({"sid": session, "time": now});
                if self.dice.chance(40) {
                    alive["thinking"] = json!(self.dice.chance(50));
                }
                if self.dice.chance(20) {
                    alive["mode"] = json!(self.dice.pick(&["local", "remote"]));
                    alive["permissionMode"] = json!(self.dice.pick(&["default", "plan"]));
                }
                // What changes nothing is acknowledged at once, also while what it repeats is being written and may fail.
                let vital = Vital { at: now, upheavals: self.upheavals(place, &session, self.db.heard_faults()) };
                self.cli_asks(at, "session-alive", &alive, Waiting::Alive { session, vital });
            }
            Role::Session { id: None, .. } => {}
        }
    }

    /// Reads the history after what is known.
    pub fn cli_catches_up(&mut self, at: usize) {
        let cli = &mut self.clis[at];
        cli.catching_up = true;
        let (Some(session), Some(link)) = (cli.session(), cli.link) else { return };
        let (place, after) = (cli.place, cli.last_seq);
        let limit = self.dice.between(1, 20);
        let query = format!("afterSeq={after}&limit={limit}");
        let floor = self.ledgers[place].floor(&session).seq;
        let purpose = Purpose::CatchUp { cli: at, link, session: session.clone(), after, limit, floor };
        self.page(place, &session, query, purpose);
    }

    /// A page of what was missed has come.
    pub fn cli_read_page(&mut self, at: usize, page: &Value) {
        for message in page["messages"].as_array().unwrap() {
            let (seq, id) = (message["seq"].as_u64().unwrap(), message["id"].as_str().unwrap().to_owned());
            self.clis[at].history.insert(seq, id);
            self.clis[at].last_seq = seq;
        }
        if page["hasMore"] == true {
            return self.cli_catches_up(at);
        }
        let cli = &mut self.clis[at];
        cli.catching_up = false;
        for (seq, id) in std::mem::take(&mut cli.heard_meanwhile) {
            cli.handle(seq, id);
        }
    }

    /// Sends what is not acknowledged, in order, unless it is on its way.
    pub fn cli_sends_again(&mut self, at: usize) {
        let under_way: Vec<String> = self.clis[at].waiting.values().filter_map(local_id).collect();
        let again: Vec<String> = self.clis[at].unacknowledged.iter().cloned().collect();
        for local_id in again.into_iter().filter(|id| !under_way.contains(id)) {
            self.cli_sends(at, &local_id);
        }
    }

    /// Writes a message of its session, and sends it.
    pub fn cli_says(&mut self, at: usize, local_id: &str, text: &str, ready: bool) {
        let place = self.clis[at].place;
        let Some(session) = self.clis[at].session() else { return };
        self.ledger(place).draft(local_id, &session, text);
        self.ledger(place).messages.get_mut(local_id).unwrap().ready = ready;
        self.clis[at].unacknowledged.push_back(local_id.to_owned());
        self.cli_sends(at, local_id);
    }

    /// Puts a value of a session or machine in place of this version.
    pub fn cli_updates(&mut self, at: usize, of: &str, part: Part, expected: u64, value: Value) {
        let (name, id) = match part {
            Part::Metadata => ("update-metadata", "sid"),
            Part::State => ("update-state", "sid"),
            Part::RunnerState => ("machine-update-state", "machineId"),
        };
        let update = json!({id: of, "expectedVersion": expected, part.field(): value});
        let waiting = Waiting::Update { of: of.to_owned(), part, expected, value, request: None };
        self.cli_asks(at, name, &update, waiting);
    }

    /// Sends a message, for the first time or again.
    pub fn cli_sends(&mut self, at: usize, local_id: &str) {
        let (place, link) = (self.clis[at].place, self.clis[at].link);
        let Some(session) = self.clis[at].session() else { return };
        let Sent { text, ready, .. } = self.ledgers[place].messages[local_id].clone();
        self.ledger(place).send(local_id, link);
        let content = match ready {
            true => {
                self.agent_waits(&session, local_id);
                json!({"type": "event", "data": {"type": "ready"}, "text": text})
            }
            false => json!(text),
        };
        let message = json!({"sid": session, "localId": local_id, "message": {"role": "agent", "content": content}});
        let waiting = Waiting::Message { session, local_id: local_id.to_owned() };
        self.cli_asks(at, "message", &message, waiting);
    }

    fn cli_acknowledged(&mut self, at: usize, waiting: Waiting, ack: &Value) {
        let (place, link) = (self.clis[at].place, self.clis[at].link);
        match waiting {
            Waiting::Registration => assert!(ack["ok"] == true || self.may_fail(ack), "{ack}"),
            Waiting::Alive { session, vital } => {
                assert!(ack["ok"] == true || self.may_fail(ack), "{ack}");
                let valid = ack["ok"] == true && vital.upheavals == self.upheavals(place, &session, self.db.faults());
                let known = self.ledger(place).session(&session);
                known.vital = (valid && !known.may_end).then_some(vital);
            }
            Waiting::End { session } => {
                assert!(ack["ok"] == true || self.may_fail(ack), "{ack}");
                self.ledger(place).end(&session);
            }
            Waiting::Message { session, local_id } => {
                if ack["ok"] != true {
                    assert!(self.may_fail(ack), "{ack}");
                    return;
                }
                let (id, seq) = (ack["id"].as_str().unwrap(), ack["seq"].as_u64().unwrap());
                self.ledger(place).placed(&session, &local_id, id, seq);
                let sent = &self.ledgers[place].messages[&local_id];
                if sent.ready && sent.links.len() == 1 {
                    self.agent_was_heard(place, &session);
                }
                self.check_order(place, link, &session, &local_id, seq);
                let cli = &mut self.clis[at];
                cli.unacknowledged.retain(|known| *known != local_id);
                cli.history.insert(seq, id.to_owned());
                cli.handle(seq, id.to_owned());
                self.ledger(place).messages.get_mut(&local_id).unwrap().acknowledged = true;
            }
            Waiting::Update { of, part, expected, value, request } => {
                self.cli_updated(at, &of, part, expected, &value, request, ack);
            }
        }
    }

    /// Whether a CLI may be told this: the database had a fault, or the session is gone.
    fn may_fail(&self, refusal: &Value) -> bool {
        match refusal["code"].as_str() {
            Some("unavailable") => self.db.faults() > 0,
            Some("not-found") => true,
            _ => false,
        }
    }
}

fn local_id(waiting: &Waiting) -> Option<String> {
    match waiting {
        Waiting::Message { local_id, .. } => Some(local_id.clone()),
        _ => None,
    }
}
