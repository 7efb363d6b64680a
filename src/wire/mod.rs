//! What travels: Engine.IO and Socket.IO packets, the CLI's events, and JSON read with errors that name the field.

pub mod cli;
pub mod engineio;
pub mod field_types;
pub mod fields;
pub mod socketio;
pub mod update;
