//! Recovery from panics (`guard.js`). A panic ends the wasm instance. The guard then responds with 503 to the pending requests of
//! the instance, and closes its sockets with 1012.

use std::cell::{Cell, RefCell};

use futures::future::LocalBoxFuture;
use js_sys::Promise;
use wasm_bindgen::handler;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

use super::glue::intern_constants;
use crate::http::error::ErrorResponse;

/// The error message for requests of a lost instance.
pub const INTERRUPTED: &str = "The hub was interrupted. Try again.";

#[wasm_bindgen(module = "/src/platform/guard.js")]
extern "C" {
    #[wasm_bindgen(js_name = instanceLost)]
    fn instance_lost(socket: &JsValue, headers: &str);
    #[wasm_bindgen(js_name = previousInstanceCrashed)]
    pub fn previous_instance_crashed() -> bool;

    pub type Task;
    #[wasm_bindgen(method, getter)]
    fn promise(this: &Task) -> Promise;
    #[wasm_bindgen(method)]
    fn resolve(this: &Task, value: &JsValue);
    #[wasm_bindgen(method)]
    fn reject(this: &Task, error: &JsValue);

    #[wasm_bindgen(js_name = workerTask)]
    pub fn worker_task(headers: &str) -> Task;
    #[wasm_bindgen(js_name = objectTask)]
    pub fn object_task() -> Task;
    #[wasm_bindgen(js_name = frameTask)]
    pub fn frame_task(socket: &JsValue) -> Task;
    #[wasm_bindgen(js_name = backgroundTask)]
    pub fn background_task(state: &JsValue) -> Task;

    #[wasm_bindgen(js_name = setInterruptedBody)]
    fn set_interrupted_body(body: &str);
}

impl Task {
    /// Starts a future, whose result settles the returned promise. Boxed, because `spawn_local` is compiled for each type.
    pub fn start(self, future: impl Future<Output = Result<JsValue, JsValue>> + 'static) -> Promise {
        let promise = self.promise();
        let future: LocalBoxFuture<'static, Result<JsValue, JsValue>> = Box::pin(future);
        spawn_local(async move {
            match future.await {
                Ok(value) => self.resolve(&value),
                Err(error) => self.reject(&error),
            }
        });
        promise
    }
}

/// Initializes the instance once: the panic hook, the abort handler, and the interned constants.
pub fn initialize() {
    thread_local! {
        static IS_INITIALIZED: Cell<bool> = const { Cell::new(false) };
    }
    if IS_INITIALIZED.replace(true) {
        return;
    }
    // Not the hook of the `worker` crate, which would log each panic twice, and mark the instance as lost: `on_abort` does that.
    console_error_panic_hook::set_once();
    reserve_low_memory();
    intern_constants();
    set_interrupted_body(&ErrorResponse::hub_unavailable(INTERRUPTED).body());
    handler::set_on_abort(on_abort);
}

/// Allocates two blocks at the beginning of the heap and frees the first, for small values: the memory of wasm never shrinks, and a small
/// value behind a freed large buffer would keep a larger buffer from using that place.
fn reserve_low_memory() {
    let low = Vec::<u8>::with_capacity(LOW_MEMORY_BYTES);
    std::hint::black_box(low.as_ptr());
    std::hint::black_box(Box::leak(Box::new([0_u64; 8])));
    drop(low);
}

/// The memory for small values of an instance with a few sessions, in bytes.
const LOW_MEMORY_BYTES: usize = 512 * 1024;

/// Runs after a panic or trap. Can call JavaScript only once, because the instance traps when the call returns.
fn on_abort() {
    instance_lost(&CURRENT_SOCKET.replace(JsValue::UNDEFINED), &CURRENT_HEADERS.take());
}

thread_local! {
    /// The socket whose frame is being processed synchronously, else undefined.
    static CURRENT_SOCKET: RefCell<JsValue> = const { RefCell::new(JsValue::UNDEFINED) };
    /// The additional headers of the response to the request that is being routed.
    static CURRENT_HEADERS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Routes a request synchronously. If the instance is lost meanwhile, the response is a 503 with these additional headers.
pub fn with_headers<T>(headers: &str, route: impl FnOnce() -> T) -> T {
    CURRENT_HEADERS.set(headers.to_owned());
    let result = route();
    CURRENT_HEADERS.take();
    result
}

/// Processes a frame synchronously. If the instance is lost meanwhile, the socket of the frame is closed.
pub fn with_socket<T>(socket: &JsValue, process: impl FnOnce() -> T) -> T {
    CURRENT_SOCKET.set(socket.clone());
    let result = process();
    CURRENT_SOCKET.set(JsValue::UNDEFINED);
    result
}
