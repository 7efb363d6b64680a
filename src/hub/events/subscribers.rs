//! Connected web clients: subscribing, sending events, heartbeats and toasts, visibility.

use serde::Serialize;

use crate::hub::error::{Error, Kind};
use crate::hub::events::numbering::frame_without_id;
use crate::hub::peers::connections::{Connection, Peer};
use crate::hub::peers::subscription::{Format, Subscription};
use crate::hub::ports::ConnId;
use crate::hub::state::schedule::next_tick;
use crate::hub::{Hub, State};
use crate::limits::HEARTBEAT_INTERVAL_MS;
use crate::model::event::Event;
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
    /// Registers a web client and sends it `connection-changed`, the events that it missed since `last_event_id`, and what the
    /// agent of its session is writing.
    pub fn subscribe(&self, conn: ConnId, mut subscription: Subscription, last_event_id: Option<&str>) {
        subscription.id = self.new_id();
        let now = self.rt.now();
        subscription.visibility_confirmed_at = now;
        let mut state = self.state();
        subscription.last_published = state.event_numbers.last_published();
        let (from, resume) = match last_event_id.map(|id| state.resume_point(id)) {
            None => (subscription.last_published, "ok"),
            Some(Some(number)) => (number, "ok"),
            Some(None) => (subscription.last_published, "gap"),
        };
        let missed = state.log.iter().flat_map(|log| log.events_after(from));
        let missed = missed.filter(|(_, event)| subscription.receives(&event.audience));
        let frame = |number, body: &TextParts| state.event_numbers.frame(subscription.format, number, body);
        // `connection-changed` has the id that the client resumes from, so a client that disconnects right after it can
        // still resume there.
        let mut frames = vec![frame(from, &connection_changed(&subscription, resume))];
        frames.extend(missed.map(|(number, event)| frame(*number, &event.body)));
        let client = [(conn, subscription.format)];
        let session = subscription.session.as_deref();
        let texts = session.map_or_else(Vec::new, |session| state.live_texts.texts_so_far(session, now));
        self.start_logging(&mut state);
        self.start_ticks(&mut state);
        self.set_peer(&mut state, conn, Peer::Web(subscription));
        for frame in frames {
            self.send_to_web_clients(&mut state, &[conn], &frame);
        }
        for text in texts {
            self.send_delta(&mut state, &client, &text);
        }
        self.request_alarm(&mut state, Some(next_tick(now, HEARTBEAT_INTERVAL_MS)));
    }

    /// Sends an event to the web clients that subscribed to it.
    pub(in crate::hub) fn send_event(&self, state: &mut State, event: &Event) {
        self.broadcast(state, &event.body, |subscription| subscription.receives(&event.audience));
    }

    /// Sends an encoded delta to web clients, without an event id. It is dropped for clients that are slow, and for all when the
    /// namespace sends too many.
    pub(in crate::hub) fn send_delta(&self, state: &mut State, clients: &[(ConnId, Format)], body: &str) {
        if !state.live_texts.admit_send(clients.len(), body.len(), self.rt.now()) {
            return;
        }
        for (format, mut ready) in by_format(clients) {
            let frame = frame_without_id(format, body);
            ready.retain(|conn| state.connections.record_droppable(*conn, frame.len()));
            self.rt.send(&ready, &frame);
        }
    }

    /// Notifies web clients that they have missed events: those that receive a session's messages, or all.
    pub(in crate::hub) fn send_gap_notice(&self, state: &mut State, session: Option<&str>) {
        let number = state.event_numbers.last_published();
        let frame = |(conn, subscription): (ConnId, &Subscription)| {
            let body = connection_changed(subscription, "gap");
            (conn, state.event_numbers.frame(subscription.format, number, &body))
        };
        let subscriptions = state.connections.subscriptions();
        let affected = subscriptions.filter(|(_, s)| session.is_none() || s.session.as_deref() == session);
        let frames: Vec<(ConnId, String)> = affected.map(frame).collect();
        for (conn, frame) in frames {
            self.send_to_web_clients(state, &[conn], &frame);
        }
    }

    /// Disconnects web clients whose token has expired.
    pub(in crate::hub) fn close_expired(&self, now: u64) {
        let mut state = self.state();
        let is_expired = |subscription: &Subscription| subscription.expires_at.is_some_and(|at| at <= now);
        let expired = state.connections.subscriptions().filter(|(_, subscription)| is_expired(subscription));
        let expired: Vec<ConnId> = expired.map(|(conn, _)| conn).collect();
        for conn in expired {
            self.disconnect(&mut state, conn, 4401, "Token expired: reconnect with a new one");
        }
    }

    pub(in crate::hub) fn send_heartbeats(&self) {
        let mut state = self.state();
        self.broadcast(&mut state, &HEARTBEAT.to_owned().into(), |_| true);
        state.connections.record_heartbeat();
    }

    /// Sends a notification as a toast to all visible web clients.
    pub(in crate::hub) fn send_toast(&self, state: &mut State, notification: &Notification) {
        let (title, url) = (notification.title(), notification.url());
        let Notification { session_id, body, .. } = notification;
        let toast = encode(&ConnectionEvent::Toast { data: Toast { title, body, session_id, url: &url } });
        let now = self.rt.now();
        self.broadcast(state, &toast, |subscription| subscription.counts_as_visible(now));
    }

    /// Sends an event body, with the id of the last published event, to all web clients that match.
    fn broadcast(&self, state: &mut State, body: &TextParts, matches: impl Fn(&Subscription) -> bool) {
        let number = state.event_numbers.last_published();
        let recipients = state.connections.subscriptions().filter(|(_, subscription)| matches(subscription));
        let recipients: Vec<(ConnId, Format)> = recipients.map(|(conn, s)| (conn, s.format)).collect();
        for (format, conns) in by_format(&recipients) {
            let frame = state.event_numbers.frame(format, number, body);
            self.send_to_web_clients(state, &conns, &frame);
        }
    }

    /// Sends a frame to web clients, and disconnects those with too many unread bytes.
    fn send_to_web_clients(&self, state: &mut State, to: &[ConnId], frame: &str) {
        self.send_unless_stalled(state, to, frame, "Too much is unread: reconnect with `lastEventId`");
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
        let mut state = self.state();
        let found = state.connections.subscriptions().find(|(_, s)| s.id == subscription_id);
        let (conn, mut subscription) = found.map(|(c, s)| (c, s.clone())).ok_or(Error::NotFound(Kind::Subscription))?;
        subscription.set_visibility(visible, self.rt.now());
        self.set_peer(&mut state, conn, Peer::Web(subscription));
        Ok(())
    }
}
