//! Adding messages to a session's history: each is stored once, numbered without gaps, and published when it is durable. Held messages:
//! messages of web clients for an inactive session, which wait until its CLI is back (PROTOCOL-WEB.md "Held messages"). One batch adds
//! the messages to the history and deletes the held ones, so a held message is either sent or canceled, once.

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::core::effect::{Effect, Reply};
use crate::hub::core::error::{Error, Kind, check_field, check_size};
use crate::hub::core::ids::Ids;
use crate::hub::core::local_ids::Seen;
use crate::hub::core::ports::ConnId;
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::core::sessions::evictions::UnknownLocalId;
use crate::hub::core::state::State;
use crate::hub::sessions::changes::Changes;
use crate::hub::sessions::load::RelatedRows;
use crate::hub::turn::Turn;
use crate::limits::{MAX_CONTENT_BYTES, MAX_HELD_MESSAGE_BYTES, MAX_HELD_MESSAGES, MAX_LOCAL_ID_BYTES};
use crate::model::json::Json;
use crate::model::message::{HeldMessage, Message};
use crate::model::{agent_message, todo};
use crate::store::messages::MessageRef;
use crate::store::{held_messages, query};
use crate::wire::cli::{message_ack, message_rejected};
use crate::wire::socketio::AckId;

/// The most lookups of one local id: a lookup is repeated if the session was evicted during it.
const MAX_LOOKUPS: u32 = 3;

pub struct Draft {
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
    pub ack: Option<AckId>,
}

impl Draft {
    /// Creates the draft of a web client. Ignores an empty local id.
    pub fn new(session: String, local_id: Option<String>, content: Json) -> Self {
        let local_id = local_id.filter(|id| !id.is_empty());
        Self { session, local_id, content, from: None, may_wait: false, ack: None }
    }
}

/// A message that was added, or that was found by its local id.
pub enum Added {
    Stored(MessageRef),
    /// The message waits until the CLI is back.
    Held(HeldMessage),
}

/// Why a step cannot run: it fails, or needs something first.
enum Blocked {
    Failed(Error),
    Related(RelatedRows),
    /// Local ids that must be looked up in the database: they are new or belong to old messages.
    LocalIds(Vec<UnknownLocalId>),
    /// The number of bytes that the namespace stores.
    StoredBytes,
    /// The delivery of the held messages of the session, whose CLI is back.
    Delivery,
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Hub {
    /// Adds a message, or finds the message with the same local id. Returns before it is durable; a CLI gets its acknowledgement then.
    pub async fn append_message(&self, draft: Draft) -> Result<Added, Error> {
        check_size("message", &draft.content, MAX_CONTENT_BYTES)?;
        let is_valid = draft.local_id.as_ref().is_none_or(|id| id.len() <= MAX_LOCAL_ID_BYTES);
        check_field(is_valid, "localId", format_args!("have at most {MAX_LOCAL_ID_BYTES} bytes. Use a UUID"))?;
        let related = if draft.local_id.is_some() { RelatedRows::LocalIds } else { RelatedRows::None };
        let added = self.run_step(&draft.session, related, |turn| turn.try_append(&draft)).await?;
        if let (Added::Stored(message), Some(from), Some(ack)) = (&added, draft.from, draft.ack) {
            let failed = message_rejected("The hub could not store the message. Send it again.", "unavailable", None);
            let reply = Reply::acknowledgement(from, ack, &message_ack(&message.id, message.seq), &failed);
            self.turn().reply_on_commit(Some(reply));
        }
        self.start_commit();
        Ok(added)
    }

    /// Adds a message of a web client, and waits until it is durable. The session must be active, unless the message may wait.
    pub async fn send_message(&self, draft: Draft) -> Result<Added, Error> {
        let added = self.append_message(draft).await?;
        self.flush().await?;
        Ok(added)
    }

    /// Reads the held messages of a session, after all writes queued so far are durable.
    pub async fn list_held(&self, session: &str) -> Result<Vec<HeldMessage>, Error> {
        self.load_session(session).await?;
        // Memory for the rows, and for the response that is made from the rows.
        let _memory = self.memory.reserve(2 * MAX_HELD_MESSAGES * MAX_HELD_MESSAGE_BYTES).await?;
        self.begin_read().await?;
        let rows = query(&self.db, held_messages::select(&self.config.namespace, session)).await?;
        Ok(held_messages::read(rows)?)
    }

    /// Cancels a held message. If the message was sent or canceled before, waits until that change is durable, and then fails.
    pub async fn cancel_held(&self, session: &str, local_id: &str) -> Result<(), Error> {
        let remove = |turn: &mut Turn<'_>| turn.remove_held(session, local_id);
        let is_canceled = self.run_step(session, RelatedRows::HeldMessages, remove).await?;
        self.flush().await?;
        if is_canceled { Ok(()) } else { Err(Error::NotFound(Kind::HeldMessage)) }
    }

    /// Delivers the held messages of an active session in a task. After an error, the next keep-alive starts another delivery.
    pub(super) fn start_delivery(&self, session: &str) {
        let is_due = |entry: &CachedSession| entry.session.active && entry.session.held_messages_count > 0;
        if self.turn().cache.entry(session).is_some_and(is_due) {
            let session = session.to_owned();
            self.spawn(|hub| async move { drop(hub.deliver_held(&session).await) });
        }
    }

    /// Adds the held messages of a session to its history, in their order. Does nothing if the session is inactive.
    fn deliver_held<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.run_step(session, RelatedRows::LocalIds, |turn| turn.try_deliver(session)).await?;
            self.start_commit();
            Ok(())
        })
    }

    /// Loads a session like [`load_session_with`](Self::load_session_with), and runs a step. Repeats it with what it needs.
    async fn run_step<T>(
        &self,
        id: &str,
        related: RelatedRows,
        mut step: impl FnMut(&mut Turn<'_>) -> Result<T, Blocked>,
    ) -> Result<T, Error> {
        let mut lookups = 0;
        loop {
            self.load_session_with(id, related).await?;
            let result = step(&mut self.turn());
            match result {
                Ok(result) => return Ok(result),
                Err(Blocked::Failed(error)) => return Err(error),
                Err(Blocked::Related(related)) => self.load_related(id, related).await?,
                Err(Blocked::StoredBytes) => self.count_stored_bytes().await?,
                Err(Blocked::Delivery) => self.deliver_held(id).await?,
                Err(Blocked::LocalIds(_)) if lookups == MAX_LOOKUPS => {
                    let message = "The hub could not find out whether the message was stored before. Send it again.";
                    return Err(Error::Unavailable(message.into()));
                }
                Err(Blocked::LocalIds(unknown)) => {
                    lookups += 1;
                    // The next batch looks them up: in vain if the session is evicted or has `MAX_LOCAL_IDS` messages that are not durable.
                    self.turn().unknown_local_ids.extend(unknown);
                    self.wait_for_commit().await?;
                }
            }
        }
    }
}

