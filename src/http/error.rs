//! Error responses: the only mapping from errors to HTTP status codes.

use http::StatusCode;

use crate::auth::token::Credential;
use crate::hub::core::error::{Error, Kind};
use crate::limits::{BODY_TIMEOUT_MS, MIN_PROGRESS_BYTES, PROGRESS_TIMEOUT_MS};
use crate::model::json::Json;
use crate::store::DbError;

/// What the operator does about a database without the schema.
const APPLY_MIGRATIONS: &str = "Run `npm run wrangler -- d1 migrations apply DB --local` (or `--remote` for a deployed hub), also for \
    `DB_2` and so on. `npm run dev` and `npm run deploy` do it for all.";

/// An error response with the body `{"error", "code", "field"?}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    pub status: StatusCode,
    /// Stable, in snake_case.
    pub code: &'static str,
    /// A sentence for users.
    pub message: String,
    /// The invalid field or query parameter.
    pub field: Option<String>,
    /// Seconds.
    pub retry_after: Option<u32>,
    /// The methods that the path supports, separated by commas.
    pub allow: Option<String>,
}

impl ErrorResponse {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), field: None, retry_after: None, allow: None }
    }

    pub fn unauthorized() -> Self {
        let message = "A valid token is required: `Authorization: Bearer <token>`.";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The response to a token whose credential was revoked.
    pub fn revoked(credential: &Credential) -> Self {
        match credential {
            Credential::Device(_) => Error::DeviceRevoked.into(),
            Credential::Shared | Credential::Generation(_) => Self::unauthorized(),
        }
    }

    pub fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "No route has this path. Check its spelling.")
    }

    /// `allow` are the supported methods, separated by commas.
    pub fn method_not_allowed(allow: String) -> Self {
        let message = "This path does not support the method. The header `Allow` lists the supported ones.";
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message) }
    }

    pub fn body_too_large(limit: usize) -> Self {
        let message = format!("The request body has more than the limit of {limit} bytes. Send a smaller one.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub fn body_stalled() -> Self {
        let (kib, seconds) = (MIN_PROGRESS_BYTES / 1024, PROGRESS_TIMEOUT_MS / 1000);
        let total = BODY_TIMEOUT_MS / 1000;
        let message = format!(
            "The request body was too slow: less than {kib} KiB in {seconds} seconds, or more than {total} seconds for all \
            of it. Try again with a faster connection."
        );
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_stalled", message)
    }

    pub fn rate_limited(seconds: u32) -> Self {
        let message = format!("Too many attempts. Try again in {seconds} seconds.");
        let response = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        Self { retry_after: Some(seconds), ..response }
    }

    /// The response of an object whose namespace has another object since `HUB_JURISDICTION` was changed.
    pub fn object_replaced() -> Self {
        Self::hub_unavailable(
            "The namespace has moved to an object in another jurisdiction. Try again in a few seconds.",
        )
    }

    pub fn namespace_closed() -> Self {
        Self::hub_unavailable(
            "The operator imports, moves or deletes this namespace. Try again later. If the operator's command was interrupted, it must be run again.",
        )
    }

    pub fn hub_unavailable(message: impl Into<String>) -> Self {
        let response = Self::new(StatusCode::SERVICE_UNAVAILABLE, "hub_unavailable", message);
        Self { retry_after: Some(1), ..response }
    }

    /// A setting of the deployment is missing or invalid; `message` names it.
    pub fn not_configured(message: impl Into<String>) -> Self {
        Self { code: "not_configured", ..Self::hub_unavailable(message) }
    }

    /// Whether another attempt may succeed: the database or another part of the hub is unavailable, or there were too many attempts.
    pub fn is_unavailable(&self) -> bool {
        [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&self.status)
    }

    pub fn body(&self) -> String {
        let (error, code) = (Some(Json::of(&self.message)), Some(Json::of(self.code)));
        let field = self.field.as_ref().map(Json::of);
        Json::object_of_some(&[("error", error), ("code", code), ("field", field)]).text().to_owned()
    }
}

