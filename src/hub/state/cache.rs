//! What the object holds of its namespace: sessions, loaded as they are needed, and let go again when they are not, of each
//! of which at least its line in the list stays, once the list was asked for; and its machines, which stay, for there are
//! not many, nor may they be large ([`crate::hub::machines::manage`]).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::hub::limits::{MAX_CACHED_BYTES, MAX_CACHED_BYTES_IN_USE, MAX_CACHED_SESSIONS, MAX_TRACKED_EVICTIONS};
use crate::hub::state::completed_requests::CompletedRequests;
use crate::hub::state::local_ids::LocalIds;
use crate::model::agent_state;
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::model::summary::{SessionSummary, SummaryFields};
use crate::store::journal::Snapshot;

/// What a session or machine costs in memory besides its texts, in bytes.
const ENTRY_BYTES: usize = 1_000;

/// Which sessions a list shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Archived {
    /// Those that are not archived.
    #[default]
    Exclude,
    /// All.
    Include,
    /// Archived ones.
    Only,
}

/// A session as memory holds it.
#[derive(Debug)]
pub struct Entry {
    /// The session as it is now, with changes that are not durable yet.
    pub session: Session,
    /// The session's line in the list, made when it is first asked for after a change.
    line: Option<SessionSummary>,
    /// Loaded with the first message that carries a local id.
    pub local_ids: Option<LocalIds>,
    /// Its completed permission requests; loaded when they are needed.
    pub completed: Option<CompletedRequests>,
    /// Whether a session without todos was searched for some (docs/PROTOCOL.md, "What agents write").
    pub todos_sought: bool,
    /// When its presence (activity, times) was last told to web clients.
    pub told_at: u64,
    /// When it was last asked for, by the order of such moments.
    used: u64,
}

impl Entry {
    /// The whole session as clients see it; the completed requests must have been loaded.
    pub fn whole(&self) -> Session {
        let entries = self.completed.iter().flat_map(CompletedRequests::oldest_first);
        let agent_state = agent_state::join(self.session.agent_state.as_ref(), entries);
        Session { agent_state, ..self.session.clone() }
    }

    /// The session's line in the list.
    fn line(&mut self) -> &SessionSummary {
        self.line.get_or_insert_with(|| SessionSummary::of(SummaryFields::of(&self.session)))
    }

    /// How much memory it takes, about.
    fn bytes(&self) -> usize {
        let s = &self.session;
        let texts = [&s.metadata, &s.agent_state, &s.todos].into_iter().flatten().map(|json| json.text().len());
        let record = self.completed.as_ref().map_or(0, CompletedRequests::bytes);
        let local_ids = self.local_ids.as_ref().map_or(0, LocalIds::bytes);
        ENTRY_BYTES + s.tag.len() + texts.sum::<usize>() + record + local_ids
    }
}

/// A moment in the life of [`Cache`]: what was read from the database since may be out of date for sessions that left
/// memory after it, and for everything once all was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    left: u64,
    clears: u64,
}

/// Sessions and machines of the namespace.
#[derive(Debug, Default)]
pub struct Cache {
    sessions: HashMap<String, Entry>,
    by_tag: HashMap<String, String>,
    /// The lines of sessions that are not held.
    lines: HashMap<String, SessionSummary>,
    /// Whether every session of the namespace is held or has its line.
    listed: bool,
    /// The list as it was asked for last, while nothing has changed since.
    list: Option<(Archived, Arc<str>)>,
    /// How many sessions have left, and the last of them.
    left: u64,
    last_left: VecDeque<String>,
    /// Counts what was asked for.
    uses: u64,
    machines: Option<HashMap<String, Machine>>,
    /// How often everything was forgotten.
    clears: u64,
}

