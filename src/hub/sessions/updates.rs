//! Versioned values of a session: metadata and agent state. An update names the version it is based on (optimistic
//! concurrency); each change increments the version, and is sent to CLIs and web clients.

use std::sync::Arc;

use crate::hub::error::{Error, check_size};
use crate::hub::large::{self, GetField};
use crate::hub::limits::{MAX_COMPLETED_AT_ONCE, MAX_COMPLETED_BYTES, MAX_CONTENT_BYTES, MAX_REQUEST_BYTES};
use crate::hub::ports::ConnId;
use crate::hub::sessions::changes::Changes;
use crate::hub::state::cache::Entry;
use crate::hub::state::completed_requests::CompletedRequests;
use crate::hub::state::effect::Effect;
use crate::hub::versioned::{Reply, Updated};
use crate::hub::{Hub, State};
use crate::model::agent_state::{self, AgentState};
use crate::model::completed_request::CompletedRequest;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::{Field, MAX_INLINE_BYTES};
use crate::model::owner::Owner;
use crate::model::session::check_metadata;
use crate::model::text_parts::TextParts;
use crate::store::journal::Extent;
use crate::wire::update::{UpdateBody, VALUE_PLACEHOLDER, Versioned, update_frame};

/// A versioned field of a session.
struct VersionedField {
    get: GetField,
    /// Returns a value of the field as CLIs see it.
    text: fn(&Entry, Option<Json>) -> TextParts,
}

const METADATA: VersionedField =
    VersionedField { get: large::metadata, text: |_, metadata| TextParts::value(metadata) };
const AGENT_STATE: VersionedField = VersionedField { get: large::agent_state, text: Entry::agent_state_text };

impl Hub {
    /// Updates a session's metadata for a CLI. `reply` makes the answer.
    pub async fn update_metadata(
        self: &Arc<Self>,
        id: &str,
        expected: u64,
        value: Json,
        from: ConnId,
        reply: Reply<'_>,
    ) -> Result<(), Error> {
        check_size("metadata", &value, MAX_CONTENT_BYTES)?;
        check_metadata(&value)?;
        self.load_session(id).await?;
        self.update(id, &METADATA, expected, reply, value.text().len(), |state| {
            let version = self.set_metadata(state, id, value.clone(), Some(from))?;
            Ok(Updated::Success { version, value: TextParts::journaled_value(Field::Metadata, Some(value)) })
        })
        .await
    }

    /// Updates a session's agent state for a CLI. `reply` makes the answer. Completed requests that the update does not
    /// contain are kept: they are an audit log.
    pub async fn update_state(
        self: &Arc<Self>,
        id: &str,
        expected: u64,
        value: Json,
        from: ConnId,
        reply: Reply<'_>,
    ) -> Result<(), Error> {
        let new = split_agent_state(&value)?;
        let text = match is_large_state(new.base.as_ref()) {
            true => agent_state_text(new.base.as_ref(), new.completed.iter().map(|(id, entry)| (id.as_str(), entry))),
            false => TextParts::value(Some(value.clone())),
        };
        self.load_completed(id).await?;
        self.update(id, &AGENT_STATE, expected, reply, value.text().len(), |state| {
            let version = self.set_agent_state(state, id, new, Some(from))?;
            Ok(Updated::Success { version, value: text })
        })
        .await
    }

    /// Applies an update if it names the current version, and queues the answer.
    async fn update(
        self: &Arc<Self>,
        id: &str,
        field: &VersionedField,
        expected: u64,
        reply: Reply<'_>,
        bytes: usize,
        apply: impl FnOnce(&mut State) -> Result<Updated, Error>,
    ) -> Result<(), Error> {
        let updated = {
            let mut state = self.state();
            let entry = state.cache.session(id)?;
            let current = (field.get)(&entry.session);
            let version = current.version;
            let updated = if version == expected {
                state.check_queue_for(bytes)?;
                Some(apply(&mut state)?)
            } else if current.large.is_none() {
                state.check_queue()?;
                Some(Updated::Mismatch { version, value: (field.text)(entry, current.value.cloned()) })
            } else {
                None
            };
            updated.iter().filter_map(reply).for_each(|effect| state.journal.on_commit(effect));
            updated
        };
        if updated.is_none() {
            return self.reply_with_current_value(id, field, reply).await;
        }
        self.start_commit();
        Ok(())
    }

