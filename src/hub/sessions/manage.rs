//! Creating, renaming and deleting sessions. A deleted session disappears immediately. A sweep deletes its messages and completed
//! requests, one batch at each alarm: a statement that deletes hundreds of thousands of rows could reset the database. Once a day, a
//! run deletes old data in the same way: archived sessions that have not changed for a long time, and old messages.

use serde::Deserialize;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, check_field, check_size};
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::{RETENTION, SWEEP};
use crate::hub::sessions::fields::split_agent_state;
use crate::hub::turn::Turn;
use crate::limits::{BACKGROUND_RETRY_MS, MAX_CONTENT_BYTES, MAX_KEYWORD_BYTES};
use crate::model::agent_state::{self, ReceivedState};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::session::{Session, fit_metadata, with_name};
use crate::model::settings::Settings;
use crate::store::{removals, retention};

/// The longest tag, in bytes. CLIs use paths as tags; this is the longest path on Linux.
const MAX_TAG_BYTES: usize = 4096;

/// The pause after a batch that deletes rows, as a multiple of the duration of the batch, so that requests have priority.
const PAUSE_FACTOR: u64 = 4;
/// The time between two runs that delete old data, in milliseconds.
const RETENTION_INTERVAL_MS: u64 = 86_400_000;

/// The request of a CLI for a session (`POST /cli/sessions`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSession {
    /// The CLI's own name of the session; 1 to 4,096 bytes. If a session has this tag already, no session is created.
    pub tag: String,
    pub metadata: Json,
    pub agent_state: Option<Json>,
    pub model: Option<String>,
}

impl Hub {
    pub async fn get_or_create_session(&self, new: &NewSession) -> Result<String, Error> {
        let is_tag = (1..=MAX_TAG_BYTES).contains(&new.tag.len());
        check_field(is_tag, "tag", format_args!("have 1 to {MAX_TAG_BYTES} bytes"))?;
        let is_model = new.model.as_ref().is_none_or(|model| model.len() <= MAX_KEYWORD_BYTES);
        check_field(is_model, "model", format_args!("have at most {MAX_KEYWORD_BYTES} bytes"))?;
        check_size("metadata", &new.metadata, MAX_CONTENT_BYTES)?;
        let metadata = fit_metadata(&new.metadata)?;
        let agent_state = new.agent_state.as_ref().map_or(Ok(ReceivedState::default()), split_agent_state)?;
        let id = loop {
            self.load_by_tag(&new.tag).await?;
            {
                let mut turn = self.turn();
                turn.ensure_write_queue_has_room(0)?;
                if let Some(session) = turn.cache.entry_by_tag(&new.tag).map(|entry| &entry.session) {
                    let id = session.id.clone();
                    if session.metadata_fields().is_archived() {
                        // The session opens again with the metadata of the CLI, but keeps its name.
                        turn.set_metadata(&id, session.metadata_keeping_name(&metadata), None)?;
                    }
                    break id;
                }
                if turn.check_session_quotas(&self.config.quotas, self.rt.now())? {
                    break turn.create_session(new, metadata, &agent_state)?;
                }
            }
            self.count_stored_bytes().await?;
        };
        self.flush().await?;
        Ok(id)
    }

    /// Renames a session. Returns the new version of its metadata.
    pub async fn rename(&self, id: &str, name: &str, expected: Option<u64>) -> Result<u64, Error> {
        let renamed = self.with_field(
            id,
            |session| &session.metadata,
            |turn, metadata| {
                turn.ensure_write_queue_has_room(metadata.as_ref().map_or(0, |metadata| metadata.text().len()))?;
                let entry = turn.cache.require_entry(id)?;
                let found = entry.session.metadata_version;
                if let Some(expected) = expected.filter(|expected| *expected != found) {
                    return Err(Error::VersionConflict { expected, found });
                }
                let metadata = with_name(metadata.as_ref(), name);
                check_size("metadata", &metadata, MAX_CONTENT_BYTES)?;
                turn.set_metadata(id, metadata, None)
            },
        );
        let version = renamed.await?;
        let to_rename_error = |error| if error == Error::DatabaseRejected { Error::RenameFailed } else { error };
        self.flush().await.map_err(to_rename_error)?;
        Ok(version)
    }

    /// Changes the settings of a session. Returns the version of its metadata, which does not change.
    pub async fn change_settings(&self, id: &str, change: impl FnOnce(&mut Settings)) -> Result<u64, Error> {
        self.with_session(id, |turn| {
            turn.ensure_write_queue_has_room(0)?;
            turn.change_session(id, |session| {
                change(&mut session.settings);
                session.metadata_version
            })
        })
        .await
    }

    /// Records that a person saw a session at `at`: the session no longer waits to be seen, unless it waits since a later time.
    pub async fn mark_seen(&self, id: &str, at: Option<u64>) -> Result<(), Error> {
        self.with_session(id, |turn| {
            let at = at.unwrap_or_else(|| self.rt.now());
            if turn.cache.require_entry(id)?.session.unseen_since.is_none_or(|since| since > at) {
                return Ok(());
            }
            turn.ensure_write_queue_has_room(0)?;
            turn.change_session(id, |session| session.unseen_since = None)
        })
        .await
    }

