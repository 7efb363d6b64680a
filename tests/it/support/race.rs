//! Exhaustive tests of concurrency: runs concurrent operations in every possible order.
//!
//! A step is a request, an event of a CLI, a response of a CLI, or a result of the database. Each step runs until all tasks are
//! waiting. The orders are tried by depth-first search: the next run chooses another step at the last position that has an
//! untried step. So every interleaving at an await is tested.

use std::collections::BTreeMap;

use super::cli::Call;
use super::prelude::*;

/// The schedule of a run: for each position, the index of the chosen step and the number of possible steps.
#[derive(Debug, Default)]
pub struct Schedule {
    choices: Vec<(usize, usize)>,
    position: usize,
}

impl Schedule {
    /// Returns the index of the step to run next, of `count` possible steps.
    fn choose(&mut self, count: usize) -> usize {
        if self.position == self.choices.len() {
            self.choices.push((0, count));
        }
        let (choice, earlier_count) = self.choices[self.position];
        assert_eq!(earlier_count, count, "the run is not deterministic");
        self.position += 1;
        choice
    }

    /// Changes to the next schedule. Returns false after the last schedule.
    fn select_next(&mut self) -> bool {
        self.position = 0;
        while let Some((choice, count)) = self.choices.pop() {
            if choice + 1 < count {
                self.choices.push((choice + 1, count));
                return true;
            }
        }
        false
    }
}

/// Runs a test with every schedule. Returns the number of schedules.
pub async fn in_every_order(test: impl AsyncFn(&mut Schedule)) -> usize {
    let (mut schedule, mut runs) = (Schedule::default(), 1);
    loop {
        test(&mut schedule).await;
        if !schedule.select_next() {
            return runs;
        }
        runs += 1;
        assert!(runs < 20_000, "too many schedules");
    }
}

