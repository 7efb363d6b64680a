//! The test harness: the hub of a namespace with a fake runtime, a database and clients.
//!
//! Tests run with a paused tokio clock (`start_paused`): a wait that cannot end fails immediately, and
//! [`run_until_idle`] returns as soon as all tasks are waiting. The hub's own clock is the fake runtime's.

pub mod cli;
pub mod database_errors;
pub mod edge;
pub mod edge_routes;
pub mod field_faults;
pub mod live_session;
pub mod merge;
pub mod permissions;
pub mod pushes;
pub mod race;
pub mod replay;
pub mod rest;
pub mod route;
pub mod route_fixture;
pub mod routes;
pub mod runtime;
pub mod session_list;
pub mod socket;
pub mod sqlite;
pub mod store;
pub mod upload;
pub mod web;
pub mod worker_edge;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::http::events;
use session_gateway_hub::hub::base::config::{ForbiddenModes, UploadConfig};
use session_gateway_hub::hub::base::error::Error;
use session_gateway_hub::hub::base::peers::connections::Upgrade;
use session_gateway_hub::hub::base::peers::subscription::{Format, Subscription};
use session_gateway_hub::hub::base::ports::{ConnId, Runtime};
use session_gateway_hub::hub::base::push::config::PushConfig;
use session_gateway_hub::hub::{Config, Hub};
use session_gateway_hub::limits::{DB_RETRY_MS, MAX_DB_PAUSE_MS};
use session_gateway_hub::memory_budget::MemoryBudget;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::vocabulary::Vocabulary;
use session_gateway_hub::store::Database;
use session_gateway_hub::store::retry::{Environment, Retrying};

use cli::Cli;
use runtime::FakeRuntime;
use socket::Socket;
use sqlite::Sqlite;
use web::Web;

pub const SECRET: &str = "secret";
pub const RPC_TIMEOUT_MS: u64 = 30_000;
/// How long a call waits for a CLI to reconnect, in milliseconds.
pub const RECONNECT_GRACE_MS: u64 = 2_000;
/// A step of the clock in [`World::advance_in_steps`].
const STEP_MS: u64 = 250;

/// Returns as soon as all tasks are waiting.
pub async fn run_until_idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// An environment whose clock advances only when a task sleeps or the test calls [`Self::advance`]. Every pause between retries
/// has its full length, unless the test sets random bytes.
#[derive(Default, Clone)]
pub struct FakeEnvironment {
    /// The next random bytes.
    pub random: Arc<Mutex<VecDeque<u8>>>,
    /// The lines of the log.
    pub logs: Arc<Mutex<Vec<String>>>,
    /// Every pause, in milliseconds.
    pub pauses: Arc<Mutex<Vec<u64>>>,
    now: Arc<AtomicU64>,
}

impl FakeEnvironment {
    /// Advances the clock.
    pub fn advance(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Environment for FakeEnvironment {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.advance(ms);
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(ms);
        Box::pin(tokio::task::yield_now())
    }

    fn random(&self) -> u8 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(u8::MAX)
    }

    fn log_warning(&self, line: &str) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }
}

/// An environment with tokio's clock, which starts at 0.
pub struct TokioEnvironment(tokio::time::Instant);

impl TokioEnvironment {
    pub fn start() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Environment for TokioEnvironment {
    fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn random(&self) -> u8 {
        u8::MAX
    }

    fn log_warning(&self, _: &str) {}
}

/// The database with retries, as the edge uses it, but without delays between the attempts.
pub fn retrying(db: &Arc<Sqlite>) -> Arc<dyn Database> {
    Arc::new(Retrying::new(Arc::clone(db), Box::new(FakeEnvironment::default())))
}

/// The object of a namespace, with its hub unless it hibernates.
pub struct Object {
    pub rt: Arc<FakeRuntime>,
    pub db: Arc<Sqlite>,
    namespace: Namespace,
    vocabulary: Vocabulary,
    forbidden_modes: ForbiddenModes,
    push: PushConfig,
    uploads: UploadConfig,
    memory_budget: Arc<MemoryBudget>,
    hub: Mutex<Option<Arc<Hub>>>,
}

impl Object {
    /// The running hub. Panics if the object hibernates.
    pub fn hub(&self) -> Arc<Hub> {
        Arc::clone(self.hub.lock().unwrap_or_else(PoisonError::into_inner).as_ref().expect("the object hibernates"))
    }

