//! Why the hub did not do what it was asked; `http::error` maps each to a status.

use thiserror::Error;

use super::rpc::RpcError;
use crate::model::json::Flaw;
use crate::store::DbError;
use crate::wire::fields::FieldError;

/// What an id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Session,
    Machine,
    Subscription,
    Request,
}

impl Kind {
    /// The noun for sentences and for the `scope` of `error` events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Machine => "machine",
            Self::Subscription => "subscription",
            Self::Request => "pending permission request",
        }
    }
}

/// A refusal, as a sentence for the person who asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    #[error("No such {}.", .0.word())]
    Missing(Kind),
    #[error("This {} belongs to another namespace.", .0.word())]
    Foreign(Kind),
    #[error("{0}")]
    Invalid(FieldError),
    #[error("The request body must be a JSON object. {0}")]
    InvalidBody(String),
    #[error("`{field}` must be a relative path inside the session's directory, without `..` segments: {reason}.")]
    InvalidPath { field: &'static str, reason: &'static str },
    #[error("The {what} is larger than {limit} bytes.")]
    TooLarge { what: &'static str, limit: usize },
    #[error(
        "The session is not active: its CLI is not connected, or was aborted and has not reported itself alive again."
    )]
    SessionInactive,
    #[error("The CLI could not be reached: {0}. Is it still running?")]
    CliUnreachable(String),
    #[error("The CLI did not answer in time: {0}.")]
    RpcTimedOut(String),
    #[error("The CLI refused: {0}")]
    CliRefused(String),
    #[error("No machine is online that could resume the session. Start a runner on its machine.")]
    NoMachineOnline,
    #[error("The session can't be resumed: its metadata holds no agent-side session id.")]
    ResumeUnavailable,
    #[error("The session did not become active in time after the machine was asked to resume it.")]
    ResumeFailed,
    #[error("The CLI did not apply the mode: {0}")]
    NotApplied(String),
    #[error("The paths could not be checked: {0}")]
    CheckFailed(String),
    #[error("The upload failed: {0}")]
    UploadFailed(String),
    #[error("The upload came too slowly: less than a megabyte in {0} seconds.")]
    UploadStalled(u64),
    #[error("The session is active. Archive it first, then delete it.")]
    SessionActive,
    #[error(
        "The metadata changed meanwhile: expected version {expected}, found {found}. Read the session and try again."
    )]
    VersionConflict { expected: u64, found: u64 },
    #[error("{0}")]
    Unavailable(String),
    #[error("The database refused to store or read the data. Nothing was changed.")]
    NotStored,
    #[error("The session could not be renamed: the database refused the new name. Nothing was changed.")]
    RenameFailed,
    #[error("The hub has more to write than its database takes at the moment. Try again in a few seconds.")]
    Overloaded,
    #[error("{0} Try again in a few seconds.")]
    UploadsWait(&'static str),
}

impl Error {
    /// An error on a request's body, as a whole or on one of its fields.
    pub fn from_body(error: FieldError) -> Self {
        if error.field.is_empty() { Self::InvalidBody(error.message) } else { Self::Invalid(error) }
    }

    /// An error on one field.
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid(FieldError::new(field, message))
    }
}

impl From<Flaw> for Error {
    fn from(Flaw { field, reason }: Flaw) -> Self {
        let message = format!("Field `{field}` {reason}.");
        Self::Invalid(FieldError { field, message })
    }
}

impl From<RpcError> for Error {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::TimedOut(method) => Self::RpcTimedOut(method),
            other => Self::CliUnreachable(other.to_string()),
        }
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        match error {
            DbError::NoSchema(_) => Self::Unavailable(
                "The database has no schema yet. Run `npm run wrangler -- d1 migrations apply DB --local` \
                (or `--remote` for a deployed hub); `npm run dev` does it by itself."
                    .into(),
            ),
            DbError::Retryable(_) | DbError::Silent(_) => {
                Self::Unavailable("The database is unreachable for the moment. Try again in a few seconds.".into())
            }
            DbError::Refused(_) => Self::NotStored,
        }
    }
}
