//! `/api/machines`: the online machines, spawning sessions on them, and checking paths.

use serde::Deserialize;

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::base::error::Error;
use crate::hub::machines::spawn::SpawnParams;
use crate::wire::field_types::{List, optional_keyword, optional_scalar};

/// How many paths one `POST /api/machines/:id/paths/exists` checks (PROTOCOL-WEB.md "Machines").
const MAX_PATHS: usize = 1000;

pub async fn list(request: RoutedRequest) -> Reply {
    let machines = request.hub.list_online_machines().await?;
    Ok(JsonText::wrap("machines", &machines))
}

pub async fn show(request: RoutedRequest) -> Reply {
    Ok(JsonText::wrap_text("machine", request.hub.serialize_machine(&request.param("id")?).await?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnBody {
    directory: String,
    agent: Option<String>,
    model: Option<String>,
    #[serde(default, deserialize_with = "optional_scalar")]
    yolo: Option<bool>,
    #[serde(default, deserialize_with = "optional_keyword")]
    session_type: Option<SessionType>,
    worktree_name: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum SessionType {
    Simple,
    Worktree,
}

pub async fn spawn(mut request: RoutedRequest) -> Reply {
    let id = request.load_machine().await?;
    let body: SpawnBody = request.take_json()?;
    if body.directory.trim().is_empty() {
        return Err(Error::field("directory", "Field `directory` must not be empty.").into());
    }
    let has_name = body.worktree_name.as_ref().is_some_and(|name| !name.trim().is_empty());
    if body.session_type == Some(SessionType::Worktree) && !has_name {
        let message = "Field `worktreeName` is required when `sessionType` is `worktree`.";
        return Err(Error::field("worktreeName", message).into());
    }
    let params = SpawnParams {
        directory: body.directory,
        agent: body.agent.unwrap_or_else(|| request.hub.config.vocabulary.default_agent().to_owned()),
        model: body.model,
        yolo: body.yolo,
        session_type: body
            .session_type
            .map(|session_type| if session_type == SessionType::Simple { "simple" } else { "worktree" }),
        worktree_name: body.worktree_name,
    };
    Ok(JsonText::serialize(&request.hub.spawn_session(&id, &params).await?))
}

#[derive(Deserialize)]
pub struct PathsBody {
    paths: List<String>,
}

pub async fn check_paths(mut request: RoutedRequest) -> Reply {
    let id = request.load_machine().await?;
    let body: PathsBody = request.take_json()?;
    let List(paths) = body.paths;
    if !(1..=MAX_PATHS).contains(&paths.len()) {
        return Err(Error::field("paths", format!("Field `paths` must have 1 to {MAX_PATHS} paths.")).into());
    }
    Ok(JsonText::of(request.hub.check_paths(&id, &paths).await?))
}
