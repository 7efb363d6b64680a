//! The stream of events for web clients, without IO.

pub mod log;
pub mod stream;
