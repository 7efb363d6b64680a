//! Versioned fields of a session: metadata and agent state. An update names the version it is based on (optimistic
//! concurrency); each change increments the version, and is sent to CLIs and web clients.

use crate::hub::turn::Turn;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::base::error::{Error, check_size};
use crate::hub::base::ports::ConnId;
use crate::hub::base::state::State;
use crate::hub::base::state::completed_requests::CompletedRequests;
use crate::hub::base::state::effect::{Effect, Reply};
use crate::hub::base::state::entry::Entry;
use crate::hub::base::versioned::{MakeReply, UpdateResult};
use crate::hub::sessions::changes::Changes;
use crate::hub::write::large::{self, GetField};
use crate::limits::{MAX_COMPLETED_BYTES, MAX_CONTENT_BYTES, MAX_INLINE_BYTES, MAX_PENDING_BYTES, MAX_REQUEST_BYTES};
use crate::model::agent_state::{self, AgentState, ReceivedState};
use crate::model::completed_request::CompletedRequest;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::Field;
use crate::model::owner::Owner;
use crate::model::session::fit_metadata;
use crate::model::text_parts::TextParts;
use crate::store::journal::Extent;
use crate::wire::update::{UpdateBody, VALUE_PLACEHOLDER, Versioned, update_frame};

/// A versioned field of a session.
struct VersionedField {
    get: GetField,
    /// Converts a value of the field to the text that CLIs receive.
    to_text: fn(&Entry, Option<Json>) -> TextParts,
}

const METADATA: VersionedField =
    VersionedField { get: large::metadata, to_text: |_, metadata| TextParts::value(metadata) };
const AGENT_STATE: VersionedField =
    VersionedField { get: large::agent_state, to_text: Entry::agent_state_with_recent_completed };

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
    /// Updates a session's metadata for a CLI. An active session that it archives ends.
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
        self.update(id, &METADATA, expected_version, value.text().len(), make_reply, |turn| {
            let version = turn.set_metadata(id, value.clone(), Some(from))?;
            was_active = turn.deactivate_if_archived(id)?;
            Ok(UpdateResult::Success { version, value: TextParts::journaled_value(Field::Metadata, Some(value)) })
        })
        .await?;
        if was_active {
            // An error must not be returned: the update is acknowledged already.
            self.cancel_archived(id).await;
        }
        Ok(())
    }

    /// Updates a session's agent state for a CLI. Completed requests that the update does not contain are not deleted; of
    /// those that it contains only new and changed ones are copied.
    pub async fn update_state(
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
        self.update(id, &AGENT_STATE, expected_version, value.text().len(), make_reply, |turn| {
            let completed = turn.select_completed_requests(id, &received, self.rt.now());
            let new = AgentState { base: received.base.clone(), completed };
            let version = turn.set_agent_state(id, new, Some(from))?;
            Ok(UpdateResult::Success { version, value: text })
        })
        .await
    }

    /// Applies an update of `bytes` if it is based on the current version, and queues the reply.
    async fn update(
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
            } else if current.large.is_none() {
                turn.ensure_write_queue_has_room(0)?;
                Some(UpdateResult::Mismatch { version, value: (field.to_text)(entry, current.value.cloned()) })
            } else {
                // The value must be read from the database.
                None
            };
            result.iter().filter_map(make_reply).for_each(|reply| turn.journal.on_commit(Effect::Reply(reply)));
            result
        };
        if result.is_none() {
            return self.reply_with_current_value(id, field, make_reply).await;
        }
        self.start_commit();
        Ok(())
    }

    /// Replies to an update that is based on another version, when the current value is large and must be read first.
    async fn reply_with_current_value(
        self: &Arc<Self>,
        id: &str,
        field: &VersionedField,
        make_reply: MakeReply<'_>,
    ) -> Result<(), Error> {
        loop {
            // In each attempt, because the completed requests may be evicted while `with_field` reads the value.
            self.load_completed(id).await?;
            let attempt = self
                .with_field(id, field.get, |turn, current| {
                    Ok(try_reply_with_current_value(turn, id, field, current, make_reply))
                })
                .await?;
            match attempt {
                ReplyAttempt::Ready(reply) => reply.into_iter().for_each(|reply| self.turn().answer(reply)),
                ReplyAttempt::Queued => {}
                ReplyAttempt::Evicted => continue,
            }
            self.start_commit();
            return Ok(());
        }
    }
}

