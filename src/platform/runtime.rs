//! The runtime port over a Durable Object: WebSockets, alarm, storage, clock.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use http::Request;
use js_sys::JsString;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::durable::ScheduledTime;
use worker::send::{SendFuture, SendWrapper};
use worker::{SqlStorage, State, Storage};

use super::convert;
use super::glue::{self, Meter, ObjectSocket};
use super::guard;
use super::log::{log_error, write_line};
use super::time::{now, sleep};
use crate::hub::core::ports::{
    CLOSED_ATTACHMENT, ConnId, DatabaseUsage, PUSH_TIMEOUT_MS, PushResponse, RandomSourceError, Runtime,
};
use crate::hub::core::storage_keys::NAMESPACE;
use crate::log::{LogLine, hash_of_namespace};
use crate::memory_budget::lock;

// The key-value table. Existing objects have it under the name `notes`.
const FIND_TABLE: &str = "SELECT name AS key, type AS value FROM sqlite_master WHERE type = 'table' AND name = 'notes'";
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";
const PUT: &str = "INSERT INTO notes (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const DELETE: &str = "DELETE FROM notes WHERE key = ?";
/// A range query on the primary key: all keys with a prefix, up to the prefix followed by the last Unicode code point.
const LIST: &str = "SELECT key, value FROM notes WHERE key >= ?1 AND key < ?1 || char(1114111)";

pub struct ObjectRuntime {
    /// The JavaScript object behind `worker::State`.
    state: SendWrapper<JsValue>,
    sockets: Mutex<Sockets>,
    storage: SendWrapper<Rc<Storage>>,
    sql: SqlStorage,
    /// Whether the key-value table exists. The first write creates it: an object that only unauthenticated clients reach stores nothing.
    has_table: AtomicBool,
    meter: SendWrapper<Meter>,
    /// `None` until the object has stored its namespace.
    namespace_hash: Option<String>,
}

#[derive(serde::Deserialize)]
struct KeyValue {
    key: String,
    value: String,
}

#[derive(Default)]
struct Sockets {
    open: HashMap<ConnId, SendWrapper<ObjectSocket>>,
    /// Sockets that the hub has closed, until their close event.
    closing: BTreeSet<ConnId>,
    last_id: ConnId,
}

impl Sockets {
    fn set_closing(&mut self, conn: ConnId) -> Option<SendWrapper<ObjectSocket>> {
        let socket = self.open.remove(&conn)?;
        self.closing.insert(conn);
        Some(socket)
    }
}

impl ObjectRuntime {
    /// Also returns the open sockets that survived hibernation, with their attachments. `js_state`: the JavaScript object behind `state`.
    pub fn new(state: &State, js_state: JsValue, meter: &Meter) -> (Self, Vec<(ConnId, String)>) {
        let storage = state.storage();
        let sql = storage.sql();
        let tables = sql.exec(FIND_TABLE, None).and_then(|cursor| cursor.to_array::<KeyValue>());
        let has_table = AtomicBool::new(tables.is_ok_and(|tables| !tables.is_empty()));
        let storage = SendWrapper::new(Rc::new(storage));
        let (open, state, meter) =
            (state.get_websockets(), SendWrapper::new(js_state), SendWrapper::new(meter.clone()));
        let sockets = Mutex::default();
        let mut runtime = Self { state, sockets, storage, sql, has_table, meter, namespace_hash: None };
        runtime.namespace_hash = runtime.kv_get(NAMESPACE).map(|name| hash_of_namespace(&name));
        let mut attachments = Vec::new();
        for socket in open {
            let socket = to_object_socket(&socket);
            let attachment = socket.attachment().ok().and_then(|value| value.as_string()).unwrap_or_default();
            let conn = runtime.insert_socket(socket);
            if attachment == CLOSED_ATTACHMENT {
                lock(&runtime.sockets).set_closing(conn);
            } else {
                attachments.push((conn, attachment));
            }
        }
        (runtime, attachments)
    }

    pub fn insert_socket(&self, socket: ObjectSocket) -> ConnId {
        let mut sockets = lock(&self.sockets);
        sockets.last_id += 1;
        let conn = sockets.last_id;
        socket.set_connection(conn);
        sockets.open.insert(conn, SendWrapper::new(socket));
        conn
    }

