//! Simulated web clients that subscribe to events, disconnect, and resume with the id of their last event. Watchers are web
//! clients that never disconnect; their events are the reference for the others.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::hub::error::Error;
use session_gateway_hub::hub::peers::subscription::Format;

use super::object::OpenedSocket;
use super::oracle::{Existence, ValueKind};
use super::responses::Purpose;
use super::world::{ConnectionId, Peer, PendingRequest, World};
use crate::support::runtime::Frame;

pub struct Web {
    pub ns: usize,
    all: bool,
    session: Option<String>,
    format: Format,
    pub visible: bool,
    pub is_watcher: bool,
    pub connection: Option<ConnectionId>,
    pub is_connecting: bool,
    pub is_greeted: bool,
    /// The id of the last received event.
    last_id: Option<String>,
    /// The number of that event.
    pub last: u64,
    /// Since this event number it must have received all events of its subscription.
    pub since: u64,
    /// The events received since then, by number. An event for a keep-alive with the number of another received event is omitted.
    pub received: BTreeMap<u64, Value>,
}

impl Web {
    pub fn new(ns: usize, all: bool, session: Option<String>, format: Format, is_watcher: bool) -> Self {
        Self {
            ns,
            all,
            session,
            format,
            visible: false,
            is_watcher,
            connection: None,
            is_connecting: false,
            is_greeted: false,
            last_id: None,
            last: 0,
            since: 0,
            received: BTreeMap::new(),
        }
    }

    pub fn query(&self) -> String {
        let session = self.session.iter().map(|id| format!("sessionId={id}"));
        let all = self.all.then(|| "all=true".to_owned());
        let visible = self.visible.then(|| "visibility=visible".to_owned());
        session.chain(all).chain(visible).collect::<Vec<_>>().join("&")
    }

    /// Whether its subscription includes an event.
    pub fn receives(&self, event: &Value) -> bool {
        let own = self.session.is_some() && event["sessionId"].as_str() == self.session.as_deref();
        own || self.all && event["type"] != "message-received"
    }

    /// Parses a frame into the event id and the event.
    fn parse(&self, text: &str) -> (String, Value) {
        let json =
            |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
        match self.format {
            Format::Json => {
                let mut event = json(text);
                let id = event.as_object_mut().unwrap().remove("eventId").unwrap();
                (id.as_str().unwrap().to_owned(), event)
            }
            Format::Sse => {
                let (id, data) = text.strip_prefix("id: ").and_then(|rest| rest.split_once("\ndata: ")).unwrap();
                (id.to_owned(), json(data.strip_suffix("\n\n").unwrap()))
            }
        }
    }
}

impl World {
    /// Adds a watcher of a namespace or session.
    pub fn add_watcher(&mut self, ns: usize, session: Option<&str>) {
        self.webs.push(Web::new(ns, session.is_none(), session.map(str::to_owned), Format::Json, true));
        self.web_connect(self.webs.len() - 1);
    }

    pub fn web_connect(&mut self, i: usize) {
        let web = &mut self.webs[i];
        web.is_connecting = true;
        let (ns, query, last, format) = (web.ns, web.query(), web.last_id.clone(), web.format);
        let number = self.expect_response(ns, self.objects[ns].incarnation(), Purpose::Channel { web: i });
        self.detail(|| format!("?{number} channel {query} after {last:?}"));
        self.objects[ns].subscribe(number, query, last, format);
    }

    /// Reconnects the watchers that lost their sockets in a crash.
    pub fn reconnect_watchers(&mut self) {
        for i in 0..self.webs.len() {
            let web = &self.webs[i];
            if web.is_watcher && web.connection.is_none() && !web.is_connecting {
                self.web_connect(i);
            }
        }
    }

    /// Whether all watchers of a namespace are connected.
    pub fn watchers_are_current(&self, ns: usize) -> bool {
        self.webs
            .iter()
            .filter(|web| web.ns == ns && web.is_watcher)
            .all(|web| web.connection.is_some() && web.is_greeted)
    }

    /// The web client stops or resumes reading.
    pub fn web_toggle_pause(&mut self, i: usize) {
        let connection = self.webs[i].connection.and_then(|connection| self.connections.get_mut(&connection));
        connection.into_iter().for_each(|connection| connection.is_paused = !connection.is_paused);
    }

    pub fn web_disconnect(&mut self, i: usize) {
        if let Some(connection) = self.webs[i].connection.take() {
            self.disconnect(connection);
        }
    }

