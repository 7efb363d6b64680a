//! Changing a session. Every change of what clients see goes through [`State::change_session`], which writes and publishes the
//! difference (PROTOCOL-EVENTS.md "Events for web clients").

use serde::Serialize;

use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::sessions::cached_session::{CachedSession, HubQueue};
use crate::hub::core::state::State;
use crate::hub::write::large::without_large;
use crate::model::event::Event;
use crate::model::json::Json;
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
        let presence_of = |s: &Session| (s.active, s.thinking, s.mode);
        let modes_of = |s: &'a Session| (&s.permission_mode, &s.model_mode);
        let is_presence_changed = presence_of(before) != presence_of(after) || modes_of(before) != modes_of(after);
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
        match is_large {
            true => Some(SessionColumns::All),
            false => (!stored.is_empty()).then_some(SessionColumns::Small),
        }
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

    /// Changes a session and its data in other tables, like [`change_session`](Self::change_session). `state` has the agent state for
    /// the event, if it changes.
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

    /// Publishes fields of a session without a write. The event follows the changes queued so far, because it may contain counters
    /// whose write is queued.
    pub fn publish_session(
        &mut self,
        id: &str,
        changes: impl for<'s> FnOnce(&'s Session) -> Changes<'s>,
    ) -> Result<(), Error> {
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
}
