//! `/api/sessions/:id/permissions`: answers to permission requests, the full content of shortened requests, and the rules that
//! approvals for the whole session have created. Also `/api/answers`: answers from notifications. The routes of answers
//! also exist with the request's id in the body, because browsers and proxies resolve an id such as `..` in a path.

use super::edge::Edge;
use super::error::ErrorResponse;
use super::extract::{RoutedRequest, parse_body};
use super::response::{Reply, acknowledge};
use crate::auth::answer_token::AnswerKey;
use crate::hub::core::error::{Error, check_field};
use crate::hub::sessions::lifecycle::check_reason;
use crate::hub::sessions::permissions::PermissionAnswer;
use crate::memory_budget::ResponseText;
use crate::model::agent_state::Decision;
use crate::model::json::{Json, JsonObject};
use crate::model::method::Method;
use crate::model::namespace::Namespace;
use crate::wire::field_types::{List, keyword, optional_keyword};
use serde::Deserialize;
use serde::de::DeserializeOwned;

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

/// `POST /api/sessions/:id/permissions/:requestId/approve` and `POST /api/sessions/:id/permissions/approve`: approves a permission
/// request, or denies it if the decision is `denied` or `abort`.
pub async fn approve(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let (request_id, body) = take_answer(&mut request, |body: &mut ApproveBody| body.request_id.take())?;
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
    acknowledge(request.hub.answer_permission(&id, &request_id, answer).await)
}

pub async fn deny(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let (request_id, body) = take_answer(&mut request, |body: &mut DenyBody| body.request_id.take())?;
    let is_denial = !matches!(body.decision, Some(Decision::Approved | Decision::ApprovedForSession));
    check_field(is_denial, "decision", format_args!("be `denied` or `abort`"))?;
    check_reason(body.reason.as_deref())?;
    let answer = PermissionAnswer { decision: body.decision, reason: body.reason, ..PermissionAnswer::default() };
    acknowledge(request.hub.answer_permission(&id, &request_id, answer).await)
}

/// Takes the body of an answer, and the id of the permission request from the path or else from the body.
fn take_answer<T: DeserializeOwned>(
    request: &mut RoutedRequest,
    take_id: fn(&mut T) -> Option<String>,
) -> Result<(String, T), ErrorResponse> {
    if let Ok(id) = request.param("requestId") {
        return Ok((id, request.take_json()?));
    }
    request.refuse_null_body()?;
    let mut body = request.take_json()?;
    let id = take_id(&mut body).ok_or_else(|| Error::field("requestId", "Field `requestId` is required."))?;
    Ok((id, body))
}

/// `GET .../permissions/:requestId/content` and `DELETE .../permissions/rules/:ruleId`: return the CLI's response unchanged.
pub async fn forward_to_cli(mut request: RoutedRequest) -> Reply {
    request.discard_body();
    let workspace = request.load_workspace().await?;
    let (method, id) = match request.param("ruleId") {
        Ok(rule) => (Method::RevokeSessionRule, rule),
        Err(_) => (Method::ReadPermissionRequest, request.param("requestId")?),
    };
    let part = request.query()?.number("part", 0..=u64::from(u32::MAX))?.unwrap_or(0);
    let params = Json::object(&[("id", Json::of(&id)), ("part", Json::of(&part))]);
    Ok(ResponseText::of(request.hub.call_or_failure(&workspace.session, method, &params).await))
}

#[derive(Deserialize)]
struct AnswerBody {
    token: String,
    #[serde(deserialize_with = "keyword")]
    decision: AnswerDecision,
}

/// An answer from a notification is for one request only.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum AnswerDecision {
    Approved,
    Denied,
}

/// `POST /api/answers`: answers a permission request from a notification. The only route of the object without a bearer token: the
/// token in the body is its authentication, which worker and object both verify.
pub async fn answer_by_token(mut request: RoutedRequest) -> Reply {
    let AnswerBody { token, decision } = request.take_json()?;
    acknowledge(request.hub.answer_by_token(&token, decision == AnswerDecision::Approved).await)
}

impl Edge {
    /// Verifies the token of an answer before an object is called. Returns its namespace.
    pub async fn verify_answer(&self, body: &[u8], now_ms: u64) -> Result<Namespace, ErrorResponse> {
        let AnswerBody { token, .. } = parse_body(body)?;
        let key = AnswerKey::derive(&self.authentication.load_jwt_key().await?);
        Ok(key.verify(&token, now_ms).map_err(Error::from)?.namespace)
    }
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
