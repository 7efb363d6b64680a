//! What concerns a whole namespace: its quotas, what it uses of them, and the deletion of old data. State machines without IO.

pub mod closed;
pub mod deletion;
pub mod quotas;
pub mod recent_writers;
