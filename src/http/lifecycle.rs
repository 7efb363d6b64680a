//! `POST /api/sessions/:id/` abort, switch, resume, archive, permission-mode, model.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::JsonText;
use super::error::Refusal;
use super::extract::{JsonBody, OwnedSession};
use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::sessions::modes::Setting;

type Answer = Result<JsonText, Refusal>;

/// The body of `POST /api/sessions/:id/abort` and of `…/archive`.
#[derive(Deserialize)]
pub struct Reason {
    reason: Option<String>,
}

/// The body of `POST /api/sessions/:id/permission-mode`.
#[derive(Deserialize)]
pub struct PermissionMode {
    mode: String,
}

/// The body of `POST /api/sessions/:id/model`.
#[derive(Deserialize)]
pub struct Model {
    model: String,
}

/// `POST /api/sessions/:id/abort`.
pub async fn abort(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<Reason>,
) -> Answer {
    hub.abort(&id, body.reason.as_deref()).await?;
    Ok(JsonText::ok())
}

/// `POST /api/sessions/:id/switch`.
pub async fn switch(State(hub): State<Arc<Hub>>, OwnedSession(id): OwnedSession) -> Answer {
    hub.switch_to_remote(&id).await?;
    Ok(JsonText::ok())
}

/// `POST /api/sessions/:id/resume`.
pub async fn resume(State(hub): State<Arc<Hub>>, OwnedSession(id): OwnedSession) -> Answer {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Resumed {
        success: bool,
        session_id: String,
    }
    let resumed = Resumed { success: true, session_id: hub.resume(&id).await? };
    Ok(JsonText::of(serde_json::to_string(&resumed).map_err(|e| Error::Unavailable(e.to_string()))?))
}

/// `POST /api/sessions/:id/archive`.
pub async fn archive(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<Reason>,
) -> Answer {
    hub.archive(&id, body.reason.as_deref()).await?;
    Ok(JsonText::ok())
}

/// `POST /api/sessions/:id/permission-mode`.
pub async fn permission_mode(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<PermissionMode>,
) -> Answer {
    hub.set_mode(&id, Setting::PermissionMode(body.mode)).await?;
    Ok(JsonText::ok())
}

/// `POST /api/sessions/:id/model`.
pub async fn model(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<Model>,
) -> Answer {
    hub.set_mode(&id, Setting::Model(body.model)).await?;
    Ok(JsonText::ok())
}
