//! The stream of events for web clients, without IO.

pub mod ids;
mod log;
pub mod stream;
