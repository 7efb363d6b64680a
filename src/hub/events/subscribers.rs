//! Web clients: subscribing, events, heartbeats, visibility.

use serde::Serialize;

use crate::hub::error::{Error, Kind};
use crate::hub::limits::HEARTBEAT_INTERVAL_MS;
use crate::hub::peers::connections::{Connection, Peer};
use crate::hub::peers::subscription::{Format, Subscription};
use crate::hub::ports::ConnId;
use crate::hub::state::schedule::next_beat;
use crate::hub::{Hub, State};
use crate::model::event::Event;
use crate::push::payload::Notification;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Greeting<'a> {
    ConnectionChanged { data: Connected<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connected<'a> {
    status: &'static str,
    subscription_id: &'a str,
    resume: &'static str,
}

fn greeting(subscription: &Subscription, resume: &'static str) -> String {
    let data = Connected { status: "connected", subscription_id: &subscription.id, resume };
    serde_json::to_string(&Greeting::ConnectionChanged { data }).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Notice<'a> {
    Toast { data: Toast<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Toast<'a> {
    title: &'a str,
    body: &'a str,
    session_id: &'a str,
    url: &'a str,
}

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

impl Hub {
    /// A web client's socket is open: it is greeted and gets what it missed since the event that it heard last.
    pub fn subscribe(&self, conn: ConnId, mut subscription: Subscription, last_event_id: Option<&str>) {
        subscription.id = self.new_id();
        let now = self.rt.now();
        subscription.seen_at = now;
        let mut state = self.state();
        subscription.told = state.fanout.told();
        let (from, resume) = match last_event_id.map(|id| state.held_after(id)) {
            None => (subscription.told, "ok"),
            Some(Some(number)) => (number, "ok"),
            Some(None) => (subscription.told, "gap"),
        };
        let missed = state.log.iter().flat_map(|log| log.after(from));
        let missed = missed.filter(|(_, event)| subscription.hears(&event.audience));
        // The greeting stands where the client left off: whoever is cut off right after it misses nothing.
        let mut frames = vec![state.fanout.frame(subscription.format, from, &greeting(&subscription, resume))];
        frames.extend(missed.map(|(number, event)| state.fanout.frame(subscription.format, *number, &event.body)));
        self.join_log(&mut state);
        self.begin_beats(&mut state);
        self.put_peer(&mut state, conn, Peer::Web(subscription));
        for frame in frames {
            self.send_events(&mut state, &[conn], &frame);
        }
        self.want_alarm(&mut state, Some(next_beat(now, HEARTBEAT_INTERVAL_MS)));
    }

    /// Sends an event to those it concerns.
    pub(in crate::hub) fn send_event(&self, state: &mut State, event: &Event) {
        self.send_formatted(state, &event.body, |subscription| subscription.hears(&event.audience));
    }

    /// Tells every subscriber that it has missed something.
    pub(in crate::hub) fn tell_gap(&self, state: &mut State) {
        let number = state.fanout.told();
        let frame = |(conn, subscription): (ConnId, &Subscription)| {
            (conn, state.fanout.frame(subscription.format, number, &greeting(subscription, "gap")))
        };
        let frames: Vec<(ConnId, String)> = state.connections.subscriptions().map(frame).collect();
        for (conn, frame) in frames {
            self.send_events(state, &[conn], &frame);
        }
    }

    /// Closes the sockets of web clients whose token is good no more. They come back with a fresh one, and miss nothing.
    pub(in crate::hub) fn close_expired(&self, now: u64) {
        let mut state = self.state();
        let over = |subscription: &Subscription| subscription.expires_at.is_some_and(|at| at <= now);
        let expired = state.connections.subscriptions().filter(|(_, subscription)| over(subscription));
        let expired: Vec<ConnId> = expired.map(|(conn, _)| conn).collect();
        for conn in expired {
            self.drop_web_client(&mut state, conn, 4401, "Token expired: come back with a fresh one");
        }
    }

    /// Hangs up on a web client.
    fn drop_web_client(&self, state: &mut State, conn: ConnId, code: u16, reason: &str) {
        self.rt.close(conn, code, reason);
        self.gone(state, conn);
    }

    pub(in crate::hub) fn send_heartbeats(&self) {
        let mut state = self.state();
        self.send_formatted(&mut state, HEARTBEAT, |_| true);
        state.connections.beat();
    }

    /// Shows a notification to those who look at a page, whatever it is of. It is for now, so it is not replayed: whoever
    /// comes later finds what it tells of in the list.
    pub(in crate::hub) fn send_toast(&self, state: &mut State, notification: &Notification) {
        let (title, url) = (notification.title(), notification.url());
        let Notification { session_id, body, .. } = notification;
        let toast = Notice::Toast { data: Toast { title, body, session_id, url: &url } };
        let toast = serde_json::to_string(&toast).unwrap_or_default();
        let now = self.rt.now();
        self.send_formatted(state, &toast, |subscription| subscription.is_watching(now));
    }

    /// Sends a body under the number of the last event that was told.
    fn send_formatted(&self, state: &mut State, body: &str, to: impl Fn(&Subscription) -> bool) {
        let number = state.fanout.told();
        for format in [Format::Json, Format::Sse] {
            let heard = state.connections.subscriptions().filter(|(_, s)| s.format == format && to(s));
            let conns: Vec<ConnId> = heard.map(|(conn, _)| conn).collect();
            if !conns.is_empty() {
                let frame = state.fanout.frame(format, number, body);
                self.send_events(state, &conns, &frame);
            }
        }
    }

    /// Sends a frame to web clients, and hangs up on those who do not read.
    fn send_events(&self, state: &mut State, to: &[ConnId], frame: &str) {
        let (ready, stalled): (Vec<ConnId>, Vec<ConnId>) =
            to.iter().partition(|conn| state.connections.reads(**conn, frame.len()));
        self.rt.send(&ready, frame);
        for conn in stalled {
            self.drop_web_client(state, conn, 4408, "Too much is unread: come back with `lastEventId`");
        }
    }

    /// A web client sent a frame. Whatever it says, it means that the client is there, and reads.
    pub(in crate::hub) fn web_client_answered(&self, conn: ConnId, connection: &mut Connection) {
        connection.unread.answered();
        if let Peer::Web(subscription) = &mut connection.peer
            && subscription.answered(self.rt.now())
        {
            self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
        }
    }

    /// `POST /api/visibility`: whether a subscriber's page can be seen.
    pub fn set_visibility(&self, subscription_id: &str, visible: bool) -> Result<(), Error> {
        let mut state = self.state();
        let found = state.connections.subscriptions().find(|(_, s)| s.id == subscription_id);
        let (conn, mut subscription) = found.map(|(c, s)| (c, s.clone())).ok_or(Error::Missing(Kind::Subscription))?;
        subscription.state(visible, self.rt.now());
        self.put_peer(&mut state, conn, Peer::Web(subscription));
        Ok(())
    }
}