impl Cache {
    /// A session that is held.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.sessions.get(id)
    }

    /// A session that is held, to be changed.
    pub fn entry_mut(&mut self, id: &str) -> Option<&mut Entry> {
        let entry = self.sessions.get_mut(id)?;
        entry.line = None;
        self.list = None;
        Some(entry)
    }

    /// A session that is held, to be changed where its line in the list does not show it.
    pub fn unlisted_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.sessions.get_mut(id)
    }

    /// Somebody was heard of: nothing else about a session or machine changed.
    pub fn heard(&mut self, owner: &Owner, now: u64) {
        let active_at = match owner {
            Owner::Session(id) => self.entry_mut(id).map(|entry| &mut entry.session.active_at),
            Owner::Machine(id) => {
                let machine = self.machines.as_mut().and_then(|machines| machines.get_mut(id));
                machine.map(|machine| &mut machine.active_at)
            }
        };
        active_at.into_iter().for_each(|at| *at = now);
    }

    /// Whether a session is held; it is in use then.
    pub fn touch(&mut self, id: &str) -> bool {
        let Some(entry) = self.sessions.get_mut(id) else { return false };
        self.uses += 1;
        entry.used = self.uses;
        true
    }

    /// The session of a tag, when it is held.
    pub fn by_tag(&self, tag: &str) -> Option<&Entry> {
        self.sessions.get(self.by_tag.get(tag)?)
    }

    /// Takes up a session that the database gave. One that is held already is newer and stays.
    pub fn insert_loaded(&mut self, session: Session) {
        let id = session.id.clone();
        if !self.sessions.contains_key(&id) {
            self.by_tag.insert(session.tag.clone(), id.clone());
            let line = self.lines.remove(&id);
            if line.is_none() {
                self.list = None;
            }
            let (local_ids, completed) = (None, None);
            let entry = Entry { line, local_ids, completed, todos_sought: false, told_at: 0, used: 0, session };
            self.sessions.insert(id.clone(), entry);
        }
        self.touch(&id);
    }

    /// Adds a session that was just made: it has no message and no completed request that is not known.
    pub fn create(&mut self, session: Session) {
        let id = session.id.clone();
        self.insert_loaded(session);
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.local_ids = Some(LocalIds::loaded(Vec::new()));
            entry.completed = Some(CompletedRequests::default());
            entry.todos_sought = true;
        }
    }

    /// Removes a session.
    pub fn remove(&mut self, id: &str) {
        if self.take_out(id).is_some() {
            self.list = None;
        }
    }

    fn take_out(&mut self, id: &str) -> Option<Entry> {
        let entry = self.sessions.remove(id)?;
        self.by_tag.remove(&entry.session.tag);
        self.invalidate(id);
        Some(entry)
    }

    /// Lets go of sessions that nobody is at work on, until what is held is within its bounds: those first that are not in
    /// use, and of these those that were not asked for the longest. The one asked for last stays.
    pub fn make_room(&mut self, is_free: impl Fn(&str) -> bool, is_in_use: impl Fn(&str) -> bool) {
        let mut bytes: usize = self.sessions.values().map(Entry::bytes).sum();
        let mut held = self.sessions.len();
        if held <= MAX_CACHED_SESSIONS && bytes <= MAX_CACHED_BYTES {
            return;
        }
        let may_go = |e: &&Entry| e.used < self.uses && is_free(&e.session.id);
        let rank = |e: &Entry| (e.session.active || is_in_use(&e.session.id), e.used, e.session.id.clone());
        let mut ranked: Vec<(bool, u64, String)> = self.sessions.values().filter(may_go).map(rank).collect();
        sort_by(&mut ranked, Ord::cmp);
        for (in_use, _, id) in ranked {
            let is_enough = match in_use {
                false => held <= MAX_CACHED_SESSIONS && bytes <= MAX_CACHED_BYTES,
                true => bytes <= MAX_CACHED_BYTES_IN_USE,
            };
            if is_enough {
                return;
            }
            if let Some(mut entry) = self.take_out(&id) {
                held -= 1;
                bytes -= entry.bytes();
                let line = entry.line().clone();
                self.lines.insert(id, line);
            }
        }
    }

    /// What was read of a session before is out of date, as if it had left: its history is another one now.
    pub fn invalidate(&mut self, id: &str) {
        self.left += 1;
        self.last_left.push_back(id.to_owned());
        if self.last_left.len() > MAX_TRACKED_EVICTIONS {
            self.last_left.pop_front();
        }
    }

    /// This moment.
    pub fn generation(&self) -> Mark {
        Mark { left: self.left, clears: self.clears }
    }

    /// Whether a session has left memory since a moment, or may have.
    pub fn evicted_since(&self, mark: Mark, id: &str) -> bool {
        let since = self.left - mark.left;
        let last = usize::try_from(since).unwrap_or(usize::MAX);
        last > self.last_left.len() || self.last_left.iter().rev().take(last).any(|left| left == id)
    }

    /// Whether everything was forgotten since a moment.
    pub fn cleared_since(&self, mark: Mark) -> bool {
        self.clears != mark.clears
    }

    /// Whether every session of the namespace is in the list.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Takes up the lines of all sessions, as they were read from the database since a moment; what memory knows of a
    /// session is newer. Answers whether they could be: too much may have happened since.
    pub fn insert_loaded_lines(&mut self, mark: Mark, lines: Vec<SessionSummary>) -> bool {
        let left = usize::try_from(self.left - mark.left).unwrap_or(usize::MAX);
        if left > self.last_left.len() {
            return false;
        }
        for line in lines {
            let is_known = self.sessions.contains_key(&line.id) || self.lines.contains_key(&line.id);
            // What left and has no line was deleted.
            if !is_known && !self.evicted_since(mark, &line.id) {
                self.lines.insert(line.id.clone(), line);
            }
        }
        (self.listed, self.list) = (true, None);
        true
    }

    /// The list as a JSON array: active first, then by the time of the last change, newest first. It is kept until
    /// something changes, and so is each session's line.
    pub fn list(&mut self, archived: Archived) -> Arc<str> {
        if let Some((_, list)) = self.list.as_ref().filter(|(kept, _)| *kept == archived) {
            return Arc::clone(list);
        }
        let wanted = |line: &&SessionSummary| match archived {
            Archived::Include => true,
            Archived::Exclude => !line.archived,
            Archived::Only => line.archived,
        };
        let held = self.sessions.values_mut().map(Entry::line);
        let mut shown: Vec<&SessionSummary> = held.chain(self.lines.values()).filter(wanted).collect();
        sort_by(&mut shown, |a, b| (b.active, b.updated_at, &b.id).cmp(&(a.active, a.updated_at, &a.id)));
        let mut list = String::with_capacity(shown.iter().map(|line| line.json.len() + 1).sum::<usize>() + 2);
        list.push('[');
        for line in shown {
            if list.len() > 1 {
                list.push(',');
            }
            list.push_str(&line.json);
        }
        list.push(']');
        let list: Arc<str> = Arc::from(list);
        self.list = Some((archived, Arc::clone(&list)));
        list
    }

    /// The machines of the namespace, once they were loaded.
    pub fn machines(&self) -> Option<&HashMap<String, Machine>> {
        self.machines.as_ref()
    }

    /// The machines, to be changed.
    pub fn machines_mut(&mut self) -> Option<&mut HashMap<String, Machine>> {
        self.machines.as_mut()
    }

    /// How many bytes of machines memory holds, about.
    pub fn machine_bytes(&self) -> usize {
        let machines = || self.machines().into_iter().flat_map(HashMap::values);
        let values = machines().flat_map(|m| [&m.metadata, &m.runner_state]).flatten();
        let ids = machines().map(|m| ENTRY_BYTES + m.id.len()).sum::<usize>();
        ids + values.map(|value| value.text().len()).sum::<usize>()
    }

    /// Takes up the machines that the database gave, unless they are held already.
    pub fn insert_loaded_machines(&mut self, machines: Vec<Machine>) {
        self.machines.get_or_insert_with(|| machines.into_iter().map(|m| (m.id.clone(), m)).collect());
    }

    /// Forgets everything: the database did not take what memory had run ahead with.
    pub fn clear(&mut self) {
        // More have left than can be told: whatever is being read is read again.
        let left = self.left + MAX_TRACKED_EVICTIONS as u64 + 1;
        *self = Self { left, clears: self.clears + 1, ..Self::default() };
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
