//! Merges a session into another, because the CLI of a resumed session reconnected under a new session id. One batch gives the
//! history of the old session to the new session, moves the messages of the new session to the end of this history, and removes
//! the old session. Messages of the old session are not rewritten.

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ids::Ids;
use crate::hub::core::sessions::evictions::{Key, ReadTicket};
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::deadline_key;
use crate::hub::sessions::changes::Changes;
use crate::hub::sessions::load::{self, RelatedRows};
use crate::hub::turn::Turn;
use crate::hub::write::large::incomplete_value;
use crate::log::{Level, LogLine};
use crate::memory_budget::Reservation;
use crate::model::event::Event;
use crate::model::json::{Json, JsonObject, parse_whole};
use crate::model::large::{InlineOrLarge, VersionedField};
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::store::values::{self, LargeValue};
use crate::store::{DbError, Found, Statement, execute, removals, sessions as store};

impl Hub {
    /// Merges the session `old` into `new`, unless `new` is [too large](removals::load_chunk_ends). Cancels the pending requests of
    /// `old`, because the CLI that serves `new` does not know them.
    pub(in crate::hub) async fn merge(&self, old: &str, new: &str) -> Result<(), Error> {
        match self.with_field(old, load::state_if_pending, |turn, stored| turn.cancel_pending(old, stored)).await {
            // A deleted session needs no merge.
            Err(Error::NotFound(_)) => return Ok(()),
            canceled => canceled?,
        }
        self.load_session(new).await?;
        let bytes = {
            let turn = self.turn();
            let large = turn.cache.entry(new).and_then(|entry| entry.session.metadata.large());
            large.map_or(0, |large| large.bytes)
        };
        // Memory for large metadata. Reserved before the merge locks the write queue: a task that frees memory may wait for the write
        // queue, so waiting for memory under the lock could deadlock.
        let memory = self.memory.reserve(bytes).await?;
        [old, new].iter().for_each(|id| self.turn().in_flight.lock(id));
        let merged = self.merge_locked(old, new, memory).await;
        [old, new].iter().for_each(|id| self.turn().in_flight.unlock(id));
        self.start_commit();
        self.start_delivery(new);
        merged
    }

    async fn merge_locked(&self, old: &str, new: &str, mut memory: Reservation) -> Result<(), Error> {
        loop {
            match self.load_session_during_merge(old, RelatedRows::None).await {
                // A deleted session needs no merge.
                Err(Error::NotFound(_)) => return Ok(()),
                loaded => loaded?,
            }
            self.load_session_during_merge(new, RelatedRows::None).await?;
            self.lock_write_queue().await;
            let session = |id| self.turn().cache.entry(id).map(|entry| entry.session.clone());
            if let Some((old, new)) = session(old).zip(session(new)) {
                let merged = self.write_merge(&old, new, &mut memory).await;
                self.turn().write_queue.unlock();
                return merged;
            }
            // The flush before the lock failed, and the cache was cleared.
            self.turn().write_queue.unlock();
            self.start_commit();
        }
    }

    /// Flushes the write queue and locks it: the merge changes seqs, so a write during the merge would have outdated seqs.
    async fn lock_write_queue(&self) {
        loop {
            let locked = {
                let State { write_queue, cache, .. } = &mut *self.turn();
                write_queue.lock(&self.config.namespace, cache)
            };
            self.start_commit();
            match locked {
                Some(locked) => {
                    if locked.await.is_ok() {
                        return;
                    }
                }
                // Another merge holds the lock. The result of the flush does not matter here.
                None => drop(self.flush().await),
            }
        }
    }

