//! `POST /api/sessions/:id/{abort,switch,resume,archive,permission-mode,model}`.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::error::ErrorResponse;
use super::extract::{JsonBody, OwnedSession};
use super::response::JsonText;
use crate::hub::Hub;
use crate::hub::sessions::modes::Setting;

type Response = Result<JsonText, ErrorResponse>;

#[derive(Deserialize)]
pub struct ReasonBody {
    reason: Option<String>,
}

#[derive(Deserialize)]
pub struct PermissionModeBody {
    mode: String,
}

#[derive(Deserialize)]
pub struct ModelBody {
    model: String,
}

pub async fn abort(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<ReasonBody>,
) -> Response {
    hub.abort(&id, body.reason.as_deref()).await?;
    Ok(JsonText::ok())
}

pub async fn switch(State(hub): State<Arc<Hub>>, OwnedSession(id): OwnedSession) -> Response {
    hub.switch_to_remote(&id).await?;
    Ok(JsonText::ok())
}

pub async fn resume(State(hub): State<Arc<Hub>>, OwnedSession(id): OwnedSession) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ResumeResult {
        success: bool,
        session_id: String,
    }
    Ok(JsonText::serialize(&ResumeResult { success: true, session_id: hub.resume(&id).await? }))
}

pub async fn archive(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<ReasonBody>,
) -> Response {
    hub.archive(&id, body.reason.as_deref()).await?;
    Ok(JsonText::ok())
}

pub async fn set_permission_mode(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<PermissionModeBody>,
) -> Response {
    hub.set_mode(&id, Setting::PermissionMode(body.mode)).await?;
    Ok(JsonText::ok())
}

pub async fn set_model(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<ModelBody>,
) -> Response {
    hub.set_mode(&id, Setting::Model(body.model)).await?;
    Ok(JsonText::ok())
}
