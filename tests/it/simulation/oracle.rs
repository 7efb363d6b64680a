//! The test oracle of a namespace: records what its clients send and receive, and fails when two observations contradict.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::connections::ConnectionId;

/// A kind of versioned value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueKind {
    Metadata,
    AgentState,
    RunnerState,
}

impl ValueKind {
    /// The name of the field in the protocol.
    pub fn field(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::AgentState => "agentState",
            Self::RunnerState => "runnerState",
        }
    }
}

/// Whether a session exists, as far as clients can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    Certain,
    /// A request to delete or resume the session has no result yet.
    Unknown,
    Deleted,
}

/// A message that a client has sent or will send.
#[derive(Debug, Clone)]
pub struct SentMessage {
    pub session: String,
    pub text: String,
    /// The connections on which the message was sent, once for each attempt; 0 for HTTP.
    pub connections: Vec<ConnectionId>,
    pub is_from_web: bool,
    pub is_ready_event: bool,
    pub id: Option<String>,
    pub is_acknowledged: bool,
    /// Whether the hub said that the message waits until the CLI is back.
    pub is_held: bool,
    /// The result of the request to cancel the message; `None` without such a request.
    pub cancellation: Option<Cancellation>,
}

/// The result of a request to cancel a held message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// There is no response, or the response is an error that does not say whether the message was canceled.
    Unknown,
    Canceled,
    /// The message was sent before.
    Refused,
}

/// A permission request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Whether the update that added the request was acknowledged.
    pub is_acknowledged: bool,
    /// The answer that the hub accepted.
    pub approved: Option<bool>,
    /// The number of possible ends of the session before this request was added. Only a later end may cancel the request.
    pub ends_before: u64,
}

/// The last acknowledged keep-alive of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    pub time: u64,
    pub connection: ConnectionId,
    /// The number of `session-end`s of other connections before the keep-alive. While the keep-alive's own connection is
    /// open, a later `session-end` of another connection does not end the session.
    pub other_ends: u64,
    /// The number of disruptions before the keep-alive. A later disruption may invalidate the keep-alive.
    pub disruptions: u64,
    /// The number of aborts before the keep-alive. After a later abort, the session ends when the connection closes.
    pub aborts: u64,
}

/// What clients have requested and observed of a session.
#[derive(Debug, Clone)]
pub struct SessionRecord {
    pub tag: String,
    pub existence: Existence,
    pub is_deletion_requested: bool,
    /// Whether a client has requested to archive the session, which drops its held messages.
    pub is_archive_requested: bool,
    /// The observed message ids by seq.
    pub seqs: BTreeMap<u64, String>,
    /// The highest seq that the object reported. A page may have a higher seq, because the worker reads the page from the
    /// database. During a stall, a message may be committed before the object receives the result of the write.
    reported_seq: u64,
    /// The observed completed requests.
    pub completed: BTreeMap<String, Value>,
    /// The permission requests that CLIs have added, by id.
    pub requests: BTreeMap<String, Request>,
    /// Whether a merge may be renumbering the messages.
    pub is_merging: bool,
    pub keep_alive: Option<KeepAlive>,
    /// The number of requests that may have ended the session, without `session-end`s.
    pub possible_ends: u64,
    /// The number of aborts that succeeded. A keep-alive after the call of the CLI keeps the session active.
    pub aborts: u64,
    /// The number of sent or acknowledged `session-end`s, by connection.
    pub cli_ends: BTreeMap<ConnectionId, u64>,
    /// The connections whose `session-end` was not acknowledged. The hub may handle it at any time until the world is idle.
    pub ends_in_flight: Vec<ConnectionId>,
    /// The latest presence that watchers received; `None` when they may have missed one.
    pub presence: Option<Value>,
}

