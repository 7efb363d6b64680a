//! Updates of a session's metadata and agent state by CLIs. An update names the version it is based on (optimistic concurrency).

use crate::hub::Hub;
use crate::hub::core::effect::VersionedUpdate;
use crate::hub::core::error::{Error, check_size};
use crate::hub::sessions::fields::{agent_state_to_text, is_large_state, received_entries, split_agent_state};
use crate::hub::sessions::presence::EndCause;
use crate::hub::turn::Turn;
use crate::limits::{MAX_CONTENT_BYTES, SESSION_TIMEOUT_MS};
use crate::model::agent_state::AgentState;
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, VersionedField};
use crate::model::session::{Session, fit_metadata};
use crate::model::text_parts::TextParts;

/// Returns the value and the version of a field. The agent state lacks the completed requests.
fn field_of(session: &Session, field: VersionedField) -> (&InlineOrLarge, u64) {
    match field {
        VersionedField::AgentState => (&session.agent_state, session.agent_state_version),
        _ => (&session.metadata, session.metadata_version),
    }
}

impl Hub {
    /// Updates the metadata of a session for a CLI. If the update archives an active session, ends the session.
    pub(in crate::hub) async fn update_metadata(&self, update: &VersionedUpdate<'_>) -> Result<(), Error> {
        let VersionedUpdate { id, value, .. } = update;
        check_size("metadata", value, MAX_CONTENT_BYTES)?;
        let value = if value.is_null() { value.clone() } else { fit_metadata(value)? };
        self.load_session(id).await?;
        let mut was_active = false;
        self.update_field(update, value.text().len(), |turn| {
            let version = turn.set_metadata(id, value.clone(), Some(update.from))?;
            was_active = turn.deactivate_if_archived(id)?;
            Ok((version, TextParts::queued_value(VersionedField::Metadata, Some(value))))
        })
        .await?;
        // Returns no error, because the update is already acknowledged: the alarm tries again.
        if was_active && self.end_session(id, EndCause::Archived).await.is_err() {
            let until = self.rt.now() + SESSION_TIMEOUT_MS;
            let mut turn = self.turn();
            turn.kept_requests.set(id, until);
            turn.request_alarm(Some(until));
        }
        Ok(())
    }

    /// Updates the agent state of a session for a CLI. Keeps completed requests that it lacks, and copies only new and changed ones.
    pub(in crate::hub) async fn update_agent_state(&self, update: &VersionedUpdate<'_>) -> Result<(), Error> {
        let VersionedUpdate { id, value, .. } = update;
        let received = split_agent_state(value)?;
        // A state that is not large is returned as the CLI sent it.
        let text = match received.without_completed.as_ref().is_some_and(is_large_state) {
            true => agent_state_to_text(received.without_completed.as_ref(), received_entries(&received)),
            false => TextParts::value(Some(value.clone())),
        };
        self.load_completed(id).await?;
        self.update_field(update, value.text().len(), |turn| {
            let completed = turn.select_completed_requests(id, &received, self.rt.now());
            let new = AgentState { without_completed: received.without_completed.clone(), completed };
            Ok((turn.set_agent_state(id, new, Some(update.from))?, text))
        })
        .await
    }

    /// Applies an update of `bytes`, or replies with the current value if the update is based on another. `apply` returns version and text.
    async fn update_field(
        &self,
        update: &VersionedUpdate<'_>,
        bytes: usize,
        apply: impl FnOnce(&mut Turn<'_>) -> Result<(u64, TextParts), Error>,
    ) -> Result<(), Error> {
        let mut is_answered = {
            let mut turn = self.turn();
            let session = &turn.cache.require_entry(update.id)?.session;
            let is_current = field_of(session, update.field).1 == update.expected_version;
            if is_current {
                turn.ensure_write_queue_has_room(bytes)?;
                let (version, value) = apply(&mut turn)?;
                turn.reply_on_commit(update.reply(true, version, value));
            }
            is_current
        };
        while !is_answered {
            // Loads in each attempt, because the completed requests may be evicted while `with_field` reads the value.
            self.load_completed(update.id).await?;
            let reply = |turn: &mut Turn<'_>, current| turn.try_reply_with_current_value(update, current);
            is_answered = self.with_field(update.id, |session| field_of(session, update.field).0, reply).await?;
        }
        self.start_commit();
        Ok(())
    }
}

impl Turn<'_> {
    /// Replies with the whole `current` value. Returns false, and does nothing, if the completed requests were evicted from memory.
    fn try_reply_with_current_value(
        &mut self,
        update: &VersionedUpdate<'_>,
        current: Option<Json>,
    ) -> Result<bool, Error> {
        let Some(entry) = self.state.cache.entry(update.id).filter(|entry| entry.completed.is_some()) else {
            return Ok(false);
        };
        let (stored, version) = field_of(&entry.session, update.field);
        let is_large = stored.large().is_some();
        let text = match update.field {
            VersionedField::AgentState => {
                let recent = entry.completed.iter().flat_map(|completed| completed.most_recent());
                agent_state_to_text(current.as_ref(), recent.map(|(id, entry)| (id, entry.raw())))
            }
            _ => TextParts::value(current),
        };
        let reply = update.reply(false, version, text);
        // A large value is durable, because it was read after a flush. A small value may be queued, so the reply waits for the commit.
        if is_large {
            reply.iter().for_each(|reply| self.send_committed_reply(reply));
        } else {
            self.state.ensure_write_queue_has_room(0)?;
            self.state.reply_on_commit(reply);
        }
        Ok(true)
    }
}
