//! The versioned values of a session: metadata and agent state. Each change counts the version up, and CLIs and web
//! clients hear of it.

use std::sync::Arc;

use serde::Serialize;

use super::commit::Outcome;
use super::error::{Error, Kind};
use super::memory::Entry;
use super::ports::ConnId;
use super::record::Record;
use super::rpc::Owner;
use super::sessions::check_size;
use super::sockets::update_frame;
use super::{Hub, State};
use crate::model::agent_state::{self, Parts};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::session::{ControlMode, Session, check_metadata};
use crate::store::journal::{CompletedRequest, Extent};
use crate::store::rows::{MAX_COMPLETED_AT_ONCE, MAX_COMPLETED_BYTES, MAX_METADATA_BYTES, MAX_STATE_BYTES};
use crate::store::sessions as store;
use crate::wire::cli::{UpdateBody, Versioned};

/// The parts of a session that changed, for `session-updated`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ControlMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_version: Option<u64>,
    /// With the completed requests that changed; a client adds them to those that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Option<&'a Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
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

/// How a versioned update went; the value is what stands now.
#[derive(Debug, Clone, PartialEq)]
pub enum Updated {
    /// It is noted as this version.
    Success { version: u64, value: Option<Json> },
    /// It named another version than this one.
    Mismatch { version: u64, value: Option<Json> },
}

/// An answer to an update is made from how it went.
pub type Reply<'r> = &'r (dyn Fn(&Updated) -> Option<Outcome> + Send + Sync);

/// One of a session's versioned values: its version, and what a CLI is told of it.
struct Part {
    version: fn(&Session) -> u64,
    told: fn(&Entry) -> Option<Json>,
}

const METADATA: Part = Part { version: |s| s.metadata_version, told: |entry| entry.session.metadata.clone() };
const AGENT_STATE: Part = Part { version: |s| s.agent_state_version, told: Entry::recent_state };

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
        check_metadata(&value)?;
        check_size("metadata", &value, MAX_METADATA_BYTES)?;
        self.load_session(id).await?;
        self.update(id, &METADATA, expected, reply, |state| {
            let version = self.set_metadata(state, id, value.clone(), Some(from))?;
            Ok(Updated::Success { version, value: Some(value) })
        })
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
        self.load_completed(id).await?;
        self.update(id, &AGENT_STATE, expected, reply, |state| {
            let version = self.set_agent_state(state, id, parts, Some(from))?;
            Ok(Updated::Success { version, value: Some(value).filter(|value| !value.is_null()) })
        })
    }

    /// Sets a value of a session in memory when the update names the version that stands, and notes the answer.
    fn update(
        self: &Arc<Self>,
        id: &str,
        part: &Part,
        expected: u64,
        reply: Reply<'_>,
        set: impl FnOnce(&mut State) -> Result<Updated, Error>,
    ) -> Result<(), Error> {
        {
            let mut state = self.state();
            state.check_room()?;
            let entry = state.memory.entry(id).ok_or(Error::Missing(Kind::Session))?;
            let version = (part.version)(&entry.session);
            let updated = if version == expected {
                set(&mut state)?
            } else {
                Updated::Mismatch { version, value: (part.told)(entry) }
            };
            reply(&updated).into_iter().for_each(|outcome| state.journal.then(outcome));
        }
        self.flush();
        Ok(())
    }

    /// Sees to it that a session is in memory with its completed requests.
    pub(super) async fn load_completed(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        loop {
            self.load_session(id).await?;
            let loaded = |state: &State| state.memory.entry(id).map(|entry| entry.completed.is_some());
            if loaded(&self.state()) == Some(true) {
                return Ok(());
            }
            // What is noted and not yet durable would be missing in the answer; what is noted later shows by the version.
            let version = self.state().memory.entry(id).map(|entry| entry.session.agent_state_version);
            self.settled().await?;
            let completed = store::completed(&self.db, &self.config.namespace, id).await?;
            let mut state = self.state();
            if let Some(entry) = state.memory.unlisted_mut(id) {
                // A change that came meanwhile sets this load aside: the next one sees it.
                if Some(entry.session.agent_state_version) == version && entry.completed.is_none() {
                    entry.completed = Some(Record::loaded(completed));
                    state.make_room();
                }
            }
        }
    }

    /// Puts new metadata in place.
    pub(super) fn set_metadata(
        &self,
        state: &mut State,
        id: &str,
        value: Json,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.rt.now();
        let s = &mut state.memory.entry_mut(id).ok_or(Error::Missing(Kind::Session))?.session;
        s.metadata_version += 1;
        s.metadata = Some(value);
        s.updated_at = now;
        let version = s.metadata_version;
        let changes = Changes {
            metadata: s.metadata.as_ref(),
            metadata_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        let metadata = Some(Versioned { version, value: s.metadata.as_ref() });
        let body = UpdateBody::UpdateSession { sid: id, metadata, agent_state: None };
        let frame = update_frame(&self.new_id(), state.fanout.number(now), now, &body);
        self.tell(state, id, from, frame, event);
        Ok(version)
    }

    /// Puts a new agent state in place. Of the completed requests only those that differ are written and told.
    pub(super) fn set_agent_state(
        &self,
        state: &mut State,
        id: &str,
        parts: Parts,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.rt.now();
        let entry = state.memory.entry_mut(id).ok_or(Error::Missing(Kind::Session))?;
        let changed: Vec<(String, Json)> =
            parts.completed.into_iter().filter(|(id, value)| entry.differs(id, value)).collect();
        let s = &mut entry.session;
        s.agent_state_version += 1;
        let before = std::mem::replace(&mut s.agent_state, parts.base);
        let notification = from.and_then(|_| self.asks(s, before.as_ref()));
        s.updated_at = now;
        let version = s.agent_state_version;
        let entries = changed.iter().map(|(id, value)| (id.as_str(), value));
        let told = agent_state::join(s.agent_state.as_ref(), entries);
        let changes = Changes {
            agent_state: Some(told.as_ref()),
            agent_state_version: Some(version),
            updated_at: Some(now),
            ..Changes::default()
        };
        let event = Event::session_updated(id, &changes);
        let told = Some(Versioned { version, value: told.as_ref() });
        let body = UpdateBody::UpdateSession { sid: id, metadata: None, agent_state: told };
        let frame = update_frame(&self.new_id(), state.fanout.number(now), now, &body);
        state.record_completed(id, changed, now);
        self.tell(state, id, from, frame, event);
        notification.into_iter().for_each(|notification| state.journal.then(Outcome::Notify(notification)));
        Ok(version)
    }

    fn tell(&self, state: &mut State, id: &str, from: Option<ConnId>, frame: String, event: Event) {
        state.journal.session(id, Extent::Whole);
        state.journal.then(Outcome::Update { owner: Owner::Session(id.to_owned()), except: from, frame });
        state.journal.then(Outcome::Publish(event));
    }
}

