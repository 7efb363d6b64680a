//! A simulated CLI that follows the rules of PROTOCOL-CLI.md "Reliable delivery": it reconnects, sends unacknowledged messages
//! again, and reads missed messages.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::connections::{ConnectionId, Peer};
use super::long_sessions::stored_messages;
use super::oracle::{KeepAlive, SentMessage, ValueKind};
use super::responses::Purpose;
use super::world::World;
use crate::support::cli::{Received, parse_frame};
use crate::support::runtime::Frame;

const SESSION_METHODS: &[&str] = &["readFile", "permission", "abort", "switch", "killSession", "set-session-config"];
const MACHINE_METHODS: &[&str] = &["spawnSession"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The id is `None` until the hub has responded with the session.
    Session {
        tag: String,
        id: Option<String>,
    },
    Machine(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Disconnected,
    /// Waits for the response with the CLI's session or machine.
    Registering,
    Connecting,
    Ready,
}

/// An event whose acknowledgement is pending.
#[derive(Debug, Clone)]
pub enum PendingAck {
    Registration,
    Alive {
        session: String,
        keep_alive: KeepAlive,
    },
    End {
        session: String,
    },
    Message {
        session: String,
        local_id: String,
    },
    /// `request` is the id of the permission request that an update of the agent state adds.
    Update {
        owner: String,
        kind: ValueKind,
        expected: u64,
        value: Value,
        request: Option<String>,
        sent_at: u64,
    },
}

impl PendingAck {
    /// The session that the event may end.
    pub fn ends(&self) -> Option<&str> {
        match self {
            Self::End { session } => Some(session),
            Self::Update { owner, kind: ValueKind::Metadata, value, .. } if is_archived(value) => Some(owner),
            _ => None,
        }
    }
}

/// Whether the metadata says that its session is archived.
pub fn is_archived(metadata: &Value) -> bool {
    metadata["lifecycleState"] == "archived"
}

/// An RPC call without a response.
#[derive(Debug, Clone)]
pub struct Call {
    pub connection: ConnectionId,
    pub ack: u64,
    pub method: String,
    pub params: Value,
    pub received_at: u64,
    /// The number of crashes before the call. A crash ends all calls.
    pub crashes: u64,
}

pub struct Cli {
    pub namespace_index: usize,
    pub role: Role,
    pub phase: Phase,
    pub connection: Option<ConnectionId>,
    next_ack: u64,
    /// Events whose acknowledgement is pending, by ack id.
    pub pending_acks: BTreeMap<u64, PendingAck>,
    /// The local ids of unacknowledged messages, in the order of sending.
    pub unacknowledged: VecDeque<String>,
    /// The message ids of the session by seq.
    pub history: BTreeMap<u64, String>,
    /// The seq of the last processed message.
    last_seq: u64,
    /// Whether the CLI is reading missed messages. It buffers new messages until then.
    pub is_catching_up: bool,
    buffered: Vec<(u64, String)>,
    /// The newest known version of each value.
    pub values: BTreeMap<ValueKind, (u64, Value)>,
    pub unanswered_calls: Vec<Call>,
    /// The runner that started this CLI, and its `spawnSession` call. The runner responds when this CLI has a session.
    pub spawned_for: Option<(usize, Call)>,
}

impl Cli {
    pub fn new(namespace_index: usize, role: Role) -> Self {
        let mut cli = Self {
            namespace_index,
            role,
            phase: Phase::Disconnected,
            connection: None,
            next_ack: 0,
            pending_acks: BTreeMap::new(),
            unacknowledged: VecDeque::new(),
            history: BTreeMap::new(),
            last_seq: 0,
            is_catching_up: false,
            buffered: Vec::new(),
            values: BTreeMap::new(),
            unanswered_calls: Vec::new(),
            spawned_for: None,
        };
        cli.forget_history();
        cli
    }

    pub fn session(&self) -> Option<String> {
        match &self.role {
            Role::Session { id, .. } => id.clone(),
            Role::Machine(_) => None,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Discards the received history. The messages that were stored before the run count as processed.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.last_seq = self.session().map_or(0, |session| stored_messages(&session));
        self.buffered.clear();
    }

    /// Processes a message, or buffers it while the CLI reads missed messages.
    pub fn on_message(&mut self, seq: u64, id: String) {
        if self.is_catching_up {
            self.buffered.push((seq, id));
        } else if seq > self.last_seq {
            self.last_seq = seq;
            self.history.insert(seq, id);
        }
    }

    /// Stores a version of a value unless a newer version is known.
    pub fn store_version(&mut self, kind: ValueKind, version: u64, value: &Value) {
        let newest = self.values.entry(kind).or_insert((0, Value::Null));
        if version > newest.0 {
            *newest = (version, value.clone());
        }
    }
}

impl World {
    /// Registers the CLI, or connects it if it knows its session.
    pub fn cli_connect(&mut self, i: usize) {
        match &self.clis[i].role {
            Role::Session { id: Some(_), .. } => self.cli_open_socket(i),
            Role::Session { tag, id: None } => {
                let tag = tag.clone();
                self.clis[i].phase = Phase::Registering;
                self.request_session(
                    self.clis[i].namespace_index,
                    &tag,
                    Purpose::Tag { tag: tag.clone(), cli: Some(i), race: None },
                );
            }
            Role::Machine(id) => {
                let body = json!({"id": id, "metadata": {"host": "box", "platform": "linux"}});
                self.clis[i].phase = Phase::Registering;
                let namespace_index = self.clis[i].namespace_index;
                self.request(namespace_index, "POST", "/cli/machines", body.to_string(), Purpose::Machine { cli: i });
            }
        }
    }

    /// Requests the session of a tag. The hub creates the session if the tag has none.
    pub fn request_session(&mut self, namespace_index: usize, tag: &str, purpose: Purpose) {
        let metadata =
            json!({"path": tag, "host": "box", "machineId": self.machine_id(namespace_index), "alphaSessionId": "a"});
        let body = json!({"tag": tag, "metadata": metadata});
        self.request(namespace_index, "POST", "/cli/sessions", body.to_string(), purpose);
    }

    pub fn machine_id(&self, namespace_index: usize) -> String {
        format!("{}-machine", self.objects[namespace_index].name)
    }

    /// Stores the session that the CLI received.
    pub fn cli_on_session(&mut self, i: usize, session: &Value) {
        let cli = &mut self.clis[i];
        let new_id = session["id"].as_str().map(str::to_owned);
        if let Role::Session { id, .. } = &mut cli.role {
            *id = new_id;
        }
        cli.forget_history();
        cli.unacknowledged.clear();
        cli.values.clear();
        cli.store_version(ValueKind::Metadata, session["metadataVersion"].as_u64().unwrap(), &session["metadata"]);
        cli.store_version(
            ValueKind::AgentState,
            session["agentStateVersion"].as_u64().unwrap(),
            &session["agentState"],
        );
    }

    /// Opens a socket and sends CONNECT.
    pub fn cli_open_socket(&mut self, i: usize) {
        let namespace_index = self.clis[i].namespace_index;
        let mut auth = json!({"token": self.objects[namespace_index].token()});
        match &self.clis[i].role {
            Role::Session { id, .. } => auth["sessionId"] = json!(id),
            Role::Machine(id) => auth["machineId"] = json!(id),
        }
        let (key, frames) = self.objects[namespace_index].open_cli();
        let connection = self.add_connection(namespace_index, Peer::Cli(i), key, frames);
        let cli = &mut self.clis[i];
        (cli.phase, cli.connection, cli.next_ack) = (Phase::Connecting, Some(connection), 0);
        self.send(connection, format!("40/cli,{auth}"));
    }

    pub fn cli_disconnect(&mut self, i: usize) {
        if let Some(connection) = self.clis[i].connection {
            self.disconnect(connection);
            self.cli_on_disconnect(i);
        }
    }

    /// Discards the state of the connection.
    fn cli_on_disconnect(&mut self, i: usize) {
        let cli = &mut self.clis[i];
        let Some(connection) = cli.connection else { return };
        (cli.phase, cli.connection, cli.is_catching_up) = (Phase::Disconnected, None, false);
        cli.buffered.clear();
        cli.unanswered_calls.clear();
        let namespace_index = cli.namespace_index;
        for pending_ack in std::mem::take(&mut cli.pending_acks).into_values() {
            // Whether the session has ended is unknown until the world is idle.
            if let Some(session) = pending_ack.ends() {
                self.oracle(namespace_index).record_unacknowledged_end(session, connection);
            }
        }
    }

    /// Sends an event that requires an acknowledgement.
    pub fn cli_emit(&mut self, i: usize, name: &str, payload: &Value, pending_ack: PendingAck) {
        let cli = &mut self.clis[i];
        let Some(connection) = cli.connection else { return };
        let ack = cli.next_ack;
        cli.next_ack += 1;
        cli.pending_acks.insert(ack, pending_ack);
        self.send(connection, format!("42/cli,{ack}{}", json!([name, payload])));
    }

    pub fn cli_on_frame(&mut self, i: usize, frame: Frame) {
        let Frame::Text(text) = frame else { return self.cli_on_disconnect(i) };
        match parse_frame(&text) {
            Received::Open(_) => {}
            Received::Connected(_) => self.cli_on_connect(i),
            Received::ConnectError(error) => panic!("a valid CONNECT was rejected: {error}"),
            Received::Ping => {
                // Some pings time out.
                if let Some(connection) = self.clis[i].connection.filter(|_| self.rng.chance(80)) {
                    self.send(connection, "3".into());
                }
            }
            Received::Event { name, arg, ack } => match (&*name, ack) {
                ("update", None) => self.cli_on_update(i, &arg["body"]),
                ("error", None) => self.cli_on_error(i, &arg),
                ("rpc-request", Some(ack)) => self.cli_on_call(i, ack, &arg),
                _ => panic!("unexpected event: {text}"),
            },
            Received::Ack { id, arg } => {
                let pending_ack = self.clis[i].pending_acks.remove(&id);
                let pending_ack = pending_ack.unwrap_or_else(|| panic!("unexpected acknowledgement: {text}"));
                self.cli_on_ack(i, pending_ack, &arg);
            }
        }
    }

    fn cli_on_connect(&mut self, i: usize) {
        self.clis[i].phase = Phase::Ready;
        self.cli_register(i);
        if self.clis[i].session().is_some() {
            self.cli_catch_up(i);
            self.cli_resend(i);
            self.cli_send_before_merge(i);
        }
        self.cli_send_keep_alive(i);
    }

    /// If the CLI's session resumes another session: may send a message before a keep-alive starts the merge.
    fn cli_send_before_merge(&mut self, i: usize) {
        let is_resumed = matches!(&self.clis[i].role, Role::Session { tag, .. } if tag.contains("-resumed-"));
        if is_resumed && self.rng.chance(70) {
            let namespace_index = self.clis[i].namespace_index;
            let local_id = self.new_local_id(namespace_index);
            let text = format!("{}-{local_id}", self.objects[namespace_index].name);
            self.cli_send_new(i, &local_id, &text, false);
        }
    }

    pub fn cli_register(&mut self, i: usize) {
        let methods = match self.clis[i].role {
            Role::Session { .. } => SESSION_METHODS,
            Role::Machine(_) => MACHINE_METHODS,
        };
        for method in methods {
            self.cli_emit(i, "rpc-register", &json!({"method": method}), PendingAck::Registration);
        }
    }

    /// Unregisters a random method.
    pub fn cli_unregister(&mut self, i: usize) {
        let method = match self.clis[i].role {
            Role::Session { .. } => self.rng.pick(SESSION_METHODS),
            Role::Machine(_) => self.rng.pick(MACHINE_METHODS),
        };
        self.cli_emit(i, "rpc-unregister", &json!({"method": method}), PendingAck::Registration);
    }

    /// Disconnects, and reconnects immediately. The `readFile` call in between waits for the reconnect.
    pub fn cli_reconnect(&mut self, i: usize) {
        let Some(session) = self.clis[i].session() else { return };
        self.cli_disconnect(i);
        self.read_file(self.clis[i].namespace_index, session);
        self.cli_connect(i);
    }

    pub fn cli_send_keep_alive(&mut self, i: usize) {
        let now = self.now();
        match self.clis[i].role.clone() {
            Role::Machine(id) => {
                self.cli_emit(i, "machine-alive", &json!({"machineId": id, "time": now}), PendingAck::Registration);
            }
            Role::Session { id: Some(session), .. } => self.cli_keep_alive(i, session),
            Role::Session { id: None, .. } => {}
        }
    }

    /// Reads the history after the last processed message.
    pub fn cli_catch_up(&mut self, i: usize) {
        let cli = &mut self.clis[i];
        cli.is_catching_up = true;
        let (Some(session), Some(connection)) = (cli.session(), cli.connection) else { return };
        let (namespace_index, after) = (cli.namespace_index, cli.last_seq);
        let limit = self.rng.between(1, 20);
        let query = format!("afterSeq={after}&limit={limit}");
        let min_seq = self.oracles[namespace_index].newest_seq(&session);
        let purpose = Purpose::CatchUp { cli: i, connection, session: session.clone(), after, limit, min_seq };
        self.request_page(namespace_index, &session, query, purpose);
    }

    pub fn cli_on_page(&mut self, i: usize, page: &Value) {
        for message in page["messages"].as_array().unwrap() {
            let (seq, id) = (message["seq"].as_u64().unwrap(), message["id"].as_str().unwrap().to_owned());
            self.clis[i].history.insert(seq, id);
            self.clis[i].last_seq = seq;
        }
        if page["hasMore"] == true {
            return self.cli_catch_up(i);
        }
        let cli = &mut self.clis[i];
        cli.is_catching_up = false;
        for (seq, id) in std::mem::take(&mut cli.buffered) {
            cli.on_message(seq, id);
        }
    }

    /// Sends unacknowledged messages again in order, except messages that are in flight.
    pub fn cli_resend(&mut self, i: usize) {
        let in_flight: Vec<String> = self.clis[i].pending_acks.values().filter_map(local_id).collect();
        let unacknowledged: Vec<String> = self.clis[i].unacknowledged.iter().cloned().collect();
        for local_id in unacknowledged.into_iter().filter(|id| !in_flight.contains(id)) {
            self.cli_send(i, &local_id);
        }
    }

    /// Sends a new message. `is_ready_event`: the message is a ready event.
    pub fn cli_send_new(&mut self, i: usize, local_id: &str, text: &str, is_ready_event: bool) {
        let namespace_index = self.clis[i].namespace_index;
        let Some(session) = self.clis[i].session() else { return };
        self.oracle(namespace_index).record_draft(local_id, &session, text);
        self.oracle(namespace_index).messages.get_mut(local_id).unwrap().is_ready_event = is_ready_event;
        self.clis[i].unacknowledged.push_back(local_id.to_owned());
        self.cli_send(i, local_id);
    }

    /// Sends a recorded message, for the first time or again.
    pub fn cli_send(&mut self, i: usize, local_id: &str) {
        let (namespace_index, connection) = (self.clis[i].namespace_index, self.clis[i].connection);
        let Some(session) = self.clis[i].session() else { return };
        let SentMessage { text, is_ready_event, .. } = self.oracles[namespace_index].messages[local_id].clone();
        self.oracle(namespace_index).record_send(local_id, connection);
        let content = match is_ready_event {
            true => {
                self.record_ready(namespace_index, &session, local_id);
                json!({"type": "event", "data": {"type": "ready"}, "text": text})
            }
            false => json!(text),
        };
        let message = json!({"sid": session, "localId": local_id, "message": {"role": "agent", "content": content}});
        let pending_ack = PendingAck::Message { session, local_id: local_id.to_owned() };
        self.cli_emit(i, "message", &message, pending_ack);
    }
}

/// The local id of a message.
fn local_id(pending_ack: &PendingAck) -> Option<String> {
    match pending_ack {
        PendingAck::Message { local_id, .. } => Some(local_id.clone()),
        _ => None,
    }
}
