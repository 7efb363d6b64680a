//! Sessions: finding, making, listing, naming, deleting, and their life by the signs that CLIs give.

use std::sync::Arc;

use serde::Serialize;

use super::commit::Outcome;
use super::error::{Error, Kind};
use super::liveness::sign_time;
use super::memory::Archived;
use super::ports::ConnId;
use super::rpc::Owner;
use super::sockets::update_frame;
use super::{Hub, State, note_key};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::session::{ControlMode, Session, check_metadata};
use crate::store::journal::{Extent, MAX_CONTENT_BYTES};
use crate::store::sessions::{self as store, Found};
use crate::wire::cli::{SessionAlive, UpdateBody, Versioned};

/// The longest session name, in Unicode code points (spec "Limits").
pub const MAX_NAME: usize = 255;
/// The longest tag, in bytes: a path of any common file system fits.
pub const MAX_TAG: usize = 4096;
/// How often at most a session's presence is told to web clients while nothing about it changes, in milliseconds.
const TELL_EVERY_MS: u64 = 10_000;

/// What a CLI asks a session for with (`POST /cli/sessions`).
pub struct NewSession {
    pub tag: String,
    pub metadata: Json,
    pub agent_state: Option<Json>,
    pub model: Option<String>,
}

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<&'a Json>,
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
    Success { version: u64, value: Option<Json> },
    Mismatch { version: u64, value: Option<Json> },
}

/// Which of a session's versioned values is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPart {
    Metadata,
    AgentState,
}

impl Hub {
    /// Sees to it that a session of this namespace is in memory.
    pub async fn load_session(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        loop {
            if self.state().memory.entry(id).is_some() {
                return Ok(());
            }
            // What is being written may be the very deletion of this session.
            self.settled().await?;
            let removals = self.state().memory.removals;
            let found = store::by_id(&*self.db, &self.config.namespace, id).await?;
            let mut state = self.state();
            if removals != state.memory.removals {
                continue;
            }
            return match found {
                Found::Owned(session) => {
                    self.take_up(&mut state, session);
                    Ok(())
                }
                Found::Foreign => Err(Error::Foreign(Kind::Session)),
                Found::Missing => Err(Error::Missing(Kind::Session)),
            };
        }
    }

    /// What was active keeps its state until the clock, started again, runs out.
    fn take_up(&self, state: &mut State, session: Session) {
        let owner = Owner::Session(session.id.clone());
        if session.active && !state.liveness.runs(&owner) {
            self.sign(state, owner, self.rt.now());
        }
        state.memory.take_up(session);
    }

    /// Moves a clock of life, and the alarm and the notebook with it where needed.
    pub(super) fn sign(&self, state: &mut State, owner: Owner, at: u64) {
        if state.liveness.sign(owner.clone(), at) {
            self.rt.note(&note_key(&owner), &at.to_string());
        }
        let next = state.liveness.next_deadline();
        self.want_alarm(state, next);
    }

    /// Reads a session once everything it shows is durable.
    pub async fn session<T>(self: &Arc<Self>, id: &str, read: impl FnOnce(&Session) -> T) -> Result<T, Error> {
        self.load_session(id).await?;
        self.settled().await?;
        let state = self.state();
        state.memory.entry(id).map(|entry| read(&entry.session)).ok_or(Error::Missing(Kind::Session))
    }

    /// The list of sessions as a JSON array, once everything it shows is durable.
    pub async fn list_sessions(self: &Arc<Self>, archived: Archived) -> Result<Arc<str>, Error> {
        self.load_all_sessions().await?;
        self.settled().await?;
        Ok(self.state().memory.list(archived))
    }

