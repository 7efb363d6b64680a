//! What most tests use.

pub use std::sync::Arc;

pub use serde_json::{Value, json};
pub use session_gateway_hub::hub::core::peers::subscription::Format;
pub use session_gateway_hub::hub::core::ports::Runtime;
pub use session_gateway_hub::store::{Database, DbError};

pub use super::cli::{Cli, Received};
pub use super::live_session::*;
pub use super::rest::{PendingReply, Reply, all_ok};
pub use super::runtime::{Frame, START};
pub use super::sqlite::{BatchKind, Sqlite, permanent_error, retryable_error};
pub use super::web::Web;
pub use super::{RECONNECT_GRACE_MS, RPC_TIMEOUT_MS, World, each, pick, run_until_idle};
