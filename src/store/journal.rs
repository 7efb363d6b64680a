//! The journal: the one way of writing. Changes are noted in memory, ride together in the next batch (group commit),
//! and whoever waits for one of them is told only when the batch is durable.
//!
//! Memory runs ahead of the database: a session's seq and versions are given when the change is noted, so the next
//! change already builds on it. [`Journal::take`] writes what memory holds at that moment, each session once however
//! often it changed. A burst that is too large for one batch is cut into several, each as memory stands when it is cut:
//! whatever becomes of the later ones, the earlier ones are whole.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::channel::oneshot;

use super::bulk::BulkWriter;
use super::values::LargeValue;
use super::{Statement, completed_requests, machines, messages, parts, sessions, values};
use crate::model::completed_request::CompletedRequest;
use crate::model::json::Json;
use crate::model::large::LargeRef;
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

/// What waits for the changes before it to be durable.
pub trait Weigh {
    /// How many bytes of memory it holds.
    fn bytes(&self) -> usize;
}

/// What a row costs in memory besides its large texts, in bytes; a message's, in the journal and in what is told of it.
const ROW_BYTES: usize = 700;
/// What an outcome costs in memory besides its texts, in bytes.
const OUTCOME_BYTES: usize = 150;
/// How many bytes are noted at most before they are cut off as a batch of their own: D1 gives a batch 30 s, and while
/// its statements cross the border they stand in memory twice.
pub const BATCH_BYTES: usize = 8_000_000;

/// Changes that are noted, with what is to happen once they are durable (`O`, the outcomes, in order).
#[derive(Debug)]
struct Noted<O> {
    deleted: BTreeSet<String>,
    /// Machines that are known no more.
    forgotten: BTreeSet<String>,
    sessions: BTreeMap<String, Extent>,
    machines: BTreeSet<String>,
    messages: Vec<(String, Message)>,
    completed: Vec<CompletedRequest>,
    /// Sessions whose record of completed requests became too large.
    overfull: BTreeSet<String>,
    /// Values larger than a row.
    values: Vec<LargeValue>,
    /// Sessions and machines of which large values come or go.
    outdated: BTreeSet<String>,
    outcomes: Vec<O>,
    bytes: usize,
}

/// What is written in one transaction, and what happens once it is durable.
#[derive(Debug)]
pub struct Batch<O> {
    /// The transaction.
    pub statements: Vec<Statement>,
    /// What happens then, in the order in which it was noted.
    pub outcomes: Vec<O>,
    bytes: usize,
    /// Messages larger than a row, with their sessions.
    large: Vec<(String, Message)>,
    /// Values larger than a row.
    values: Vec<LargeValue>,
}

impl<O> Batch<O> {
    /// How many bytes it holds, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What has to be written before `statements`, in transactions of its own: the parts of messages and values larger
    /// than a row, few at a time. Nobody sees them until the row itself is written.
    pub fn ahead<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = Vec<Statement>> + 'a {
        messages::write_parts(namespace, &self.large).chain(values::write_parts(namespace, &self.values))
    }
}

/// Who has the right to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    /// Whoever commits what is noted.
    Committer,
    /// Somebody who writes beside the journal.
    Other,
}

/// Changes that are not yet durable: noted, cut off as batches, and the one that is on its way.
#[derive(Debug)]
pub struct Journal<O> {
    noted: Noted<O>,
    batches: VecDeque<Batch<O>>,
    /// How many bytes `batches` and the one on its way hold.
    cut: usize,
    /// How many bytes of `cut` are on their way.
    under_way: usize,
    writer: Writer,
    /// Somebody who wants to write beside the journal, and gets the right once `batches` are written.
    holder: Option<oneshot::Sender<()>>,
}

impl<O> Default for Noted<O> {
    fn default() -> Self {
        Self {
            deleted: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            sessions: BTreeMap::new(),
            machines: BTreeSet::new(),
            messages: Vec::new(),
            completed: Vec::new(),
            overfull: BTreeSet::new(),
            values: Vec::new(),
            outdated: BTreeSet::new(),
            outcomes: Vec::new(),
            bytes: 0,
        }
    }
}

impl<O> Default for Journal<O> {
    fn default() -> Self {
        let (noted, batches) = (Noted::default(), VecDeque::new());
        Self { noted, batches, cut: 0, under_way: 0, writer: Writer::Nobody, holder: None }
    }
}

impl<O: Weigh> Journal<O> {
    /// Notes that a session changed.
    pub fn session(&mut self, id: &str, extent: Extent) {
        match self.noted.sessions.get_mut(id) {
            Some(noted) => *noted = extent.max(*noted),
            None => {
                self.noted.sessions.insert(id.to_owned(), extent);
                self.noted.bytes += ROW_BYTES;
            }
        }
    }

