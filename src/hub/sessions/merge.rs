//! Merges a session into another, because the CLI of a resumed session reconnected under a new session id. The new session
//! takes the history of the old one, whose messages are not rewritten. The same batch moves the messages of the new session
//! behind them, and removes the old session.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::base::error::{Error, Kind};
use crate::hub::base::state::State;
use crate::hub::base::state::before_images::Committed;
use crate::hub::base::state::cached_session::CachedSession;
use crate::hub::base::state::effect::Effect;
use crate::hub::base::storage_keys::alive_key;
use crate::hub::sessions::changes::Changes;
use crate::hub::turn::Turn;
use crate::hub::write::large::{self, incomplete_value};
use crate::memory_budget::Reservation;
use crate::model::event::Event;
use crate::model::json::{Json, JsonObject, parse_whole};
use crate::model::large::{Field, LargeRef};
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::store::values::{self, LargeValue};
use crate::store::write_queue::SessionColumns;
use crate::store::{DbError, Found, removals, sessions as store};

impl Hub {
    /// Merges the session `old` into `new`, unless `new` is [too large](removals::load_chunk_ends). Pending requests of
    /// `old` are canceled: its CLI is not the one that serves `new`.
    pub(in crate::hub) async fn merge(self: &Arc<Self>, old: &str, new: &str) -> Result<(), Error> {
        match self.with_field(old, large::state_if_pending, |turn, stored| turn.cancel_pending(old, stored)).await {
            // A deleted session needs no merge.
            Err(Error::NotFound(_)) => return Ok(()),
            canceled => canceled?,
        }
        let memory = self.reserve_for_metadata(new).await?;
        for id in [old, new] {
            self.turn().in_flight.lock_seqs(id);
        }
        let merged = self.merge_locked(old, new, memory).await;
        for id in [old, new] {
            self.turn().in_flight.unlock_seqs(id, None);
        }
        self.start_commit();
        merged
    }

    /// Reserves memory for the metadata that the merge reads if it is large. The merge itself must not wait for memory, because
    /// a task that frees memory may wait for the write queue.
    async fn reserve_for_metadata(self: &Arc<Self>, id: &str) -> Result<Reservation, Error> {
        self.load_session(id).await?;
        let bytes = {
            let turn = self.turn();
            let large = turn.cache.entry(id).and_then(|entry| entry.session.metadata_large.as_ref());
            large.map_or(0, |large| large.bytes)
        };
        self.wait_for_memory(bytes).await
    }

