//! The hub's state in memory, except its connections. State machines without IO: they take the time as an argument, and
//! return what the caller must do. They import nothing from the use cases.

pub mod activation_waiters;
pub mod cache;
pub mod committed;
pub mod completed_requests;
pub mod effect;
pub mod entry;
pub mod evictions;
pub mod in_flight;
pub mod kept_requests;
pub mod live_text;
pub mod liveness;
pub mod local_ids;
pub mod lookup;
pub mod reminders;
pub mod reservations;
pub mod schedule;
pub mod session_list;
pub mod sweep;
pub mod upload_slots;
