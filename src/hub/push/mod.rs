//! Web push notifications (PROTOCOL.md "Push notifications").
//!
//! A notification is queued once the change that caused it is durable. The alarm then decides whether it is still needed,
//! and sends it to each subscriber, with retries. Queue, cooldowns, rate limit and log are in the object's key-value
//! storage, so hibernation or a restart loses no notification.
//!
//! State machines without IO: [`delivery`], [`queue`], [`throttle`], [`subscribers`]. Use cases: [`send`], [`subscriptions`].

pub mod config;
pub mod delivery;
pub mod log;
pub mod queue;
pub mod send;
pub mod state;
pub mod subscribers;
pub mod subscriptions;
pub mod throttle;
