//! What the deployment is and offers: `/health`, `/api/config` and `/api/status`.

use super::extract::{RoutedRequest, hub_origin};
use super::response::{Reply, Response};
use crate::limits::MAX_TEXT_BYTES;
use crate::memory_budget::ResponseText;
use crate::model::catalog::list_agents;
use crate::model::json::Json;

/// The `protocolVersion` of `GET /health`.
const PROTOCOL_VERSION: u32 = 1;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `database`: `ok` if the databases were checked.
pub fn health(database: Option<&'static str>) -> Response {
    let members = [
        ("status", Some(Json::of("ok"))),
        ("protocolVersion", Some(Json::of(&PROTOCOL_VERSION))),
        ("version", Some(Json::of(VERSION))),
        ("database", database.map(Json::of)),
    ];
    ResponseText::serialize(&Json::object_of_some(&members)).into_response()
}

/// `GET /api/status`: what an operator or a user can see of a namespace.
pub async fn show_status(request: RoutedRequest) -> Reply {
    Ok(ResponseText::serialize(&request.hub.status(VERSION, PROTOCOL_VERSION).await?))
}

/// `GET /api/config`: what the deployment offers to its web clients.
pub async fn show_config(request: RoutedRequest) -> Reply {
    let origin = hub_origin(request.host());
    let config = &request.hub.config;
    let (push, vocabulary) = (&config.push, &config.vocabulary);
    let upload_bytes = Json::of(&config.uploads.max_file_bytes);
    // Whether the hub has a contact that push services accept (RFC 8292, section 2.1).
    let can_push = push.subject.is_some() || origin.is_some() || push.allows_insecure_endpoints;
    Ok(ResponseText::serialize(&Json::object(&[
        ("version", Json::of(VERSION)),
        ("agents", Json::of(&list_agents(vocabulary, &|mode| config.forbidden_modes.contains(mode)))),
        ("defaultAgent", Json::of(vocabulary.default_agent())),
        ("forbiddenModes", Json::of(&config.forbidden_modes.0)),
        ("limits", Json::object(&[("uploadBytes", upload_bytes), ("messageBytes", Json::of(&MAX_TEXT_BYTES))])),
        ("push", Json::object(&[("available", Json::of(&can_push))])),
    ])))
}
