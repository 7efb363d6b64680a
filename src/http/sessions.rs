//! `/api/sessions` and `/cli/sessions`: list, get, change, delete.

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::hub::core::sessions::session_list::{ArchivedFilter, ListRequest};
use crate::hub::sessions::list::Page;
use crate::model::json::Json;
use crate::model::settings::Settings;
use crate::store::summaries::MAX_LISTED_SESSIONS;
use crate::wire::field_types::optional_scalar;
use serde::{Deserialize, Deserializer};

/// The longest session name, in Unicode code points (docs/openapi.yaml).
const MAX_NAME_CHARS: usize = 255;

/// The longest colour, in Unicode code points.
const MAX_COLOR_CHARS: usize = 32;

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
    let list = request.hub.read_page(Page::Sessions(&ListRequest { archived, after, limit })).await?;
    Ok(JsonText::of(&*list))
}

pub async fn show(request: RoutedRequest) -> Reply {
    Ok(JsonText::wrap_text("session", request.hub.serialize_session(&request.param("id")?).await?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeBody {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    #[serde(default, deserialize_with = "optional_scalar")]
    expected_version: Option<u64>,
    #[serde(default, deserialize_with = "optional_scalar")]
    pinned: Option<bool>,
    #[serde(default, deserialize_with = "optional_scalar")]
    muted: Option<bool>,
    #[serde(default, deserialize_with = "nullable")]
    color: Option<Option<String>>,
}

#[derive(Deserialize)]
pub struct SeenBody {
    #[serde(default, deserialize_with = "optional_scalar")]
    at: Option<u64>,
}

/// Reads a field that may be absent, but not null.
fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// Reads a field that may be absent, or null to clear a setting.
fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// `PATCH /api/sessions/:id`: renames a session, changes its settings, or both.
pub async fn change(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    request.refuse_null_body()?;
    let body: ChangeBody = request.take_json()?;
    let name = body.name.as_deref().map(str::trim);
    if name.is_some_and(|name| !(1..=MAX_NAME_CHARS).contains(&name.chars().count())) {
        return Err(Error::field("name", format!("Field `name` must have 1 to {MAX_NAME_CHARS} characters.")).into());
    }
    if body.color.iter().flatten().any(|color| color.chars().count() > MAX_COLOR_CHARS) {
        let text = format!("Field `color` must have at most {MAX_COLOR_CHARS} characters.");
        return Err(Error::field("color", text).into());
    }
    let renamed_version = match name {
        Some(name) => Some(request.hub.rename(&id, name, body.expected_version).await?),
        None => None,
    };
    let version_with_settings = match (body.pinned, body.muted, body.color) {
        (None, None, None) => None,
        (pinned, muted, color) => {
            let change = |settings: &mut Settings| {
                settings.pinned = pinned.unwrap_or(settings.pinned);
                settings.muted = muted.unwrap_or(settings.muted);
                settings.color = color.unwrap_or_else(|| settings.color.take());
            };
            Some(request.hub.change_settings(&id, change).await?)
        }
    };
    // The version with the new name comes first, because a later version may have changes that the client has not seen.
    let version =
        renamed_version.or(version_with_settings).ok_or_else(|| Error::field("name", "Field `name` is required."))?;
    Ok(JsonText::serialize(&Json::object(&[("ok", Json::of(&true)), ("metadataVersion", Json::of(&version))])))
}

/// `POST /api/sessions/:id/seen`.
pub async fn mark_seen(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: SeenBody = request.take_json()?;
    request.hub.mark_seen(&id, body.at).await?;
    Ok(JsonText::ok())
}

pub async fn delete(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    request.hub.delete_session(&id).await?;
    Ok(JsonText::ok())
}
