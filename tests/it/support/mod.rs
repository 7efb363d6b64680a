//! The test harness: the hub of a namespace with a fake runtime, a database and clients.
//!
//! Tests run with a paused tokio clock (`start_paused`): a wait that cannot end fails immediately, and
//! [`run_until_idle`] returns as soon as all tasks are waiting. The hub's own clock is the fake runtime's.

pub mod cli;
pub mod clients;
pub mod database_errors;
pub mod edge;
pub mod edge_routes;
pub mod environment;
pub mod field_faults;
pub mod live_session;
pub mod merge;
pub mod openapi;
pub mod operator;
pub mod permissions;
pub mod prelude;
pub mod pushes;
pub mod race;
pub mod replay;
pub mod rest;
pub mod route;
pub mod route_fixture;
pub mod routes;
pub mod runtime;
pub mod session_list;
pub mod settings;
pub mod socket;
pub mod sqlite;
pub mod store;
pub mod upload;
pub mod web;
pub mod worker_edge;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::hub::core::config::{ForbiddenModes, PushConfig, UploadConfig};
use session_gateway_hub::hub::core::namespace::quotas::Quotas;
use session_gateway_hub::hub::core::namespace::recent_writers::RecentWriters;
use session_gateway_hub::hub::core::ports::{ConnId, Runtime};
use session_gateway_hub::hub::{Config, Hub};
use session_gateway_hub::limits::DB_RETRY_PERIOD_MS;
use session_gateway_hub::memory_budget::MemoryBudget;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::vocabulary::Vocabulary;
use session_gateway_hub::store::Database;
use session_gateway_hub::store::places::Databases;
use session_gateway_hub::store::retry::MAX_DB_PAUSE_MS;

use runtime::FakeRuntime;
use sqlite::Sqlite;

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

/// Runs a function for each item, one after the other. Returns the results.
pub async fn each<I, T>(items: impl IntoIterator<Item = I>, mut run: impl AsyncFnMut(I) -> T) -> Vec<T> {
    let mut results = Vec::new();
    for item in items {
        results.push(run(item).await);
    }
    results
}

/// The values at these paths, such as `metadata/name`, as an array. A missing value is null.
pub fn pick<const N: usize>(value: &serde_json::Value, paths: [&str; N]) -> serde_json::Value {
    paths.iter().map(|path| value.pointer(&format!("/{path}")).cloned().unwrap_or_default()).collect()
}

/// The object of a namespace, with its hub unless it hibernates.
pub struct Object {
    pub rt: Arc<FakeRuntime>,
    pub db: Arc<Sqlite>,
    /// The further databases: `DB_2` and so on.
    more_dbs: Vec<Arc<dyn Database>>,
    /// The variable `DATABASES_CLOSED`.
    closed_dbs: &'static str,
    namespace: Namespace,
    vocabulary: Vocabulary,
    forbidden_modes: ForbiddenModes,
    push: PushConfig,
    uploads: UploadConfig,
    quotas: Mutex<Quotas>,
    memory_budget: Arc<MemoryBudget>,
    recent_writers: Arc<RecentWriters>,
    /// `CLI_API_TOKEN` and `CLI_API_TOKEN_PREVIOUS`.
    access_secrets: Mutex<(&'static str, Option<&'static str>)>,
    hub: Mutex<Option<Arc<Hub>>>,
}

impl Object {
    /// The running hub. Panics if the object hibernates.
    pub fn hub(&self) -> Arc<Hub> {
        Arc::clone(self.hub.lock().unwrap_or_else(PoisonError::into_inner).as_ref().expect("the object hibernates"))
    }

    /// The databases of the deployment.
    pub fn databases(&self) -> Databases {
        let all = std::iter::once(Arc::clone(&self.db) as _).chain(self.more_dbs.iter().cloned());
        Databases::new(all.collect(), self.closed_dbs).unwrap()
    }

    fn wake(&self, sockets: Vec<(ConnId, String)>) {
        let (secret, previous) = *self.access_secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = TokenVerifier::parse(Some(secret), previous, None).unwrap();
        let (namespace, vocabulary) = (self.namespace.clone(), self.vocabulary.clone());
        let push = self.push.clone();
        let config = Config {
            namespace,
            tokens,
            jwt: None,
            rpc_timeout_ms: RPC_TIMEOUT_MS,
            vocabulary,
            forbidden_modes: self.forbidden_modes.clone(),
            push,
            uploads: self.uploads.clone(),
            quotas: self.quotas.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            recent_writers: Arc::clone(&self.recent_writers),
        };
        let databases = self.databases();
        let hub = Hub::wake(config, &self.memory_budget, databases, Arc::clone(&self.rt) as _, sockets);
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
        Self::with_object(Self::object(namespace, db))
    }

