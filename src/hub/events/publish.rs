//! Drives the [`EventStream`](crate::hub::core::events::stream::EventStream): publishes events, also missed ones from the log.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::events::stream::{Action, frame_without_id};
use crate::hub::core::namespace::quotas::StorageLevel;
use crate::hub::core::peers::subscription::{Format, Subscription};
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::limits::BACKGROUND_RETRY_MS;
use crate::metrics::Counter;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::text_parts::TextParts;
use crate::push::payload::Notification;
use crate::store::DbError;
use crate::store::events::{self, EventsRow};

/// After how many rejected reads of the event log the hub gives up. Clients then get the missed events with the next batch.
const MAX_REJECTED_LOG_READS: u32 = 10;

pub(in crate::hub) fn connection_changed(subscription: &Subscription, resume: &'static str) -> TextParts {
    let (status, id) = (Json::of("connected"), Json::of(&subscription.id));
    let data = [("status", status), ("subscriptionId", id), ("resume", Json::of(resume))];
    encode("connection-changed", Json::object(&data))
}

fn storage_changed((bytes, max_bytes): (u64, u64)) -> TextParts {
    encode("storage-changed", Json::object(&[("bytes", Json::of(&bytes)), ("maxBytes", Json::of(&max_bytes))]))
}

/// Encodes an event that does not report a change and is not logged.
fn encode(name: &str, data: Json) -> TextParts {
    Json::object(&[("type", Json::of(name)), ("data", data)]).text().to_owned().into()
}

/// Groups web clients by their format, because all clients of one format receive the same frame.
fn group_by_format(clients: &[(ConnId, Format)]) -> impl Iterator<Item = (Format, Vec<ConnId>)> {
    let of_format =
        |format| clients.iter().filter(move |(_, client_format)| *client_format == format).map(|(conn, _)| *conn);
    let groups = [Format::Json, Format::Sse].into_iter().map(move |format| (format, of_format(format).collect()));
    groups.filter(|(_, conns): &(Format, Vec<ConnId>)| !conns.is_empty())
}

