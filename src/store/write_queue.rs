//! Group commit: changes are queued in memory and written in batches. An effect runs once the changes before it are durable.
//!
//! The cache is ahead of the database: seqs and versions are assigned when a change is queued, and the next change uses them. *Sealing*
//! builds a batch from the queue, with the sessions and machines of the cache, so a session that changed often is written once. A burst
//! that is too large for one batch is sealed as several batches, each of them consistent even if a later one fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::channel::oneshot;

use super::bulk::BulkStatements;
use super::values::LargeValue;
use super::{Statement, completed_requests, held_messages, machines, messages, removals, sessions, values};
use crate::limits::{MAX_PART_BYTES, MAX_QUEUED_BYTES};
use crate::model::agent_state::CompletedRequest;
use crate::model::json::Json;
use crate::model::large::LargeRef;
use crate::model::machine::Machine;
use crate::model::message::{HeldMessage, Message};
use crate::model::namespace::Namespace;
use crate::model::session::Session;

/// The size of queued rows and effects above which they are sealed, in bytes. About half are rows, which JavaScript copies.
pub const MAX_BATCH_BYTES: usize = 4_000_000;
const _: () = assert!(MAX_BATCH_BYTES < MAX_QUEUED_BYTES);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionColumns {
    /// Seq, times, activity and modes.
    Small,
    All,
}

/// The cache, from which batches are built.
pub trait CacheView {
    /// The cached session; `None` if it was deleted.
    fn session(&self, id: &str) -> Option<&Session>;
    /// The cached machine; `None` if it was deleted.
    fn machine(&self, id: &str) -> Option<&Machine>;
}

/// An effect whose memory the queue counts.
pub trait MemorySize {
    /// Returns the bytes of the effect's texts.
    fn text_bytes(&self) -> usize;
}

/// The bytes of memory that a queued row takes besides its large texts.
const ROW_BYTES: usize = 700;
/// The bytes of memory that an effect takes besides its texts.
const EFFECT_BYTES: usize = 150;

/// Changes that are not in a batch yet.
#[derive(Debug, Default)]
struct Queue<B> {
    deleted_sessions: BTreeSet<String>,
    deleted_machines: BTreeSet<String>,
    sessions: BTreeMap<String, SessionColumns>,
    machines: BTreeSet<String>,
    /// Messages with the ids of their sessions.
    messages: Vec<(String, Message)>,
    /// New held messages with the ids of their sessions.
    held_messages: Vec<(String, HeldMessage)>,
    /// The sessions and local ids of held messages to delete.
    deleted_held_messages: Vec<(String, String)>,
    /// Sessions whose held messages are all deleted, except the new ones.
    sessions_without_held: BTreeSet<String>,
    completed_requests: Vec<CompletedRequest>,
    /// Sessions whose records of completed requests are too large.
    sessions_to_trim: BTreeSet<String>,
    values: Vec<LargeValue>,
    /// Sessions and machines that may have unreachable parts of values.
    owners_with_replaced_values: BTreeSet<String>,
    before_images: B,
    bytes: usize,
}

/// Changes that are written in one transaction, and the effects that follow it.
#[derive(Debug)]
pub struct Batch<E, B = ()> {
    pub statements: Vec<Statement>,
    /// The effects in the order in which they were queued.
    pub effects: Vec<E>,
    /// Whether no other change depends on the batch, so that only its own effects fail if the database refuses it.
    pub is_isolated: bool,
    /// The approximate size in memory.
    pub bytes: usize,
    before_images: B,
    large_messages: Vec<(String, Message)>,
    values: Vec<LargeValue>,
}

impl<E, B> Batch<E, B> {
    /// Builds the transactions that must be committed before `statements`: the parts of large messages and values.
    pub fn part_statements<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = Vec<Statement>> + 'a {
        messages::write_parts(namespace, &self.large_messages).chain(values::write_parts(namespace, &self.values))
    }
}

/// Which task may write to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    Free,
    /// The task that commits the batches.
    Committing,
    /// The caller of [`WriteQueue::lock`].
    Exclusive,
}

/// All changes that are not durable: the queue, sealed batches, and the batch in flight. `B`: the before-images, which are the
/// states of sessions and machines before the changes of a batch. Before-images are dropped with their batch.
#[derive(Debug)]
pub struct WriteQueue<E, B = ()> {
    queue: Queue<B>,
    effects: Vec<E>,
    sealed: VecDeque<Batch<E, B>>,
    /// The bytes and the before-images of the batch that is being written.
    in_flight: Option<(usize, B)>,
    lock: Lock,
    /// The caller of [`WriteQueue::lock`] that waits until `sealed` is written.
    waiter: Option<oneshot::Sender<()>>,
}

