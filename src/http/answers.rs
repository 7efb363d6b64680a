//! `POST /api/answers`: answers a permission request from a notification. The only route of the object without a bearer token: the
//! token in the body is its authentication, which worker and object both verify.

use serde::Deserialize;

use super::authentication::GenerateSecret;
use super::edge::Edge;
use super::error::ErrorResponse;
use super::extract::{RoutedRequest, parse_body};
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::model::namespace::Namespace;
use crate::wire::field_types::keyword;

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

pub async fn answer(mut request: RoutedRequest) -> Reply {
    let AnswerBody { token, decision } = request.take_json()?;
    request.hub.answer_by_token(&token, decision == AnswerDecision::Approved).await?;
    Ok(JsonText::ok())
}

impl Edge {
    /// Verifies the token of an answer before an object is called. Returns its namespace.
    pub async fn verify_answer(
        &self,
        body: &[u8],
        now_ms: u64,
        generate_secret: &GenerateSecret,
    ) -> Result<Namespace, ErrorResponse> {
        let AnswerBody { token, .. } = parse_body(body)?;
        let key = self.authentication.load_answer_key(generate_secret).await?;
        Ok(key.verify(&token, now_ms).map_err(Error::from)?.namespace)
    }
}