    async fn load_all_sessions(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            if self.state().memory.complete {
                return Ok(());
            }
            self.settled().await?;
            let removals = self.state().memory.removals;
            let sessions = store::all(&*self.db, &self.config.namespace).await?;
            let mut state = self.state();
            if removals == state.memory.removals {
                sessions.into_iter().for_each(|session| self.take_up(&mut state, session));
                state.memory.complete = true;
                return Ok(());
            }
        }
    }

    /// The namespace's session of a tag, or a new one; answers its id.
    pub async fn session_by_tag(self: &Arc<Self>, new: NewSession) -> Result<String, Error> {
        check_tag(&new.tag)?;
        check_metadata(&new.metadata)
            .map_err(|field| Error::field(field, format!("Field `{field}` must be a text.")))?;
        check_size("metadata", &new.metadata)?;
        if let Some(agent_state) = &new.agent_state {
            check_size("agentState", agent_state)?;
        }
        let complete = {
            let state = self.state();
            if let Some(entry) = state.memory.by_tag(&new.tag) {
                return Ok(entry.session.id.clone());
            }
            state.memory.complete
        };
        self.settled().await?;
        let held = if complete { None } else { store::by_tag(&*self.db, &self.config.namespace, &new.tag).await? };
        let waiter = {
            let mut state = self.state();
            if let Some(session) = held {
                self.take_up(&mut state, session);
            }
            // Somebody else may have made it while the database was asked.
            if let Some(entry) = state.memory.by_tag(&new.tag) {
                return Ok(entry.session.id.clone());
            }
            let id = self.create(&mut state, new);
            (state.wait(), id)
        };
        self.durable(waiter.0).await?;
        Ok(waiter.1)
    }

    fn create(&self, state: &mut State, new: NewSession) -> String {
        let namespace = self.config.namespace.clone();
        let mut session = Session::new(self.new_id(), namespace, new.tag, Some(new.metadata), self.rt.now());
        session.agent_state = new.agent_state.filter(|value| !value.is_null());
        session.model_mode = new.model;
        let id = session.id.clone();
        state.journal.session(&id, Extent::Whole);
        state.journal.then(Outcome::Publish(Event::session_added(&id, &session)));
        state.memory.create(session);
        id
    }

    /// Gives a session another name; answers the metadata's new version.
    pub async fn rename(self: &Arc<Self>, id: &str, name: &str, expected: Option<u64>) -> Result<u64, Error> {
        self.load_session(id).await?;
        let (waiter, version) = {
            let mut state = self.state();
            let entry = state.memory.entry(id).ok_or(Error::Missing(Kind::Session))?;
            let found = entry.session.metadata_version;
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                return Err(Error::VersionConflict { expected, found });
            }
            let metadata = entry.session.renamed_metadata(name).map_err(|e| Error::InvalidBody(e.to_string()))?;
            let version = self.set_part(&mut state, id, SessionPart::Metadata, Some(metadata), None)?;
            (state.wait(), version)
        };
        self.durable(waiter).await?;
        Ok(version)
    }

    /// A CLI's versioned update of a session's metadata or agent state. The outcome is told through `reply`.
    pub async fn update_session(
        self: &Arc<Self>,
        id: &str,
        part: SessionPart,
        expected: u64,
        value: Json,
        from: ConnId,
        reply: impl FnOnce(&Updated) -> Option<Outcome>,
    ) -> Result<(), Error> {
        match part {
            SessionPart::Metadata => {
                check_metadata(&value).map_err(|f| Error::field(f, format!("Field `{f}` must be a text.")))?;
                check_size("metadata", &value)?;
            }
            SessionPart::AgentState if value.is_null() || value.is_object() => check_size("agentState", &value)?,
            SessionPart::AgentState => {
                return Err(Error::field("agentState", "Field `agentState` must be an object or null."));
            }
        }
        self.load_session(id).await?;
        {
            let mut state = self.state();
            let s = &state.memory.entry(id).ok_or(Error::Missing(Kind::Session))?.session;
            let (version, held) = match part {
                SessionPart::Metadata => (s.metadata_version, s.metadata.clone()),
                SessionPart::AgentState => (s.agent_state_version, s.agent_state.clone()),
            };
            let outcome = if version == expected {
                let value = Some(value).filter(|value| !value.is_null());
                let version = self.set_part(&mut state, id, part, value.clone(), Some(from))?;
                reply(&Updated::Success { version, value })
            } else {
                reply(&Updated::Mismatch { version, value: held })
            };
            outcome.into_iter().for_each(|outcome| state.journal.then(outcome));
        }
        self.flush();
        Ok(())
    }

    /// Puts a new value in place, counts its version up and lets CLIs and web clients know.
    fn set_part(
        &self,
        state: &mut State,
        id: &str,
        part: SessionPart,
        value: Option<Json>,
        from: Option<ConnId>,
    ) -> Result<u64, Error> {
        let now = self.rt.now();
        let s = &mut state.memory.entry_mut(id).ok_or(Error::Missing(Kind::Session))?.session;
        s.updated_at = now;
        let (version, body, event) = match part {
            SessionPart::Metadata => {
                s.metadata_version += 1;
                s.metadata = value;
                let metadata = Some(Versioned { version: s.metadata_version, value: s.metadata.as_ref() });
                let changes = Changes {
                    metadata: s.metadata.as_ref(),
                    metadata_version: Some(s.metadata_version),
                    updated_at: Some(now),
                    ..Changes::default()
                };
                let body = UpdateBody::UpdateSession { sid: id, metadata, agent_state: None };
                (s.metadata_version, body, Event::session_updated(id, &changes))
            }
            SessionPart::AgentState => {
                s.agent_state_version += 1;
                s.agent_state = value;
                let agent_state = Some(Versioned { version: s.agent_state_version, value: s.agent_state.as_ref() });
                let changes = Changes {
                    agent_state: s.agent_state.as_ref(),
                    agent_state_version: Some(s.agent_state_version),
                    updated_at: Some(now),
                    ..Changes::default()
                };
                let body = UpdateBody::UpdateSession { sid: id, metadata: None, agent_state };
                (s.agent_state_version, body, Event::session_updated(id, &changes))
            }
        };
        let frame = update_frame(&self.new_id(), state.fanout.number(now), now, &body);
        state.journal.session(id, Extent::Whole);
        state.journal.then(Outcome::Update { owner: Owner::Session(id.to_owned()), except: from, frame });
        state.journal.then(Outcome::Publish(event));
        Ok(version)
    }

    /// Deletes a session that is not active, with its messages.
    pub async fn delete_session(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_session(id).await?;
        let waiter = {
            let mut state = self.state();
            if state.memory.entry(id).ok_or(Error::Missing(Kind::Session))?.session.active {
                return Err(Error::SessionActive);
            }
            state.memory.remove(id);
            state.journal.delete_session(id);
            state.journal.then(Outcome::Publish(Event::session_removed(id)));
            state.wait()
        };
        self.durable(waiter).await
    }

    /// `session-alive`: a sign of life. Changes are persisted and told at once, the rest at most every ten seconds.
    pub async fn session_alive(self: &Arc<Self>, alive: SessionAlive) -> Result<(), Error> {
        let now = self.rt.now();
        let Some(at) = sign_time(alive.time, now) else { return Ok(()) };
        self.load_session(&alive.sid).await?;
        let changed = {
            let mut state = self.state();
            self.sign(&mut state, Owner::Session(alive.sid.clone()), at);
            let Some(entry) = state.memory.entry_mut(&alive.sid) else { return Ok(()) };
            let changed = apply_alive(&mut entry.session, &alive, now);
            let tell = changed || now >= entry.told_at + TELL_EVERY_MS;
            if tell {
                entry.told_at = now;
                let event = Event::session_updated(&alive.sid, &Changes::presence(&entry.session));
                if changed {
                    state.journal.session(&alive.sid, Extent::Counters);
                    state.journal.then(Outcome::Publish(event));
                } else if !state.journal.busy() {
                    // Nothing durable changed, so nothing has to be waited for.
                    self.publish(&mut state, event);
                }
            }
            changed
        };
        if changed {
            self.flush();
        }
        Ok(())
    }

    /// `session-end`, or the clock ran out: the session is inactive.
    pub async fn session_ended(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_session(id).await?;
        {
            let mut state = self.state();
            let owner = Owner::Session(id.to_owned());
            state.liveness.stop(&owner);
            let now = self.rt.now();
            let Some(entry) = state.memory.entry_mut(id) else { return Ok(()) };
            let s = &mut entry.session;
            if !s.active && !s.thinking {
                self.rt.unnote(&note_key(&owner));
                return Ok(());
            }
            s.thinking_at = if s.thinking { now } else { s.thinking_at };
            (s.active, s.thinking, s.updated_at) = (false, false, now);
            let event = Event::session_updated(id, &Changes::presence(s));
            state.journal.session(id, Extent::Counters);
            state.journal.then(Outcome::Publish(event));
            state.journal.then(Outcome::Departed(owner));
        }
        self.flush();
        Ok(())
    }

    /// The clocks that ran out. One whose session can't be read now stays, and is tried again with the next alarm.
    pub(super) async fn expire_lives(self: &Arc<Self>, now: u64) {
        let expired = self.state().liveness.expired(now);
        for owner in expired {
            let ended = match &owner {
                Owner::Session(id) => self.session_ended(id).await,
                Owner::Machine(id) => self.machine_ended(id).await,
            };
            match ended {
                Err(Error::Missing(_) | Error::Foreign(_)) => {
                    self.state().liveness.stop(&owner);
                    self.rt.unnote(&note_key(&owner));
                }
                Err(_) => {
                    let mut state = self.state();
                    self.sign(&mut state, owner, now);
                }
                Ok(()) => {}
            }
        }
    }
}

