//! The versioned values of a session: metadata and agent state. Each change counts the version up, and CLIs and web
//! clients hear of it.

use std::sync::Arc;

use serde::Serialize;

use crate::hub::error::{Error, Kind, check_size};
use crate::hub::large::{self, METADATA, Part};
use crate::hub::peers::frame_parts::FrameParts;
use crate::hub::ports::ConnId;
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
use crate::model::session::{ControlMode, Session, check_metadata};
use crate::store::completed_requests;
use crate::store::journal::Extent;
use crate::store::limits::{MAX_COMPLETED_AT_ONCE, MAX_COMPLETED_BYTES, MAX_CONTENT_BYTES, MAX_REQUEST_BYTES};
use crate::wire::update::{UpdateBody, VALUE_PLACEHOLDER, Versioned, update_frame};

/// The parts of a session that changed, for `session-updated`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes<'a> {
    /// Whether it is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Its last sign of life, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_at: Option<u64>,
    /// Whether its agent is at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// When that was last told, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_at: Option<u64>,
    /// Who is in control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ControlMode>,
    /// The permission mode of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<&'a str>,
    /// The model of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<&'a str>,
    /// Its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<&'a Json>,
    /// How many bytes they have; in the place of a large one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_bytes: Option<usize>,
    /// The version of its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_version: Option<u64>,
    /// With the completed requests that changed; a client adds them to those that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Option<&'a Json>>,
    /// In the place of a large one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state_bytes: Option<usize>,
    /// The version of its agent state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state_version: Option<u64>,
    /// Its todo list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<&'a Json>,
    /// The seq of its newest message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it last changed, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<u64>,
}

impl<'a> Changes<'a> {
    /// Activity and times: what a client needs to draw the session's line.
    pub fn presence(s: &'a Session) -> Self {
        Self {
            active: Some(s.active),
            active_at: Some(s.active_at),
            thinking: Some(s.thinking),
            thinking_at: Some(s.thinking_at),
            mode: s.mode,
            permission_mode: s.permission_mode.as_deref(),
            model_mode: s.model_mode.as_deref(),
            seq: Some(s.seq),
            updated_at: Some(s.updated_at),
            ..Self::default()
        }
    }
}

/// One of a session's versioned values, and what a CLI is told of it.
struct Told {
    part: &'static Part,
    text: fn(&Entry, Option<Json>) -> FrameParts,
}

const TOLD_METADATA: Told = Told { part: &METADATA, text: |_, metadata| FrameParts::value(metadata) };
const TOLD_STATE: Told = Told { part: &large::AGENT_STATE, text: Entry::recent_state };

