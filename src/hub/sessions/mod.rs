//! The use cases of sessions: each loads a session, changes it in memory, and queues the change with its effects.

pub mod activity;
pub mod changes;
pub mod drafts;
pub mod fields;
pub mod fork;
pub mod held;
pub mod lifecycle;
pub mod list;
pub mod live_text;
pub mod load;
pub mod manage;
pub mod merge;
pub mod messages;
pub mod modes;
pub mod options;
pub mod permissions;
pub mod presence;
pub mod queue;
pub mod quotas;
pub mod resume;
pub mod retention;
pub mod sweep;
pub mod updates;
