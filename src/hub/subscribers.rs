//! Web clients: subscribing, replay of what was missed, events, heartbeats, visibility.

use serde::Serialize;

use super::connections::{Format, Peer, Subscription};
use super::error::{Error, Kind};
use super::fanout::Replay;
use super::ports::ConnId;
use super::schedule::{HEARTBEAT_MS, next_beat};
use super::{Hub, State};
use crate::model::event::Event;

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

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

impl Hub {
    /// A web client's socket is open: it is greeted and gets what it missed since the event that it heard last.
    pub fn subscribe(&self, conn: ConnId, mut subscription: Subscription, last_event_id: Option<&str>) {
        subscription.id = self.new_id();
        let now = self.rt.now();
        let mut state = self.state();
        let (resume, from, missed) = match state.fanout.replay(last_event_id, &subscription) {
            Replay::Held { from, missed } => ("ok", from, missed),
            Replay::Gap { from } => ("gap", from, Vec::new()),
        };
        let greeting = Greeting::ConnectionChanged {
            data: Connected { status: "connected", subscription_id: &subscription.id, resume },
        };
        let greeting = serde_json::to_string(&greeting).unwrap_or_default();
        // The greeting stands where the client left off: whoever is cut off right after it misses nothing.
        self.rt.send(&[conn], &state.fanout.frame(subscription.format, from, &greeting));
        for (number, event) in missed {
            self.rt.send(&[conn], &state.fanout.frame(subscription.format, number, &event.body));
        }
        self.begin_beats(&mut state);
        self.put_peer(&mut state, conn, Peer::Web(subscription));
        self.want_alarm(&mut state, Some(next_beat(now, HEARTBEAT_MS)));
    }

    /// Numbers an event and sends it to those it concerns.
    pub(super) fn publish(&self, state: &mut State, event: Event) {
        let audience = event.audience.clone();
        let body = event.body.clone();
        let number = state.fanout.publish(event, self.rt.now());
        self.send_formatted(state, number, &body, |subscription| subscription.hears(&audience));
    }

    pub(super) fn send_heartbeats(&self) {
        let state = self.state();
        self.send_formatted(&state, state.fanout.last(), HEARTBEAT, |_| true);
    }

    fn send_formatted(&self, state: &State, number: u64, body: &str, to: impl Fn(&Subscription) -> bool) {
        for format in [Format::Json, Format::Sse] {
            let heard = state.connections.subscriptions().filter(|(_, s)| s.format == format && to(s));
            let conns: Vec<ConnId> = heard.map(|(conn, _)| conn).collect();
            if !conns.is_empty() {
                self.rt.send(&conns, &state.fanout.frame(format, number, body));
            }
        }
    }

    /// `POST /api/visibility`: whether a subscriber's page can be seen.
    pub fn set_visibility(&self, subscription_id: &str, visible: bool) -> Result<(), Error> {
        let mut state = self.state();
        let found = state.connections.subscriptions().find(|(_, s)| s.id == subscription_id);
        let (conn, mut subscription) = found.map(|(c, s)| (c, s.clone())).ok_or(Error::Missing(Kind::Subscription))?;
        subscription.visible = visible;
        self.put_peer(&mut state, conn, Peer::Web(subscription));
        Ok(())
    }
}
