//! Held messages: messages of web clients for an inactive session, which wait until its CLI is back (PROTOCOL-WEB.md "Held
//! messages"). When the session is active again, the hub adds them to the history: one batch inserts the messages and deletes the
//! held ones. So a held message is either sent or canceled, once.

use std::sync::Arc;

use futures::channel::oneshot;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, Kind, check_size};
use crate::hub::core::local_ids::Seen;
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::core::sessions::evictions::Key;
use crate::hub::core::sessions::lookup::UnknownLocalId;
use crate::hub::sessions::changes::Changes;
use crate::hub::sessions::drafts::Draft;
use crate::hub::sessions::load::RelatedRows;
use crate::hub::turn::Turn;
use crate::hub::write::lookups::{MAX_LOOKUPS, NOT_LOOKED_UP};
use crate::limits::{MAX_HELD_MESSAGE_BYTES, MAX_HELD_MESSAGES};
use crate::model::event::Event;
use crate::model::message::HeldMessage;
use crate::store::{held_messages, query};

/// The result of an attempt to deliver held messages. All results but `Done` name what the caller must wait for before the next
/// attempt.
enum DeliveryAttempt {
    Done,
    NeedsSession,
    NeedsLocalIds,
    NeedsHeldMessages,
    NeedsLookup(Vec<UnknownLocalId>),
    /// A merge is in progress.
    Locked(oneshot::Receiver<Result<(), Error>>),
}

impl CachedSession {
    /// Whether messages may wait for the CLI of this inactive session. A session that has ended must be resumed instead.
    pub(super) fn accepts_held_messages(&self) -> bool {
        self.session.ended_at.is_none() && !self.session.metadata_fields().is_archived()
    }
}

impl Hub {
    /// Reads the held messages of a session, after all writes queued so far are durable.
    pub async fn list_held(self: &Arc<Self>, session: &str) -> Result<Vec<HeldMessage>, Error> {
        self.load_session(session).await?;
        // Memory for the rows, and for the response that is made from the rows.
        let _memory = self.wait_for_memory(2 * MAX_HELD_MESSAGES * MAX_HELD_MESSAGE_BYTES).await?;
        self.begin_read().await?;
        let rows = query(&self.db, held_messages::select(&self.config.namespace, session)).await?;
        Ok(held_messages::read(rows)?)
    }

    /// Cancels a held message. If the message was sent or canceled before, waits until that change is durable, and then fails.
    pub async fn cancel_held(self: &Arc<Self>, session: &str, local_id: &str) -> Result<(), Error> {
        loop {
            self.load_session(session).await?;
            let (canceled, committed) = {
                let mut turn = self.turn();
                (turn.remove_held(session, local_id)?, turn.add_commit_waiter())
            };
            if let Some(is_canceled) = canceled {
                self.commit_and_wait(committed).await?;
                return if is_canceled { Ok(()) } else { Err(Error::NotFound(Kind::HeldMessage)) };
            }
            self.load_held(session).await?;
        }
    }

    /// Loads the held messages of a session into the cache.
    pub(super) async fn load_held(self: &Arc<Self>, session: &str) -> Result<(), Error> {
        let ticket = self.begin_read().await?;
        let rows = query(&self.db, held_messages::select(&self.config.namespace, session)).await?;
        let held = held_messages::read(rows)?;
        let mut turn = self.turn();
        if turn.cache.evictions.redeem(&ticket, Key::Id(session)).is_some()
            && let Some(entry) = turn.cache.entry_mut_without_before_image(session)
        {
            // A deletion of all held messages during the read has set `entry.held` to an empty list, which is newer than the rows. Other
            // changes need the loaded messages, so they cannot have happened.
            entry.held.get_or_insert(held);
            turn.evict_sessions();
        }
        Ok(())
    }

    /// Delivers the held messages of an active session in a task. After an error, the next keep-alive starts another delivery.
    pub(super) fn start_delivery(self: &Arc<Self>, session: &str) {
        let is_due = |entry: &CachedSession| entry.session.active && entry.session.held_messages_count > 0;
        if self.turn().cache.entry(session).is_some_and(is_due) {
            let (hub, session) = (Arc::clone(self), session.to_owned());
            self.rt.spawn(Box::pin(async move {
                let _ = hub.deliver_held(&session).await;
            }));
        }
    }

    /// Adds the held messages of a session to its history, in their order. Does nothing if the session is inactive.
    pub(super) async fn deliver_held(self: &Arc<Self>, session: &str) -> Result<(), Error> {
        let mut lookups = 0;
        loop {
            let delivery = self.turn().try_deliver(session)?;
            match delivery {
                DeliveryAttempt::Done => break,
                DeliveryAttempt::NeedsSession => self.load_session_with(session, RelatedRows::LocalIds).await?,
                DeliveryAttempt::NeedsLocalIds => self.load_local_ids(session).await?,
                DeliveryAttempt::NeedsHeldMessages => self.load_held(session).await?,
                DeliveryAttempt::Locked(unlocked) => unlocked.await.unwrap_or(Ok(()))?,
                DeliveryAttempt::NeedsLookup(_) if lookups == MAX_LOOKUPS => {
                    return Err(Error::Unavailable(NOT_LOOKED_UP.into()));
                }
                DeliveryAttempt::NeedsLookup(unknown) => {
                    lookups += 1;
                    self.look_up_local_ids(unknown).await?;
                }
            }
        }
        self.start_commit();
        Ok(())
    }
}

