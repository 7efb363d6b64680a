//! The simulated world: two namespaces on one database with their clients, and the execution of one action at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::FutureExt;

use serde_json::Value;
use session_gateway_hub::http::edge::{HistoryRequest, Reader};
use session_gateway_hub::hub::core::ports::Runtime;
use session_gateway_hub::memory_budget::MemoryBudget;
use session_gateway_hub::store::memory::ReadMemory;

use super::cli::Cli;
use super::connections::{Connection, ConnectionId};
use super::database::{CallId, RemoteDatabase};
use super::large::max_large_values;
use super::log::{Log, truncate};
use super::memory::has_filler_sessions;
use super::object::{Isolate, Object, Response, ResponseQueue};
use super::oracle::{Existence, Oracle};
use super::pushes::Pushes;
use super::random::Rng;
use super::responses::Purpose;
use super::scheduler::{Incarnation, Scheduler, TaskId, lock};
use super::web::Web;

use crate::support::environment::FakeEnvironment;
use crate::support::sqlite::Sqlite;

/// The indices of the namespaces. Most steps affect the first.
pub const TEAM: usize = 0;
pub const NEIGHBOUR: usize = 1;

/// The time after which [`World::run_until_idle`] ends an outage, in milliseconds.
const MAX_OUTAGE_MS: u64 = 600_000;

/// A world that needs more actions to become idle has an endless loop.
const MAX_ACTIONS: usize = 200_000;

/// A request without a response.
pub struct PendingRequest {
    pub namespace_index: usize,
    pub incarnation: Incarnation,
    pub purpose: Purpose,
    /// The number of database faults whose error the hub had received before the request.
    pub faults: u64,
}

/// A merge of two sessions that the hub may be executing. It deletes `old` and renumbers the messages of both.
#[derive(Debug, Clone)]
pub struct Merge {
    pub namespace_index: usize,
    pub old: String,
    pub new: String,
}

/// A possible next action of the simulation.
#[derive(Debug, Clone, Copy)]
enum Action {
    Task(TaskId),
    /// Executes an operation of the database, or delivers its result.
    DatabaseCall(CallId),
    /// Delivers a frame to the hub.
    DeliverToHub(ConnectionId),
    /// Delivers a frame to the client.
    DeliverToClient(ConnectionId),
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
    /// Whether due alarms do not fire.
    pub are_alarms_delayed: bool,
    /// The number of crashes of objects. A crash may lose events.
    pub crashes: u64,
    /// For each race of requests for one new tag: the session in the first response, by the number of the race.
    pub session_by_race: BTreeMap<u64, String>,
    pub merges_in_progress: Vec<Merge>,
    /// Received sessions to compare with the database, with the indices of their namespaces.
    pub sessions_to_compare: Vec<(usize, Value)>,
    pub pushes: Pushes,
    /// The number of large messages and values that clients may still send; `None` in a run without any.
    pub remaining_large_values: Option<u64>,
    /// Whether the run has large sessions that fill the hub's memory.
    pub has_filler_sessions: bool,
    last_number: u64,
}

impl World {
    pub fn new(seed: u64, log: Arc<Mutex<Log>>) -> Self {
        let scheduler = Arc::new(Scheduler::default());
        let db = Arc::new(RemoteDatabase::new(Arc::new(Sqlite::with_schema())));
        if seed.is_multiple_of(3) {
            db.add_round_trip_time();
        }
        let responses = ResponseQueue::default();
        let isolate = Isolate::default();
        let object = |name, first_incarnation| {
            let (db, scheduler) = (Arc::clone(&db), Arc::clone(&scheduler));
            Object::new(name, seed, first_incarnation, db, scheduler, Arc::clone(&responses), isolate.clone())
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
            are_alarms_delayed: false,
            crashes: 0,
            session_by_race: BTreeMap::new(),
            merges_in_progress: Vec::new(),
            sessions_to_compare: Vec::new(),
            pushes: Pushes::default(),
            remaining_large_values: max_large_values(seed),
            has_filler_sessions: has_filler_sessions(seed),
            last_number: 0,
        }
    }

    pub fn now(&self) -> u64 {
        self.objects[TEAM].rt.now()
    }

    /// A unique number.
    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn log_step(&self, text: impl AsRef<str>) {
        let line = format!("{:>7} {}", self.now() % 10_000_000, text.as_ref());
        lock(&self.log).lines.push(truncate(line));
    }

    /// Logs a detail if the run is verbose.
    pub fn log_detail(&self, text: impl FnOnce() -> String) {
        if lock(&self.log).verbose {
            let text = text();
            self.log_step(format!("    {text}"));
        }
    }

