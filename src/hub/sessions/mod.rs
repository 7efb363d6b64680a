//! The use cases of sessions: each loads a session, changes it in memory, and queues the change with its effects.

pub mod changes;
pub mod fields;
pub mod lifecycle;
pub mod list;
pub mod load;
pub mod manage;
pub mod merge;
pub mod messages;
pub mod permissions;
pub mod presence;
pub mod quotas;
pub mod resume;
pub mod updates;
