//! `/api/sessions`, `/cli/sessions` and `/api/inbox`: list, get, create, change and delete sessions, and control their life cycle.

use super::extract::RoutedRequest;
use super::machines::check_worktree;
use super::response::{Reply, acknowledge};
use crate::hub::core::error::{Error, check_field, check_length};
use crate::hub::core::sessions::inbox::InboxRequest;
use crate::hub::core::sessions::session_list::{ArchivedFilter, ListRequest};
use crate::hub::sessions::lifecycle::Setting;
use crate::hub::sessions::list::Page;
use crate::hub::sessions::manage::NewSession;
use crate::hub::sessions::resume::ForkPoint;
use crate::memory_budget::ResponseText;
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::settings::Settings;
use crate::store::summaries::MAX_LISTED_SESSIONS;
use crate::wire::field_types::optional_scalar;
use serde::{Deserialize, Deserializer};

/// The longest session name, in Unicode code points (docs/openapi.yaml).
const MAX_NAME_CHARS: usize = 255;

/// The longest colour, in Unicode code points.
const MAX_COLOR_CHARS: usize = 32;

const MAX_INBOX_ITEMS: u64 = 200;
/// The items of a page of the inbox without `limit`.
const DEFAULT_INBOX_ITEMS: usize = 50;

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
    let limit = query.limit(MAX_LISTED_SESSIONS, MAX_LISTED_SESSIONS as u64)?;
    let after = query.cursor(ListRequest::BEGINNING, ListRequest::parse_cursor)?;
    let list = request.hub.read_page(Page::Sessions(&ListRequest { archived, after, limit })).await?;
    Ok(ResponseText::of(&*list))
}

/// `GET /api/inbox?limit=N&cursor=TEXT`: what waits for a person.
pub async fn list_inbox(request: RoutedRequest) -> Reply {
    let query = request.query()?;
    let limit = query.limit(DEFAULT_INBOX_ITEMS, MAX_INBOX_ITEMS)?;
    let after = query.cursor(InboxRequest::BEGINNING, InboxRequest::parse_cursor)?;
    let page = request.hub.read_page(Page::Inbox(&InboxRequest { after, limit })).await?;
    Ok(ResponseText::of(&*page))
}

pub async fn show(request: RoutedRequest) -> Reply {
    Ok(request.hub.serialize_session(&request.param("id")?).await?.wrapped_in("session"))
}

/// `POST /cli/sessions`: gets the session of a tag, or creates it.
pub async fn get_or_create(mut request: RoutedRequest) -> Reply {
    let new: NewSession = request.take_json()?;
    loop {
        let id = request.hub.get_or_create_session(&new).await?;
        match request.hub.serialize_session(&id).await {
            // The session was deleted after the lookup, so its tag is free again.
            Err(Error::NotFound(_)) => {}
            text => return Ok(text?.wrapped_in("session")),
        }
    }
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
    name.map_or(Ok(()), |name| check_length("name", name, 1..=MAX_NAME_CHARS))?;
    let is_color = body.color.iter().flatten().all(|color| color.chars().count() <= MAX_COLOR_CHARS);
    check_field(is_color, "color", format_args!("have at most {MAX_COLOR_CHARS} characters"))?;
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
    Ok(ResponseText::serialize(&Json::object(&[("ok", Json::of(&true)), ("metadataVersion", Json::of(&version))])))
}

#[derive(Deserialize)]
pub struct SeenBody {
    #[serde(default, deserialize_with = "optional_scalar")]
    at: Option<u64>,
}

pub async fn mark_seen(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: SeenBody = request.take_json()?;
    acknowledge(request.hub.mark_seen(&id, body.at).await)
}

pub async fn delete(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    acknowledge(request.hub.delete_session(&id, None).await)
}

#[derive(Deserialize)]
pub struct ReasonBody {
    reason: Option<String>,
}

pub async fn abort(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ReasonBody = request.take_json()?;
    acknowledge(request.hub.abort(&id, body.reason.as_deref()).await)
}

pub async fn archive(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ReasonBody = request.take_json()?;
    acknowledge(request.hub.archive(&id, body.reason.as_deref()).await)
}

pub async fn switch(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    acknowledge(request.hub.switch_to_remote(&id).await)
}

#[derive(Deserialize)]
pub struct ResumeBody {
    #[serde(default, deserialize_with = "optional_scalar")]
    trust: Option<bool>,
}

pub async fn resume(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ResumeBody = request.take_json()?;
    let session_id = request.hub.resume(&id, body.trust).await?;
    let members = [("success", Json::of(&true)), ("sessionId", Json::of(&session_id))];
    Ok(ResponseText::serialize(&Json::object(&members)))
}

#[derive(Deserialize)]
pub struct PermissionModeBody {
    mode: String,
}

pub async fn set_permission_mode(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: PermissionModeBody = request.take_json()?;
    acknowledge(request.hub.set_mode(&id, Setting::PermissionMode(body.mode)).await)
}

#[derive(Deserialize)]
pub struct ModelBody {
    model: String,
}

pub async fn set_model(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: ModelBody = request.take_json()?;
    acknowledge(request.hub.set_mode(&id, Setting::Model(body.model)).await)
}

#[derive(Deserialize)]
pub struct OptionBody {
    id: String,
    /// A value of the option's choices, or a boolean.
    value: Json,
}

/// Sets an option that the agent advertises in the session's `metadata.options`.
pub async fn set_option(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let OptionBody { id: option, value } = request.take_json()?;
    let is_value = !value.text().starts_with(['{', '[', 'n']);
    check_field(is_value, "value", format_args!("be a string, a number or a boolean"))?;
    acknowledge(request.hub.set_option(&id, &option, &value).await)
}

/// Starts a session with the history of this session up to a message. A failure of the machine is a result with status 200.
pub async fn fork(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let point: ForkPoint = request.take_json()?;
    let is_integer = point.seq <= MAX_SAFE_INTEGER;
    check_field(is_integer, "seq", format_args!("be an integer from 0 to {MAX_SAFE_INTEGER}"))?;
    check_worktree(point.session_type, point.worktree_name.as_deref())?;
    Ok(ResponseText::serialize(&request.hub.fork(&id, &point).await?))
}
