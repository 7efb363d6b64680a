//! A fake runtime: a clock and an alarm that the test controls, sockets in memory, and a key-value storage that survives the
//! hub.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::{mpsc, oneshot};
use futures::future::BoxFuture;
use http::Request;
use session_gateway_hub::hub::core::ports::{
    CLOSED_ATTACHMENT, ConnId, DatabaseUsage, PushResponse, RandomSourceError, Runtime,
};
use session_gateway_hub::log::LogLine;

/// The initial time: five seconds after a full minute, so that the first heartbeat is after 25 s and the first ping after 55 s.
pub const START: u64 = 1_800_000_005_000;

/// A frame for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Closed { code: u16, reason: String },
}

/// Identifies a socket across hibernation, which changes its `ConnId`.
pub type SocketKey = usize;

struct Socket {
    key: SocketKey,
    frames: mpsc::UnboundedSender<Frame>,
    attachment: String,
    /// Whether this instance of the object has closed the socket, or knows that an earlier instance has closed it.
    is_closing: bool,
    /// Whether the hub has closed the socket, and the client has not answered.
    was_closed: bool,
    /// Whether the client answers a close.
    answers_close: bool,
}

#[derive(Default)]
struct Inner {
    now: u64,
    seed: u64,
    is_random_broken: bool,
    previous_instance_crashed: bool,
    last_conn: ConnId,
    last_key: SocketKey,
    sockets: BTreeMap<ConnId, Socket>,
    sent_texts: usize,
    attachment_writes: usize,
    alarm: Option<u64>,
    /// How many of the next attempts to set the alarm fail.
    failing_alarms: usize,
    /// How many times the alarm was set.
    alarms_set: usize,
    key_values: BTreeMap<String, String>,
    kv_writes: usize,
    logs: Vec<String>,
    /// The number of calls of `sleep(0)`.
    yields: usize,
    /// The wake-up times of sleeping tasks.
    sleepers: Vec<(u64, oneshot::Sender<()>)>,
    tasks: Vec<tokio::task::AbortHandle>,
    /// Requests to push services since the last [`FakeRuntime::take_pushes`].
    pushes: Vec<Request<Vec<u8>>>,
    /// Responses of push services by a prefix of the endpoint; the default is 201.
    push_responses: Vec<(String, VecDeque<Result<PushResponse, String>>)>,
    /// The prefixes of endpoints that do not respond.
    hanging_endpoints: Vec<String>,
    /// One sender for each request without a response. A message times out the request.
    pending_pushes: Vec<oneshot::Sender<()>>,
}

pub struct FakeRuntime(Mutex<Inner>);

