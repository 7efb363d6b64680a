//! What the hub holds in memory, and the clocks. State machines without IO.

pub mod cache;
pub mod claims;
pub mod completed_requests;
pub mod effect;
pub mod liveness;
pub mod local_ids;
pub mod reminders;
pub mod schedule;
pub mod upload_slots;
pub mod watches;