impl<E, B: Default> Default for WriteQueue<E, B> {
    fn default() -> Self {
        Self {
            queue: Queue::default(),
            effects: Vec::new(),
            sealed: VecDeque::new(),
            in_flight: None,
            lock: Lock::Free,
            waiter: None,
        }
    }
}

impl<E: MemorySize, B: Default> WriteQueue<E, B> {
    /// Queues columns of a session. Its row is written as it is in memory when the batch is sealed.
    pub fn queue_session(&mut self, id: &str, columns: SessionColumns) {
        match self.queue.sessions.get_mut(id) {
            Some(queued) => *queued = columns.max(*queued),
            None => {
                self.queue.sessions.insert(id.to_owned(), columns);
                self.queue.bytes += ROW_BYTES;
            }
        }
    }

    /// Queues a new message, not the row of its session, whose `seq` and `updated_at` are read from the messages. Counts only the copy of
    /// the content in the row, because an effect shares the content itself, and counts these bytes.
    pub fn queue_message(&mut self, session: &str, message: Message) {
        self.queue.bytes += ROW_BYTES + message.content.text().len().min(MAX_PART_BYTES);
        self.queue.messages.push((session.to_owned(), message));
    }

    pub fn queue_held_message(&mut self, session: &str, message: HeldMessage) {
        self.queue.bytes += ROW_BYTES + message.content.text().len();
        self.queue.held_messages.push((session.to_owned(), message));
    }

    pub fn delete_held_message(&mut self, session: &str, local_id: &str) {
        self.queue.held_messages.retain(|(owner, message)| owner != session || message.local_id != local_id);
        self.queue.deleted_held_messages.push((session.to_owned(), local_id.to_owned()));
        self.queue.bytes += ROW_BYTES;
    }

    pub fn delete_held_messages(&mut self, session: &str) {
        self.queue.drop_held_messages(session);
        self.queue.sessions_without_held.insert(session.to_owned());
        self.queue.bytes += ROW_BYTES;
    }

    /// Queues a completed request. The caller must also queue its session.
    pub fn queue_completed_request(&mut self, request: CompletedRequest) {
        self.queue.bytes += ROW_BYTES + request.value.text().len();
        self.queue.completed_requests.push(request);
    }

    /// Trims the completed requests of a session in the next batch. Does not cause a batch by itself.
    pub fn trim_completed_requests(&mut self, session: &str) {
        self.queue.sessions_to_trim.insert(session.to_owned());
    }

    /// Queues the parts of a large value. The caller must also queue its session or machine.
    pub fn queue_value(&mut self, value: LargeValue) {
        self.queue.bytes += ROW_BYTES + value.large.bytes;
        self.queue.values.push(value);
    }

    /// Deletes the unreachable parts of values of a session or machine. The caller must also queue the session or machine.
    pub fn delete_replaced_values(&mut self, owner: &str) {
        self.queue.owners_with_replaced_values.insert(owner.to_owned());
    }

    /// Finds a large value that is queued or sealed, but not in flight.
    pub fn find_queued_value(&self, large: &LargeRef) -> Option<Json> {
        let sealed = self.sealed.iter().flat_map(|batch| &batch.values);
        let mut values = self.queue.values.iter().chain(sealed);
        values.find(|value| value.large == *large).map(|value| value.value.clone())
    }

    /// Deletes a session, and drops its queued changes. A [sweep](removals::sweep) must delete its messages.
    pub fn delete_session(&mut self, id: &str) {
        self.queue.sessions.remove(id);
        self.queue.messages.retain(|(session, _)| session != id);
        self.queue.drop_held_messages(id);
        self.queue.completed_requests.retain(|request| request.session_id != id);
        self.queue.sessions_to_trim.remove(id);
        self.queue.values.retain(|value| value.owner != id);
        self.queue.deleted_sessions.insert(id.to_owned());
    }

    pub fn queue_machine(&mut self, id: &str) {
        if self.queue.machines.insert(id.to_owned()) {
            self.queue.bytes += ROW_BYTES;
        }
    }

    /// Adds a new machine without large values in an isolated batch, which is written before the queued changes. The database refuses
    /// the batch if the machine belongs to another namespace.
    pub fn add_machine(&mut self, namespace: &Namespace, machine: &Machine, effects: Vec<E>, before_images: B) {
        let mut bulk = BulkStatements::new(namespace);
        machines::upsert(&mut bulk, std::iter::once(machine));
        let (statements, large_messages, values) = (bulk.statements, Vec::new(), Vec::new());
        let bytes = ROW_BYTES + effects.iter().map(|effect| EFFECT_BYTES + effect.text_bytes()).sum::<usize>();
        let is_isolated = true;
        self.sealed.push_back(Batch { statements, effects, is_isolated, bytes, before_images, large_messages, values });
    }