    pub fn oracle(&mut self, namespace_index: usize) -> &mut Oracle {
        &mut self.oracles[namespace_index]
    }

    /// Records that a client received a session. If the session is new to the oracle, adds a watcher: a web client that
    /// subscribes to the session.
    pub fn observe_session(&mut self, namespace_index: usize, id: &str, tag: &str) {
        if self.oracle(namespace_index).observe_session(id, tag) {
            self.add_watcher(namespace_index, Some(id));
        }
    }

    /// Records that the hub may merge two sessions, because a runner resumed the session `old` as the session `new`.
    pub fn begin_merge(&mut self, namespace_index: usize, old: &str, new: &str) {
        for id in [old, new] {
            self.oracle(namespace_index).session(id).is_merging = true;
        }
        self.oracle(namespace_index).session(old).existence = Existence::Unknown;
        self.oracle(namespace_index).merges += 1;
        self.merges_in_progress.push(Merge { namespace_index, old: old.to_owned(), new: new.to_owned() });
        if self.rng.chance(50) {
            // Makes the hub load the completed permission requests of `new`, possibly during the merge.
            self.get_session(namespace_index, new);
        }
    }

    // Requests.

    /// Sends a request to the object. Returns the number of the request.
    pub fn request(&mut self, namespace_index: usize, method: &str, path: &str, body: String, purpose: Purpose) -> u64 {
        let number = self.expect_response(namespace_index, self.objects[namespace_index].incarnation(), purpose);
        self.log_detail(|| format!("?{number} {method} {path} {body}"));
        self.objects[namespace_index].request(number, method, path, body);
        number
    }

    /// Requests a page of a session's history, which the worker reads without the object.
    pub fn request_page(&mut self, namespace_index: usize, session: &str, query: String, purpose: Purpose) -> u64 {
        let number = self.expect_response(namespace_index, 0, purpose);
        self.log_detail(|| format!("?{number} messages of {session} {query}"));
        let (db, responses) = (Arc::clone(&self.db), Arc::clone(&self.responses));
        let (namespace, session) = (self.objects[namespace_index].namespace(), session.to_owned());
        // A memory budget of its own, so that the read never waits.
        let budget = Arc::new(MemoryBudget::default()).namespace_budget(namespace.as_str());
        let memory = ReadMemory::new(budget, Arc::new(FakeEnvironment::default()));
        let read = async move {
            let page = HistoryRequest { namespace, reader: Reader::Cli, session }
                .read(&*db, &memory, &query)
                .await
                .map(|page| page.text);
            lock(&responses).push_back((number, Response::Page(page)));
        };
        self.scheduler.spawn(0, read.boxed());
        number
    }

    /// Registers a pending request.
    pub fn expect_response(&mut self, namespace_index: usize, incarnation: Incarnation, purpose: Purpose) -> u64 {
        let number = self.next_number();
        // A fault whose error the hub has not received yet may still make this request fail.
        let faults = self.db.seen_fault_count();
        self.pending.insert(number, PendingRequest { namespace_index, incarnation, purpose, faults });
        number
    }

    /// Checks that a text for a client contains nothing of the other namespace.
    pub fn check_isolation(&self, namespace_index: usize, text: &str) {
        let other = 1 - namespace_index;
        let name = self.objects[other].name;
        assert!(!text.contains(name), "{} received the name of {name}: {text}", self.objects[namespace_index].name);
        let foreign = self.oracles[other].sessions.keys().find(|id| text.contains(id.as_str()));
        assert!(foreign.is_none(), "{} received a session of {name}: {text}", self.objects[namespace_index].name);
    }

    // Actions.

    /// The actions that are possible now.
    fn actions(&mut self) -> Vec<Action> {
        self.check_new_pushes();
        let mut actions: Vec<Action> = self.scheduler.ready().into_iter().map(Action::Task).collect();
        actions.extend(self.db.runnable().into_iter().map(Action::DatabaseCall));
        for (id, connection) in &mut self.connections {
            connection.queue_sent_frames();
            actions.extend(
                (!connection.to_client.is_empty() && !connection.is_paused).then_some(Action::DeliverToClient(*id)),
            );
            actions.extend((!connection.to_hub.is_empty()).then_some(Action::DeliverToHub(*id)));
        }
        actions.extend((!lock(&self.responses).is_empty()).then_some(Action::Respond));
        for namespace_index in [TEAM, NEIGHBOUR] {
            actions.extend(
                (!self.are_alarms_delayed && self.objects[namespace_index].is_alarm_due())
                    .then_some(Action::Alarm(namespace_index)),
            );
            let pushes = self.objects[namespace_index].rt.outbox.runnable(self.now());
            actions.extend(pushes.into_iter().map(|number| Action::Push(namespace_index, number)));
        }
        actions
    }