/// The newest state of a session that clients had received before a request. The response must not be older.
#[derive(Debug, Clone, Default)]
pub struct ReportedState {
    pub seq: u64,
    pub metadata_version: u64,
    pub state_version: u64,
    /// The ids of completed requests.
    pub completed: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Oracle {
    pub sessions: BTreeMap<String, SessionRecord>,
    /// Sent messages by local id.
    pub messages: BTreeMap<String, SentMessage>,
    /// The events that web clients received, by number.
    pub events: BTreeMap<u64, Value>,
    /// The number of possible merges.
    pub merges: u64,
    /// The observed values by version, for each session or machine.
    versions: BTreeMap<(String, ValueKind), BTreeMap<u64, Value>>,
    last_number: u64,
    /// The event numbers of `session-removed`, by session.
    removals: BTreeMap<String, u64>,
    /// Acknowledged names, by session and metadata version.
    names: BTreeMap<(String, u64), String>,
}

impl Oracle {
    /// A number that is unique in the namespace.
    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Records that a client received a session. Returns whether the session is new.
    pub fn observe_session(&mut self, id: &str, tag: &str) -> bool {
        let is_new = !self.sessions.contains_key(id);
        let record = self.sessions.entry(id.to_owned()).or_insert_with(|| SessionRecord {
            tag: tag.to_owned(),
            existence: Existence::Certain,
            is_deletion_requested: false,
            is_archive_requested: false,
            seqs: BTreeMap::new(),
            reported_seq: 0,
            completed: BTreeMap::new(),
            requests: BTreeMap::new(),
            is_merging: false,
            keep_alive: None,
            possible_ends: 0,
            aborts: 0,
            cli_ends: BTreeMap::new(),
            ends_in_flight: Vec::new(),
            presence: None,
        });
        assert!(record.tag == tag, "session {id} has two tags: {} and {tag}", record.tag);
        is_new
    }

    /// The record of a session that a client has received.
    pub fn session(&mut self, id: &str) -> &mut SessionRecord {
        self.sessions.get_mut(id).unwrap_or_else(|| panic!("observed session {id}, which was never created"))
    }

