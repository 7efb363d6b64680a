//! What concerns a whole namespace: its place in a database, its rows, what it uses of its quotas, and its deletion.

pub mod databases;
pub mod relocation;
pub mod rows;
pub mod usage;
