//! What the hub holds in memory besides its connections, and its timers. State machines without IO: the time is an argument,
//! and what is to be done is returned. They import nothing of the use cases.

pub mod activation_waiters;
pub mod cache;
pub mod completed_requests;
pub mod effect;
pub mod evictions;
pub mod in_flight;
pub mod kept_requests;
pub mod live_text;
pub mod liveness;
pub mod local_ids;
pub mod reminders;
pub mod schedule;
pub mod upload_slots;
