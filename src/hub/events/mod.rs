//! Events for web clients (PROTOCOL-EVENTS.md "Events for web clients").
//!
//! Each change has an event, which is published once the change is durable. While a web client is connected, and for ten minutes
//! after the last one has disconnected, events are also logged in the database, in the batch of their change. A client that
//! reconnects with the id of its last event receives all later events, or a gap notice, even after a restart of the hub.

pub mod log;
pub mod publish;
pub mod subscribers;
