//! `/api/sessions` and `/cli/sessions`: list, get, rename, delete.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::error::ErrorResponse;
use super::extract::{JsonBody, OwnedSession, PathId, QueryString};
use super::response::JsonText;
use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::state::cache::ArchivedFilter;
use crate::limits::MAX_NAME_CHARS;
use crate::wire::field_types::optional_scalar;

/// `GET /api/sessions?archived=include|only`.
pub async fn list(State(hub): State<Arc<Hub>>, QueryString(query): QueryString) -> Result<JsonText, ErrorResponse> {
    let archived = match query.text("archived")? {
        None => ArchivedFilter::Exclude,
        Some("include") => ArchivedFilter::Include,
        Some("only") => ArchivedFilter::Only,
        Some(_) => {
            return Err(Error::field("archived", "Query parameter `archived` must be `include` or `only`.").into());
        }
    };
    let list = hub.list_sessions(archived).await?;
    Ok(JsonText::of(format!(r#"{{"sessions":{list}}}"#)))
}

pub async fn show(State(hub): State<Arc<Hub>>, PathId(id): PathId) -> Result<JsonText, ErrorResponse> {
    Ok(JsonText::wrap_text("session", hub.serialize_session(&id).await?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenameBody {
    name: String,
    #[serde(default, deserialize_with = "optional_scalar")]
    expected_version: Option<u64>,
}

pub async fn rename(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    JsonBody(body): JsonBody<RenameBody>,
) -> Result<JsonText, ErrorResponse> {
    let name = body.name.trim();
    if !(1..=MAX_NAME_CHARS).contains(&name.chars().count()) {
        return Err(Error::field("name", format!("Field `name` must have 1 to {MAX_NAME_CHARS} characters.")).into());
    }
    let version = hub.rename(&id, name, body.expected_version).await?;
    Ok(JsonText::of(format!(r#"{{"ok":true,"metadataVersion":{version}}}"#)))
}

pub async fn delete(State(hub): State<Arc<Hub>>, OwnedSession(id): OwnedSession) -> Result<JsonText, ErrorResponse> {
    hub.delete_session(&id).await?;
    Ok(JsonText::ok())
}
