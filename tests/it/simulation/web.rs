//! Web clients that listen to events, come and go, and come back with the id of the last event that they heard. Some of
//! them watch: they never leave, and what the others hear is compared with what the watchers heard.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::hub::error::Error;
use session_gateway_hub::hub::peers::subscription::Format;

use super::ledger::{Part, Stay};
use super::object::Opened;
use super::replies::Purpose;
use super::world::{Asked, End, LinkId, World};
use crate::support::runtime::Frame;

pub struct Web {
    pub place: usize,
    all: bool,
    session: Option<String>,
    format: Format,
    /// Whether its person looks at it.
    pub visible: bool,
    /// Whether it never leaves.
    pub watches: bool,
    pub link: Option<LinkId>,
    /// Whether it asks for a channel.
    pub asking: bool,
    pub greeted: bool,
    /// The id of the last event that it heard.
    last_id: Option<String>,
    /// The number of that event.
    pub last: u64,
    /// It has heard everything after this number that concerns it.
    pub since: u64,
    /// What it heard since then, by number; what tells of no change and came under the number of the event before it only
    /// where it did not hear that event.
    pub heard: BTreeMap<u64, Value>,
}

impl Web {
    pub fn new(place: usize, all: bool, session: Option<String>, format: Format, watches: bool) -> Self {
        Self {
            place,
            all,
            session,
            format,
            visible: false,
            watches,
            link: None,
            asking: false,
            greeted: false,
            last_id: None,
            last: 0,
            since: 0,
            heard: BTreeMap::new(),
        }
    }

    pub fn query(&self) -> String {
        let session = self.session.iter().map(|id| format!("sessionId={id}"));
        let all = self.all.then(|| "all=true".to_owned());
        let visible = self.visible.then(|| "visibility=visible".to_owned());
        session.chain(all).chain(visible).collect::<Vec<_>>().join("&")
    }

    /// Whether an event concerns it.
    pub fn hears(&self, event: &Value) -> bool {
        let own = self.session.is_some() && event["sessionId"].as_str() == self.session.as_deref();
        own || self.all && event["type"] != "message-received"
    }

