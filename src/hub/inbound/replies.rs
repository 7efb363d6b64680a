//! Why an event is refused, and `error` events (PROTOCOL-CLI.md "Events from a CLI").

use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::model::owner::Owner;
use crate::wire::cli::{NAMESPACE, QuotaExceeded, error_event};
use crate::wire::socketio;

/// When a CLI should send a message again that a full storage has refused, in milliseconds.
const STORAGE_RETRY_MS: u64 = 60_000;

/// Why an event was not handled.
pub struct Refusal {
    pub code: &'static str,
    pub message: String,
    /// The quota of the namespace that refuses the event for now.
    pub quota: Option<QuotaExceeded>,
}

impl Refusal {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), quota: None }
    }

    pub fn served_elsewhere() -> Self {
        let message =
            "Another installation serves this session. Stop its CLI, or wait until its connection has timed out.";
        Self::new("served-elsewhere", message)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let quota = match error {
            Error::StorageFull => Some(QuotaExceeded { quota: "storage", retry_after_ms: STORAGE_RETRY_MS }),
            Error::TooManyMessages { wait_ms } => Some(QuotaExceeded { quota: "messages", retry_after_ms: wait_ms }),
            _ => None,
        };
        let code = match &error {
            Error::Forbidden(_) => "access-denied",
            Error::NotFound(_) => "not-found",
            Error::TooLarge { .. } => "too-large",
            Error::Overloaded | Error::MemoryInUse | Error::StorageFull | Error::TooManyMessages { .. } => "overloaded",
            Error::Unavailable(_) | Error::NoSchema | Error::DatabaseRejected => "unavailable",
            Error::InvalidField(_)
            | Error::ModeForbidden(_)
            | Error::InvalidBody(_)
            | Error::InvalidPath { .. }
            | Error::SessionInactive
            | Error::AttachmentsNotHeld
            | Error::TooManyHeldMessages
            | Error::CliAway
            | Error::CliNotAlive
            | Error::CliUnreachable(_)
            | Error::MethodNotRegistered(_)
            | Error::RpcTimedOut(_)
            | Error::CliRefused(_)
            | Error::UntrustedDirectory(_)
            | Error::NoMachineOnline
            | Error::ResumeUnavailable
            | Error::ResumeFailed
            | Error::ModeNotApplied(_)
            | Error::OptionNotApplied(_)
            | Error::NotQueued
            | Error::PathCheckFailed(_)
            | Error::UploadFailed(_)
            | Error::UploadStalled
            | Error::UploadTooSlow
            | Error::InvalidAnswerToken
            | Error::AnswerTokenExpired
            | Error::AnswerTokenUsed
            | Error::RequestChanged
            | Error::Unsubscribed
            | Error::DeviceRevoked
            | Error::UnknownCode
            | Error::PairingDenied
            | Error::AlreadyDecided
            | Error::TooManyCodes
            | Error::TooManyDevices
            | Error::SessionActive
            | Error::CliConnected
            | Error::VersionConflict { .. }
            | Error::RenameFailed
            | Error::TooManyMachines(_)
            | Error::TooManySessions(_)
            | Error::NamespaceNotEmpty
            | Error::TooManyUploads(_) => "bad-payload",
        };
        Self { quota, ..Self::new(code, error.to_string()) }
    }
}

/// The scope of an event (`session`, `machine` or `rpc`), and the id of the session or machine, or the name of the method.
pub type Subject<'a> = (&'static str, &'a str);

pub fn subject_of(owner: &Owner) -> Subject<'_> {
    (Kind::of(owner).noun(), owner.id())
}

impl Turn<'_> {
    pub(super) fn send_error_event(&mut self, conn: ConnId, refusal: &Refusal, subject: Option<Subject<'_>>) {
        let event = error_event(&refusal.message, refusal.code, subject);
        self.send_frame(conn, &socketio::event_frame(NAMESPACE, None, "error", &[&event]));
    }
}