impl State {
    /// Takes completed requests into the record, in memory and in the journal.
    pub(super) fn record_completed(&mut self, session: &str, completed: Vec<(String, Json)>, now: u64) {
        for (request_id, value) in completed {
            let completed_at = agent_state::completed_at(&value).unwrap_or(now);
            let known = self.memory.unlisted_mut(session).and_then(|entry| entry.completed.as_mut());
            if let Some(known) = known {
                known.insert(request_id.clone(), completed_at, value.clone());
            }
            let session_id = session.to_owned();
            self.journal.completed(CompletedRequest { session_id, request_id, completed_at, value });
        }
    }
}

/// A state taken apart, each part small enough for its row.
pub(super) fn read_parts(value: &Json) -> Result<Parts, Error> {
    let parts = agent_state::split(value)?;
    parts.base.iter().try_for_each(|base| check_size("agentState", base, MAX_STATE_BYTES))?;
    parts.completed.iter().try_for_each(|(_, entry)| check_size("completed request", entry, MAX_COMPLETED_BYTES))?;
    let bytes: usize = parts.completed.iter().map(|(id, entry)| id.len() + entry.text().len()).sum();
    if bytes > MAX_COMPLETED_AT_ONCE {
        return Err(Error::TooLarge { what: "sum of completed requests in one update", limit: MAX_COMPLETED_AT_ONCE });
    }
    Ok(parts)
}

impl Entry {
    /// Whether a completed request is new or says something else than before. While the record is not loaded, whatever
    /// comes counts as a change.
    fn differs(&self, request_id: &str, value: &Json) -> bool {
        self.completed.as_ref().is_none_or(|record| record.differs(request_id, value))
    }

    /// The agent state with the newest completed requests.
    fn recent_state(&self) -> Option<Json> {
        let recent = self.completed.iter().flat_map(Record::recent);
        agent_state::join(self.session.agent_state.as_ref(), recent)
    }
}