    /// Deletes a session. Fails if it is active, or if its CLI is still connected. A [`sweep`](Self::sweep) deletes its messages later.
    /// With `cutoff`, keeps a session that is not archived, is pinned or being resumed, or has changed since the cutoff.
    pub async fn delete_session(&self, id: &str, cutoff: Option<u64>) -> Result<(), Error> {
        self.with_session(id, |turn| {
            let session = &turn.cache.require_entry(id)?.session;
            let is_kept = |cutoff| {
                let is_in_use = session.settings.pinned || turn.in_flight.has_any(id);
                is_in_use || session.updated_at >= cutoff || !session.metadata_fields().is_archived()
            };
            if cutoff.is_some_and(is_kept) {
                return Ok(());
            }
            if session.active {
                return Err(Error::SessionActive);
            }
            if turn.expects_report(id, self.rt.now()) {
                return Err(Error::CliConnected);
            }
            let State { cache, write_queue, .. } = &mut *turn.state;
            cache.remove(id, write_queue.queued_images());
            write_queue.delete_session(id);
            write_queue.on_commit(Effect::Publish(Event::session_removed(id)));
            turn.clear_reactivation(id);
            // In the storage before the deletion is committed: a crash between the two must not leave rows that are never deleted.
            self.rt.kv_put(SWEEP, "due");
            turn.schedule_batch(0);
            Ok(())
        })
        .await?;
        self.recount_stored_bytes();
        Ok(())
    }

    /// Deletes a batch, and schedules the next one.
    pub(in crate::hub) async fn sweep(&self) {
        // Writes the queued deletion of the session first. If this fails, the session still exists, and keeps its messages.
        let _ = self.flush().await;
        let started_at = self.rt.now();
        let has_more = removals::sweep(&self.db, &self.config.namespace).await;
        let took_ms = self.rt.now().saturating_sub(started_at);
        let mut turn = self.turn();
        let was_requested_again = turn.sweep.end_batch();
        match has_more {
            Ok(true) => turn.schedule_batch(BACKGROUND_RETRY_MS.min(took_ms * PAUSE_FACTOR)),
            Err(_) => turn.schedule_batch(BACKGROUND_RETRY_MS),
            // Another session was deleted during the batch.
            Ok(false) if was_requested_again => turn.schedule_batch(0),
            Ok(false) => self.rt.kv_delete(SWEEP),
        }
    }

    /// Deletes a batch, and schedules the next one. A run that is interrupted begins again.
    pub(in crate::hub) async fn delete_old_data(&self) {
        let started_at = self.rt.now();
        let result = self.delete_old_batch(started_at).await;
        let now = self.rt.now();
        let next_at = match result {
            Ok(true) => now + BACKGROUND_RETRY_MS.min((now - started_at) * PAUSE_FACTOR),
            Ok(false) => {
                let next_at = now + RETENTION_INTERVAL_MS;
                self.turn().retention.searched_tag = Some(String::new());
                self.rt.kv_put(RETENTION, &next_at.to_string());
                next_at
            }
            Err(_) => now + BACKGROUND_RETRY_MS,
        };
        let mut turn = self.turn();
        turn.retention.due_at = Some(next_at);
        turn.request_alarm(Some(next_at));
    }

    /// Deletes a batch. Returns whether the run must continue.
    async fn delete_old_batch(&self, now: u64) -> Result<bool, Error> {
        let quotas = &self.config.quotas;
        let searched_tag = self.turn().retention.searched_tag.clone();
        if let Some((after, age)) = searched_tag.zip(quotas.archived_session_retention_ms) {
            let cutoff = now.saturating_sub(age);
            let found = retention::find_archived(&self.db, &self.config.namespace, &after, cutoff).await?;
            for (_, id) in &found {
                match self.delete_session(id, Some(cutoff)).await {
                    // A client has deleted the session, or its CLI has opened it again.
                    Ok(()) | Err(Error::NotFound(_) | Error::SessionActive) => {}
                    Err(error) => return Err(error),
                }
            }
            let is_complete = found.len() < retention::ARCHIVED_AT_ONCE;
            let last = found.into_iter().next_back().map(|(tag, _)| tag);
            self.turn().retention.searched_tag = last.filter(|_| !is_complete);
            return Ok(true);
        }
        let Some(age) = quotas.message_retention_ms else { return Ok(false) };
        let cutoff = now.saturating_sub(age);
        // Writes the queued changes first, because the deletion selects its rows in the database.
        self.flush().await?;
        let is_deleted = retention::delete_expired(&self.db, &self.config.namespace, cutoff).await?;
        if is_deleted {
            self.recount_stored_bytes();
        }
        Ok(is_deleted)
    }
}

impl Turn<'_> {
    fn create_session(
        &mut self,
        new: &NewSession,
        new_metadata: Json,
        agent_state: &ReceivedState<'_>,
    ) -> Result<String, Error> {
        let (hub, now) = (self.hub, self.hub.rt.now());
        let mut session = Session::new(hub.ids.uuid(), hub.config.namespace.clone(), new.tag.clone(), None, now);
        let (id, new_state) = (session.id.clone(), agent_state.without_completed.clone());
        let write_queue = &mut self.state.write_queue;
        session.request_times = agent_state::request_times(new_state.as_ref(), None, now);
        let (metadata, version) = (&mut session.metadata, session.metadata_version);
        write_queue.set_value(&hub.ids, (&id, VersionedField::Metadata), version, metadata, Some(new_metadata));
        let (state, version) = (&mut session.agent_state, session.agent_state_version);
        write_queue.set_value(&hub.ids, (&id, VersionedField::AgentState), version, state, new_state);
        session.model_mode.clone_from(&new.model);
        session.unseen_since = session.metadata_fields().is_failed().then_some(now);
        self.state.add_session(session);
        let completed = self.state.select_completed_requests(&id, agent_state, now);
        self.state.add_completed_requests(&id, completed, now);
        self.start_request_retention(&id)?;
        self.state.evict_sessions();
        Ok(id)
    }

    fn schedule_batch(&mut self, pause_ms: u64) {
        self.state.sweep.due_at = Some(self.hub.rt.now() + pause_ms);
        self.request_alarm(self.state.sweep.next_deadline());
    }
}
