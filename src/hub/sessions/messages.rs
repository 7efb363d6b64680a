//! Adding messages to a session's history: each is stored once, numbered without gaps, and published when it is durable.

use std::sync::Arc;

use futures::channel::oneshot;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::local_ids::Seen;
use crate::hub::core::sessions::lookup::UnknownLocalId;
use crate::hub::sessions::drafts::{Added, Draft, Receipt};
use crate::hub::sessions::load::RelatedRows;
use crate::hub::turn::Turn;
use crate::hub::write::lookups::{MAX_LOOKUPS, NOT_LOOKED_UP};
use crate::wire::cli::NewMessage;

/// A message above this size, in bytes, is copied out of its frame only if the copy fits
/// [`MAX_QUEUED_BYTES`](crate::limits::MAX_QUEUED_BYTES).
const LARGE_MESSAGE_BYTES: usize = 1_000_000;

/// The result of an attempt to add a message. All results but `Done` name what the caller must wait for before the next attempt.
enum AppendAttempt {
    Done(Added),
    NeedsSession,
    NeedsLocalIds,
    NeedsHeldMessages,
    NeedsStoredBytes,
    /// The CLI is back, and the held messages must be delivered before this message.
    NeedsDelivery,
    /// The local id must be looked up in the database: it is not in memory, so it is new or belongs to an old message.
    NeedsLookup(UnknownLocalId),
    /// A merge is in progress.
    Locked(oneshot::Receiver<Result<(), Error>>),
}

impl Hub {
    /// Adds a message, or finds the message with the same local id. Returns before the message is durable. The draft's receipt
    /// informs the sender once the message is durable.
    pub async fn append_message(self: &Arc<Self>, draft: Draft) -> Result<Added, Error> {
        draft.check()?;
        let mut lookups = 0;
        let added = loop {
            let attempt = self.turn().try_append(&draft)?;
            match attempt {
                AppendAttempt::Done(added) => break added,
                AppendAttempt::NeedsSession if draft.local_id.is_some() => {
                    self.load_session_with(&draft.session, RelatedRows::LocalIds).await?;
                }
                AppendAttempt::NeedsSession => self.load_session(&draft.session).await?,
                AppendAttempt::NeedsLocalIds => self.load_local_ids(&draft.session).await?,
                AppendAttempt::NeedsHeldMessages => self.load_held(&draft.session).await?,
                AppendAttempt::NeedsStoredBytes => self.count_stored_bytes().await?,
                AppendAttempt::NeedsDelivery => self.deliver_held(&draft.session).await?,
                AppendAttempt::Locked(unlocked) => unlocked.await.unwrap_or(Ok(()))?,
                AppendAttempt::NeedsLookup(_) if lookups == MAX_LOOKUPS => {
                    return Err(Error::Unavailable(NOT_LOOKED_UP.into()));
                }
                AppendAttempt::NeedsLookup(unknown) => {
                    lookups += 1;
                    self.look_up_local_ids(vec![unknown]).await?;
                }
            }
        };
        if let Some(receipt) = draft.receipt_effect(&added) {
            self.turn().write_queue.on_commit(receipt);
        }
        self.start_commit();
        Ok(added)
    }

    /// Adds a message of a web client, and waits until it is durable. The session must be active, unless the message may wait.
    pub async fn send_message(self: &Arc<Self>, draft: Draft) -> Result<Added, Error> {
        let (waiter, committed) = oneshot::channel();
        let added = self.append_message(Draft { receipt: Some(Receipt::Waiter(waiter)), ..draft }).await?;
        self.commit_and_wait(committed).await?;
        Ok(added)
    }

    /// Refuses a large message if the write queue has no room for a copy. Call this before the message is copied out of its frame.
    pub(in crate::hub) fn check_message_size(&self, message: &NewMessage<'_>) -> Result<(), Error> {
        match message.payload_bytes() {
            bytes if bytes > LARGE_MESSAGE_BYTES => self.turn().ensure_write_queue_has_room(bytes),
            _ => Ok(()),
        }
    }
}

impl Turn<'_> {
    fn try_append(&mut self, draft: &Draft) -> Result<AppendAttempt, Error> {
        if let Some(unlocked) = self.state.in_flight.wait_for_unlock(&draft.session) {
            return Ok(AppendAttempt::Locked(unlocked));
        }
        let Some(entry) = self.state.cache.entry(&draft.session) else { return Ok(AppendAttempt::NeedsSession) };
        let must_wait = draft.from.is_none() && !entry.session.active;
        if must_wait {
            if !draft.may_wait || !entry.accepts_held_messages() {
                return Err(self.state.inactive_error(&draft.session, Error::SessionInactive));
            }
            let Some(held) = &entry.held else { return Ok(AppendAttempt::NeedsHeldMessages) };
            if let Some(known) = held.iter().find(|known| draft.local_id.as_ref() == Some(&known.local_id)) {
                return Ok(AppendAttempt::Done(Added::Held(known.clone())));
            }
        } else if draft.from.is_none() && entry.session.held_messages_count > 0 {
            return Ok(AppendAttempt::NeedsDelivery);
        }
        if let Some(local_id) = &draft.local_id {
            match entry.local_ids.as_ref().map(|ids| ids.look_up(local_id)) {
                None => return Ok(AppendAttempt::NeedsLocalIds),
                Some(Seen::Before(message)) => return Ok(AppendAttempt::Done(Added::Stored(message))),
                Some(Seen::Unknown) => {
                    let (session, local_id) = (draft.session.clone(), local_id.clone());
                    return Ok(AppendAttempt::NeedsLookup(UnknownLocalId { session, local_id, from: draft.from }));
                }
                Some(Seen::Never) => {}
            }
        }
        if !self.check_message_quotas()? {
            return Ok(AppendAttempt::NeedsStoredBytes);
        }
        self.state.ensure_write_queue_has_room(draft.content.text().len())?;
        let added = match must_wait {
            true => Added::Held(self.hold(draft)?),
            false => Added::Stored(self.queue_message(draft)?),
        };
        self.record_sent_message();
        Ok(AppendAttempt::Done(added))
    }
}
