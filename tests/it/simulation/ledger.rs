//! What was said of a namespace: everything that a client sent, and everything that anybody heard. Whoever hears
//! something says so here, and two who hear of the same thing must hear the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::world::LinkId;

/// A versioned value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Metadata,
    State,
    RunnerState,
}

impl Part {
    /// The field that has it.
    pub fn field(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::State => "agentState",
            Self::RunnerState => "runnerState",
        }
    }
}

/// Whether a session is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    Sure,
    /// Somebody asked for its end, and nobody knows yet what came of it.
    Doubtful,
    Gone,
}

/// A message on its way, or arrived.
#[derive(Debug, Clone)]
pub struct Sent {
    pub session: String,
    pub text: String,
    /// The sockets that carried it.
    pub links: Vec<LinkId>,
    pub by_web: bool,
    /// Whether its agent says with it that it waits.
    pub ready: bool,
    pub id: Option<String>,
    pub acknowledged: bool,
}

/// A permission request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Whether the update that brought it was acknowledged.
    pub asked: bool,
    /// The answer that was taken.
    pub answered: Option<bool>,
}

/// When a session was last known to be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vital {
    pub at: u64,
    /// What would make the sign worthless, counted: faults of the database, lives of the object, ends that were asked for.
    pub upheavals: u64,
}

/// A session as its clients know it.
#[derive(Debug, Clone)]
pub struct Known {
    pub tag: String,
    pub stay: Stay,
    /// Whether somebody asked for its deletion.
    pub deleted: bool,
    /// The ids of its messages by seq, as anybody heard of them.
    pub seqs: BTreeMap<u64, String>,
    /// Its completed requests, as anybody heard of them.
    pub completed: BTreeMap<String, Value>,
    pub requests: BTreeMap<String, Request>,
    /// Whether its messages are being numbered anew.
    pub shifting: bool,
    pub vital: Option<Vital>,
    /// How often somebody asked for its end.
    pub ends: u64,
    /// Whether its end may still be on its way.
    pub may_end: bool,
    /// The newest presence that web clients heard of; none when they may have missed one.
    pub presence: Option<Value>,
}

/// What whoever asks now must see at least.
#[derive(Debug, Clone, Default)]
pub struct Floor {
    pub seq: u64,
    pub metadata: u64,
    pub state: u64,
    pub completed: Vec<String>,
}

/// All that was said of a namespace.
#[derive(Debug, Default)]
pub struct Ledger {
    pub sessions: BTreeMap<String, Known>,
    /// By local id.
    pub messages: BTreeMap<String, Sent>,
    /// Events for web clients by number.
    pub events: BTreeMap<u64, Value>,
    /// How many merges there may have been.
    pub merges: u64,
    versions: BTreeMap<(String, Part), BTreeMap<u64, Value>>,
    /// How many ids its clients have chosen.
    chosen: u64,
    /// The number of the event that tells of a session's end.
    removals: BTreeMap<String, u64>,
    /// Names that were given to a session, by the metadata's version.
    names: BTreeMap<(String, u64), String>,
}

impl Ledger {
    /// A number that nothing else in this namespace has.
    pub fn fresh(&mut self) -> u64 {
        self.chosen += 1;
        self.chosen
    }

    /// Somebody heard of a session. Answers whether that is news.
    pub fn learn(&mut self, id: &str, tag: &str) -> bool {
        let new = !self.sessions.contains_key(id);
        let known = self.sessions.entry(id.to_owned()).or_insert_with(|| Known {
            tag: tag.to_owned(),
            stay: Stay::Sure,
            deleted: false,
            seqs: BTreeMap::new(),
            completed: BTreeMap::new(),
            requests: BTreeMap::new(),
            shifting: false,
            vital: None,
            ends: 0,
            may_end: false,
            presence: None,
        });
        assert!(known.tag == tag, "session {id} has two tags: {} and {tag}", known.tag);
        new
    }

    pub fn session(&mut self, id: &str) -> &mut Known {
        self.sessions.get_mut(id).unwrap_or_else(|| panic!("somebody heard of a session {id} that nobody made"))
    }

    /// The sessions that may be there.
    pub fn present(&self) -> Vec<String> {
        self.sessions.iter().filter(|(_, known)| known.stay != Stay::Gone).map(|(id, _)| id.clone()).collect()
    }

