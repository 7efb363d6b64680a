//! The runtime port in memory: a clock that stands until a test moves it, sockets whose frames can be read, an alarm
//! that a test rings, a notebook that outlives the hub.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::{mpsc, oneshot};
use futures::future::BoxFuture;
use http::Request;
use session_gateway_hub::hub::ports::{ConnId, PushAnswer, RandomSourceError, Runtime};

/// When every test begins: five seconds after a whole minute, so heartbeats beat after 25 s and pings after 55 s.
pub const START: u64 = 1_800_000_005_000;

/// What a client hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Closed { code: u16, reason: String },
}

/// A socket as its client knows it, whatever number it has in the hub at the moment.
pub type SocketKey = usize;

struct Socket {
    key: SocketKey,
    frames: mpsc::UnboundedSender<Frame>,
    attachment: String,
}

#[derive(Default)]
struct Inner {
    now: u64,
    seed: u64,
    /// Whether the random source fails.
    random_fails: bool,
    interrupted: bool,
    last_conn: ConnId,
    last_key: SocketKey,
    sockets: BTreeMap<ConnId, Socket>,
    alarm: Option<u64>,
    broken_alarms: usize,
    alarms_set: usize,
    notes: BTreeMap<String, String>,
    noted: usize,
    turns: usize,
    sleepers: Vec<(u64, oneshot::Sender<()>)>,
    tasks: Vec<tokio::task::AbortHandle>,
    /// What push services got and was not looked at yet.
    pushed: Vec<Request<Vec<u8>>>,
    /// What push services answer, by the beginning of the endpoint; the others take everything.
    push_answers: Vec<(String, VecDeque<Result<PushAnswer, String>>)>,
    /// The beginnings of endpoints that do not answer.
    silent: Vec<String>,
    /// Those who wait for these.
    unanswered: Vec<oneshot::Sender<()>>,
}

/// The runtime of one object.
pub struct FakeRuntime(Mutex<Inner>);