    /// Notes a new message of a session. Its content is weighed as what its row copies of it; who tells of the message
    /// weighs it once more.
    pub fn message(&mut self, session: &str, message: Message) {
        self.noted.bytes += ROW_BYTES + message.content.text().len().min(parts::PART_BYTES);
        self.noted.messages.push((session.to_owned(), message));
        self.session(session, Extent::Counters);
    }

    /// Notes a completed permission request of a session that is noted too.
    pub fn completed(&mut self, request: CompletedRequest) {
        self.noted.bytes += ROW_BYTES + request.value.text().len();
        self.noted.completed.push(request);
    }

    /// Notes that the oldest completed requests of a session go; with the next change at the latest.
    pub fn trim_completed(&mut self, session: &str) {
        self.noted.overfull.insert(session.to_owned());
    }

    /// Notes a value larger than a row, of a session or machine that is noted too.
    pub fn value(&mut self, value: LargeValue) {
        self.noted.bytes += ROW_BYTES + value.large.bytes;
        self.noted.values.push(value);
    }

    /// Notes that a large value comes, or goes, of a session or machine that is noted too: parts of others may be left.
    pub fn outdated(&mut self, owner: &str) {
        self.noted.outdated.insert(owner.to_owned());
    }

    /// A large value that is noted and on its way nowhere yet.
    pub fn noted_value(&self, large: &LargeRef) -> Option<Json> {
        let cut = self.batches.iter().flat_map(|batch| &batch.values);
        let mut values = self.noted.values.iter().chain(cut);
        values.find(|value| value.large == *large).map(|value| value.value.clone())
    }

    /// Notes that a session is deleted, and forgets what was noted of it before.
    pub fn delete_session(&mut self, id: &str) {
        self.noted.sessions.remove(id);
        self.noted.messages.retain(|(session, _)| session != id);
        self.noted.completed.retain(|request| request.session_id != id);
        self.noted.overfull.remove(id);
        self.noted.values.retain(|value| value.owner != id);
        self.noted.deleted.insert(id.to_owned());
    }

    /// Notes that a machine changed.
    pub fn machine(&mut self, id: &str) {
        if self.noted.machines.insert(id.to_owned()) {
            self.noted.bytes += ROW_BYTES;
        }
    }

    /// Notes that a machine is known no more, and forgets what was noted of it before.
    pub fn forget_machine(&mut self, id: &str) {
        self.noted.machines.remove(id);
        self.noted.values.retain(|value| value.owner != id);
        self.noted.forgotten.insert(id.to_owned());
        self.noted.bytes += ROW_BYTES;
    }

    /// Notes what is to happen once everything noted before is durable.
    pub fn on_commit(&mut self, outcome: O) {
        self.noted.bytes += OUTCOME_BYTES + outcome.bytes();
        self.noted.outcomes.push(outcome);
    }

    /// Whether a session is noted: memory must hold it until it is in a batch.
    pub fn notes_session(&self, id: &str) -> bool {
        self.noted.sessions.contains_key(id)
    }

    /// Whether anything waits to become durable.
    pub fn busy(&self) -> bool {
        self.writer != Writer::Nobody || !self.is_empty()
    }

    /// How many bytes wait, what is on its way included.
    pub fn bytes(&self) -> usize {
        self.noted.bytes + self.cut
    }

    /// How many messages and outcomes are noted; what a growing burst is told by.
    pub fn len(&self) -> usize {
        self.noted.outcomes.len() + self.noted.messages.len()
    }

