//! RPC calls to a session's CLI about its working directory, and uploads to it.

pub mod chunks;
pub mod files;
pub mod upload_body;
pub mod uploads;