    /// Runs a random action. Returns false when no action is possible.
    fn run_random_action(&mut self) -> bool {
        let actions = self.actions();
        let Some(action) = self.rng.pick(&actions) else { return false };
        match action {
            Action::Task(id) => self.scheduler.poll(id),
            Action::DatabaseCall(id) => {
                self.log_detail(|| self.db.describe(id));
                self.db.advance_call(id);
            }
            Action::DeliverToHub(id) => self.deliver_to_hub(id),
            Action::DeliverToClient(id) => self.deliver_to_client(id),
            Action::Respond => self.deliver_response(),
            Action::Alarm(namespace_index) => {
                self.log_detail(|| format!("the alarm of {namespace_index} fires"));
                self.objects[namespace_index].fire_alarm();
            }
            Action::Push(namespace_index, number) => self.advance_push(namespace_index, number),
        }
        true
    }

    fn deliver_response(&mut self) {
        let Some((number, response)) = lock(&self.responses).pop_front() else { return };
        let request = self.pending.remove(&number).expect("two responses to one request");
        self.log_detail(|| format!("!{number} {response}"));
        self.on_response(request, Some(response));
    }

    /// Delivers all frames that are in flight to clients.
    pub fn deliver_all_frames(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.is_paused = false);
        let receiving =
            |action: Action| if let Action::DeliverToClient(connection) = action { Some(connection) } else { None };
        loop {
            let connections: Vec<ConnectionId> = self.actions().into_iter().filter_map(receiving).collect();
            if connections.is_empty() {
                return;
            }
            for connection in connections {
                self.deliver_to_client(connection);
            }
        }
    }

    /// Runs up to `count` actions.
    pub fn run_actions(&mut self, count: usize) {
        for _ in 0..count {
            if !self.run_random_action() {
                return;
            }
        }
    }

    /// Runs actions and advances the clock until only a step of a client can cause another action.
    pub fn run_until_idle(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.is_paused = false);
        let ends_at = self.now() + MAX_OUTAGE_MS;
        for _ in 0..MAX_ACTIONS {
            if self.run_random_action() {
                continue;
            }
            if self.now() > ends_at {
                self.db.repair();
            }
            let is_waiting = |object: &Object| object.rt.fake.sleeping_tasks() > 0 || !object.rt.outbox.is_empty();
            if !self.db.has_round_trips() && !self.objects.iter().any(is_waiting) {
                return self.db.mark_faults_seen();
            }
            // A task waits for a retry, a push service or the round trip to the database.
            self.advance(50);
        }
        panic!("the world does not become idle");
    }

    /// Advances the clock.
    pub fn advance(&mut self, ms: u64) {
        let now = self.now() + ms;
        self.objects.iter().for_each(|object| object.rt.fake.set_now(now));
        self.db.set_now(now);
    }

    // Disruptions.

    /// Crashes an object; its sockets are lost.
    pub fn crash_object(&mut self, namespace_index: usize) {
        let incarnation = self.objects[namespace_index].incarnation();
        self.lose_pushes(namespace_index);
        for connection in
            self.connections.values_mut().filter(|connection| connection.namespace_index == namespace_index)
        {
            connection.to_hub.clear();
        }
        self.objects[namespace_index].crash();
        self.db.abandon_calls(&mut self.rng);
        self.crashes += 1;
        // Responses that the object has sent are still delivered.
        let sent: Vec<u64> = lock(&self.responses).iter().map(|(number, _)| *number).collect();
        let lost: Vec<u64> =
            self.pending.iter().filter(|(_, request)| request.incarnation == incarnation).map(|(n, _)| *n).collect();
        for number in lost.into_iter().filter(|number| !sent.contains(number)) {
            if let Some(request) = self.pending.remove(&number) {
                self.on_response(request, None);
            }
        }
    }

    /// A random session whose deletion is not confirmed.
    pub fn pick_session(&mut self, namespace_index: usize) -> Option<String> {
        let sessions = self.oracles[namespace_index].existing_sessions();
        self.rng.pick(&sessions)
    }

    /// Whether a session certainly exists.
    pub fn exists(&self, namespace_index: usize, session: &str) -> bool {
        self.oracles[namespace_index].sessions.get(session).is_some_and(|record| record.existence == Existence::Certain)
    }
}
