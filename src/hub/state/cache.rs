//! The in-memory cache of a namespace's sessions and machines.
//!
//! Sessions are loaded on demand and evicted when they are idle. An evicted session leaves its summary for the session
//! list. Machines are few and small ([`crate::hub::machines`]): once loaded, all stay.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hub::error::{Error, Kind};
use crate::hub::state::completed_requests::CompletedRequests;
use crate::hub::state::evictions::{Evictions, Generation, Key};
use crate::hub::state::local_ids::LocalIds;
use crate::limits::{MAX_CACHED_BYTES, MAX_CACHED_SESSIONS, MIN_CACHED_IDLE_BYTES, MIN_CACHED_IDLE_SESSIONS};
use crate::model::agent_state;
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::model::summary::{SessionSummary, SummaryFields};
use crate::store::journal::Snapshot;

/// The estimated memory of a session or machine besides its texts, in bytes.
const ENTRY_BYTES: usize = 1_000;

/// Which sessions a list contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchivedFilter {
    #[default]
    Exclude,
    Include,
    Only,
}

/// A cached session.
#[derive(Debug)]
pub struct Entry {
    /// The session with all changes, including those that are not durable yet.
    pub session: Session,
    /// Computed on demand, discarded by changes.
    summary: Option<SessionSummary>,
    /// Loaded with the first message that has a local id.
    pub local_ids: Option<LocalIds>,
    /// Loaded on demand.
    pub completed: Option<CompletedRequests>,
    /// Whether the messages of a session without todos were searched for a todo list (PROTOCOL.md "What agents write").
    pub todos_searched: bool,
    /// When the session's presence was last published to web clients, in Unix milliseconds.
    pub presence_published_at: u64,
    /// The value of [`Cache::use_count`] when the session was last used.
    last_use: u64,
}

impl Entry {
    /// Returns the session as clients see it. The completed requests must be loaded.
    pub fn with_completed_requests(&self) -> Session {
        let entries = self.completed.iter().flat_map(CompletedRequests::oldest_first);
        let entries = entries.map(|(id, entry)| (id, entry.raw()));
        let agent_state = agent_state::join(self.session.agent_state.as_ref(), entries);
        Session { agent_state, ..self.session.clone() }
    }

    fn summary(&mut self) -> &SessionSummary {
        self.summary.get_or_insert_with(|| SessionSummary::of(SummaryFields::of(&self.session)))
    }

    /// Returns the estimated memory, in bytes.
    fn bytes(&self) -> usize {
        let s = &self.session;
        let texts = [&s.metadata, &s.agent_state, &s.todos].into_iter().flatten().map(|json| json.text().len());
        let completed = self.completed.as_ref().map_or(0, CompletedRequests::bytes);
        let local_ids = self.local_ids.as_ref().map_or(0, LocalIds::bytes);
        ENTRY_BYTES + s.tag.len() + texts.sum::<usize>() + completed + local_ids
    }
}

/// The sessions and machines of a namespace.
#[derive(Debug, Default)]
pub struct Cache {
    sessions: HashMap<String, Entry>,
    id_by_tag: HashMap<String, String>,
    /// The summaries of sessions that are not in `sessions`.
    summaries: HashMap<String, SessionSummary>,
    /// Whether every session of the namespace is in `sessions` or `summaries`.
    is_listed: bool,
    /// The last result of [`list`](Self::list), until a session changes.
    last_list: Option<(ArchivedFilter, Arc<str>)>,
    pub evictions: Evictions,
    use_count: u64,
    /// `None` until they are loaded.
    machines: Option<HashMap<String, Machine>>,
}

