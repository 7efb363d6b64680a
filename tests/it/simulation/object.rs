//! A namespace's object between its lives: it wakes by whatever comes first, sleeps when it has nothing to do, and can be
//! torn down in the middle of anything.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use futures::FutureExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use http::Request;
use session_gateway_hub::auth::token::AccessTokens;
use session_gateway_hub::http::{events, router};
use session_gateway_hub::hub::error::Error;
use session_gateway_hub::hub::peers::connections::Upgrade;
use session_gateway_hub::hub::peers::subscription::Format;
use session_gateway_hub::hub::ports::{ConnId, PushAnswer, RandomSourceError, Runtime};
use session_gateway_hub::hub::push::config::PushConfig;
use session_gateway_hub::hub::{Config, Hub};
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::vocabulary::Vocabulary;
use tower::ServiceExt;

use super::database::Remote;
use super::pushes::Outbox;
use super::scheduler::{Life, Scheduler, Turn, lock};
use crate::support::rest::Reply;
use crate::support::runtime::{FakeRuntime, Frame, SocketKey};
use crate::support::{RPC_TIMEOUT_MS, SECRET};

/// The fake runtime with the scheduler of the simulation under its tasks.
pub struct SimRuntime {
    pub fake: FakeRuntime,
    /// What is on its way to push services.
    pub outbox: Outbox,
    scheduler: Arc<Scheduler>,
    life: AtomicU64,
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

    fn close(&self, conn: ConnId, code: u16, reason: &str) {
        self.fake.close(conn, code, reason);
    }

    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool> {
        self.fake.set_alarm(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.scheduler.spawn(self.life.load(Ordering::Relaxed), task);
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        if ms == 0 { Turn::default().boxed() } else { self.fake.sleep(ms) }
    }

    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushAnswer, String>> {
        self.outbox.post(self.life.load(Ordering::Relaxed), request)
    }

    fn kv_put(&self, key: &str, value: &str) {
        self.fake.kv_put(key, value);
    }

    fn kv_delete(&self, key: &str) {
        self.fake.kv_delete(key);
    }

    fn was_interrupted(&self) -> bool {
        self.fake.was_interrupted()
    }

    fn kv_list(&self, prefix: &str) -> Vec<(String, String)> {
        self.fake.kv_list(prefix)
    }
}

/// A socket that the object opened for a web client.
pub type Opened = (SocketKey, mpsc::UnboundedReceiver<Frame>);

/// What comes back to whoever asked.
pub enum Answer {
    Reply(Reply),
    /// A page of messages.
    Page(Result<String, Error>),
    /// An event channel, or the refusal of one.
    Channel(Result<Opened, Error>),
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reply(reply) => write!(f, "{} {}", reply.status, reply.text),
            Self::Page(page) => write!(f, "{page:?}"),
            Self::Channel(channel) => write!(f, "channel {:?}", channel.as_ref().map(|(key, _)| key)),
        }
    }
}

/// Answers on their way back, with the number of what was asked.
pub type Mail = Arc<Mutex<VecDeque<(u64, Answer)>>>;

/// The object of a namespace.
pub struct Object {
    pub name: &'static str,
    pub rt: Arc<SimRuntime>,
    namespace: Namespace,
    db: Arc<Remote>,
    scheduler: Arc<Scheduler>,
    mail: Mail,
    awake: Option<(Arc<Hub>, Router)>,
}

impl Object {
    /// The object of a namespace; `first` is its first life, and no other object has that one or those after it.
    pub fn new(
        name: &'static str,
        seed: u64,
        first: Life,
        db: Arc<Remote>,
        scheduler: Arc<Scheduler>,
        mail: Mail,
    ) -> Self {
        let fake = FakeRuntime::new(&format!("{name} {seed}"));
        let (outbox, life) = (Outbox::default(), AtomicU64::new(first));
        let rt = Arc::new(SimRuntime { fake, outbox, scheduler: Arc::clone(&scheduler), life });
        let namespace = Namespace::parse(name).unwrap();
        Self { name, rt, namespace, db, scheduler, mail, awake: None }
    }

    /// The access token of the namespace.
    pub fn token(&self) -> String {
        format!("{SECRET}:{}", self.name)
    }

