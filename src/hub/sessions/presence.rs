//! The presence of a session: whether the session is active, and whether its agent is thinking. The CLI reports the presence
//! with `session-alive` and `session-end` (PROTOCOL-CLI.md "Liveness"). Only changes are written to the database.

use futures::future::join_all;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::{AckTiming, State};
use crate::hub::sessions::changes::Changes;
use crate::hub::sessions::load::state_if_pending;
use crate::hub::turn::Turn;
use crate::hub::write::commit::MAX_GROUPED_LOOKUPS;
use crate::limits::PRESENCE_INTERVAL_MS;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::owner::Owner;
use crate::model::session::{Session, mark_running};
use crate::wire::cli::SessionAlive;

#[derive(Debug, Clone, Copy)]
pub(in crate::hub) enum EndCause {
    /// A CLI has left the session. If another CLI serves the session, the session ends at its deadline instead.
    LeftBy(ConnId),
    /// The agent was aborted after `reports` reports of the namespace. The session stays active if a CLI has reported it alive since.
    Aborted {
        reports: u64,
    },
    Archived,
}

impl Hub {
    /// Handles `session-alive`, which arrived at `at`. An unchanged presence is published every [`PRESENCE_INTERVAL_MS`], as a reminder.
    pub async fn on_session_alive(&self, alive: &SessionAlive, from: ConnId, at: u64) -> Result<AckTiming, Error> {
        let id = &alive.sid;
        self.turn().restart_deadline_on_arrival(Owner::Session(id.clone()), from, at);
        self.load_session(id).await?;
        // A keep-alive reopens an archived session only if the session is being resumed. Other keep-alives may come from a CLI that has
        // archived the session and is about to end.
        let may_reopen = |state: &State| {
            let entry = state.cache.entry(id);
            entry.is_some_and(|entry| entry.session.metadata_fields().is_archived() && !entry.session.active)
                && state.in_flight.expects_reactivation(id, self.rt.now())
        };
        let mut archived_metadata = None;
        if may_reopen(&self.turn()) {
            let read = |turn: &mut Turn<'_>, metadata: Option<Json>| Ok(metadata.filter(|_| may_reopen(turn)));
            archived_metadata = self.with_field(id, |session| &session.metadata, read).await?;
        }
        let ack_timing = self.turn().apply_alive(alive, (from, at), archived_metadata)?;
        self.start_commit();
        self.start_delivery(id);
        Ok(ack_timing)
    }