    /// Somebody heard a version of a value.
    pub fn version(&mut self, of: &str, part: Part, version: u64, value: &Value) {
        let mut value = value.clone();
        if part == Part::State {
            value = self.without_completed(of, value);
        }
        if let Some(name) = self.names.get(&(of.to_owned(), version)).filter(|_| part == Part::Metadata) {
            assert!(value["name"] == name.as_str(), "version {version} of {of} was named {name}, and is {value}");
        }
        let versions = self.versions.entry((of.to_owned(), part)).or_default();
        match versions.get(&version) {
            Some(known) => {
                assert!(
                    *known == value,
                    "{part:?} of {of}: version {version} is {known} for one and {value} for another"
                );
            }
            None => {
                versions.insert(version, value.clone());
                if part == Part::State {
                    check_pending(of, versions, &value);
                }
            }
        }
    }

    /// Somebody heard of a version in an event, which leaves a large value out.
    pub fn event_version(&mut self, of: &str, part: Part, data: &Value) {
        let field = part.field();
        let Some(version) = data[format!("{field}Version")].as_u64() else { return };
        if data[format!("{field}Bytes")].as_u64().is_none_or(|bytes| bytes < 600_000) {
            self.version(of, part, version, &data[field]);
        }
    }

    /// The state without its completed requests, each of which somebody has heard of then.
    fn without_completed(&mut self, session: &str, state: Value) -> Value {
        let Value::Object(mut state) = state else { return Value::Object(Map::new()) };
        let completed = state.remove("completedRequests");
        for (id, entry) in completed.iter().filter_map(Value::as_object).flatten() {
            let known = self.session(session).completed.entry(id.clone()).or_insert_with(|| entry.clone());
            assert!(known == entry, "request {id} of {session} was {known}, and is {entry}: it was answered twice");
        }
        Value::Object(state)
    }

    /// Somebody was told that a version of the metadata carries a name.
    pub fn named(&mut self, session: &str, version: u64, name: &str) {
        if let Some(value) = self.value(session, Part::Metadata, version) {
            assert!(value["name"] == name, "version {version} of {session} was to be named {name}, and is {value}");
        }
        let before = self.names.insert((session.to_owned(), version), name.to_owned());
        assert!(before.is_none(), "version {version} of {session} was named twice: {before:?} and {name}");
    }

    /// The newest version of a value that anybody heard of.
    pub fn newest(&self, of: &str, part: Part) -> u64 {
        let heard = self.versions.get(&(of.to_owned(), part)).and_then(|known| known.keys().next_back());
        let named = self.names.range((of.to_owned(), 0)..=(of.to_owned(), u64::MAX)).next_back();
        let named = named.filter(|_| part == Part::Metadata).map(|((_, version), _)| version);
        heard.max(named).copied().unwrap_or(0)
    }

    pub fn value(&self, of: &str, part: Part, version: u64) -> Option<&Value> {
        self.versions.get(&(of.to_owned(), part))?.get(&version)
    }

    /// A message is written, and not sent yet.
    pub fn draft(&mut self, local_id: &str, session: &str, text: &str) {
        let sent = Sent {
            session: session.to_owned(),
            text: text.to_owned(),
            links: Vec::new(),
            by_web: false,
            ready: false,
            id: None,
            acknowledged: false,
        };
        self.messages.insert(local_id.to_owned(), sent);
    }

    /// A message is sent; `link` is none when it goes by REST.
    pub fn send(&mut self, local_id: &str, link: Option<LinkId>) {
        self.messages.get_mut(local_id).unwrap().links.push(link.unwrap_or(0));
    }

    /// Somebody heard under which id and seq a message stands.
    pub fn placed(&mut self, session: &str, local_id: &str, id: &str, seq: u64) {
        let sent = self.messages.get_mut(local_id).unwrap_or_else(|| panic!("nobody sent the message {local_id}"));
        let known = sent.id.get_or_insert_with(|| id.to_owned());
        assert!(known == id, "message {local_id} is {known} for one and {id} for another");
        let known = self.session(session);
        if !known.shifting {
            let there = known.seqs.entry(seq).or_insert_with(|| id.to_owned());
            assert!(there == id, "seq {seq} of {session} is message {there} for one and {id} for another");
        }
    }