    /// An event and its id, out of a frame.
    fn read(&self, text: &str) -> (String, Value) {
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
    /// Somebody watches a namespace, or one of its sessions, from now on.
    pub fn watch(&mut self, place: usize, session: Option<&str>) {
        self.webs.push(Web::new(place, session.is_none(), session.map(str::to_owned), Format::Json, true));
        self.web_comes(self.webs.len() - 1);
    }

    /// A web client comes, or comes back.
    pub fn web_comes(&mut self, at: usize) {
        let web = &mut self.webs[at];
        web.asking = true;
        let (place, query, last, format) = (web.place, web.query(), web.last_id.clone(), web.format);
        let number = self.ask(place, self.objects[place].life(), Purpose::Channel { web: at });
        self.detail(|| format!("?{number} channel {query} after {last:?}"));
        self.objects[place].subscribe(number, query, last, format);
    }

    /// Those who watch have lost their sockets with an object, or could not be let in again.
    pub fn watchers_come_back(&mut self) {
        for at in 0..self.webs.len() {
            let web = &self.webs[at];
            if web.watches && web.link.is_none() && !web.asking {
                self.web_comes(at);
            }
        }
    }

    /// Whether those who watch a namespace have heard all that was told.
    pub fn is_watched(&self, place: usize) -> bool {
        self.webs.iter().filter(|web| web.place == place && web.watches).all(|web| web.link.is_some() && web.greeted)
    }

    /// A web client does not read for a while.
    pub fn web_dawdles(&mut self, at: usize) {
        let link = self.webs[at].link.and_then(|link| self.links.get_mut(&link));
        link.into_iter().for_each(|link| link.dawdles = !link.dawdles);
    }

    pub fn web_leaves(&mut self, at: usize) {
        if let Some(link) = self.webs[at].link.take() {
            self.cut(link);
        }
    }

    pub fn channel_opened(&mut self, asked: &Asked, channel: Result<Opened, Error>) {
        let Purpose::Channel { web: at } = asked.purpose else { panic!("{:?} is no channel", asked.purpose) };
        let place = asked.place;
        self.webs[at].asking = false;
        match channel {
            Ok((key, frames)) => {
                let link = self.add_link(place, End::Web(at), key, frames);
                let web = &mut self.webs[at];
                (web.link, web.greeted) = (Some(link), false);
            }
            Err(Error::Unavailable(_) | Error::NotStored) => {
                assert!(self.db.faults() > asked.faults, "a channel was refused")
            }
            Err(error) => {
                let session = self.webs[at].session.clone().unwrap_or_default();
                assert!(matches!(error, Error::Missing(_)) && !self.is_there(place, &session), "{error}");
                // It turns to all sessions.
                self.webs[at] = Web::new(place, true, None, self.webs[at].format, self.webs[at].watches);
            }
        }
    }

    pub fn web_hears(&mut self, at: usize, frame: Frame) {
        let Frame::Text(text) = frame else {
            let torn_down = matches!(frame, Frame::Closed { code: 1006, .. });
            let behind = matches!(frame, Frame::Closed { code: 4408, .. }) && self.large_left.is_some();
            assert!(!self.webs[at].watches || torn_down || behind, "a watcher was sent away: {frame:?}");
            self.webs[at].link = None;
            return self.watchers_come_back();
        };
        let (id, event) = self.webs[at].read(&text);
        let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
        if !self.webs[at].greeted {
            self.web_greeted(at, &id, number, &event);
        } else if event["type"] == "connection-changed" {
            self.web_told_of_gap(at, number, &event);
        } else if event["type"] == "heartbeat" || event["type"] == "toast" {
            assert!(number >= self.webs[at].last, "it goes back: {text}");
            if event["type"] == "toast" {
                assert!(self.webs[at].visible, "a page at which nobody looks shows {text}");
                self.check_toast(self.webs[at].place, &event);
            }
        } else {
            let web = &mut self.webs[at];
            assert!(number >= web.last, "events do not grow: {} and then {text}", web.last);
            assert!(web.hears(&event), "a client of {} hears {text}", web.query());
            let again = number == web.last;
            if !again {
                web.heard.insert(number, event.clone());
            }
            let place = web.place;
            self.ledger(place).event(number, &event, again);
            self.event_heard(at, &event);
        }
        let web = &mut self.webs[at];
        (web.last_id, web.last) = (Some(id), number);
    }

    fn web_greeted(&mut self, at: usize, id: &str, number: u64, greeting: &Value) {
        assert!(greeting["type"] == "connection-changed", "a client is greeted with {greeting}");
        let may_miss = self.may_have_missed(at);
        let web = &mut self.webs[at];
        let resumed = greeting["data"]["resume"] == "ok";
        match &web.last_id {
            Some(last) if resumed => assert!(last == id, "a client that came back after {last} is greeted with {id}"),
            last => {
                assert!(resumed || last.is_some(), "a client that was never there is told of a gap");
                assert!(resumed || may_miss, "a gap, though nothing happened that makes one: {greeting}");
                self.web_missed(at, number);
            }
        }
        self.webs[at].greeted = true;
    }

    /// Somebody may have missed what there was up to this number.
    fn web_missed(&mut self, at: usize, number: u64) {
        let web = &mut self.webs[at];
        web.heard.clear();
        web.since = number;
        let (place, watches) = (web.place, web.watches);
        let sessions = self.ledger(place).sessions.values_mut().filter(|_| watches);
        sessions.for_each(|known| known.presence = None);
    }

    /// Somebody who is connected hears that he may have missed something.
    fn web_told_of_gap(&mut self, at: usize, number: u64, greeting: &Value) {
        let may_miss = self.may_be_told_of_gap(at);
        assert!(greeting["data"]["resume"] == "gap" && may_miss, "nothing was missed, and yet {greeting}");
        let web = &mut self.webs[at];
        assert!(number >= web.last, "a gap does not stand behind what was heard before: {greeting}");
        self.web_missed(at, number);
    }

    /// What an event says is true for everybody.
    fn event_heard(&mut self, at: usize, event: &Value) {
        let (place, watches) = (self.webs[at].place, self.webs[at].watches);
        let data = &event["data"];
        if let Some(machine) = event["machineId"].as_str() {
            return self.ledger(place).event_version(machine, Part::RunnerState, data);
        }
        let session = event["sessionId"].as_str().unwrap();
        if event["type"] == "session-added" {
            self.learn(place, session, data["tag"].as_str().unwrap());
        }
        let ledger = self.ledger(place);
        match event["type"].as_str().unwrap() {
            "message-received" => ledger.message(session, &event["message"]),
            "session-removed" => {
                let known = ledger.session(session);
                assert!(known.stay != Stay::Sure, "session {session} is removed, and nobody asked for that");
                known.stay = Stay::Gone;
            }
            "session-updated" | "session-added" => {
                ledger.event_version(session, Part::Metadata, data);
                ledger.event_version(session, Part::State, data);
                if watches && data["active"].is_boolean() {
                    ledger.session(session).presence = Some(data.clone());
                }
            }
            other => panic!("an event of an unknown type {other}"),
        }
    }
}
