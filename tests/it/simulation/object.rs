//! The durable object of a namespace: any event starts it, it hibernates when it is idle, and it can crash at any time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use http::Request;
use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::http::{events, respond};
use session_gateway_hub::hub::core::config::{ForbiddenModes, PushConfig, UploadConfig};
use session_gateway_hub::hub::core::error::Error;
use session_gateway_hub::hub::core::namespace::quotas::Quotas;
use session_gateway_hub::hub::core::namespace::recent_writers::RecentWriters;
use session_gateway_hub::hub::core::peers::connections::Upgrade;
use session_gateway_hub::hub::core::peers::subscription::Format;
use session_gateway_hub::hub::core::ports::{ConnId, DatabaseUsage, PushResponse, RandomSourceError, Runtime};
use session_gateway_hub::hub::{Config, Hub};
use session_gateway_hub::log::LogLine;
use session_gateway_hub::memory_budget::MemoryBudget;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::vocabulary::Vocabulary;
use session_gateway_hub::store::places::Databases;

use super::database::RemoteDatabase;
use super::push_outbox::PushOutbox;
use super::scheduler::{Incarnation, Scheduler, YieldNow, lock};
use crate::support::rest::Reply;
use crate::support::runtime::{FakeRuntime, Frame, SocketKey};
use crate::support::{RPC_TIMEOUT_MS, SECRET};

/// The fake runtime, with the scheduler and the push services of the simulation.
pub struct SimRuntime {
    pub fake: FakeRuntime,
    pub outbox: PushOutbox,
    scheduler: Arc<Scheduler>,
    incarnation: AtomicU64,
}

impl Runtime for SimRuntime {
    fn now(&self) -> u64 {
        self.fake.now()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<(), RandomSourceError> {
        self.fake.random(bytes)
    }

    fn send(&self, to: &[ConnId], text: &str) {
        self.fake.send(to, text);
    }

    fn attach(&self, conn: ConnId, attachment: &str) {
        self.fake.attach(conn, attachment);
    }

    fn send_close(&self, conn: ConnId, code: u16, reason: &str) {
        self.fake.send_close(conn, code, reason);
    }

    fn socket_count(&self) -> usize {
        self.fake.socket_count()
    }

    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool> {
        self.fake.set_alarm(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.scheduler.spawn(self.incarnation.load(Ordering::Relaxed), task);
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        if ms == 0 { YieldNow::default().boxed() } else { self.fake.sleep(ms) }
    }

    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushResponse, String>> {
        self.outbox.send(self.incarnation.load(Ordering::Relaxed), request)
    }

    fn kv_put(&self, key: &str, value: &str) {
        self.fake.kv_put(key, value);
    }

    fn kv_delete(&self, key: &str) {
        self.fake.kv_delete(key);
    }

    fn log(&self, _: LogLine) {}

    fn database_usage(&self) -> DatabaseUsage {
        DatabaseUsage::default()
    }

    fn previous_instance_crashed(&self) -> bool {
        self.fake.previous_instance_crashed()
    }

    fn kv_list(&self, prefix: &str) -> Vec<(String, String)> {
        self.fake.kv_list(prefix)
    }
}

/// A new socket and its frames.
pub type OpenedSocket = (SocketKey, mpsc::UnboundedReceiver<Frame>);

pub enum Response {
    Reply(Reply),
    /// A page of messages.
    Page(Result<String, Error>),
    /// The socket of an event stream.
    EventStream(Result<OpenedSocket, Error>),
}

impl std::fmt::Display for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reply(reply) => write!(f, "{} {}", reply.status, reply.text),
            Self::Page(page) => write!(f, "{page:?}"),
            Self::EventStream(opened) => write!(f, "event stream {:?}", opened.as_ref().map(|(key, _)| key)),
        }
    }
}

/// The responses in flight to clients, with the numbers of their requests.
pub type ResponseQueue = Arc<Mutex<VecDeque<(u64, Response)>>>;

/// What the namespaces of an isolate share.
#[derive(Clone, Default)]
pub struct Isolate {
    memory_budget: Arc<MemoryBudget>,
    recent_writers: Arc<RecentWriters>,
}

pub struct Object {
    pub name: &'static str,
    pub rt: Arc<SimRuntime>,
    namespace: Namespace,
    db: Arc<RemoteDatabase>,
    scheduler: Arc<Scheduler>,
    responses: ResponseQueue,
    isolate: Isolate,
    running: Option<Arc<Hub>>,
}

impl Object {
    /// The incarnations are numbered from `first_incarnation`. The numbers of two objects must not overlap.
    pub fn new(
        name: &'static str,
        seed: u64,
        first_incarnation: Incarnation,
        db: Arc<RemoteDatabase>,
        scheduler: Arc<Scheduler>,
        responses: ResponseQueue,
        isolate: Isolate,
    ) -> Self {
        let fake = FakeRuntime::new(&format!("{name} {seed}"));
        let (outbox, incarnation) = (PushOutbox::default(), AtomicU64::new(first_incarnation));
        let rt = Arc::new(SimRuntime { fake, outbox, scheduler: Arc::clone(&scheduler), incarnation });
        let namespace = Namespace::parse(name).unwrap();
        Self { name, rt, namespace, db, scheduler, responses, isolate, running: None }
    }

