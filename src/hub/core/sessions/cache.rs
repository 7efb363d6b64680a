//! The in-memory cache of a namespace's sessions and machines.
//!
//! Sessions are loaded on demand and evicted when they are idle. An evicted session leaves its summary for the session
//! list. Machines are few and small ([`crate::hub::machines`]): once loaded, all stay.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::hub::core::error::{Error, Kind};
use crate::hub::core::local_ids::LocalIds;
use crate::hub::core::sessions::cached_session::{
    BeforeImages, CachedSession, ENTRY_BYTES, HubQueue, record_before_image,
};
use crate::hub::core::sessions::evictions::{CurrentRead, Evictions, Key};
use crate::hub::core::sessions::session_list::{ListRequest, SessionList, encode_list_page};
use crate::hub::core::sessions::tags::Tags;
use crate::limits::MIN_CACHED_BYTES;
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::model::summary::SessionSummary;
use crate::store::summaries::Selection;
use crate::store::write_queue::CacheView;

/// How many sessions stay in memory if some of these sessions are idle. Sessions in use may exceed this limit.
pub const MAX_CACHED_SESSIONS: usize = 1_000;
/// How many bytes of sessions stay in memory if some of these sessions are idle. Sessions in use may exceed this limit.
pub const MAX_CACHED_BYTES: usize = 24_000_000;
const _: () = assert!(MIN_CACHED_BYTES < MAX_CACHED_BYTES);

/// The number of idle sessions that stay in memory even if sessions in use fill the cache. Only the argument `max_bytes` of
/// [`Cache::evict`] enforces fewer. A session that only a running request uses counts as idle.
const MIN_CACHED_IDLE_SESSIONS: usize = 250;
/// Like [`MIN_CACHED_IDLE_SESSIONS`], in bytes.
const MIN_CACHED_IDLE_BYTES: usize = 4_000_000;

/// [`Cache::evict`] ranks the sessions of a full cache, which is expensive, only if since the last ranking the bytes have grown by a tenth
/// of the limit, or the calls of `evict` plus the sessions that became inactive are a tenth of the sessions.
const RANKING_DIVISOR: usize = 10;

#[derive(Debug, Default)]
pub struct Cache {
    sessions: HashMap<String, CachedSession>,
    /// The bytes of the sessions whose size is counted.
    counted_bytes: usize,
    /// The sessions that were inserted or changed since their size was counted.
    uncounted: Vec<String>,
    /// The number of calls of [`evict`](Self::evict) since the last ranking, plus the number of sessions that became inactive since then.
    pub changes_since_ranking: usize,
    /// The bytes of the sessions after the last ranking.
    ranked_bytes: usize,
    id_by_tag: HashMap<String, String>,
    /// The summaries of the sessions that are not cached, for the list.
    pub session_list: SessionList,
    /// `None` until they are read.
    tags: Option<Tags>,
    pub evictions: Evictions,
    use_count: u64,
    /// `None` until they are loaded.
    machines: Option<HashMap<String, Machine>>,
}

impl Cache {
    pub fn entry(&self, id: &str) -> Option<&CachedSession> {
        self.sessions.get(id)
    }

    /// Returns a cached session for a change, and discards its summary.
    pub fn entry_mut(&mut self, id: &str, images: &mut BeforeImages) -> Option<&mut CachedSession> {
        let entry = uncount(id, self.sessions.get_mut(id)?, &mut self.counted_bytes, &mut self.uncounted);
        record_before_image(&mut images.sessions, id, || Some(entry.take_before_image()));
        entry.summary.take();
        Some(entry)
    }

    pub fn require_entry(&self, id: &str) -> Result<&CachedSession, Error> {
        self.entry(id).ok_or(Error::NotFound(Kind::Session))
    }

    /// Returns a session for a change that its summary does not show. Unlike [`entry_mut`](Self::entry_mut), records no before-image.
    pub fn entry_mut_without_before_image(&mut self, id: &str) -> Option<&mut CachedSession> {
        Some(uncount(id, self.sessions.get_mut(id)?, &mut self.counted_bytes, &mut self.uncounted))
    }

    /// Returns the local ids of a cached session, if they are loaded.
    pub fn local_ids_mut(&mut self, session: &str) -> Option<&mut LocalIds> {
        self.entry_mut_without_before_image(session)?.local_ids.as_mut()
    }

    /// Sets the `activeAt` of a session or machine, if it is cached. This change needs no write.
    pub fn set_active_at(&mut self, owner: &Owner, now: u64) {
        let active_at = match owner {
            Owner::Session(id) => self.entry_mut_without_before_image(id).map(|entry| {
                entry.summary.take();
                &mut entry.session.active_at
            }),
            Owner::Machine(id) => {
                self.machines.as_mut().and_then(|machines| Some(&mut machines.get_mut(id)?.active_at))
            }
        };
        active_at.into_iter().for_each(|at| *at = now);
    }