    /// Deletes a machine, and drops its queued changes.
    pub fn delete_machine(&mut self, id: &str) {
        self.queue.machines.remove(id);
        self.queue.values.retain(|value| value.owner != id);
        self.queue.deleted_machines.insert(id.to_owned());
        self.queue.bytes += ROW_BYTES;
    }

    /// Queues an effect that runs once everything queued before it is durable.
    pub fn on_commit(&mut self, effect: E) {
        self.queue.bytes += EFFECT_BYTES + effect.text_bytes();
        self.effects.push(effect);
    }

    /// Whether a session is queued. The cache must hold a queued session until its batch is sealed.
    pub fn is_session_queued(&self, id: &str) -> bool {
        self.queue.sessions.contains_key(id)
    }

    /// Whether any change is not durable yet.
    pub fn has_pending(&self) -> bool {
        self.lock != Lock::Free || !self.sealed.is_empty() || !self.is_queue_empty()
    }

    /// Returns the bytes of all changes that are not durable yet.
    pub fn pending_bytes(&self) -> usize {
        let in_flight_bytes = self.in_flight.iter().map(|(bytes, _)| *bytes);
        self.queue.bytes + self.sealed.iter().map(|batch| batch.bytes).chain(in_flight_bytes).sum::<usize>()
    }

    /// Returns the before-images of the queued changes. Before each change of a session or machine, the caller must add its state.
    pub fn queued_images(&mut self) -> &mut B {
        &mut self.queue.before_images
    }

    /// Returns the before-images of the batches that are not durable, oldest first.
    pub fn before_images(&self) -> impl DoubleEndedIterator<Item = &B> {
        let in_flight = self.in_flight.iter().map(|(_, images)| images);
        in_flight.chain(self.sealed.iter().map(|batch| &batch.before_images)).chain([&self.queue.before_images])
    }

    /// Returns the number of queued messages and effects, which grows during a burst.
    pub fn queued_changes(&self) -> usize {
        self.effects.len() + self.queue.messages.len()
    }

    fn is_queue_empty(&self) -> bool {
        self.effects.is_empty() && self.queue.is_empty()
    }

    /// Returns `true` if the caller must commit batches until [`take_batch`](Self::take_batch) returns `None`; `false`
    /// if there is nothing to do, or if another task commits or holds the lock.
    pub fn start_committing(&mut self) -> bool {
        let has_work = !self.is_queue_empty() || !self.sealed.is_empty() || self.is_lock_requested();
        let is_started = has_work && self.lock == Lock::Free;
        if is_started {
            self.lock = Lock::Committing;
        }
        self.drop_unused_images();
        is_started
    }

    /// Drops the before-images of sessions and machines without a change that must be written.
    fn drop_unused_images(&mut self) {
        if !self.has_pending() {
            self.queue.before_images = B::default();
        }
    }

    /// Requests an exclusive lock for a write outside of the write queue. The receiver resolves when a task that
    /// [commits](Self::start_committing) has written everything that is queued so far. Later changes wait for
    /// [`unlock`](Self::unlock). Returns `None` if the lock is held or requested already.
    pub fn lock(&mut self, namespace: &Namespace, cache: &impl CacheView) -> Option<oneshot::Receiver<()>> {
        if self.lock == Lock::Exclusive || self.is_lock_requested() {
            return None;
        }
        if !self.is_queue_empty() {
            self.seal(namespace, cache);
        }
        let (sender, receiver) = oneshot::channel();
        self.waiter = Some(sender);
        if self.lock == Lock::Free && self.sealed.is_empty() {
            self.grant_lock();
        }
        Some(receiver)
    }

    pub fn unlock(&mut self) {
        self.lock = Lock::Free;
    }

