//! `POST /api/sessions/:id/permissions/:requestId/approve` and `.../deny`.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::JsonText;
use super::error::Refusal;
use super::extract::{JsonBody, OwnedSession, RequestId};
use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::sessions::lifecycle::check_reason;
use crate::hub::sessions::permissions::PermissionAnswer;
use crate::model::agent_state::Decision;
use crate::model::json::{Json, JsonObject};
use crate::wire::field_types::{List, optional_keyword};

/// The body of `POST /api/sessions/:id/permissions/:requestId/approve`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approve {
    mode: Option<String>,
    allow_tools: Option<List<String>>,
    #[serde(default, deserialize_with = "optional_keyword")]
    decision: Option<Decision>,
    answers: Option<Json>,
}

/// The body of `POST /api/sessions/:id/permissions/:requestId/deny`.
#[derive(Deserialize)]
pub struct Deny {
    #[serde(default, deserialize_with = "optional_keyword")]
    decision: Option<Decision>,
    reason: Option<String>,
}

/// Approves a request; with the decision `denied` or `abort` it is a denial.
pub async fn approve(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    RequestId(request): RequestId,
    JsonBody(body): JsonBody<Approve>,
) -> Result<JsonText, Refusal> {
    if let Some(answers) = &body.answers {
        check_answers(answers)?;
    }
    let answer = match body.decision {
        // A denial grants nothing.
        Some(Decision::Denied | Decision::Abort) => {
            PermissionAnswer { decision: body.decision, ..PermissionAnswer::default() }
        }
        decision => PermissionAnswer {
            approved: true,
            mode: body.mode,
            allow_tools: body.allow_tools.map(|List(tools)| tools),
            decision,
            answers: body.answers,
            reason: None,
        },
    };
    hub.answer_permission(&id, &request, answer).await?;
    Ok(JsonText::ok())
}

/// Denies a request.
pub async fn deny(
    State(hub): State<Arc<Hub>>,
    OwnedSession(id): OwnedSession,
    RequestId(request): RequestId,
    JsonBody(body): JsonBody<Deny>,
) -> Result<JsonText, Refusal> {
    if matches!(body.decision, Some(Decision::Approved | Decision::ApprovedForSession)) {
        return Err(Error::field("decision", "Field `decision` must be `denied` or `abort`.").into());
    }
    check_reason(body.reason.as_deref())?;
    let answer = PermissionAnswer { decision: body.decision, reason: body.reason, ..PermissionAnswer::default() };
    hub.answer_permission(&id, &request, answer).await?;
    Ok(JsonText::ok())
}

/// A map of texts to lists of texts, or to objects with such a list under `answers`.
fn check_answers(answers: &Json) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Nested {
        #[serde(rename = "answers")]
        _answers: List<String>,
    }
    let members = JsonObject::parse(answers.text());
    let list = |text: &str| serde_json::from_str::<List<String>>(text).is_ok();
    let nested = |text: &str| text.starts_with('{') && serde_json::from_str::<Nested>(text).is_ok();
    let all = |fits: &dyn Fn(&str) -> bool| members.as_ref().is_some_and(|m| m.members().all(|(_, v)| fits(v.get())));
    if all(&list) || all(&nested) {
        return Ok(());
    }
    let message = "Field `answers` must map each question to a list of texts, or to an object {answers: [texts]}.";
    Err(Error::field("answers", message))
}
