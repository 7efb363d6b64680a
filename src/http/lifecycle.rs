//! `POST /api/sessions/:id/{abort,switch,resume,archive,permission-mode,model,options,fork}`.

use serde::Deserialize;

use super::extract::RoutedRequest;
use super::machines::{SessionType, check_worktree};
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::hub::sessions::modes::Setting;
use crate::hub::sessions::resume::ForkPoint;
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::wire::field_types::{optional_keyword, optional_scalar, scalar};

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

#[derive(Deserialize)]
pub struct OptionBody {
    id: String,
    /// A value of the option's choices, or a boolean.
    value: Json,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkBody {
    #[serde(deserialize_with = "scalar")]
    seq: u64,
    #[serde(default, deserialize_with = "optional_keyword")]
    session_type: Option<SessionType>,
    worktree_name: Option<String>,
    #[serde(default, deserialize_with = "optional_scalar")]
    trust: Option<bool>,
}

#[derive(Deserialize)]
pub struct ResumeBody {
    #[serde(default, deserialize_with = "optional_scalar")]
    trust: Option<bool>,
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
    let id = request.load_session().await?;
    let body: ResumeBody = request.take_json()?;
    let session_id = request.hub.resume(&id, body.trust).await?;
    let members = [("success", Json::of(&true)), ("sessionId", Json::of(&session_id))];
    Ok(JsonText::serialize(&Json::object(&members)))
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

/// Sets an option that the agent advertises in the session's `metadata.options`.
pub async fn set_option(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let OptionBody { id: option, value } = request.take_json()?;
    if value.text().starts_with(['{', '[', 'n']) {
        return Err(Error::field("value", "Field `value` must be a string, a number or a boolean.").into());
    }
    request.hub.set_option(&id, &option, &value).await?;
    Ok(JsonText::ok())
}

/// Starts a session with the history of this session up to a message. A failure of the machine is a result with status 200.
pub async fn fork(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ForkBody = request.take_json()?;
    if body.seq > MAX_SAFE_INTEGER {
        return Err(Error::field("seq", format!("Field `seq` must be an integer from 0 to {MAX_SAFE_INTEGER}.")).into());
    }
    check_worktree(body.session_type, body.worktree_name.as_deref())?;
    let session_type = body.session_type.map(SessionType::as_str);
    let point = ForkPoint { seq: body.seq, session_type, worktree_name: body.worktree_name, trust: body.trust };
    Ok(JsonText::serialize(&request.hub.fork(&id, &point).await?))
}
