//! Changes of a session's versioned fields: metadata and agent state.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, check_size};
use crate::hub::core::ports::ConnId;
use crate::hub::core::sessions::cached_session::{CachedSession, HubQueue};
use crate::hub::core::sessions::completed_requests::CompletedRequests;
use crate::hub::core::state::State;
use crate::hub::push::notify::notification_for;
use crate::hub::sessions::changes::Changes;
use crate::hub::turn::Turn;
use crate::limits::{MAX_COMPLETED_REQUEST_BYTES, MAX_CONTENT_BYTES, MAX_INLINE_BYTES, MAX_REQUEST_BYTES};
use crate::model::agent_state::{self, AgentState, CompletedRequest, ReceivedState};
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::owner::Owner;
use crate::model::text_parts::TextParts;

/// The largest total size of pending permission requests, in bytes: all are completed at once when a session ends.
const MAX_PENDING_BYTES: usize = 2 * MAX_REQUEST_BYTES;

impl Turn<'_> {
    /// Sets the metadata, which may be null. Queues the update for the session's CLIs; `from`, the CLI that made the change, gets a reply
    /// instead. A session that has failed waits to be seen, and an archived one has ended. Returns the new version.
    pub fn set_metadata(&mut self, id: &str, value: Json, from: Option<ConnId>) -> Result<u64, Error> {
        let (ids, now) = (&self.hub.ids, self.hub.rt.now());
        let stored = Some(value.clone()).filter(|value| !value.is_null());
        let change = |entry: &mut CachedSession, write_queue: &mut HubQueue| {
            let s = &mut entry.session;
            let had_failed = s.metadata_fields().is_failed();
            (s.metadata_version, s.updated_at) = (s.metadata_version + 1, now);
            write_queue.set_value(ids, (id, VersionedField::Metadata), s.metadata_version, &mut s.metadata, stored);
            let fields = s.metadata_fields();
            let (is_failed, is_archived) = (fields.is_failed(), fields.is_archived());
            if is_archived && !s.active {
                s.ended_at = s.ended_at.or(Some(now));
            }
            s.unseen_since = match is_failed {
                true if !had_failed => Some(now),
                false if had_failed || is_archived => None,
                _ => s.unseen_since,
            };
            is_archived
        };
        let is_archived = self.state.change_entry(id, Changes::default(), change)?;
        let version = self.queue_metadata_update(id, value, from)?;
        if is_archived {
            self.state.delete_held(id)?;
        }
        Ok(version)
    }

    /// Queues the update of the metadata, which are `value`, for the session's CLIs. Returns their version.
    pub(super) fn queue_metadata_update(&mut self, id: &str, value: Json, from: Option<ConnId>) -> Result<u64, Error> {
        let version = self.state.cache.require_entry(id)?.session.metadata_version;
        let field = VersionedField::Metadata;
        let (owner, text) = (Owner::Session(id.to_owned()), TextParts::queued_value(field, Some(value)));
        self.queue_update(owner, from, field, version, text);
        Ok(version)
    }

    /// Sets the agent state, as [`Turn::set_metadata`] sets the metadata. Writes and sends only new and changed completed requests.
    pub fn set_agent_state(&mut self, id: &str, parts: AgentState, from: Option<ConnId>) -> Result<u64, Error> {
        let (hub, now) = (self.hub, self.hub.rt.now());
        let changed = self.state.add_completed_requests(id, parts.completed, now);
        let joined = (!parts.without_completed.as_ref().is_some_and(is_large_state))
            .then(|| agent_state::join(parts.without_completed.as_ref(), as_entries(&changed)));
        let text = match joined.clone() {
            Some(joined) => TextParts::value(joined),
            None => agent_state_to_text(parts.without_completed.as_ref(), as_entries(&changed)),
        };
        // The event of a state above `MAX_INLINE_BYTES` has only its size; web clients fetch the state.
        let inline_value = joined.filter(|_| text.text_bytes() <= MAX_INLINE_BYTES);
        let changes = Changes {
            agent_state: inline_value.as_ref().map(Option::as_ref),
            agent_state_bytes: inline_value.is_none().then_some(text.text_bytes()),
            ..Changes::default()
        };
        let change = |entry: &mut CachedSession, write_queue: &mut HubQueue| {
            let (s, new) = (&mut entry.session, parts.without_completed);
            // Only a CLI's change can request a permission. A change by the hub completes or cancels requests.
            let may_notify = from.is_some() && s.active;
            let new_requests = || agent_state::new_requests(s.agent_state.json(), new.as_ref());
            let notification = may_notify.then(new_requests).and_then(|requests| notification_for(s, &requests));
            (s.agent_state_version, s.updated_at) = (s.agent_state_version + 1, now);
            s.request_times = agent_state::request_times(new.as_ref(), s.request_times.as_ref(), now);
            let version = s.agent_state_version;
            write_queue.set_value(&hub.ids, (id, VersionedField::AgentState), version, &mut s.agent_state, new);
            (version, notification)
        };
        let (version, notification) = self.state.change_entry(id, changes, change)?;
        self.queue_update(Owner::Session(id.to_owned()), from, VersionedField::AgentState, version, text);
        if let Some(notification) = notification {
            self.state.write_queue.on_commit(Effect::Notify(notification));
        }
        self.start_request_retention(id)?;
        Ok(version)
    }
}

