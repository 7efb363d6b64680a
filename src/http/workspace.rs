//! Git, files, uploads and commands of a session: validates the request, calls the CLI, and returns its response unchanged.

use serde::Deserialize;

use super::extract::{Query, RoutedRequest};
use super::response::Reply;
use crate::hub::core::error::Error;
use crate::hub::workspace::{Workspace, check_path};
use crate::memory_budget::ResponseText;
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::method::Method;

pub async fn git_status(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = query.text("path")?;
    check_path("path", path.unwrap_or_default())?;
    let params = [("cwd", Some(Json::of(&workspace.path))), ("filePath", path.map(Json::of)), parse_offset(&query)?];
    forward(&request, &workspace, Method::GitStatus, &params).await
}

pub async fn git_diff_numstat(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let params = [("cwd", Some(Json::of(&workspace.path))), parse_staged(&query)?];
    forward(&request, &workspace, Method::GitDiffNumstat, &params).await
}

pub async fn git_diff_file(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = Some(Json::of(parse_file_path(&query)?));
    let params = [("cwd", Some(Json::of(&workspace.path))), ("filePath", path), parse_staged(&query)?];
    forward(&request, &workspace, Method::GitDiffFile, &params).await
}

pub async fn read_file(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = Some(Json::of(parse_file_path(&query)?));
    forward(&request, &workspace, Method::ReadFile, &[("path", path)]).await
}

pub async fn find_files(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let limit = query.limit(200, 500)?;
    let pattern = query.text("query")?.unwrap_or_default();
    if pattern.contains('\0') {
        return Err(Error::field("query", "Query parameter `query` must not contain a NUL character.").into());
    }
    Ok(ResponseText::of(request.hub.find_files(&workspace, pattern, limit).await))
}

pub async fn list_directory(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = query.text("path")?.unwrap_or_default();
    check_path("path", path)?;
    forward(&request, &workspace, Method::ListDirectory, &[("path", Some(Json::of(path))), parse_offset(&query)?]).await
}

pub async fn list_slash_commands(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let agent = workspace.agent.as_deref().unwrap_or_else(|| request.hub.config.vocabulary.default_agent());
    forward(&request, &workspace, Method::ListSlashCommands, &[("agent", Some(Json::of(agent)))]).await
}

pub async fn list_skills(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    forward(&request, &workspace, Method::ListSkills, &[]).await
}

pub async fn upload(request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body = request.upload_body()?;
    Ok(ResponseText::of(request.hub.upload(&id, &*body).await?))
}

#[derive(Deserialize)]
pub struct DeleteUploadBody {
    /// The path that the upload returned.
    path: String,
}

pub async fn delete_upload(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: DeleteUploadBody = request.take_json()?;
    Ok(ResponseText::of(request.hub.delete_upload(&id, &body.path).await?))
}

/// A parameter of a method; absent if it is `None`.
type Param = (&'static str, Option<Json>);

async fn forward(request: &RoutedRequest, workspace: &Workspace, method: Method, params: &[Param]) -> Reply {
    let params = Json::object_of_some(params);
    Ok(ResponseText::of(request.hub.call_or_failure(&workspace.session, method, &params).await))
}

/// Parses `offset`: how many entries of a long answer to skip.
fn parse_offset(query: &Query) -> Result<Param, Error> {
    Ok(("offset", query.number("offset", 0..=MAX_SAFE_INTEGER)?.map(|offset| Json::of(&offset))))
}

fn parse_staged(query: &Query) -> Result<Param, Error> {
    Ok(("staged", Some(Json::of(&query.flag("staged")?.unwrap_or(false)))))
}

/// Parses `path`: required, not empty.
fn parse_file_path(query: &Query) -> Result<&str, Error> {
    let path = query.text("path")?.ok_or(Error::InvalidPath { field: "path", reason: "it is missing" })?;
    check_path("path", path)?;
    Ok(path)
}
