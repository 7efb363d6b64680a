//! Events for web clients (PROTOCOL-EVENTS.md "Events for web clients"): published once their change is durable, and logged in the batch
//! of their change while a web client may resume (docs/design/replay.md).

pub mod log;
pub mod publish;
pub mod subscribers;