    /// The namespace `team` with a value of the variable `VOCABULARY`.
    pub fn with_vocabulary(vocabulary: &str) -> Self {
        Self::with_object(Object { vocabulary: Vocabulary::parse(vocabulary).unwrap(), ..Self::team() })
    }

    pub fn with_push_config(namespace: &str, db: Arc<Sqlite>, push: PushConfig) -> Self {
        Self::with_object(Object { push, ..Self::object(namespace, db) })
    }

    /// The namespace `team` of a deployment with these `FORBID_MODES`.
    pub fn with_forbidden_modes(modes: &str) -> Self {
        let forbidden_modes = ForbiddenModes::parse(modes.to_owned()).unwrap();
        Self::with_object(Object { forbidden_modes, ..Self::team() })
    }

    pub fn with_uploads(namespace: &str, uploads: UploadConfig) -> Self {
        Self::with_object(Object { uploads, ..Self::object(namespace, Arc::new(Sqlite::with_schema())) })
    }

    /// The namespace `team` of a deployment with these quotas.
    pub fn with_quotas(quotas: Quotas) -> Self {
        Self::with_object(Object { quotas: Mutex::new(quotas), ..Self::team() })
    }

    /// Redeploys the object with other quotas.
    pub fn redeploy_with_quotas(&self, quotas: Quotas) {
        *self.object.quotas.lock().unwrap_or_else(PoisonError::into_inner) = quotas;
        self.redeploy();
    }

    fn team() -> Object {
        Self::object("team", Arc::new(Sqlite::with_schema()))
    }

    fn object(namespace: &str, db: Arc<Sqlite>) -> Object {
        Object {
            rt: Arc::new(FakeRuntime::new(namespace)),
            db,
            more_dbs: Vec::new(),
            closed_dbs: "",
            namespace: Namespace::parse(namespace).unwrap(),
            vocabulary: Vocabulary::default(),
            forbidden_modes: ForbiddenModes::default(),
            push: PushConfig::default(),
            uploads: UploadConfig::default(),
            quotas: Mutex::default(),
            memory_budget: Arc::default(),
            recent_writers: Arc::default(),
            access_secrets: Mutex::new((SECRET, None)),
            hub: Mutex::new(None),
        }
    }

    fn with_object(object: Object) -> Self {
        let (rt, db) = (Arc::clone(&object.rt), Arc::clone(&object.db));
        object.wake(Vec::new());
        Self { object: Arc::new(object), rt, db }
    }

    /// A namespace of a deployment with several databases. `closed` is the variable `DATABASES_CLOSED`.
    pub fn with_databases(name: &str, db: Arc<Sqlite>, more_dbs: Vec<Arc<dyn Database>>, closed: &'static str) -> Self {
        Self::with_object(Object { more_dbs, closed_dbs: closed, ..Self::object(name, db) })
    }

    /// Another namespace on the same database and in the same isolate.
    pub fn neighbour(&self) -> Self {
        let Object { memory_budget, recent_writers, .. } = &*self.object;
        let (memory_budget, recent_writers) = (Arc::clone(memory_budget), Arc::clone(recent_writers));
        Self::with_object(Object { memory_budget, recent_writers, ..Self::object("neighbour", Arc::clone(&self.db)) })
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
        let (secret, _) = *self.object.access_secrets.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{secret}:{}", self.object.namespace)
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

    /// Restarts the object if `hibernates`, like [`hibernate_and_wake`](Self::hibernate_and_wake).
    pub async fn hibernate_if(&self, hibernates: bool) {
        if hibernates {
            self.hibernate_and_wake().await;
        }
    }

    /// Runs until idle. Returns how many results of the database are held.
    pub async fn held_results(&self) -> usize {
        run_until_idle().await;
        self.db.held_result_count()
    }

    /// Runs until idle, releases a held result, and runs until idle.
    pub async fn release_result(&self, index: usize) {
        run_until_idle().await;
        self.db.release_result(index);
        run_until_idle().await;
    }

    /// Runs until idle, releases all held results, and runs until idle.
    pub async fn release_results(&self) {
        run_until_idle().await;
        self.db.release_results();
        run_until_idle().await;
    }

    /// Delivers the clients' answers to closes of the hub.
    pub fn deliver_answered_closes(&self) {
        for conn in self.rt.answered_closes() {
            self.hub().socket(conn).on_close();
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

    /// Redeploys the object with other access secrets.
    pub fn redeploy_with_secrets(&self, secret: &'static str, previous: Option<&'static str>) {
        *self.object.access_secrets.lock().unwrap_or_else(PoisonError::into_inner) = (secret, previous);
        self.redeploy();
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
        for _ in 0..=DB_RETRY_PERIOD_MS / MAX_DB_PAUSE_MS {
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
}
