//! `POST /api/sessions/:id/{abort,switch,resume,archive,permission-mode,model}`.

use serde::{Deserialize, Serialize};

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::sessions::modes::Setting;

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

pub async fn abort(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ReasonBody = request.take_json()?;
    request.hub.abort(&id, body.reason.as_deref()).await?;
    Ok(JsonText::ok())
}

pub async fn switch(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    request.hub.switch_to_remote(&id).await?;
    Ok(JsonText::ok())
}

pub async fn resume(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ResumeResult {
        success: bool,
        session_id: String,
    }
    Ok(JsonText::serialize(&ResumeResult { success: true, session_id: request.hub.resume(&id).await? }))
}

pub async fn archive(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ReasonBody = request.take_json()?;
    request.hub.archive(&id, body.reason.as_deref()).await?;
    Ok(JsonText::ok())
}

pub async fn set_permission_mode(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: PermissionModeBody = request.take_json()?;
    request.hub.set_mode(&id, Setting::PermissionMode(body.mode)).await?;
    Ok(JsonText::ok())
}

pub async fn set_model(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ModelBody = request.take_json()?;
    request.hub.set_mode(&id, Setting::Model(body.model)).await?;
    Ok(JsonText::ok())
}