    async fn write_merge(&self, old: &Session, new: Session, memory: &mut Reservation) -> Result<(), Error> {
        let namespace = &self.config.namespace;
        let new_id = new.id.clone();
        let Some(chunk_ends) = removals::load_chunk_ends(&self.db, namespace, &new_id).await? else {
            let line = LogLine::new(Level::Warn, "merge-refused").text("session", &old.id).text("newSession", &new_id);
            self.telemetry.log(line.text("reason", "the new session has more than 300,000 messages or 600 MB"));
            return Ok(());
        };
        let metadata = match new.metadata.large() {
            Some(large) => {
                // The metadata may have changed before the session was locked.
                if large.bytes > memory.bytes() {
                    *memory = self.memory.try_reserve(large.bytes)?;
                }
                Some(self.large_values.read(&new_id, large).await?.ok_or_else(incomplete_value)?)
            }
            None => new.metadata.json().cloned(),
        };
        let metadata = merge_metadata(old, metadata.as_ref());
        let (new, large) = with_old_fields(&self.ids, self.rt.now(), old, new, metadata.clone());
        for statements in values::write_parts(namespace, large.as_slice()) {
            execute(&self.db, statements).await?;
        }
        let mut batch = removals::merge(namespace, &old.id, &new, &chunk_ends);
        // Events before the merge contain outdated seqs, so clients must not resume from them.
        let event_numbers = self.log_gap(&mut batch).await?;
        let committed = execute(&self.db, batch).await;
        let may_have_committed = committed.as_ref().err().is_none_or(DbError::is_outcome_unknown);
        let ticket = self.turn().cache.evictions.take_ticket();
        let merged = match committed {
            Ok(()) => store::load_by_id(&self.db, namespace, &new_id).await,
            Err(error) => Err(error),
        };
        match merged {
            Ok(Found::InNamespace(merged)) => self.turn().apply_merge(&ticket, old, merged, metadata, event_numbers),
            Ok(_) => Err(Error::NotFound(Kind::Session)),
            Err(error) => {
                self.turn().discard_uncommitted(Vec::new(), &Error::from(error.clone()));
                if may_have_committed {
                    let clis = [&old.id, &new_id].map(|id| self.turn().connections.clis_of_session(id).to_vec());
                    self.turn().disconnect_to_resync(clis.into_iter().flatten());
                }
                self.turn().withdraw_failed_events(&DbError::Retryable(error.to_string()));
                Err(error.into())
            }
        }
    }

    /// Adds a gap to the event log in a batch. Returns the number for an event of the batch, and the last number of the gap.
    async fn log_gap(&self, batch: &mut Vec<Statement>) -> Result<(u64, u64), DbError> {
        self.publish_missed_events().await?;
        let events = &mut self.turn().events;
        let numbers = events.reserve_for_batch(2, self.rt.now());
        let rows = events.encode_gap(numbers.end - 1);
        events.append_rows(&self.config.namespace, rows, batch);
        Ok((numbers.start, numbers.end - 1))
    }
}

impl Turn<'_> {
    /// Replaces both sessions in the cache by `merged`, and publishes the merge. `removal` and `gap` are the numbers of the events.
    fn apply_merge(
        &mut self,
        ticket: &ReadTicket,
        old: &Session,
        merged: Session,
        metadata: Json,
        (removal, gap): (u64, u64),
    ) -> Result<(), Error> {
        let new = merged.id.clone();
        let read = self.state.cache.evictions.redeem(ticket, Key::Id(&new));
        let State { cache, write_queue, .. } = &mut *self.state;
        // Deletes the large values of the old session, whose row is gone.
        write_queue.delete_session(&old.id);
        write_queue.delete_replaced_values(&new);
        write_queue.trim_completed_requests(&new);
        cache.remove(&old.id, write_queue.queued_images());
        for id in [&old.id, &new] {
            cache.evict_stale(id, write_queue.queued_images());
        }
        let owner = Owner::Session(old.id.clone());
        self.state.liveness.stop(&owner);
        self.hub.rt.kv_delete(&deadline_key(&owner));
        self.publish(Some(removal), || Event::session_removed(&old.id));
        self.state.events.on_cleared(gap);
        // Web clients of the new session have messages with outdated seqs.
        self.send_gap_notice(gap, Some(&new));
        if let Some(read) = read {
            self.insert_loaded(&read, merged);
        }
        if self.state.cache.entry(&new).is_some() {
            self.state.publish_session(&new, |session| Changes::merged(session))?;
            self.queue_metadata_update(&new, metadata, None)?;
        }
        Ok(())
    }
}

/// Returns the new metadata with the newer of the two summaries. Takes a missing name and worktree from the old session.
fn merge_metadata(old: &Session, new: Option<&Json>) -> Json {
    let old = JsonObject::of(old.metadata.json());
    let mut new = JsonObject::of(new);
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

/// Returns the new session with the merged metadata, and todos and settings of the old one. Also returns metadata that are large.
fn with_old_fields(ids: &Ids, now: u64, old: &Session, new: Session, metadata: Json) -> (Session, Option<LargeValue>) {
    let version = new.metadata_version + 1;
    let (metadata, large) = match VersionedField::Metadata.is_large(&metadata) {
        true => {
            let large = LargeValue::new(&new.id, version, ids.uuid(), metadata);
            (large.to_field(VersionedField::Metadata), Some(large))
        }
        false => (InlineOrLarge::Inline(metadata), None),
    };
    let session = Session {
        metadata,
        metadata_version: version,
        todos: new.todos.clone().or(old.todos.clone()),
        settings: new.settings.or(&old.settings),
        updated_at: now,
        ..new
    };
    (session, large)
}