    /// Records that no CLI is connected to an active session. This change needs no write.
    pub fn set_disconnected(&mut self, id: &str) {
        if let Some(entry) = self.entry_mut_without_before_image(id) {
            entry.summary.take();
            entry.session.disconnected = entry.session.active;
        } else if let Some(summary) = self.session_list.take(id) {
            self.session_list.insert(id.to_owned(), SessionSummary { json: None, ..summary });
        }
    }

    /// Marks a session as used just now. Returns whether it is cached.
    pub fn touch(&mut self, id: &str) -> bool {
        let Some(entry) = self.sessions.get_mut(id) else { return false };
        self.use_count += 1;
        entry.last_use = self.use_count;
        true
    }

    pub fn entry_by_tag(&self, tag: &str) -> Option<&CachedSession> {
        self.sessions.get(self.id_by_tag.get(tag)?)
    }

    /// Inserts a session that was read from the database. Does nothing if the session is cached, because the cached state may be newer.
    pub fn insert_loaded(&mut self, _: &CurrentRead, session: Session) {
        self.insert(session);
    }

    fn insert(&mut self, session: Session) {
        let id = session.id.clone();
        if !self.sessions.contains_key(&id) {
            self.id_by_tag.insert(session.tag.clone(), id.clone());
            let summary = self.session_list.take(&id);
            let summary = summary.filter(|summary| summary.json.is_some()).map_or_else(OnceCell::new, OnceCell::from);
            self.sessions.insert(id.clone(), CachedSession { summary, ..CachedSession::new(session) });
            self.uncounted.push(id.clone());
        }
        self.touch(&id);
    }

    /// Inserts a new session, which has no messages and no completed requests.
    pub fn insert_created(&mut self, session: Session, images: &mut BeforeImages) {
        let id = session.id.clone();
        record_before_image(&mut images.sessions, &id, || None);
        self.tags.iter_mut().for_each(|tags| tags.add_session(&session.tag));
        self.insert(session);
        if let Some(entry) = self.entry_mut_without_before_image(&id) {
            entry.local_ids = Some(LocalIds::from_rows(Vec::new(), 0));
            entry.completed = Some(Arc::default());
            entry.held = Some(Vec::new());
            entry.has_searched_todos = true;
        }
    }

    /// Evicts a session that a write outside of the flushed write queue has changed, and drops its summary.
    pub fn evict_stale(&mut self, id: &str, images: &mut BeforeImages) {
        self.evict_entry(id);
        images.sessions.remove(id);
    }

    pub fn remove(&mut self, id: &str, images: &mut BeforeImages) {
        if let Some(mut entry) = self.evict_entry(id) {
            record_before_image(&mut images.sessions, id, || Some(entry.take_before_image()));
            self.tags.iter_mut().for_each(|tags| tags.session_count = tags.session_count.saturating_sub(1));
        }
    }

    pub fn cached_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the tags of the namespace; `None` until they are read.
    pub fn tags(&self) -> Option<&Tags> {
        self.tags.as_ref()
    }

    /// Inserts the tags of the namespace, unless they were read before.
    pub fn insert_tags(&mut self, _: CurrentRead, tags: Tags) {
        self.tags.get_or_insert(tags);
    }

    fn evict_entry(&mut self, id: &str) -> Option<CachedSession> {
        let entry = self.sessions.remove(id)?;
        self.counted_bytes -= entry.counted_bytes.unwrap_or(0);
        self.id_by_tag.remove(&entry.session.tag);
        self.evictions.record(&[Key::Id(id), Key::Tag(&entry.session.tag)]);
        Some(entry)
    }

