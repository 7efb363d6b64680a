//! Versioned fields of a session: metadata and agent state. An update names the version it is based on (optimistic
//! concurrency); each change increments the version, and is sent to CLIs and web clients.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::base::error::{Error, check_size};
use crate::hub::base::ports::ConnId;
use crate::hub::base::state::State;
use crate::hub::base::state::cached_session::CachedSession;
use crate::hub::base::state::effect::{Effect, Reply};
use crate::hub::base::versioned::{MakeReply, UpdateResult};
use crate::hub::sessions::fields::{agent_state_to_text, is_large_state, received_entries, split_agent_state};
use crate::hub::turn::Turn;
use crate::hub::write::large::{self, GetField};
use crate::limits::MAX_CONTENT_BYTES;
use crate::model::agent_state::AgentState;
use crate::model::json::Json;
use crate::model::large::Field;
use crate::model::session::fit_metadata;
use crate::model::text_parts::TextParts;

/// A versioned field of a session.
struct VersionedField {
    get: GetField,
    /// Converts a value of the field to the text that CLIs receive.
    to_text: fn(&CachedSession, Option<Json>) -> TextParts,
}

const METADATA: VersionedField =
    VersionedField { get: large::metadata, to_text: |_, metadata| TextParts::value(metadata) };
const AGENT_STATE: VersionedField =
    VersionedField { get: large::agent_state, to_text: CachedSession::agent_state_with_recent_completed };

/// The outcome of [`try_reply_with_current_value`].
enum ReplyAttempt {
    /// The reply is to be sent; `None` when the CLI asked for no acknowledgement.
    Ready(Option<Reply>),
    /// The reply is sent after the next commit.
    Queued,
    /// The completed requests were evicted from memory, and have to be loaded again.
    Evicted,
}

impl Hub {
    /// Updates a session's metadata for a CLI. If the update archives an active session, ends the session.
    pub async fn update_metadata(
        self: &Arc<Self>,
        id: &str,
        expected_version: u64,
        value: Json,
        from: ConnId,
        make_reply: MakeReply<'_>,
    ) -> Result<(), Error> {
        check_size("metadata", &value, MAX_CONTENT_BYTES)?;
        let value = if value.is_null() { value } else { fit_metadata(&value)? };
        self.load_session(id).await?;
        let mut was_active = false;
        self.update_field(id, &METADATA, expected_version, value.text().len(), make_reply, |turn| {
            let version = turn.set_metadata(id, value.clone(), Some(from))?;
            was_active = turn.deactivate_if_archived(id)?;
            Ok(UpdateResult::Success { version, value: TextParts::queued_value(Field::Metadata, Some(value)) })
        })
        .await?;
        if was_active {
            // Returns no error, because the update is already acknowledged.
            self.cancel_archived(id).await;
        }
        Ok(())
    }

    /// Updates a session's agent state for a CLI. Keeps completed requests that the update does not contain. Copies only those
    /// completed requests of the update that are new or changed.
    pub async fn update_agent_state(
        self: &Arc<Self>,
        id: &str,
        expected_version: u64,
        value: Json,
        from: ConnId,
        make_reply: MakeReply<'_>,
    ) -> Result<(), Error> {
        let received = split_agent_state(&value)?;
        // A state that is not large is returned as the CLI sent it.
        let text = match is_large_state(received.base.as_ref()) {
            true => agent_state_to_text(received.base.as_ref(), received_entries(&received)),
            false => TextParts::value(Some(value.clone())),
        };
        self.load_completed(id).await?;
        self.update_field(id, &AGENT_STATE, expected_version, value.text().len(), make_reply, |turn| {
            let completed = turn.select_completed_requests(id, &received, self.rt.now());
            let new = AgentState { base: received.base.clone(), completed };
            let version = turn.set_agent_state(id, new, Some(from))?;
            Ok(UpdateResult::Success { version, value: text })
        })
        .await
    }

    /// Applies an update of `bytes` if it is based on the current version, and queues the reply.
    async fn update_field(
        self: &Arc<Self>,
        id: &str,
        field: &VersionedField,
        expected_version: u64,
        bytes: usize,
        make_reply: MakeReply<'_>,
        apply: impl FnOnce(&mut Turn<'_>) -> Result<UpdateResult, Error>,
    ) -> Result<(), Error> {
        let result = {
            let mut turn = self.turn();
            let entry = turn.cache.require_entry(id)?;
            let current = (field.get)(&entry.session);
            let version = current.version;
            let result = if version == expected_version {
                turn.ensure_write_queue_has_room(bytes)?;
                Some(apply(&mut turn)?)
            } else if current.stored.large().is_none() {
                turn.ensure_write_queue_has_room(0)?;
                Some(UpdateResult::Mismatch { version, value: (field.to_text)(entry, current.stored.json().cloned()) })
            } else {
                // The value must be read from the database.
                None
            };
            result.iter().filter_map(make_reply).for_each(|reply| turn.write_queue.on_commit(Effect::Reply(reply)));
            result
        };
        if result.is_none() {
            return self.reply_with_current_value(id, field, make_reply).await;
        }
        self.start_commit();
        Ok(())
    }

    /// Replies to an update that is based on another version. The current value is large, and is read first.
    async fn reply_with_current_value(
        self: &Arc<Self>,
        id: &str,
        field: &VersionedField,
        make_reply: MakeReply<'_>,
    ) -> Result<(), Error> {
        loop {
            // Loads in each attempt, because the completed requests may be evicted while `with_field` reads the value.
            self.load_completed(id).await?;
            let attempt = self
                .with_field(id, field.get, |turn, current| {
                    Ok(try_reply_with_current_value(turn, id, field, current, make_reply))
                })
                .await?;
            match attempt {
                ReplyAttempt::Ready(reply) => {
                    reply.into_iter().for_each(|reply| self.turn().send_committed_reply(reply))
                }
                ReplyAttempt::Queued => {}
                ReplyAttempt::Evicted => continue,
            }
            self.start_commit();
            return Ok(());
        }
    }
}

/// Makes the reply to an update that is based on another version. `current` is the complete current value.
fn try_reply_with_current_value(
    state: &mut State,
    id: &str,
    field: &VersionedField,
    current: Option<Json>,
    make_reply: MakeReply<'_>,
) -> ReplyAttempt {
    let Some(entry) = state.cache.entry(id).filter(|entry| entry.completed.is_some()) else {
        return ReplyAttempt::Evicted;
    };
    let latest = (field.get)(&entry.session);
    let (version, is_large) = (latest.version, latest.stored.large().is_some());
    let reply = make_reply(&UpdateResult::Mismatch { version, value: (field.to_text)(entry, current) });
    // A large value is durable, because `with_field` reads it after a flush. A small value may still be queued, so the reply waits for
    // the commit.
    if is_large {
        return ReplyAttempt::Ready(reply);
    }
    reply.into_iter().for_each(|reply| state.write_queue.on_commit(Effect::Reply(reply)));
    ReplyAttempt::Queued
}
