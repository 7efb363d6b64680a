//! `/api/sessions` and `/cli/sessions`: list, get, rename, delete.

use serde::Deserialize;

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::base::error::Error;
use crate::hub::base::state::session_list::{ArchivedFilter, ListRequest};
use crate::limits::{MAX_LISTED_SESSIONS, MAX_NAME_CHARS};
use crate::wire::field_types::optional_scalar;

/// `GET /api/sessions?archived=include|only&limit=N&cursor=TEXT`.
pub async fn list(request: RoutedRequest) -> Reply {
    let query = request.query()?;
    let archived = match query.text("archived")? {
        None => ArchivedFilter::Exclude,
        Some("include") => ArchivedFilter::Include,
        Some("only") => ArchivedFilter::Only,
        Some(_) => {
            return Err(Error::field("archived", "Query parameter `archived` must be `include` or `only`.").into());
        }
    };
    let limit = query.number("limit", 1..=MAX_LISTED_SESSIONS as u64)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MAX_LISTED_SESSIONS);
    let after = match query.text("cursor")? {
        None => ListRequest::BEGINNING,
        Some(cursor) => ListRequest::parse_cursor(cursor).ok_or_else(|| {
            Error::field("cursor", "Query parameter `cursor` must be the `nextCursor` of an earlier response.")
        })?,
    };
    let list = request.hub.list_sessions(&ListRequest { archived, after, limit }).await?;
    Ok(JsonText::of(&*list))
}

pub async fn show(request: RoutedRequest) -> Reply {
    Ok(JsonText::wrap_text("session", request.hub.serialize_session(&request.param("id")?).await?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenameBody {
    name: String,
    #[serde(default, deserialize_with = "optional_scalar")]
    expected_version: Option<u64>,
}

pub async fn rename(mut request: RoutedRequest) -> Reply {
    let id = request.session().await?;
    let body: RenameBody = request.body()?;
    let name = body.name.trim();
    if !(1..=MAX_NAME_CHARS).contains(&name.chars().count()) {
        return Err(Error::field("name", format!("Field `name` must have 1 to {MAX_NAME_CHARS} characters.")).into());
    }
    let version = request.hub.rename(&id, name, body.expected_version).await?;
    Ok(JsonText::of(format!(r#"{{"ok":true,"metadataVersion":{version}}}"#)))
}

pub async fn delete(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let id = request.session().await?;
    request.hub.delete_session(&id).await?;
    Ok(JsonText::ok())
}
