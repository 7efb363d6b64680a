//! `GET /health`, and the versions that it returns.

use crate::model::json::Json;

use super::response::{JsonText, Response};

/// The `protocolVersion` of `GET /health`.
pub const PROTOCOL_VERSION: u32 = 1;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `database`: `ok` if the databases were checked.
pub fn health(database: Option<&'static str>) -> Response {
    let mut members = vec![
        ("status", Json::of("ok")),
        ("protocolVersion", Json::of(&PROTOCOL_VERSION)),
        ("version", Json::of(VERSION)),
    ];
    members.extend(database.map(|state| ("database", Json::of(state))));
    JsonText::serialize(&Json::object(&members)).into_response()
}
