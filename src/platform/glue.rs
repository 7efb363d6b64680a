//! Bindings to the JavaScript of this folder, which documents the functions, and to runtime objects that the `worker` crate lacks.
//!
//! Lists of headers are alternating lines with a name and a value.

use js_sys::{Array, JsString, Promise, Uint8Array};
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;
use web_sys::{Request, Response};

#[wasm_bindgen(module = "/src/platform/glue.js")]
extern "C" {
    #[wasm_bindgen(js_name = readHead)]
    pub fn read_head(request: &JsValue, names: &str) -> String;

    #[wasm_bindgen(js_name = writeDataPoints)]
    pub fn write_data_points(env: &worker::Env, namespace_hash: &str, changes: &[f64], gauges: &[f64]);

    #[wasm_bindgen(js_name = readBody)]
    pub fn read_body(
        request: &Request,
        declared: Option<usize>,
        limit: usize,
        min_bytes: u32,
        progress_timeout_ms: u32,
        total_ms: u32,
        reserve: &JsValue,
    ) -> Promise;
    #[wasm_bindgen(js_name = discardBody)]
    pub fn discard_body(request: &Request) -> Option<Promise>;

    #[wasm_bindgen(js_name = createResponse)]
    pub fn create_response(status: u16, headers: &str, body: &[u8]) -> Response;

    #[wasm_bindgen(js_name = streamedResponse)]
    pub fn streamed_response(status: u16, headers: &str, next: JsValue, context: &JsValue, length: usize) -> Response;

    #[wasm_bindgen(catch, js_name = runBatch)]
    pub fn run_batch(db: &JsValue, statements: Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_name = queryJoined)]
    pub fn query_joined(db: &JsValue, statement: &JsValue, limit: u32) -> Result<Promise, JsValue>;

    #[wasm_bindgen(js_name = databaseSize)]
    pub fn database_size(db: &JsValue) -> Promise;

    #[wasm_bindgen(js_name = sendPost)]
    pub fn send_post(url: &str, headers: &str, body: &[u8], timeout_ms: u32) -> Promise;

    pub type Inbox;
    #[wasm_bindgen(constructor)]
    pub fn new(socket: &JsValue, max_frame: usize, too_large: &str) -> Inbox;
    #[wasm_bindgen(method)]
    pub fn next(this: &Inbox, timeout_ms: u32) -> Promise;
    #[wasm_bindgen(method)]
    pub fn pipe(this: &Inbox, first: &str, other: &JsValue);
    #[wasm_bindgen(method, getter)]
    pub fn closed(this: &Inbox) -> bool;

    #[wasm_bindgen(js_name = smallText)]
    pub fn small_text(frame: &JsValue, max_chars: usize) -> Option<String>;

    #[wasm_bindgen(js_name = encodeUtf8)]
    pub fn encode_utf8(text: &JsString) -> Uint8Array;
}

#[wasm_bindgen(module = "/src/platform/objects.js")]
extern "C" {
    #[derive(Clone)]
    pub type Objects;
    #[wasm_bindgen(constructor, catch)]
    pub fn new(
        binding: &JsValue,
        jurisdiction: &str,
        location: &str,
        timed_out_body: &str,
    ) -> Result<Objects, js_sys::Error>;
    #[wasm_bindgen(method)]
    pub fn contains(this: &Objects, state: &JsValue, namespace: &str) -> bool;
    #[wasm_bindgen(method)]
    pub fn connect(
        this: &Objects,
        namespace: &str,
        socket: &str,
        expires_at: &str,
        credential: &str,
        incoming: &Incoming,
        timeout_ms: u32,
    ) -> Promise;
    #[wasm_bindgen(method)]
    pub fn forward(
        this: &Objects,
        namespace: &str,
        credential: &str,
        incoming: &Incoming,
        timeout_ms: u32,
        headers: &str,
        has_timing: bool,
    ) -> Promise;
}

#[wasm_bindgen(module = "/src/platform/log.js")]
extern "C" {
    #[wasm_bindgen(js_name = configureLog)]
    pub fn configure_log(level: &str, samples_per_million: u32);
    #[wasm_bindgen(js_name = logLine)]
    pub fn log_line(level: &str, event: &str, members: &str);
}

#[wasm_bindgen(module = "/src/platform/requests.js")]
extern "C" {
    #[wasm_bindgen(js_name = configureRoutes)]
    pub fn configure_routes(patterns: &str);
    #[wasm_bindgen(js_name = isolateMetrics)]
    pub fn isolate_metrics() -> String;

    /// A request to the worker, as `begin` returns it.
    pub type Incoming;
    #[wasm_bindgen(method, getter)]
    pub fn request(this: &Incoming) -> Request;
    /// Sets the request that an object gets.
    #[wasm_bindgen(method, setter)]
    pub fn set_request(this: &Incoming, request: &Request);
    #[wasm_bindgen(method, getter, js_name = startedAt)]
    pub fn started_at(this: &Incoming) -> f64;
    /// Records the namespace, for the log line of the request.
    #[wasm_bindgen(method, setter)]
    pub fn set_namespace(this: &Incoming, namespace: &str);
}

