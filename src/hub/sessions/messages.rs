//! Adding messages to a session's history: each is stored once, numbered without gaps, and published when it is durable.

use std::sync::Arc;

use futures::channel::oneshot;

use crate::hub::Hub;
use crate::hub::base::error::{Error, check_size};
use crate::hub::base::ports::ConnId;
use crate::hub::base::state::effect::{Effect, Reply};
use crate::hub::base::state::local_ids::Seen;
use crate::hub::base::state::lookup::UnknownLocalId;
use crate::hub::sessions::changes::Changes;
use crate::hub::sessions::load::Details;
use crate::hub::turn::Turn;
use crate::limits::{MAX_CONTENT_BYTES, MAX_LOCAL_ID_BYTES, MAX_TODOS_BYTES};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::message::Message;
use crate::model::{ready, todo};
use crate::store::messages::MessageRef;
use crate::store::write_queue::SessionColumns;
use crate::wire::cli::{NAMESPACE, NewMessage, message_ack, message_rejected};
use crate::wire::socketio::{AckId, ack_frame};

/// For messages above this size, in bytes, [`MAX_QUEUED_BYTES`](crate::limits::MAX_QUEUED_BYTES) is checked before the message is
/// copied out of its frame.
const LARGE_MESSAGE_BYTES: usize = 1_000_000;

/// The most lookups of one local id: a lookup is repeated if the session was evicted during it.
const MAX_LOOKUPS: u32 = 3;
/// The error after [`MAX_LOOKUPS`].
const NOT_LOOKED_UP: &str = "The hub could not find out whether the message was stored before. Send it again.";

/// How the sender learns that its message is durable.
enum Receipt {
    /// The CLI that sent the message gets the acknowledgement that it requested.
    Ack(AckId),
    /// A task waits for the commit.
    Waiter(oneshot::Sender<Result<(), Error>>),
}

/// A message to add.
pub struct Draft {
    /// The session's id.
    pub session: String,
    /// The sender's idempotency key: a message whose key is known is not stored again.
    local_id: Option<String>,
    /// Opaque to the hub.
    pub content: Json,
    /// The CLI that sent the message, and does not receive it back; `None` for a web client.
    pub from: Option<ConnId>,
    receipt: Option<Receipt>,
}

impl Draft {
    /// Creates the draft of a web client. An empty local id counts as none.
    pub fn of_web_client(session: String, local_id: Option<String>, content: Json) -> Self {
        let local_id = local_id.filter(|id| !id.is_empty());
        Self { session, local_id, content, from: None, receipt: None }
    }

    /// Creates the draft of a CLI. With `ack`, the CLI gets an acknowledgement when the message is durable. An empty local id counts as
    /// none.
    pub fn of_cli(session: String, local_id: Option<String>, content: Json, from: ConnId, ack: Option<AckId>) -> Self {
        let draft = Self::of_web_client(session, local_id, content);
        Self { from: Some(from), receipt: ack.map(Receipt::Ack), ..draft }
    }

    /// Returns the effect that informs the sender that the message is durable.
    fn receipt_effect(self, message: &MessageRef) -> Option<Effect> {
        let conn = self.from;
        self.receipt.and_then(|receipt| match receipt {
            Receipt::Ack(ack) => Some(Effect::Reply(message_reply(conn?, ack, message))),
            Receipt::Waiter(waiter) => Some(Effect::Resolve(waiter)),
        })
    }

    pub fn local_id(&self) -> Option<&str> {
        self.local_id.as_deref()
    }

