//! `POST /api/sessions/:id/upload` and `.../upload/delete`.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::JsonText;
use super::error::Refusal;
use super::extract::{JsonBody, OutsideBody, OwnedSession};
use crate::hub::Hub;

/// The file to delete.
#[derive(Deserialize)]
pub struct Uploaded {
    /// Its path as the upload answered it.
    path: String,
}

/// `POST /api/sessions/:id/upload`: the CLI's answer as it is.
pub async fn upload(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    OutsideBody(body): OutsideBody,
) -> Result<JsonText, Refusal> {
    Ok(JsonText::of(hub.upload(&id, &*body).await?))
}

/// `POST /api/sessions/:id/upload/delete`: the CLI's answer as it is.
pub async fn delete(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<Uploaded>,
) -> Result<JsonText, Refusal> {
    Ok(JsonText::of(hub.delete_upload(&id, &body.path).await?))
}
