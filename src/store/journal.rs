//! The journal: the one way of writing. Changes are noted in memory, ride together in the next batch (group commit),
//! and whoever waits for one of them is told only when the batch is durable.
//!
//! Memory runs ahead of the database: a session's seq and versions are given when the change is noted, so the next
//! change already builds on it. [`Journal::take`] writes what memory holds at that moment, each session once however
//! often it changed.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{CompletedRow, IdRow, MachineRow, MessageRow, PartRow, SessionRow, TouchRow, Writer};
use super::{Statement, sql};
use crate::model::json::Json;
use crate::model::machine::Machine;
use crate::model::message::Message;
use crate::model::namespace::Namespace;
use crate::model::session::Session;

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

    /// How many bytes of message content wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many messages and outcomes are noted; what a growing burst is told by.
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

    /// Gives the right to write back.
    pub fn release(&mut self) {
        self.in_flight = false;
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
        let changed = |wanted: Extent| {
            let of_extent = self.sessions.iter().filter(move |(_, extent)| **extent == wanted);
            of_extent.filter_map(|(id, _)| memory.session(id))
        };
        let machines = self.machines.iter().filter_map(|id| memory.machine(id));
        let mut writer = Writer::new(namespace);
        writer.add(sql::DELETE_SESSIONS, self.deleted.iter().map(|id| IdRow(id)));
        writer.add(sql::UPSERT_SESSIONS, changed(Extent::Whole).map(SessionRow::of));
        writer.add(sql::TOUCH_SESSIONS, changed(Extent::Counters).map(TouchRow::of));
        writer.add(sql::INSERT_MESSAGES, self.messages.iter().map(|(id, m)| MessageRow::of(id, m)));
        writer.add(sql::UPSERT_PARTS, self.messages.iter().flat_map(|(id, m)| PartRow::of(id, m)));
        writer.add(sql::UPSERT_COMPLETED, self.completed.iter().map(CompletedRow::of));
        writer.add(sql::UPSERT_MACHINES, machines.map(MachineRow::of));
        writer.statements
    }
}
