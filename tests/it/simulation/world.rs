//! The simulated world: two namespaces on one database with their clients, and the execution of one action at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::mpsc;
use serde_json::Value;
use session_gateway_hub::http::history::{Reader, read_messages};
use session_gateway_hub::hub::ports::Runtime;
use session_gateway_hub::store::response_budget::ResponseBudget;

use super::cli::Cli;
use super::database::{CallId, RemoteDatabase};
use super::large::max_large;
use super::log::{Log, truncate};
use super::object::{Object, Response, ResponseQueue};
use super::oracle::{Existence, Oracle};
use super::pushes::Pushes;
use super::random::Rng;
use super::responses::Purpose;
use super::scheduler::{Incarnation, Scheduler, TaskId, lock};
use super::web::Web;
use crate::support::runtime::{Frame, SocketKey};
use crate::support::sqlite::Sqlite;

/// The indices of the namespaces. Most steps affect the first.
pub const TEAM: usize = 0;
pub const NEIGHBOUR: usize = 1;

/// A run that needs more actions to become idle has an endless loop.
const MAX_ACTIONS: usize = 200_000;

pub type ConnectionId = u64;

/// The client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Cli(usize),
    Web(usize),
    Gone,
}

/// In flight from a client to the hub.
#[derive(Debug)]
pub enum Outgoing {
    Text(String),
    Close,
}

pub struct Connection {
    pub ns: usize,
    pub key: SocketKey,
    pub end: Peer,
    /// Whether the client does not read its frames.
    pub is_paused: bool,
    frames: mpsc::UnboundedReceiver<Frame>,
    inbox: VecDeque<Frame>,
    pub outbox: VecDeque<Outgoing>,
}

/// A request without a response.
pub struct PendingRequest {
    pub ns: usize,
    pub incarnation: Incarnation,
    pub purpose: Purpose,
    /// The number of database faults before the request.
    pub faults: u64,
}

/// A merge of two sessions, in progress or possible. It renumbers the messages of both.
#[derive(Debug, Clone)]
pub struct Merge {
    pub ns: usize,
    pub old: String,
    pub new: String,
}

/// A possible next action of the simulation.
#[derive(Debug, Clone, Copy)]
enum Action {
    Task(TaskId),
    Call(CallId),
    /// Delivers a frame to the hub.
    Arrive(ConnectionId),
    /// Delivers a frame to the client.
    Receive(ConnectionId),
    Respond,
    Alarm(usize),
    /// Advances a request to a push service.
    Push(usize, u64),
}

pub struct World {
    pub rng: Rng,
    pub log: Arc<Mutex<Log>>,
    pub scheduler: Arc<Scheduler>,
    pub db: Arc<RemoteDatabase>,
    pub objects: [Object; 2],
    pub oracles: [Oracle; 2],
    pub connections: BTreeMap<ConnectionId, Connection>,
    pub clis: Vec<Cli>,
    pub webs: Vec<Web>,
    pub pending: BTreeMap<u64, PendingRequest>,
    pub responses: ResponseQueue,
    /// Whether alarms do not fire at present.
    pub alarms_delayed: bool,
    /// The number of crashes of objects. A crash may lose events.
    pub crashes: u64,
    /// The session that concurrent requests for one tag received, by the number of the race.
    pub races: BTreeMap<u64, String>,
    pub merges_in_progress: Vec<Merge>,
    /// Received sessions that are compared with the database.
    pub read_sessions: Vec<(usize, Value)>,
    pub pushes: Pushes,
    /// The remaining number of messages and values that are larger than a row; `None` in a run without any.
    pub large_left: Option<u64>,
    last: u64,
}

impl World {
    pub fn new(seed: u64, log: Arc<Mutex<Log>>) -> Self {
        let scheduler = Arc::new(Scheduler::default());
        let db = Arc::new(RemoteDatabase::new(Arc::new(Sqlite::with_schema())));
        let responses = ResponseQueue::default();
        let object = |name, first| {
            Object::new(name, seed, first, Arc::clone(&db), Arc::clone(&scheduler), Arc::clone(&responses))
        };
        Self {
            rng: Rng::new(seed),
            log,
            objects: [object("team", 1), object("neighbour", 1_000_000)],
            scheduler,
            db,
            oracles: [Oracle::default(), Oracle::default()],
            connections: BTreeMap::new(),
            clis: Vec::new(),
            webs: Vec::new(),
            pending: BTreeMap::new(),
            responses,
            alarms_delayed: false,
            crashes: 0,
            races: BTreeMap::new(),
            merges_in_progress: Vec::new(),
            read_sessions: Vec::new(),
            pushes: Pushes::default(),
            large_left: max_large(seed),
            last: 0,
        }
    }

    pub fn now(&self) -> u64 {
        self.objects[TEAM].rt.now()
    }

    /// A unique number.
    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Logs a step.
    pub fn step(&self, text: impl AsRef<str>) {
        let line = format!("{:>7} {}", self.now() % 10_000_000, text.as_ref());
        lock(&self.log).lines.push(truncate(line));
    }

