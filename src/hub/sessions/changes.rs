//! Changing a session, and making it inactive. Every change of what clients see goes through [`State::change_session`], which writes
//! and publishes the difference (PROTOCOL-EVENTS.md "Events for web clients").

use serde::Serialize;

use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::sessions::cached_session::{CachedSession, HubQueue};
use crate::hub::core::sessions::liveness::KEEP_REQUESTS_MS;
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::{KEPT_REQUESTS, REACTIVATION};
use crate::hub::turn::Turn;
use crate::hub::write::large::without_large;
use crate::model::agent_state::count_pending;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::owner::Owner;
use crate::model::session::{ControlMode, Session};
use crate::model::settings::{ChangedSettings, Settings};
use crate::store::write_queue::SessionColumns;

macro_rules! optional_fields {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$comment:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name<'a> {
            $($(#[$comment])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            #[serde(flatten)]
            pub settings: ChangedSettings<'a>,
        }

        impl $name<'_> {
            fn is_empty(&self) -> bool {
                self.settings.is_empty() $(&& self.$field.is_none())*
            }
        }
    };
}

optional_fields! {
    /// The fields of a `session-updated` event. `Some(None)` clears a field.
    #[derive(Debug, Default, Clone, Copy, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Changes {
        active: bool,
        active_at: u64,
        thinking: bool,
        thinking_at: u64,
        mode: ControlMode,
        permission_mode: &'a str,
        model_mode: &'a str,
        disconnected: bool,
        last_message_at: u64,
        ended_at: Option<u64>,
        unseen_since: Option<u64>,
        held_messages_count: usize,
        activity: Option<&'a str>,
        activity_at: Option<u64>,
        metadata: Option<&'a Json>,
        /// The length of metadata that is too large for an event, in place of `metadata`.
        metadata_bytes: usize,
        metadata_version: u64,
        /// Contains only the completed requests that changed. A client merges these requests into its own list.
        agent_state: Option<&'a Json>,
        /// The length of an agent state that is too large for an event, in place of `agent_state`.
        agent_state_bytes: usize,
        agent_state_version: u64,
        todos: &'a Json,
        seq: u64,
        updated_at: u64,
    }
}

impl<'a> Changes<'a> {
    /// Returns activity, modes and times: everything that a list of sessions shows, except the metadata.
    pub fn presence(session: &'a Session) -> Self {
        Self {
            active: Some(session.active),
            active_at: Some(session.active_at),
            thinking: Some(session.thinking),
            thinking_at: Some(session.thinking_at),
            mode: session.mode,
            permission_mode: session.permission_mode.as_deref(),
            model_mode: session.model_mode.as_deref(),
            disconnected: Some(session.disconnected),
            last_message_at: session.last_message_at,
            ended_at: Some(session.ended_at),
            unseen_since: Some(session.unseen_since),
            activity: Some(session.activity.as_deref()),
            activity_at: Some(session.activity_at),
            seq: Some(session.seq),
            updated_at: Some(session.updated_at),
            ..Self::default()
        }
    }

    /// Returns the difference between two states of a session. `state` has the agent state if it changed, because clients get only
    /// the completed requests that changed. A message is no difference, because it has an event of its own.
    fn between(before: &'a Session, after: &'a Session, state: Self) -> Self {
        let presence_of = |s: &'a Session| (s.active, s.thinking, s.mode, &s.permission_mode, &s.model_mode);
        let is_presence_changed = presence_of(before) != presence_of(after);
        let is_state_changed = before.agent_state_version != after.agent_state_version;
        let todos = after.todos.as_ref().filter(|todos| before.todos.as_ref() != Some(todos));
        let has_new_time = is_state_changed || todos.is_some() || before.updated_at != after.updated_at;
        let presence = if is_presence_changed { Self::presence(after) } else { Self::default() };
        let is_metadata_changed = before.metadata_version != after.metadata_version;
        let base = if is_metadata_changed { presence.with_metadata(after) } else { presence };
        Self {
            settings: after.settings.changed_since(&before.settings),
            disconnected: base.disconnected.or(changed(before.disconnected, after.disconnected)),
            ended_at: base.ended_at.or(changed(before.ended_at, after.ended_at)),
            unseen_since: base.unseen_since.or(changed(before.unseen_since, after.unseen_since)),
            held_messages_count: changed(before.held_messages_count, after.held_messages_count),
            agent_state: state.agent_state,
            agent_state_bytes: state.agent_state_bytes,
            agent_state_version: is_state_changed.then_some(after.agent_state_version),
            todos,
            updated_at: base.updated_at.or(has_new_time.then_some(after.updated_at)),
            ..base
        }
    }

    /// Returns the columns of the session's row that these fields change; `None` if they are in no row of `sessions`.
    fn columns(self) -> Option<SessionColumns> {
        let is_large = self.metadata_version.is_some() || self.agent_state_version.is_some() || self.todos.is_some();
        let stored = Self { held_messages_count: None, disconnected: None, ..self };
        if is_large { Some(SessionColumns::All) } else { (!stored.is_empty()).then_some(SessionColumns::Small) }
    }

    /// Returns the fields that a merge may have changed.
    pub fn merged(session: &'a Session) -> Self {
        Self {
            settings: session.settings.changed_since(&Settings::default()),
            held_messages_count: Some(session.held_messages_count).filter(|count| *count > 0),
            ..Self::presence(session).with_metadata(session)
        }
    }

    /// Adds the metadata, or its length if it is large: web clients fetch a large value.
    fn with_metadata(self, session: &'a Session) -> Self {
        let large = session.metadata.large();
        Self {
            metadata: large.is_none().then(|| session.metadata.inline()),
            metadata_bytes: large.map(|large| large.bytes),
            metadata_version: Some(session.metadata_version),
            updated_at: Some(session.updated_at),
            ..self
        }
    }
}

