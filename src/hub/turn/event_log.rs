//! When events are logged: while a web client is connected, and for ten minutes after.

use crate::hub::Hub;
use crate::hub::base::events::log::{EventLog, HEAD_KEY, LogHead};
use crate::hub::base::peers::connections::Peer;
use crate::hub::base::peers::subscription::Subscription;
use crate::hub::turn::Turn;

impl Turn<'_> {
    /// Starts the log, unless it is on, because a web client connects.
    pub(in crate::hub) fn start_logging(&mut self) {
        // The events of a batch in flight are not in the log.
        let start = self.state.event_numbers.last_reserved();
        let is_new = self.state.log.is_none();
        let log = self.state.log.get_or_insert_with(|| EventLog::new(start));
        if log.set_in_use() || is_new {
            self.hub.write_log_head(log);
        }
    }

    /// Schedules the end of the log if the web client that disconnected was the last one.
    pub(in crate::hub) fn stop_logging_later(&mut self) {
        if self.state.connections.subscriptions().next().is_some() {
            return self.persist_last_published();
        }
        let now = self.hub.rt.now();
        let Some(log) = &mut self.state.log else { return };
        if log.set_idle(now) {
            self.hub.write_log_head(log);
            let end = log.ends_at();
            self.request_alarm(end);
        }
    }

    /// Stores the number of the last published event in the attachment of a web client's socket. If the hub loses its memory
    /// but not its sockets, it knows which events the connected clients have received.
    pub(in crate::hub) fn persist_last_published(&mut self) {
        let last_published = self.state.event_numbers.last_published();
        let first = self.state.connections.subscriptions().next().map(|(conn, first)| (conn, first.clone()));
        if let Some((conn, first)) = first.filter(|(_, first)| first.last_published != last_published) {
            self.set_peer(conn, Peer::Web(Subscription { last_published, ..first }));
        }
    }

    /// Restores the log after hibernation or a restart.
    pub(in crate::hub) fn restore_event_log(&mut self) {
        let head = self.hub.rt.kv_get(HEAD_KEY);
        let last_published =
            self.state.connections.subscriptions().map(|(_, subscription)| subscription.last_published).max();
        match head.and_then(|head| LogHead::decode(&head)) {
            Some(LogHead::On(span)) => {
                self.state.event_numbers.continue_after(last_published.unwrap_or_default().max(span.start));
                self.state.log = Some(EventLog::restore(span, last_published));
            }
            // The numbers of later events are not stored, but no web client has received them.
            Some(LogHead::Off(last)) => {
                let after = self.state.event_numbers.last_published().max(last + 1);
                self.state.event_numbers.continue_after(after);
            }
            None => {}
        }
        match last_published {
            Some(_) => self.start_logging(),
            None => self.stop_logging_later(),
        }
    }
}

impl Hub {
    pub(in crate::hub) fn write_log_head(&self, log: &EventLog) {
        self.rt.kv_put(HEAD_KEY, &LogHead::On(log.span().clone()).encode());
    }
}