    /// Logs a detail of a verbose run.
    pub fn detail(&self, text: impl FnOnce() -> String) {
        if lock(&self.log).verbose {
            let text = text();
            self.step(format!("    {text}"));
        }
    }

    pub fn oracle(&mut self, ns: usize) -> &mut Oracle {
        &mut self.oracles[ns]
    }

    /// A client received a session. The first time, adds a watcher of it.
    pub fn observe_session(&mut self, ns: usize, id: &str, tag: &str) {
        if self.oracle(ns).observe_session(id, tag) {
            self.add_watcher(ns, Some(id));
        }
    }

    /// A runner has reported another session for a resume, so the hub may merge the two.
    pub fn begin_merge(&mut self, ns: usize, old: &str, new: &str) {
        for id in [old, new] {
            self.oracle(ns).session(id).is_merging = true;
        }
        self.oracle(ns).session(old).existence = Existence::Unknown;
        self.oracle(ns).merges += 1;
        self.merges_in_progress.push(Merge { ns, old: old.to_owned(), new: new.to_owned() });
    }

    // Requests.

    /// Sends a request.
    pub fn request(&mut self, ns: usize, method: &str, path: &str, body: String, purpose: Purpose) -> u64 {
        let number = self.expect_response(ns, self.objects[ns].incarnation(), purpose);
        self.detail(|| format!("?{number} {method} {path} {body}"));
        self.objects[ns].request(number, method, path, body);
        number
    }

    /// Requests a page of a session's history from the worker.
    pub fn page(&mut self, ns: usize, session: &str, query: String, purpose: Purpose) -> u64 {
        let number = self.expect_response(ns, 0, purpose);
        self.detail(|| format!("?{number} messages of {session} {query}"));
        let (db, responses) = (Arc::clone(&self.db), Arc::clone(&self.responses));
        let (namespace, session) = (self.objects[ns].namespace(), session.to_owned());
        let budget = ResponseBudget::new(usize::MAX, usize::MAX);
        let read = async move {
            let page =
                read_messages(&*db, &budget, Reader::Cli, (&namespace, &session), &query).await.map(|page| page.text);
            lock(&responses).push_back((number, Response::Page(page)));
        };
        self.scheduler.spawn(0, read.boxed());
        number
    }

    /// Registers a pending request.
    pub fn expect_response(&mut self, ns: usize, incarnation: Incarnation, purpose: Purpose) -> u64 {
        let number = self.next_number();
        // An earlier fault may be reported later.
        let faults = self.db.reported_faults();
        self.pending.insert(number, PendingRequest { ns, incarnation, purpose, faults });
        number
    }

    // Sockets.

    pub fn add_connection(
        &mut self,
        ns: usize,
        end: Peer,
        key: SocketKey,
        frames: mpsc::UnboundedReceiver<Frame>,
    ) -> ConnectionId {
        let id = self.next_number();
        let connection =
            Connection { ns, key, end, is_paused: false, frames, inbox: VecDeque::new(), outbox: VecDeque::new() };
        self.connections.insert(id, connection);
        id
    }

