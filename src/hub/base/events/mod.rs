//! Numbers and the log of events for web clients, without IO.

pub mod log;
pub mod numbering;
