//! Web push: what calls for a notification, the queue, and delivery.

pub mod deliver;
pub mod lanes;
pub mod log;
pub mod queue;
pub mod subscriptions;