    pub fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    /// The life that the object is in, or that begins when it wakes.
    pub fn life(&self) -> Life {
        self.rt.life.load(Ordering::Relaxed)
    }

    fn awake(&mut self) -> (Arc<Hub>, Router) {
        if self.awake.is_none() {
            let config = Config {
                namespace: self.namespace.clone(),
                tokens: AccessTokens::new(SECRET, false),
                rpc_timeout_ms: RPC_TIMEOUT_MS,
                vocabulary: Vocabulary::default(),
                push: PushConfig::default(),
            };
            let sockets = self.rt.fake.evict();
            let hub = Hub::wake(config, Arc::clone(&self.db) as _, Arc::clone(&self.rt) as _, sockets);
            self.awake = Some((Arc::clone(&hub), router(hub)));
        }
        self.awake.clone().unwrap()
    }

    /// Opens a socket for a CLI.
    pub fn open_cli(&mut self) -> Opened {
        let (hub, _) = self.awake();
        let (key, conn, frames) = self.rt.fake.open();
        hub.open_cli(conn, Upgrade::Unauthenticated);
        (key, frames)
    }

    /// A frame arrives on a socket.
    pub fn text(&mut self, key: SocketKey, text: String) {
        let (hub, _) = self.awake();
        if let Some(conn) = self.rt.fake.conn(key) {
            self.scheduler.start(self.life(), async move { hub.on_text(conn, text).await }.boxed());
        }
    }

    /// The close of a socket arrives.
    pub fn closed(&mut self, key: SocketKey) {
        let (hub, _) = self.awake();
        if let Some(conn) = self.rt.fake.conn(key) {
            hub.on_close(conn);
            self.rt.fake.forget(conn);
        }
    }

    /// Sends a request; its answer comes by mail.
    pub fn request(&mut self, number: u64, method: &str, path: &str, body: String) {
        let (_, router) = self.awake();
        let request = Request::builder().method(method).uri(path).body(axum::body::Body::from(body)).unwrap();
        let mail = Arc::clone(&self.mail);
        let answer = async move {
            let reply = Reply::of(router.oneshot(request).await.unwrap()).await;
            lock(&mail).push_back((number, Answer::Reply(reply)));
        };
        self.scheduler.spawn(self.life(), answer.boxed());
    }

    /// Asks for an event channel; it comes by mail.
    pub fn subscribe(&mut self, number: u64, query: String, last: Option<String>, format: Format) {
        let (hub, _) = self.awake();
        let (mail, rt) = (Arc::clone(&self.mail), Arc::clone(&self.rt));
        let open = async move {
            let channel = match events::parse_request(&hub, &query, last, format).await {
                Ok(asked) => {
                    let (key, conn, frames) = rt.fake.open();
                    hub.subscribe(conn, asked.subscription, asked.last_event_id.as_deref());
                    Ok((key, frames))
                }
                Err(error) => Err(error),
            };
            lock(&mail).push_back((number, Answer::Channel(channel)));
        };
        self.scheduler.spawn(self.life(), open.boxed());
    }

    /// Whether the alarm is due.
    pub fn alarm_is_due(&self) -> bool {
        self.rt.fake.alarm().is_some_and(|at| at <= self.rt.now())
    }

    /// The alarm rings.
    pub fn ring(&mut self) {
        self.rt.fake.take_alarm();
        let (hub, _) = self.awake();
        hub.on_alarm();
    }

    /// The object is evicted, unless something still goes on in it. Answers whether it was.
    pub fn sleep(&mut self) -> bool {
        if self.scheduler.running(self.life()) > 0 || self.rt.fake.sleeping() > 0 {
            return false;
        }
        let left = self.awake.take().map(|(hub, _)| Arc::downgrade(&hub));
        assert!(
            left.is_none_or(|left| left.upgrade().is_none()),
            "something still held the hub, so the object could not have slept"
        );
        self.rt.life.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The object is torn down in the middle of whatever it does.
    pub fn tear_down(&mut self) {
        self.scheduler.kill(self.life());
        self.awake = None;
        // Whoever waited for the clock is gone, and so are all sockets, also those of which their clients do not know yet.
        for (conn, _) in self.rt.fake.evict() {
            self.rt.close(conn, 1006, "");
        }
        self.rt.life.fetch_add(1, Ordering::Relaxed);
    }
}
