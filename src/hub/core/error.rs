//! The errors of the hub. `http::error` maps them to statuses and codes, `inbound::replies` to codes for CLIs.

use std::fmt;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::hub::core::peers::rpc::RpcError;
use crate::hub::core::ports::RandomSourceError;
use crate::limits::{
    CONTESTED_UPLOAD_BYTES_PER_MS, FRAME_UPLOAD_BYTES_PER_MS, MAX_HELD_MESSAGES, MIN_PROGRESS_BYTES,
    PROGRESS_TIMEOUT_MS, RESUME_TIMEOUT_MS,
};
use crate::model::json::{FieldError, Json};
use crate::model::owner::Owner;
use crate::store::DbError;
use crate::store::devices::{MAX_DEVICES, MAX_PENDING_CODES};

/// What an id identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Session,
    Machine,
    /// A web client's subscription to events.
    Subscription,
    /// A pending permission request.
    Request,
    Device,
    HeldMessage,
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
            Self::Device => "device",
            Self::HeldMessage => "held message",
        }
    }

    /// Returns what a client can do about an unknown id.
    fn remedy(self) -> &'static str {
        match self {
            Self::Session => "It may have been deleted: read the list of sessions again.",
            Self::Machine => "Register it, or read the list of machines again.",
            Self::Subscription => "It ends with its connection: use the `subscriptionId` of the current one.",
            Self::Request => "It may have been answered or canceled: read the session again.",
            Self::Device => "It may have been revoked: read the list of devices again.",
            Self::HeldMessage => "It may have been sent or canceled: read the session's messages again.",
        }
    }
}

/// Why a request failed. The message is for users. A `String` without a comment is the reason that the message contains.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    #[error("No such {}. {}", .0.noun(), .0.remedy())]
    NotFound(Kind),
    #[error("This {} belongs to another namespace. Use a token of that namespace.", .0.noun())]
    Forbidden(Kind),
    #[error("{0}")]
    InvalidField(FieldError),
    /// The deployment forbids the permission mode that this field selects.
    #[error("This deployment forbids this permission mode. Choose another one.")]
    ModeForbidden(&'static str),
    #[error("The request body must be a JSON object. {0}")]
    InvalidBody(String),
    #[error("`{field}` must be a relative path without `..` segments: {reason}.")]
    InvalidPath { field: &'static str, reason: &'static str },
    /// `what` begins with a capital letter and names the field.
    #[error("{what} has more than the limit of {limit} bytes. {remedy}")]
    TooLarge { what: String, limit: usize, remedy: &'static str },
    #[error("The session is not active. Resume it, or wait until its CLI has reconnected.")]
    SessionInactive,
    #[error(
        "A message with attachments can't wait until the CLI is back: the files are uploaded to the CLI. Send it without them."
    )]
    AttachmentsNotHeld,
    #[error("{MAX_HELD_MESSAGES} messages wait until the session's CLI is back, the limit. Cancel one of them.")]
    TooManyHeldMessages,
    /// A permission request of an inactive session was answered.
    #[error("The session's CLI is not connected. The request can be answered when it is back.")]
    CliAway,
    #[error(
        "The session's CLI is connected, but has not reported the session alive. Wait a few seconds and try again, or resume \
        the session."
    )]
    CliNotAlive,
    #[error("The CLI is not reachable: {0}. Check that it is running.")]
    CliUnreachable(String),
    /// The CLI did not register the method, but registered methods that the hub does not know. Contains the whole message.
    #[error("{0}.")]
    MethodNotRegistered(String),
    /// Contains the name of the method.
    #[error("The CLI did not respond to {0} in time. Try again.")]
    RpcTimedOut(String),
    /// Contains the CLI's reason, which may be a sentence.
    #[error("The CLI refused: {}. Correct the cause on its machine, and try again.", without_period(.0))]
    CliRefused(String),
    /// Contains the CLI's reason, a sentence.
    #[error("{0}")]
    UntrustedDirectory(String),
    #[error("No machine that can resume the session is online. Start the runner on the session's machine.")]
    NoMachineOnline,
    #[error("The session can't be resumed: its metadata has no session id of the agent. Start a new session.")]
    ResumeUnavailable,
    #[error(
        "The session was not active {} seconds after the resume. Check the runner on its machine.",
        RESUME_TIMEOUT_MS / 1000
    )]
    ResumeFailed,
    #[error("The CLI did not apply the mode: {}. Choose another mode, or try again.", without_period(.0))]
    ModeNotApplied(String),
    #[error("The agent did not apply the option: {}. Choose another value, or try again.", without_period(.0))]
    OptionNotApplied(String),
    #[error(
        "The message is no longer queued: the agent works on it already, or it was canceled. Send another message."
    )]
    NotQueued,
    #[error("The paths could not be checked: {}. Check that the machine's runner is running.", without_period(.0))]
    PathCheckFailed(String),
    #[error("The upload failed: {}. Try again.", without_period(.0))]
    UploadFailed(String),
    #[error(
        "The upload was too slow: less than {} KiB in {} seconds. Try again with a faster connection.",
        MIN_PROGRESS_BYTES / 1024,
        PROGRESS_TIMEOUT_MS / 1000
    )]
    UploadStalled,
    #[error(
        "The upload was slower than {FRAME_UPLOAD_BYTES_PER_MS} KB a second, or than {CONTESTED_UPLOAD_BYTES_PER_MS} KB a second \
         while others waited for it, the limits for a CLI that does not accept uploads in chunks. Update the session's CLI, or \
         try again with a faster connection."
    )]
    UploadTooSlow,
    /// A token of a notification with an invalid signature, or of another namespace.
    #[error("This answer is not valid. Answer the request in the console.")]
    InvalidAnswerToken,
    #[error("This notification is older than 10 minutes. Answer the request in the console.")]
    AnswerTokenExpired,
    #[error("This request was already answered from a notification. The console shows whether it still waits.")]
    AnswerTokenUsed,
    #[error("The request has changed since the notification. Look at it in the console.")]
    RequestChanged,
    #[error("This device no longer gets notifications. Answer the request in the console.")]
    Unsubscribed,
    #[error("The token of this device was revoked. Add the device again.")]
    DeviceRevoked,
    #[error("This code is not valid. It may be mistyped, used, or older than 5 minutes. Create another one.")]
    UnknownCode,
    #[error("The request of this device was denied. Request another code.")]
    PairingDenied,
    #[error("Another decision about this device was made already. Request another code on the device.")]
    AlreadyDecided,
    #[error("{MAX_PENDING_CODES} codes wait for their devices, the limit. Use one of them, or wait until one expires.")]
    TooManyCodes,
    #[error("The namespace has {MAX_DEVICES} devices, the limit. Revoke one that is no longer used, and try again.")]
    TooManyDevices,
    #[error("The session is active. Archive it first, then delete it.")]
    SessionActive,
    /// An inactive session whose CLI is connected was to be deleted.
    #[error("The session's CLI is still connected. Archive the session, which ends the CLI, then delete the session.")]
    CliConnected,
    #[error("The session's metadata has version {found}, not {expected}. Read the session and try again.")]
    VersionConflict { expected: u64, found: u64 },
    /// The database or the random source failed. Contains the whole message.
    #[error("{0}")]
    Unavailable(String),
    #[error("A database has no schema yet, or an older one.")]
    NoSchema,
    #[error("The database rejected the request. Nothing was changed. Try again; the hub's log has the cause.")]
    DatabaseRejected,
    #[error(
        "The database rejected the new name of the session. Nothing was changed. Try again; the hub's log has the cause."
    )]
    RenameFailed,
    #[error("The hub's write queue is full. Try again in a few seconds.")]
    Overloaded,
    #[error(
        "The namespace has {0} machines, the limit, and all of them are online. Stop the runner of one, and try again \
        in a minute."
    )]
    TooManyMachines(usize),
    #[error("The namespace has {0} sessions, the limit. Delete some that are no longer needed, and try again.")]
    TooManySessions(usize),
    #[error("The namespace has data. Delete it first, or continue the import that was interrupted.")]
    NamespaceNotEmpty,
    #[error("The storage of the namespace is full. Delete sessions that are no longer needed, and try again.")]
    StorageFull,
    #[error(
        "The namespace has sent as many messages in a minute as it may. Try again in {} seconds.",
        .wait_ms.div_ceil(1000)
    )]
    TooManyMessages { wait_ms: u64 },
    #[error("The hub's memory for large requests and responses is in use. Try again in a few seconds.")]
    MemoryInUse,
    /// Contains the reason as a sentence.
    #[error("{0} Try again in a few seconds.")]
    TooManyUploads(&'static str),
}