    /// Somebody heard a message whole.
    pub fn message(&mut self, session: &str, message: &Value) {
        let (local_id, seq) = (message["localId"].as_str().unwrap(), message["seq"].as_u64().unwrap());
        self.placed(session, local_id, message["id"].as_str().unwrap(), seq);
        let sent = &self.messages[local_id];
        let content = &message["content"]["content"];
        let text = content["text"].as_str().or(content.as_str());
        assert!(text == Some(&*sent.text), "message {local_id} was sent as {}, and is {message}", sent.text);
        let moved = self.sessions.get(&sent.session).is_none_or(|known| known.stay != Stay::Sure);
        assert!(sent.session == session || moved, "message {local_id} of {} stands in {session}", sent.session);
    }

    /// Somebody was shown a session whole; he asked when no less than `floor` was known of it.
    pub fn shown(&mut self, session: &Value, floor: &Floor) {
        let id = session["id"].as_str().unwrap();
        let number = |name: &str| session[name].as_u64().unwrap();
        self.version(id, Part::Metadata, number("metadataVersion"), &session["metadata"]);
        self.version(id, Part::State, number("agentStateVersion"), &session["agentState"]);
        let shown = (number("seq"), number("metadataVersion"), number("agentStateVersion"));
        let old = shown.0 < floor.seq || shown.1 < floor.metadata || shown.2 < floor.state;
        assert!(
            !old || self.session(id).shifting,
            "what is shown is older than what was known before: {floor:?} {session}"
        );
        for request in &floor.completed {
            let entry = &session["agentState"]["completedRequests"][request];
            assert!(entry.is_object(), "the completed request {request} is missing in {session}");
        }
    }

    /// What a reader must see who asks now.
    pub fn floor(&self, session: &str) -> Floor {
        let known = &self.sessions[session];
        Floor {
            seq: known.seqs.keys().next_back().copied().unwrap_or(0),
            metadata: self.newest(session, Part::Metadata),
            state: self.newest(session, Part::State),
            completed: known.completed.keys().cloned().collect(),
        }
    }

    /// Somebody heard an event; `again` when it had the number of what he heard just before.
    pub fn event(&mut self, number: u64, event: &Value, again: bool) {
        // What tells of no change goes out once, under the number of the event before it.
        let sign = is_sign_of_life(event);
        assert!(sign || !again, "two events of one number: {event}");
        match self.events.get(&number) {
            Some(known) if is_sign_of_life(known) && !sign => drop(self.events.insert(number, event.clone())),
            Some(known) => assert!(sign || known == event, "event {number} is {known} for one and {event} for another"),
            None if again => {}
            None => drop(self.events.insert(number, event.clone())),
        }
        let session = event["sessionId"].as_str().unwrap_or_default();
        if event["type"] == "session-removed" {
            let before = self.removals.insert(session.to_owned(), number);
            assert!(before.is_none_or(|before| before == number), "session {session} was removed twice");
        }
        let removed = self.removals.get(session);
        assert!(
            removed.is_none_or(|removed| number <= *removed),
            "session {session} is gone, and yet there is {event}"
        );
    }

    /// Somebody asked for a session's end, or heard that it came.
    pub fn end(&mut self, session: &str) {
        let known = self.session(session);
        known.ends += 1;
        known.vital = None;
    }

    /// A session's end is on its way, and nobody will hear whether it came.
    pub fn may_end(&mut self, session: &str) {
        self.end(session);
        self.session(session).may_end = true;
    }
}

/// A request that waited and waits no more never waits again, in whatever order the versions are heard.
fn check_pending(session: &str, versions: &BTreeMap<u64, Value>, heard: &Value) {
    for id in heard["requests"].as_object().into_iter().flat_map(Map::keys) {
        let waits = versions.values().map(|state| state["requests"].get(id).is_some());
        let mut changes: Vec<bool> = waits.skip_while(|waits| !waits).collect();
        changes.dedup();
        assert!(changes.len() <= 2, "request {id} of {session} was answered, and waits again: {versions:?}");
    }
}

/// Whether an event may tell of nothing but that something is still alive.
pub fn is_sign_of_life(event: &Value) -> bool {
    let data = &event["data"];
    let updated = event["type"] == "session-updated" && data["metadata"].is_null() && data["agentState"].is_null();
    data["active"] == true && (updated || event["type"] == "machine-updated")
}
