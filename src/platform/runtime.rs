//! The runtime port over a Durable Object: sockets, alarm, storage, clock.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Request;
use js_sys::JsString;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::durable::ScheduledTime;
use worker::send::{SendFuture, SendWrapper};
use worker::{Delay, SqlStorage, State, Storage};

use super::convert;
use super::glue::{self, ObjectSocket};
use super::guard::{Task, was_interrupted};
use crate::hub::ports::{ConnId, PUSH_LIMIT_MS, PushAnswer, RandomSourceError, Runtime};

const CREATED: &str = "SELECT name AS key, type AS value FROM sqlite_master WHERE type = 'table' AND name = 'notes'";
const CREATE: &str = "CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";
const NOTE: &str =
    "INSERT INTO notes (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const UNNOTE: &str = "DELETE FROM notes WHERE key = ?";
/// A range of the table's key: from the prefix to before the last text that begins so.
const NOTES: &str = "SELECT key, value FROM notes WHERE key >= ?1 AND key < ?1 || char(1114111)";

/// The runtime of one object.
pub struct ObjectRuntime {
    /// The object's state as the runtime made it.
    state: SendWrapper<JsValue>,
    sockets: Mutex<Sockets>,
    storage: SendWrapper<Rc<Storage>>,
    sql: SqlStorage,
    /// Whether the notebook's table is there: it comes with the first note, so that who may not note leaves no trace.
    created: AtomicBool,
}

/// A row of the notebook.
#[derive(serde::Deserialize)]
struct Note {
    key: String,
    value: String,
}

#[derive(Default)]
struct Sockets {
    open: HashMap<ConnId, SendWrapper<ObjectSocket>>,
    last: ConnId,
}

impl ObjectRuntime {
    /// The runtime of an object, with the sockets that survived its sleep. `js` is the state as the runtime made it.
    pub fn new(state: &State, js: JsValue) -> (Self, Vec<(ConnId, String)>) {
        let storage = state.storage();
        let sql = storage.sql();
        let created = sql.exec(CREATED, None).and_then(|cursor| cursor.to_array::<Note>());
        let created = AtomicBool::new(created.is_ok_and(|tables| !tables.is_empty()));
        let storage = SendWrapper::new(Rc::new(storage));
        let runtime = Self { state: SendWrapper::new(js), sockets: Mutex::default(), storage, sql, created };
        let mut attachments = Vec::new();
        for socket in state.get_websockets() {
            let socket: ObjectSocket = socket_of(&socket);
            let attachment = socket.attachment().ok().and_then(|value| value.as_string()).unwrap_or_default();
            attachments.push((runtime.adopt(socket), attachment));
        }
        (runtime, attachments)
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a socket its number.
    pub fn adopt(&self, socket: ObjectSocket) -> ConnId {
        let mut sockets = self.sockets();
        sockets.last += 1;
        let conn = sockets.last;
        socket.set_connection(conn);
        sockets.open.insert(conn, SendWrapper::new(socket));
        conn
    }

    /// Sends a text that is a JavaScript string already.
    pub fn send_text(&self, to: ConnId, text: &JsString) {
        if let Some(socket) = self.sockets().open.get(&to) {
            // A socket that is closing refuses; its close event follows.
            let _ = socket.0.send_text(text);
        }
    }

    /// Forgets a socket that is gone.
    pub fn forget(&self, conn: ConnId) {
        self.sockets().open.remove(&conn);
    }
}

/// A socket of the object with the methods that the hub uses.
pub fn socket_of(socket: &worker::WebSocket) -> ObjectSocket {
    let socket: &web_sys::WebSocket = socket.as_ref();
    JsValue::from(socket).unchecked_into()
}

impl Runtime for ObjectRuntime {
    fn now(&self) -> u64 {
        now()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<(), RandomSourceError> {
        getrandom::getrandom(bytes).map_err(|_| RandomSourceError)
    }

    fn send(&self, to: &[ConnId], text: &str) {
        if to.is_empty() {
            return;
        }
        let text = JsString::from(text);
        let sockets = self.sockets();
        for socket in to.iter().filter_map(|conn| sockets.open.get(conn)) {
            // A socket that is closing refuses; its close event follows.
            let _ = socket.0.send_text(&text);
        }
    }

    fn attach(&self, conn: ConnId, attachment: &str) {
        if let Some(socket) = self.sockets().open.get(&conn) {
            let _ = socket.0.attach(attachment);
        }
    }

    fn close(&self, conn: ConnId, code: u16, reason: &str) {
        if let Some(socket) = self.sockets().open.remove(&conn) {
            let _ = socket.0.close(code, reason);
        }
    }

    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool> {
        #[allow(clippy::cast_precision_loss)] // A time in milliseconds fits a JavaScript number.
        let date = js_sys::Date::new(&JsValue::from_f64(at as f64));
        let storage = Rc::clone(&self.storage.0);
        Box::pin(SendFuture::new(async move {
            let set = storage.set_alarm(ScheduledTime::new(date)).await;
            let is_set = set.is_ok();
            log(set);
            is_set
        }))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let unfinished = Task::beside(&self.state.0);
        wasm_bindgen_futures::spawn_local(async move {
            task.await;
            unfinished.done();
        });
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(SendFuture::new(Delay::from(Duration::from_millis(ms))))
    }

    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushAnswer, String>> {
        Box::pin(SendFuture::new(async move {
            let (url, headers) = (request.uri().to_string(), convert::lines(request.headers()));
            let posted = glue::post(&url, &headers, request.body(), PUSH_LIMIT_MS);
            let answer = JsFuture::from(posted).await.map_err(|error| format!("{error:?}"))?;
            // Status and `Retry-After` on two lines, or a sentence.
            let answer = answer.as_string().unwrap_or_default();
            let (status, retry_after) = answer.split_once('\n').ok_or_else(|| answer.clone())?;
            let status = status.parse().map_err(|_| "The answer has no status.")?;
            Ok(PushAnswer { status, retry_after: Some(retry_after.to_owned()).filter(|text| !text.is_empty()) })
        }))
    }

    fn kv_put(&self, key: &str, value: &str) {
        if !self.created.swap(true, Ordering::Relaxed) {
            log(self.sql.exec(CREATE, None).map(drop));
        }
        // Memory goes on with it; after a sleep what the note was before counts, such as a push that is then sent once more.
        if let Err(error) = self.sql.exec(NOTE, vec![key.into(), value.into()]) {
            worker::console_error!("the note {key} could not be written, a sleep would undo it: {error}");
        }
    }

    fn kv_delete(&self, key: &str) {
        if self.created.load(Ordering::Relaxed) {
            log(self.sql.exec(UNNOTE, vec![key.into()]).map(drop));
        }
    }

    fn was_interrupted(&self) -> bool {
        was_interrupted()
    }

    fn kv_list(&self, prefix: &str) -> Vec<(String, String)> {
        if !self.created.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let rows = self.sql.exec(NOTES, vec![prefix.into()]).and_then(|cursor| cursor.to_array::<Note>());
        let rows = rows.map(|notes| notes.into_iter().map(|note| (note.key, note.value)).collect());
        rows.unwrap_or_else(|error| {
            log(Err(error));
            Vec::new()
        })
    }
}

/// Unix time in milliseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A whole number, and not before 1970.
pub fn now() -> u64 {
    js_sys::Date::now() as u64
}

/// The object's own storage can't be asked to try again: what fails is told in the log.
pub fn log(result: worker::Result<()>) {
    if let Err(error) = result {
        worker::console_error!("the object's storage failed: {error}");
    }
}
