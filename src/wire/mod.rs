//! The wire formats: Engine.IO and Socket.IO packets, the events between a CLI and the hub, and JSON deserialization.
//!
//! Input comes from untrusted clients. Malformed input never panics: it is an error value with a text for the client. An error
//! repeats only the beginning of the input.
//! Source: Engine.IO protocol 4, Socket.IO protocol 5, PROTOCOL-CLI.md "Events from a CLI" and "Events to a CLI".

pub mod cli;
pub mod engineio;
pub mod field_types;
pub mod fields;
pub mod socketio;
