//! Starts and ends the log of events. Events are logged while a web client is connected, and for ten minutes after.

use crate::hub::core::events::stream::HEAD_KEY;
use crate::hub::core::peers::connections::Peer;
use crate::hub::core::peers::subscription::Subscription;
use crate::hub::turn::Turn;
use crate::store::{Database as _, events};

impl Turn<'_> {
    /// Starts to log events when a web client connects, unless events are already logged.
    pub fn start_logging(&mut self) {
        if self.state.events.on_client_connected() {
            self.store_stream_head();
        }
    }

    /// Schedules the end of the log if no web client is connected any more.
    pub fn schedule_log_end(&mut self) {
        if self.state.connections.subscriptions().next().is_some() {
            return self.persist_last_published();
        }
        if self.state.events.on_last_client_disconnected(self.hub.rt.now()) {
            self.store_stream_head();
            self.request_alarm(self.state.events.logging_ends_at());
        }
    }

    /// Ends the log if no web client has been connected for ten minutes.
    pub fn stop_expired_log(&mut self, now: u64) {
        let Some(last) = self.state.events.on_log_alarm(now) else { return };
        self.store_stream_head();
        self.hub.spawn(|hub| async move {
            // If the deletion fails, the next log deletes the rows, because their numbers are below its start.
            let _ = hub.db.batch(&mut vec![events::delete(&hub.config.namespace, last)]).await;
        });
    }

    pub fn restore_event_stream(&mut self) {
        let last_published = self.state.connections.subscriptions().map(|(_, s)| s.last_published).max();
        self.state.events.on_wake(&self.hub.rt.kv_get(HEAD_KEY).unwrap_or_default(), last_published);
        match last_published {
            Some(_) => self.start_logging(),
            None => self.schedule_log_end(),
        }
    }

    /// Stores the number of the last published event in one web client's attachment: it shows a woken hub what all clients have received.
    pub fn persist_last_published(&mut self) {
        let last_published = self.state.events.last_published;
        let first = self.state.connections.subscriptions().next().map(|(conn, first)| (conn, first.clone()));
        if let Some((conn, first)) = first.filter(|(_, first)| first.last_published != last_published) {
            self.set_peer(conn, Peer::Web(Subscription { last_published, ..first }));
        }
    }

    fn store_stream_head(&self) {
        self.hub.rt.kv_put(HEAD_KEY, &self.state.events.head());
    }
}
