//! Events for web clients (PROTOCOL-EVENTS.md "Events for web clients").
//!
//! Each change has an event, which is published once the change is durable. While a web client is connected, and for ten
//! minutes after, events are also logged in the database, in the same batch as their change. A client that reconnects with
//! the id of its last event receives every event since, also after hibernation or a restart of the hub, or a gap notice.

pub mod subscribers;
