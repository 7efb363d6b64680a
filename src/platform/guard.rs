//! What a panic costs (`guard.js`): an instance that panicked is lost as a whole, but whoever waits for it is told at once.

use std::cell::{Cell, RefCell};

use wasm_bindgen::handler;
use wasm_bindgen::prelude::*;

use super::glue::intern_constants;
use crate::http::error::ErrorResponse;

/// What is said to whoever waited for an instance that was lost.
pub const INTERRUPTED: &str = "The hub was interrupted. Try again.";

#[wasm_bindgen(module = "/src/platform/guard.js")]
extern "C" {
    /// The instance begins; should it be lost, this is the body of a 503 to whoever waits for it.
    fn begin(interruption: &str);
    /// The instance is lost: ends all that waits for it, and closes the socket whose frame was being worked on.
    fn interrupt(socket: &JsValue);
    /// Whether an instance was lost before this one: what it had sent to the database may still be on its way.
    #[wasm_bindgen(js_name = wasInterrupted)]
    pub fn was_interrupted() -> bool;

    /// A request to the worker: becomes a 503 when the instance is lost, with these headers, names and values in turn, a
    /// line each.
    pub fn answered(headers: &str, work: &js_sys::Promise) -> js_sys::Promise;
    /// A request to the object: fails when the instance is lost.
    #[wasm_bindgen(js_name = carriedOut)]
    pub fn carried_out(work: &js_sys::Promise) -> js_sys::Promise;
    /// What a socket brought: the socket is closed when the instance is lost.
    pub fn heard(work: &js_sys::Promise, socket: &JsValue) -> js_sys::Promise;
    /// What an object does beside its events: all its sockets are closed when the instance is lost before `done`.
    pub type Task;
    #[wasm_bindgen(constructor)]
    pub fn beside(state: &JsValue) -> Task;
    #[wasm_bindgen(method)]
    pub fn done(this: &Task);
}

/// Prepares an instance for its first event: installs the panic hook and the abort handler, and interns the constants.
pub fn prepare() {
    thread_local! {
        static IS_READY: Cell<bool> = const { Cell::new(false) };
    }
    if IS_READY.replace(true) {
        return;
    }
    // In place of the `worker` crate's own hook, which would log each panic twice. What that hook marks, `lost` marks too.
    console_error_panic_hook::set_once();
    intern_constants();
    begin(&ErrorResponse::hub_unavailable(INTERRUPTED).body());
    handler::set_on_abort(lost);
}

/// The instance ended in a panic or a trap. One call to the other side is all that it can still do: it traps when that
/// returns.
fn lost() {
    interrupt(&HEARD.replace(JsValue::UNDEFINED));
}

thread_local! {
    /// The socket whose frame is being worked on at this moment, else undefined.
    static HEARD: RefCell<JsValue> = const { RefCell::new(JsValue::UNDEFINED) };
}

/// Works on a frame, as far as it goes without waiting: its socket is closed when the instance is lost meanwhile.
pub fn hearing<T>(socket: &JsValue, work: impl FnOnce() -> T) -> T {
    HEARD.set(socket.clone());
    let done = work();
    HEARD.set(JsValue::UNDEFINED);
    done
}
