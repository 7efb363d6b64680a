//! Effects: what the hub does once a change is durable, as data, queued with the change
//! ([`WriteQueue::on_commit`](crate::store::write_queue::WriteQueue::on_commit)). If the commit fails, the effects fail.

use std::sync::OnceLock;

use futures::channel::oneshot;

use crate::hub::core::error::Error;
use crate::hub::core::ports::ConnId;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::machine::Machine;
use crate::model::message::Message;
use crate::model::owner::Owner;
use crate::model::text_parts::TextParts;
use crate::push::payload::Notification;
use crate::store::write_queue::MemorySize;
use crate::wire::cli::{NAMESPACE, update_ack, update_rejected};
use crate::wire::socketio::{AckId, ack_frame};

/// The answer to an event of a CLI.
#[derive(Debug)]
pub struct Reply {
    pub conn: ConnId,
    /// The frame for a durable change.
    pub on_commit: TextParts,
    /// The frame for a change that was not committed.
    pub on_failure: String,
}

impl Reply {
    /// Creates the acknowledgement of an event, with the answers for a durable change and for a change that was not committed.
    pub fn acknowledgement(conn: ConnId, ack: AckId, on_commit: &str, on_failure: &str) -> Self {
        let frame = |answer| ack_frame(NAMESPACE, ack, &[answer]);
        Self { conn, on_commit: frame(on_commit).into(), on_failure: frame(on_failure) }
    }
}

/// A CLI's update of a versioned field of a session or machine (optimistic concurrency).
pub struct VersionedUpdate<'a> {
    pub id: &'a str,
    pub field: VersionedField,
    pub expected_version: u64,
    pub value: Json,
    pub from: ConnId,
    pub ack: Option<AckId>,
}

impl VersionedUpdate<'_> {
    /// Returns the reply with the current version and value of the field; `None` if the CLI requested no acknowledgement.
    /// `is_applied`: whether the update was applied. If it was, `version` is the version after the update.
    pub fn reply(&self, is_applied: bool, version: u64, value: TextParts) -> Option<Reply> {
        let ack = self.ack?;
        let frame = |answer: String| ack_frame(NAMESPACE, ack, &[&answer]);
        let failed = update_rejected("The hub could not store the update. Try again.", "unavailable");
        let on_commit = value.insert_into(&frame(update_ack(is_applied, version, self.field.name())), "null");
        Some(Reply { conn: self.from, on_commit, on_failure: frame(failed) })
    }
}

/// What the hub does once a change is durable.
#[derive(Debug)]
pub enum Effect {
    Reply(Reply),
    Publish(Event),
    /// Adds a new machine to the cache.
    AddMachine(Box<Machine>),
    /// Sends an update to the owner's CLIs, except the CLI that made the change.
    Update {
        owner: Owner,
        except: Option<ConnId>,
        parts: TextParts,
    },
    /// Publishes a message to web clients and to the session's CLIs, except the CLI that sent it. The frames are built when the effect
    /// runs: until then, a message of up to 30 MiB is in memory only once.
    Message {
        session: String,
        except: Option<ConnId>,
        message: Message,
        /// The `seq` of the `update` frame.
        update_seq: u64,
        /// Serialized on demand, for the log or for web clients.
        event: OnceLock<Event>,
    },
    /// Queues a push notification.
    Notify(Notification),
    /// Deletes the stored deadline of a session or machine that has become inactive.
    BecameInactive(Owner),
    /// Wakes a caller that waits for the commit.
    Resolve(oneshot::Sender<Result<(), Error>>),
}

impl Effect {
    pub fn message(session: String, except: Option<ConnId>, message: Message, update_seq: u64) -> Self {
        Self::Message { session, except, message, update_seq, event: OnceLock::new() }
    }

    /// Whether the effect publishes an event, and so needs an event number.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::Message { .. })
    }

    pub fn event(&self) -> Option<&Event> {
        match self {
            Self::Publish(event) => Some(event),
            Self::Message { session, message, event, .. } => {
                Some(event.get_or_init(|| Event::message_received(session, message)))
            }
            _ => None,
        }
    }
}

impl MemorySize for Effect {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Reply(reply) => reply.on_commit.memory_bytes() + reply.on_failure.len(),
            Self::Publish(event) => event.body.memory_bytes(),
            Self::AddMachine(machine) => machine.text_bytes(),
            Self::Update { parts, .. } => parts.memory_bytes(),
            Self::Message { message, .. } => message.content.text().len(),
            Self::Notify(Notification { body, superseded, .. }) => {
                body.len() + superseded.iter().map(String::len).sum::<usize>()
            }
            Self::BecameInactive(_) | Self::Resolve(_) => 0,
        }
    }
}