    /// Answers an update of another version with the current value, which is large and has to be read first.
    async fn reply_with_current_value(
        self: &Arc<Self>,
        id: &str,
        field: &VersionedField,
        reply: Reply<'_>,
    ) -> Result<(), Error> {
        let answer = |state: &mut State, current: Option<Json>| {
            // The completed requests may have been evicted during the read.
            let Some(entry) = state.cache.entry(id).filter(|entry| entry.completed.is_some()) else { return Ok(None) };
            let latest = (field.get)(&entry.session);
            let answer = reply(&Updated::Mismatch { version: latest.version, value: (field.text)(entry, current) });
            // A large value was read after a flush, so it is durable.
            if latest.large.is_some() {
                return Ok(Some(answer));
            }
            answer.into_iter().for_each(|answer| state.journal.on_commit(answer));
            Ok(Some(None))
        };
        loop {
            self.load_completed(id).await?;
            if let Some(answer) = self.with_field(id, field.get, answer).await? {
                self.run_effects(answer.into_iter().collect(), 0..0);
                self.start_commit();
                return Ok(());
            }
        }
    }

    /// Sets the metadata, and queues the write, the update for CLIs other than `from`, and the event.
    pub(in crate::hub) fn set_metadata(
        &self,
        state: &mut State,
        id: &str,
        value: Json,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.rt.now();
        let State { cache, journal, .. } = state;
        let s = &mut cache.session_mut(id)?.session;
        s.metadata_version += 1;
        s.updated_at = now;
        let version = s.metadata_version;
        let current = (&mut s.metadata, &mut s.metadata_large);
        self.set_value(journal, (id, Field::Metadata), version, current, Some(value.clone()));
        let large = s.metadata_large.as_ref();
        let changes = Changes {
            metadata: s.metadata.as_ref().filter(|_| large.is_none()),
            metadata_bytes: large.map(|large| large.bytes),
            metadata_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        let metadata = Some(Versioned { version, value: None });
        let body = UpdateBody::UpdateSession { sid: id, metadata, agent_state: None };
        let frame = update_frame(&self.new_id(), state.event_numbers.allocate(now), now, &body);
        self.queue_update(
            state,
            id,
            from,
            TextParts::journaled_value(Field::Metadata, Some(value)).insert_into(&frame, VALUE_PLACEHOLDER),
            event,
        );
        Ok(version)
    }

    /// Sets the agent state like [`Hub::set_metadata`]. Only completed requests that are new or changed are written and sent.
    pub(in crate::hub) fn set_agent_state(
        &self,
        state: &mut State,
        id: &str,
        parts: AgentState,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.rt.now();
        let changed = state.record_completed(id, parts.completed, now);
        let State { cache, journal, .. } = state;
        let s = &mut cache.session_mut(id)?.session;
        s.agent_state_version += 1;
        let notification = from.and_then(|_| self.permission_notification(s, parts.base.as_ref()));
        s.updated_at = now;
        let version = s.agent_state_version;
        let entries = changed.iter().map(|(id, value)| (id.as_str(), value));
        let small =
            (!is_large_state(parts.base.as_ref())).then(|| agent_state::join(parts.base.as_ref(), entries.clone()));
        let text = small.clone().map_or_else(|| agent_state_text(parts.base.as_ref(), entries), TextParts::value);
        let small = small.filter(|_| text.text_bytes() <= MAX_INLINE_BYTES);
        let current = (&mut s.agent_state, &mut s.agent_state_large);
        self.set_value(journal, (id, Field::AgentState), version, current, parts.base);
        let changes = Changes {
            agent_state: small.as_ref().map(Option::as_ref),
            agent_state_bytes: small.is_none().then_some(text.text_bytes()),
            agent_state_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        let value = Some(Versioned { version, value: None });
        let body = UpdateBody::UpdateSession { sid: id, metadata: None, agent_state: value };
        let frame = update_frame(&self.new_id(), state.event_numbers.allocate(now), now, &body);
        self.queue_update(state, id, from, text.insert_into(&frame, VALUE_PLACEHOLDER), event);
        notification.into_iter().for_each(|notification| state.journal.on_commit(Effect::Notify(notification)));
        Ok(version)
    }

    fn queue_update(&self, state: &mut State, id: &str, from: Option<ConnId>, frame: TextParts, event: Event) {
        state.journal.queue_session(id, Extent::Whole);
        state.journal.on_commit(Effect::Update { owner: Owner::Session(id.to_owned()), except: from, frame });
        state.journal.on_commit(Effect::Publish(event));
    }
}

impl State {
    /// Adds completed requests to the cache and queues their writes. Returns those that are new or changed. One that is
    /// older than all of a full list is dropped.
    pub(in crate::hub) fn record_completed(
        &mut self,
        session: &str,
        mut completed: Vec<(String, Json)>,
        now: u64,
    ) -> Vec<(String, Json)> {
        let completed_at = |value: &Json| agent_state::completed_at(value).unwrap_or(now);
        // A list that is not loaded is trimmed when it is; until then every request counts as changed.
        if let Some(record) = self.cache.entry_mut_keeping_summary(session).and_then(|entry| entry.completed.as_mut()) {
            completed.retain(|(id, value)| record.is_new_or_changed(id, value));
            for (id, value) in &completed {
                record.insert(id.clone(), completed_at(value), value.clone());
            }
            if record.trim() {
                completed.retain(|(id, _)| record.contains(id));
                self.journal.trim_completed_requests(session);
            }
        }
        for (request_id, value) in &completed {
            self.journal.queue_completed_request(CompletedRequest {
                session_id: session.to_owned(),
                request_id: request_id.clone(),
                completed_at: completed_at(value),
                value: value.clone(),
            });
        }
        completed
    }
}

/// Splits an agent state, and checks the size of each part.
pub(in crate::hub) fn split_agent_state(value: &Json) -> Result<AgentState, Error> {
    let parts = agent_state::split(value)?;
    parts.base.iter().try_for_each(|base| check_size("agentState", base, MAX_CONTENT_BYTES))?;
    check_pending(parts.base.as_ref())?;
    parts.completed.iter().try_for_each(|(_, entry)| check_size("completed request", entry, MAX_COMPLETED_BYTES))?;
    let bytes: usize = parts.completed.iter().map(|(id, entry)| id.len() + entry.text().len()).sum();
    if bytes > MAX_COMPLETED_AT_ONCE {
        return Err(Error::TooLarge {
            what: "total of completed requests in one update",
            limit: MAX_COMPLETED_AT_ONCE,
        });
    }
    Ok(parts)
}

/// Checks pending requests: each is completed at some time, possibly all at once, and must fit then.
fn check_pending(base: Option<&Json>) -> Result<(), Error> {
    if !is_large_state(base) {
        return Ok(());
    }
    let sizes = agent_state::pending_request_sizes(base);
    if sizes.iter().any(|bytes| *bytes > MAX_REQUEST_BYTES) {
        return Err(Error::TooLarge { what: "permission request", limit: MAX_REQUEST_BYTES });
    }
    if sizes.iter().sum::<usize>() > MAX_COMPLETED_AT_ONCE {
        return Err(Error::TooLarge { what: "total of pending permission requests", limit: MAX_COMPLETED_AT_ONCE });
    }
    Ok(())
}

/// Returns an agent state with completed requests, as CLIs see it.
fn agent_state_text<'a>(base: Option<&Json>, completed: impl Iterator<Item = (&'a str, &'a Json)>) -> TextParts {
    match base.filter(|base| Field::AgentState.is_large(base)) {
        Some(base) => match agent_state::completed_to_json(completed) {
            Some(record) => TextParts::journaled_object_with(base.clone(), agent_state::COMPLETED_REQUESTS, &record),
            None => TextParts::journaled_value(Field::AgentState, Some(base.clone())),
        },
        None => TextParts::value(agent_state::join(base, completed)),
    }
}

fn is_large_state(base: Option<&Json>) -> bool {
    base.is_some_and(|base| Field::AgentState.is_large(base))
}

impl Entry {
    /// Returns the agent state with the most recent completed requests.
    fn agent_state_text(&self, base: Option<Json>) -> TextParts {
        agent_state_text(base.as_ref(), self.completed.iter().flat_map(CompletedRequests::most_recent))
    }
}