    /// The sessions whose deletion is not confirmed.
    pub fn existing_sessions(&self) -> Vec<String> {
        self.sessions
            .iter()
            .filter(|(_, record)| record.existence != Existence::Deleted)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Records that a client received a version of a value of `owner`, a session or machine.
    pub fn observe_version(&mut self, owner: &str, kind: ValueKind, version: u64, value: &Value) {
        let mut value = value.clone();
        if kind == ValueKind::AgentState {
            value = self.without_completed(owner, value);
        }
        if let Some(name) = self.names.get(&(owner.to_owned(), version)).filter(|_| kind == ValueKind::Metadata) {
            assert!(value["name"] == name.as_str(), "version {version} of {owner} must have the name {name}: {value}");
        }
        let versions = self.versions.entry((owner.to_owned(), kind)).or_default();
        match versions.get(&version) {
            Some(previous) => {
                assert!(
                    *previous == value,
                    "{kind:?} of {owner}: version {version} was observed as {previous} and as {value}"
                );
            }
            None => {
                versions.insert(version, value.clone());
                if kind == ValueKind::AgentState {
                    check_pending(owner, versions, &value);
                }
            }
        }
    }

    /// Records the version of a value in an event, unless the event omits the value because it is large.
    pub fn observe_event_version(&mut self, owner: &str, kind: ValueKind, data: &Value) {
        let field = kind.field();
        let Some(version) = data[format!("{field}Version")].as_u64() else { return };
        if data[format!("{field}Bytes")].as_u64().is_none_or(|bytes| bytes < 600_000) {
            self.observe_version(owner, kind, version, &data[field]);
        }
    }

    /// Records the completed requests of an agent state. Returns the state without them.
    fn without_completed(&mut self, session: &str, state: Value) -> Value {
        let Value::Object(mut state) = state else { return Value::Object(Map::new()) };
        let completed = state.remove("completedRequests");
        for (id, entry) in completed.iter().filter_map(Value::as_object).flatten() {
            let previous = self.session(session).completed.entry(id.clone()).or_insert_with(|| entry.clone());
            assert!(previous == entry, "request {id} of {session} was completed twice: {previous} and {entry}");
        }
        Value::Object(state)
    }

    /// Records that a rename succeeded and resulted in this version of the metadata.
    pub fn observe_name(&mut self, session: &str, version: u64, name: &str) {
        if let Some(value) = self.value(session, ValueKind::Metadata, version) {
            assert!(value["name"] == name, "version {version} of {session} must have the name {name}: {value}");
        }
        let previous = self.names.insert((session.to_owned(), version), name.to_owned());
        assert!(previous.is_none(), "version {version} of {session} has two names: {previous:?} and {name}");
    }

    /// The newest observed version.
    pub fn newest_version(&self, owner: &str, kind: ValueKind) -> u64 {
        let newest = self.versions.get(&(owner.to_owned(), kind)).and_then(|versions| versions.keys().next_back());
        let named = self.names.range((owner.to_owned(), 0)..=(owner.to_owned(), u64::MAX)).next_back();
        let named = named.filter(|_| kind == ValueKind::Metadata).map(|((_, version), _)| version);
        newest.max(named).copied().unwrap_or(0)
    }

    /// The value that was observed with a version.
    pub fn value(&self, owner: &str, kind: ValueKind, version: u64) -> Option<&Value> {
        self.versions.get(&(owner.to_owned(), kind))?.get(&version)
    }

    /// Records a message before it is sent.
    pub fn record_draft(&mut self, local_id: &str, session: &str, text: &str) {
        let sent = SentMessage {
            session: session.to_owned(),
            text: text.to_owned(),
            connections: Vec::new(),
            is_from_web: false,
            is_ready_event: false,
            id: None,
            is_acknowledged: false,
            is_held: false,
            cancellation: None,
        };
        self.messages.insert(local_id.to_owned(), sent);
    }

    /// Records that a message is sent. `connection` is `None` for HTTP.
    pub fn record_send(&mut self, local_id: &str, connection: Option<ConnectionId>) {
        self.messages.get_mut(local_id).unwrap().connections.push(connection.unwrap_or(0));
    }

    /// Records that the object sent a client the id and seq of a message.
    pub fn observe_position(&mut self, session: &str, local_id: &str, id: &str, seq: u64) {
        self.record_position(session, local_id, id, seq);
        self.record_reported(session, seq);
    }

    fn record_reported(&mut self, session: &str, seq: u64) {
        let record = self.session(session);
        if !record.is_merging {
            record.reported_seq = record.reported_seq.max(seq);
        }
    }

    fn record_position(&mut self, session: &str, local_id: &str, id: &str, seq: u64) {
        let sent = self
            .messages
            .get_mut(local_id)
            .unwrap_or_else(|| panic!("observed message {local_id}, which was never sent"));
        let previous = sent.id.get_or_insert_with(|| id.to_owned());
        assert!(previous == id, "message {local_id} was observed with the ids {previous} and {id}");
        let record = self.session(session);
        if !record.is_merging {
            let previous = record.seqs.entry(seq).or_insert_with(|| id.to_owned());
            assert!(previous == id, "seq {seq} of {session} was observed as message {previous} and {id}");
        }
    }

    /// Records that the object sent a client a complete message.
    pub fn observe_message(&mut self, session: &str, message: &Value) {
        self.observe_stored_message(session, message);
        self.record_reported(session, message["seq"].as_u64().unwrap());
    }

    /// Records that a client read a complete message from the database.
    pub fn observe_stored_message(&mut self, session: &str, message: &Value) {
        let (local_id, seq) = (message["localId"].as_str().unwrap(), message["seq"].as_u64().unwrap());
        self.record_position(session, local_id, message["id"].as_str().unwrap(), seq);
        let sent = &self.messages[local_id];
        let content = &message["content"]["content"];
        let text = content["text"].as_str().or(content.as_str());
        assert!(text == Some(&*sent.text), "message {local_id} was sent as {} and received as {message}", sent.text);
        let may_have_moved =
            self.sessions.get(&sent.session).is_none_or(|record| record.existence != Existence::Certain);
        assert!(sent.session == session || may_have_moved, "message {local_id} of {} is in {session}", sent.session);
    }

    /// Records that a client received a complete session. Checks that the session is not older than `reported_state`.
    pub fn observe_snapshot(&mut self, session: &Value, reported_state: &ReportedState) {
        let id = session["id"].as_str().unwrap();
        let number = |name: &str| session[name].as_u64().unwrap();
        self.observe_version(id, ValueKind::Metadata, number("metadataVersion"), &session["metadata"]);
        self.observe_version(id, ValueKind::AgentState, number("agentStateVersion"), &session["agentState"]);
        let observed = (number("seq"), number("metadataVersion"), number("agentStateVersion"));
        let is_stale = observed.0 < reported_state.seq
            || observed.1 < reported_state.metadata_version
            || observed.2 < reported_state.state_version;
        assert!(
            !is_stale || self.session(id).is_merging,
            "the session is older than an earlier observation: {reported_state:?} {session}"
        );
        for request in &reported_state.completed {
            let entry = &session["agentState"]["completedRequests"][request];
            assert!(entry.is_object(), "completed request {request} is missing in {session}");
        }
    }

    /// The highest seq that a client has received.
    pub fn newest_seq(&self, session: &str) -> u64 {
        self.sessions[session].seqs.keys().next_back().copied().unwrap_or(0)
    }

    /// The newest state that clients have received. The response to a request that is sent now must not be older.
    pub fn reported_state(&self, session: &str) -> ReportedState {
        let record = &self.sessions[session];
        ReportedState {
            seq: record.reported_seq,
            metadata_version: self.newest_version(session, ValueKind::Metadata),
            state_version: self.newest_version(session, ValueKind::AgentState),
            completed: record.completed.keys().cloned().collect(),
        }
    }

    /// Records that a client received an event. `repeats_number`: the event has the number of the client's previous event.
    pub fn observe_event(&mut self, number: u64, event: &Value, repeats_number: bool) {
        // An event for a keep-alive without a change, or for a disconnect, is not logged and has the number of the previous event.
        let is_keep_alive = reports_keep_alive(event);
        assert!(is_keep_alive || !repeats_number, "two events with one number: {event}");
        match self.events.get(&number) {
            Some(previous) if reports_keep_alive(previous) && !is_keep_alive => {
                drop(self.events.insert(number, event.clone()))
            }
            Some(previous) => {
                assert!(is_keep_alive || previous == event, "event {number} was observed as {previous} and {event}")
            }
            None if repeats_number => {}
            None => drop(self.events.insert(number, event.clone())),
        }
        let session = event["sessionId"].as_str().unwrap_or_default();
        if event["type"] == "session-removed" {
            let previous = self.removals.insert(session.to_owned(), number);
            assert!(previous.is_none_or(|previous| previous == number), "session {session} was removed twice");
        }
        let removed = self.removals.get(session);
        assert!(
            removed.is_none_or(|removed| number <= *removed),
            "an event of session {session} after its removal: {event}"
        );
    }

    /// Records that a session may have ended. Its earlier keep-alives no longer prove that it is active.
    pub fn record_possible_end(&mut self, session: &str) {
        let record = self.session(session);
        record.possible_ends += 1;
        record.keep_alive = None;
    }

    /// Records a `session-end` of a connection.
    pub fn record_cli_end(&mut self, session: &str, connection: ConnectionId) {
        *self.session(session).cli_ends.entry(connection).or_default() += 1;
    }

    /// Records a `session-end` whose acknowledgement is lost. It may still be in flight.
    pub fn record_unacknowledged_end(&mut self, session: &str, connection: ConnectionId) {
        self.record_cli_end(session, connection);
        self.session(session).ends_in_flight.push(connection);
    }

    /// Records that the world is idle: the hub has handled each `session-end`. An unacknowledged `session-end` now counts as
    /// a further end, because the hub may have handled it late, after requests were added. Such an end cancels these
    /// requests; while another CLI serves the session, only at the deadline, which may be after this moment.
    pub fn settle_ends(&mut self, session: &str) {
        for connection in std::mem::take(&mut self.session(session).ends_in_flight) {
            self.record_cli_end(session, connection);
        }
    }
}

impl SessionRecord {
    /// Whether an unacknowledged `session-end` may be in flight.
    pub fn may_end(&self) -> bool {
        !self.ends_in_flight.is_empty()
    }