    /// Evicts sessions if the cache is above its limits: idle sessions before sessions in use, and the least recently used first.
    /// Never evicts the session used last. Keeps some idle sessions even if sessions in use fill the cache. `max_bytes` limits all
    /// sessions, including those in use. Returns the bytes of the remaining sessions.
    ///
    /// Enforces `max_bytes` at once. Sessions in use may exceed the other limits. Idle sessions may exceed them until the next
    /// ranking: by a tenth, and by the sessions whose last CLI has disconnected since the last ranking.
    pub fn evict(
        &mut self,
        max_bytes: usize,
        is_evictable: impl Fn(&str) -> bool,
        is_in_use: impl Fn(&str) -> bool,
    ) -> usize {
        let mut bytes = self.session_bytes();
        let mut count = self.sessions.len();
        self.changes_since_ranking += 1;
        let is_due = self.changes_since_ranking > count / RANKING_DIVISOR
            || bytes > self.ranked_bytes + MAX_CACHED_BYTES / RANKING_DIVISOR;
        let is_full = count > MAX_CACHED_SESSIONS || bytes > MAX_CACHED_BYTES;
        if bytes <= max_bytes && !(is_full && is_due) {
            return bytes;
        }
        // Above `max_bytes`, evicts a tenth more than needed, so that the next insert does not rank again.
        let reduced_bytes = (max_bytes - max_bytes / RANKING_DIVISOR).max(MIN_CACHED_BYTES.min(max_bytes));
        let target_bytes = if bytes > max_bytes { reduced_bytes } else { max_bytes };
        let is_in_use = |e: &CachedSession| e.session.active || is_in_use(&e.session.id);
        let (mut idle_count, mut idle_bytes) = (0, 0);
        let mut ranked = Vec::new();
        for entry in self.sessions.values() {
            let in_use = is_in_use(entry);
            if !in_use {
                (idle_count, idle_bytes) = (idle_count + 1, idle_bytes + entry.counted_bytes.unwrap_or(0));
            }
            if entry.last_use < self.use_count {
                ranked.push((in_use, entry.last_use, entry.session.id.clone()));
            }
        }
        sort_by(&mut ranked, Ord::cmp);
        for (in_use, _, id) in ranked {
            let is_within_limits = match in_use {
                false => {
                    (count <= MAX_CACHED_SESSIONS || idle_count <= MIN_CACHED_IDLE_SESSIONS)
                        && (bytes <= MAX_CACHED_BYTES || idle_bytes <= MIN_CACHED_IDLE_BYTES)
                        && bytes <= target_bytes
                }
                true => bytes <= target_bytes,
            };
            if is_within_limits {
                break;
            }
            if !is_evictable(&id) {
                continue;
            }
            if let Some(entry) = self.evict_entry(&id) {
                let entry_bytes = entry.counted_bytes.unwrap_or(0);
                (count, bytes) = (count - 1, bytes - entry_bytes);
                if !in_use {
                    (idle_count, idle_bytes) = (idle_count - 1, idle_bytes - entry_bytes);
                }
                self.session_list.insert(id, entry.into_summary());
            }
        }
        (self.changes_since_ranking, self.ranked_bytes) = (0, bytes);
        bytes
    }

    pub fn session_bytes(&mut self) -> usize {
        for id in self.uncounted.drain(..) {
            if let Some(entry) = self.sessions.get_mut(&id).filter(|entry| entry.counted_bytes.is_none()) {
                let bytes = entry.bytes();
                entry.counted_bytes = Some(bytes);
                self.counted_bytes += bytes;
            }
        }
        self.counted_bytes
    }

    /// Returns the estimated memory of the before-images, in bytes, without the texts that they share with the current states.
    pub fn committed_bytes(&self, write_queue: &HubQueue) -> usize {
        let sessions = write_queue.before_images().flat_map(|images| images.sessions.values()).flatten();
        let session_bytes: usize = sessions.map(|entry| entry.unshared_bytes(self.entry(&entry.session.id))).sum();
        let machines = write_queue.before_images().flat_map(|images| images.machines.values()).flatten();
        session_bytes + machines.map(|machine| machine_bytes(machine)).sum::<usize>()
    }

    /// Adds the summary of a session that was read from the database, unless a newer one is in memory.
    pub fn insert_summary(&mut self, _: CurrentRead, id: String, summary: SessionSummary) {
        let is_known =
            self.sessions.contains_key(&id) || self.session_list.get(&id).is_some_and(|known| known.json.is_some());
        if !is_known {
            self.session_list.insert(id, summary);
        }
    }

    /// Returns a page of the list of committed sessions as JSON: active sessions first, then by `updatedAt`, newest first. If memory
    /// lacks summaries of the page, returns which summaries must be read.
    pub fn list_page(&mut self, request: &ListRequest, write_queue: &HubQueue) -> Result<String, Selection> {
        if let Some(tag) = self.session_list.next_read_after() {
            return Err(Selection::After(tag.to_owned()));
        }
        self.update_summaries();
        let summaries = self.committed_summaries(write_queue).map(|(id, summary, _)| (id, summary));
        encode_list_page(request, summaries).map_err(Selection::Ids)
    }

    /// Makes the missing summaries of the cached sessions.
    pub(super) fn update_summaries(&mut self) {
        for (id, entry) in &mut self.sessions {
            if entry.summary.get().is_none() {
                uncount(id, entry, &mut self.counted_bytes, &mut self.uncounted).summary();
            }
        }
    }

