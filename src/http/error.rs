//! The one map from errors to HTTP: status, stable code, sentence.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::hub::error::{Error, Kind};

/// An answer that refuses: `{"error": <sentence>, "code": <stable snake_case word>}`, and `field` where one is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// The stable word for programs.
    pub code: &'static str,
    /// The sentence for a person.
    pub message: String,
    /// The field or query parameter at fault.
    pub field: Option<String>,
    /// The value of `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
}

impl Refusal {
    /// A refusal without a field.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), field: None, retry_after: None }
    }

    /// No or no good token.
    pub fn unauthorized() -> Self {
        let message = "A valid token is required: `Authorization: Bearer <token>`.";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// No such route.
    pub fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path.")
    }

    /// A known route asked with another method.
    pub fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "This path does not take that method: see `Allow`.",
        )
    }

    /// A body above its limit.
    pub fn body_too_large(limit: usize) -> Self {
        let message = format!("The request body is larger than {limit} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    /// A body that came too slowly.
    pub fn body_stalled() -> Self {
        let message = "The request body came too slowly: less than 64 KiB in 15 seconds.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_stalled", message)
    }

    /// Too many requests from one address.
    pub fn rate_limited(seconds: u32) -> Self {
        let message = format!("Too many attempts. Try again in {seconds} seconds.");
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        Self { retry_after: Some(seconds), ..refusal }
    }

    /// The hub can't be reached.
    pub fn hub_unavailable(message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "hub_unavailable", message);
        Self { retry_after: Some(1), ..refusal }
    }

    /// The hub is not configured as it has to be; the sentence names the variable or binding.
    pub fn not_configured(message: impl Into<String>) -> Self {
        Self { code: "not_configured", ..Self::hub_unavailable(message) }
    }

    /// The body as JSON text.
    pub fn body(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a> {
            error: &'a str,
            code: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            field: Option<&'a str>,
        }
        let body = Body { error: &self.message, code: self.code, field: self.field.as_deref() };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let (status, code) = match &error {
            Error::Missing(Kind::Session) => (StatusCode::NOT_FOUND, "session_not_found"),
            Error::Missing(Kind::Machine) => (StatusCode::NOT_FOUND, "machine_not_found"),
            Error::Missing(Kind::Subscription) => (StatusCode::NOT_FOUND, "subscription_not_found"),
            Error::Missing(Kind::Request) => (StatusCode::NOT_FOUND, "request_not_found"),
            Error::Foreign(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid_field"),
            Error::InvalidBody(_) => (StatusCode::BAD_REQUEST, "invalid_body"),
            Error::InvalidPath { .. } => (StatusCode::BAD_REQUEST, "invalid_path"),
            Error::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Error::SessionInactive => (StatusCode::CONFLICT, "session_inactive"),
            Error::CliUnreachable(_) => (StatusCode::SERVICE_UNAVAILABLE, "cli_unreachable"),
            Error::RpcTimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, "rpc_timeout"),
            Error::CliRefused(_) => (StatusCode::SERVICE_UNAVAILABLE, "cli_refused"),
            Error::NoMachineOnline => (StatusCode::SERVICE_UNAVAILABLE, "no_machine_online"),
            Error::ResumeUnavailable => (StatusCode::CONFLICT, "resume_unavailable"),
            Error::ResumeFailed => (StatusCode::GATEWAY_TIMEOUT, "resume_failed"),
            Error::NotApplied(_) => (StatusCode::CONFLICT, "mode_not_applied"),
            Error::CheckFailed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "check_failed"),
            Error::UploadFailed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "upload_failed"),
            Error::UploadStalled { .. } => (StatusCode::REQUEST_TIMEOUT, "upload_stalled"),
            Error::SessionActive => (StatusCode::CONFLICT, "session_active"),
            Error::VersionConflict { .. } => (StatusCode::CONFLICT, "version_conflict"),
            Error::Unavailable(_) | Error::NotStored => (StatusCode::SERVICE_UNAVAILABLE, "hub_unavailable"),
            Error::RenameFailed => (StatusCode::INTERNAL_SERVER_ERROR, "rename_failed"),
            Error::Overloaded | Error::TooManyMachines(_) | Error::UploadsWait(_) | Error::AnswersWait => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
            }
        };
        let field = match &error {
            Error::Invalid(cause) => Some(cause.field.clone()),
            Error::InvalidPath { field, .. } => Some((*field).to_owned()),
            _ => None,
        };
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        Self { status, code, message, field, retry_after }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/json")], self.body()).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