    /// The number of possible ends of the session, with all `session-end`s.
    pub fn all_ends(&self) -> u64 {
        self.possible_ends + self.cli_ends.values().sum::<u64>()
    }

    /// The number of operations that may have canceled the pending permission requests.
    pub fn cancellations(&self) -> u64 {
        self.all_ends() + self.aborts
    }

    /// The number of possible ends of the session, with the `session-end`s of one connection.
    pub fn ends_of(&self, connection: ConnectionId) -> u64 {
        self.possible_ends + self.cli_ends.get(&connection).copied().unwrap_or(0)
    }

    /// The number of `session-end`s of other connections.
    pub fn ends_of_others(&self, connection: ConnectionId) -> u64 {
        self.all_ends() - self.ends_of(connection)
    }
}

/// Checks that no request becomes pending again in a later version of the agent state. Versions may be observed in any order.
fn check_pending(session: &str, versions: &BTreeMap<u64, Value>, observed: &Value) {
    for id in observed["requests"].as_object().into_iter().flat_map(Map::keys) {
        let pending = versions.values().map(|state| state["requests"].get(id).is_some());
        let mut statuses: Vec<bool> = pending.skip_while(|pending| !pending).collect();
        statuses.dedup();
        assert!(statuses.len() <= 2, "request {id} of {session} is pending again after its completion: {versions:?}");
    }
}

/// Whether an event may report a keep-alive without a change.
pub fn reports_keep_alive(event: &Value) -> bool {
    let data = &event["data"];
    let has_presence_only =
        event["type"] == "session-updated" && data["metadata"].is_null() && data["agentState"].is_null();
    let reports_disconnect = data["disconnected"] == true;
    reports_disconnect || data["active"] == true && (has_presence_only || event["type"] == "machine-updated")
}
