//! Size limits of stored texts, in bytes. D1 limits a row and a value to 2 MB.

/// The largest message content, metadata, agent state (without completed requests) and runner state. It fits a frame of a
/// CLI (32 MiB) with its event; what does not fit a row is stored in [`parts`](super::parts).
pub const MAX_CONTENT_BYTES: usize = 30 * 1024 * 1024;

/// The largest pending permission request: together with its answer it fits a row.
pub const MAX_REQUEST_BYTES: usize = 1_000_000;

/// The largest completed permission request: it fits a row.
pub const MAX_COMPLETED_BYTES: usize = 1_900_000;

/// The largest sum of permission requests in one update: each is in memory several times until its batch is committed.
pub const MAX_COMPLETED_AT_ONCE: usize = 8_000_000;

/// The largest todo list: it fits the row of its session together with the other values.
pub const MAX_TODOS_BYTES: usize = 250_000;