    async fn merge_locked(self: &Arc<Self>, old: &str, new: &str, mut memory: Reservation) -> Result<(), Error> {
        loop {
            match self.load_session_unlocked(old).await {
                Ok(()) => {}
                // A deleted session needs no merge.
                Err(Error::NotFound(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
            self.load_session_unlocked(new).await?;
            self.lock_write_queue().await;
            let sessions = {
                let turn = self.turn();
                let session = |id| turn.cache.entry(id).map(|entry| entry.session.clone());
                session(old).zip(session(new))
            };
            let merged = match sessions {
                Some((old, new)) => Some(self.write_merge(&old, new, &mut memory).await),
                // The flush before the lock failed, and the cache was dropped.
                None => None,
            };
            self.turn().write_queue.unlock();
            match merged {
                Some(merged) => return merged,
                None => self.start_commit(),
            }
        }
    }

    /// Flushes the write queue and locks it: a write during the merge would carry outdated seqs.
    async fn lock_write_queue(self: &Arc<Self>) {
        loop {
            let locked = {
                let mut turn = self.turn();
                let State { write_queue, cache, .. } = &mut *turn;
                write_queue.lock(&self.config.namespace, cache)
            };
            self.start_commit();
            match locked {
                Some(locked) => {
                    if locked.await.is_ok() {
                        return;
                    }
                }
                // Another merge holds the lock. Its result does not matter here.
                None => drop(self.flushed().await),
            }
        }
    }

    async fn write_merge(&self, old: &Session, new: Session, memory: &mut Reservation) -> Result<(), Error> {
        let namespace = &self.config.namespace;
        let new_id = new.id.clone();
        let Some(chunk_ends) = removals::load_chunk_ends(&self.db, namespace, &new_id).await? else {
            self.rt.log_warning(&format!(
                "sessions {} and {new_id} are not merged: {new_id} has more than 300,000 messages or 600 MB",
                old.id
            ));
            return Ok(());
        };
        let metadata = match &new.metadata_large {
            Some(large) => Some(self.read_large_metadata(&new_id, large, memory).await?),
            None => new.metadata.clone(),
        };
        let (new, large) = self.with_old_fields(old, new, metadata.as_ref());
        for statements in values::write_parts(namespace, large.as_slice()) {
            self.commit(statements).await?;
        }
        let mut batch = removals::merge(namespace, &old.id, &new, &chunk_ends);
        // Events before the merge contain outdated seqs, so no client may resume from them.
        let (removal, gap) = self.log_gap(&mut batch).await?;
        let committed = self.commit(batch).await;
        let may_have_committed = committed.as_ref().err().is_none_or(DbError::may_have_committed);
        let merged = match committed {
            Ok(()) => store::load_by_id(&self.db, namespace, &new_id).await,
            Err(error) => Err(error),
        };
        match merged {
            Ok(Found::Owned(merged)) => self.turn().apply_merge(old, &merged, metadata, large, (removal, gap)),
            Ok(_) => Err(Error::NotFound(Kind::Session)),
            Err(error) => {
                self.turn().discard_uncommitted(Vec::new(), &Error::from(error.clone()));
                if may_have_committed {
                    let clis = [&old.id, &new_id].map(|id| self.turn().connections.clis_of_session(id).to_vec());
                    self.turn().disconnect_to_resync(clis.into_iter().flatten());
                }
                self.turn().handle_failed_batch(&DbError::Retryable(error.to_string()));
                Err(error.into())
            }
        }
    }

    async fn read_large_metadata(&self, id: &str, large: &LargeRef, memory: &mut Reservation) -> Result<Json, Error> {
        // A change may have been queued while the merge waited for the lock.
        if let Some(queued) = self.turn().write_queue.find_queued_value(large) {
            return Ok(queued);
        }
        if large.bytes > memory.bytes() {
            *memory = self.reserve_memory(large.bytes)?;
        }
        self.read_reserved_value(id, large).await?.ok_or_else(incomplete_value)
    }

    /// Returns the new session with the fields it takes from the old one, and its metadata as a large value if it is
    /// one.
    fn with_old_fields(&self, old: &Session, new: Session, metadata: Option<&Json>) -> (Session, Option<LargeValue>) {
        let version = new.metadata_version + 1;
        let metadata = merge_metadata(old, metadata);
        let (head, large) = match Field::Metadata.is_large(&metadata) {
            true => {
                (Field::Metadata.excerpt(&metadata), Some(LargeValue::new(&new.id, version, self.new_id(), metadata)))
            }
            false => (metadata, None),
        };
        let session = Session {
            metadata: Some(head),
            metadata_large: large.as_ref().map(|value| value.large.clone()),
            metadata_version: version,
            todos: new.todos.clone().or(old.todos.clone()),
            pinned: new.pinned || old.pinned,
            ..new
        };
        (session, large)
    }
}

impl Turn<'_> {
    /// Updates the cache and publishes the merge, which is durable. `event_numbers` are those of the removal event and of
    /// the gap in the log.
    fn apply_merge(
        &mut self,
        old: &Session,
        merged: &Session,
        metadata: Option<Json>,
        large: Option<LargeValue>,
        event_numbers: (u64, u64),
    ) -> Result<(), Error> {
        let new = &merged.id;
        // Drops what is queued for the old session, whose row is gone.
        self.state.write_queue.delete_session(&old.id);
        let State { cache, write_queue, .. } = &mut *self.state;
        cache.remove(&old.id, write_queue.queued_images());
        let owner = Owner::Session(old.id.clone());
        self.state.liveness.stop(&owner);
        self.hub.rt.kv_delete(&alive_key(&owner));
        let (removal, gap) = event_numbers;
        self.publish(Some(removal), || Event::session_removed(&old.id));
        if let Some(log) = &mut self.state.log {
            log.push_gap(gap);
        }
        self.state.event_numbers.set_published(gap);
        // Web clients of the new session have messages with outdated seqs.
        self.send_gap_notice(Some(new));
        self.state.cache.invalidate_reads(new);
        let State { cache, write_queue, .. } = &mut *self.state;
        let entry = cache.require_entry_mut(new, write_queue)?;
        entry.session.seq = merged.seq;
        (entry.local_ids, entry.completed) = (None, None);
        write_queue.trim_completed_requests(new);
        entry.session.todos = entry.session.todos.take().or(old.todos.clone());
        entry.session.pinned |= old.pinned;
        // The metadata may have been updated while the merge was written.
        let s = &mut entry.session;
        let queued = s.metadata_large.as_ref().and_then(|large| write_queue.find_queued_value(large));
        let current = if s.metadata_large.is_some() { queued.or(metadata) } else { s.metadata.clone() };
        let metadata = merge_metadata(old, current.as_ref());
        s.metadata_large = s.metadata_large.take().or(large.map(|value| value.large));
        let pinned = entry.session.pinned.then_some(true);
        let event = Event::session_updated(new, &Changes { pinned, ..Changes::presence(&entry.session) });
        self.state.write_queue.queue_session(new, SessionColumns::All);
        self.state.write_queue.on_commit(Effect::Publish(event));
        self.set_metadata(new, metadata, None)?;
        let images = &mut self.state.write_queue.queued_images().sessions;
        images.remove(&old.id);
        images.insert(new.clone(), Committed::present(CachedSession::new(merged.clone())));
        Ok(())
    }
}

/// Returns the metadata of the new session with the name and worktree of the old one, unless it has its own, and with the
/// newer of the two summaries.
fn merge_metadata(old: &Session, new: Option<&Json>) -> Json {
    let old = old.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    let mut new = new.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    for name in ["name", "worktree"] {
        if let (Some(value), None) = (old.get(name), new.get(name)) {
            new.set(name, value);
        }
    }
    let written_at = |summary: Option<&RawValue>| -> Option<u64> {
        parse_whole(JsonObject::parse(summary?.get())?.get("updatedAt")?.get())
    };
    if let Some(summary) = old.get("summary")
        && (new.get("summary").is_none() || written_at(Some(summary)) > written_at(new.get("summary")))
    {
        new.set("summary", summary);
    }
    new.to_json()
}
