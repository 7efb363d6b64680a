//! What the hub holds in memory, and the clocks. State machines without IO.

pub mod activation_waiters;
pub mod cache;
pub mod completed_requests;
pub mod effect;
pub mod in_flight;
pub mod liveness;
pub mod local_ids;
pub mod reminders;
pub mod schedule;
pub mod upload_slots;
