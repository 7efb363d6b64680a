//! `/api/namespaces`: what the operator does with a namespace. The token is the shared secret with the name of the namespace.

use super::error::ErrorResponse;
use super::extract::RoutedRequest;
use super::response::Reply;
use crate::auth::token::Credential;
use crate::hub::core::error::Error;
use crate::hub::namespace::databases::MoveStep;
use crate::hub::namespace::rows::ExportPosition;
use crate::memory_budget::ResponseText;
use crate::model::json::Json;
use crate::store::DbError;
use crate::store::places::{Databases, binding, count_namespaces};
use http::StatusCode;
use serde::Deserialize;

/// The body of an import. Parsed by hand as far as possible, because each type adds to the wasm.
#[derive(Deserialize)]
pub struct ImportBody {
    /// `begin` closes the namespace, which must have no rows; `continue` closes it although it has rows of an import that was
    /// interrupted; `rows` imports rows; `end` opens the namespace.
    step: String,
    rows: Option<Json>,
}

#[derive(Deserialize)]
pub struct MoveBody {
    /// The binding of the database to move to.
    to: String,
}

/// Checks that the worker has verified the shared secret. A worker of an earlier version forwards these paths with any token.
pub fn require_operator(request: &RoutedRequest) -> Result<(), ErrorResponse> {
    match request.credential() {
        Some(Credential::Shared) => Ok(()),
        _ => Err(ErrorResponse::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "Only the shared secret CLI_API_TOKEN allows this.",
        )),
    }
}

pub async fn show_generation(request: RoutedRequest) -> Reply {
    Ok(ResponseText::wrap("generation", &request.hub.access.load_generation().await?))
}

pub async fn revoke(request: RoutedRequest) -> Reply {
    Ok(ResponseText::wrap("generation", &request.hub.revoke_namespace().await?))
}

pub async fn export(request: RoutedRequest) -> Reply {
    let query = request.query()?;
    let cursor = query.text("cursor")?;
    let position = cursor.map_or_else(|| Some(ExportPosition::start()), ExportPosition::parse);
    let position = position
        .ok_or_else(|| Error::field("cursor", "Query parameter `cursor` must be `next` of the page before."))?;
    Ok(ResponseText::of(request.hub.export_page(position).await?))
}

pub async fn import(mut request: RoutedRequest) -> Reply {
    let body: ImportBody = request.take_json()?;
    match body.step.as_str() {
        "begin" => request.hub.begin_import(false).await?,
        "continue" => request.hub.begin_import(true).await?,
        "rows" => request.hub.import_rows(&body.rows.unwrap_or_else(Json::null)).await?,
        "end" => request.hub.end_import().await?,
        _ => {
            let message = "Field `step` must be `begin`, `continue`, `rows` or `end`.";
            return Err(Error::field("step", message).into());
        }
    }
    Ok(ResponseText::ok())
}

/// The response of an operation that must be continued.
fn progress(members: &[(&str, Json)]) -> ResponseText {
    ResponseText::serialize(&Json::object(&[&[("isDone", Json::of(&false))], members].concat()))
}

pub async fn delete(request: RoutedRequest) -> Reply {
    Ok(match request.hub.delete_part().await? {
        Some(sessions) => progress(&[("remainingSessions", Json::of(&sessions))]),
        None => ResponseText::wrap("isDone", &true),
    })
}

pub async fn relocate(mut request: RoutedRequest) -> Reply {
    let body: MoveBody = request.take_json()?;
    let (step, sessions) = match request.hub.move_part(&body.to).await? {
        MoveStep::Copying(sessions) => ("copying", sessions),
        MoveStep::Closed(sessions) => ("closed", sessions),
        MoveStep::Deleting(sessions) => ("deleting", sessions),
        MoveStep::Done => return Ok(ResponseText::wrap("isDone", &true)),
    };
    Ok(progress(&[("step", Json::of(step)), ("remainingSessions", Json::of(&sessions))]))
}

/// `GET /api/namespaces/databases`. A database that fails is listed with its error. Fails if all databases fail.
pub async fn list_databases(databases: &Databases) -> Result<Vec<Json>, DbError> {
    let mut list = Vec::new();
    let mut failures = Vec::new();
    for number in databases.numbers() {
        let (name, db, is_open) = (binding(number), databases.get(number)?, databases.is_open(number));
        let counted = async { Ok::<_, DbError>((db.size().await?, count_namespaces(&**db).await?)) }.await;
        let error = counted.as_ref().err().map(|error| ("error", Json::of(&error.to_string())));
        let (bytes, namespaces) = counted.map_err(|error| failures.push(error)).ok().unzip();
        let counts = [("bytes", Json::of(&bytes)), ("namespaces", Json::of(&namespaces))];
        let members = [("name", Json::of(&name))].into_iter().chain(counts).chain(error);
        list.push(Json::object(&members.chain([("isOpen", Json::of(&is_open))]).collect::<Vec<_>>()));
    }
    match failures.pop() {
        Some(failure) if failures.len() + 1 == list.len() => Err(failure),
        _ => Ok(list),
    }
}
