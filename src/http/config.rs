//! `/api/config`: what the deployment offers to its web clients.

use super::extract::RoutedRequest;
use super::health::VERSION;
use super::response::{JsonText, Reply};
use crate::limits::MAX_TEXT_BYTES;
use crate::model::catalog::list_agents;
use crate::model::json::Json;

/// `GET /api/config`.
pub async fn show(request: RoutedRequest) -> Reply {
    let origin = request.hub_origin();
    let config = &request.hub.config;
    let (push, vocabulary) = (&config.push, &config.vocabulary);
    let upload_bytes = Json::of(&config.uploads.max_file_bytes);
    // Whether the hub has a contact that push services accept (RFC 8292, section 2.1).
    let can_push = push.subject.is_some() || origin.is_some() || push.allows_insecure_endpoints;
    Ok(JsonText::serialize(&Json::object(&[
        ("version", Json::of(VERSION)),
        ("agents", Json::of(&list_agents(vocabulary, &|mode| config.forbidden_modes.contains(mode)))),
        ("defaultAgent", Json::of(vocabulary.default_agent())),
        ("forbiddenModes", Json::of(&config.forbidden_modes.0)),
        ("limits", Json::object(&[("uploadBytes", upload_bytes), ("messageBytes", Json::of(&MAX_TEXT_BYTES))])),
        ("push", Json::object(&[("available", Json::of(&can_push))])),
    ])))
}
