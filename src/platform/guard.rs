//! Recovery from panics (`guard.js`). A panic ends the wasm instance with all its pending requests and sockets; the guard
//! responds with 503 to the requests and closes the sockets with 1012.

use std::cell::{Cell, RefCell};

use wasm_bindgen::handler;
use wasm_bindgen::prelude::*;

use super::glue::intern_constants;
use crate::http::error::ErrorResponse;

/// The error message for requests of a lost instance.
pub const INTERRUPTED: &str = "The hub was interrupted. Try again.";

#[wasm_bindgen(module = "/src/platform/guard.js")]
extern "C" {
    /// `body` is the body of the 503 responses after a loss of the instance.
    #[wasm_bindgen(js_name = startInstance)]
    fn start_instance(body: &str);
    /// Ends everything that the guard tracks, and closes `socket`.
    #[wasm_bindgen(js_name = instanceLost)]
    fn instance_lost(socket: &JsValue);
    /// Whether an earlier instance was lost. Its last database writes may be delayed.
    #[wasm_bindgen(js_name = wasInterrupted)]
    pub fn was_interrupted() -> bool;

    /// Responds with 503 and these additional headers when the instance is lost.
    #[wasm_bindgen(js_name = guardWorker)]
    pub fn guard_worker(headers: &str, response: &js_sys::Promise) -> js_sys::Promise;
    /// Rejects when the instance is lost.
    #[wasm_bindgen(js_name = guardObject)]
    pub fn guard_object(result: &js_sys::Promise) -> js_sys::Promise;
    /// Closes the socket when the instance is lost before its frame is processed.
    #[wasm_bindgen(js_name = guardSocket)]
    pub fn guard_socket(processed: &js_sys::Promise, socket: &JsValue) -> js_sys::Promise;
    /// A background task of an object. All sockets of the object are closed when the instance is lost before `done`.
    pub type BackgroundTask;
    #[wasm_bindgen(constructor)]
    pub fn new(state: &JsValue) -> BackgroundTask;
    #[wasm_bindgen(method)]
    pub fn done(this: &BackgroundTask);
}

/// Initializes the instance once: the panic hook, the abort handler, and the interned constants.
pub fn initialize() {
    thread_local! {
        static IS_INITIALIZED: Cell<bool> = const { Cell::new(false) };
    }
    if IS_INITIALIZED.replace(true) {
        return;
    }
    // The hook of the `worker` crate would log each panic twice. It also marks the instance as lost, which `on_abort` does here.
    console_error_panic_hook::set_once();
    reserve_low_memory();
    intern_constants();
    start_instance(&ErrorResponse::hub_unavailable(INTERRUPTED).body());
    handler::set_on_abort(on_abort);
}

/// Frees a block at the beginning of the heap, behind which another one stays. Small values are then allocated there, and not
/// between large buffers: the memory of wasm never shrinks, and a buffer of 30 MiB does not fit in the place of one that is
/// followed by a small value.
fn reserve_low_memory() {
    let low = Vec::<u8>::with_capacity(LOW_MEMORY_BYTES);
    std::hint::black_box(low.as_ptr());
    std::hint::black_box(Box::leak(Box::new([0_u64; 8])));
    drop(low);
}

/// The memory for small values of an instance with a few sessions, in bytes.
const LOW_MEMORY_BYTES: usize = 512 * 1024;

/// Runs after a panic or trap. It can call JavaScript only once: the instance traps when the call returns.
fn on_abort() {
    instance_lost(&CURRENT_SOCKET.replace(JsValue::UNDEFINED));
}

thread_local! {
    /// The socket whose frame is being processed synchronously, else undefined.
    static CURRENT_SOCKET: RefCell<JsValue> = const { RefCell::new(JsValue::UNDEFINED) };
}

/// Processes a frame synchronously; its socket is closed if the instance is lost during it.
pub fn with_socket<T>(socket: &JsValue, process: impl FnOnce() -> T) -> T {
    CURRENT_SOCKET.set(socket.clone());
    let result = process();
    CURRENT_SOCKET.set(JsValue::UNDEFINED);
    result
}
