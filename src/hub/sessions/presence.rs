//! Whether a session is active and its agent thinking, as reported by its CLI's `session-alive` and `session-end`
//! (PROTOCOL.md "Liveness"). Only changes are written to the database.

use std::sync::Arc;

use crate::hub::commit::AckTiming;
use crate::hub::error::Error;
use crate::hub::large;
use crate::hub::ports::ConnId;
use crate::hub::sessions::changes::Changes;
use crate::hub::state::effect::Effect;
use crate::hub::state::liveness::is_fresh;
use crate::hub::storage_keys::alive_key;
use crate::hub::{Hub, State};
use crate::limits::PRESENCE_INTERVAL_MS;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::owner::Owner;
use crate::model::session::{Session, mark_running};
use crate::store::journal::Extent;
use crate::wire::cli::{SessionAlive, SessionEnd};

impl Hub {
    /// Handles `session-alive`: a change is written and published; without one, the presence is published again every
    /// [`PRESENCE_INTERVAL_MS`].
    pub async fn session_alive(self: &Arc<Self>, alive: SessionAlive, from: ConnId) -> Result<AckTiming, Error> {
        if !is_fresh(alive.time, self.rt.now()) {
            return Ok(AckTiming::Now);
        }
        self.load_session(&alive.sid).await?;
        let archived_metadata = self.metadata_to_reopen(&alive.sid).await?;
        let ack_timing = self.apply_alive(&mut self.state(), &alive, from, archived_metadata)?;
        self.start_commit();
        Ok(ack_timing)
    }

    fn apply_alive(
        &self,
        state: &mut State,
        alive: &SessionAlive,
        from: ConnId,
        archived_metadata: Option<Json>,
    ) -> Result<AckTiming, Error> {
        let (id, now) = (&alive.sid, self.rt.now());
        if archived_metadata.is_none() && state.cache.session(id)?.session.metadata_fields().is_archived() {
            return Ok(AckTiming::Now);
        }
        self.record_keep_alive(state, Owner::Session(id.clone()), Some(from));
        state.ensure_queue_has_room(0)?;
        if let Some(metadata) = archived_metadata {
            self.set_metadata(state, id, mark_running(Some(&metadata), now), None)?;
        }
        let is_reminder_allowed = state.reminders.is_allowed(now);
        let entry = state.cache.session_mut(id)?;
        let is_changed = update_presence(&mut entry.session, alive, now);
        let is_reminder =
            !is_changed && is_reminder_allowed && now >= entry.presence_published_at + PRESENCE_INTERVAL_MS;
        if is_changed || is_reminder {
            entry.presence_published_at = now;
        }
        if is_changed {
            state.presence_changed(id)?;
        }
        if is_reminder {
            // On commit, for it contains counters whose write may be queued.
            let event = Event::session_updated(id, &Changes::presence(&state.cache.session(id)?.session));
            state.journal.on_commit(Effect::Publish(event));
            let web_clients = state.connections.subscriptions().count();
            state.reminders.record(web_clients, now);
        }
        state.in_flight.clear_reactivation(id);
        state.activation_waiters.complete(id, &Ok(id.clone()));
        Ok(state.ack_timing(is_changed))
    }

    /// Returns the metadata of an archived session that a keep-alive reopens: after a resume, or when a CLI asked for it by
    /// its tag. A CLI that has archived its session and is about to end must not reopen it.
    async fn metadata_to_reopen(self: &Arc<Self>, id: &str) -> Result<Option<Json>, Error> {
        let may_reopen = |state: &State| {
            let entry = state.cache.entry(id);
            entry.is_some_and(|entry| entry.session.metadata_fields().is_archived() && !entry.session.active)
                && state.in_flight.expects_reactivation(id, self.rt.now())
        };
        if !may_reopen(&self.state()) {
            return Ok(None);
        }
        self.with_field(id, large::metadata, |state, metadata| Ok(metadata.filter(|_| may_reopen(state)))).await
    }

    /// Handles `session-end`. One that is older than a keep-alive may be belongs to an earlier run of the CLI.
    pub async fn session_end(self: &Arc<Self>, end: &SessionEnd) -> Result<AckTiming, Error> {
        if !is_fresh(end.time, self.rt.now()) {
            return Ok(AckTiming::Now);
        }
        self.state().ensure_queue_has_room(0)?;
        self.end_session(&end.sid).await?;
        Ok(AckTiming::OnCommit)
    }

    /// Makes a session inactive, and cancels its pending permission requests.
    pub(in crate::hub) async fn end_session(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.with_field(id, large::pending_requests, |state, base| {
            let owner = Owner::Session(id.to_owned());
            state.liveness.stop(&owner);
            state.in_flight.clear_reactivation(id);
            let now = self.rt.now();
            let s = &mut state.cache.session_mut(id)?.session;
            if s.active || s.thinking {
                s.thinking_at = if s.thinking { now } else { s.thinking_at };
                (s.active, s.thinking, s.updated_at) = (false, false, now);
                state.presence_changed(id)?;
                state.journal.on_commit(Effect::Ended(owner));
            } else {
                self.rt.kv_delete(&alive_key(&owner));
            }
            self.cancel_pending(state, id, base)
        })
        .await?;
        self.start_commit();
        Ok(())
    }
}

impl State {
    /// Writes and publishes a session's presence after a change.
    pub(in crate::hub) fn presence_changed(&mut self, id: &str) -> Result<(), Error> {
        let event = Event::session_updated(id, &Changes::presence(&self.cache.session(id)?.session));
        self.journal.queue_session(id, Extent::Counters);
        self.journal.on_commit(Effect::Publish(event));
        Ok(())
    }
}

/// Updates a session from a keep-alive. Returns whether anything changed besides the time.
fn update_presence(s: &mut Session, alive: &SessionAlive, now: u64) -> bool {
    s.active_at = now;
    let mut is_changed = !std::mem::replace(&mut s.active, true);
    if let Some(thinking) = alive.thinking.filter(|thinking| *thinking != s.thinking) {
        (s.thinking, s.thinking_at, is_changed) = (thinking, now, true);
    }
    let mut update = |current: &mut Option<String>, reported: &Option<String>| {
        if reported.is_some() && current != reported {
            current.clone_from(reported);
            is_changed = true;
        }
    };
    update(&mut s.permission_mode, &alive.permission_mode);
    update(&mut s.model_mode, &alive.model_mode);
    if alive.mode.is_some() && s.mode != alive.mode {
        (s.mode, is_changed) = (alive.mode, true);
    }
    if is_changed {
        s.updated_at = now;
    }
    is_changed
}