impl Turn<'_> {
    fn try_append(&mut self, draft: &Draft) -> Result<Added, Blocked> {
        let (hub, now) = (self.hub, self.hub.rt.now());
        let entry = self.state.cache.require_entry(&draft.session)?;
        let must_wait = draft.from.is_none() && !entry.session.active;
        if must_wait {
            // A session that has ended must be resumed instead.
            let has_ended = entry.session.ended_at.is_some() || entry.session.metadata_fields().is_archived();
            if !draft.may_wait || has_ended {
                return Err(self.state.inactive_error(&draft.session, Error::SessionInactive).into());
            }
            let held = entry.held.as_ref().ok_or(Blocked::Related(RelatedRows::HeldMessages))?;
            if let Some(known) = held.iter().find(|known| draft.local_id.as_ref() == Some(&known.local_id)) {
                return Ok(Added::Held(known.clone()));
            }
        } else if draft.from.is_none() && entry.session.held_messages_count > 0 {
            return Err(Blocked::Delivery);
        }
        if let Some(local_id) = &draft.local_id {
            let known = entry.local_ids.as_ref().ok_or(Blocked::Related(RelatedRows::LocalIds))?;
            match known.look_up(local_id) {
                Seen::Before(message) => return Ok(Added::Stored(message)),
                Seen::Unknown => {
                    let (session, local_id) = (draft.session.clone(), local_id.clone());
                    return Err(Blocked::LocalIds(vec![UnknownLocalId { session, local_id, from: draft.from }]));
                }
                Seen::Never => {}
            }
        }
        if !self.state.check_message_quotas(&hub.config.quotas, now)? {
            return Err(Blocked::StoredBytes);
        }
        self.state.ensure_write_queue_has_room(draft.content.text().len())?;
        let added = if must_wait { self.state.hold(draft, &hub.ids, now)? } else { self.queue_message(draft, now)? };
        if hub.config.quotas.max_messages_per_minute.is_some() {
            self.state.message_rate.record(now);
        }
        Ok(added)
    }

    /// Assigns the message its seq, and queues its write and its effects.
    fn queue_message(&mut self, draft: &Draft, now: u64) -> Result<Added, Error> {
        let entry = self.state.session_mut(&draft.session)?;
        entry.session.seq += 1;
        (entry.session.updated_at, entry.session.last_message_at) = (now, Some(now));
        let message = Message {
            id: self.hub.ids.uuid(),
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
        let todos = draft.from.and_then(|_| todo::find(draft.content.text(), &self.hub.config.vocabulary));
        let is_ready = draft.from.is_some() && agent_message::is_ready(draft.content.text());
        // Most messages of an agent change nothing else, and the comparison of a change copies the session.
        if todos.is_some() || is_ready || draft.from.is_none() {
            self.state.change_session(&draft.session, |session| {
                session.todos = todos.or(session.todos.take());
                if draft.from.is_none() {
                    // A person who writes to a session has seen it.
                    session.unseen_since = None;
                } else if is_ready && !session.metadata_fields().is_archived() {
                    session.unseen_since.get_or_insert(now);
                }
            })?;
        }
        let session = &self.state.cache.require_entry(&draft.session)?.session;
        let notification = is_ready.then(|| self.hub.config.ready_notification(session));
        let (session, update_seq) = (draft.session.clone(), self.state.events.next_unused(now));
        self.state.write_queue.on_commit(Effect::message(session, draft.from, message.clone(), update_seq));
        self.state.stored_bytes.add(message.content.text().len() as u64);
        self.state.write_queue.queue_message(&draft.session, message);
        self.announce_storage();
        if let Some(notification) = notification {
            self.state.write_queue.on_commit(Effect::Notify(notification));
        }
        Ok(Added::Stored(message_ref))
    }

    fn try_deliver(&mut self, id: &str) -> Result<(), Blocked> {
        let entry = self.state.cache.require_entry(id)?;
        if !entry.session.active || entry.session.held_messages_count == 0 {
            return Ok(());
        }
        let held = entry.held.as_ref().ok_or(Blocked::Related(RelatedRows::HeldMessages))?;
        let local_ids = entry.local_ids.as_ref().ok_or(Blocked::Related(RelatedRows::LocalIds))?;
        let (mut drafts, mut unknown) = (Vec::new(), Vec::new());
        for HeldMessage { local_id, content, .. } in held {
            let (session, local_id) = (id.to_owned(), local_id.clone());
            match local_ids.look_up(&local_id) {
                Seen::Never => drafts.push(Draft::new(session, Some(local_id), content.clone())),
                Seen::Unknown => unknown.push(UnknownLocalId { session, local_id, from: None }),
                // A CLI has sent a message with this local id meanwhile.
                Seen::Before(_) => {}
            }
        }
        if !unknown.is_empty() {
            return Err(Blocked::LocalIds(unknown));
        }
        self.state.ensure_write_queue_has_room(drafts.iter().map(|draft| draft.content.text().len()).sum())?;
        // Queued before the deletion, so that a client first receives the event of each message, which replaces the held message.
        drafts.iter().try_for_each(|draft| self.queue_message(draft, self.hub.rt.now()).map(drop))?;
        Ok(self.state.delete_held(id)?)
    }
}

