//! The errors of the hub. `http::error` maps them to statuses and codes, `inbound::replies` to codes for CLIs.

use thiserror::Error;

use super::peers::rpc::RpcError;
use super::ports::RandomSourceError;
use crate::limits::{MIN_PROGRESS_BYTES, RESUME_TIMEOUT_MS, STALL_TIMEOUT_MS};
use crate::model::json::{InvalidField, Json};
use crate::model::owner::Owner;
use crate::store::DbError;
use crate::wire::fields::FieldError;

/// What an id identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Session,
    Machine,
    /// A web client's subscription to events.
    Subscription,
    /// A pending permission request.
    Request,
}

impl Kind {
    pub fn of(owner: &Owner) -> Self {
        match owner {
            Owner::Session(_) => Self::Session,
            Owner::Machine(_) => Self::Machine,
        }
    }

    /// Returns the noun for messages, also the `scope` of `error` events.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Machine => "machine",
            Self::Subscription => "subscription",
            Self::Request => "pending permission request",
        }
    }
}

/// Why a request failed. The message is for users. A `String` is the reason within the message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    #[error("No such {}.", .0.noun())]
    NotFound(Kind),
    #[error("This {} belongs to another namespace.", .0.noun())]
    Forbidden(Kind),
    /// A field or query parameter is invalid.
    #[error("{0}")]
    InvalidField(FieldError),
    #[error("The request body must be a JSON object. {0}")]
    InvalidBody(String),
    #[error("`{field}` must be a relative path without `..` segments: {reason}.")]
    InvalidPath { field: &'static str, reason: &'static str },
    #[error("The {what} is larger than the limit of {limit} bytes.")]
    TooLarge { what: &'static str, limit: usize },
    #[error("The session is not active. Resume it, or wait until its CLI has reconnected.")]
    SessionInactive,
    /// A permission request of an inactive session was answered.
    #[error("The session's CLI is not connected. The request can be answered when it is back.")]
    CliAway,
    #[error("The CLI is not reachable: {0}. Check that it is running.")]
    CliUnreachable(String),
    /// No method of the CLI is the one to call, but it registered others. With the whole message.
    #[error("{0}.")]
    MethodNotRegistered(String),
    /// With the method.
    #[error("The CLI did not respond to {0} in time. Try again.")]
    RpcTimedOut(String),
    #[error("The CLI refused: {0}")]
    CliRefused(String),
    #[error("No machine that can resume the session is online. Start the runner on the session's machine.")]
    NoMachineOnline,
    #[error("The session can't be resumed: its metadata has no session id of the agent. Start a new session.")]
    ResumeUnavailable,
    #[error(
        "The session was not active {} seconds after the resume. Check the runner on its machine.",
        RESUME_TIMEOUT_MS / 1000
    )]
    ResumeFailed,
    /// A permission mode or model was not applied.
    #[error("The CLI did not apply the mode: {0}")]
    ModeNotApplied(String),
    #[error("The paths could not be checked: {0}")]
    PathCheckFailed(String),
    #[error("The upload failed: {0}.")]
    UploadFailed(String),
    #[error("The upload was too slow: less than {} KiB in {} seconds.", MIN_PROGRESS_BYTES / 1024, STALL_TIMEOUT_MS / 1000)]
    UploadStalled,
    #[error("The session is active. Archive it first, then delete it.")]
    SessionActive,
    #[error("The session's metadata has version {found}, not {expected}. Read the session and try again.")]
    VersionConflict { expected: u64, found: u64 },
    /// The database or the random source failed. With the whole message.
    #[error("{0}")]
    Unavailable(String),
    #[error("The database rejected the request. Nothing was changed.")]
    DatabaseRejected,
    #[error("The database rejected the new name of the session. Nothing was changed.")]
    RenameFailed,
    #[error("The hub's write queue is full. Try again in a few seconds.")]
    Overloaded,
    #[error(
        "The namespace has {0} machines, the limit, and all of them are online. Stop the runner of one, and try again \
        in a minute."
    )]
    TooManyMachines(usize),
    #[error("Too many large responses are in progress. Try again in a few seconds.")]
    TooManyLargeResponses,
    /// With the reason as a sentence.
    #[error("{0} Try again in a few seconds.")]
    TooManyUploads(&'static str),
}

impl Error {
    /// Creates an error of a request body: of the field if the error names one.
    pub fn from_body(error: FieldError) -> Self {
        if error.field.is_empty() { Self::InvalidBody(error.message) } else { Self::InvalidField(error) }
    }

    /// Creates an error of one field.
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self::InvalidField(FieldError::new(field, message))
    }
}

/// Checks that the JSON text of a value has at most `limit` bytes. The message names the value by `what`.
pub fn check_size(what: &'static str, value: &Json, limit: usize) -> Result<(), Error> {
    if value.text().len() > limit { Err(Error::TooLarge { what, limit }) } else { Ok(()) }
}

impl From<InvalidField> for Error {
    fn from(InvalidField { field, reason }: InvalidField) -> Self {
        let message = format!("Field `{field}` {reason}.");
        Self::InvalidField(FieldError { field, message })
    }
}

impl From<RpcError> for Error {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::TimedOut(method) => Self::RpcTimedOut(method),
            RpcError::NoHandler { ref other_methods, .. } if !other_methods.is_empty() => {
                Self::MethodNotRegistered(error.to_string())
            }
            other => Self::CliUnreachable(other.to_string()),
        }
    }
}

impl From<RandomSourceError> for Error {
    fn from(error: RandomSourceError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        match error {
            DbError::NoSchema(_) => Self::Unavailable(
                "The database has no schema yet. Run `npm run wrangler -- d1 migrations apply DB --local` \
                (or `--remote` for a deployed hub). `npm run dev` runs it at its start."
                    .into(),
            ),
            DbError::Retryable(_) | DbError::TimedOut(_) => {
                Self::Unavailable("The database is unreachable. Try again in a few seconds.".into())
            }
            DbError::Refused(_) => Self::DatabaseRejected,
            DbError::UnexpectedColumn { .. } => {
                Self::Unavailable(format!("The database contains data that the hub can't read: {error}."))
            }
            DbError::OverBudget => Self::TooManyLargeResponses,
        }
    }
}
