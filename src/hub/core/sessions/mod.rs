//! The sessions and machines of a namespace in memory: their cache, their deadlines, and the requests that wait for them. No I/O.

pub mod cache;
pub mod cached_session;
pub mod completed_requests;
pub mod evictions;
pub mod in_flight;
pub mod inbox;
pub mod live_text;
pub mod liveness;
pub mod session_list;
pub mod tags;
