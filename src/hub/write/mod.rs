//! The way of every change to the database and back: group commit, the log of events, lookups, large values, memory.

pub mod burst;
pub mod commit;
pub mod large;
pub mod lookups;
pub mod memory;
pub mod replay;