fn changed<T: PartialEq>(before: T, after: T) -> Option<T> {
    (before != after).then_some(after)
}

impl State {
    /// Changes a session, and queues the write and the event of the difference.
    pub fn change_session<T>(&mut self, id: &str, change: impl FnOnce(&mut Session) -> T) -> Result<T, Error> {
        self.change_entry(id, Changes::default(), |entry, _| change(&mut entry.session))
    }

    /// Changes a session and its data in other tables, like [`State::change_session`]. `state` has the agent state, if it changes.
    pub fn change_entry<T>(
        &mut self,
        id: &str,
        state: Changes<'_>,
        change: impl FnOnce(&mut CachedSession, &mut HubQueue) -> T,
    ) -> Result<T, Error> {
        let entry = self.cache.entry_mut(id, self.write_queue.queued_images()).ok_or(Error::NotFound(Kind::Session))?;
        let before = entry.session.clone();
        let result = change(entry, &mut self.write_queue);
        let changes = Changes::between(&before, &entry.session, state);
        if !changes.is_empty() {
            let (columns, event) = (changes.columns(), Event::session_updated(id, &changes));
            columns.into_iter().for_each(|columns| self.write_queue.queue_session(id, columns));
            self.write_queue.on_commit(Effect::Publish(event));
        }
        Ok(result)
    }

    /// Publishes fields of a session without a write, after the queued changes: the fields may contain counters whose write is queued.
    pub fn publish_session(&mut self, id: &str, changes: impl FnOnce(&Session) -> Changes<'_>) -> Result<(), Error> {
        let event = Event::session_updated(id, &changes(&self.cache.require_entry(id)?.session));
        self.write_queue.on_commit(Effect::Publish(event));
        Ok(())
    }

    /// Adds a new session, and queues its write and its event.
    pub(super) fn add_session(&mut self, session: Session) {
        let fields = [("metadata", &session.metadata), ("agentState", &session.agent_state)];
        let event = Event::session_added(&session.id, &without_large(&session, fields));
        self.write_queue.queue_session(&session.id, SessionColumns::All);
        self.write_queue.on_commit(Effect::Publish(event));
        self.cache.insert_created(session, self.write_queue.queued_images());
    }

    pub fn is_active(&self, id: &str) -> bool {
        self.cache.entry(id).is_some_and(|entry| entry.session.active)
    }

    /// Whether a connected CLI is expected to report an inactive session alive: the session is not archived, and a socket serves it.
    pub fn expects_report(&self, session: &str, now: u64) -> bool {
        let is_inactive =
            |entry: &CachedSession| !entry.session.active && !entry.session.metadata_fields().is_archived();
        self.cache.entry(session).is_some_and(is_inactive)
            && self.is_served(&Owner::Session(session.to_owned()), None, now)
    }

    /// Returns the error for an operation that needs an active session. `disconnected`: the error if no CLI is connected.
    pub fn inactive_error(&self, session: &str, disconnected: Error) -> Error {
        if self.connections.clis_of_session(session).is_empty() { disconnected } else { Error::CliNotAlive }
    }
}

impl Turn<'_> {
    /// Makes a session inactive. `has_ended`: whether the session has ended, rather than lost its connection.
    pub fn deactivate(&mut self, id: &str, has_ended: bool) -> Result<(), Error> {
        let (owner, now) = (Owner::Session(id.to_owned()), self.hub.rt.now());
        self.state.change_session(id, |s| {
            s.ended_at = s.ended_at.or(has_ended.then_some(now));
            if s.active || s.thinking {
                s.thinking_at = if s.thinking { now } else { s.thinking_at };
                (s.active, s.thinking, s.updated_at, s.activity, s.activity_at) = (false, false, now, None, None);
                s.disconnected = false;
            }
        })?;
        self.state.liveness.stop(&owner);
        // Queued even if the session is inactive in memory, because an earlier change to inactive may not be durable yet.
        self.state.write_queue.on_commit(Effect::BecameInactive(owner));
        Ok(())
    }

    /// Makes an archived session inactive at once, because an archived session ignores keep-alives. Returns whether the session was
    /// active; if it was, the caller must end it with `Hub::end_session`.
    pub fn deactivate_if_archived(&mut self, id: &str) -> Result<bool, Error> {
        let session = &self.state.cache.require_entry(id)?.session;
        let must_end = session.active && session.metadata_fields().is_archived();
        if must_end {
            self.deactivate(id, true)?;
            // The alarm cancels the pending requests if the object stops before the caller does.
            self.start_request_retention(id)?;
        }
        Ok(must_end)
    }

    /// Sets the time at which the pending requests of a session are canceled, unless the session is active or has none.
    pub fn start_request_retention(&mut self, id: &str) -> Result<(), Error> {
        let session = &self.state.cache.require_entry(id)?.session;
        if !session.active && count_pending(session.agent_state.json()) > 0 {
            let until = self.hub.rt.now() + KEEP_REQUESTS_MS;
            self.state.kept_requests.set(id, until);
            self.hub.rt.kv_put(&format!("{KEPT_REQUESTS}{id}"), &until.to_string());
            self.request_alarm(Some(until));
        }
        Ok(())
    }

    /// Ends the expectation of a reactivation, because the session is active, has ended, or was deleted.
    pub fn clear_reactivation(&mut self, id: &str) {
        if self.state.in_flight.clear_reactivation(id) {
            self.hub.rt.kv_delete(&format!("{REACTIVATION}{id}"));
        }
    }
}