    /// Queues a frame for delivery to the hub.
    pub fn send(&mut self, connection: ConnectionId, text: String) {
        self.detail(|| format!("{connection}> {text}"));
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.outbox.push_back(Outgoing::Text(text));
        }
    }

    /// The client disconnects. Some of its in-flight frames, and possibly its close, are lost.
    pub fn disconnect(&mut self, id: ConnectionId) {
        let arrives = self.rng.chance(85);
        let kept = self.rng.below(4);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.end = Peer::Gone;
        connection.outbox.truncate(kept);
        if arrives {
            connection.outbox.push_back(Outgoing::Close);
        }
    }

    fn arrive(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (ns, key) = (connection.ns, connection.key);
        match connection.outbox.pop_front() {
            Some(Outgoing::Text(text)) => self.objects[ns].on_text(key, text),
            Some(Outgoing::Close) => self.objects[ns].on_close(key),
            None => {}
        }
    }

    fn receive(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(frame) = connection.inbox.pop_front() else { return };
        let (ns, end) = (connection.ns, connection.end);
        self.detail(|| match &frame {
            Frame::Text(text) => format!("{id}< {text}"),
            Frame::Closed { code, .. } => format!("{id}< closed {code}"),
        });
        if let Frame::Text(text) = &frame {
            self.check_isolation(ns, text);
        }
        if matches!(frame, Frame::Closed { .. }) {
            self.connections.remove(&id);
        }
        match end {
            Peer::Cli(cli) => self.cli_on_frame(cli, frame),
            Peer::Web(web) => self.web_on_frame(web, frame),
            Peer::Gone => {}
        }
    }

    /// Checks that a text for a client contains nothing of the other namespace.
    pub fn check_isolation(&self, ns: usize, text: &str) {
        let other = 1 - ns;
        let name = self.objects[other].name;
        assert!(!text.contains(name), "{} received the name of {name}: {text}", self.objects[ns].name);
        let foreign = self.oracles[other].sessions.keys().find(|id| text.contains(id.as_str()));
        assert!(foreign.is_none(), "{} received a session of {name}: {text}", self.objects[ns].name);
    }

    // Actions.

    fn actions(&mut self) -> Vec<Action> {
        self.check_new_pushes();
        let mut actions: Vec<Action> = self.scheduler.ready().into_iter().map(Action::Task).collect();
        actions.extend(self.db.runnable().into_iter().map(Action::Call));
        for (id, connection) in &mut self.connections {
            while let Ok(frame) = connection.frames.try_recv() {
                connection.inbox.push_back(frame);
            }
            if connection.end == Peer::Gone {
                connection.inbox.clear();
            }
            actions.extend((!connection.inbox.is_empty() && !connection.is_paused).then_some(Action::Receive(*id)));
            actions.extend((!connection.outbox.is_empty()).then_some(Action::Arrive(*id)));
        }
        actions.extend((!lock(&self.responses).is_empty()).then_some(Action::Respond));
        for ns in [TEAM, NEIGHBOUR] {
            actions.extend((!self.alarms_delayed && self.objects[ns].alarm_is_due()).then_some(Action::Alarm(ns)));
            let posted = self.objects[ns].rt.outbox.runnable(self.now());
            actions.extend(posted.into_iter().map(|number| Action::Push(ns, number)));
        }
        actions
    }

    /// Runs a random action. Returns false when none is possible.
    fn run_one(&mut self) -> bool {
        let actions = self.actions();
        let Some(action) = self.rng.pick(&actions) else { return false };
        match action {
            Action::Task(id) => self.scheduler.poll(id),
            Action::Call(id) => {
                self.detail(|| self.db.describe(id));
                self.db.step(id);
            }
            Action::Arrive(id) => self.arrive(id),
            Action::Receive(id) => self.receive(id),
            Action::Respond => self.deliver_response(),
            Action::Alarm(ns) => {
                self.detail(|| format!("the alarm of {ns} fires"));
                self.objects[ns].fire_alarm();
            }
            Action::Push(ns, number) => self.push_step(ns, number),
        }
        true
    }

    fn deliver_response(&mut self) {
        let Some((number, response)) = lock(&self.responses).pop_front() else { return };
        let request = self.pending.remove(&number).expect("two responses to one request");
        self.detail(|| format!("!{number} {response}"));
        self.on_response(request, Some(response));
    }

    /// All clients receive their frames.
    pub fn receive_all(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.is_paused = false);
        let waiting = |action: Action| if let Action::Receive(connection) = action { Some(connection) } else { None };
        loop {
            let connections: Vec<ConnectionId> = self.actions().into_iter().filter_map(waiting).collect();
            if connections.is_empty() {
                return;
            }
            for connection in connections {
                self.receive(connection);
            }
        }
    }

    /// Runs up to `count` actions.
    pub fn run_steps(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.run_one() {
                return;
            }
        }
    }

    /// Runs actions until none is possible without a step of a client or of the clock.
    pub fn run_until_idle(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.is_paused = false);
        for _ in 0..MAX_ACTIONS {
            if self.run_one() {
                continue;
            }
            if self.objects.iter().all(|object| object.rt.fake.sleeping_tasks() == 0 && object.rt.outbox.is_empty()) {
                return self.db.mark_faults_reported();
            }
            // A task waits for a retry or a push service.
            self.advance(50);
        }
        panic!("the world does not become idle");
    }

    /// Advances the clock.
    pub fn advance(&mut self, ms: u64) {
        let now = self.now() + ms;
        self.objects.iter().for_each(|object| object.rt.fake.set_now(now));
    }

    // Disruptions.

    /// Crashes an object; its sockets are lost.
    pub fn crash_object(&mut self, ns: usize) {
        let incarnation = self.objects[ns].incarnation();
        self.lose_pushes(ns);
        for connection in self.connections.values_mut().filter(|connection| connection.ns == ns) {
            connection.outbox.clear();
        }
        self.objects[ns].crash();
        self.db.abandon_calls(&mut self.rng);
        self.crashes += 1;
        // Responses that the object has sent are still delivered.
        let delivered: Vec<u64> = lock(&self.responses).iter().map(|(number, _)| *number).collect();
        let lost: Vec<u64> =
            self.pending.iter().filter(|(_, request)| request.incarnation == incarnation).map(|(n, _)| *n).collect();
        for number in lost.into_iter().filter(|number| !delivered.contains(number)) {
            if let Some(request) = self.pending.remove(&number) {
                self.on_response(request, None);
            }
        }
    }

    /// Counts what may invalidate a keep-alive: `faults` of the database, crashes, and requests to end the session.
    pub fn disruptions(&self, ns: usize, session: &str, faults: u64) -> u64 {
        let ends = self.oracles[ns].sessions.get(session).map_or(0, |known| known.end_requests);
        faults + self.crashes + ends
    }

    /// A random session that may exist.
    pub fn pick_session(&mut self, ns: usize) -> Option<String> {
        let there = self.oracles[ns].existing_sessions();
        self.rng.pick(&there)
    }

    /// Whether a session certainly exists.
    pub fn exists(&self, ns: usize, session: &str) -> bool {
        self.oracles[ns].sessions.get(session).is_some_and(|known| known.existence == Existence::Certain)
    }
}
