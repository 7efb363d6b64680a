//! RPC calls about a session's working directory, and uploads into that directory.

pub mod chunks;
pub mod files;
pub mod upload_body;
pub mod uploads;
