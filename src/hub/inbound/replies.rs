//! Replies to a CLI, as effects: acknowledgements, and `error` events (PROTOCOL.md "Errors").

use crate::hub::error::{Error, Kind};
use crate::hub::ports::ConnId;
use crate::hub::state::effect::Effect;
use crate::hub::versioned::UpdateResult;
use crate::wire::cli::{ErrorEvent, NAMESPACE, UpdateAck, message_rejected, ok_ack};
use crate::wire::socketio::{self, AckId};

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
    /// The scope (`session`, `machine` or `rpc`) that the event named, and the id in it.
    pub subject: Option<(&'static str, &'a str)>,
}

impl<'a> Rejection<'a> {
    /// The rejection of an event about a session or machine.
    pub fn of(error: &Error, kind: Kind, id: &'a str) -> Self {
        Self { code: event_code(error), message: error.to_string(), subject: Some((kind.noun(), id)) }
    }
}

impl Sender {
    /// Acknowledges without data.
    pub fn ok(self) -> Vec<Effect> {
        self.ok_ignoring(&[])
    }

    /// Acknowledges an event. `ignored`: the names of its invalid fields.
    pub fn ok_ignoring(self, ignored: &[&str]) -> Vec<Effect> {
        let ack = |ack| Effect::Send { conn: self.conn, frame: ack_frame(ack, &ok_ack(ignored)) };
        self.ack.map(ack).into_iter().collect()
    }

    /// Acknowledges an ignored event, without an argument.
    pub fn acknowledge_ignored(self) -> Vec<Effect> {
        let ack = |ack| Effect::Send { conn: self.conn, frame: socketio::ack_frame(NAMESPACE, ack, &[]) };
        self.ack.map(ack).into_iter().collect()
    }

    /// Acknowledges an event once its change is durable. `ignored`: the names of its invalid fields.
    pub fn ok_on_commit(self, ignored: &[&str]) -> Option<Effect> {
        let failed = message_rejected("The hub could not store the change. Try again.", "unavailable");
        self.reply(&ok_ack(ignored), &failed)
    }

    /// Returns the effect that answers with `done` once the change is durable, or with `failed` if it can't be written.
    pub fn reply(self, done: &str, failed: &str) -> Option<Effect> {
        let ack = self.ack?;
        Some(Effect::Reply {
            conn: self.conn,
            on_commit: ack_frame(ack, done).into(),
            on_failure: ack_frame(ack, failed),
        })
    }

    /// Returns the reply to a versioned update. `field` is the JSON name of the field.
    pub fn update_reply(self, field: &str, result: &UpdateResult) -> Option<Effect> {
        let (done, value) = match result {
            UpdateResult::Success { version, value } => (UpdateAck::Success { version: *version, field }, value),
            UpdateResult::Mismatch { version, value } => (UpdateAck::Mismatch { version: *version, field }, value),
        };
        let reason = "The hub could not store the update. Try again.";
        let failed = UpdateAck::Error { reason, code: "unavailable" }.encode();
        let ack = self.ack?;
        Some(Effect::Reply {
            conn: self.conn,
            on_commit: value.clone().insert_into(&ack_frame(ack, &done.encode()), "null"),
            on_failure: ack_frame(ack, &failed),
        })
    }

    /// Rejects the event in its acknowledgement, if the CLI requested one. Sends an `error` event if it did not, or if the
    /// session or machine does not exist or belongs to another namespace.
    pub fn reject(self, rejection: &Rejection<'_>) -> Vec<Effect> {
        let Rejection { code, message, subject } = rejection;
        let mut effects = Vec::new();
        if let Some(ack) = self.ack {
            let answer = match self.is_update {
                true => UpdateAck::Error { reason: message, code }.encode(),
                false => message_rejected(message, code),
            };
            effects.push(Effect::Send { conn: self.conn, frame: ack_frame(ack, &answer) });
        }
        if self.ack.is_none() || matches!(*code, "access-denied" | "not-found") {
            effects.push(error_event(self.conn, message, code, *subject));
        }
        effects
    }
}

/// Returns the effect that sends an `error` event.
pub fn error_event(conn: ConnId, message: &str, code: &str, subject: Option<(&str, &str)>) -> Effect {
    let event = ErrorEvent::new(message, code, subject).encode();
    Effect::Send { conn, frame: socketio::event_frame(NAMESPACE, None, "error", &[&event]) }
}

fn ack_frame(ack: AckId, answer: &str) -> String {
    socketio::ack_frame(NAMESPACE, ack, &[answer])
}

/// Returns the code of an `error` event.
pub fn event_code(error: &Error) -> &'static str {
    match error {
        Error::Forbidden(_) => "access-denied",
        Error::NotFound(_) => "not-found",
        Error::TooLarge { .. } => "too-large",
        Error::Overloaded | Error::MemoryInUse => "overloaded",
        Error::Unavailable(_) | Error::DatabaseRejected => "unavailable",
        _ => "bad-payload",
    }
}
