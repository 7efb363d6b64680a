//! The journal: the one way of writing. Changes are noted in memory, ride together in the next batch (group commit),
//! and whoever waits for one of them is told only when the batch is durable.
//!
//! Memory runs ahead of the database: a session's seq and versions are given when the change is noted, so the next
//! change already builds on it. [`Journal::take`] writes what memory holds at that moment, each session once however
//! often it changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Statement, Value, sql};
use crate::model::json::Json;
use crate::model::machine::Machine;
use crate::model::message::Message;
use crate::model::namespace::Namespace;
use crate::model::session::Session;

/// The largest JSON parameter that a statement carries: half of D1's 2 MB a value, so that one more row always fits.
const MAX_PARAM_BYTES: usize = 1_000_000;

/// The largest message content that fits a D1 row (2 MB) with room for its other columns and for escaping.
pub const MAX_CONTENT_BYTES: usize = 1_900_000;

/// How much of a session changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Counters and flags: seq, times, activity, modes.
    Counters,
    /// Anything else too.
    Whole,
}

/// Where the journal finds the present state of what changed.
pub trait Snapshot {
    /// The session as memory holds it; `None` when it is gone.
    fn session(&self, id: &str) -> Option<&Session>;
    /// The machine as memory holds it.
    fn machine(&self, id: &str) -> Option<&Machine>;
}

/// Changes that are noted and not yet durable, with what is to happen once they are (`O`, the outcomes, in order).
#[derive(Debug)]
pub struct Journal<O> {
    deleted: BTreeSet<String>,
    sessions: BTreeMap<String, Extent>,
    machines: BTreeSet<String>,
    messages: Vec<(String, Message)>,
    completed: Vec<CompletedRequest>,
    bytes: usize,
    outcomes: Vec<O>,
    in_flight: bool,
}

/// A permission request that was answered, or whose entry changed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedRequest {
    pub session_id: String,
    pub request_id: String,
    pub completed_at: u64,
    pub value: Json,
}

impl<O> Default for Journal<O> {
    fn default() -> Self {
        Self {
            deleted: BTreeSet::new(),
            sessions: BTreeMap::new(),
            machines: BTreeSet::new(),
            messages: Vec::new(),
            completed: Vec::new(),
            bytes: 0,
            outcomes: Vec::new(),
            in_flight: false,
        }
    }
}

impl<O> Journal<O> {
    /// Notes that a session changed.
    pub fn session(&mut self, id: &str, extent: Extent) {
        match self.sessions.get_mut(id) {
            Some(noted) => *noted = extent.max(*noted),
            None => {
                self.sessions.insert(id.to_owned(), extent);
            }
        }
    }

    /// Notes a new message of a session.
    pub fn message(&mut self, session: &str, message: Message) {
        self.bytes += message.content.text().len();
        self.messages.push((session.to_owned(), message));
        self.session(session, Extent::Counters);
    }

    /// Notes a completed permission request of a session that is noted too.
    pub fn completed(&mut self, request: CompletedRequest) {
        self.bytes += request.value.text().len();
        self.completed.push(request);
    }

    /// Notes that a session is deleted, and forgets what was noted of it before.
    pub fn delete_session(&mut self, id: &str) {
        self.sessions.remove(id);
        self.messages.retain(|(session, _)| session != id);
        self.completed.retain(|request| request.session_id != id);
        self.deleted.insert(id.to_owned());
    }

    /// Notes that a machine changed.
    pub fn machine(&mut self, id: &str) {
        self.machines.insert(id.to_owned());
    }

    /// Notes what is to happen once everything noted before is durable.
    pub fn then(&mut self, outcome: O) {
        self.outcomes.push(outcome);
    }

    /// Whether anything waits to become durable.
    pub fn busy(&self) -> bool {
        self.in_flight || !self.idle()
    }

    /// Whether a deletion of this session waits to become durable.
    pub fn deletes(&self, id: &str) -> bool {
        self.deleted.contains(id)
    }

    /// How many bytes of message content wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much is noted; grows with every change and outcome.
    pub fn len(&self) -> usize {
        self.outcomes.len() + self.messages.len()
    }

    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.idle()
    }

    fn idle(&self) -> bool {
        self.outcomes.is_empty() && self.sessions.is_empty() && self.machines.is_empty() && self.deleted.is_empty()
    }

    /// Claims the right to write: `true` for one caller at a time, until it finds nothing more to [`take`](Self::take).
    pub fn claim(&mut self) -> bool {
        !std::mem::replace(&mut self.in_flight, true)
    }

    /// Takes all that is noted as one batch, or gives the claim back when there is nothing.
    pub fn take(&mut self, namespace: &Namespace, memory: &impl Snapshot) -> Option<(Vec<Statement>, Vec<O>)> {
        if self.idle() {
            self.in_flight = false;
            return None;
        }
        let statements = self.statements(namespace, memory);
        self.forget_changes();
        Some((statements, std::mem::take(&mut self.outcomes)))
    }

    /// Gives up everything noted: what it was built upon could not be written. The outcomes must hear of it.
    pub fn abandon(&mut self) -> Vec<O> {
        self.forget_changes();
        std::mem::take(&mut self.outcomes)
    }

    fn forget_changes(&mut self) {
        self.deleted.clear();
        self.sessions.clear();
        self.machines.clear();
        self.messages.clear();
        self.completed.clear();
        self.bytes = 0;
    }

    /// Deletions go first (a tag may be taken anew), then sessions, then the messages that refer to them.
    fn statements(&self, namespace: &Namespace, memory: &impl Snapshot) -> Vec<Statement> {
        let namespace = Value::from(namespace.as_ref());
        let mut statements = Vec::new();
        let mut add = |sql, params: Vec<String>, with_namespace: bool| {
            for rows in params {
                let mut params = vec![Value::Text(rows)];
                if with_namespace {
                    params.push(namespace.clone());
                }
                statements.push(Statement { sql, params });
            }
        };
        let changed = |wanted: Extent| {
            let of_extent = self.sessions.iter().filter(move |(_, extent)| **extent == wanted);
            of_extent.filter_map(|(id, _)| memory.session(id))
        };
        add(sql::DELETE_SESSIONS, rows(self.deleted.iter()), true);
        add(sql::UPSERT_SESSIONS, rows(changed(Extent::Whole).map(SessionRow::of)), true);
        add(sql::TOUCH_SESSIONS, rows(changed(Extent::Counters).map(TouchRow::of)), true);
        add(sql::INSERT_MESSAGES, rows(self.messages.iter().map(MessageRow::of)), false);
        add(sql::UPSERT_COMPLETED, rows(self.completed.iter().map(CompletedRow::of)), false);
        add(
            sql::UPSERT_MACHINES,
            rows(self.machines.iter().filter_map(|id| memory.machine(id)).map(MachineRow::of)),
            true,
        );
        statements
    }
}

