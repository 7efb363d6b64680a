//! What the object holds of its namespace: sessions and machines, loaded as they are needed.

use std::collections::HashMap;
use std::sync::Arc;

use super::local_ids::LocalIds;
use super::record::Record;
use crate::model::agent_state;
use crate::model::machine::Machine;
use crate::model::session::Session;
use crate::store::journal::Snapshot;

/// A session's line in the list.
#[derive(Debug)]
struct Line {
    archived: bool,
    summary: String,
}

/// Which sessions a list shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Archived {
    #[default]
    Exclude,
    Include,
    Only,
}

/// A session as memory holds it.
#[derive(Debug)]
pub struct Entry {
    pub session: Session,
    /// The session's line in the list, made when it is first asked for after a change.
    line: Option<Line>,
    /// Loaded with the first message that carries a local id.
    pub local_ids: Option<LocalIds>,
    /// Its completed permission requests; loaded when they are needed.
    pub completed: Option<Record>,
    /// Whether a session without todos was searched for some (spec "The hub backfills them").
    pub todos_sought: bool,
    /// When its presence (activity, times) was last told to web clients.
    pub told_at: u64,
}

impl Entry {
    /// The whole session as clients see it; the completed requests must have been loaded.
    pub fn whole(&self) -> Session {
        let entries = self.completed.iter().flat_map(Record::in_order);
        let agent_state = agent_state::join(self.session.agent_state.as_ref(), entries);
        Session { agent_state, ..self.session.clone() }
    }
}

/// Sessions and machines of the namespace.
#[derive(Debug, Default)]
pub struct Memory {
    sessions: HashMap<String, Entry>,
    by_tag: HashMap<String, String>,
    /// The list as it was asked for last, while nothing has changed since.
    list: Option<(Archived, Arc<str>)>,
    /// Whether every session of the namespace is held.
    pub complete: bool,
    /// Counts what was removed: a load that was under way meanwhile may have read what is gone.
    pub removals: u64,
    machines: Option<HashMap<String, Machine>>,
}

impl Memory {
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

    /// The session of a tag, when it is held.
    pub fn by_tag(&self, tag: &str) -> Option<&Entry> {
        self.sessions.get(self.by_tag.get(tag)?)
    }

    /// Takes up a session that the database gave. One that is held already is newer and stays.
    pub fn take_up(&mut self, session: Session) {
        if !self.sessions.contains_key(&session.id) {
            self.by_tag.insert(session.tag.clone(), session.id.clone());
            self.list = None;
            let entry =
                Entry { line: None, local_ids: None, completed: None, todos_sought: false, told_at: 0, session };
            self.sessions.insert(entry.session.id.clone(), entry);
        }
    }

    /// Adds a session that was just made: it has no message and no completed request that is not known.
    pub fn create(&mut self, session: Session) {
        let id = session.id.clone();
        self.take_up(session);
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.local_ids = Some(LocalIds::loaded(Vec::new()));
            entry.completed = Some(Record::default());
            entry.todos_sought = true;
        }
    }

    /// Removes a session.
    pub fn remove(&mut self, id: &str) {
        if let Some(entry) = self.sessions.remove(id) {
            self.by_tag.remove(&entry.session.tag);
            self.list = None;
            self.removals += 1;
        }
    }

    /// The list as a JSON array: active first, then by the time of the last change, newest first. It is kept until
    /// something changes, and so is each session's line.
    pub fn list(&mut self, archived: Archived) -> Arc<str> {
        if let Some((_, list)) = self.list.as_ref().filter(|(kept, _)| *kept == archived) {
            return Arc::clone(list);
        }
        let mut shown: Vec<(&Session, &Line)> = Vec::with_capacity(self.sessions.len());
        for Entry { session, line, .. } in self.sessions.values_mut() {
            let line = line.get_or_insert_with(|| Line {
                archived: session.facts().archived(),
                summary: session.summary().unwrap_or_default(),
            });
            let wanted = match archived {
                Archived::Include => true,
                Archived::Exclude => !line.archived,
                Archived::Only => line.archived,
            };
            if wanted {
                shown.push((session, line));
            }
        }
        shown.sort_by(|(a, _), (b, _)| (b.active, b.updated_at, &b.id).cmp(&(a.active, a.updated_at, &a.id)));
        let mut list = String::with_capacity(shown.iter().map(|(_, line)| line.summary.len() + 1).sum::<usize>() + 2);
        list.push('[');
        for (_, line) in shown {
            if list.len() > 1 {
                list.push(',');
            }
            list.push_str(&line.summary);
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

    /// Takes up the machines that the database gave, unless they are held already.
    pub fn take_up_machines(&mut self, machines: Vec<Machine>) {
        self.machines.get_or_insert_with(|| machines.into_iter().map(|m| (m.id.clone(), m)).collect());
    }

    /// Forgets everything: the database did not take what memory had run ahead with.
    pub fn clear(&mut self) {
        *self = Self { removals: self.removals + 1, ..Self::default() };
    }
}

impl Snapshot for Memory {
    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id).map(|entry| &entry.session)
    }

    fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.as_ref()?.get(id)
    }
}
