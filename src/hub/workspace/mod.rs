//! RPC calls about a session's working directory, and uploads into that directory.

pub mod files;
pub mod uploads;