impl FakeRuntime {
    /// `name` determines the random bytes.
    pub fn new(name: &str) -> Self {
        let seed = name.bytes().fold(0x9e37_79b9_7f4a_7c15, |seed: u64, byte| (seed ^ u64::from(byte)).rotate_left(9));
        Self(Mutex::new(Inner { now: START, seed, ..Inner::default() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn logs(&self) -> Vec<String> {
        self.inner().logs.clone()
    }

    /// How many texts the hub has sent. A text for several sockets counts once.
    pub fn sent_texts(&self) -> usize {
        self.inner().sent_texts
    }

    /// Opens a socket. The returned receiver gets the frames that the hub sends.
    pub fn open_socket(&self) -> (SocketKey, ConnId, mpsc::UnboundedReceiver<Frame>) {
        let (frames, receiver) = mpsc::unbounded();
        let mut inner = self.inner();
        inner.last_conn += 1;
        inner.last_key += 1;
        let (conn, key) = (inner.last_conn, inner.last_key);
        let socket = Socket {
            key,
            frames,
            attachment: String::new(),
            is_closing: false,
            was_closed: false,
            answers_close: true,
        };
        inner.sockets.insert(conn, socket);
        (key, conn, receiver)
    }

    /// The current `ConnId` of a socket that is open or closing; `None` for a closed socket.
    pub fn conn(&self, key: SocketKey) -> Option<ConnId> {
        self.inner().sockets.iter().rev().find(|(_, socket)| socket.key == key).map(|(conn, _)| *conn)
    }

    /// Whether neither side has closed a socket.
    pub fn is_open(&self, key: SocketKey) -> bool {
        self.inner().sockets.values().any(|socket| socket.key == key && !socket.is_closing)
    }

    /// Makes the client of a socket never answer a close, like a computer that has lost its network.
    pub fn never_answer_close(&self, key: SocketKey) {
        if let Some(socket) = self.inner().sockets.values_mut().rev().find(|socket| socket.key == key) {
            socket.answers_close = false;
        }
    }

    /// The sockets whose close the clients answer now.
    pub fn answered_closes(&self) -> Vec<ConnId> {
        let inner = self.inner();
        let answered = inner.sockets.iter().filter(|(_, socket)| socket.is_closing && socket.answers_close);
        answered.map(|(conn, _)| *conn).collect()
    }

    /// Returns how many times an attachment of any socket was written.
    pub fn attachment_writes(&self) -> usize {
        self.inner().attachment_writes
    }

    pub fn attachment(&self, key: SocketKey) -> String {
        let inner = self.inner();
        inner.sockets.values().find(|socket| socket.key == key).map(|s| s.attachment.clone()).unwrap_or_default()
    }

    /// Replaces the attachment of a socket, for example by an attachment of an older version.
    pub fn set_attachment(&self, key: SocketKey, attachment: &str) {
        if let Some(socket) = self.inner().sockets.values_mut().find(|socket| socket.key == key) {
            socket.attachment = attachment.to_owned();
        }
    }

    pub fn remove_socket(&self, conn: ConnId) {
        self.inner().sockets.remove(&conn);
    }

    /// Evicts the object: drops its tasks, and assigns new ids to its sockets. Returns the sockets whose attachment does not
    /// mark them as closed, with their attachments.
    pub fn evict(&self) -> Vec<(ConnId, String)> {
        let mut inner = self.inner();
        inner.tasks.drain(..).for_each(|task| task.abort());
        inner.sleepers.clear();
        let sockets = std::mem::take(&mut inner.sockets);
        let mut attachments = Vec::new();
        // The platform does not guarantee an order.
        for (_, mut socket) in sockets.into_iter().rev() {
            inner.last_conn += 1;
            let conn = inner.last_conn;
            socket.is_closing = socket.attachment == CLOSED_ATTACHMENT;
            if !socket.is_closing {
                attachments.push((conn, socket.attachment.clone()));
            }
            inner.sockets.insert(conn, socket);
        }
        attachments
    }

    /// Loses all sockets, as a crash or a deployment does.
    pub fn lose_sockets(&self) {
        for (_, socket) in std::mem::take(&mut self.inner().sockets) {
            let _ = socket.frames.unbounded_send(Frame::Closed { code: 1006, reason: String::new() });
        }
    }

    /// Sets whether the previous instance ended by a panic instead of hibernation.
    pub fn set_previous_instance_crashed(&self, crashed: bool) {
        self.inner().previous_instance_crashed = crashed;
    }

    pub fn alarm(&self) -> Option<u64> {
        self.inner().alarm
    }

    /// The number of times that the alarm was set.
    pub fn alarms_set(&self) -> usize {
        self.inner().alarms_set
    }

    /// Clears the alarm, as when it fires.
    pub fn take_alarm(&self) -> Option<u64> {
        self.inner().alarm.take()
    }

    /// Makes the next `count` attempts to set the alarm fail.
    pub fn fail_alarms(&self, count: usize) {
        self.inner().failing_alarms = count;
    }

    /// Advances the clock and wakes sleeping tasks. Does not fire the alarm.
    pub fn set_now(&self, now: u64) {
        let mut inner = self.inner();
        inner.now = now;
        let (due, sleeping) = std::mem::take(&mut inner.sleepers).into_iter().partition(|(at, _)| *at <= now);
        inner.sleepers = sleeping;
        let due: Vec<(u64, oneshot::Sender<()>)> = due;
        for (_, sleeper) in due {
            let _ = sleeper.send(());
        }
    }

    pub fn sleeping_tasks(&self) -> usize {
        self.inner().sleepers.iter().filter(|(_, sleeper)| !sleeper.is_canceled()).count()
    }

    /// Makes all later requests for random bytes fail.
    pub fn fail_random(&self) {
        self.inner().is_random_broken = true;
    }

    /// The number of calls of `sleep(0)`.
    pub fn yields(&self) -> usize {
        self.inner().yields
    }

    /// The requests to push services since the last call.
    pub fn take_pushes(&self) -> Vec<Request<Vec<u8>>> {
        std::mem::take(&mut self.inner().pushes)
    }

    /// Sets the responses of push services whose endpoints have a prefix: status and `Retry-After`. The status 0 is a network
    /// error. The last response is repeated.
    pub fn respond_to_pushes(&self, endpoint: &str, responses: &[(u16, Option<&str>)]) {
        let response = |&(status, retry_after): &(u16, Option<&str>)| match status {
            0 => Err("The push service could not be reached.".to_owned()),
            _ => Ok(PushResponse { status, retry_after: retry_after.map(str::to_owned) }),
        };
        let mut inner = self.inner();
        inner.push_responses.retain(|(prefix, _)| prefix != endpoint);
        inner.push_responses.push((endpoint.to_owned(), responses.iter().map(response).collect()));
    }

    /// Makes the push services of endpoints with a prefix stop responding.
    pub fn hang_pushes(&self, endpoint: &str) {
        self.inner().hanging_endpoints.push(endpoint.to_owned());
    }

    /// Times out the requests to push services that do not respond.
    pub fn time_out_pushes(&self) {
        let pending = std::mem::take(&mut self.inner().pending_pushes);
        for push in pending {
            let _ = push.send(());
        }
    }

    /// The key-value storage.
    pub fn stored_entries(&self) -> BTreeMap<String, String> {
        self.inner().key_values.clone()
    }

    /// The number of writes to the key-value storage.
    pub fn kv_writes(&self) -> usize {
        self.inner().kv_writes
    }
}

impl Runtime for FakeRuntime {
    fn now(&self) -> u64 {
        self.inner().now
    }

    fn random(&self, bytes: &mut [u8]) -> Result<(), RandomSourceError> {
        let mut inner = self.inner();
        if inner.is_random_broken {
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
        let mut inner = self.inner();
        inner.sent_texts += 1;
        for socket in to.iter().filter_map(|conn| inner.sockets.get(conn)).filter(|socket| !socket.is_closing) {
            assert!(!socket.was_closed, "a closed socket has returned, and the hub sends {text}");
            let _ = socket.frames.unbounded_send(Frame::Text(text.to_owned()));
        }
    }

    fn attach(&self, conn: ConnId, attachment: &str) {
        // Measured on the platform: an attachment has five bytes of framing. Its text has one byte per character if all
        // characters are Latin-1, otherwise two bytes per UTF-16 unit.
        let is_latin = attachment.chars().all(|character| u32::from(character) < 256);
        let bytes = if is_latin { attachment.chars().count() } else { 2 * attachment.encode_utf16().count() };
        assert!(bytes + 5 <= 16_384, "an attachment of {bytes} bytes exceeds the platform limit");
        let mut inner = self.inner();
        inner.attachment_writes += 1;
        if let Some(socket) = inner.sockets.get_mut(&conn).filter(|socket| !socket.is_closing) {
            socket.attachment = attachment.to_owned();
        }
    }

    fn send_close(&self, conn: ConnId, code: u16, reason: &str) {
        assert!(reason.len() <= 123, "the reason of a close frame has at most 123 bytes");
        if let Some(socket) = self.inner().sockets.get_mut(&conn).filter(|socket| !socket.is_closing) {
            assert!(!socket.was_closed, "closing a socket again keeps the object in memory: {code} {reason}");
            (socket.is_closing, socket.was_closed) = (true, true);
            let _ = socket.frames.unbounded_send(Frame::Closed { code, reason: reason.to_owned() });
        }
    }

    fn socket_count(&self) -> usize {
        self.inner().sockets.len()
    }

    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool> {
        let mut inner = self.inner();
        let fails = inner.failing_alarms > 0;
        if fails {
            inner.failing_alarms -= 1;
        } else {
            inner.alarm = Some(at);
            inner.alarms_set += 1;
        }
        Box::pin(std::future::ready(!fails))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let handle = tokio::spawn(task).abort_handle();
        let mut inner = self.inner();
        inner.tasks.retain(|task| !task.is_finished());
        inner.tasks.push(handle);
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        if ms == 0 {
            self.inner().yields += 1;
            return Box::pin(tokio::task::yield_now());
        }
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.inner();
        let until = inner.now + ms;
        inner.sleepers.push((until, sender));
        Box::pin(async move {
            // A sleeping task of an evicted object never wakes.
            if receiver.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushResponse, String>> {
        let mut inner = self.inner();
        let url = request.uri().to_string();
        let matches = |endpoint: &String| url.starts_with(endpoint.as_str());
        let hangs = inner.hanging_endpoints.iter().any(matches);
        let responses =
            inner.push_responses.iter_mut().find(|(endpoint, _)| matches(endpoint)).map(|(_, responses)| responses);
        let response = responses
            .and_then(|responses| if responses.len() > 1 { responses.pop_front() } else { responses.front().cloned() });
        inner.pushes.push(request);
        let timed_out = hangs.then(|| {
            let (sender, timed_out) = oneshot::channel();
            inner.pending_pushes.push(sender);
            timed_out
        });
        Box::pin(async move {
            if let Some(timed_out) = timed_out {
                let _ = timed_out.await;
                return Err("The push service did not answer in time.".to_owned());
            }
            // A real push service never responds immediately.
            tokio::task::yield_now().await;
            response.unwrap_or(Ok(PushResponse { status: 201, retry_after: None }))
        })
    }

    fn kv_put(&self, key: &str, value: &str) {
        let mut inner = self.inner();
        inner.kv_writes += 1;
        inner.key_values.insert(key.to_owned(), value.to_owned());
    }

    fn kv_delete(&self, key: &str) {
        self.inner().key_values.remove(key);
    }

    fn database_usage(&self) -> DatabaseUsage {
        DatabaseUsage::default()
    }

    fn log(&self, line: LogLine) {
        self.inner().logs.push(line.to_string());
    }

    fn previous_instance_crashed(&self) -> bool {
        self.inner().previous_instance_crashed
    }

    fn kv_list(&self, prefix: &str) -> Vec<(String, String)> {
        let inner = self.inner();
        let matching = inner.key_values.iter().filter(|(key, _)| key.starts_with(prefix));
        matching.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
