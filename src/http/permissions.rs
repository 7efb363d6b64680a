//! `/api/sessions/:id/permissions`: answers to permission requests, the full content of shortened requests, and the rules that
//! approvals for the whole session have created. The routes of answers also exist with the request's id in the body, because
//! browsers and proxies resolve an id such as `..` in a path.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::sessions::lifecycle::check_reason;
use crate::hub::sessions::permissions::PermissionAnswer;
use crate::model::agent_state::Decision;
use crate::model::json::{Json, JsonObject};
use crate::model::method::Method;
use crate::wire::field_types::{List, optional_keyword};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApproveBody {
    /// Required in the route without `:requestId`.
    request_id: Option<String>,
    mode: Option<String>,
    allow_tools: Option<List<String>>,
    #[serde(default, deserialize_with = "optional_keyword")]
    decision: Option<Decision>,
    answers: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DenyBody {
    /// Required in the route without `:requestId`.
    request_id: Option<String>,
    #[serde(default, deserialize_with = "optional_keyword")]
    decision: Option<Decision>,
    reason: Option<String>,
}

/// `POST /api/sessions/:id/permissions/:requestId/approve`.
pub async fn approve(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let request_id = request.param("requestId")?;
    let body: ApproveBody = request.take_json()?;
    approve_request(&request.hub, &id, &request_id, body).await
}

/// `POST /api/sessions/:id/permissions/approve`.
pub async fn approve_by_body(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    request.refuse_null_body()?;
    let mut body: ApproveBody = request.take_json()?;
    let request_id = require_request_id(body.request_id.take())?;
    approve_request(&request.hub, &id, &request_id, body).await
}

/// `POST /api/sessions/:id/permissions/:requestId/deny`.
pub async fn deny(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let request_id = request.param("requestId")?;
    let body: DenyBody = request.take_json()?;
    deny_request(&request.hub, &id, &request_id, body).await
}

/// `POST /api/sessions/:id/permissions/deny`.
pub async fn deny_by_body(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    request.refuse_null_body()?;
    let mut body: DenyBody = request.take_json()?;
    let request_id = require_request_id(body.request_id.take())?;
    deny_request(&request.hub, &id, &request_id, body).await
}

#[derive(Serialize)]
struct ContentParams<'a> {
    id: &'a str,
    part: u64,
}

/// `GET /api/sessions/:id/permissions/:requestId/content` and `DELETE /api/sessions/:id/permissions/rules/:ruleId`: return the
/// CLI's response unchanged.
pub async fn forward_to_cli(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let w = request.load_workspace().await?;
    let (method, id) = match request.param("ruleId") {
        Ok(rule) => (Method::RevokeSessionRule, rule),
        Err(_) => (Method::ReadPermissionRequest, request.param("requestId")?),
    };
    let part = request.query()?.number("part", 0..=u64::from(u32::MAX))?.unwrap_or(0);
    let params = Json::of(&ContentParams { id: &id, part });
    Ok(JsonText::of(request.hub.call_method(&w, method, params.text()).await))
}

fn require_request_id(id: Option<String>) -> Result<String, Error> {
    id.ok_or_else(|| Error::field("requestId", "Field `requestId` is required."))
}

/// Approves a permission request, or denies it if the decision is `denied` or `abort`.
async fn approve_request(hub: &Arc<Hub>, id: &str, request: &str, body: ApproveBody) -> Reply {
    if let Some(answers) = &body.answers {
        check_answers(answers)?;
    }
    let answer = PermissionAnswer {
        approved: !matches!(body.decision, Some(Decision::Denied | Decision::Abort)),
        mode: body.mode,
        allow_tools: body.allow_tools.map(|List(tools)| tools),
        decision: body.decision,
        answers: body.answers,
        reason: None,
    };
    hub.answer_permission(id, request, answer).await?;
    Ok(JsonText::ok())
}

async fn deny_request(hub: &Arc<Hub>, id: &str, request: &str, body: DenyBody) -> Reply {
    if matches!(body.decision, Some(Decision::Approved | Decision::ApprovedForSession)) {
        return Err(Error::field("decision", "Field `decision` must be `denied` or `abort`.").into());
    }
    check_reason(body.reason.as_deref())?;
    let answer = PermissionAnswer { decision: body.decision, reason: body.reason, ..PermissionAnswer::default() };
    hub.answer_permission(id, request, answer).await?;
    Ok(JsonText::ok())
}

/// Validates `answers`: a map from question to array of strings, or to an object `{answers: array of strings}`.
fn check_answers(answers: &Json) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Nested {
        #[serde(rename = "answers")]
        _answers: List<String>,
    }
    let members = JsonObject::parse(answers.text());
    let is_array = |text: &str| serde_json::from_str::<List<String>>(text).is_ok();
    let is_nested = |text: &str| text.starts_with('{') && serde_json::from_str::<Nested>(text).is_ok();
    let all =
        |is_valid: &dyn Fn(&str) -> bool| members.as_ref().is_some_and(|m| m.members().all(|(_, v)| is_valid(v.get())));
    if all(&is_array) || all(&is_nested) {
        return Ok(());
    }
    let message = "Field `answers` must map each question to an array of strings, or to an object with such an array in `answers`.";
    Err(Error::field("answers", message))
}
