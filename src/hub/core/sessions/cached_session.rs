//! A cached session: its row, and derived data. Before-images: the last committed states of sessions and machines with changes that are
//! not durable yet. A before-image belongs to the batch of the change, and is dropped with the batch. While the database is stalled,
//! reads return before-images.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::hub::core::effect::Effect;
use crate::hub::core::local_ids::LocalIds;
use crate::hub::core::sessions::completed_requests::CompletedRequests;
use crate::hub::core::sessions::session_list::json_bytes;
use crate::model::agent_state;
use crate::model::json::Json;
use crate::model::large::InlineOrLarge;
use crate::model::machine::Machine;
use crate::model::message::HeldMessage;
use crate::model::session::Session;
use crate::model::summary::{SessionSummary, SummaryFields};
use crate::store::write_queue::WriteQueue;

/// The estimated memory of a session or machine besides its texts, in bytes.
pub(super) const ENTRY_BYTES: usize = 1_000;
/// The estimated memory of a held message besides its content, in bytes.
const HELD_MESSAGE_BYTES: usize = 300;

#[derive(Debug)]
pub struct CachedSession {
    /// The session with all changes, including those that are not durable yet.
    pub session: Session,
    /// Computed on demand; discarded when the session changes.
    pub(super) summary: OnceCell<SessionSummary>,
    /// Loaded with the first message that has a local id.
    pub local_ids: Option<LocalIds>,
    /// Loaded on demand.
    pub completed: Option<Arc<CompletedRequests>>,
    /// The held messages in their order. Loaded on demand.
    pub held: Option<Vec<HeldMessage>>,
    /// Whether the messages of a session without todos were searched for a todo list (PROTOCOL.md "What agents write").
    pub has_searched_todos: bool,
    /// When the session's presence was last published to web clients, in Unix milliseconds.
    pub presence_published_at: u64,
    /// The value of the cache's `use_count` when the session was last used.
    pub(super) last_use: u64,
    /// The size of this session as included in the cache's `counted_bytes`; `None` if it must be counted again.
    pub(super) counted_bytes: Option<usize>,
}

impl CachedSession {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session,
            summary: OnceCell::new(),
            local_ids: None,
            completed: None,
            held: None,
            has_searched_todos: false,
            presence_published_at: 0,
            last_use: 0,
            counted_bytes: None,
        }
    }

    /// Returns a copy as the before-image of a change. The copy shares the texts, and takes over the summary.
    pub(super) fn take_before_image(&mut self) -> Self {
        let (summary, completed) = (std::mem::take(&mut self.summary), self.completed.clone());
        Self { summary, completed, ..Self::new(self.session.clone()) }
    }

    /// Returns the session as clients see it. The completed requests must be loaded.
    pub fn with_completed_requests(&self) -> Session {
        let entries = self.completed.iter().flat_map(|completed| completed.oldest_first());
        let entries = entries.map(|(id, entry)| (id, entry.raw()));
        let joined = agent_state::join(self.session.agent_state.json(), entries);
        Session { agent_state: InlineOrLarge::from_inline(joined), ..self.session.clone() }
    }

    pub(super) fn summary(&self) -> &SessionSummary {
        self.summary.get_or_init(|| SessionSummary::of(&SummaryFields::of(&self.session)))
    }

    pub(super) fn into_summary(self) -> SessionSummary {
        self.summary.into_inner().unwrap_or_else(|| SessionSummary::of(&SummaryFields::of(&self.session)))
    }

    /// Returns the estimated memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.texts().map(str::len);
        let completed = self.completed.as_ref().map_or(0, |completed| completed.bytes());
        let local_ids = self.local_ids.as_ref().map_or(0, LocalIds::bytes);
        let held = self.held.iter().flatten().map(|message| HELD_MESSAGE_BYTES + message.content.text().len());
        let summary = self.summary.get().map_or(0, json_bytes);
        ENTRY_BYTES
            + self.session.tag.len()
            + texts.sum::<usize>()
            + completed
            + local_ids
            + held.sum::<usize>()
            + summary
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let s = &self.session;
        [s.metadata.json(), s.agent_state.json(), s.todos.as_ref()].into_iter().flatten().map(Json::text)
    }

    /// Returns the estimated memory of a before-image, in bytes, without the texts that it shares with the `current` state.
    pub(super) fn unshared_bytes(&self, current: Option<&Self>) -> usize {
        let is_shared = |text: &&str| {
            current.is_some_and(|entry| entry.texts().any(|current_text| std::ptr::eq(current_text, *text)))
        };
        let shared = self.texts().filter(is_shared).map(str::len).sum::<usize>();
        let completed = current.and_then(|entry| entry.completed.as_ref()).map_or(0, |completed| completed.bytes());
        self.bytes().saturating_sub(shared + completed).max(ENTRY_BYTES)
    }
}

/// The write queue of the hub, whose batches own before-images.
pub type HubQueue = WriteQueue<Effect, BeforeImages>;

/// The state of a session or machine before changes that are not durable; `None` if it did not exist.
pub type Committed<T> = Option<Box<T>>;

/// The sessions and machines that a batch changes, by id, as they were before the batch.
#[derive(Debug, Default)]
pub struct BeforeImages {
    pub sessions: HashMap<String, Committed<CachedSession>>,
    pub machines: HashMap<String, Committed<Machine>>,
}

/// Records a state before a change, unless the batch contains an earlier change.
pub(super) fn record_before_image<T>(
    images: &mut HashMap<String, Committed<T>>,
    id: &str,
    state: impl FnOnce() -> Option<T>,
) {
    images.entry(id.to_owned()).or_insert_with(|| state().map(Box::new));
}

impl HubQueue {
    /// Returns the committed state of a session; `None` if all changes of the session are durable.
    pub fn committed_session(&self, id: &str) -> Option<&Committed<CachedSession>> {
        self.before_images().find_map(|images| images.sessions.get(id))
    }

    /// Returns the committed state of a machine; `None` if all changes of the machine are durable.
    pub fn committed_machine(&self, id: &str) -> Option<&Committed<Machine>> {
        self.before_images().find_map(|images| images.machines.get(id))
    }

    /// Returns the committed states of all changed sessions.
    pub fn committed_sessions(&self) -> HashMap<&str, &Committed<CachedSession>> {
        oldest_states(self.before_images().map(|images| &images.sessions))
    }

    /// Returns the committed states of all changed machines.
    pub fn committed_machines(&self) -> HashMap<&str, &Committed<Machine>> {
        oldest_states(self.before_images().map(|images| &images.machines))
    }
}

fn oldest_states<'a, T: 'a>(
    images: impl DoubleEndedIterator<Item = &'a HashMap<String, Committed<T>>>,
) -> HashMap<&'a str, &'a Committed<T>> {
    images.rev().flatten().map(|(id, state)| (id.as_str(), state)).collect()
}