impl From<DbError> for ErrorResponse {
    fn from(error: DbError) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for ErrorResponse {
    fn from(error: Error) -> Self {
        let message = match &error {
            Error::NotFound(Kind::Machine) => {
                "No such machine. Register it with `POST /cli/machines`, or read the list of machines again.".to_owned()
            }
            Error::NoSchema => format!("{error} {APPLY_MIGRATIONS}"),
            error => error.to_string(),
        };
        let (status, code) = match &error {
            Error::NotFound(Kind::Session) => (StatusCode::NOT_FOUND, "session_not_found"),
            Error::NotFound(Kind::Machine) => (StatusCode::NOT_FOUND, "machine_not_found"),
            Error::NotFound(Kind::Subscription) => (StatusCode::NOT_FOUND, "subscription_not_found"),
            Error::NotFound(Kind::Request) => (StatusCode::NOT_FOUND, "request_not_found"),
            Error::NotFound(Kind::Device) => (StatusCode::NOT_FOUND, "device_not_found"),
            Error::InvalidAnswerToken => (StatusCode::UNAUTHORIZED, "invalid_answer_token"),
            Error::AnswerTokenExpired => (StatusCode::GONE, "answer_token_expired"),
            Error::AnswerTokenUsed => (StatusCode::GONE, "answer_token_used"),
            Error::RequestChanged => (StatusCode::CONFLICT, "request_changed"),
            Error::Unsubscribed => (StatusCode::GONE, "push_unsubscribed"),
            Error::DeviceRevoked => (StatusCode::UNAUTHORIZED, "device_revoked"),
            Error::NotFound(Kind::HeldMessage) => (StatusCode::NOT_FOUND, "held_message_not_found"),
            Error::UnknownCode => (StatusCode::NOT_FOUND, "unknown_code"),
            Error::PairingDenied => (StatusCode::FORBIDDEN, "request_denied"),
            Error::AlreadyDecided => (StatusCode::CONFLICT, "already_decided"),
            Error::TooManyCodes => (StatusCode::CONFLICT, "too_many_codes"),
            Error::TooManyDevices => (StatusCode::CONFLICT, "too_many_devices"),
            Error::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Error::ModeForbidden(_) => (StatusCode::BAD_REQUEST, "mode_forbidden"),
            Error::InvalidField(_) => (StatusCode::BAD_REQUEST, "invalid_field"),
            Error::InvalidBody(_) => (StatusCode::BAD_REQUEST, "invalid_body"),
            Error::InvalidPath { .. } => (StatusCode::BAD_REQUEST, "invalid_path"),
            Error::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Error::SessionInactive | Error::CliAway | Error::CliNotAlive => (StatusCode::CONFLICT, "session_inactive"),
            Error::AttachmentsNotHeld => (StatusCode::CONFLICT, "attachments_not_held"),
            Error::TooManyHeldMessages => (StatusCode::CONFLICT, "too_many_held_messages"),
            Error::CliUnreachable(_) | Error::MethodNotRegistered(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "cli_unreachable")
            }
            Error::RpcTimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, "rpc_timeout"),
            Error::CliRefused(_) => (StatusCode::SERVICE_UNAVAILABLE, "cli_refused"),
            Error::UntrustedDirectory(_) => (StatusCode::CONFLICT, "untrusted_directory"),
            Error::NoMachineOnline => (StatusCode::SERVICE_UNAVAILABLE, "no_machine_online"),
            Error::ResumeUnavailable => (StatusCode::CONFLICT, "resume_unavailable"),
            Error::ResumeFailed => (StatusCode::GATEWAY_TIMEOUT, "resume_failed"),
            Error::ModeNotApplied(_) => (StatusCode::CONFLICT, "mode_not_applied"),
            Error::OptionNotApplied(_) => (StatusCode::CONFLICT, "option_not_applied"),
            Error::NotQueued => (StatusCode::CONFLICT, "not_queued"),
            Error::PathCheckFailed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "check_failed"),
            Error::UploadFailed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "upload_failed"),
            Error::UploadStalled | Error::UploadTooSlow => (StatusCode::REQUEST_TIMEOUT, "upload_stalled"),
            Error::SessionActive | Error::CliConnected => (StatusCode::CONFLICT, "session_active"),
            Error::TooManySessions(_) => (StatusCode::CONFLICT, "too_many_sessions"),
            Error::NamespaceNotEmpty => (StatusCode::CONFLICT, "namespace_not_empty"),
            Error::StorageFull => (StatusCode::CONFLICT, "storage_full"),
            Error::TooManyMessages { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_messages"),
            Error::VersionConflict { .. } => (StatusCode::CONFLICT, "version_conflict"),
            Error::Unavailable(_) | Error::NoSchema | Error::DatabaseRejected => {
                (StatusCode::SERVICE_UNAVAILABLE, "hub_unavailable")
            }
            Error::RenameFailed => (StatusCode::INTERNAL_SERVER_ERROR, "rename_failed"),
            Error::Overloaded | Error::TooManyMachines(_) | Error::TooManyUploads(_) | Error::MemoryInUse => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
            }
        };
        let field = match &error {
            Error::InvalidField(cause) => Some(cause.field.clone()),
            Error::InvalidPath { field, .. } | Error::ModeForbidden(field) => Some((*field).to_owned()),
            _ => None,
        };
        let retry_after = match error {
            Error::TooManyMessages { wait_ms } => u32::try_from(wait_ms.div_ceil(1000)).ok(),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        Self { status, code, message, field, retry_after, allow: None }
    }
}
