//! Connected web clients: subscribing and resuming, heartbeats, visibility, the end of their tokens.

use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::peers::connections::Peer;
use crate::hub::core::peers::subscription::Subscription;
use crate::hub::core::ports::ConnId;
use crate::hub::core::schedule::next_tick;
use crate::hub::events::publish::connection_changed;
use crate::hub::turn::Turn;
use crate::limits::{HEARTBEAT_INTERVAL_MS, RETAINED_BYTES};
use crate::model::text_parts::TextParts;
use crate::store::events::{self, TRIM_BYTES};

/// How long a web client that resumes waits for the memory to read the event log, in milliseconds.
const LOG_MEMORY_TIMEOUT_MS: u64 = 2_000;

impl Hub {
    /// Returns the newer of two event ids. An id that is malformed or of another namespace counts as older.
    pub fn newer_event_id(&self, one: Option<String>, other: Option<String>) -> Option<String> {
        let ids = &self.turn().events.ids;
        one.into_iter().chain(other).max_by_key(|id| ids.parse(id))
    }

    /// Loads the events after `last_event_id` that are still in the log, if there is memory for them, for [`Hub::subscribe`].
    pub async fn load_missed_events(&self, last_event_id: Option<&str>) -> Result<(), Error> {
        self.publish_missed_events().await?;
        let to_load = || last_event_id.and_then(|id| self.turn().events.rows_to_load(id));
        if to_load().is_none() {
            return Ok(());
        }
        // One client loads the rows for all that wait. If the read fails, all get its error, instead of waiting for the same timeout each.
        let requested_at = self.rt.now();
        let mut last_failure = self.log_reads.lock().await;
        let failed_during_wait = |failed_at| requested_at < failed_at && failed_at <= self.rt.now();
        if let Some((_, error)) = last_failure.as_ref().filter(|(failed_at, _)| failed_during_wait(*failed_at)) {
            return Err(error.clone().into());
        }
        if let Some((after, up_to)) = to_load() {
            // Memory for the rows as text, and for their events. Without it, the client gets a gap notice. Waiting with the lock is
            // safe: no task that frees memory needs the lock, and all clients that wait for it have the same deadline.
            let deadline = requested_at + LOG_MEMORY_TIMEOUT_MS;
            let memory = self.memory.reserve_until(2 * (RETAINED_BYTES + TRIM_BYTES), deadline).await;
            let Ok(_memory) = memory else { return Ok(()) };
            let rows = events::load(&self.db, &self.config.namespace, after, Some(up_to)).await;
            let rows = rows.inspect_err(|error| *last_failure = Some((self.rt.now(), error.clone())))?;
            self.turn().events.log.insert_loaded(up_to, rows);
        }
        Ok(())
    }

    /// Registers a web client and sends it `connection-changed`, then the events that it missed since `last_event_id`.
    pub fn subscribe(&self, conn: ConnId, mut subscription: Subscription, last_event_id: Option<&str>) {
        subscription.id = self.ids.uuid();
        let now = self.rt.now();
        subscription.set_visibility(subscription.is_reported_visible, now);
        let mut turn = self.turn();
        subscription.last_published = turn.events.last_published;
        let (resume_after, resume) = match last_event_id.map(|id| turn.events.resume_point(id)) {
            None => (subscription.last_published, "ok"),
            Some(Some(number)) => (number, "ok"),
            Some(None) => (subscription.last_published, "gap"),
        };
        let missed = turn.events.log.events_after(resume_after);
        let missed = missed.filter(|(_, event)| subscription.receives(&event.audience));
        let frame = |number, body: &TextParts| turn.events.ids.frame(subscription.format, number, body);
        // `connection-changed` has the id from which the client resumes, also if it disconnects right after this frame.
        let mut frames = vec![frame(resume_after, &connection_changed(&subscription, resume))];
        frames.extend(missed.map(|(number, event)| frame(*number, &event.body)));
        let format = subscription.format;
        let session = subscription.session.as_deref();
        let texts = session.map_or_else(Vec::new, |session| turn.live_texts.texts_so_far(session, now));
        turn.start_logging();
        turn.start_ticks();
        turn.set_peer(conn, Peer::Web(subscription));
        for frame in frames {
            turn.send_to_web_clients(&[conn], &frame);
        }
        for text in texts {
            turn.send_delta(&[(conn, format)], &text);
        }
        turn.announce_storage_to(conn, format);
        turn.request_alarm(Some(next_tick(now, HEARTBEAT_INTERVAL_MS)));
        drop(turn);
        self.announce_storage_when_counted();
    }

    /// `POST /api/visibility`: sets whether the page of a web client is visible.
    pub fn set_visibility(&self, subscription_id: &str, visible: bool) -> Result<(), Error> {
        let mut turn = self.turn();
        let found = turn.connections.subscriptions().find(|(_, s)| s.id == subscription_id);
        let (conn, mut subscription) = found.map(|(c, s)| (c, s.clone())).ok_or(Error::NotFound(Kind::Subscription))?;
        subscription.set_visibility(visible, self.rt.now());
        turn.set_peer(conn, Peer::Web(subscription));
        Ok(())
    }
}

impl Turn<'_> {
    pub fn send_heartbeats(&mut self) {
        let heartbeat = r#"{"type":"heartbeat"}"#.to_owned().into();
        self.broadcast(self.state.events.last_published, &heartbeat, |_| true);
        self.state.connections.record_heartbeat();
    }
}
