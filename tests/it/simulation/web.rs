//! Simulated web clients that subscribe to events, disconnect, and resume with the id of their last event. A watcher is a web
//! client that never disconnects by itself. The events of the watchers are compared with the events of other web clients.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::hub::core::error::Error;
use session_gateway_hub::hub::core::peers::subscription::Format;

use super::connections::{ConnectionId, Peer};
use super::object::OpenedSocket;
use super::oracle::{Existence, ValueKind};
use super::responses::Purpose;
use super::world::{PendingRequest, World};
use crate::support::runtime::Frame;

pub struct Web {
    pub namespace_index: usize,
    subscribes_to_all: bool,
    pub session: Option<String>,
    format: Format,
    pub is_visible: bool,
    /// The device that the client names in its query.
    pub device: Option<String>,
    pub is_watcher: bool,
    pub connection: Option<ConnectionId>,
    pub is_connecting: bool,
    /// Whether the client has received the first event of its connection, `connection-changed`.
    pub has_first_event: bool,
    /// The id of the last received event.
    last_id: Option<String>,
    /// The number of the last received event.
    pub last_number: u64,
    /// An idle client must have received all events of its subscription with greater numbers.
    pub start_number: u64,
    /// The events received after `start_number`, by number. An event that repeats the number of the previous event is omitted.
    pub received: BTreeMap<u64, Value>,
}

impl Web {
    pub fn new(
        namespace_index: usize,
        subscribes_to_all: bool,
        session: Option<String>,
        format: Format,
        is_watcher: bool,
    ) -> Self {
        Self {
            namespace_index,
            subscribes_to_all,
            session,
            format,
            is_visible: false,
            device: None,
            is_watcher,
            connection: None,
            is_connecting: false,
            has_first_event: false,
            last_id: None,
            last_number: 0,
            start_number: 0,
            received: BTreeMap::new(),
        }
    }

    /// The query of the event stream.
    pub fn query(&self) -> String {
        let session = self.session.iter().map(|id| format!("sessionId={id}"));
        let all = self.subscribes_to_all.then(|| "all=true".to_owned());
        let visible = self.is_visible.then(|| "visibility=visible".to_owned());
        let device = self.device.iter().map(|device| format!("device={device}"));
        session.chain(all).chain(visible).chain(device).collect::<Vec<_>>().join("&")
    }

