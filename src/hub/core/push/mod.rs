//! The deliveries of notifications, with their queue, log, cooldowns and rate limit, without IO.

pub mod delivery;
pub mod log;
pub mod queue;
pub mod state;
pub mod throttle;