    pub fn web_on_channel(&mut self, request: &PendingRequest, channel: Result<OpenedSocket, Error>) {
        let Purpose::Channel { web: i } = request.purpose else {
            panic!("{:?} is not an event stream", request.purpose)
        };
        let ns = request.ns;
        self.webs[i].is_connecting = false;
        match channel {
            Ok((key, frames)) => {
                let connection = self.add_connection(ns, Peer::Web(i), key, frames);
                let web = &mut self.webs[i];
                (web.connection, web.is_greeted) = (Some(connection), false);
            }
            Err(Error::Unavailable(_) | Error::DatabaseRejected) => {
                assert!(self.db.faults() > request.faults, "an event stream was rejected without a fault")
            }
            Err(error) => {
                let session = self.webs[i].session.clone().unwrap_or_default();
                assert!(matches!(error, Error::NotFound(_)) && !self.exists(ns, &session), "{error}");
                // It subscribes to all sessions instead.
                self.webs[i] = Web::new(ns, true, None, self.webs[i].format, self.webs[i].is_watcher);
            }
        }
    }

    pub fn web_on_frame(&mut self, i: usize, frame: Frame) {
        let Frame::Text(text) = frame else {
            let has_crashed = matches!(frame, Frame::Closed { code: 1006, .. });
            let is_behind = matches!(frame, Frame::Closed { code: 4408, .. }) && self.large_left.is_some();
            assert!(!self.webs[i].is_watcher || has_crashed || is_behind, "a watcher was disconnected: {frame:?}");
            self.webs[i].connection = None;
            return self.reconnect_watchers();
        };
        let (id, event) = self.webs[i].parse(&text);
        let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
        if !self.webs[i].is_greeted {
            self.web_on_greeting(i, &id, number, &event);
        } else if event["type"] == "connection-changed" {
            self.web_on_gap(i, number, &event);
        } else if event["type"] == "heartbeat" || event["type"] == "toast" {
            assert!(number >= self.webs[i].last, "the event number decreases: {text}");
            if event["type"] == "toast" {
                assert!(self.webs[i].visible, "a hidden page received {text}");
                self.check_toast(self.webs[i].ns, &event);
            }
        } else {
            let web = &mut self.webs[i];
            assert!(number >= web.last, "the event number decreases: {} and then {text}", web.last);
            assert!(web.receives(&event), "a client of {} received {text}", web.query());
            let again = number == web.last;
            if !again {
                web.received.insert(number, event.clone());
            }
            let ns = web.ns;
            self.oracle(ns).observe_event(number, &event, again);
            self.observe_event(i, &event);
        }
        let web = &mut self.webs[i];
        (web.last_id, web.last) = (Some(id), number);
    }

    fn web_on_greeting(&mut self, i: usize, id: &str, number: u64, greeting: &Value) {
        assert!(greeting["type"] == "connection-changed", "unexpected first event: {greeting}");
        let may_miss = self.may_miss_events(i);
        let web = &mut self.webs[i];
        let resumed = greeting["data"]["resume"] == "ok";
        match &web.last_id {
            Some(last) if resumed => assert!(last == id, "a client that resumed after {last} received {id}"),
            last => {
                assert!(resumed || last.is_some(), "a gap for a new client");
                assert!(resumed || may_miss, "an unexpected gap: {greeting}");
                self.web_reset(i, number);
            }
        }
        self.webs[i].is_greeted = true;
    }

    /// The client may have missed events up to this number.
    fn web_reset(&mut self, i: usize, number: u64) {
        let web = &mut self.webs[i];
        web.received.clear();
        web.since = number;
        let (ns, is_watcher) = (web.ns, web.is_watcher);
        let sessions = self.oracle(ns).sessions.values_mut().filter(|_| is_watcher);
        sessions.for_each(|known| known.presence = None);
    }

    /// A connected client receives a gap.
    fn web_on_gap(&mut self, i: usize, number: u64, greeting: &Value) {
        let may_miss = self.may_receive_gap(i);
        assert!(greeting["data"]["resume"] == "gap" && may_miss, "an unexpected gap: {greeting}");
        let web = &mut self.webs[i];
        assert!(number >= web.last, "a gap before the last event: {greeting}");
        self.web_reset(i, number);
    }

    /// Passes an event to the oracle.
    fn observe_event(&mut self, i: usize, event: &Value) {
        let (ns, is_watcher) = (self.webs[i].ns, self.webs[i].is_watcher);
        let data = &event["data"];
        if let Some(machine) = event["machineId"].as_str() {
            return self.oracle(ns).observe_event_version(machine, ValueKind::RunnerState, data);
        }
        let session = event["sessionId"].as_str().unwrap();
        if event["type"] == "session-added" {
            self.observe_session(ns, session, data["tag"].as_str().unwrap());
        }
        let oracle = self.oracle(ns);
        match event["type"].as_str().unwrap() {
            "message-received" => oracle.observe_message(session, &event["message"]),
            "session-removed" => {
                let known = oracle.session(session);
                assert!(known.existence != Existence::Certain, "session {session} was removed without a request");
                known.existence = Existence::Deleted;
            }
            "session-updated" | "session-added" => {
                oracle.observe_event_version(session, ValueKind::Metadata, data);
                oracle.observe_event_version(session, ValueKind::AgentState, data);
                if is_watcher && data["active"].is_boolean() {
                    oracle.session(session).presence = Some(data.clone());
                }
            }
            other => panic!("unknown event type {other}"),
        }
    }
}
