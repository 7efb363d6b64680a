//! `/api/machines` and `/cli/machines`: the online machines, their directories, their agents' sessions, and spawning sessions on them.

use serde::{Deserialize, Serialize};

use super::extract::RoutedRequest;
use super::response::Reply;
use crate::hub::core::error::{Error, check_field};
use crate::hub::machines::spawn::{SessionType, SpawnParams};
use crate::memory_budget::ResponseText;
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::field_types::{List, optional_scalar};

/// How many paths one `POST /api/machines/:id/paths/exists` checks (docs/openapi.yaml).
const MAX_PATHS: usize = 1000;

pub async fn list(request: RoutedRequest) -> Reply {
    let machines = request.hub.list_online_machines().await?;
    Ok(ResponseText::wrap("machines", &machines))
}

pub async fn show(request: RoutedRequest) -> Reply {
    Ok(request.hub.serialize_machine(&request.param("id")?).await?.wrapped_in("machine"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineBody {
    id: String,
    metadata: Json,
    runner_state: Option<Json>,
}

pub async fn register(mut request: RoutedRequest) -> Reply {
    let body: MachineBody = request.take_json()?;
    check_field(body.metadata.is_object(), "metadata", format_args!("be an object"))?;
    request.hub.register_machine(&body.id, body.metadata, body.runner_state).await?;
    Ok(request.hub.serialize_machine(&body.id).await?.wrapped_in("machine"))
}

pub fn check_worktree(session_type: Option<SessionType>, name: Option<&str>) -> Result<(), Error> {
    if session_type == Some(SessionType::Worktree) && name.is_none_or(|name| name.trim().is_empty()) {
        let message = "Field `worktreeName` is required when `sessionType` is `worktree`.";
        return Err(Error::field("worktreeName", message));
    }
    Ok(())
}

pub async fn spawn(mut request: RoutedRequest) -> Reply {
    let id = request.load_machine().await?;
    let params: SpawnParams = request.take_json()?;
    check_field(!params.directory.trim().is_empty(), "directory", format_args!("not be empty"))?;
    check_worktree(params.session_type, params.worktree_name.as_deref())?;
    check_field(params.options.as_ref().is_none_or(Json::is_object), "options", format_args!("be an object"))?;
    Ok(ResponseText::serialize(&request.hub.spawn_session(&id, params).await?))
}

#[derive(Deserialize)]
pub struct PathsBody {
    paths: List<String>,
}

pub async fn check_paths(mut request: RoutedRequest) -> Reply {
    let id = request.load_machine().await?;
    let PathsBody { paths: List(paths) } = request.take_json()?;
    let is_valid = (1..=MAX_PATHS).contains(&paths.len());
    check_field(is_valid, "paths", format_args!("have 1 to {MAX_PATHS} paths"))?;
    Ok(ResponseText::of(request.hub.check_paths(&id, &paths).await?))
}

/// `GET /api/machines/:id/directory?path=`: the folders of a directory. Without `path`, the directories that the machine serves.
pub async fn list_directory(request: RoutedRequest) -> Reply {
    forward_query(request, Method::ListDirectory, &["path"]).await
}

pub async fn list_branches(request: RoutedRequest) -> Reply {
    forward_query(request, Method::ListBranches, &["path"]).await
}

pub async fn list_agent_sessions(request: RoutedRequest) -> Reply {
    forward_query(request, Method::ListAgentSessions, &["agent", "directory", "cursor"]).await
}

#[derive(Deserialize, Serialize)]
pub struct ImportBody {
    agent: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(default, deserialize_with = "optional_scalar", skip_serializing_if = "Option::is_none")]
    trust: Option<bool>,
}

/// `POST /api/machines/:id/agent-sessions`: stores an agent's session in the hub.
pub async fn import_agent_session(mut request: RoutedRequest) -> Reply {
    let machine = Owner::Machine(request.load_machine().await?);
    let body: ImportBody = request.take_json()?;
    Ok(ResponseText::of(request.hub.call_or_failure(&machine, Method::ImportAgentSession, &Json::of(&body)).await))
}

/// Calls a method of the runner with parameters of the query. Returns the runner's response unchanged.
async fn forward_query(request: RoutedRequest, method: Method, names: &[&str]) -> Reply {
    let machine = Owner::Machine(request.load_machine().await?);
    let query = request.query()?;
    let mut values = Vec::new();
    for name in names {
        values.extend(query.text(name)?.map(|value| (*name, Json::of(value))));
    }
    Ok(ResponseText::of(request.hub.call_or_failure(&machine, method, &Json::object(&values)).await))
}