    fn wake(&self, sockets: Vec<(ConnId, String)>) {
        let tokens = TokenVerifier::new(SECRET, false);
        let (namespace, vocabulary) = (self.namespace.clone(), self.vocabulary.clone());
        let push = self.push.clone();
        let config = Config {
            namespace,
            tokens,
            rpc_timeout_ms: RPC_TIMEOUT_MS,
            vocabulary,
            forbidden_modes: self.forbidden_modes.clone(),
            push,
            uploads: self.uploads.clone(),
        };
        let hub = Hub::wake(config, &self.memory_budget, Arc::clone(&self.db) as _, Arc::clone(&self.rt) as _, sockets);
        *self.hub.lock().unwrap_or_else(PoisonError::into_inner) = Some(hub);
    }
}

/// A namespace with its clients.
pub struct World {
    pub object: Arc<Object>,
    pub rt: Arc<FakeRuntime>,
    pub db: Arc<Sqlite>,
}

impl World {
    /// The namespace `team` on a new database.
    pub fn new() -> Self {
        Self::in_namespace("team", Arc::new(Sqlite::with_schema()))
    }

    pub fn in_namespace(namespace: &str, db: Arc<Sqlite>) -> Self {
        Self::build(namespace, db, Arc::default(), Vocabulary::default(), PushConfig::default())
    }

    /// The namespace `team` with a value of the variable `VOCABULARY`.
    pub fn with_vocabulary(vocabulary: &str) -> Self {
        Self::build(
            "team",
            Arc::new(Sqlite::with_schema()),
            Arc::default(),
            Vocabulary::parse(vocabulary).unwrap(),
            PushConfig::default(),
        )
    }

    pub fn with_push_config(namespace: &str, db: Arc<Sqlite>, push: PushConfig) -> Self {
        Self::build(namespace, db, Arc::default(), Vocabulary::default(), push)
    }

    /// The namespace `team` of a deployment with these `FORBID_MODES`.
    pub fn with_forbidden_modes(modes: &str) -> Self {
        let forbidden_modes = ForbiddenModes::parse(modes.to_owned()).unwrap();
        Self::of(Object { forbidden_modes, ..Self::object("team", Arc::new(Sqlite::with_schema())) })
    }

    pub fn with_uploads(namespace: &str, uploads: UploadConfig) -> Self {
        let object = Object { uploads, ..Self::object(namespace, Arc::new(Sqlite::with_schema())) };
        Self::of(object)
    }

    fn build(
        namespace: &str,
        db: Arc<Sqlite>,
        memory_budget: Arc<MemoryBudget>,
        vocabulary: Vocabulary,
        push: PushConfig,
    ) -> Self {
        Self::of(Object { memory_budget, vocabulary, push, ..Self::object(namespace, db) })
    }

    fn object(namespace: &str, db: Arc<Sqlite>) -> Object {
        Object {
            rt: Arc::new(FakeRuntime::new(namespace)),
            db,
            namespace: Namespace::parse(namespace).unwrap(),
            vocabulary: Vocabulary::default(),
            forbidden_modes: ForbiddenModes::default(),
            push: PushConfig::default(),
            uploads: UploadConfig::default(),
            memory_budget: Arc::default(),
            hub: Mutex::new(None),
        }
    }

    fn of(object: Object) -> Self {
        let (rt, db) = (Arc::clone(&object.rt), Arc::clone(&object.db));
        object.wake(Vec::new());
        Self { object: Arc::new(object), rt, db }
    }