/// A step of a race that is not a result of the database.
#[derive(Debug)]
enum Step {
    Request { method: &'static str, path: String, body: String },
    Emit { cli: usize, event: &'static str, payload: Value },
    Close { cli: usize },
    Respond { cli: usize, call: Call },
}

/// Identifies a step whose result the test can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId(usize);

/// The cache of the object when a race begins.
#[derive(Debug, Clone, Copy)]
pub enum InitialCache {
    Loaded,
    /// The object has hibernated.
    Empty,
}

/// Concurrent operations on a session, with CLIs and two web clients that receive its events.
pub struct Race {
    pub world: World,
    pub clis: Vec<Cli>,
    pub watchers: [Web; 2],
    /// The result with which CLIs respond to every call.
    pub result: Value,
    /// The calls that CLIs have received: index of the CLI, and method.
    pub received_calls: Vec<(usize, String)>,
    steps: Vec<(StepId, Step)>,
    last_id: usize,
    /// The pending responses to requests.
    replies: BTreeMap<StepId, PendingReply>,
    /// The CLI and the id of the acknowledgement of each emitted event.
    acks: BTreeMap<StepId, (usize, u64)>,
    /// The executed steps, printed on failure.
    log: Vec<String>,
}

impl Race {
    /// `query` is the query of the web clients.
    pub async fn new(world: World, query: &str, mut clis: Vec<Cli>, cache: InitialCache) -> Self {
        let watchers = [world.web(query).await, world.web(query).await];
        super::run_until_idle().await;
        if matches!(cache, InitialCache::Empty) {
            world.hibernate_and_wake().await;
        }
        for cli in &mut clis {
            cli.socket.drain().await;
        }
        let result = json!({"success": true});
        let (steps, received_calls, log) = (Vec::new(), Vec::new(), Vec::new());
        let (replies, acks) = (BTreeMap::new(), BTreeMap::new());
        Self { world, clis, watchers, result, received_calls, steps, last_id: 0, replies, acks, log }
    }

    fn add_step(&mut self, step: Step) -> StepId {
        self.last_id += 1;
        self.steps.push((StepId(self.last_id), step));
        StepId(self.last_id)
    }

    /// Adds an HTTP request.
    pub fn request(&mut self, method: &'static str, path: &str, body: &Value) -> StepId {
        self.add_step(Step::Request { method, path: path.to_owned(), body: body.to_string() })
    }

    /// Adds an event of a CLI.
    pub fn emit(&mut self, cli: usize, event: &'static str, payload: Value) -> StepId {
        self.add_step(Step::Emit { cli, event, payload })
    }

    /// Adds the close of a CLI's socket.
    pub fn close(&mut self, cli: usize) -> StepId {
        self.add_step(Step::Close { cli })
    }

    /// Runs all steps with a schedule.
    pub async fn run(&mut self, schedule: &mut Schedule) {
        self.world.db.hold_all_results();
        loop {
            self.receive_calls().await;
            let count = self.steps.len() + self.world.db.held_result_count();
            if count == 0 {
                break;
            }
            let choice = schedule.choose(count);
            if choice < self.steps.len() {
                let (id, step) = self.steps.remove(choice);
                self.log.push(format!("{step:?}"));
                self.run_step(id, step);
            } else {
                self.log.push(format!("the database returns the result {}", choice - self.steps.len()));
                self.world.db.release_result(choice - self.steps.len());
            }
        }
        self.world.db.release_results();
    }

    /// Adds a response as a step for each call that a CLI has received.
    async fn receive_calls(&mut self) {
        super::run_until_idle().await;
        for cli in 0..self.clis.len() {
            while let Some(call) = self.clis[cli].try_call().await {
                self.received_calls.push((cli, call.method.clone()));
                self.add_step(Step::Respond { cli, call });
            }
        }
    }

    fn run_step(&mut self, id: StepId, step: Step) {
        match step {
            Step::Request { method, path, body } => {
                self.replies.insert(id, self.world.start(method, &path, body));
            }
            Step::Emit { cli, event, payload } => {
                let ack = self.clis[cli].emit_for_ack(event, &payload);
                self.acks.insert(id, (cli, ack));
            }
            Step::Close { cli } => self.clis[cli].socket.close(),
            Step::Respond { cli, call } => self.clis[cli].respond(&call, &self.result),
        }
    }

    /// The response to an HTTP request.
    pub async fn reply(&mut self, step: StepId) -> Reply {
        self.replies.remove(&step).unwrap().reply().await
    }

    /// The acknowledgement of an event.
    pub async fn ack(&mut self, step: StepId) -> Value {
        let (cli, ack) = self.acks[&step];
        self.clis[cli].wait_for_ack(ack).await
    }

    /// The events of the web clients, which must be equal.
    pub async fn events(&mut self) -> Vec<Value> {
        let [first, second] = &mut self.watchers;
        let events = first.events().await;
        assert_eq!(events, second.events().await);
        events
    }

    /// Checks that memory, database and events agree on the session, and that each version was published once and in order.
    /// Returns the session.
    pub async fn check_agreement(&mut self, session: &str) -> Value {
        let record = self.world.get_session(session).await;
        for (version, field) in [("metadataVersion", "metadata"), ("agentStateVersion", "agentState")] {
            let versions: Vec<u64> = self.published_versions(version).await;
            assert!(versions.is_sorted_by(|a, b| a < b), "{version} {versions:?}");
            assert!(versions.last().is_none_or(|last| *last == record[version]), "{version} {versions:?} of {record}");
            assert!(!record[field].is_null() || record[version] == 1, "{record}");
        }
        self.world.hibernate_and_wake().await;
        assert_eq!(self.world.get_session(session).await, record, "the session in the database");
        record
    }

    /// The versions of a value in the unread events of both web clients.
    async fn published_versions(&mut self, field: &str) -> Vec<u64> {
        let mut versions_by_web = Vec::new();
        for web in &mut self.watchers {
            let mut versions = Vec::new();
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap()["data"][field].as_u64();
            web.0.peek(|text| versions.extend(read(text))).await;
            versions_by_web.push(versions);
        }
        assert_eq!(versions_by_web[0], versions_by_web[1]);
        versions_by_web.remove(0)
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("Executed steps: {:#?}", self.log);
        }
    }
}