    /// Returns the id and the summary of each committed session, and the session if it is in memory.
    pub(super) fn committed_summaries<'a>(
        &'a self,
        write_queue: &'a HubQueue,
    ) -> impl Iterator<Item = (&'a str, &'a SessionSummary, Option<&'a Session>)> {
        let committed = write_queue.committed_sessions();
        let changed: Vec<_> = committed.iter().filter_map(|(id, state)| Some((*id, state.as_ref()?))).collect();
        let cached = self.sessions.iter().map(|(id, entry)| (id.as_str(), entry.summary(), Some(&entry.session)));
        let current = cached.chain(self.session_list.iter().map(|(id, summary)| (id, summary, None)));
        let changed = changed.into_iter().map(|(id, entry)| (id, entry.summary(), Some(&entry.session)));
        current.filter(move |(id, ..)| !committed.contains_key(id)).chain(changed)
    }

    /// Returns all machines of the namespace; `None` until they are loaded.
    pub fn machines(&self) -> Option<&HashMap<String, Machine>> {
        self.machines.as_ref()
    }

    /// Returns a machine, or the not-found error. The machines must be loaded.
    pub fn machine(&self, id: &str) -> Result<&Machine, Error> {
        self.machines.as_ref().and_then(|machines| machines.get(id)).ok_or(Error::NotFound(Kind::Machine))
    }

    pub fn machine_mut(&mut self, id: &str, write_queue: &mut HubQueue) -> Result<&mut Machine, Error> {
        let machines = self.machines.as_mut();
        let machine = machines.and_then(|machines| machines.get_mut(id)).ok_or(Error::NotFound(Kind::Machine))?;
        record_before_image(&mut write_queue.queued_images().machines, id, || Some(machine.clone()));
        Ok(machine)
    }

    pub fn list_machines<'a>(&'a self, write_queue: &'a HubQueue) -> impl Iterator<Item = &'a Machine> {
        let committed = write_queue.committed_machines();
        let changed: Vec<&Machine> = committed.values().filter_map(|state| state.as_deref()).collect();
        let current = self.machines.iter().flat_map(HashMap::values);
        current.filter(move |machine| !committed.contains_key(machine.id.as_str())).chain(changed)
    }

    /// Inserts a new machine. Does nothing while the machines are not loaded.
    pub fn insert_machine(&mut self, machine: Machine, images: &mut BeforeImages) {
        if let Some(machines) = &mut self.machines {
            record_before_image(&mut images.machines, &machine.id, || None);
            machines.insert(machine.id.clone(), machine);
        }
    }

    /// Inserts a new machine that is durable. Does nothing while the machines are not loaded.
    pub fn insert_durable_machine(&mut self, machine: Machine) {
        if let Some(machines) = &mut self.machines {
            machines.insert(machine.id.clone(), machine);
        }
    }

    pub fn remove_machine(&mut self, id: &str, images: &mut BeforeImages) {
        if let Some(machine) = self.machines.as_mut().and_then(|machines| machines.remove(id)) {
            record_before_image(&mut images.machines, id, || Some(machine));
        }
    }

    pub fn machine_bytes(&self) -> usize {
        self.machines().into_iter().flat_map(HashMap::values).map(machine_bytes).sum()
    }

    /// Inserts the machines that were read from the database, unless they were loaded before.
    pub fn insert_loaded_machines(&mut self, _: CurrentRead, machines: Vec<Machine>) {
        self.machines.get_or_insert_with(|| machines.into_iter().map(|m| (m.id.clone(), m)).collect());
    }

    /// Removes everything after a failed write, because the cache contains changes that the database lacks.
    pub fn clear(&mut self) {
        let mut evictions = std::mem::take(&mut self.evictions);
        evictions.clear();
        *self = Self { evictions, ..Self::default() };
    }
}

/// Returns an entry for a change. Subtracts its bytes from `counted_bytes`; they are counted again after the change.
fn uncount<'a>(
    id: &str,
    entry: &'a mut CachedSession,
    counted_bytes: &mut usize,
    uncounted: &mut Vec<String>,
) -> &'a mut CachedSession {
    if let Some(bytes) = entry.counted_bytes.take() {
        *counted_bytes -= bytes;
        uncounted.push(id.to_owned());
    }
    entry
}

fn machine_bytes(m: &Machine) -> usize {
    ENTRY_BYTES + m.id.len() + m.text_bytes()
}

impl CacheView for Cache {
    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id).map(|entry| &entry.session)
    }

    fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.as_ref()?.get(id)
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