impl Hub {
    /// A CLI's versioned update of a session's metadata. The outcome is told through `reply`.
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
        self.update(id, &TOLD_METADATA, expected, reply, value.text().len(), |state| {
            let version = self.set_metadata(state, id, value.clone(), Some(from))?;
            Ok(Updated::Success { version, value: FrameParts::journaled_value(Field::Metadata, Some(value)) })
        })
        .await
    }

    /// A CLI's versioned update of a session's agent state. The outcome is told through `reply`.
    ///
    /// Completed requests are an audit record that only grows: those that the update does not name stay.
    pub async fn update_state(
        self: &Arc<Self>,
        id: &str,
        expected: u64,
        value: Json,
        from: ConnId,
        reply: Reply<'_>,
    ) -> Result<(), Error> {
        let parts = read_parts(&value)?;
        let said = match is_large_state(parts.base.as_ref()) {
            true => told_state(parts.base.as_ref(), parts.completed.iter().map(|(id, entry)| (id.as_str(), entry))),
            false => FrameParts::value(Some(value.clone())),
        };
        self.load_completed(id).await?;
        self.update(id, &TOLD_STATE, expected, reply, value.text().len(), |state| {
            let version = self.set_agent_state(state, id, parts, Some(from))?;
            Ok(Updated::Success { version, value: said })
        })
        .await
    }

    /// Sets a value of a session in memory when the update names the version that stands, and notes the answer.
    async fn update(
        self: &Arc<Self>,
        id: &str,
        told: &Told,
        expected: u64,
        reply: Reply<'_>,
        bytes: usize,
        set: impl FnOnce(&mut State) -> Result<Updated, Error>,
    ) -> Result<(), Error> {
        let stands = {
            let mut state = self.state();
            let entry = state.cache.entry(id).ok_or(Error::Missing(Kind::Session))?;
            let version = (told.part.version)(&entry.session);
            let updated = match (told.part.kept)(&entry.session) {
                _ if version == expected => {
                    state.check_queue_for(bytes)?;
                    Some(set(&mut state)?)
                }
                (value, None) => {
                    state.check_queue()?;
                    Some(Updated::Mismatch { version, value: (told.text)(entry, value.cloned()) })
                }
                (_, Some(_)) => None,
            };
            let noted = updated.is_some();
            updated
                .and_then(|updated| reply(&updated))
                .into_iter()
                .for_each(|outcome| state.journal.on_commit(outcome));
            !noted
        };
        if stands {
            return self.reply_with_current_value(id, told, reply).await;
        }
        self.flush();
        Ok(())
    }

    /// Answers an update with a large value that stands. It is durable, and told at once: it need not wait in memory.
    async fn reply_with_current_value(self: &Arc<Self>, id: &str, told: &Told, reply: Reply<'_>) -> Result<(), Error> {
        let answer = |state: &mut State, whole: Option<Json>| {
            // Memory may have let go of the completed requests meanwhile.
            let Some(entry) = state.cache.entry(id).filter(|entry| entry.completed.is_some()) else { return Ok(None) };
            let version = (told.part.version)(&entry.session);
            let is_durable = (told.part.kept)(&entry.session).1.is_some();
            let answer = reply(&Updated::Mismatch { version, value: (told.text)(entry, whole) });
            let (now, later) = if is_durable { (answer, None) } else { (None, answer) };
            later.into_iter().for_each(|answer| state.journal.on_commit(answer));
            Ok(Some(now))
        };
        loop {
            self.load_completed(id).await?;
            if let Some(answer) = self.change(id, told.part, answer).await? {
                self.run_effects(answer.into_iter().collect(), 0..0);
                self.flush();
                return Ok(());
            }
        }
    }

    /// Sees to it that a session is in memory with its completed requests.
    pub(in crate::hub) async fn load_completed(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        loop {
            self.load_session(id).await?;
            let loaded = |state: &State| state.cache.entry(id).map(|entry| entry.completed.is_some());
            if loaded(&self.state()) == Some(true) {
                return Ok(());
            }
            // What is noted and not yet durable would be missing in the answer; what is noted later shows by the version.
            let version = self.state().cache.entry(id).map(|entry| entry.session.agent_state_version);
            self.flushed().await?;
            let completed = completed_requests::load(&self.db, &self.config.namespace, id).await?;
            let mut state = self.state();
            if let Some(entry) = state.cache.entry_mut_keeping_summary(id) {
                // A change that came meanwhile sets this load aside: the next one sees it.
                if Some(entry.session.agent_state_version) == version && entry.completed.is_none() {
                    entry.completed = Some(CompletedRequests::loaded(completed.entries));
                    if completed.exceeds_limit {
                        state.journal.trim_completed_requests(id);
                    }
                    state.evict();
                }
            }
        }
    }

    /// Puts new metadata in place.
    pub(in crate::hub) fn set_metadata(
        &self,
        state: &mut State,
        id: &str,
        value: Json,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.rt.now();
        let State { cache, journal, .. } = state;
        let s = &mut cache.entry_mut(id).ok_or(Error::Missing(Kind::Session))?.session;
        s.metadata_version += 1;
        s.updated_at = now;
        let version = s.metadata_version;
        let old = s.metadata_large.take();
        (s.metadata, s.metadata_large) =
            self.keep(journal, (id, Field::Metadata), version, old.as_ref(), Some(value.clone()));
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
        self.tell(
            state,
            id,
            from,
            FrameParts::journaled_value(Field::Metadata, Some(value)).insert_into(&frame, VALUE_PLACEHOLDER),
            event,
        );
        Ok(version)
    }

    /// Puts a new agent state in place. Of the completed requests only those that differ are written and told.
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
        let s = &mut cache.entry_mut(id).ok_or(Error::Missing(Kind::Session))?.session;
        s.agent_state_version += 1;
        let notification = from.and_then(|_| self.permission_notification(s, parts.base.as_ref()));
        s.updated_at = now;
        let version = s.agent_state_version;
        let entries = changed.iter().map(|(id, value)| (id.as_str(), value));
        let small =
            (!is_large_state(parts.base.as_ref())).then(|| agent_state::join(parts.base.as_ref(), entries.clone()));
        let told = small.clone().map_or_else(|| told_state(parts.base.as_ref(), entries), FrameParts::value);
        let small = small.filter(|_| told.text_bytes() <= MAX_INLINE_BYTES);
        let old = s.agent_state_large.take();
        (s.agent_state, s.agent_state_large) =
            self.keep(journal, (id, Field::AgentState), version, old.as_ref(), parts.base);
        let changes = Changes {
            agent_state: small.as_ref().map(Option::as_ref),
            agent_state_bytes: small.is_none().then_some(told.text_bytes()),
            agent_state_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        let value = Some(Versioned { version, value: None });
        let body = UpdateBody::UpdateSession { sid: id, metadata: None, agent_state: value };
        let frame = update_frame(&self.new_id(), state.event_numbers.allocate(now), now, &body);
        self.tell(state, id, from, told.insert_into(&frame, VALUE_PLACEHOLDER), event);
        notification.into_iter().for_each(|notification| state.journal.on_commit(Effect::Notify(notification)));
        Ok(version)
    }

    fn tell(&self, state: &mut State, id: &str, from: Option<ConnId>, frame: FrameParts, event: Event) {
        state.journal.queue_session(id, Extent::Whole);
        state.journal.on_commit(Effect::Update { owner: Owner::Session(id.to_owned()), except: from, frame });
        state.journal.on_commit(Effect::Publish(event));
    }
}

