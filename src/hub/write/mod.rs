//! Writes to the database and reads from it: group commit, the log of events, lookups, large values, and the memory for them.

pub mod burst;
pub mod commit;
pub mod large;
pub mod lookups;
pub mod memory;
pub mod replay;
pub mod usage;