    fn is_lock_requested(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| !waiter.is_canceled())
    }

    /// Grants a requested lock. Returns whether there was a request.
    fn grant_lock(&mut self) -> bool {
        let is_granted = self.waiter.take().is_some_and(|waiter| waiter.send(()).is_ok());
        if is_granted {
            self.lock = Lock::Exclusive;
        }
        is_granted
    }

    /// Seals the queue if it is too large for one batch. Must not be called in the middle of changes that belong together. Seals nothing
    /// while the lock is exclusive or requested, because its holder may still change the sessions of the queued rows.
    pub fn seal_if_full(&mut self, namespace: &Namespace, cache: &impl CacheView) {
        if self.queue.bytes > MAX_BATCH_BYTES && self.lock != Lock::Exclusive && !self.is_lock_requested() {
            self.seal(namespace, cache);
        }
    }

    fn seal(&mut self, namespace: &Namespace, cache: &impl CacheView) {
        let (queue, effects) = (std::mem::take(&mut self.queue), std::mem::take(&mut self.effects));
        self.sealed.push_back(queue.into_batch(effects, namespace, cache));
    }

    /// Drops the before-images and the size of the batch in flight, because it is durable.
    pub fn finish_batch(&mut self) {
        self.in_flight = None;
    }

    /// Takes the next batch after [`finish_batch`](Self::finish_batch). Without one, releases the lock or grants it to the waiting task.
    pub fn take_batch(&mut self, namespace: &Namespace, cache: &impl CacheView) -> Option<Batch<E, B>> {
        if self.sealed.is_empty() {
            if self.grant_lock() {
                return None;
            }
            if self.is_queue_empty() {
                self.lock = Lock::Free;
                self.drop_unused_images();
                return None;
            }
            self.seal(namespace, cache);
        }
        let mut batch = self.sealed.pop_front()?;
        self.in_flight = Some((batch.bytes, std::mem::take(&mut batch.before_images)));
        Some(batch)
    }

    /// Drops all queued changes, because they depend on changes that could not be written. Returns their effects, which must fail.
    pub fn discard(&mut self) -> Vec<E> {
        self.finish_batch();
        self.queue = Queue::default();
        let sealed = std::mem::take(&mut self.sealed).into_iter().flat_map(|batch| batch.effects);
        sealed.chain(std::mem::take(&mut self.effects)).collect()
    }
}

impl<B> Queue<B> {
    fn is_empty(&self) -> bool {
        let ids = [&self.machines, &self.deleted_sessions, &self.deleted_machines, &self.sessions_without_held];
        let has_held_messages = !self.held_messages.is_empty() || !self.deleted_held_messages.is_empty();
        self.sessions.is_empty()
            && self.messages.is_empty()
            && !has_held_messages
            && ids.iter().all(|ids| ids.is_empty())
    }

    fn drop_held_messages(&mut self, session: &str) {
        self.held_messages.retain(|(owner, _)| owner != session);
        self.deleted_held_messages.retain(|(owner, _)| owner != session);
    }

    fn into_batch<E>(self, effects: Vec<E>, namespace: &Namespace, cache: &impl CacheView) -> Batch<E, B> {
        let statements = self.statements(namespace, cache);
        let large_messages = self.messages.into_iter().filter(|(_, m)| messages::is_large(m)).collect();
        // A value that was replaced in the meantime is not written.
        let values = self.values.into_iter().filter(|value| is_current(value, cache)).collect();
        let (bytes, before_images) = (self.bytes, self.before_images);
        Batch { statements, effects, is_isolated: false, bytes, before_images, large_messages, values }
    }

    /// Builds the statements: deletions first, because their tags become free, and sessions before the messages that refer to them.
    fn statements(&self, namespace: &Namespace, cache: &impl CacheView) -> Vec<Statement> {
        let changed_sessions = |columns: SessionColumns| {
            let changed = self.sessions.iter().filter(move |(_, queued)| **queued == columns);
            changed.filter_map(|(id, _)| cache.session(id))
        };
        let changed_machines = self.machines.iter().filter_map(|id| cache.machine(id));
        let mut bulk = BulkStatements::new(namespace);
        bulk.add_ids(
            held_messages::DELETE_OF_SESSIONS,
            self.sessions_without_held.iter().chain(&self.deleted_sessions),
        );
        bulk.add_ids(held_messages::DELETE, self.deleted_held_messages.iter());
        bulk.add_ids(removals::CREATE_TOMBSTONES, self.deleted_sessions.iter());
        sessions::upsert(&mut bulk, changed_sessions(SessionColumns::All));
        sessions::update_small_columns(&mut bulk, changed_sessions(SessionColumns::Small));
        messages::insert(&mut bulk, self.messages.iter());
        held_messages::upsert(&mut bulk, self.held_messages.iter());
        completed_requests::upsert(&mut bulk, self.completed_requests.iter());
        bulk.add_ids(completed_requests::TRIM, self.sessions_to_trim.iter());
        bulk.add_ids(machines::DELETE, self.deleted_machines.iter());
        machines::upsert(&mut bulk, changed_machines);
        let owners =
            self.owners_with_replaced_values.iter().chain(&self.deleted_sessions).chain(&self.deleted_machines);
        bulk.add_ids(values::DELETE_UNREACHABLE_PARTS, owners);
        bulk.statements
    }
}

/// Whether the session or machine still has this value.
fn is_current(value: &LargeValue, cache: &impl CacheView) -> bool {
    let session = cache.session(&value.owner).map(|s| [&s.metadata, &s.agent_state]);
    let machine = cache.machine(&value.owner).map(|m| [&m.metadata, &m.runner_state]);
    session.into_iter().chain(machine).flatten().any(|field| field.large() == Some(&value.large))
}