impl State {
    /// Takes completed requests into the record, in memory and in the journal; answers those that are new or say something
    /// else than before. One that is too old for a record that is full is as one that went already.
    pub(in crate::hub) fn record_completed(
        &mut self,
        session: &str,
        mut completed: Vec<(String, Json)>,
        now: u64,
    ) -> Vec<(String, Json)> {
        let completed_at = |value: &Json| agent_state::completed_at(value).unwrap_or(now);
        // A record that is not loaded is trimmed when it is: until then whatever comes counts as a change.
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

/// A state taken apart, each part of a size that can be kept.
pub(in crate::hub) fn read_parts(value: &Json) -> Result<AgentState, Error> {
    let parts = agent_state::split(value)?;
    parts.base.iter().try_for_each(|base| check_size("agentState", base, MAX_CONTENT_BYTES))?;
    check_waiting(parts.base.as_ref())?;
    parts.completed.iter().try_for_each(|(_, entry)| check_size("completed request", entry, MAX_COMPLETED_BYTES))?;
    let bytes: usize = parts.completed.iter().map(|(id, entry)| id.len() + entry.text().len()).sum();
    if bytes > MAX_COMPLETED_AT_ONCE {
        return Err(Error::TooLarge { what: "sum of completed requests in one update", limit: MAX_COMPLETED_AT_ONCE });
    }
    Ok(parts)
}

/// What waits is completed some time, all at once it may be.
fn check_waiting(base: Option<&Json>) -> Result<(), Error> {
    if !is_large_state(base) {
        return Ok(());
    }
    let sizes = agent_state::pending_request_sizes(base);
    if sizes.iter().any(|bytes| *bytes > MAX_REQUEST_BYTES) {
        return Err(Error::TooLarge { what: "permission request", limit: MAX_REQUEST_BYTES });
    }
    if sizes.iter().sum::<usize>() > MAX_COMPLETED_AT_ONCE {
        return Err(Error::TooLarge { what: "sum of the requests that wait", limit: MAX_COMPLETED_AT_ONCE });
    }
    Ok(())
}

/// A state with completed requests, as CLIs are told of it.
fn told_state<'a>(base: Option<&Json>, completed: impl Iterator<Item = (&'a str, &'a Json)>) -> FrameParts {
    match base.filter(|base| Field::AgentState.is_large(base)) {
        Some(base) => match agent_state::completed_to_json(completed) {
            Some(record) => FrameParts::journaled_object_with(base.clone(), agent_state::COMPLETED_REQUESTS, &record),
            None => FrameParts::journaled_value(Field::AgentState, Some(base.clone())),
        },
        None => FrameParts::value(agent_state::join(base, completed)),
    }
}

fn is_large_state(base: Option<&Json>) -> bool {
    base.is_some_and(|base| Field::AgentState.is_large(base))
}

impl Entry {
    /// The agent state with the newest completed requests.
    fn recent_state(&self, base: Option<Json>) -> FrameParts {
        told_state(base.as_ref(), self.completed.iter().flat_map(CompletedRequests::most_recent))
    }
}