    pub fn send_text(&self, to: ConnId, text: &JsString) {
        if let Some(socket) = lock(&self.sockets).open.get(&to) {
            // Sending fails on a closing socket; its close event follows.
            let _ = socket.0.send_text(text);
        }
    }

    pub fn remove_socket(&self, conn: ConnId) {
        let mut sockets = lock(&self.sockets);
        sockets.open.remove(&conn);
        sockets.closing.remove(&conn);
    }
}

pub fn to_object_socket(socket: &worker::WebSocket) -> ObjectSocket {
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
        if !to.is_empty() {
            let text = JsString::from(text);
            to.iter().for_each(|conn| self.send_text(*conn, &text));
        }
    }

    fn attach(&self, conn: ConnId, attachment: &str) {
        if let Some(socket) = lock(&self.sockets).open.get(&conn) {
            let _ = socket.0.attach(attachment);
        }
    }

    fn send_close(&self, conn: ConnId, code: u16, reason: &str) {
        if let Some(socket) = lock(&self.sockets).set_closing(conn) {
            let _ = socket.0.close(code, reason);
        }
    }

    fn socket_count(&self) -> usize {
        let sockets = lock(&self.sockets);
        sockets.open.len() + sockets.closing.len()
    }

    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool> {
        #[allow(clippy::cast_precision_loss)] // A time in milliseconds fits a JavaScript number.
        let date = js_sys::Date::new(&JsValue::from_f64(at as f64));
        let storage = Rc::clone(&self.storage.0);
        Box::pin(SendFuture::new(async move {
            storage.set_alarm(ScheduledTime::new(date)).await.inspect_err(log_storage_error).is_ok()
        }))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let _ = guard::background_task(&self.state.0).start(async move {
            task.await;
            Ok(JsValue::UNDEFINED)
        });
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(SendFuture::new(sleep(ms)))
    }

    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushResponse, String>> {
        Box::pin(SendFuture::new(async move {
            let (url, headers) = (request.uri().to_string(), convert::header_lines(request.headers()));
            let response = glue::send_post(&url, &headers, request.body(), PUSH_TIMEOUT_MS);
            let response = JsFuture::from(response).await.map_err(|error| format!("{error:?}"))?;
            let response = response.as_string().unwrap_or_default();
            let (status, retry_after) = response.split_once('\n').ok_or_else(|| response.clone())?;
            let status = status.parse().map_err(|_| "The response of the push service has no status.")?;
            Ok(PushResponse { status, retry_after: Some(retry_after.to_owned()).filter(|text| !text.is_empty()) })
        }))
    }

    fn kv_put(&self, key: &str, value: &str) {
        if !self.has_table.swap(true, Ordering::Relaxed) {
            let _ = self.sql.exec(CREATE_TABLE, None).inspect_err(log_storage_error);
        }
        // After a fault, hibernation restores the last value.
        let _ = self.sql.exec(PUT, vec![key.into(), value.into()]).inspect_err(log_storage_error);
    }

    fn kv_delete(&self, key: &str) {
        if self.has_table.load(Ordering::Relaxed) {
            let _ = self.sql.exec(DELETE, vec![key.into()]).inspect_err(log_storage_error);
        }
    }

    fn log(&self, line: LogLine) {
        write_line(self.namespace_hash.as_deref(), &line);
    }

    fn database_usage(&self) -> DatabaseUsage {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts.
        let mut counts = self.meter.0.usage().into_vec().into_iter().map(|count| count as u64);
        let mut next = || counts.next().unwrap_or_default();
        DatabaseUsage { batches: next(), rows_read: next(), rows_written: next() }
    }

    fn previous_instance_crashed(&self) -> bool {
        guard::previous_instance_crashed()
    }

    fn kv_list(&self, prefix: &str) -> Vec<(String, String)> {
        if !self.has_table.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let rows = self.sql.exec(LIST, vec![prefix.into()]).and_then(|cursor| cursor.to_array::<KeyValue>());
        let rows = rows.inspect_err(log_storage_error).unwrap_or_default();
        rows.into_iter().map(|row| (row.key, row.value)).collect()
    }
}

pub fn log_storage_error(error: &worker::Error) {
    log_error("storage-failed", error);
}
