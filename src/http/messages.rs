//! `POST /api/sessions/:id/messages`, and the messages that wait until the CLI is back.

use serde::{Deserialize, Serialize};

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::hub::sessions::drafts::{Added, Draft};
use crate::limits::MAX_TEXT_BYTES;
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::message::HeldMessage;
use crate::store::messages::MessageRef;
use crate::wire::field_types::{List, Object, optional_scalar, scalar};
use crate::wire::fields::read_lenient_text;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendBody {
    text: Option<Json>,
    local_id: Option<String>,
    attachments: Option<List<Object<Attachment>>>,
    #[serde(default, deserialize_with = "optional_scalar")]
    hold: Option<bool>,
}

/// A file that was uploaded before.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    id: String,
    filename: String,
    mime_type: String,
    #[serde(deserialize_with = "scalar")]
    size: u64,
    path: String,
}

#[derive(Serialize)]
struct UserRecord {
    role: &'static str,
    content: UserContent,
    meta: Meta,
}

#[derive(Serialize)]
struct UserContent {
    r#type: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    attachments: Option<Vec<Attachment>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    sent_from: &'static str,
}

#[derive(Serialize)]
struct SendResult {
    ok: bool,
    message: SentMessage,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentMessage {
    id: String,
    seq: u64,
    local_id: Option<String>,
    created_at: u64,
}

#[derive(Serialize)]
struct HoldResult {
    ok: bool,
    held: bool,
    message: HeldIds,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldIds {
    local_id: String,
    created_at: u64,
}

/// The part of a message's content that the list of held messages shows.
#[derive(Deserialize)]
struct HeldRecord {
    content: HeldContent,
}

#[derive(Deserialize)]
struct HeldContent {
    text: String,
}

#[derive(Serialize)]
struct HeldList {
    messages: Vec<ListedHeldMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedHeldMessage {
    local_id: String,
    text: String,
    created_at: u64,
}

/// `POST /api/sessions/:id/messages`. For a known `localId` the response has the existing message.
pub async fn send(mut request: RoutedRequest) -> Reply {
    let id = request.load_session_for_message().await?;
    request.refuse_null_body()?;
    let body: SendBody = request.take_json()?;
    let mut text = String::new();
    if let Some(json) = &body.text {
        let (decoded, last_half) = read_lenient_text("text", json).map_err(Error::from_body)?;
        text = decoded;
        if last_half.is_some() {
            // The client has cut the text inside a character.
            text.push('\u{fffd}');
        }
    }
    let attachments: Vec<Attachment> =
        body.attachments.into_iter().flat_map(|List(files)| files).map(|Object(file)| file).collect();
    if let Some(at) = attachments.iter().position(|file| file.size > MAX_SAFE_INTEGER) {
        let field = format!("attachments[{at}].size");
        return Err(Error::field(&field, format!("Field `{field}` must be at most {MAX_SAFE_INTEGER}.")).into());
    }
    let attachments = Some(attachments).filter(|list| !list.is_empty());
    let (hold, has_attachments) = (body.hold == Some(true), attachments.is_some());
    if text.is_empty() && attachments.is_none() {
        return Err(Error::field("text", "Field `text` is required unless `attachments` are sent.").into());
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(Error::field("text", format!("Field `text` must have at most {MAX_TEXT_BYTES} bytes.")).into());
    }
    let record = UserRecord {
        role: "user",
        content: UserContent { r#type: "text", text, attachments },
        meta: Meta { sent_from: "web" },
    };
    let draft = Draft::of_web_client(id, body.local_id, Json::of(&record));
    let draft = if hold && !has_attachments { draft.hold_if_inactive() } else { draft };
    let local_id = draft.local_id().map(str::to_owned);
    let added = request.hub.send_message(draft).await.map_err(|error| match error {
        Error::SessionInactive | Error::CliNotAlive if hold && has_attachments => Error::AttachmentsNotHeld,
        error => error,
    })?;
    Ok(match added {
        Added::Stored(MessageRef { id, seq, created_at }) => {
            JsonText::serialize(&SendResult { ok: true, message: SentMessage { id, seq, local_id, created_at } })
        }
        Added::Held(HeldMessage { local_id, created_at, .. }) => {
            JsonText::serialize(&HoldResult { ok: true, held: true, message: HeldIds { local_id, created_at } })
        }
    })
}

/// `GET /api/sessions/:id/held-messages`.
pub async fn list_held(request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let held = request.hub.list_held(&id).await?;
    let listed = |HeldMessage { local_id, created_at, content }: HeldMessage| {
        let text = content.read::<HeldRecord>().map_or_else(String::new, |record| record.content.text);
        ListedHeldMessage { local_id, text, created_at }
    };
    Ok(JsonText::serialize(&HeldList { messages: held.into_iter().map(listed).collect() }))
}

/// `DELETE /api/sessions/:id/held-messages/:localId`.
pub async fn cancel_held(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let (id, local_id) = (request.load_session().await?, request.param("localId")?);
    request.hub.cancel_held(&id, &local_id).await?;
    Ok(JsonText::ok())
}
