//! Events for web clients: their numbers, the log that a client resumes from, and who is sent what.

pub mod log;
pub mod numbering;
pub mod replay;
pub mod subscribers;
