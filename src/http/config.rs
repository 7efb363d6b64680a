//! `/api/config`: what the deployment offers to its web clients.

use serde::Serialize;

use super::extract::RoutedRequest;
use super::health::VERSION;
use super::response::{JsonText, Reply};
use crate::limits::MAX_TEXT_BYTES;
use crate::model::catalog::{AgentChoice, list_agents};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigResponse<'a> {
    version: &'static str,
    agents: Vec<AgentChoice>,
    /// The agent of a session without a flavor, and of a spawn without an agent.
    default_agent: &'a str,
    /// The permission modes that requests must not select, separated by commas.
    forbidden_modes: &'a str,
    limits: Limits,
    push: Push,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    upload_bytes: u64,
    message_bytes: usize,
}

#[derive(Serialize)]
struct Push {
    /// Whether the hub has a contact that push services accept (RFC 8292, section 2.1).
    available: bool,
}

/// `GET /api/config`.
pub async fn show(request: RoutedRequest) -> Reply {
    let origin = request.hub_origin();
    let config = &request.hub.config;
    let (push, vocabulary) = (&config.push, &config.vocabulary);
    Ok(JsonText::serialize(&ConfigResponse {
        version: VERSION,
        agents: list_agents(vocabulary, &|mode| config.forbidden_modes.contains(mode)),
        default_agent: vocabulary.default_agent(),
        forbidden_modes: &config.forbidden_modes.0,
        limits: Limits { upload_bytes: config.uploads.max_file_bytes, message_bytes: MAX_TEXT_BYTES },
        push: Push { available: push.subject.is_some() || origin.is_some() || push.allows_insecure_endpoints },
    }))
}
