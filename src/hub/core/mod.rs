//! What the hub is made of: ports to the platform, errors, storage keys, and state machines without IO. The state machines take
//! the time as an argument, and return what the caller must do.

pub mod config;
pub mod effect;
pub mod error;
pub mod events;
pub mod ids;
pub mod local_ids;
pub mod memory;
pub mod namespace;
pub mod peers;
pub mod ports;
pub mod push;
pub mod schedule;
pub mod sessions;
pub mod state;
pub mod storage_keys;
pub mod telemetry;
pub mod uploads;
