//! The presence of a session: whether the session is active, and whether its agent is thinking. The CLI reports the presence
//! with `session-alive` and `session-end` (PROTOCOL-CLI.md "Liveness"). Only changes are written to the database.

use crate::hub::turn::Turn;
use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::Error;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::AckTiming;
use crate::hub::core::state::State;
use crate::hub::sessions::changes::Changes;
use crate::hub::write::large;
use crate::limits::{PRESENCE_INTERVAL_MS, SESSION_TIMEOUT_MS};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::owner::Owner;
use crate::model::session::{Session, mark_running};
use crate::wire::cli::SessionEnd;
use crate::wire::session_alive::SessionAlive;

/// Why a session ends.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) enum EndCause {
    /// A CLI has left the session. If another CLI serves the session, the session ends at its deadline instead.
    LeftBy(ConnId),
    /// The agent was aborted. `reports`: the number of reports of the namespace before the abort. The session stays active if
    /// a CLI has reported it alive since the abort.
    Aborted {
        reports: u64,
    },
    Archived,
}

impl Hub {
    /// Handles `session-alive`, which arrived at `at`. Writes and publishes a change of the presence. Publishes an unchanged presence
    /// again every [`PRESENCE_INTERVAL_MS`], as a reminder.
    pub async fn on_session_alive(
        self: &Arc<Self>,
        alive: &SessionAlive,
        from: ConnId,
        at: u64,
    ) -> Result<AckTiming, Error> {
        self.turn().restart_deadline_on_arrival(Owner::Session(alive.sid.clone()), from, at);
        self.load_session(&alive.sid).await?;
        let archived_metadata = self.metadata_to_reopen(&alive.sid).await?;
        let ack_timing = self.turn().apply_alive(alive, (from, at), archived_metadata)?;
        self.start_commit();
        self.start_delivery(&alive.sid);
        Ok(ack_timing)
    }

    /// Returns the metadata of an archived session if a keep-alive may reopen the session, because the session is being resumed.
    /// Otherwise a keep-alive must not reopen the session: it may come from a CLI that has archived the session and is about to end.
    async fn metadata_to_reopen(self: &Arc<Self>, id: &str) -> Result<Option<Json>, Error> {
        let may_reopen = |state: &State| {
            let entry = state.cache.entry(id);
            entry.is_some_and(|entry| entry.session.metadata_fields().is_archived() && !entry.session.active)
                && state.in_flight.expects_reactivation(id, self.rt.now())
        };
        if !may_reopen(&self.turn()) {
            return Ok(None);
        }
        self.with_field(id, large::metadata, |state, metadata| Ok(metadata.filter(|_| may_reopen(state)))).await
    }

    /// Handles `session-end`. If another socket serves the session, the session ends only when its deadline passes.
    pub async fn on_session_end(self: &Arc<Self>, end: &SessionEnd, from: ConnId) -> Result<AckTiming, Error> {
        self.turn().ensure_write_queue_has_room(0)?;
        self.end_session(&end.sid, EndCause::LeftBy(from)).await?;
        Ok(AckTiming::OnCommit)
    }

    /// Ends a session: makes it inactive, with the exceptions of [`EndCause`], and cancels its pending permission requests.
    pub(in crate::hub) async fn end_session(self: &Arc<Self>, id: &str, cause: EndCause) -> Result<(), Error> {
        let owner = Owner::Session(id.to_owned());
        self.with_field(id, large::state_if_pending, |turn, stored| {
            match cause {
                EndCause::LeftBy(cli) if turn.is_served(&owner, Some(cli), self.rt.now()) => {
                    if turn.liveness.request_end(&owner) {
                        turn.store_deadline(&owner);
                    }
                    return Ok(());
                }
                EndCause::Aborted { reports } if turn.liveness.keep_if_reported_after(&owner, reports) => {}
                _ => turn.deactivate(id, true)?,
            }
            turn.cancel_pending(id, stored)
        })
        .await?;
        self.start_commit();
        Ok(())
    }

    /// Makes a session inactive after its deadline, unless activity has moved the deadline. If a CLI has ended the session, cancels
    /// its pending requests. Otherwise keeps them for a day, because the CLI may still wait for answers.
    pub(in crate::hub) async fn expire_session(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        let owner = Owner::Session(id.to_owned());
        self.load_session(id).await?;
        if self.turn().liveness.deadline_to_store(&owner).is_end_requested {
            let end = |turn: &mut Turn<'_>, stored| {
                if !turn.liveness.is_expired(&owner) {
                    return Ok(());
                }
                turn.deactivate(id, true)?;
                turn.cancel_pending(id, stored)
            };
            return self.with_field(id, large::state_if_pending, end).await;
        }
        let mut turn = self.turn();
        if turn.liveness.is_expired(&owner) {
            turn.deactivate(id, false)?;
            turn.start_request_retention(id)?;
        }
        Ok(())
    }

    /// Cancels the pending requests of a session after [`Turn::deactivate_if_archived`]. After an error, the alarm tries again.
    pub(in crate::hub) async fn cancel_archived(self: &Arc<Self>, id: &str) {
        if self.end_session(id, EndCause::Archived).await.is_err() {
            let until = self.rt.now() + SESSION_TIMEOUT_MS;
            let mut turn = self.turn();
            turn.kept_requests.set(id, until);
            turn.request_alarm(Some(until));
        }
    }
}

