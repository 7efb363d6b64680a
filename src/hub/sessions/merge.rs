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

/// A merge of the session with the id `old` into the session with the id `new`.
struct Merge<'a> {
    hub: &'a Hub,
    old: &'a str,
    new: &'a str,
}

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
        let large = self.turn().cache.entry(new).and_then(|entry| entry.session.metadata.large().cloned());
        // Memory for large metadata. Reserved before the merge locks the write queue: a task that frees memory may wait for the write
        // queue, so waiting for memory under the lock could deadlock.
        let memory = self.memory.reserve(large.map_or(0, |large| large.bytes)).await?;
        [old, new].iter().for_each(|id| self.turn().in_flight.lock(id));
        let merged = Merge { hub: self, old, new }.run(memory).await;
        [old, new].iter().for_each(|id| self.turn().in_flight.unlock(id));
        self.start_commit();
        self.start_delivery(new);
        merged
    }
}

impl Merge<'_> {
    /// Merges the sessions while both are locked. `memory` is for large metadata of the new session.
    async fn run(&self, mut memory: Reservation) -> Result<(), Error> {
        let Self { hub, old, new } = *self;
        loop {
            match hub.load_session_during_merge(old, RelatedRows::None).await {
                // A deleted session needs no merge.
                Err(Error::NotFound(_)) => return Ok(()),
                loaded => loaded?,
            }
            hub.load_session_during_merge(new, RelatedRows::None).await?;
            self.lock_write_queue().await;
            let session = |id| hub.turn().cache.entry(id).map(|entry| entry.session.clone());
            if let Some((old, new)) = session(old).zip(session(new)) {
                let merged = self.write(&old, new, &mut memory).await;
                hub.turn().write_queue.unlock();
                return merged;
            }
            // The flush before the lock failed, and the cache was cleared.
            hub.turn().write_queue.unlock();
            hub.start_commit();
        }
    }

    /// Flushes the write queue and locks it: the merge changes seqs, so a write during the merge would have outdated seqs.
    async fn lock_write_queue(&self) {
        loop {
            let locked = {
                let State { write_queue, cache, .. } = &mut *self.hub.turn();
                write_queue.lock(&self.hub.config.namespace, cache)
            };
            self.hub.start_commit();
            match locked {
                Some(locked) => {
                    if locked.await.is_ok() {
                        return;
                    }
                }
                // Another merge holds the lock. The result of the flush does not matter here.
                None => drop(self.hub.flush().await),
            }
        }
    }

    async fn write(&self, old: &Session, new: Session, memory: &mut Reservation) -> Result<(), Error> {
        let Self { hub, old: old_id, new: new_id } = *self;
        let namespace = &hub.config.namespace;
        let Some(chunk_ends) = removals::load_chunk_ends(&hub.db, namespace, new_id).await? else {
            let line = LogLine::new(Level::Warn, "merge-refused").text("session", old_id).text("newSession", new_id);
            hub.telemetry.log(line.text("reason", "the new session has more than 300,000 messages or 600 MB"));
            return Ok(());
        };
        let metadata = match new.metadata.large() {
            Some(large) => {
                // The metadata may have changed before the session was locked.
                if large.bytes > memory.bytes() {
                    *memory = hub.memory.try_reserve(large.bytes)?;
                }
                Some(hub.large_values.read(new_id, large).await?.ok_or_else(incomplete_value)?)
            }
            None => new.metadata.json().cloned(),
        };
        let metadata = merge_metadata(old, metadata.as_ref());
        let (new, large) = with_old_fields(&hub.ids, hub.rt.now(), old, new, &metadata);
        for statements in values::write_parts(namespace, large.as_slice()) {
            execute(&hub.db, statements).await?;
        }
        let mut batch = removals::merge(namespace, old_id, &new, &chunk_ends);
        // Events before the merge contain outdated seqs, so clients must not resume from them.
        let event_numbers = self.log_gap(&mut batch).await?;
        let committed = execute(&hub.db, batch).await;
        let may_have_committed = committed.as_ref().err().is_none_or(DbError::is_outcome_unknown);
        let ticket = hub.turn().cache.evictions.take_ticket();
        let merged = match committed {
            Ok(()) => store::load_by_id(&hub.db, namespace, new_id).await,
            Err(error) => Err(error),
        };
        match merged {
            Ok(Found::InNamespace(merged)) => self.apply(&ticket, merged, metadata, event_numbers),
            Ok(_) => Err(Error::NotFound(Kind::Session)),
            Err(error) => {
                hub.turn().discard_uncommitted(Vec::new(), &Error::from(error.clone()));
                if may_have_committed {
                    let clis = [old_id, new_id].map(|id| hub.turn().connections.clis_of_session(id).to_vec());
                    hub.turn().disconnect_to_resync(clis.into_iter().flatten());
                }
                hub.turn().withdraw_failed_events(&DbError::Retryable(error.to_string()));
                Err(error.into())
            }
        }
    }

    /// Adds a gap to the event log in a batch. Returns the number for an event of the batch, and the last number of the gap.
    async fn log_gap(&self, batch: &mut Vec<Statement>) -> Result<(u64, u64), DbError> {
        self.hub.publish_missed_events().await?;
        let events = &mut self.hub.turn().events;
        let numbers = events.reserve_for_batch(2, self.hub.rt.now());
        events.append_rows(&self.hub.config.namespace, events.encode_gap(numbers.end - 1), batch);
        Ok((numbers.start, numbers.end - 1))
    }

    /// Replaces both sessions in the cache by `merged`, and publishes the merge. `numbers` are those of the removal and of the gap.
    fn apply(&self, ticket: &ReadTicket, merged: Session, metadata: Json, numbers: (u64, u64)) -> Result<(), Error> {
        let Self { hub, old, new } = *self;
        let (removal, gap) = numbers;
        let mut turn = hub.turn();
        let read = turn.cache.evictions.redeem(ticket, Key::Id(new));
        let State { cache, write_queue, .. } = &mut *turn;
        // Deletes the large values of the old session, whose row is gone.
        write_queue.delete_session(old);
        write_queue.delete_replaced_values(new);
        write_queue.trim_completed_requests(new);
        cache.remove(old, write_queue.queued_images());
        for id in [old, new] {
            cache.evict_stale(id, write_queue.queued_images());
        }
        let owner = Owner::Session(old.to_owned());
        turn.liveness.stop(&owner);
        hub.rt.kv_delete(&deadline_key(&owner));
        turn.publish(Some(removal), || Event::session_removed(old));
        turn.events.on_cleared(gap);
        // Web clients of the new session have messages with outdated seqs.
        turn.send_gap_notice(gap, Some(new));
        if let Some(read) = read {
            turn.insert_loaded(&read, merged);
        }
        if turn.cache.entry(new).is_some() {
            turn.publish_session(new, |session| Changes::merged(session))?;
            turn.queue_metadata_update(new, metadata, None)?;
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
    let written_at = |summary: &RawValue| parse_whole(JsonObject::parse(summary.get())?.get("updatedAt")?.get());
    if let Some(summary) = old.get("summary")
        && new.get("summary").is_none_or(|other| written_at(summary) > written_at(other))
    {
        new.set("summary", summary);
    }
    new.to_json()
}

/// Returns the new session with the merged metadata, and todos and settings of the old one. Also returns metadata that are large.
fn with_old_fields(ids: &Ids, now: u64, old: &Session, new: Session, metadata: &Json) -> (Session, Option<LargeValue>) {
    let (field, version) = (VersionedField::Metadata, new.metadata_version + 1);
    let large = field.is_large(metadata).then(|| LargeValue::new(&new.id, version, ids.uuid(), metadata.clone()));
    let metadata = large.as_ref().map_or(InlineOrLarge::Inline(metadata.clone()), |large| large.to_field(field));
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