impl State {
    /// Returns copies of the received completed requests that are to be added: all, if those of the session are not loaded.
    pub fn select_completed_requests(&mut self, id: &str, state: &ReceivedState<'_>, now: u64) -> Vec<(String, Json)> {
        let mut unknown = CompletedRequests::default();
        let Some(CachedSession { session, completed, .. }) = self.cache.entry_mut_without_before_image(id) else {
            return unknown.select(received_entries(state), None, now);
        };
        let known = completed.as_mut().map_or(&mut unknown, Arc::make_mut);
        known.select(received_entries(state), session.agent_state.json(), now)
    }

    /// Adds completed requests to the cache and queues their writes. Above the size limit, deletes the oldest completed requests of
    /// the session. Returns the added requests that are new or changed and were not deleted.
    pub fn add_completed_requests(&mut self, session: &str, new: Vec<(String, Json)>, now: u64) -> Vec<(String, Json)> {
        if new.is_empty() {
            return new;
        }
        let completed_at = |value: &Json| agent_state::completed_at(value.text()).unwrap_or(now);
        let Self { cache, write_queue, .. } = self;
        let entry = cache.entry_mut(session, write_queue.queued_images());
        let is_loaded = entry.as_ref().is_some_and(|entry| entry.completed.is_some());
        // If the completed requests are not loaded, the limit is enforced when they are.
        let mut unknown = CompletedRequests::default();
        let known = entry.and_then(|entry| entry.completed.as_mut()).map_or(&mut unknown, Arc::make_mut);
        let mut changed = Vec::new();
        for (id, value) in new {
            let value = agent_state::shorten(value.text(), MAX_COMPLETED_REQUEST_BYTES).unwrap_or(value);
            if known.insert_if_new(&id, completed_at(&value), &value) {
                changed.push((id, value));
            }
        }
        if known.trim() {
            changed.retain(|(id, _)| known.contains(id));
            write_queue.trim_completed_requests(session);
        }
        if !is_loaded {
            cache.evictions.invalidate_reads(session);
        }
        for (request_id, value) in &changed {
            write_queue.queue_completed_request(CompletedRequest {
                session_id: session.to_owned(),
                request_id: request_id.clone(),
                completed_at: completed_at(value),
                value: value.clone(),
            });
        }
        changed
    }
}

/// Separates the completed requests of an agent state. Checks the size of the state without them, and of each pending request.
pub(in crate::hub) fn split_agent_state(value: &Json) -> Result<ReceivedState<'_>, Error> {
    let received = agent_state::split(value)?;
    let Some(without_completed) = received.without_completed.as_ref().filter(|state| is_large_state(state)) else {
        return Ok(received);
    };
    check_size("agentState", without_completed, MAX_CONTENT_BYTES)?;
    let pending = agent_state::pending_map(Some(without_completed));
    let sizes = || pending.members().map(|(_, request)| request.get().len());
    if sizes().any(|bytes| bytes > MAX_REQUEST_BYTES) {
        let what = "A permission request in `agentState.requests`".to_owned();
        return Err(Error::TooLarge { what, limit: MAX_REQUEST_BYTES, remedy: "Shorten its `arguments`." });
    }
    if sizes().sum::<usize>() > MAX_PENDING_BYTES {
        let what = "The total of all permission requests in `agentState.requests`".to_owned();
        let remedy = "Wait for answers before you add requests.";
        return Err(Error::TooLarge { what, limit: MAX_PENDING_BYTES, remedy });
    }
    Ok(received)
}

/// Returns the text of an agent state with these completed requests.
pub(in crate::hub) fn agent_state_to_text<'a>(
    without_completed: Option<&Json>,
    completed: impl Iterator<Item = (&'a str, &'a RawValue)>,
) -> TextParts {
    let Some(large) = without_completed.filter(|state| is_large_state(state)).cloned() else {
        return TextParts::value(agent_state::join(without_completed, completed));
    };
    match agent_state::completed_to_json(completed) {
        Some(completed) => TextParts::queued_object_with(large, agent_state::COMPLETED_REQUESTS, &completed),
        None => TextParts::queued_value(VersionedField::AgentState, Some(large)),
    }
}

pub(in crate::hub) fn is_large_state(without_completed: &Json) -> bool {
    VersionedField::AgentState.is_large(without_completed)
}

fn as_entries(completed: &[(String, Json)]) -> impl Iterator<Item = (&str, &RawValue)> {
    completed.iter().map(|(id, entry)| (id.as_str(), entry.raw()))
}

pub(in crate::hub) fn received_entries<'a>(
    received: &'a ReceivedState<'_>,
) -> impl DoubleEndedIterator<Item = (&'a str, &'a RawValue)> {
    received.completed.iter().map(|(id, entry)| (id.as_str(), *entry))
}
