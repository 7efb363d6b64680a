//! What concerns a whole namespace: its place in a database, its rows, and its deletion.

pub mod databases;
pub mod rows;