/// Takes over what an alive event says; answers whether anything changed that must be persisted and told at once.
fn apply_alive(s: &mut Session, alive: &SessionAlive, now: u64) -> bool {
    s.active_at = now;
    let mut changed = !std::mem::replace(&mut s.active, true);
    if let Some(thinking) = alive.thinking.filter(|thinking| *thinking != s.thinking) {
        (s.thinking, s.thinking_at, changed) = (thinking, now, true);
    }
    let mut take = |held: &mut Option<String>, said: &Option<String>| {
        if said.is_some() && held != said {
            held.clone_from(said);
            changed = true;
        }
    };
    take(&mut s.permission_mode, &alive.permission_mode);
    take(&mut s.model_mode, &alive.model_mode);
    if alive.mode.is_some() && s.mode != alive.mode {
        (s.mode, changed) = (alive.mode, true);
    }
    if changed {
        s.updated_at = now;
    }
    changed
}

fn check_tag(tag: &str) -> Result<(), Error> {
    if tag.is_empty() || tag.len() > MAX_TAG {
        return Err(Error::field("tag", format!("Field `tag` must have 1 to {MAX_TAG} bytes.")));
    }
    Ok(())
}

pub(super) fn check_size(what: &'static str, value: &Json) -> Result<(), Error> {
    if value.text().len() > MAX_CONTENT_BYTES {
        return Err(Error::TooLarge { what, limit: MAX_CONTENT_BYTES });
    }
    Ok(())
}