impl Turn<'_> {
    /// Publishes an event once its change is durable. `number` is `None` for an event that changes nothing in the database.
    pub fn publish(&mut self, number: Option<u64>, event: impl FnOnce() -> Event) {
        if let Some(action) = self.state.events.on_committed(number, event) {
            self.perform_action(action);
        }
    }

    /// Withdraws the events of a batch that failed. If the batch may have been committed, reads the log to find out.
    pub fn withdraw_failed_events(&mut self, error: &DbError) {
        if let Some(action) = self.state.events.on_failed(error.is_outcome_unknown()) {
            self.perform_action(action);
        }
    }

    fn perform_action(&mut self, action: Action) {
        match action {
            Action::Send(number, event) => {
                self.hub.telemetry.metrics.count(Counter::Event);
                self.broadcast(number, &event.body, |subscription| subscription.receives(&event.audience));
            }
            Action::Gap(number) => self.send_gap_notice(number, None),
            Action::Read => self.hub.spawn(Hub::publish_missed_events_with_retries),
        }
    }

    /// Sends an encoded delta to web clients, without an event id. Drops it for slow clients, or for all if the namespace sends too many.
    pub fn send_delta(&mut self, clients: &[(ConnId, Format)], body: &str) {
        if !self.state.live_texts.admit_send(clients.len(), body.len(), self.hub.rt.now()) {
            return;
        }
        for (format, mut ready) in group_by_format(clients) {
            let frame = frame_without_id(format, body);
            ready.retain(|conn| self.state.connections.record_droppable(*conn, frame.len()));
            self.hub.rt.send(&ready, &frame);
        }
    }

    /// Sends a gap notice, with the id of event `number`, to the web clients that receive the messages of `session`; `None`: to all.
    pub fn send_gap_notice(&mut self, number: u64, session: Option<&str>) {
        let frame = |(conn, subscription): (ConnId, &Subscription)| {
            let body = connection_changed(subscription, "gap");
            (conn, self.state.events.ids.frame(subscription.format, number, &body))
        };
        let subscriptions = self.state.connections.subscriptions();
        let affected = subscriptions.filter(|(_, s)| session.is_none() || s.session.as_deref() == session);
        let frames: Vec<(ConnId, String)> = affected.map(frame).collect();
        for (conn, frame) in frames {
            self.hub.telemetry.metrics.count(Counter::Gap);
            self.send_to_web_clients(&[conn], &frame);
        }
    }

    /// Sends all web clients the used storage if its level has changed.
    pub fn announce_storage(&mut self) {
        let Some((bytes, max_bytes)) = self.state.stored_bytes.usage(&self.hub.config.quotas) else { return };
        let level = StorageLevel::of(bytes, max_bytes);
        if self.state.stored_bytes.announced_level.replace(level) != Some(level) {
            let event = storage_changed((bytes, max_bytes));
            self.broadcast(self.state.events.last_published, &event, |_| true);
        }
    }

    /// Sends a web client the used storage. If the bytes are not counted yet, all web clients get the event after the count.
    pub fn announce_storage_to(&mut self, conn: ConnId, format: Format) {
        let Some(storage) = self.state.stored_bytes.usage(&self.hub.config.quotas) else {
            self.state.stored_bytes.announced_level = None;
            return;
        };
        let last_published = self.state.events.last_published;
        let frame = self.state.events.ids.frame(format, last_published, &storage_changed(storage));
        self.send_to_web_clients(&[conn], &frame);
    }

    /// Sends a notification as a toast to all visible web clients. Returns whether there are any.
    pub fn send_toast(&mut self, notification: &Notification) -> bool {
        let members = [
            ("title", Some(Json::of(notification.title()))),
            ("body", Some(Json::of(&notification.body))),
            ("sessionId", Some(Json::of(&notification.session_id))),
            ("url", Some(Json::of(&notification.url()))),
        ];
        let details = self.state.notification_details(&self.hub.config, notification).members();
        let toast = encode("toast", Json::object_of_some(&[&members[..], &details].concat()));
        let now = self.hub.rt.now();
        self.broadcast(self.state.events.last_published, &toast, |subscription| subscription.counts_as_visible(now));
        self.state.connections.has_visible_client(None, 0, now)
    }

    /// Sends an event to all web clients that match. The id of the event has the number `number`.
    pub fn broadcast(&mut self, number: u64, body: &TextParts, matches: impl Fn(&Subscription) -> bool) {
        let recipients = self.state.connections.subscriptions().filter(|(_, subscription)| matches(subscription));
        let recipients: Vec<(ConnId, Format)> = recipients.map(|(conn, s)| (conn, s.format)).collect();
        for (format, conns) in group_by_format(&recipients) {
            let frame = self.state.events.ids.frame(format, number, body);
            self.send_to_web_clients(&conns, &frame);
        }
    }

    /// Sends a frame to web clients. Disconnects the clients with too many unread bytes.
    pub fn send_to_web_clients(&mut self, to: &[ConnId], frame: &str) {
        self.send_unless_stalled(to, frame, "Too much is unread: reconnect with `lastEventId`");
    }
}

impl Hub {
    /// Publishes the events that connected clients may have missed after a wake or an unknown outcome. Reads them from the log.
    pub(in crate::hub) async fn publish_missed_events(&self) -> Result<(), DbError> {
        let namespace = &self.config.namespace;
        loop {
            let Some(read) = self.turn().events.pending_read() else { return Ok(()) };
            let rows = match read.after {
                Some(number) => events::load(&self.db, namespace, number, None).await?,
                None => {
                    let last = events::load_last_number(&self.db, namespace).await?;
                    last.map(EventsRow::empty_after).into_iter().collect()
                }
            };
            let mut turn = self.turn();
            let actions = turn.events.on_rows_read(read, &rows);
            actions.into_iter().for_each(|action| turn.perform_action(action));
            turn.persist_last_published();
        }
    }

    /// Publishes missed events, and tries again if a read fails: otherwise, clients would get them only with the next batch or load.
    async fn publish_missed_events_with_retries(self: Arc<Self>) {
        let mut rejected_reads = 0;
        while let Err(error) = self.publish_missed_events().await {
            // After an unknown outcome, read again at once and do not count it: the query was already repeated for `DB_RETRY_PERIOD_MS`.
            if error.is_outcome_unknown() {
                continue;
            }
            rejected_reads += 1;
            // Stop trying, because the object cannot hibernate while this task sleeps.
            if rejected_reads == MAX_REJECTED_LOG_READS {
                return;
            }
            self.rt.sleep(BACKGROUND_RETRY_MS).await;
        }
    }
}