    /// Another namespace on the same database and in the same isolate.
    pub fn neighbour(&self) -> Self {
        let (db, memory_budget) = (Arc::clone(&self.db), Arc::clone(&self.object.memory_budget));
        Self::build("neighbour", db, memory_budget, Vocabulary::default(), PushConfig::default())
    }

    /// The memory budget of the isolate.
    pub fn memory_budget(&self) -> Arc<MemoryBudget> {
        Arc::clone(&self.object.memory_budget)
    }

    /// The bytes that all namespaces in the isolate hold.
    pub fn held_bytes(&self) -> usize {
        self.object.memory_budget.bytes()
    }

    pub fn hub(&self) -> Arc<Hub> {
        self.object.hub()
    }

    /// An access token of the namespace.
    pub fn token(&self) -> String {
        format!("{SECRET}:{}", self.object.namespace)
    }

    pub fn now(&self) -> u64 {
        self.rt.now()
    }

    /// Runs until idle, then evicts and restarts the object. Attachments, storage and database survive.
    pub async fn hibernate_and_wake(&self) {
        run_until_idle().await;
        self.deliver_answered_closes();
        let hub = self.object.hub.lock().unwrap_or_else(PoisonError::into_inner).take();
        let hub = Arc::downgrade(&hub.expect("the object hibernates"));
        assert!(hub.upgrade().is_none(), "a reference to the hub prevents the hibernation");
        self.rt.set_previous_instance_crashed(false);
        self.object.wake(self.rt.evict());
    }

    /// Delivers the clients' answers to closes of the hub.
    pub fn deliver_answered_closes(&self) {
        for conn in self.rt.answered_closes() {
            self.hub().on_close(conn);
            self.rt.remove_socket(conn);
        }
    }

    /// Stops the object in the middle of its tasks, as a panic does, and restarts it. Its sockets survive.
    pub fn restart(&self) {
        let hub = self.object.hub.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sockets = self.rt.evict();
        self.rt.set_previous_instance_crashed(true);
        drop(hub);
        self.object.wake(sockets);
    }

    /// Stops the object and closes its sockets, as a deployment does, and restarts it.
    pub fn redeploy(&self) {
        let hub = self.object.hub.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.rt.evict();
        self.rt.lose_sockets();
        drop(hub);
        self.object.wake(Vec::new());
    }

    /// Advances the clock and fires each alarm when it is due.
    pub async fn advance(&self, ms: u64) {
        run_until_idle().await;
        self.deliver_answered_closes();
        let end = self.now() + ms;
        for _ in 0..10_000 {
            match self.rt.alarm() {
                Some(at) if at <= end => self.fire_alarm_at(at.max(self.now())).await,
                _ => {
                    self.rt.set_now(end);
                    return run_until_idle().await;
                }
            }
        }
        panic!("an endless loop of alarms: the next is set to {:?}", self.rt.alarm());
    }

    /// Like [`advance`](Self::advance), in steps of 250 ms. Sleeping tasks can wake after each step.
    pub async fn advance_in_steps(&self, ms: u64) {
        let end = self.now() + ms;
        while self.now() < end {
            self.advance(STEP_MS.min(end - self.now())).await;
        }
    }

    /// Advances the clock until the hub no longer repeats a failed batch. Fires no alarm.
    pub async fn exhaust_retries(&self) {
        for _ in 0..=DB_RETRY_MS / MAX_DB_PAUSE_MS {
            run_until_idle().await;
            self.rt.set_now(self.now() + MAX_DB_PAUSE_MS);
        }
        run_until_idle().await;
    }

    /// Advances the clock to a time and fires the alarm.
    pub async fn fire_alarm_at(&self, at: u64) {
        self.rt.set_now(at);
        run_until_idle().await;
        self.rt.take_alarm();
        let hub = self.hub();
        hub.on_alarm();
        run_until_idle().await;
    }

