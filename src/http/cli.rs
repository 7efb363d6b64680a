//! `POST /cli/sessions` and `POST /cli/machines`.

use serde::Deserialize;

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::hub::sessions::manage::NewSession;
use crate::model::json::Json;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionBody {
    tag: String,
    metadata: Json,
    agent_state: Option<Json>,
    model: Option<String>,
}

/// `POST /cli/sessions`: gets the session of a tag, or creates it.
pub async fn get_or_create_session(mut request: RoutedRequest) -> Reply {
    let body: NewSessionBody = request.take_json()?;
    let new = NewSession { tag: body.tag, metadata: body.metadata, agent_state: body.agent_state, model: body.model };
    loop {
        let id = request.hub.get_or_create_session(&new).await?;
        match request.hub.serialize_session(&id).await {
            // The session was deleted after the lookup, so its tag is free again.
            Err(Error::NotFound(_)) => {}
            text => return Ok(JsonText::wrap_text("session", text?)),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineBody {
    id: String,
    metadata: Json,
    runner_state: Option<Json>,
}

pub async fn register_machine(mut request: RoutedRequest) -> Reply {
    let body: MachineBody = request.take_json()?;
    if !body.metadata.is_object() {
        return Err(Error::field("metadata", "Field `metadata` must be an object.").into());
    }
    request.hub.register_machine(&body.id, body.metadata, body.runner_state).await?;
    Ok(JsonText::wrap_text("machine", request.hub.serialize_machine(&body.id).await?))
}
