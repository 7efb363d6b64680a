//! Messages: taken once, numbered without gaps, durable before anybody hears of them.

use std::sync::Arc;

use futures::channel::oneshot;

use crate::hub::error::{Error, check_size};
use crate::hub::limits::MAX_LOCAL_IDS;
use crate::hub::limits::{LARGE_MESSAGE_BYTES, MAX_LOCAL_ID_BYTES};
use crate::hub::ports::ConnId;
use crate::hub::sessions::changes::Changes;
use crate::hub::state::effect::Effect;
use crate::hub::state::local_ids::{LocalIds, Seen};
use crate::hub::{Hub, State};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::message::Message;
use crate::model::{ready, todo};
use crate::store::journal::Extent;
use crate::store::limits::{MAX_CONTENT_BYTES, MAX_TODOS_BYTES};
use crate::store::messages::{self as store, MessageRef};
use crate::wire::cli::NewMessage;

/// A message to be added to a session's history.
pub struct Draft {
    /// The id of its session.
    pub session: String,
    /// The sender's own id, 1 to 255 bytes: a message with one that is known is not stored again.
    pub local_id: Option<String>,
    /// The content, opaque to the hub.
    pub content: Json,
    /// The CLI it came from; `None` when the web sent it. A CLI does not hear its own message again.
    pub from: Option<ConnId>,
}

impl Draft {
    fn check(&self) -> Result<(), Error> {
        check_size("message", &self.content, MAX_CONTENT_BYTES)?;
        if self.local_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_LOCAL_ID_BYTES) {
            return Err(Error::field("localId", format!("Field `localId` must have 1 to {MAX_LOCAL_ID_BYTES} bytes.")));
        }
        Ok(())
    }
}

/// What has to be read before a message can be taken.
enum Taken {
    Done(MessageRef),
    NeedsSession,
    NeedsLocalIds,
    /// The local id is older than what memory holds, or new.
    NeedsLookUp,
    /// The session is being merged with another one, and its numbers with it.
    MergeInProgress(oneshot::Receiver<()>),
}

impl Hub {
    /// Adds a message, or finds the one that its local id stands for. `reply` is told once it is durable.
    pub async fn append(
        self: &Arc<Self>,
        draft: Draft,
        reply: impl FnOnce(&MessageRef) -> Option<Effect>,
    ) -> Result<MessageRef, Error> {
        draft.check()?;
        let mut looked_up = false;
        let message = loop {
            // What was looked up holds for this moment only.
            match self.take(&draft, std::mem::take(&mut looked_up))? {
                Taken::Done(message) => break message,
                Taken::NeedsSession => self.load_session(&draft.session).await?,
                Taken::NeedsLocalIds => self.load_local_ids(&draft.session).await?,
                // Whoever merges lets go of all that wait, however it ended.
                Taken::MergeInProgress(running_merge) => running_merge.await.unwrap_or(()),
                Taken::NeedsLookUp => match self.look_up(&draft).await? {
                    Some(message) => break message,
                    None => looked_up = true,
                },
            }
        };
        if let Some(outcome) = reply(&message) {
            self.state().journal.on_commit(outcome);
        }
        self.flush();
        Ok(message)
    }

    /// Adds a message that the web sent and waits until it is durable. The session must be active.
    pub async fn send_message(self: &Arc<Self>, draft: Draft) -> Result<MessageRef, Error> {
        let (sender, receiver) = oneshot::channel();
        let message = self.append(draft, |_| Some(Effect::Resolve(sender))).await?;
        self.committed(receiver).await?;
        Ok(message)
    }

    /// Refuses a message for which there is no room before it is copied out of its frame: it is in memory already.
    pub(in crate::hub) fn check_message_size(&self, message: &NewMessage<'_>) -> Result<(), Error> {
        match message.payload_bytes() {
            size if size > LARGE_MESSAGE_BYTES => self.state().check_queue_for(size),
            _ => Ok(()),
        }
    }

