//! `POST /api/sessions/:id/messages`, the messages that wait until the CLI is back, and `/api/sessions/:id/queue`: commands about the
//! messages that wait until the agent is free.

use serde::{Deserialize, Serialize};

use super::error::ErrorResponse;
use super::extract::RoutedRequest;
use super::response::{Reply, acknowledge};
use crate::hub::core::error::{Error, check_field};
use crate::hub::sessions::messages::{Added, Draft};
use crate::limits::MAX_TEXT_BYTES;
use crate::memory_budget::ResponseText;
use crate::model::json::{Json, JsonObject, MAX_SAFE_INTEGER};
use crate::model::message::HeldMessage;
use crate::store::messages::MessageRef;
use crate::wire::field_types::{List, Object, optional_scalar, scalar};
use crate::wire::fields::read_lenient_text;

/// The most messages that one order of the queue names.
const MAX_SEQS: usize = 1000;

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

/// `POST /api/sessions/:id/messages`. For a known `localId` the response has the existing message.
pub async fn send(mut request: RoutedRequest) -> Reply {
    let id = request.load_session_for_message().await?;
    request.refuse_null_body()?;
    let body: SendBody = request.take_json()?;
    let mut text = String::new();
    if let Some(json) = &body.text {
        let (decoded, last_half) = read_lenient_text("text", json).map_err(Error::from)?;
        text = decoded;
        if last_half.is_some() {
            // The client has cut the text inside a character.
            text.push('\u{fffd}');
        }
    }
    let attachments: Vec<Attachment> =
        body.attachments.into_iter().flat_map(|List(files)| files).map(|Object(file)| file).collect();
    for (at, file) in attachments.iter().enumerate() {
        let field = format!("attachments[{at}].size");
        check_field(file.size <= MAX_SAFE_INTEGER, &field, format_args!("be at most {MAX_SAFE_INTEGER}"))?;
    }
    let attachments = Some(attachments).filter(|list| !list.is_empty());
    let (hold, has_attachments) = (body.hold == Some(true), attachments.is_some());
    if text.is_empty() && attachments.is_none() {
        return Err(Error::field("text", "Field `text` is required unless `attachments` are sent.").into());
    }
    check_field(text.len() <= MAX_TEXT_BYTES, "text", format_args!("have at most {MAX_TEXT_BYTES} bytes"))?;
    let attachments = attachments.map(|list| Json::of(&list));
    let content = [("type", Some(Json::of("text"))), ("text", Some(Json::of(&text))), ("attachments", attachments)];
    let meta = Json::object(&[("sentFrom", Json::of("web"))]);
    let members = [("role", Json::of("user")), ("content", Json::object_of_some(&content)), ("meta", meta)];
    let mut draft = Draft::new(id, body.local_id, Json::object(&members));
    draft.may_wait = hold && !has_attachments;
    let local_id = draft.local_id.clone();
    let added = request.hub.send_message(draft).await.map_err(|error| match error {
        Error::SessionInactive | Error::CliNotAlive if hold && has_attachments => Error::AttachmentsNotHeld,
        error => error,
    })?;
    let (ids, is_held, local_id, created_at) = match added {
        Added::Stored(MessageRef { id, seq, created_at }) => (Some((id, seq)), false, local_id, created_at),
        Added::Held(HeldMessage { local_id, created_at, .. }) => (None, true, Some(local_id), created_at),
    };
    let (id, seq) = ids.map(|(id, seq)| (Json::of(&id), Json::of(&seq))).unzip();
    let (local_id, created_at) = (Some(Json::of(&local_id)), Some(Json::of(&created_at)));
    let message = Json::object_of_some(&[("id", id), ("seq", seq), ("localId", local_id), ("createdAt", created_at)]);
    let held = is_held.then(|| Json::of(&true));
    let members = [("ok", Some(Json::of(&true))), ("held", held), ("message", Some(message))];
    Ok(ResponseText::serialize(&Json::object_of_some(&members)))
}

pub async fn list_held(request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let held = request.hub.list_held(&id).await?;
    let listed = |HeldMessage { local_id, created_at, content }: HeldMessage| {
        let text = JsonObject::of(Some(&content)).object("content").and_then(|content| content.text("text"));
        let text = text.unwrap_or_default();
        let members =
            [("localId", Json::of(&local_id)), ("text", Json::of(&text)), ("createdAt", Json::of(&created_at))];
        Json::object(&members)
    };
    Ok(ResponseText::wrap("messages", &held.into_iter().map(listed).collect::<Vec<_>>()))
}

pub async fn cancel_held(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let (id, local_id) = (request.load_session().await?, request.param("localId")?);
    acknowledge(request.hub.cancel_held(&id, &local_id).await)
}

// The queue: the messages that wait until the agent is free. The session's CLI keeps it.

#[derive(Deserialize)]
pub struct OrderBody {
    seqs: List<u64>,
}

#[derive(Deserialize)]
pub struct EditBody {
    text: String,
}

/// `POST /api/sessions/:id/queue`: the order in which the queued messages run.
pub async fn reorder_queue(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let OrderBody { seqs: List(seqs) } = request.take_json()?;
    check_field((1..=MAX_SEQS).contains(&seqs.len()), "seqs", format_args!("have 1 to {MAX_SEQS} numbers"))?;
    command_queue(request, &id, &[("action", Json::of("order")), ("seqs", Json::of(&seqs))]).await
}

/// `PATCH /api/sessions/:id/queue/:seq`: another text.
pub async fn edit_queued(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let seq = parse_seq(&request)?;
    let EditBody { text } = request.take_json()?;
    check_field((1..=MAX_TEXT_BYTES).contains(&text.len()), "text", format_args!("have 1 to {MAX_TEXT_BYTES} bytes"))?;
    command_queue(request, &id, &[("action", Json::of("edit")), ("seq", seq), ("text", Json::of(&text))]).await
}

pub async fn cancel_queued(request: RoutedRequest) -> Reply {
    command_queued_message(request, "cancel").await
}

/// `POST /api/sessions/:id/queue/:seq/send`: the agent gets the message at once.
pub async fn send_queued(request: RoutedRequest) -> Reply {
    command_queued_message(request, "send").await
}

async fn command_queued_message(mut request: RoutedRequest, action: &'static str) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    let seq = parse_seq(&request)?;
    command_queue(request, &id, &[("action", Json::of(action)), ("seq", seq)]).await
}

async fn command_queue(request: RoutedRequest, id: &str, command: &[(&str, Json)]) -> Reply {
    acknowledge(request.hub.command_queue(id, &Json::object(command)).await)
}

fn parse_seq(request: &RoutedRequest) -> Result<Json, ErrorResponse> {
    let seq = request.param("seq")?.parse::<u64>();
    let seq = seq.map_err(|_| Error::field("seq", "Path parameter `seq` must be the number of a message."))?;
    Ok(Json::of(&seq))
}