    /// Ends a session: makes it inactive, with the exceptions of [`EndCause`], and cancels its pending permission requests.
    pub(in crate::hub) async fn end_session(&self, id: &str, cause: EndCause) -> Result<(), Error> {
        let owner = Owner::Session(id.to_owned());
        if let EndCause::LeftBy(_) = cause {
            self.turn().ensure_write_queue_has_room(0)?;
        }
        self.with_field(id, state_if_pending, |turn, stored| {
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
    pub(in crate::hub) async fn expire_session(&self, id: &str) -> Result<(), Error> {
        let owner = Owner::Session(id.to_owned());
        self.with_field(id, state_if_pending, |turn, stored| {
            if !turn.liveness.is_expired(&owner) {
                return Ok(());
            }
            let is_end_requested = turn.liveness.deadline_to_store(&owner).is_end_requested;
            turn.deactivate(id, is_end_requested)?;
            if is_end_requested { turn.cancel_pending(id, stored) } else { turn.start_request_retention(id) }
        })
        .await
    }

    /// Records the sessions to which no CLI has been connected for a moment, and publishes them in a task if a web client is connected.
    pub(in crate::hub) fn publish_disconnected(&self, now: u64) {
        let mut turn = self.turn();
        let ids = turn.liveness.take_disconnected(now);
        ids.iter().for_each(|id| turn.cache.set_disconnected(id));
        if ids.is_empty() || turn.connections.subscriptions().next().is_none() {
            return;
        }
        self.spawn(|hub| async move {
            for ids in ids.chunks(MAX_GROUPED_LOOKUPS) {
                // Concurrent loads share a batch.
                join_all(ids.iter().map(|id| hub.load_session(id))).await;
                for id in ids {
                    // After a wake, a deadline may belong to a session that was deleted.
                    let is_loaded = hub.load_session(id).await.is_ok();
                    let mut turn = hub.turn();
                    if is_loaded && turn.cache.entry(id).is_some_and(|entry| entry.session.disconnected) {
                        turn.publish_session(id, |_| Changes { disconnected: Some(true), ..Changes::default() }).ok();
                    }
                }
            }
            hub.start_commit();
        });
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
        let is_changed = self.state.change_entry(id, Changes::default(), |entry, _| {
            let is_changed = update_presence(&mut entry.session, alive, at, now);
            if is_changed {
                (entry.session.disconnected, entry.presence_published_at) = (false, now);
                if let Some(activity) = new_activity(&entry.session, alive, now) {
                    (entry.session.activity, entry.session.activity_at) = activity;
                }
            }
            is_changed
        })?;
        if !is_changed {
            self.publish_unchanged_presence(alive, now)?;
        }
        self.clear_reactivation(id);
        self.state.activation_waiters.complete(id, &Ok(id.clone()));
        Ok(self.state.ack_timing(is_changed))
    }

    /// Publishes the presence if the CLI is back or a reminder is due, and otherwise what the agent is doing if this has changed.
    /// Writes neither, and does not log the activity. If the namespace sends too many events, the activity waits for a later keep-alive.
    fn publish_unchanged_presence(&mut self, alive: &SessionAlive, now: u64) -> Result<(), Error> {
        let id = &alive.sid;
        let is_reminder_allowed = self.state.reminders.is_allowed(now);
        let entry = self.state.cache.require_entry(id)?;
        let is_reminder = entry.session.disconnected
            || is_reminder_allowed && now >= entry.presence_published_at + PRESENCE_INTERVAL_MS;
        if let Some((activity, activity_at)) = new_activity(&entry.session, alive, now)
            && (is_reminder || self.send_activity(id, activity.as_deref(), activity_at))
        {
            let s = &mut self.state.session_mut(id)?.session;
            (s.activity, s.activity_at) = (activity, activity_at);
        }
        if is_reminder {
            let entry = self.state.session_mut(id)?;
            (entry.session.disconnected, entry.presence_published_at) = (false, now);
            self.state.publish_session(id, |session| Changes::presence(session))?;
            let web_clients = self.state.connections.subscriptions().count();
            self.state.reminders.record(web_clients, now);
        }
        Ok(())
    }

    /// Sends web clients what the agent is doing. Returns false if the namespace sends too many events.
    fn send_activity(&mut self, id: &str, activity: Option<&str>, activity_at: Option<u64>) -> bool {
        let changes = Changes { activity: Some(activity), activity_at: Some(activity_at), ..Changes::default() };
        let event = Event::session_updated(id, &changes);
        let subscriptions = self.state.connections.subscriptions();
        let web_clients = subscriptions.filter(|(_, client)| client.receives(&event.audience)).count();
        let is_sent = self.state.live_texts.admit_send(web_clients, event.body.text_bytes(), self.hub.rt.now());
        if is_sent {
            self.broadcast(self.state.events.last_published, &event.body, |client| client.receives(&event.audience));
        }
        is_sent
    }
}

/// Returns what the agent is doing and since when; `None` if this has not changed.
fn new_activity(session: &Session, alive: &SessionAlive, now: u64) -> Option<(Option<String>, Option<u64>)> {
    let activity = alive.activity.as_ref().filter(|_| session.thinking);
    // After a wake, the hub does not know the previous activity, which may be the same. So no time of a change is set.
    let is_known_change = session.activity.is_some() || session.activity_at.is_some();
    let activity_at = (session.thinking && is_known_change).then_some(now);
    (session.activity.as_ref() != activity).then(|| (activity.cloned(), activity_at))
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