/// Rows as JSON arrays, each small enough for one parameter.
fn rows<T: Serialize>(items: impl Iterator<Item = T>) -> Vec<String> {
    let mut arrays = Vec::new();
    let mut array = String::new();
    for item in items {
        let row = serde_json::to_string(&item).unwrap_or_default();
        if !array.is_empty() && array.len() + row.len() > MAX_PARAM_BYTES {
            array.push(']');
            arrays.push(std::mem::take(&mut array));
        }
        array.push(if array.is_empty() { '[' } else { ',' });
        array.push_str(&row);
    }
    if !array.is_empty() {
        array.push(']');
        arrays.push(array);
    }
    arrays
}

#[derive(Serialize)]
struct SessionRow<'a> {
    id: &'a str,
    tag: &'a str,
    seq: u64,
    created_at: u64,
    updated_at: u64,
    active_at: u64,
    thinking_at: u64,
    active: bool,
    thinking: bool,
    mode: Option<&'static str>,
    metadata: Option<&'a str>,
    metadata_version: u64,
    agent_state: Option<&'a str>,
    agent_state_version: u64,
    todos: Option<&'a str>,
    permission_mode: Option<&'a str>,
    model_mode: Option<&'a str>,
}

impl<'a> SessionRow<'a> {
    fn of(s: &'a Session) -> Self {
        Self {
            id: &s.id,
            tag: &s.tag,
            seq: s.seq,
            created_at: s.created_at,
            updated_at: s.updated_at,
            active_at: s.active_at,
            thinking_at: s.thinking_at,
            active: s.active,
            thinking: s.thinking,
            mode: s.mode.map(|m| m.as_str()),
            metadata: s.metadata.as_ref().map(|j| j.text()),
            metadata_version: s.metadata_version,
            agent_state: s.agent_state.as_ref().map(|j| j.text()),
            agent_state_version: s.agent_state_version,
            todos: s.todos.as_ref().map(|j| j.text()),
            permission_mode: s.permission_mode.as_deref(),
            model_mode: s.model_mode.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct TouchRow<'a> {
    id: &'a str,
    seq: u64,
    updated_at: u64,
    active_at: u64,
    thinking_at: u64,
    active: bool,
    thinking: bool,
    mode: Option<&'static str>,
    permission_mode: Option<&'a str>,
    model_mode: Option<&'a str>,
}

impl<'a> TouchRow<'a> {
    fn of(s: &'a Session) -> Self {
        Self {
            id: &s.id,
            seq: s.seq,
            updated_at: s.updated_at,
            active_at: s.active_at,
            thinking_at: s.thinking_at,
            active: s.active,
            thinking: s.thinking,
            mode: s.mode.map(|m| m.as_str()),
            permission_mode: s.permission_mode.as_deref(),
            model_mode: s.model_mode.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct MessageRow<'a> {
    session_id: &'a str,
    seq: u64,
    id: &'a str,
    local_id: Option<&'a str>,
    created_at: u64,
    content: &'a str,
}

impl<'a> MessageRow<'a> {
    fn of((session_id, m): &'a (String, Message)) -> Self {
        let local_id = m.local_id.as_deref();
        Self { session_id, seq: m.seq, id: &m.id, local_id, created_at: m.created_at, content: m.content.text() }
    }
}

#[derive(Serialize)]
struct CompletedRow<'a> {
    session_id: &'a str,
    request_id: &'a str,
    completed_at: u64,
    value: &'a str,
}

impl<'a> CompletedRow<'a> {
    fn of(r: &'a CompletedRequest) -> Self {
        let value = r.value.text();
        Self { session_id: &r.session_id, request_id: &r.request_id, completed_at: r.completed_at, value }
    }
}

#[derive(Serialize)]
struct MachineRow<'a> {
    id: &'a str,
    seq: u64,
    created_at: u64,
    updated_at: u64,
    active: bool,
    active_at: u64,
    metadata: Option<&'a str>,
    metadata_version: u64,
    runner_state: Option<&'a str>,
    runner_state_version: u64,
}

impl<'a> MachineRow<'a> {
    fn of(m: &'a Machine) -> Self {
        Self {
            id: &m.id,
            seq: m.seq,
            created_at: m.created_at,
            updated_at: m.updated_at,
            active: m.active,
            active_at: m.active_at,
            metadata: m.metadata.as_ref().map(|j| j.text()),
            metadata_version: m.metadata_version,
            runner_state: m.runner_state.as_ref().map(|j| j.text()),
            runner_state_version: m.runner_state_version,
        }
    }
}