impl Cache {
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.sessions.get(id)
    }

    /// Returns a cached session for a change, and discards its summary.
    pub fn entry_mut(&mut self, id: &str) -> Option<&mut Entry> {
        let entry = self.sessions.get_mut(id)?;
        entry.summary = None;
        self.last_list = None;
        Some(entry)
    }

    /// Returns a cached session, or the not-found error.
    pub fn session(&self, id: &str) -> Result<&Entry, Error> {
        self.entry(id).ok_or(Error::NotFound(Kind::Session))
    }

    /// Returns a cached session to change it, or the not-found error.
    pub fn session_mut(&mut self, id: &str) -> Result<&mut Entry, Error> {
        self.entry_mut(id).ok_or(Error::NotFound(Kind::Session))
    }

    /// Returns a cached session for a change that its summary does not show.
    pub fn entry_mut_keeping_summary(&mut self, id: &str) -> Option<&mut Entry> {
        self.sessions.get_mut(id)
    }

    /// Sets the `activeAt` of a session or machine, if it is cached.
    pub fn set_active_at(&mut self, owner: &Owner, now: u64) {
        let active_at = match owner {
            Owner::Session(id) => self.entry_mut(id).map(|entry| &mut entry.session.active_at),
            Owner::Machine(id) => self.machine_mut(id).ok().map(|machine| &mut machine.active_at),
        };
        active_at.into_iter().for_each(|at| *at = now);
    }

    /// Marks a session as used just now. Returns whether it is cached.
    pub fn touch(&mut self, id: &str) -> bool {
        let Some(entry) = self.sessions.get_mut(id) else { return false };
        self.use_count += 1;
        entry.last_use = self.use_count;
        true
    }

    /// Returns the session with a tag, if it is cached.
    pub fn by_tag(&self, tag: &str) -> Option<&Entry> {
        self.sessions.get(self.id_by_tag.get(tag)?)
    }

    /// Inserts a session that was read from the database, unless it is cached: the cached one may be newer.
    pub fn insert_loaded(&mut self, session: Session) {
        let id = session.id.clone();
        if !self.sessions.contains_key(&id) {
            self.id_by_tag.insert(session.tag.clone(), id.clone());
            let summary = self.summaries.remove(&id);
            if summary.is_none() {
                self.last_list = None;
            }
            let entry = Entry {
                session,
                summary,
                local_ids: None,
                completed: None,
                todos_searched: false,
                presence_published_at: 0,
                last_use: 0,
            };
            self.sessions.insert(id.clone(), entry);
        }
        self.touch(&id);
    }

    /// Inserts a new session, which has no messages and no completed requests.
    pub fn insert_created(&mut self, session: Session) {
        let id = session.id.clone();
        self.insert_loaded(session);
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.local_ids = Some(LocalIds::loaded(Vec::new(), 0));
            entry.completed = Some(CompletedRequests::default());
            entry.todos_searched = true;
        }
    }

    pub fn remove(&mut self, id: &str) {
        if self.evict_entry(id).is_some() {
            self.last_list = None;
        }
    }

    fn evict_entry(&mut self, id: &str) -> Option<Entry> {
        let entry = self.sessions.remove(id)?;
        self.id_by_tag.remove(&entry.session.tag);
        self.evictions.record(&[Key::Id(id), Key::Tag(&entry.session.tag)]);
        Some(entry)
    }

    /// Evicts sessions until the cache is within its limits: idle ones before those in use, and the least recently used
    /// first. Never evicts the session used last. Some idle ones stay even if those in use fill the cache. `limit` is the
    /// number of bytes that all sessions may take, also those in use. Returns the number of bytes that they take then.
    pub fn evict(
        &mut self,
        limit: usize,
        is_evictable: impl Fn(&str) -> bool,
        is_in_use: impl Fn(&str) -> bool,
    ) -> usize {
        let mut bytes = self.session_bytes();
        let mut count = self.sessions.len();
        if count <= MAX_CACHED_SESSIONS && bytes <= limit.min(MAX_CACHED_BYTES) {
            return bytes;
        }
        let is_in_use = |e: &Entry| e.session.active || is_in_use(&e.session.id);
        let (mut idle_count, mut idle_bytes) = (0, 0);
        for entry in self.sessions.values().filter(|entry| !is_in_use(entry)) {
            (idle_count, idle_bytes) = (idle_count + 1, idle_bytes + entry.bytes());
        }
        let may_evict = |e: &&Entry| e.last_use < self.use_count && is_evictable(&e.session.id);
        let rank = |e: &Entry| (is_in_use(e), e.last_use, e.session.id.clone());
        let mut ranked: Vec<(bool, u64, String)> = self.sessions.values().filter(may_evict).map(rank).collect();
        sort_by(&mut ranked, Ord::cmp);
        for (in_use, _, id) in ranked {
            let is_within_limits = match in_use {
                false => {
                    (count <= MAX_CACHED_SESSIONS || idle_count <= MIN_CACHED_IDLE_SESSIONS)
                        && (bytes <= MAX_CACHED_BYTES || idle_bytes <= MIN_CACHED_IDLE_BYTES)
                        && bytes <= limit
                }
                true => bytes <= limit,
            };
            if is_within_limits {
                break;
            }
            if let Some(mut entry) = self.evict_entry(&id) {
                (count, bytes) = (count - 1, bytes - entry.bytes());
                if !in_use {
                    (idle_count, idle_bytes) = (idle_count - 1, idle_bytes - entry.bytes());
                }
                let summary = entry.summary().clone();
                self.summaries.insert(id, summary);
            }
        }
        bytes
    }

    /// Returns the estimated memory of the sessions, in bytes.
    pub fn session_bytes(&self) -> usize {
        self.sessions.values().map(Entry::bytes).sum()
    }

    /// Whether the cache knows every session of the namespace, so that [`list`](Self::list) is complete.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Inserts the summaries of all sessions, which were read from the database in the given generation. Cached sessions may
    /// be newer, and stay. Returns false if too many sessions were evicted since: the caller must read again.
    pub fn insert_loaded_summaries(&mut self, generation: Generation, summaries: Vec<SessionSummary>) -> bool {
        if self.evictions.forgotten_since(generation) {
            return false;
        }
        for summary in summaries {
            let is_known = self.sessions.contains_key(&summary.id) || self.summaries.contains_key(&summary.id);
            // A session that was evicted since, and left no summary, was deleted.
            if !is_known && !self.evictions.contains_since(generation, Key::Id(&summary.id)) {
                self.summaries.insert(summary.id.clone(), summary);
            }
        }
        (self.is_listed, self.last_list) = (true, None);
        true
    }

    /// Returns the session list as a JSON array: active sessions first, then by `updatedAt`, newest first.
    pub fn list(&mut self, archived: ArchivedFilter) -> Arc<str> {
        if let Some((_, list)) = self.last_list.as_ref().filter(|(of, _)| *of == archived) {
            return Arc::clone(list);
        }
        let is_listed = |summary: &&SessionSummary| match archived {
            ArchivedFilter::Include => true,
            ArchivedFilter::Exclude => !summary.archived,
            ArchivedFilter::Only => summary.archived,
        };
        let cached = self.sessions.values_mut().map(Entry::summary);
        let mut listed: Vec<&SessionSummary> = cached.chain(self.summaries.values()).filter(is_listed).collect();
        sort_by(&mut listed, |a, b| (b.active, b.updated_at, &b.id).cmp(&(a.active, a.updated_at, &a.id)));
        let mut list = String::with_capacity(listed.iter().map(|summary| summary.json.len() + 1).sum::<usize>() + 2);
        list.push('[');
        for summary in listed {
            if list.len() > 1 {
                list.push(',');
            }
            list.push_str(&summary.json);
        }
        list.push(']');
        let list: Arc<str> = Arc::from(list);
        self.last_list = Some((archived, Arc::clone(&list)));
        list
    }

    /// Returns all machines of the namespace; `None` until they are loaded.
    pub fn machines(&self) -> Option<&HashMap<String, Machine>> {
        self.machines.as_ref()
    }

    /// Returns a machine. An error also if the machines are not loaded.
    pub fn machine(&self, id: &str) -> Result<&Machine, Error> {
        self.machines.as_ref().and_then(|machines| machines.get(id)).ok_or(Error::NotFound(Kind::Machine))
    }

    pub fn machine_mut(&mut self, id: &str) -> Result<&mut Machine, Error> {
        self.machines.as_mut().and_then(|machines| machines.get_mut(id)).ok_or(Error::NotFound(Kind::Machine))
    }

    /// Inserts a new machine. Does nothing while the machines are not loaded.
    pub fn insert_machine(&mut self, machine: Machine) {
        if let Some(machines) = &mut self.machines {
            machines.insert(machine.id.clone(), machine);
        }
    }

    pub fn remove_machine(&mut self, id: &str) {
        if let Some(machines) = &mut self.machines {
            machines.remove(id);
        }
    }

    /// Returns the estimated memory of the machines, in bytes.
    pub fn machine_bytes(&self) -> usize {
        let machines = || self.machines().into_iter().flat_map(HashMap::values);
        let values = machines().flat_map(|m| [&m.metadata, &m.runner_state]).flatten();
        let entries = machines().map(|m| ENTRY_BYTES + m.id.len()).sum::<usize>();
        entries + values.map(|value| value.text().len()).sum::<usize>()
    }

    /// Inserts the machines that were read from the database, unless they were loaded before.
    pub fn insert_loaded_machines(&mut self, machines: Vec<Machine>) {
        self.machines.get_or_insert_with(|| machines.into_iter().map(|m| (m.id.clone(), m)).collect());
    }

    /// Removes everything after a failed write: the cache contains changes that the database does not.
    pub fn clear(&mut self) {
        let mut evictions = std::mem::take(&mut self.evictions);
        evictions.clear();
        *self = Self { evictions, ..Self::default() };
    }
}

impl Snapshot for Cache {
    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id).map(|entry| &entry.session)
    }

    fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.as_ref()?.get(id)
    }
}