    /// Whether the subscription includes an event.
    pub fn subscribes_to(&self, event: &Value) -> bool {
        let is_of_session = self.session.is_some() && event["sessionId"].as_str() == self.session.as_deref();
        is_of_session || self.subscribes_to_all && event["type"] != "message-received"
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
    /// Adds a watcher of a session, or of all sessions if `session` is `None`.
    pub fn add_watcher(&mut self, namespace_index: usize, session: Option<&str>) {
        self.webs.push(Web::new(namespace_index, session.is_none(), session.map(str::to_owned), Format::Json, true));
        self.web_connect(self.webs.len() - 1);
    }

    pub fn web_connect(&mut self, i: usize) {
        let web = &mut self.webs[i];
        web.is_connecting = true;
        let (namespace_index, query, last, format) =
            (web.namespace_index, web.query(), web.last_id.clone(), web.format);
        let number = self.expect_response(
            namespace_index,
            self.objects[namespace_index].incarnation(),
            Purpose::EventStream { web: i },
        );
        self.log_detail(|| format!("?{number} event stream {query} after {last:?}"));
        self.objects[namespace_index].subscribe(number, query, last, format);
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
    pub fn watchers_are_current(&self, namespace_index: usize) -> bool {
        self.webs
            .iter()
            .filter(|web| web.namespace_index == namespace_index && web.is_watcher)
            .all(|web| web.connection.is_some() && web.has_first_event)
    }

    /// Makes the web client stop or resume reading.
    pub fn web_toggle_pause(&mut self, i: usize) {
        let connection = self.webs[i].connection.and_then(|connection| self.connections.get_mut(&connection));
        connection.into_iter().for_each(|connection| connection.is_paused = !connection.is_paused);
    }

    pub fn web_disconnect(&mut self, i: usize) {
        if let Some(connection) = self.webs[i].connection.take() {
            self.disconnect(connection);
        }
    }

    pub fn web_on_event_stream(&mut self, request: &PendingRequest, opened: Result<OpenedSocket, Error>) {
        let Purpose::EventStream { web: i } = request.purpose else {
            panic!("{:?} is not an event stream", request.purpose)
        };
        let namespace_index = request.namespace_index;
        self.webs[i].is_connecting = false;
        match opened {
            Ok((key, frames)) => {
                let connection = self.add_connection(namespace_index, Peer::Web(i), key, frames);
                let web = &mut self.webs[i];
                (web.connection, web.has_first_event) = (Some(connection), false);
            }
            Err(Error::Unavailable(_) | Error::DatabaseRejected) => {
                assert!(self.db.fault_count() > request.faults, "an event stream was rejected without a fault")
            }
            Err(error) => {
                let session = self.webs[i].session.clone().unwrap_or_default();
                assert!(matches!(error, Error::NotFound(_)) && !self.exists(namespace_index, &session), "{error}");
                // The session was deleted: the client subscribes to all sessions instead.
                self.webs[i] = Web::new(namespace_index, true, None, self.webs[i].format, self.webs[i].is_watcher);
            }
        }
    }

    pub fn web_on_frame(&mut self, i: usize, frame: Frame) {
        let Frame::Text(text) = frame else {
            let has_object_crashed = matches!(frame, Frame::Closed { code: 1006, .. });
            let is_behind = matches!(frame, Frame::Closed { code: 4408, .. }) && self.remaining_large_values.is_some();
            assert!(
                !self.webs[i].is_watcher || has_object_crashed || is_behind,
                "a watcher was disconnected: {frame:?}"
            );
            self.webs[i].connection = None;
            return self.reconnect_watchers();
        };
        let (id, event) = self.webs[i].parse(&text);
        let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
        if !self.webs[i].has_first_event {
            self.web_on_first_event(i, &id, number, &event);
        } else if event["type"] == "connection-changed" {
            self.web_on_gap(i, number, &event);
        } else if event["type"] == "heartbeat" || event["type"] == "toast" {
            assert!(number >= self.webs[i].last_number, "the event number decreases: {text}");
            if event["type"] == "toast" {
                assert!(self.webs[i].is_visible, "a hidden page received {text}");
                self.check_toast(self.webs[i].namespace_index, &event);
            }
        } else {
            let web = &mut self.webs[i];
            assert!(number >= web.last_number, "the event number decreases: {} and then {text}", web.last_number);
            assert!(web.subscribes_to(&event), "a client of {} received {text}", web.query());
            let repeats_number = number == web.last_number;
            if !repeats_number {
                web.received.insert(number, event.clone());
            }
            let namespace_index = web.namespace_index;
            self.oracle(namespace_index).observe_event(number, &event, repeats_number);
            self.observe_event(i, &event);
        }
        let web = &mut self.webs[i];
        (web.last_id, web.last_number) = (Some(id), number);
    }

    /// Checks the first event of a connection, which says whether the client resumes or has a gap.
    fn web_on_first_event(&mut self, i: usize, id: &str, number: u64, event: &Value) {
        assert!(event["type"] == "connection-changed", "unexpected first event: {event}");
        let may_have_missed_events = self.may_miss_events(i);
        let web = &mut self.webs[i];
        let is_resumed = event["data"]["resume"] == "ok";
        match &web.last_id {
            Some(last_id) if is_resumed => {
                assert!(last_id == id, "a client that resumed after {last_id} received {id}")
            }
            last_id => {
                assert!(is_resumed || last_id.is_some(), "a gap for a new client");
                assert!(is_resumed || may_have_missed_events, "an unexpected gap: {event}");
                self.web_reset(i, number);
            }
        }
        self.webs[i].has_first_event = true;
    }

    /// Discards the received events, because the client may have missed events up to this number.
    fn web_reset(&mut self, i: usize, number: u64) {
        let web = &mut self.webs[i];
        web.received.clear();
        web.start_number = number;
        let (namespace_index, is_watcher) = (web.namespace_index, web.is_watcher);
        let sessions = self.oracle(namespace_index).sessions.values_mut().filter(|_| is_watcher);
        sessions.for_each(|record| record.presence = None);
    }

    /// Checks a `connection-changed` event that reports a gap to a connected client.
    fn web_on_gap(&mut self, i: usize, number: u64, event: &Value) {
        let may_miss = self.may_receive_gap(i);
        assert!(event["data"]["resume"] == "gap" && may_miss, "an unexpected gap: {event}");
        let web = &mut self.webs[i];
        assert!(number >= web.last_number, "a gap before the last event: {event}");
        self.web_reset(i, number);
    }

    /// Passes an event to the oracle.
    fn observe_event(&mut self, i: usize, event: &Value) {
        let (namespace_index, is_watcher) = (self.webs[i].namespace_index, self.webs[i].is_watcher);
        let data = &event["data"];
        if let Some(machine) = event["machineId"].as_str() {
            return self.oracle(namespace_index).observe_event_version(machine, ValueKind::RunnerState, data);
        }
        let session = event["sessionId"].as_str().unwrap();
        if event["type"] == "session-added" {
            self.observe_session(namespace_index, session, data["tag"].as_str().unwrap());
        }
        let oracle = self.oracle(namespace_index);
        match event["type"].as_str().unwrap() {
            "message-received" => oracle.observe_message(session, &event["message"]),
            "session-removed" => {
                let record = oracle.session(session);
                assert!(record.existence != Existence::Certain, "session {session} was removed without a request");
                record.existence = Existence::Deleted;
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