impl Error {
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self::InvalidField(FieldError::new(field, message))
    }
}

/// Fails unless a field is valid. `rule` completes the message "Field `field` must ...".
pub fn check_field(is_valid: bool, field: &str, rule: fmt::Arguments<'_>) -> Result<(), Error> {
    if is_valid { Ok(()) } else { Err(FieldError::of_rule(field, format_args!("must {rule}")).into()) }
}

pub fn check_length(field: &str, text: &str, chars: RangeInclusive<usize>) -> Result<(), Error> {
    let (min, max) = (chars.start(), chars.end());
    check_field(chars.contains(&text.chars().count()), field, format_args!("have {min} to {max} characters"))
}

/// Checks that the JSON text of a field has at most `limit` bytes.
pub fn check_size(field: &str, value: &Json, limit: usize) -> Result<(), Error> {
    match value.text().len() > limit {
        true => Err(Error::TooLarge { what: format!("Field `{field}`"), limit, remedy: "Shorten it." }),
        false => Ok(()),
    }
}

/// Returns a reason without the period at its end, for use within a sentence.
fn without_period(reason: &str) -> &str {
    reason.strip_suffix('.').unwrap_or(reason)
}

/// An error that names no field is about the whole request body.
impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        if error.field.is_empty() { Self::InvalidBody(error.message) } else { Self::InvalidField(error) }
    }
}

impl From<RpcError> for Error {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::TimedOut(method) => Self::RpcTimedOut(method),
            RpcError::NoHandler { ref unrecognized_methods, .. } if !unrecognized_methods.is_empty() => {
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
            DbError::NoSchema(_) => Self::NoSchema,
            DbError::Retryable(_) | DbError::Unavailable(_) => {
                Self::Unavailable("The database is unreachable. Try again in a few seconds.".into())
            }
            DbError::NotBound(name) => Self::Unavailable(format!(
                "The namespace is in the database `{name}`, which the hub no longer has. The operator must bind it again."
            )),
            DbError::Refused(_) => Self::DatabaseRejected,
            DbError::LimitReached(_) => Self::Unavailable(
                "The database is full, or has used up the day's quota. The operator must delete sessions or change the plan."
                    .into(),
            ),
            DbError::UnexpectedColumn { .. } => {
                let message = format!(
                    "The database contains data that the hub can't read: {error}. The operator must correct it."
                );
                Self::Unavailable(message)
            }
            DbError::NoMemory => Self::MemoryInUse,
        }
    }
}
