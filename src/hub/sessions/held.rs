//! Held messages: messages of web clients for an inactive session, which wait until its CLI is back (PROTOCOL-WEB.md "Held
//! messages"). When the session is active again, the hub adds them to the history: one batch inserts the messages and deletes the
//! held ones. So a held message is either sent or canceled, once.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind, check_size};
use crate::hub::core::local_ids::Seen;
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::core::sessions::lookup::UnknownLocalId;
use crate::hub::sessions::changes::Changes;
use crate::hub::sessions::drafts::Draft;
use crate::hub::sessions::load::{Needs, RelatedRows};
use crate::hub::turn::Turn;
use crate::limits::{MAX_HELD_MESSAGE_BYTES, MAX_HELD_MESSAGES};
use crate::model::message::HeldMessage;
use crate::store::{held_messages, query};

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
            let canceled = self.turn().remove_held(session, local_id)?;
            if let Some(is_canceled) = canceled {
                self.flush().await?;
                return if is_canceled { Ok(()) } else { Err(Error::NotFound(Kind::HeldMessage)) };
            }
            self.load_related(session, RelatedRows::HeldMessages).await?;
        }
    }

    /// Delivers the held messages of an active session in a task. After an error, the next keep-alive starts another delivery.
    pub(super) fn start_delivery(self: &Arc<Self>, session: &str) {
        let is_due = |entry: &CachedSession| entry.session.active && entry.session.held_messages_count > 0;
        if self.turn().cache.entry(session).is_some_and(is_due) {
            let session = session.to_owned();
            self.spawn(|hub| async move { drop(hub.deliver_held(&session).await) });
        }
    }

    /// Adds the held messages of a session to its history, in their order. Does nothing if the session is inactive.
    pub(super) async fn deliver_held(self: &Arc<Self>, session: &str) -> Result<(), Error> {
        let mut lookups = 0;
        loop {
            let needs = self.turn().try_deliver(session)?;
            let Some(needs) = needs else { break };
            self.load_needed(session, needs, &mut lookups).await?;
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

    /// Delivers the held messages, or returns what must be loaded first.
    fn try_deliver(&mut self, id: &str) -> Result<Option<Needs>, Error> {
        if let Some(unlocked) = self.state.in_flight.wait_for_unlock(id) {
            return Ok(Some(Needs::Unlocked(unlocked)));
        }
        let Some(entry) = self.state.cache.entry(id) else {
            return Ok(Some(Needs::Session(RelatedRows::LocalIds)));
        };
        if !entry.session.active || entry.session.held_messages_count == 0 {
            return Ok(None);
        }
        let Some(held) = &entry.held else {
            return Ok(Some(Needs::Related(RelatedRows::HeldMessages)));
        };
        let Some(local_ids) = &entry.local_ids else {
            return Ok(Some(Needs::Related(RelatedRows::LocalIds)));
        };
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
            return Ok(Some(Needs::LocalIds(unknown)));
        }
        self.state.ensure_write_queue_has_room(drafts.iter().map(|draft| draft.content.text().len()).sum())?;
        // The messages are queued before the deletion, so that a client first receives the event of each message, and replaces the
        // held message by it.
        drafts.iter().try_for_each(|draft| self.queue_message(draft).map(drop))?;
        self.delete_held(id)?;
        Ok(None)
    }

    /// Changes the held messages of a session, and queues the event with their number. The messages must be loaded, unless `change`
    /// deletes all.
    fn change_held(&mut self, id: &str, change: impl FnOnce(&mut Vec<HeldMessage>)) -> Result<(), Error> {
        self.state.change_entry(id, Changes::default(), |entry, _| {
            let held = entry.held.get_or_insert_default();
            change(held);
            entry.session.held_messages_count = held.len();
        })
    }
}
