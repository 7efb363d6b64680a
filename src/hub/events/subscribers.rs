//! Connected web clients: subscribing, sending events, heartbeats and toasts, visibility.

use crate::hub::turn::Turn;
use serde::Serialize;

use crate::hub::Hub;
use crate::hub::base::error::{Error, Kind};
use crate::hub::base::events::numbering::frame_without_id;
use crate::hub::base::peers::connections::{Connection, Peer};
use crate::hub::base::peers::subscription::{Format, Subscription};
use crate::hub::base::ports::ConnId;
use crate::hub::base::state::schedule::next_tick;
use crate::limits::HEARTBEAT_INTERVAL_MS;
use crate::model::event::{Event, MessageDelta};
use crate::model::text_parts::TextParts;
use crate::push::payload::Notification;

/// Events that do not report a change and are not logged.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum ConnectionEvent<'a> {
    ConnectionChanged { data: Connected<'a> },
    Toast { data: Toast<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connected<'a> {
    status: &'static str,
    subscription_id: &'a str,
    resume: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Toast<'a> {
    title: &'a str,
    body: &'a str,
    session_id: &'a str,
    url: &'a str,
}

fn connection_changed(subscription: &Subscription, resume: &'static str) -> TextParts {
    encode(&ConnectionEvent::ConnectionChanged {
        data: Connected { status: "connected", subscription_id: &subscription.id, resume },
    })
}

fn encode(event: &ConnectionEvent<'_>) -> TextParts {
    serde_json::to_string(event).unwrap_or_default().into()
}

/// Groups web clients by their format, because those of one format receive the same frame.
fn by_format(clients: &[(ConnId, Format)]) -> impl Iterator<Item = (Format, Vec<ConnId>)> {
    let of_format = |format| clients.iter().filter(move |(_, of_client)| *of_client == format).map(|(conn, _)| *conn);
    let groups = [Format::Json, Format::Sse].into_iter().map(move |format| (format, of_format(format).collect()));
    groups.filter(|(_, conns): &(Format, Vec<ConnId>)| !conns.is_empty())
}

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

impl Hub {
    /// Registers a web client and sends it `connection-changed`, then the events that it missed since `last_event_id`.
    pub fn subscribe(&self, conn: ConnId, mut subscription: Subscription, last_event_id: Option<&str>) {
        subscription.id = self.new_id();
        let now = self.rt.now();
        subscription.visibility_confirmed_at = now;
        let mut turn = self.turn();
        subscription.last_published = turn.event_numbers.last_published();
        let (from, resume) = match last_event_id.map(|id| turn.resume_point(id)) {
            None => (subscription.last_published, "ok"),
            Some(Some(number)) => (number, "ok"),
            Some(None) => (subscription.last_published, "gap"),
        };
        let missed = turn.log.iter().flat_map(|log| log.events_after(from));
        let missed = missed.filter(|(_, event)| subscription.receives(&event.audience));
        let frame = |number, body: &TextParts| turn.event_numbers.frame(subscription.format, number, body);
        // `connection-changed` has the id that the client resumes from, so a client that disconnects right after it can
        // still resume there.
        let mut frames = vec![frame(from, &connection_changed(&subscription, resume))];
        frames.extend(missed.map(|(number, event)| frame(*number, &event.body)));
        turn.start_logging();
        turn.start_ticks();
        turn.set_peer(conn, Peer::Web(subscription));
        for frame in frames {
            turn.send_to_web_clients(&[conn], &frame);
        }
        turn.request_alarm(Some(next_tick(now, HEARTBEAT_INTERVAL_MS)));
    }

    /// Handles a frame of a web client: any text acknowledges a heartbeat.
    pub(in crate::hub) fn on_web_client_text(&self, conn: ConnId, connection: &mut Connection) {
        connection.send_window.acknowledge();
        if let Peer::Web(subscription) = &mut connection.peer
            && subscription.record_heartbeat_ack(self.rt.now())
        {
            self.write_attachment(conn, &connection.peer);
        }
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
    /// Disconnects web clients whose token has expired.
    pub(in crate::hub) fn close_expired(&mut self, now: u64) {
        let is_expired = |subscription: &Subscription| subscription.expires_at.is_some_and(|at| at <= now);
        let expired = self.state.connections.subscriptions().filter(|(_, subscription)| is_expired(subscription));
        let expired: Vec<ConnId> = expired.map(|(conn, _)| conn).collect();
        for conn in expired {
            self.disconnect(conn, 4401, "Token expired: reconnect with a new one");
        }
    }

    pub(in crate::hub) fn send_heartbeats(&mut self) {
        self.broadcast(&HEARTBEAT.to_owned().into(), |_| true);
        self.state.connections.record_heartbeat();
    }
}

impl Turn<'_> {
    /// Sends an event to the web clients that subscribed to it.
    pub(in crate::hub) fn send_event(&mut self, event: &Event) {
        self.broadcast(&event.body, |subscription| subscription.receives(&event.audience));
    }

    /// Sends a delta to the web clients that receive the session's messages, without an event id. It is dropped for clients that
    /// are slow, and for all when the namespace sends too many.
    pub(in crate::hub) fn send_delta(&mut self, delta: &MessageDelta<'_>) {
        let clients: Vec<(ConnId, Format)> = self.state.connections.subscribers_of(delta.session_id).collect();
        if clients.is_empty() || !self.state.live_texts.admit_send(clients.len(), delta.text.len(), self.hub.rt.now()) {
            return;
        }
        let body = delta.encode();
        for (format, mut ready) in by_format(&clients) {
            let frame = frame_without_id(format, &body);
            ready.retain(|conn| self.state.connections.record_droppable(*conn, frame.len()));
            self.hub.rt.send(&ready, &frame);
        }
    }

    /// Notifies web clients that they have missed events: those that receive a session's messages, or all.
    pub(in crate::hub) fn send_gap_notice(&mut self, session: Option<&str>) {
        let number = self.state.event_numbers.last_published();
        let frame = |(conn, subscription): (ConnId, &Subscription)| {
            let body = connection_changed(subscription, "gap");
            (conn, self.state.event_numbers.frame(subscription.format, number, &body))
        };
        let subscriptions = self.state.connections.subscriptions();
        let affected = subscriptions.filter(|(_, s)| session.is_none() || s.session.as_deref() == session);
        let frames: Vec<(ConnId, String)> = affected.map(frame).collect();
        for (conn, frame) in frames {
            self.send_to_web_clients(&[conn], &frame);
        }
    }

    /// Sends a notification as a toast to all visible web clients.
    pub(in crate::hub) fn send_toast(&mut self, notification: &Notification) {
        let (title, url) = (notification.title(), notification.url());
        let Notification { session_id, body, .. } = notification;
        let toast = encode(&ConnectionEvent::Toast { data: Toast { title, body, session_id, url: &url } });
        let now = self.hub.rt.now();
        self.broadcast(&toast, |subscription| subscription.counts_as_visible(now));
    }

    /// Sends an event body, with the id of the last published event, to all web clients that match.
    fn broadcast(&mut self, body: &TextParts, matches: impl Fn(&Subscription) -> bool) {
        let number = self.state.event_numbers.last_published();
        let recipients = self.state.connections.subscriptions().filter(|(_, subscription)| matches(subscription));
        let recipients: Vec<(ConnId, Format)> = recipients.map(|(conn, s)| (conn, s.format)).collect();
        for (format, conns) in by_format(&recipients) {
            let frame = self.state.event_numbers.frame(format, number, body);
            self.send_to_web_clients(&conns, &frame);
        }
    }

    /// Sends a frame to web clients, and disconnects those with too many unread bytes.
    fn send_to_web_clients(&mut self, to: &[ConnId], frame: &str) {
        self.send_unless_stalled(to, frame, "Too much is unread: reconnect with `lastEventId`");
    }
}
