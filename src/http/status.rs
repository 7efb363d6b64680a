//! `/api/status`: what an operator or a user can see of a namespace.

use super::extract::RoutedRequest;
use super::health::{PROTOCOL_VERSION, VERSION};
use super::response::{JsonText, Reply};

/// `GET /api/status`.
pub async fn show(request: RoutedRequest) -> Reply {
    Ok(JsonText::serialize(&request.hub.status(VERSION, PROTOCOL_VERSION).await?))
}