    /// Whether nothing is noted, and nothing of what was waits for its turn.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.noted.is_empty()
    }

    /// Claims the right to write: `true` for one caller at a time, until it finds nothing more to [`take`](Self::take).
    pub fn claim(&mut self) -> bool {
        let free = self.writer == Writer::Nobody;
        if free {
            self.writer = Writer::Committer;
        }
        free
    }

    /// Asks for the right to write something else than what is noted; the receiver hears when it is given, and what is
    /// noted meanwhile waits until it is given back. All that is noted already is written first: whoever asks has to see
    /// to it that somebody [`claim`](Self::claim)s. `None` when somebody else has the right, or asked for it before.
    pub fn hold(&mut self, namespace: &Namespace, memory: &impl Snapshot) -> Option<oneshot::Receiver<()>> {
        if self.writer == Writer::Other || self.is_wanted() {
            return None;
        }
        if !self.noted.is_empty() {
            self.cut_off(namespace, memory);
        }
        let (sender, receiver) = oneshot::channel();
        self.holder = Some(sender);
        if self.writer == Writer::Nobody && self.batches.is_empty() {
            self.hand_over();
        }
        Some(receiver)
    }

    /// Whether somebody waits for the right to write something else.
    fn is_wanted(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| !holder.is_canceled())
    }

    /// Gives the right to write to the one who waits for it, if somebody does.
    fn hand_over(&mut self) -> bool {
        let given = self.holder.take().is_some_and(|holder| holder.send(()).is_ok());
        if given {
            self.writer = Writer::Other;
        }
        given
    }

    /// Gives the right to write back.
    pub fn release(&mut self) {
        self.cut -= std::mem::take(&mut self.under_way);
        self.writer = Writer::Nobody;
    }

    /// Cuts off what is noted as a batch of its own when it has grown too large for one. To be called when a change is
    /// noted completely. What somebody else writes at the moment may change what the rows have to say.
    pub fn cut(&mut self, namespace: &Namespace, memory: &impl Snapshot) {
        if self.noted.bytes > BATCH_BYTES && self.writer != Writer::Other && !self.is_wanted() {
            self.cut_off(namespace, memory);
        }
    }

    fn cut_off(&mut self, namespace: &Namespace, memory: &impl Snapshot) {
        let batch = std::mem::take(&mut self.noted).into_batch(namespace, memory);
        self.cut += batch.bytes;
        self.batches.push_back(batch);
    }

    /// Takes the next batch, after the one taken before has been written; or gives the claim back when there is none, and
    /// over when somebody waits for it.
    pub fn take(&mut self, namespace: &Namespace, memory: &impl Snapshot) -> Option<Batch<O>> {
        self.cut -= std::mem::take(&mut self.under_way);
        if self.batches.is_empty() {
            if self.hand_over() {
                return None;
            }
            if self.noted.is_empty() {
                self.release();
                return None;
            }
            self.cut_off(namespace, memory);
        }
        let batch = self.batches.pop_front()?;
        self.under_way = batch.bytes;
        Some(batch)
    }

    /// Gives up everything noted: what it was built upon could not be written. The outcomes must hear of it.
    pub fn abandon(&mut self) -> Vec<O> {
        self.cut = self.under_way;
        let cut = std::mem::take(&mut self.batches).into_iter().flat_map(|batch| batch.outcomes);
        cut.chain(std::mem::take(&mut self.noted).outcomes).collect()
    }
}

impl<O> Noted<O> {
    fn is_empty(&self) -> bool {
        let ids = [&self.machines, &self.deleted, &self.forgotten];
        self.outcomes.is_empty() && self.sessions.is_empty() && ids.iter().all(|ids| ids.is_empty())
    }

    /// The changes as statements, each session as memory holds it now.
    fn into_batch(self, namespace: &Namespace, memory: &impl Snapshot) -> Batch<O> {
        let statements = self.statements(namespace, memory);
        let large = self.messages.into_iter().filter(|(_, m)| messages::is_large(m)).collect();
        // Of values that followed each other only the last is written.
        let values = self.values.into_iter().filter(|value| stands(value, memory)).collect();
        Batch { statements, outcomes: self.outcomes, bytes: self.bytes, large, values }
    }

    /// Deletions go first (a tag may be taken anew), then sessions, then the messages that refer to them.
    fn statements(&self, namespace: &Namespace, memory: &impl Snapshot) -> Vec<Statement> {
        let changed = |wanted: Extent| {
            let of_extent = self.sessions.iter().filter(move |(_, extent)| **extent == wanted);
            of_extent.filter_map(|(id, _)| memory.session(id))
        };
        let changed_machines = self.machines.iter().filter_map(|id| memory.machine(id));
        let mut writer = BulkWriter::new(namespace);
        sessions::delete(&mut writer, self.deleted.iter().map(String::as_str));
        sessions::upsert(&mut writer, changed(Extent::Whole));
        sessions::update_counters(&mut writer, changed(Extent::Counters));
        messages::insert(&mut writer, self.messages.iter());
        completed_requests::upsert(&mut writer, self.completed.iter());
        completed_requests::trim(&mut writer, self.overfull.iter().map(String::as_str));
        machines::delete(&mut writer, self.forgotten.iter().map(String::as_str));
        machines::upsert(&mut writer, changed_machines);
        let owners = self.outdated.iter().chain(&self.deleted).chain(&self.forgotten);
        values::delete_unreachable_parts(&mut writer, owners.map(String::as_str));
        writer.statements
    }
}

/// Whether a session or machine has this value still.
fn stands(value: &LargeValue, memory: &impl Snapshot) -> bool {
    let session = memory.session(&value.owner).map(|s| [&s.metadata_large, &s.agent_state_large]);
    let machine = memory.machine(&value.owner).map(|m| [&m.metadata_large, &m.runner_state_large]);
    session.into_iter().chain(machine).flatten().flatten().any(|large| *large == value.large)
}
