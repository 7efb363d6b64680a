//! The use cases of sessions.

pub mod lifecycle;
pub mod manage;
pub mod merge;
pub mod messages;
pub mod modes;
pub mod permissions;
pub mod presence;
pub mod resume;
pub mod updates;