impl Turn<'_> {
    /// Holds the message of a draft. A draft without a local id gets one.
    pub(super) fn hold(&mut self, draft: &Draft) -> Result<HeldMessage, Error> {
        check_size("message", &draft.content, MAX_HELD_MESSAGE_BYTES)?;
        let (id, now) = (&draft.session, self.hub.rt.now());
        let held = self.state.cache.require_entry(id)?.held.as_deref().unwrap_or_default();
        if held.len() >= MAX_HELD_MESSAGES {
            return Err(Error::TooManyHeldMessages);
        }
        let message = HeldMessage {
            local_id: draft.local_id.clone().unwrap_or_else(|| self.hub.new_id()),
            created_at: held.last().map_or(now, |last| now.max(last.created_at + 1)),
            content: draft.content.clone(),
        };
        self.change_held(id, |held| held.push(message.clone()))?;
        self.state.write_queue.queue_held_message(id, message.clone());
        // A person who writes to a session has seen it.
        self.set_unseen_since(id, None)?;
        Ok(message)
    }

    /// Deletes all held messages of a session.
    pub(super) fn delete_held(&mut self, id: &str) -> Result<(), Error> {
        if self.state.cache.require_entry(id)?.session.held_messages_count > 0 {
            self.change_held(id, Vec::clear)?;
            self.state.write_queue.delete_held_messages(id);
        }
        Ok(())
    }

    /// Deletes a held message. Returns whether the session had it; `None` if the held messages must be loaded.
    fn remove_held(&mut self, id: &str, local_id: &str) -> Result<Option<bool>, Error> {
        let Some(held) = &self.state.cache.require_entry(id)?.held else { return Ok(None) };
        let exists = held.iter().any(|message| message.local_id == local_id);
        if exists {
            self.state.ensure_write_queue_has_room(0)?;
            self.change_held(id, |held| held.retain(|message| message.local_id != local_id))?;
            self.state.write_queue.delete_held_message(id, local_id);
        }
        Ok(Some(exists))
    }

    fn try_deliver(&mut self, id: &str) -> Result<DeliveryAttempt, Error> {
        if let Some(unlocked) = self.state.in_flight.wait_for_unlock(id) {
            return Ok(DeliveryAttempt::Locked(unlocked));
        }
        let Some(entry) = self.state.cache.entry(id) else { return Ok(DeliveryAttempt::NeedsSession) };
        if !entry.session.active || entry.session.held_messages_count == 0 {
            return Ok(DeliveryAttempt::Done);
        }
        let Some(held) = &entry.held else { return Ok(DeliveryAttempt::NeedsHeldMessages) };
        let Some(local_ids) = &entry.local_ids else { return Ok(DeliveryAttempt::NeedsLocalIds) };
        let (mut drafts, mut unknown) = (Vec::new(), Vec::new());
        for HeldMessage { local_id, content, .. } in held {
            let (session, local_id) = (id.to_owned(), local_id.clone());
            match local_ids.look_up(&local_id) {
                Seen::Never => drafts.push(Draft::of_web_client(session, Some(local_id), content.clone())),
                Seen::Unknown => unknown.push(UnknownLocalId { session, local_id, from: None }),
                // A CLI has sent a message with this local id meanwhile.
                Seen::Before(_) => {}
            }
        }
        if !unknown.is_empty() {
            return Ok(DeliveryAttempt::NeedsLookup(unknown));
        }
        self.state.ensure_write_queue_has_room(drafts.iter().map(|draft| draft.content.text().len()).sum())?;
        // The messages are queued before the deletion, so that a client first receives the event of each message, and replaces the
        // held message by it.
        drafts.iter().try_for_each(|draft| self.queue_message(draft).map(drop))?;
        self.delete_held(id)?;
        Ok(DeliveryAttempt::Done)
    }

    /// Changes the held messages of a session, and queues the event with their number. The messages must be loaded, unless `change`
    /// deletes all.
    fn change_held(&mut self, id: &str, change: impl FnOnce(&mut Vec<HeldMessage>)) -> Result<(), Error> {
        let entry = self.state.session_mut(id)?;
        let held = entry.held.get_or_insert_default();
        change(held);
        let count = held.len();
        entry.session.held_messages_count = count;
        let changes = Changes { held_messages_count: Some(count), ..Changes::default() };
        self.state.write_queue.on_commit(Effect::Publish(Event::session_updated(id, &changes)));
        Ok(())
    }
}