    /// The access token of the namespace.
    pub fn token(&self) -> String {
        format!("{SECRET}:{}", self.name)
    }

    pub fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    /// The current incarnation; while the object is not running, the incarnation of the next start.
    pub fn incarnation(&self) -> Incarnation {
        self.rt.incarnation.load(Ordering::Relaxed)
    }

    /// The hub of the running object; starts the object if it is not running.
    fn start(&mut self) -> Arc<Hub> {
        if self.running.is_none() {
            let config = Config {
                namespace: self.namespace.clone(),
                tokens: TokenVerifier::new(SECRET, false),
                jwt: None,
                rpc_timeout_ms: RPC_TIMEOUT_MS,
                vocabulary: Vocabulary::default(),
                forbidden_modes: ForbiddenModes::default(),
                push: PushConfig::default(),
                uploads: UploadConfig::default(),
                quotas: Quotas::default(),
                recent_writers: Arc::clone(&self.isolate.recent_writers),
            };
            let sockets = self.rt.fake.evict();
            let hub = Hub::wake(
                config,
                &self.isolate.memory_budget,
                Databases::new(vec![Arc::clone(&self.db) as _], "").unwrap(),
                Arc::clone(&self.rt) as _,
                sockets,
            );
            self.running = Some(hub);
        }
        self.running.clone().unwrap()
    }

    /// Opens the socket of a CLI.
    pub fn open_cli(&mut self) -> OpenedSocket {
        let hub = self.start();
        let (key, conn, frames) = self.rt.fake.open_socket();
        hub.socket(conn).open_cli(Upgrade::Unauthenticated, None);
        (key, frames)
    }

    /// Delivers a frame to the hub, unless the socket is closed. The platform still delivers a frame while the socket is
    /// closing.
    pub fn on_text(&mut self, key: SocketKey, text: String) {
        let hub = self.start();
        if let Some(conn) = self.rt.fake.conn(key) {
            self.scheduler.start(self.incarnation(), async move { hub.socket(conn).on_text(text).await }.boxed());
        }
    }

    /// Delivers the close of a socket to the hub.
    pub fn on_close(&mut self, key: SocketKey) {
        let hub = self.start();
        if let Some(conn) = self.rt.fake.conn(key) {
            hub.socket(conn).on_close();
            self.rt.fake.remove_socket(conn);
        }
    }

    /// Starts a request. Queues the response when it is complete.
    pub fn request(&mut self, number: u64, method: &str, path: &str, body: String) {
        let hub = self.start();
        let request = Request::builder().method(method).uri(path).body(bytes::Bytes::from(body)).unwrap();
        let responses = Arc::clone(&self.responses);
        let respond = async move {
            let reply = Reply::of(respond(&hub, request).await);
            lock(&responses).push_back((number, Response::Reply(reply)));
        };
        self.scheduler.spawn(self.incarnation(), respond.boxed());
    }

    /// Requests an event stream. Queues its socket as the response.
    pub fn subscribe(&mut self, number: u64, query: String, last_event_id: Option<String>, format: Format) {
        let hub = self.start();
        let (responses, rt) = (Arc::clone(&self.responses), Arc::clone(&self.rt));
        let open = async move {
            let opened = match events::parse_request(&hub, &query, last_event_id, format).await {
                Ok((subscription, last_event_id)) => {
                    let (key, conn, frames) = rt.fake.open_socket();
                    hub.subscribe(conn, subscription, last_event_id.as_deref());
                    Ok((key, frames))
                }
                Err(error) => Err(error),
            };
            lock(&responses).push_back((number, Response::EventStream(opened)));
        };
        self.scheduler.spawn(self.incarnation(), open.boxed());
    }

    pub fn is_alarm_due(&self) -> bool {
        self.rt.fake.alarm().is_some_and(|at| at <= self.rt.now())
    }

    pub fn fire_alarm(&mut self) {
        self.rt.fake.take_alarm();
        let hub = self.start();
        hub.on_alarm();
    }

    /// Fires the alarm before or at its time, and leaves it set, because the platform may fire an alarm twice.
    pub fn fire_alarm_again(&mut self) {
        let hub = self.start();
        hub.on_alarm();
    }

    /// Evicts the object unless it has running tasks. Returns whether it was evicted.
    pub fn hibernate(&mut self) -> bool {
        if self.scheduler.unfinished_tasks(self.incarnation()) > 0 || self.rt.fake.sleeping_tasks() > 0 {
            return false;
        }
        let hub = self.running.take().map(|hub| Arc::downgrade(&hub));
        assert!(hub.is_none_or(|hub| hub.upgrade().is_none()), "a reference to the hub prevents the hibernation");
        self.rt.incarnation.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Stops the object in the middle of its tasks.
    pub fn crash(&mut self) {
        self.scheduler.kill(self.incarnation());
        self.running = None;
        // All sockets are lost, including the sockets of event streams whose response is in flight.
        self.rt.fake.lose_sockets();
        self.rt.incarnation.fetch_add(1, Ordering::Relaxed);
    }
}
