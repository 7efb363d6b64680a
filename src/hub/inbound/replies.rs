//! Replies to a CLI: acknowledgements, and `error` events (PROTOCOL-CLI.md "Events from a CLI").

use crate::hub::core::effect::Reply;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::model::owner::Owner;
use crate::wire::cli::{NAMESPACE, QuotaExceeded, error_event, message_rejected, ok_ack, update_rejected};
use crate::wire::socketio::{self, AckId};

/// When a CLI should send a message again that a full storage has refused, in milliseconds.
const STORAGE_RETRY_MS: u64 = 60_000;

/// The code and the message of an error.
pub type Refusal = (&'static str, String);

pub fn served_elsewhere() -> Refusal {
    let message = "Another installation serves this session. Stop its CLI, or wait until its connection has timed out.";
    ("served-elsewhere", message.to_owned())
}

/// The scope of an event (`session`, `machine` or `rpc`), and the id of the session or machine, or the name of the method.
pub type Subject<'a> = (&'static str, &'a str);

pub fn subject_of(owner: &Owner) -> Subject<'_> {
    (Kind::of(owner).noun(), owner.id())
}

/// The sender of an event, with the acknowledgement that it requested.
#[derive(Clone, Copy)]
pub struct Sender {
    pub conn: ConnId,
    pub ack: Option<AckId>,
    /// Whether the event is a versioned update, whose acknowledgement has another shape.
    pub is_update: bool,
}

/// A reason why an event was not handled.
pub struct Rejection<'a> {
    pub code: &'static str,
    pub message: String,
    pub subject: Option<Subject<'a>>,
    /// The quota of the namespace that refuses the event for now.
    pub quota: Option<QuotaExceeded>,
}

impl<'a> Rejection<'a> {
    /// Creates the rejection of an event about a session or machine.
    pub fn of(error: &Error, owner: Option<&'a Owner>) -> Self {
        let quota = match error {
            Error::StorageFull => Some(("storage", STORAGE_RETRY_MS)),
            Error::TooManyMessages { wait_ms } => Some(("messages", *wait_ms)),
            _ => None,
        };
        let quota = quota.map(|(quota, retry_after_ms)| QuotaExceeded { quota, retry_after_ms });
        Self { quota, ..Self::new((event_code(error), error.to_string()), owner.map(subject_of)) }
    }

    pub fn new((code, message): Refusal, subject: Option<Subject<'a>>) -> Self {
        Self { code, message, subject, quota: None }
    }
}

impl Sender {
    /// Returns the answer to a handled event. `ignored`: the names of the event's invalid fields.
    pub fn reply(self, ignored: &[&str]) -> Option<Reply> {
        let failed = message_rejected("The hub could not store the change. Try again.", "unavailable", None);
        Some(Reply::acknowledgement(self.conn, self.ack?, &ok_ack(ignored), &failed))
    }
}

impl Turn<'_> {
    /// Rejects an event in its acknowledgement, if the CLI requested one. Also sends an `error` event if the CLI requested no
    /// acknowledgement, or if the session or machine does not exist, belongs to another namespace, or is served elsewhere.
    pub(super) fn reject(&mut self, from: Sender, rejection: &Rejection<'_>) {
        let Rejection { code, message, subject, quota } = rejection;
        if let Some(ack) = from.ack {
            let answer = match from.is_update {
                true => update_rejected(message, code),
                false => message_rejected(message, code, *quota),
            };
            self.send_frame(from.conn, &socketio::ack_frame(NAMESPACE, ack, &[&answer]));
        }
        if from.ack.is_none() || matches!(*code, "access-denied" | "not-found" | "served-elsewhere") {
            self.send_error_event(from.conn, message, code, *subject);
        }
    }

    pub(super) fn send_error_event(&mut self, conn: ConnId, message: &str, code: &str, subject: Option<Subject<'_>>) {
        let event = error_event(message, code, subject);
        self.send_frame(conn, &socketio::event_frame(NAMESPACE, None, "error", &[&event]));
    }
}

pub fn event_code(error: &Error) -> &'static str {
    match error {
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
    }
}
