//! Web push notifications (PROTOCOL-PUSH.md "Push notifications").
//!
//! A notification is queued once the change that caused it is durable. When the alarm fires, the hub decides whether the
//! notification is still needed, and sends it to each subscriber, with retries. Queue, cooldowns, rate limit and log are in the
//! object's key-value storage, so hibernation or a restart loses no notification.

pub mod answer;
pub mod notify;
pub mod send;
pub mod subscriptions;