impl Turn<'_> {
    /// Sets the metadata, which may be null, and queues the write, the update for the session's CLIs, and the event. `from`
    /// is the CLI that made the change: it gets a reply instead of the update. Returns the new version.
    pub(in crate::hub) fn set_metadata(&mut self, id: &str, value: Json, from: Option<ConnId>) -> Result<u64, Error> {
        let now = self.hub.rt.now();
        let State { cache, journal, .. } = &mut *self.state;
        let s = &mut cache.require_entry_mut(id)?.session;
        s.metadata_version += 1;
        s.updated_at = now;
        let version = s.metadata_version;
        let current = (&mut s.metadata, &mut s.metadata_large);
        let stored = Some(value.clone()).filter(|value| !value.is_null());
        self.hub.set_value(journal, (id, Field::Metadata), version, current, stored);
        let large = s.metadata_large.as_ref();
        // The event of a large value has only its size; web clients fetch the value.
        let changes = Changes {
            metadata: Some(&value).filter(|_| large.is_none()),
            metadata_bytes: large.map(|large| large.bytes),
            metadata_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        // `insert_into` replaces the null value, so that the frame shares the value instead of copying it.
        let versioned = Some(Versioned::new(version));
        let body = UpdateBody::UpdateSession { sid: id, metadata: versioned, agent_state: None };
        let frame = update_frame(&self.hub.new_id(), self.state.event_numbers.allocate(now), now, &body);
        let text = TextParts::journaled_value(Field::Metadata, Some(value.clone()));
        self.queue_update(id, from, text.insert_into(&frame, VALUE_PLACEHOLDER), event);
        Ok(version)
    }

    /// Sets the agent state, as [`Hub::set_metadata`] sets the metadata. Of the completed requests only new and changed ones
    /// are written and sent.
    pub(in crate::hub) fn set_agent_state(
        &mut self,
        id: &str,
        parts: AgentState,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.hub.rt.now();
        let changed = self.state.add_completed_requests(id, parts.completed, now);
        let State { cache, journal, .. } = &mut *self.state;
        let s = &mut cache.require_entry_mut(id)?.session;
        s.agent_state_version += 1;
        // Only a CLI can request a permission; a change by the hub completes or cancels requests.
        let notification = from.and_then(|_| self.hub.permission_notification(s, parts.base.as_ref()));
        s.updated_at = now;
        let version = s.agent_state_version;
        let joined = (!is_large_state(parts.base.as_ref()))
            .then(|| agent_state::join(parts.base.as_ref(), as_entries(&changed)));
        let text = match joined.clone() {
            Some(joined) => TextParts::value(joined),
            None => agent_state_to_text(parts.base.as_ref(), as_entries(&changed)),
        };
        // The event of a state above `MAX_INLINE_BYTES` has only its size; web clients fetch the self.
        let inline_value = joined.filter(|_| text.text_bytes() <= MAX_INLINE_BYTES);
        let current = (&mut s.agent_state, &mut s.agent_state_large);
        self.hub.set_value(journal, (id, Field::AgentState), version, current, parts.base);
        let changes = Changes {
            agent_state: inline_value.as_ref().map(Option::as_ref),
            agent_state_bytes: inline_value.is_none().then_some(text.text_bytes()),
            agent_state_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        let versioned = Some(Versioned::new(version));
        let body = UpdateBody::UpdateSession { sid: id, metadata: None, agent_state: versioned };
        let frame = update_frame(&self.hub.new_id(), self.state.event_numbers.allocate(now), now, &body);
        self.queue_update(id, from, text.insert_into(&frame, VALUE_PLACEHOLDER), event);
        notification.into_iter().for_each(|notification| self.state.journal.on_commit(Effect::Notify(notification)));
        self.keep_requests_if_inactive(id)?;
        Ok(version)
    }

    /// Queues the write of a session, the update frame for its CLIs except `from`, and the event.
    fn queue_update(&mut self, id: &str, from: Option<ConnId>, parts: TextParts, event: Event) {
        self.state.journal.queue_session(id, Extent::Whole);
        self.state.journal.on_commit(Effect::Update { owner: Owner::Session(id.to_owned()), except: from, parts });
        self.state.journal.on_commit(Effect::Publish(event));
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
    let (version, is_large) = (latest.version, latest.large.is_some());
    let reply = make_reply(&UpdateResult::Mismatch { version, value: (field.to_text)(entry, current) });
    // A large value is durable, because `with_field` reads it after a flush. A small one may still be in the queue, behind
    // which the reply must wait.
    if is_large {
        return ReplyAttempt::Ready(reply);
    }
    reply.into_iter().for_each(|reply| state.journal.on_commit(Effect::Reply(reply)));
    ReplyAttempt::Queued
}

impl State {
    /// Returns copies of the received completed requests that are to be added. Without the earlier ones in memory, every
    /// request counts as new.
    pub(in crate::hub) fn select_completed_requests(
        &mut self,
        session: &str,
        received: &ReceivedState<'_>,
        now: u64,
    ) -> Vec<(String, Json)> {
        let mut unknown = CompletedRequests::default();
        let Some(Entry { session, completed, .. }) = self.cache.entry_mut_keeping_summary(session) else {
            return unknown.select(received_entries(received), None, now);
        };
        let known = completed.as_mut().map_or(&mut unknown, Arc::make_mut);
        known.select(received_entries(received), session.agent_state.as_ref(), now)
    }

    /// Adds completed requests to the cache and queues their writes. Returns those that are new or changed. At the size
    /// limit of a session's completed requests the oldest are deleted, which may be some of the added ones.
    pub(in crate::hub) fn add_completed_requests(
        &mut self,
        session: &str,
        completed: Vec<(String, Json)>,
        now: u64,
    ) -> Vec<(String, Json)> {
        if completed.is_empty() {
            return completed;
        }
        let completed_at = |value: &Json| agent_state::completed_at(value.text()).unwrap_or(now);
        let entry = self.cache.entry_mut(session);
        // Without the earlier ones in memory, the limit is enforced when they are loaded.
        let mut unknown = CompletedRequests::default();
        let known = entry.and_then(|entry| entry.completed.as_mut()).map_or(&mut unknown, Arc::make_mut);
        let mut changed = Vec::new();
        for (id, value) in completed {
            let value = agent_state::shorten(value.text(), MAX_COMPLETED_BYTES).unwrap_or(value);
            if known.insert_if_new(&id, completed_at(&value), &value) {
                changed.push((id, value));
            }
        }
        if known.trim() {
            changed.retain(|(id, _)| known.contains(id));
            self.journal.trim_completed_requests(session);
        }
        for (request_id, value) in &changed {
            self.journal.queue_completed_request(CompletedRequest {
                session_id: session.to_owned(),
                request_id: request_id.clone(),
                completed_at: completed_at(value),
                value: value.clone(),
            });
        }
        changed
    }
}

/// Separates the completed requests of an agent state, and checks the sizes of the rest.
pub(in crate::hub) fn split_agent_state(value: &Json) -> Result<ReceivedState<'_>, Error> {
    let received = agent_state::split(value)?;
    received.base.iter().try_for_each(|base| check_size("agentState", base, MAX_CONTENT_BYTES))?;
    check_pending_sizes(received.base.as_ref())?;
    Ok(received)
}

fn check_pending_sizes(base: Option<&Json>) -> Result<(), Error> {
    if !is_large_state(base) {
        return Ok(());
    }
    let sizes = agent_state::pending_request_sizes(base);
    if sizes.iter().any(|bytes| *bytes > MAX_REQUEST_BYTES) {
        let what = "A permission request in `agentState.requests`".to_owned();
        return Err(Error::TooLarge { what, limit: MAX_REQUEST_BYTES, remedy: "Shorten its `arguments`." });
    }
    if sizes.iter().sum::<usize>() > MAX_PENDING_BYTES {
        let what = "The total of all permission requests in `agentState.requests`".to_owned();
        let remedy = "Wait for answers before you add requests.";
        return Err(Error::TooLarge { what, limit: MAX_PENDING_BYTES, remedy });
    }
    Ok(())
}

/// Returns the text of an agent state with these completed requests.
fn agent_state_to_text<'a>(base: Option<&Json>, completed: impl Iterator<Item = (&'a str, &'a RawValue)>) -> TextParts {
    match base.filter(|base| Field::AgentState.is_large(base)) {
        Some(base) => match agent_state::completed_to_json(completed) {
            Some(completed) => {
                TextParts::journaled_object_with(base.clone(), agent_state::COMPLETED_REQUESTS, &completed)
            }
            None => TextParts::journaled_value(Field::AgentState, Some(base.clone())),
        },
        None => TextParts::value(agent_state::join(base, completed)),
    }
}

fn is_large_state(base: Option<&Json>) -> bool {
    base.is_some_and(|base| Field::AgentState.is_large(base))
}

fn as_entries(completed: &[(String, Json)]) -> impl Iterator<Item = (&str, &RawValue)> {
    completed.iter().map(|(id, entry)| (id.as_str(), entry.raw()))
}

fn received_entries<'a>(received: &'a ReceivedState<'_>) -> impl DoubleEndedIterator<Item = (&'a str, &'a RawValue)> {
    received.completed.iter().map(|(id, entry)| (id.as_str(), *entry))
}

impl Entry {
    /// Returns the text of the agent state with the most recent completed requests.
    fn agent_state_with_recent_completed(&self, base: Option<Json>) -> TextParts {
        let recent = self.completed.iter().flat_map(|completed| completed.most_recent());
        agent_state_to_text(base.as_ref(), recent.map(|(id, entry)| (id, entry.raw())))
    }
}
