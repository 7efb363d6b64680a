//! `GET /health`, and the versions that it returns.

use serde_json::json;

use super::response::{JsonText, Response};

/// The `protocolVersion` of `GET /health`.
pub const PROTOCOL_VERSION: u32 = 1;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `database`: `ok` if the databases were checked.
pub fn health(database: Option<&'static str>) -> Response {
    let mut health = json!({"status": "ok", "protocolVersion": PROTOCOL_VERSION, "version": VERSION});
    if let (Some(database), Some(members)) = (database, health.as_object_mut()) {
        members.insert("database".to_owned(), database.into());
    }
    JsonText::serialize(&health).into_response()
}
