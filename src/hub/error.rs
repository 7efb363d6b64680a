//! Why the hub did not do what it was asked; `http::error` maps each to a status.

use thiserror::Error;

use super::peers::rpc::RpcError;
use super::ports::RandomSourceError;
use crate::model::json::{InvalidField, Json};
use crate::store::DbError;
use crate::wire::fields::FieldError;

/// What an id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A session.
    Session,
    /// A machine.
    Machine,
    /// A web client's subscription to events.
    Subscription,
    /// A permission request that waits for its answer.
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
    /// There is no such thing.
    #[error("No such {}.", .0.word())]
    Missing(Kind),
    /// It is another namespace's.
    #[error("This {} belongs to another namespace.", .0.word())]
    Foreign(Kind),
    /// A field or query parameter breaks a rule.
    #[error("{0}")]
    Invalid(FieldError),
    /// The body as a whole is not what it has to be.
    #[error("The request body must be a JSON object. {0}")]
    InvalidBody(String),
    /// A path that leads out of the session's directory.
    #[error("`{field}` must be a relative path inside the session's directory, without `..` segments: {reason}.")]
    InvalidPath {
        /// The field or query parameter.
        field: &'static str,
        /// What is wrong with it, as the end of a sentence.
        reason: &'static str,
    },
    /// Something is larger than its limit, in bytes.
    #[error("The {what} is larger than {limit} bytes.")]
    TooLarge {
        /// The noun for the sentence.
        what: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// It needs a session that is active.
    #[error(
        "The session is not active: its CLI is not connected, or was aborted and has not reported itself alive again."
    )]
    SessionInactive,
    /// Nobody serves the method, or the CLI went away; with the reason.
    #[error("The CLI could not be reached: {0}. Is it still running?")]
    CliUnreachable(String),
    /// The CLI did not answer in time; with the method.
    #[error("The CLI did not answer in time: {0}.")]
    RpcTimedOut(String),
    /// The CLI said no; with its reason.
    #[error("The CLI refused: {0}")]
    CliRefused(String),
    /// A resume found no machine.
    #[error("No machine is online that could resume the session. Start a runner on its machine.")]
    NoMachineOnline,
    /// A resume found no agent's own id of the conversation.
    #[error("The session can't be resumed: its metadata holds no agent-side session id.")]
    ResumeUnavailable,
    /// A resume was begun, and the session did not become active.
    #[error("The session did not become active in time after the machine was asked to resume it.")]
    ResumeFailed,
    /// The CLI did not apply a permission mode or model; with the reason.
    #[error("The CLI did not apply the mode: {0}")]
    NotApplied(String),
    /// The machine could not check paths; with the reason.
    #[error("The paths could not be checked: {0}")]
    CheckFailed(String),
    /// A file did not reach the CLI; with the reason.
    #[error("The upload failed: {0}")]
    UploadFailed(String),
    /// A file came too slowly.
    #[error("The upload came too slowly: less than {kib} KiB in {seconds} seconds.")]
    UploadStalled {
        /// How much was awaited, in KiB.
        kib: u64,
        /// How long it was awaited, in seconds.
        seconds: u64,
    },
    /// It needs a session that is inactive.
    #[error("The session is active. Archive it first, then delete it.")]
    SessionActive,
    /// The version that a change was made from is not the present one.
    #[error(
        "The metadata changed meanwhile: expected version {expected}, found {found}. Read the session and try again."
    )]
    VersionConflict {
        /// The version that it was made from.
        expected: u64,
        /// The present one.
        found: u64,
    },
    /// The database cannot be used at the moment; with what to do.
    #[error("{0}")]
    Unavailable(String),
    /// The database refused the statement.
    #[error("The database refused to store or read the data. Nothing was changed.")]
    NotStored,
    /// The database refused a new name.
    #[error("The session could not be renamed: the database refused the new name. Nothing was changed.")]
    RenameFailed,
    /// Too much waits to be written.
    #[error("The hub has more to write than its database takes at the moment. Try again in a few seconds.")]
    Overloaded,
    /// A namespace has as many machines as it may have, and all of them are there.
    #[error(
        "The namespace has {0} machines, and all of them are online. Stop the runner of one, and try again in a minute."
    )]
    TooManyMachines(usize),
    /// Too many large answers are under way.
    #[error(
        "Too many large answers are on their way to clients that have not read them yet. Try again in a few seconds."
    )]
    AnswersWait,
    /// There is no room for one more upload; the sentence says where.
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

/// Returns an error if the JSON text of `value` has more than `limit` bytes. `what` names the value in the message.
pub fn check_size(what: &'static str, value: &Json, limit: usize) -> Result<(), Error> {
    if value.text().len() > limit { Err(Error::TooLarge { what, limit }) } else { Ok(()) }
}

impl From<InvalidField> for Error {
    fn from(InvalidField { field, reason }: InvalidField) -> Self {
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
                (or `--remote` for a deployed hub); `npm run dev` does it by itself."
                    .into(),
            ),
            DbError::Retryable(_) | DbError::TimedOut(_) => {
                Self::Unavailable("The database is unreachable for the moment. Try again in a few seconds.".into())
            }
            DbError::Refused(_) => Self::NotStored,
            DbError::UnexpectedColumn { .. } => {
                Self::Unavailable(format!("The database holds data that the hub can't read: {error}."))
            }
            DbError::OverBudget => Self::AnswersWait,
        }
    }
}