    fn take(&self, draft: &Draft, looked_up: bool) -> Result<Taken, Error> {
        let mut state = self.state();
        if let Some(running_merge) = state.in_flight.running_merge(&draft.session) {
            return Ok(Taken::MergeInProgress(running_merge));
        }
        let Some(entry) = state.cache.entry(&draft.session) else { return Ok(Taken::NeedsSession) };
        // It may have ended while something was waited for.
        if draft.from.is_none() && !entry.session.active {
            return Err(Error::SessionInactive);
        }
        if let Some(local_id) = &draft.local_id {
            match entry.local_ids.as_ref().map(|ids| ids.look_up(local_id)) {
                None => return Ok(Taken::NeedsLocalIds),
                Some(Seen::Before(message)) => return Ok(Taken::Done(message)),
                Some(Seen::Unknown) if !looked_up => return Ok(Taken::NeedsLookUp),
                Some(Seen::Unknown | Seen::Never) => {}
            }
        }
        state.check_queue_for(draft.content.text().len())?;
        self.note(&mut state, draft).map(Taken::Done)
    }

    /// Gives the message its seq and notes all that follows from it.
    fn note(&self, state: &mut State, draft: &Draft) -> Result<MessageRef, Error> {
        let now = self.rt.now();
        let id = self.new_id();
        let entry = state.cache.session_mut(&draft.session)?;
        let s = &mut entry.session;
        s.seq += 1;
        s.updated_at = now;
        let message = Message {
            id,
            seq: s.seq,
            local_id: draft.local_id.clone(),
            content: draft.content.clone(),
            created_at: now,
        };
        let found = MessageRef { id: message.id.clone(), seq: message.seq, created_at: now };
        if let (Some(ids), Some(local_id)) = (&mut entry.local_ids, &draft.local_id) {
            ids.insert(local_id.clone(), found.clone());
        }
        let todos = draft.from.and_then(|_| todo::extract(draft.content.text(), &self.config.vocabulary));
        let todos = todos.map(|todos| Json::of(&todos));
        // A list that does not fit is no list to show; the message itself is kept.
        let todos = todos.filter(|todos| todos.text().len() <= MAX_TODOS_BYTES);
        if let Some(todos) = todos {
            entry.session.todos = Some(todos);
            let changes = Changes { todos: entry.session.todos.as_ref(), updated_at: Some(now), ..Changes::default() };
            let event = Event::session_updated(&draft.session, &changes);
            state.journal.queue_session(&draft.session, Extent::Whole);
            state.journal.on_commit(Effect::Publish(event));
        }
        let waits = draft.from.is_some() && ready::is_ready(draft.content.text());
        let notification =
            state.cache.entry(&draft.session).filter(|_| waits).map(|entry| self.ready_notification(&entry.session));
        let (session, number) = (draft.session.clone(), state.event_numbers.allocate(now));
        state.journal.on_commit(Effect::Message { session, except: draft.from, message: message.clone(), number });
        state.journal.queue_message(&draft.session, message);
        notification.into_iter().for_each(|notification| state.journal.on_commit(Effect::Notify(notification)));
        Ok(found)
    }

    async fn load_local_ids(self: &Arc<Self>, session: &str) -> Result<(), Error> {
        // Whatever is noted for this session and not yet durable would be missing in the answer.
        let mark = self.state().cache.generation();
        self.flushed().await?;
        let ids = store::load_local_ids(&self.db, &self.config.namespace, session, MAX_LOCAL_IDS as u64).await?;
        let mut state = self.state();
        if state.cache.evicted_since(mark, session) {
            return Ok(());
        }
        // Until they are here no message with a local id is taken; those without one change nothing.
        if let Some(entry) = state.cache.entry_mut_keeping_summary(session) {
            entry.local_ids.get_or_insert_with(|| LocalIds::loaded(ids));
        }
        Ok(())
    }

    async fn look_up(self: &Arc<Self>, draft: &Draft) -> Result<Option<MessageRef>, Error> {
        let Some(local_id) = &draft.local_id else { return Ok(None) };
        Ok(store::find_by_local_id(&self.db, &self.config.namespace, &draft.session, local_id).await?)
    }
}
