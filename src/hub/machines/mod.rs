//! The use cases of machines.

pub mod manage;
pub mod spawn;
