//! Writes to the database and reads from it: group commit, lookups, and large values.

pub mod commit;
pub mod large;
