//! `POST /api/sessions/:id/upload` and `.../upload/delete`.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::error::ErrorResponse;
use super::extract::{ExternalBody, JsonBody, OwnedSession};
use super::response::JsonText;
use crate::hub::Hub;

#[derive(Deserialize)]
pub struct DeleteUploadBody {
    /// The path that the upload returned.
    path: String,
}

/// `POST /api/sessions/:id/upload`: returns the unchanged response of the CLI.
pub async fn upload(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    ExternalBody(body): ExternalBody,
) -> Result<JsonText, ErrorResponse> {
    Ok(JsonText::of(hub.upload(&id, &*body).await?))
}

/// `POST /api/sessions/:id/upload/delete`: returns the unchanged response of the CLI.
pub async fn delete(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<DeleteUploadBody>,
) -> Result<JsonText, ErrorResponse> {
    Ok(JsonText::of(hub.delete_upload(&id, &body.path).await?))
}
