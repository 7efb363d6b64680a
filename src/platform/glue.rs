//! The JavaScript side of the border: `glue.js`, and the parts of runtime objects that the `worker` crate leaves out.

use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(module = "/src/platform/glue.js")]
extern "C" {
    /// Method, URL and the named headers (a list with spaces between) of a request, a line each.
    pub fn head(request: &web_sys::Request, names: &str) -> String;

    /// The body of a request as a `Uint8Array`, or the word for why there is none; it may have `limit` bytes.
    pub fn body(request: &web_sys::Request, limit: usize) -> js_sys::Promise;

    /// Carries a request to a namespace's object, for a socket of this use (see `object::SocketUse`) and of a token that is
    /// good until `expires_at` (Unix milliseconds, or empty); resolves to undefined when it takes longer than `limit` ms.
    #[wasm_bindgen(catch)]
    pub fn carry(
        objects: &JsValue,
        namespace: &str,
        socket: &str,
        expires_at: &str,
        request: &web_sys::Request,
        limit: u32,
    ) -> Result<js_sys::Promise, JsValue>;

    /// An answer; `headers` holds names and values in turn, a line each.
    pub fn answer(status: u16, headers: &str, body: &[u8]) -> web_sys::Response;

    /// A large answer, whose body `part` gives out: see `answerInParts` in `glue.js`.
    #[wasm_bindgen(js_name = answerInParts)]
    pub fn answer_in_parts(status: u16, headers: &str, part: JsValue, context: &JsValue) -> web_sys::Response;

    /// Runs `[sql, params][]` as one D1 batch; resolves to the rows of each.
    #[wasm_bindgen(catch)]
    pub fn batch(db: &JsValue, statements: js_sys::Array) -> Result<js_sys::Promise, JsValue>;

    /// Runs `[sql, params]`; resolves to the fields of `store::JoinedRows` in their order.
    #[wasm_bindgen(catch)]
    pub fn joined(db: &JsValue, statement: &JsValue, limit: u32) -> Result<js_sys::Promise, JsValue>;

    /// Posts a body, with the headers' names and values in turn, a line each, and no redirect. Resolves to the status and
    /// the header `Retry-After`, a line each, or to a sentence that says why there is no answer within `limit` ms.
    pub fn post(url: &str, headers: &str, body: &[u8], limit: u32) -> js_sys::Promise;

    /// The messages of an accepted WebSocket as a queue. A frame above `largest` characters or bytes closes the socket,
    /// for the reason `too_large`.
    pub type Inbox;
    #[wasm_bindgen(constructor)]
    pub fn new(socket: &JsValue, largest: usize, too_large: &str) -> Inbox;
    /// The next message, text or binary; undefined after `ms` milliseconds or when the socket closed.
    #[wasm_bindgen(method)]
    pub fn next(this: &Inbox, ms: u32) -> js_sys::Promise;
    /// Joins the socket with another one; `first` goes ahead.
    #[wasm_bindgen(method, js_name = join)]
    pub fn join_with(this: &Inbox, first: &str, other: &JsValue);
    /// Whether the socket closed.
    #[wasm_bindgen(method, getter)]
    pub fn closed(this: &Inbox) -> bool;

    /// The text of a small frame; undefined for a larger or binary one.
    #[wasm_bindgen(js_name = smallText)]
    pub fn small_text(frame: &JsValue) -> Option<String>;

    /// A text as UTF-8.
    pub fn utf8(text: &js_sys::JsString) -> js_sys::Uint8Array;

    /// A stream of the texts that a socket brings.
    #[wasm_bindgen(js_name = eventStream)]
    pub fn event_stream(socket: &JsValue) -> web_sys::ReadableStream;
}

#[wasm_bindgen(module = "/src/platform/upload.js")]
extern "C" {
    /// The body of an upload.
    pub type Upload;
    #[wasm_bindgen(constructor)]
    pub fn of(request: &web_sys::Request) -> Upload;
    /// The declared length in bytes; -1 when there is none.
    #[wasm_bindgen(method, getter)]
    pub fn declared(this: &Upload) -> f64;
    /// How many bytes were read.
    #[wasm_bindgen(method, getter)]
    pub fn length(this: &Upload) -> f64;
    /// Reads the body; resolves to the word of the fault, if any, and the body's JSON text without its content.
    #[wasm_bindgen(method)]
    pub fn read(this: &Upload, max_file: f64, max_rest: f64, piece: f64, stall_ms: f64) -> js_sys::Promise;
    /// The frame: the content between two texts.
    #[wasm_bindgen(method, catch)]
    pub fn frame(this: &Upload, head: &str, tail: &str) -> Result<js_sys::JsString, JsValue>;
    /// Gives the memory of the body back.
    #[wasm_bindgen(method)]
    pub fn drop(this: &Upload);
}

#[wasm_bindgen]
extern "C" {
    /// An answer that may carry a WebSocket.
    #[wasm_bindgen(extends = web_sys::Response)]
    type Upgraded;
    #[wasm_bindgen(method, getter, js_name = webSocket)]
    fn web_socket(this: &Upgraded) -> Option<JsValue>;

    /// A hibernatable WebSocket of the object.
    #[derive(Clone)]
    pub type ObjectSocket;
    /// Sends a text that is a JavaScript string already, so that one for many sockets crosses the border once.
    #[wasm_bindgen(method, catch, js_name = send)]
    pub fn send_text(this: &ObjectSocket, text: &js_sys::JsString) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    pub fn close(this: &ObjectSocket, code: u16, reason: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch, js_name = serializeAttachment)]
    pub fn attach(this: &ObjectSocket, attachment: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch, js_name = deserializeAttachment)]
    pub fn attachment(this: &ObjectSocket) -> Result<JsValue, JsValue>;
    /// The number under which the hub knows the socket, kept on the socket itself while the object is in memory.
    #[wasm_bindgen(method, getter, js_name = hubConnection)]
    pub fn connection(this: &ObjectSocket) -> Option<u32>;
    #[wasm_bindgen(method, setter, js_name = hubConnection)]
    pub fn set_connection(this: &ObjectSocket, conn: u32);
}

/// The WebSocket of an answer, not yet accepted; `None` when the answer is not an upgrade.
pub fn socket_of(answer: &web_sys::Response) -> Option<JsValue> {
    answer.unchecked_ref::<Upgraded>().web_socket().filter(|socket| !socket.is_null() && !socket.is_undefined())
}

/// The headers of every request that the object reads, the fields of `Asked`. They are the worker's (`carry` in `glue.js`): the
/// namespace, and what a WebSocket is for (one of `SocketUse`'s words).
pub const ASKED: &str = "hub-namespace hub-socket";
/// The headers that it reads also for a web client's socket: when the token expires (set by the worker), and the last event
/// that the client received.
pub const SUBSCRIBED: &str = "hub-expires-at last-event-id";

/// The headers of nearly every answer, as `convert::response` hands them over.
pub const JSON_HEADERS: &str =
    "content-type\napplication/json\ncache-control\nno-store\nx-content-type-options\nnosniff\n";

/// Texts that cross the border with every request: kept on the other side, where decoding them again and again would be
/// a tenth of a request's time.
const CONSTANTS: [&str; 8] = [
    "HUB",
    "content-type",
    "application/json",
    "cache-control",
    "no-store",
    "authorization origin upgrade",
    ASKED,
    JSON_HEADERS,
];

/// Keeps the constants on the JavaScript side. To be called once in each instance.
pub fn intern_constants() {
    for text in CONSTANTS {
        wasm_bindgen::intern(text);
    }
}
