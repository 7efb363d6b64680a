//! Git, files and commands of a session: validates the request, calls the CLI, and returns its response unchanged.

use super::extract::RoutedRequest;
use super::query::Query;
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::hub::workspace::files::check_path;
use crate::model::json::MAX_SAFE_INTEGER;
use crate::model::method::Method;

pub async fn git_status(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = query.text("path")?;
    check_path("path", path.unwrap_or_default())?;
    Ok(JsonText::of(request.hub.git_status(&workspace, path, parse_offset(&query)?).await))
}

pub async fn git_diff_numstat(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let staged = query.flag("staged")?.unwrap_or(false);
    Ok(JsonText::of(request.hub.git_diff_numstat(&workspace, staged).await))
}

pub async fn git_diff_file(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = parse_file_path(&query)?;
    let staged = query.flag("staged")?.unwrap_or(false);
    Ok(JsonText::of(request.hub.git_diff_file(&workspace, path, staged).await))
}

pub async fn read_file(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = parse_file_path(&query)?;
    Ok(JsonText::of(request.hub.read_file(&workspace, path).await))
}

pub async fn find_files(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let limit = query.number("limit", 1..=500)?.unwrap_or(200);
    let pattern = query.text("query")?.unwrap_or_default();
    if pattern.contains('\0') {
        return Err(Error::field("query", "Query parameter `query` must not contain a NUL character.").into());
    }
    Ok(JsonText::of(request.hub.find_files(&workspace, pattern, usize::try_from(limit).unwrap_or(usize::MAX)).await))
}

pub async fn list_directory(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    let query = request.query()?;
    let path = query.text("path")?.unwrap_or_default();
    check_path("path", path)?;
    Ok(JsonText::of(request.hub.list_directory(&workspace, path, parse_offset(&query)?).await))
}

pub async fn list_slash_commands(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    Ok(JsonText::of(request.hub.list_slash_commands(&workspace).await))
}

pub async fn list_skills(request: RoutedRequest) -> Reply {
    let workspace = request.load_workspace().await?;
    Ok(JsonText::of(request.hub.call_method(&workspace, Method::ListSkills, "{}").await))
}

/// Parses `offset`: how many entries of a long answer to skip.
fn parse_offset(query: &Query) -> Result<Option<u64>, Error> {
    query.number("offset", 0..=MAX_SAFE_INTEGER)
}

/// Parses `path`: required, not empty.
fn parse_file_path(query: &Query) -> Result<&str, Error> {
    let path = query.text("path")?.ok_or(Error::InvalidPath { field: "path", reason: "it is missing" })?;
    check_path("path", path)?;
    Ok(path)
}
