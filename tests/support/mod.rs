//! What the integration tests share.

// Every test file is a crate of its own and uses a part of this; the lints on panics hold for the hub, not for tests.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod sqlite;
