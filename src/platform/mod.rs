//! The adapter to the edge-worker runtime: the worker, the Durable Object, and the ports over D1, WebSockets, alarm and storage.
//!
//! The only module that depends on the runtime; compiled for wasm only. It makes no decisions; the code that it calls is tested
//! natively. Large texts stay in JavaScript (`*.js`), because wasm memory is limited to 128 MB and never shrinks.
//! Source: docs/design/wasm.md, the runtime's documentation of Durable Objects and WebSocket hibernation.

mod convert;
mod d1;
mod glue;
mod guard;
mod log;
mod object;
mod runtime;
mod settings;
mod time;
mod upload;
mod worker;