    /// Opens the socket of a CLI whose upgrade request has no token.
    pub fn open_cli(&self) -> Socket {
        self.open_cli_after(Upgrade::Unauthenticated)
    }

    /// Opens the socket of a CLI. `upgrade`: whether the upgrade request had a valid token.
    pub fn open_cli_after(&self, upgrade: Upgrade) -> Socket {
        let (key, conn, frames) = self.rt.open_socket();
        self.hub().open_cli(conn, upgrade, None);
        Socket::new(Arc::clone(&self.object), key, frames)
    }

    /// A connected CLI without a session or machine.
    pub async fn bare_cli(&self) -> Cli {
        Cli::connect(self, json!({})).await
    }

    /// A connected CLI of a session.
    pub async fn cli(&self, session: &str) -> Cli {
        Cli::connect(self, json!({"sessionId": session})).await
    }

    /// A connected CLI of an active session.
    pub async fn live_cli(&self, session: &str) -> Cli {
        let mut cli = self.cli(session).await;
        cli.send_keep_alive(self, session).await;
        cli
    }

    /// A connected runner of a machine.
    pub async fn runner(&self, machine: &str) -> Cli {
        Cli::connect(self, json!({"machineId": machine})).await
    }

    /// Creates a session. Returns its id.
    pub async fn create_session(&self, tag: &str) -> String {
        self.create_session_with(tag, json!({})).await
    }

    /// Creates a session with additional metadata.
    pub async fn create_session_with(&self, tag: &str, extra: Value) -> String {
        let mut metadata = json!({"path": tag, "host": "box"});
        metadata.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let reply = self.post("/cli/sessions", &json!({"tag": tag, "metadata": metadata})).await;
        reply.ok()["session"]["id"].as_str().unwrap().to_owned()
    }

    pub async fn register_machine(&self, id: &str) {
        let body = json!({"id": id, "metadata": {"host": "box", "platform": "linux"}});
        self.post("/cli/machines", &body).await.ok();
    }

    /// The runner of an online machine that has registered `spawnSession`.
    pub async fn spawner(&self, machine: &str, host: &str) -> Cli {
        self.post("/cli/machines", &json!({"id": machine, "metadata": {"host": host}})).await.ok();
        let mut runner = self.runner(machine).await;
        let alive = json!({"machineId": machine, "time": self.now()});
        assert_eq!(runner.emit_with_ack("machine-alive", &alive).await, json!({"ok": true}));
        runner.register("spawnSession").await;
        runner
    }

    /// `GET /api/sessions/:id`
    pub async fn get_session(&self, session: &str) -> Value {
        self.get(&format!("/api/sessions/{session}")).await.ok()["session"].clone()
    }

    /// Opens an event stream with a query and `Last-Event-ID`.
    pub async fn open_event_stream(
        &self,
        query: &str,
        last_event_id: Option<&str>,
        format: Format,
    ) -> Result<Socket, Error> {
        self.open_event_stream_with_expiry(query, last_event_id, format, None).await
    }

    /// Like [`open_event_stream`](Self::open_event_stream), with a token that expires.
    pub async fn open_event_stream_with_expiry(
        &self,
        query: &str,
        last_event_id: Option<&str>,
        format: Format,
        expires_at: Option<u64>,
    ) -> Result<Socket, Error> {
        let request = events::parse_request(&self.hub(), query, last_event_id.map(str::to_owned), format).await?;
        let (key, conn, frames) = self.rt.open_socket();
        let subscription = Subscription { expires_at, ..request.subscription };
        self.hub().subscribe(conn, subscription, request.last_event_id.as_deref());
        Ok(Socket::new(Arc::clone(&self.object), key, frames))
    }

    /// A web client with this query that has received its first event.
    pub async fn web(&self, query: &str) -> Web {
        let mut web = Web(self.open_event_stream(query, None, Format::Json).await.unwrap());
        assert_eq!(web.next_event().await["type"], "connection-changed");
        web
    }
}