#[wasm_bindgen(module = "/src/platform/streams.js")]
extern "C" {
    #[wasm_bindgen(js_name = eventStream)]
    pub fn event_stream(socket: &JsValue, namespace: &str, max_total: usize, max_unread_deltas: usize) -> Response;
}

#[wasm_bindgen(module = "/src/platform/timing.js")]
extern "C" {
    #[derive(Clone)]
    pub type Meter;
    #[wasm_bindgen(constructor)]
    pub fn new() -> Meter;
    #[wasm_bindgen(method, js_name = measureDatabase)]
    pub fn measure_database(this: &Meter, db: &JsValue) -> JsValue;
    #[wasm_bindgen(method)]
    pub fn start(this: &Meter) -> JsValue;
    #[wasm_bindgen(method)]
    pub fn usage(this: &Meter) -> Box<[f64]>;
    #[wasm_bindgen(method)]
    pub fn finish(this: &Meter, started: &JsValue, response: &Response);

    #[wasm_bindgen(catch, js_name = withHeaders)]
    pub fn with_headers(response: &Response, headers: &str, started_at: Option<f64>) -> Result<Response, JsValue>;
}

#[wasm_bindgen(module = "/src/platform/upload.js")]
extern "C" {
    pub type Upload;
    #[wasm_bindgen(constructor)]
    pub fn of(request: &Request, max_fields: usize, min_bytes: u32, progress_timeout_ms: u32) -> Upload;
    #[wasm_bindgen(method, getter)]
    pub fn size(this: &Upload) -> f64;
    #[wasm_bindgen(method)]
    pub fn read(this: &Upload, buffer_chars: f64, max_file: f64, max_body: f64) -> Promise;
    #[wasm_bindgen(method)]
    pub fn frame(this: &Upload, prefix: &str, suffix: &str) -> Option<JsString>;
    #[wasm_bindgen(method)]
    pub fn release(this: &Upload);
}

#[wasm_bindgen]
extern "C" {
    /// The runtime's extension of `Response`.
    #[wasm_bindgen(extends = Response)]
    type UpgradeResponse;
    #[wasm_bindgen(method, getter, js_name = webSocket)]
    fn web_socket(this: &UpgradeResponse) -> Option<JsValue>;

    /// A hibernatable WebSocket of the object.
    #[derive(Clone)]
    pub type ObjectSocket;
    /// Sends a JavaScript string, so that the caller converts a message for many sockets only once.
    #[wasm_bindgen(method, catch, js_name = send)]
    pub fn send_text(this: &ObjectSocket, text: &JsString) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    pub fn close(this: &ObjectSocket, code: u16, reason: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch, js_name = serializeAttachment)]
    pub fn attach(this: &ObjectSocket, attachment: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch, js_name = deserializeAttachment)]
    pub fn attachment(this: &ObjectSocket) -> Result<JsValue, JsValue>;
    /// The hub's id of the connection, a property of the socket while the object is in memory.
    #[wasm_bindgen(method, getter, js_name = hubConnection)]
    pub fn connection(this: &ObjectSocket) -> Option<u32>;
    #[wasm_bindgen(method, setter, js_name = hubConnection)]
    pub fn set_connection(this: &ObjectSocket, conn: u32);
}

/// Returns the WebSocket of an upgrade response. The caller must accept the WebSocket.
pub fn web_socket(response: &Response) -> Option<JsValue> {
    response
        .unchecked_ref::<UpgradeResponse>()
        .web_socket()
        .filter(|socket| !socket.is_null() && !socket.is_undefined())
}

/// The headers that the worker reads from every request.
pub const CLIENT_HEADERS: &str = "authorization origin upgrade cf-connecting-ip";
/// The headers that the object reads from every request, set by `objects.js`: namespace, `SocketKind`, and length of the body.
pub const OBJECT_HEADERS: &str = "hub-namespace hub-socket content-length";
/// The headers with the credential of the token, and the id of the secret that it was made from, set by the worker.
pub const CREDENTIAL_HEADERS: &str = "hub-credential hub-secret";
/// The headers of a web client's WebSocket that the object reads: expiry and credential of the token, and the last received event.
pub const SUBSCRIPTION_HEADERS: &str = "hub-expires-at hub-credential last-event-id";

/// The headers of nearly every response.
pub const JSON_HEADERS: &str =
    "content-type\napplication/json\ncache-control\nno-store\nx-content-type-options\nnosniff\n";

/// Caches in JavaScript the strings that every request passes to it: decoding them each time takes a tenth of the CPU time of a request.
/// Must be called once in each instance.
pub fn intern_constants() {
    for text in [CLIENT_HEADERS, OBJECT_HEADERS, JSON_HEADERS] {
        wasm_bindgen::intern(text);
    }
}