impl Turn<'_> {
    fn apply_alive(
        &mut self,
        alive: &SessionAlive,
        (from, at): (ConnId, u64),
        archived_metadata: Option<Json>,
    ) -> Result<AckTiming, Error> {
        let (id, now) = (&alive.sid, self.hub.rt.now());
        if archived_metadata.is_none() && self.state.cache.require_entry(id)?.session.metadata_fields().is_archived() {
            return Ok(AckTiming::Now);
        }
        let owner = Owner::Session(id.clone());
        self.restart_deadline_on_activity(owner.clone(), from, at);
        self.state.liveness.record_report(&owner);
        self.state.ensure_write_queue_has_room(0)?;
        if let Some(metadata) = archived_metadata {
            self.set_metadata(id, mark_running(Some(&metadata), now), None)?;
        }
        let is_reminder_allowed = self.state.reminders.is_allowed(now);
        let entry = self.state.session_mut(id)?;
        let is_changed = update_presence(&mut entry.session, alive, at, now);
        let is_reminder =
            !is_changed && is_reminder_allowed && now >= entry.presence_published_at + PRESENCE_INTERVAL_MS;
        if is_changed || is_reminder {
            entry.presence_published_at = now;
        }
        self.apply_activity(alive, is_changed || is_reminder)?;
        if is_changed {
            self.state.record_presence(id)?;
        }
        if is_reminder {
            // The event is published on commit, because it contains counters whose write may be queued.
            let event = Event::session_updated(id, &Changes::presence(&self.state.cache.require_entry(id)?.session));
            self.state.write_queue.on_commit(Effect::Publish(event));
            let web_clients = self.state.connections.subscriptions().count();
            self.state.reminders.record(web_clients, now);
        }
        self.clear_reactivation(id);
        self.state.activation_waiters.complete(id, &Ok(id.clone()));
        Ok(self.state.ack_timing(is_changed))
    }
}

impl Turn<'_> {
    /// Sets what the agent is doing, and sends a change to web clients. The change is not written, and its event is not logged.
    /// `is_published`: whether another event publishes the change. If the namespace sends too many events, the change waits for a
    /// later keep-alive.
    fn apply_activity(&mut self, alive: &SessionAlive, is_published: bool) -> Result<(), Error> {
        let session = &self.state.cache.require_entry(&alive.sid)?.session;
        let activity = alive.activity.as_ref().filter(|_| session.thinking);
        if session.activity.as_ref() == activity {
            return Ok(());
        }
        // After a wake, the hub does not know the previous activity. The first activity may be the same as before the hibernation, so
        // no time of a change is set.
        let is_known_change = session.activity.is_some() || session.activity_at.is_some();
        let activity_at = (session.thinking && is_known_change).then_some(self.hub.rt.now());
        let activity_text = activity.map(String::as_str);
        let changes = Changes { activity: Some(activity_text), activity_at: Some(activity_at), ..Changes::default() };
        let event = Event::session_updated(&alive.sid, &changes);
        if !is_published {
            let subscriptions = self.state.connections.subscriptions();
            let web_clients = subscriptions.filter(|(_, client)| client.receives(&event.audience)).count();
            if !self.state.live_texts.admit_send(web_clients, event.body.text_bytes(), self.hub.rt.now()) {
                return Ok(());
            }
            self.broadcast(self.state.events.last_published(), &event.body, |client| client.receives(&event.audience));
        }
        let session = &mut self.state.session_mut(&alive.sid)?.session;
        (session.activity, session.activity_at) = (activity.cloned(), activity_at);
        Ok(())
    }
}

/// Updates a session from a keep-alive that arrived at `at`. Returns whether anything but `active_at` changed.
fn update_presence(s: &mut Session, alive: &SessionAlive, at: u64, now: u64) -> bool {
    s.active_at = s.active_at.max(at);
    let mut is_changed = !std::mem::replace(&mut s.active, true);
    is_changed |= s.ended_at.take().is_some();
    if let Some(thinking) = alive.thinking.filter(|thinking| *thinking != s.thinking) {
        (s.thinking, s.thinking_at, s.activity_at, is_changed) = (thinking, now, None, true);
        s.unseen_since = s.unseen_since.filter(|_| !thinking);
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
