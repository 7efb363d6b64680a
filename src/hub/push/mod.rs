//! Web push notifications (PROTOCOL-PUSH.md "Push notifications"): queued once their change is durable, in the object's storage, and sent
//! by the alarm if they are still needed (docs/design/push.md).

pub mod answer;
pub mod notify;
pub mod send;
pub mod subscriptions;