impl State {
    /// Holds the message of a draft. A draft without a local id gets one.
    fn hold(&mut self, draft: &Draft, ids: &Ids, now: u64) -> Result<Added, Error> {
        check_size("message", &draft.content, MAX_HELD_MESSAGE_BYTES)?;
        let id = &draft.session;
        let held = self.cache.require_entry(id)?.held.as_deref().unwrap_or_default();
        if held.len() >= MAX_HELD_MESSAGES {
            return Err(Error::TooManyHeldMessages);
        }
        let message = HeldMessage {
            local_id: draft.local_id.clone().unwrap_or_else(|| ids.uuid()),
            created_at: held.last().map_or(now, |last| now.max(last.created_at + 1)),
            content: draft.content.clone(),
        };
        self.change_held(id, |held| held.push(message.clone()))?;
        self.write_queue.queue_held_message(id, message.clone());
        // A person who writes to a session has seen it.
        self.change_session(id, |session| session.unseen_since = None)?;
        Ok(Added::Held(message))
    }

    /// Deletes all held messages of a session.
    pub(super) fn delete_held(&mut self, id: &str) -> Result<(), Error> {
        if self.cache.require_entry(id)?.session.held_messages_count > 0 {
            self.change_held(id, Vec::clear)?;
            self.write_queue.delete_held_messages(id);
        }
        Ok(())
    }

    /// Deletes a held message. Returns whether the session had it.
    fn remove_held(&mut self, id: &str, local_id: &str) -> Result<bool, Blocked> {
        let held = &self.cache.require_entry(id)?.held;
        let held = held.as_ref().ok_or(Blocked::Related(RelatedRows::HeldMessages))?;
        let exists = held.iter().any(|message| message.local_id == local_id);
        if exists {
            self.ensure_write_queue_has_room(0)?;
            self.change_held(id, |held| held.retain(|message| message.local_id != local_id))?;
            self.write_queue.delete_held_message(id, local_id);
        }
        Ok(exists)
    }

    /// Changes the held messages of a session, which must be loaded unless `change` deletes all. Queues the event with their number.
    fn change_held(&mut self, id: &str, change: impl FnOnce(&mut Vec<HeldMessage>)) -> Result<(), Error> {
        self.change_entry(id, Changes::default(), |entry, _| {
            let held = entry.held.get_or_insert_default();
            change(held);
            entry.session.held_messages_count = held.len();
        })
    }
}