    fn check(&self) -> Result<(), Error> {
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

/// The result of an attempt to add a message. All results but `Done` name what the caller must wait for before the next attempt.
enum Attempt {
    Done(MessageRef),
    NeedsSession,
    NeedsLocalIds,
    /// The local id is not in memory: it is new, or the message with this local id is old.
    NeedsLookup(UnknownLocalId),
    /// A merge is in progress.
    Locked(oneshot::Receiver<Result<(), Error>>),
}

/// Returns the acknowledgement of a message.
fn message_reply(conn: ConnId, ack: AckId, message: &MessageRef) -> Reply {
    let failed = message_rejected("The hub could not store the message. Send it again.", "unavailable");
    let frame = |answer: &str| ack_frame(NAMESPACE, ack, &[answer]);
    Reply { conn, on_commit: frame(&message_ack(&message.id, message.seq)).into(), on_failure: frame(&failed) }
}

impl Hub {
    /// Adds a message, or finds the message with the same local id. Returns before the message is durable. The draft's receipt
    /// informs the sender once the message is durable.
    pub async fn append_message(self: &Arc<Self>, draft: Draft) -> Result<MessageRef, Error> {
        draft.check()?;
        let mut lookups = 0;
        let message = loop {
            let attempt = self.turn().try_append(&draft)?;
            match attempt {
                Attempt::Done(message) => break message,
                Attempt::NeedsSession if draft.local_id.is_some() => {
                    self.load_session_with(&draft.session, Details::LocalIds).await?;
                }
                Attempt::NeedsSession => self.load_session(&draft.session).await?,
                Attempt::NeedsLocalIds => self.load_local_ids(&draft.session).await?,
                Attempt::Locked(unlocked) => unlocked.await.unwrap_or(Ok(()))?,
                Attempt::NeedsLookup(_) if lookups == MAX_LOOKUPS => {
                    return Err(Error::Unavailable(NOT_LOOKED_UP.into()));
                }
                Attempt::NeedsLookup(unknown) => {
                    lookups += 1;
                    self.look_up_local_id(unknown).await?;
                }
            }
        };
        if let Some(receipt) = draft.receipt_effect(&message) {
            self.turn().write_queue.on_commit(receipt);
        }
        self.start_commit();
        Ok(message)
    }

    /// Adds a message of a web client, and waits until it is durable. The session must be active.
    pub async fn send_message(self: &Arc<Self>, draft: Draft) -> Result<MessageRef, Error> {
        let (waiter, committed) = oneshot::channel();
        let message = self.append_message(Draft { receipt: Some(Receipt::Waiter(waiter)), ..draft }).await?;
        self.commit_and_wait(committed).await?;
        Ok(message)
    }

    /// Refuses a large message if there is no memory for a copy. Called before the message is copied out of its frame.
    pub(in crate::hub) fn check_message_size(&self, message: &NewMessage<'_>) -> Result<(), Error> {
        match message.payload_bytes() {
            bytes if bytes > LARGE_MESSAGE_BYTES => self.turn().ensure_write_queue_has_room(bytes),
            _ => Ok(()),
        }
    }
}

impl Turn<'_> {
    fn try_append(&mut self, draft: &Draft) -> Result<Attempt, Error> {
        if let Some(unlocked) = self.state.in_flight.wait_for_unlock(&draft.session) {
            return Ok(Attempt::Locked(unlocked));
        }
        let Some(entry) = self.state.cache.entry(&draft.session) else { return Ok(Attempt::NeedsSession) };
        if draft.from.is_none() && !entry.session.active {
            return Err(self.state.inactive_error(&draft.session, Error::SessionInactive));
        }
        if let Some(local_id) = &draft.local_id {
            match entry.local_ids.as_ref().map(|ids| ids.look_up(local_id)) {
                None => return Ok(Attempt::NeedsLocalIds),
                Some(Seen::Before(message)) => return Ok(Attempt::Done(message)),
                Some(Seen::Unknown) => {
                    let (session, local_id) = (draft.session.clone(), local_id.clone());
                    return Ok(Attempt::NeedsLookup(UnknownLocalId { session, local_id, from: draft.from }));
                }
                Some(Seen::Never) => {}
            }
        }
        self.state.ensure_write_queue_has_room(draft.content.text().len())?;
        self.queue_message(draft).map(Attempt::Done)
    }
}

impl Turn<'_> {
    /// Assigns the message its seq, and queues its write and its effects.
    fn queue_message(&mut self, draft: &Draft) -> Result<MessageRef, Error> {
        let now = self.hub.rt.now();
        let entry = self.state.session_mut(&draft.session)?;
        entry.session.seq += 1;
        entry.session.updated_at = now;
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
            self.update_todos(draft, now)?;
        }
        let session = &self.state.cache.require_entry(&draft.session)?.session;
        let is_ready = draft.from.is_some() && ready::is_ready(draft.content.text());
        let notification = is_ready.then(|| self.hub.ready_notification(session));
        let (session, update_seq) = (draft.session.clone(), self.state.events.next_unused(now));
        self.state.write_queue.on_commit(Effect::message(session, draft.from, message.clone(), update_seq));
        self.state.write_queue.queue_message(&draft.session, message);
        notification
            .into_iter()
            .for_each(|notification| self.state.write_queue.on_commit(Effect::Notify(notification)));
        Ok(message_ref)
    }

    /// Stores the todo list that a message contains. Ignores a list above [`MAX_TODOS_BYTES`].
    fn update_todos(&mut self, draft: &Draft, now: u64) -> Result<(), Error> {
        let todos = todo::extract(draft.content.text(), &self.hub.config.vocabulary).map(|todos| Json::of(&todos));
        let Some(todos) = todos.filter(|todos| todos.text().len() <= MAX_TODOS_BYTES) else { return Ok(()) };
        let changes = Changes { todos: Some(&todos), updated_at: Some(now), ..Changes::default() };
        let event = Event::session_updated(&draft.session, &changes);
        self.state.session_mut(&draft.session)?.session.todos = Some(todos);
        self.state.write_queue.queue_session(&draft.session, SessionColumns::All);
        self.state.write_queue.on_commit(Effect::Publish(event));
        Ok(())
    }
}
