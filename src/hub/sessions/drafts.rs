//! New messages of a session: their drafts, and how they get their seqs.

use crate::hub::core::effect::{Effect, Reply};
use crate::hub::core::error::{Error, check_size};
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::limits::{MAX_CONTENT_BYTES, MAX_LOCAL_ID_BYTES, MAX_TODOS_BYTES};
use crate::model::json::Json;
use crate::model::message::{HeldMessage, Message};
use crate::model::{ready, todo};
use crate::store::messages::MessageRef;
use crate::wire::cli::{NAMESPACE, message_ack, message_rejected};
use crate::wire::socketio::{AckId, ack_frame};

/// A message to add.
pub struct Draft {
    /// The session's id.
    pub session: String,
    /// The sender's idempotency key: a message whose key is known is not stored again.
    pub local_id: Option<String>,
    /// Opaque to the hub.
    pub content: Json,
    /// The socket of the CLI that sent the message. This socket does not receive the message. `None` for a web client.
    pub from: Option<ConnId>,
    /// Whether the message may wait until the CLI of an inactive session is back.
    pub may_wait: bool,
    /// The acknowledgement that the CLI gets when the message is durable.
    ack: Option<AckId>,
}

impl Draft {
    /// Creates the draft of a web client. Ignores an empty local id.
    pub fn of_web_client(session: String, local_id: Option<String>, content: Json) -> Self {
        let local_id = local_id.filter(|id| !id.is_empty());
        Self { session, local_id, content, from: None, may_wait: false, ack: None }
    }

    /// Creates the draft of a CLI. With `ack`, the CLI gets an acknowledgement when the message is durable. Ignores an empty local id.
    pub fn of_cli(session: String, local_id: Option<String>, content: Json, from: ConnId, ack: Option<AckId>) -> Self {
        let draft = Self::of_web_client(session, local_id, content);
        Self { from: Some(from), ack, ..draft }
    }

    /// Returns the acknowledgement of the message for its CLI.
    pub(super) fn reply(&self, added: &Added) -> Option<Reply> {
        // Only messages of web clients are held.
        let Added::Stored(message) = added else { return None };
        Some(message_reply(self.from?, self.ack?, message))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        check_size("message", &self.content, MAX_CONTENT_BYTES)?;
        if self.local_id.as_ref().is_some_and(|id| id.len() > MAX_LOCAL_ID_BYTES) {
            return Err(Error::field(
                "localId",
                format!("Field `localId` must have at most {MAX_LOCAL_ID_BYTES} bytes. Use a UUID."),
            ));
        }
        Ok(())
    }
}

/// A message that was added, or that was found by its local id.
pub enum Added {
    Stored(MessageRef),
    /// The message waits until the CLI is back.
    Held(HeldMessage),
}

/// Returns the acknowledgement of a message.
fn message_reply(conn: ConnId, ack: AckId, message: &MessageRef) -> Reply {
    let failed = message_rejected("The hub could not store the message. Send it again.", "unavailable", None);
    let frame = |answer: &str| ack_frame(NAMESPACE, ack, &[answer]);
    Reply { conn, on_commit: frame(&message_ack(&message.id, message.seq)).into(), on_failure: frame(&failed) }
}

impl Turn<'_> {
    /// Assigns the message its seq, and queues its write and its effects.
    pub(super) fn queue_message(&mut self, draft: &Draft) -> Result<MessageRef, Error> {
        let now = self.hub.rt.now();
        let entry = self.state.session_mut(&draft.session)?;
        entry.session.seq += 1;
        (entry.session.updated_at, entry.session.last_message_at) = (now, Some(now));
        let message = Message {
            id: self.hub.new_id(),
            seq: entry.session.seq,
            local_id: draft.local_id.clone(),
            content: draft.content.clone(),
            created_at: now,
        };
        let message_ref = MessageRef { id: message.id.clone(), seq: message.seq, created_at: now };
        if let (Some(ids), Some(local_id)) = (&mut entry.local_ids, &draft.local_id)
            && ids.insert(local_id.clone(), Some(message_ref.clone()))
        {
            self.state.cache.evictions.invalidate_reads(&draft.session);
        }
        if draft.from.is_some() {
            self.update_todos(draft)?;
        }
        let is_ready = draft.from.is_some() && ready::is_ready(draft.content.text());
        if is_ready {
            self.record_unseen(&draft.session, now)?;
        } else if draft.from.is_none() {
            self.set_unseen_since(&draft.session, None)?;
        }
        let session = &self.state.cache.require_entry(&draft.session)?.session;
        let notification = is_ready.then(|| self.hub.ready_notification(session));
        let (session, update_seq) = (draft.session.clone(), self.state.events.next_unused(now));
        self.state.write_queue.on_commit(Effect::message(session, draft.from, message.clone(), update_seq));
        self.state.stored_bytes.add(message.content.text().len() as u64);
        self.state.write_queue.queue_message(&draft.session, message);
        self.announce_storage();
        notification
            .into_iter()
            .for_each(|notification| self.state.write_queue.on_commit(Effect::Notify(notification)));
        Ok(message_ref)
    }

    /// Stores the todo list that a message contains. Ignores a list above [`MAX_TODOS_BYTES`].
    fn update_todos(&mut self, draft: &Draft) -> Result<(), Error> {
        let todos = todo::extract(draft.content.text(), &self.hub.config.vocabulary).map(|todos| Json::of(&todos));
        let Some(todos) = todos.filter(|todos| todos.text().len() <= MAX_TODOS_BYTES) else { return Ok(()) };
        self.state.change_session(&draft.session, |session| session.todos = Some(todos))
    }
}