impl FakeRuntime {
    /// A runtime whose random bytes depend on the name only.
    pub fn new(name: &str) -> Self {
        let seed = name.bytes().fold(0x9e37_79b9_7f4a_7c15, |seed: u64, byte| (seed ^ u64::from(byte)).rotate_left(9));
        Self(Mutex::new(Inner { now: START, seed, ..Inner::default() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a socket; its frames come out of the receiver.
    pub fn open(&self) -> (SocketKey, ConnId, mpsc::UnboundedReceiver<Frame>) {
        let (frames, receiver) = mpsc::unbounded();
        let mut inner = self.inner();
        inner.last_conn += 1;
        inner.last_key += 1;
        let (conn, key) = (inner.last_conn, inner.last_key);
        inner.sockets.insert(conn, Socket { key, frames, attachment: String::new() });
        (key, conn, receiver)
    }

    /// The number under which the hub knows a socket now; `None` once it is closed.
    pub fn conn(&self, key: SocketKey) -> Option<ConnId> {
        self.inner().sockets.iter().find(|(_, socket)| socket.key == key).map(|(conn, _)| *conn)
    }

    /// What the hub attached to a socket.
    pub fn attachment(&self, key: SocketKey) -> String {
        let inner = self.inner();
        inner.sockets.values().find(|socket| socket.key == key).map(|s| s.attachment.clone()).unwrap_or_default()
    }

    /// Puts another attachment on a socket, as an older hub might have left it.
    pub fn set_attachment(&self, key: SocketKey, attachment: &str) {
        if let Some(socket) = self.inner().sockets.values_mut().find(|socket| socket.key == key) {
            socket.attachment = attachment.to_owned();
        }
    }

    /// A client is gone.
    pub fn remove_socket(&self, conn: ConnId) {
        self.inner().sockets.remove(&conn);
    }

    /// The object was evicted: its tasks are gone, and what is left of its sockets is their attachments. A woken object
    /// numbers them anew.
    pub fn evict(&self) -> Vec<(ConnId, String)> {
        let mut inner = self.inner();
        inner.tasks.drain(..).for_each(|task| task.abort());
        inner.sleepers.clear();
        let sockets = std::mem::take(&mut inner.sockets);
        let mut attachments = Vec::new();
        // The platform promises no order.
        for (_, socket) in sockets.into_iter().rev() {
            inner.last_conn += 1;
            let conn = inner.last_conn;
            attachments.push((conn, socket.attachment.clone()));
            inner.sockets.insert(conn, socket);
        }
        attachments
    }

    /// Whether something other than a sleep has ended the hub, and its sockets are still there.
    pub fn set_interrupted(&self, interrupted: bool) {
        self.inner().interrupted = interrupted;
    }

    /// What the alarm is set to.
    pub fn alarm(&self) -> Option<u64> {
        self.inner().alarm
    }

    /// How often the alarm was set.
    pub fn alarms_set(&self) -> usize {
        self.inner().alarms_set
    }

    /// The alarm goes off: it is set no more.
    pub fn take_alarm(&self) -> Option<u64> {
        self.inner().alarm.take()
    }

    /// The next so many times the alarm can't be set.
    pub fn fail_alarms(&self, times: usize) {
        self.inner().broken_alarms = times;
    }

    /// Moves the clock on and wakes whoever slept until then. The alarm is left alone.
    pub fn set_now(&self, now: u64) {
        let mut inner = self.inner();
        inner.now = now;
        let (due, waiting) = std::mem::take(&mut inner.sleepers).into_iter().partition(|(at, _)| *at <= now);
        inner.sleepers = waiting;
        let due: Vec<(u64, oneshot::Sender<()>)> = due;
        for (_, sleeper) in due {
            let _ = sleeper.send(());
        }
    }

    /// How many wait for the clock.
    pub fn sleeping_tasks(&self) -> usize {
        self.inner().sleepers.len()
    }

    /// The random source fails from now on.
    pub fn fail_random(&self) {
        self.inner().random_fails = true;
    }

    /// How often others were let have their turn.
    pub fn yields(&self) -> usize {
        self.inner().turns
    }

    /// What push services got since this was asked last.
    pub fn take_pushes(&self) -> Vec<Request<Vec<u8>>> {
        std::mem::take(&mut self.inner().pushed)
    }

    /// The push services of endpoints that begin so answer the next messages with these statuses, and headers
    /// `Retry-After`; 0 stands for no answer at all. The last one is for all that follow.
    pub fn respond_to_pushes(&self, endpoint: &str, answers: &[(u16, Option<&str>)]) {
        let answer = |&(status, retry_after): &(u16, Option<&str>)| match status {
            0 => Err("The push service could not be reached.".to_owned()),
            _ => Ok(PushAnswer { status, retry_after: retry_after.map(str::to_owned) }),
        };
        let mut inner = self.inner();
        inner.push_answers.retain(|(known, _)| known != endpoint);
        inner.push_answers.push((endpoint.to_owned(), answers.iter().map(answer).collect()));
    }

    /// The push services of endpoints that begin so do not answer any more.
    pub fn hang_pushes(&self, endpoint: &str) {
        self.inner().silent.push(endpoint.to_owned());
    }

    /// Whoever waits for a push service that does not answer gives it up.
    pub fn time_out_pushes(&self) {
        let waiting = std::mem::take(&mut self.inner().unanswered);
        for push in waiting {
            let _ = push.send(());
        }
    }

    /// The notebook.
    pub fn stored_entries(&self) -> BTreeMap<String, String> {
        self.inner().notes.clone()
    }

    /// How often something was written into the notebook.
    pub fn kv_writes(&self) -> usize {
        self.inner().noted
    }
}

impl Runtime for FakeRuntime {
    fn now(&self) -> u64 {
        self.inner().now
    }

    fn random(&self, bytes: &mut [u8]) -> Result<(), RandomSourceError> {
        let mut inner = self.inner();
        if inner.random_fails {
            return Err(RandomSourceError);
        }
        for byte in bytes {
            inner.seed ^= inner.seed << 13;
            inner.seed ^= inner.seed >> 7;
            inner.seed ^= inner.seed << 17;
            *byte = inner.seed.to_le_bytes()[3];
        }
        Ok(())
    }

    fn send(&self, to: &[ConnId], text: &str) {
        let inner = self.inner();
        for socket in to.iter().filter_map(|conn| inner.sockets.get(conn)) {
            let _ = socket.frames.unbounded_send(Frame::Text(text.to_owned()));
        }
    }

    fn attach(&self, conn: ConnId, attachment: &str) {
        // As measured: five bytes of framing, and two bytes a character as soon as one is not Latin-1.
        let latin = attachment.chars().all(|character| u32::from(character) < 256);
        let bytes = if latin { attachment.chars().count() } else { 2 * attachment.encode_utf16().count() };
        assert!(bytes + 5 <= 16_384, "the platform takes no attachment of {bytes} bytes");
        if let Some(socket) = self.inner().sockets.get_mut(&conn) {
            socket.attachment = attachment.to_owned();
        }
    }

    fn close(&self, conn: ConnId, code: u16, reason: &str) {
        assert!(reason.len() <= 123, "a close frame has room for 123 bytes of reason");
        if let Some(socket) = self.inner().sockets.remove(&conn) {
            let _ = socket.frames.unbounded_send(Frame::Closed { code, reason: reason.to_owned() });
        }
    }

    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool> {
        let mut inner = self.inner();
        let broken = inner.broken_alarms > 0;
        if broken {
            inner.broken_alarms -= 1;
        } else {
            inner.alarm = Some(at);
            inner.alarms_set += 1;
        }
        Box::pin(std::future::ready(!broken))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let handle = tokio::spawn(task).abort_handle();
        let mut inner = self.inner();
        inner.tasks.retain(|task| !task.is_finished());
        inner.tasks.push(handle);
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        if ms == 0 {
            self.inner().turns += 1;
            return Box::pin(tokio::task::yield_now());
        }
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.inner();
        let until = inner.now + ms;
        inner.sleepers.push((until, sender));
        Box::pin(async move {
            // A sleeper of an object that was evicted never wakes.
            if receiver.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushAnswer, String>> {
        let mut inner = self.inner();
        let url = request.uri().to_string();
        let of = |endpoint: &String| url.starts_with(endpoint.as_str());
        let silent = inner.silent.iter().any(of);
        let answers = inner.push_answers.iter_mut().find(|(endpoint, _)| of(endpoint)).map(|(_, answers)| answers);
        let answer =
            answers.and_then(|answers| if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() });
        inner.pushed.push(request);
        let given_up = silent.then(|| {
            let (sender, given_up) = oneshot::channel();
            inner.unanswered.push(sender);
            given_up
        });
        Box::pin(async move {
            if let Some(given_up) = given_up {
                let _ = given_up.await;
                return Err("The push service did not answer in time.".to_owned());
            }
            // The network takes its turn.
            tokio::task::yield_now().await;
            answer.unwrap_or(Ok(PushAnswer { status: 201, retry_after: None }))
        })
    }

    fn kv_put(&self, key: &str, value: &str) {
        let mut inner = self.inner();
        inner.noted += 1;
        inner.notes.insert(key.to_owned(), value.to_owned());
    }

    fn kv_delete(&self, key: &str) {
        self.inner().notes.remove(key);
    }

    fn was_interrupted(&self) -> bool {
        self.inner().interrupted
    }

    fn kv_list(&self, prefix: &str) -> Vec<(String, String)> {
        let inner = self.inner();
        let of_prefix = inner.notes.iter().filter(|(key, _)| key.starts_with(prefix));
        of_prefix.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
