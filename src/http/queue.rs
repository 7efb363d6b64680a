//! `/api/sessions/:id/queue`: commands about the messages that wait until the agent is free. The session's CLI keeps the queue.

use serde::Deserialize;

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::limits::MAX_TEXT_BYTES;
use crate::model::json::Json;
use crate::wire::field_types::List;

/// The most messages that one order names.
const MAX_SEQS: usize = 1000;

#[derive(Deserialize)]
pub struct OrderBody {
    seqs: List<u64>,
}

#[derive(Deserialize)]
pub struct EditBody {
    text: String,
}

/// `POST /api/sessions/:id/queue`: the order in which the queued messages run.
pub async fn reorder(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let OrderBody { seqs: List(seqs) } = request.take_json()?;
    if !(1..=MAX_SEQS).contains(&seqs.len()) {
        return Err(Error::field("seqs", format!("Field `seqs` must have 1 to {MAX_SEQS} numbers.")).into());
    }
    run(request, &id, &[("action", Json::of("order")), ("seqs", Json::of(&seqs))]).await
}

/// `PATCH /api/sessions/:id/queue/:seq`: another text.
pub async fn edit(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let seq = parse_seq(&request)?;
    let EditBody { text } = request.take_json()?;
    if text.is_empty() || text.len() > MAX_TEXT_BYTES {
        return Err(Error::field("text", format!("Field `text` must have 1 to {MAX_TEXT_BYTES} bytes.")).into());
    }
    run(request, &id, &[("action", Json::of("edit")), ("seq", seq), ("text", Json::of(&text))]).await
}

/// `DELETE /api/sessions/:id/queue/:seq`.
pub async fn cancel(request: RoutedRequest) -> Reply {
    run_for_message(request, "cancel").await
}

/// `POST /api/sessions/:id/queue/:seq/send`: the agent gets the message at once.
pub async fn send_now(request: RoutedRequest) -> Reply {
    run_for_message(request, "send").await
}

async fn run_for_message(mut request: RoutedRequest, action: &'static str) -> Reply {
    request.discard_body();
    let id = request.load_session().await?;
    let seq = parse_seq(&request)?;
    run(request, &id, &[("action", Json::of(action)), ("seq", seq)]).await
}

async fn run(request: RoutedRequest, id: &str, command: &[(&str, Json)]) -> Reply {
    request.hub.command_queue(id, &Json::object(command)).await?;
    Ok(JsonText::ok())
}

fn parse_seq(request: &RoutedRequest) -> Result<Json, super::error::ErrorResponse> {
    let seq = request.param("seq")?.parse::<u64>();
    let seq = seq.map_err(|_| Error::field("seq", "Path parameter `seq` must be the number of a message."))?;
    Ok(Json::of(&seq))
}
