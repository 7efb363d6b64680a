//! Cold appends: storing the message of a CLI whose session is not in memory, as after a wake, in one round trip to the database,
//! which assigns the `seq` and returns the session.

use std::ops::Range;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::effects::others;
use crate::hub::error::{Error, Kind};
use crate::hub::sessions::messages::Draft;
use crate::hub::state::effect::Effect;
use crate::hub::state::evictions::Key;
use crate::limits::LARGE_MESSAGE_BYTES;
use crate::model::message::Message;
use crate::model::{ready, todo};
use crate::store::cold_append::{self as store, Appended, LastRow};
use crate::store::messages::MessageRef;
use crate::store::{Database, DbError, Found, Statement};

impl Hub {
    /// Stores and publishes a message, or finds the one with its local id. Returns `None` if its session must be loaded first:
    /// the message is large or changes the session, its socket does not serve the session, a batch whose outcome is unknown is
    /// not resolved in the event log yet, or another query or write is in progress.
    pub(super) fn append_cold<'a>(
        self: &'a Arc<Self>,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<Option<MessageRef>, Error>> {
        Box::pin(async move {
            if !self.begin_cold_append(draft) {
                return Ok(None);
            }
            let appended = self.append_locked(draft).await;
            {
                let mut state = self.state();
                let failure = appended.as_ref().err().filter(|error| matches!(error, Error::Unavailable(_)));
                state.in_flight.unlock_seqs(&draft.session, failure);
                state.journal.unlock();
            }
            self.start_commit();
            appended
        })
    }

    /// Locks the journal and the seqs of the session if a cold append is possible.
    fn begin_cold_append(&self, draft: &Draft) -> bool {
        let content = draft.content.text();
        let changes_session = || todo::extract(content, &self.config.vocabulary).is_some();
        if content.len() > LARGE_MESSAGE_BYTES || !self.is_database_idle() || changes_session() {
            return false;
        }
        let mut state = self.state();
        // The message of a socket that does not serve the session may be rejected.
        let is_served = |conn| state.connections.of_session(&draft.session).contains(&conn);
        let is_log_certain = state.log.as_ref().is_none_or(|log| !log.is_uncertain());
        let may_append = draft.from.is_some_and(is_served) && is_log_certain && state.journal.lock_if_idle();
        if may_append {
            state.in_flight.lock_seqs(&draft.session);
        }
        may_append
    }

    async fn append_locked(self: &Arc<Self>, draft: &Draft) -> Result<Option<MessageRef>, Error> {
        let message = Message {
            id: self.new_id(),
            // The database assigns it.
            seq: 0,
            local_id: draft.local_id().map(str::to_owned),
            content: draft.content.clone(),
            created_at: self.rt.now(),
        };
        let mut statements = store::append(&self.config.namespace, &draft.session, &message);
        let reserved_numbers = self.log_cold_append(&mut statements, &draft.session, &message);
        let appended = self.commit_cold_append(draft, statements).await?;
        self.publish_cold_append(draft, message, appended, reserved_numbers).await
    }

    /// Commits the statements. If their outcome is unknown, disconnects clients that may have missed the message.
    async fn commit_cold_append(
        self: &Arc<Self>,
        draft: &Draft,
        mut statements: Vec<Statement>,
    ) -> Result<Appended, Error> {
        let appended = self.db.batch(&mut statements).await.and_then(|mut results| {
            // The batch is committed, even if a row cannot be read.
            let read = store::read(&self.config.namespace, &mut results)
                .map_err(|error| DbError::Unavailable(error.to_string()));
            self.store_superfluous_rows(&statements, results);
            read
        });
        appended.map_err(|error| {
            let failure = Error::from(error.clone());
            if error.may_have_committed() {
                let missed = others(self.state().connections.of_session(&draft.session), draft.from);
                // Changes that were queued meanwhile fail too: their clients have waited for the whole retry time.
                self.discard_uncommitted(Vec::new(), &failure);
                self.disconnect_to_resync(missed);
            }
            self.handle_failed_batch(&error);
            failure
        })
    }

    /// Puts the session into the cache, and publishes the message if it is new. `reserved_numbers` are those for its event.
    /// Returns the stored message.
    async fn publish_cold_append(
        self: &Arc<Self>,
        draft: &Draft,
        mut message: Message,
        appended: Appended,
        reserved_numbers: Range<u64>,
    ) -> Result<Option<MessageRef>, Error> {
        let session = &draft.session;
        let stored = appended.message;
        let is_new = stored.as_ref().is_some_and(|stored| stored.id == message.id);
        message.seq = stored.as_ref().map_or(0, |stored| stored.seq);
        let logged = appended.last_row.filter(|_| is_new);
        if let Some(LastRow { number, previous_number }) = logged {
            self.continue_log(number, previous_number).await;
        }
        let numbers = logged.map_or(reserved_numbers, |row| row.number..row.number + 1);
        let effects = {
            let mut state = self.state();
            if !is_new {
                state.event_numbers.withdraw();
            }
            match appended.session {
                Ok(Found::Owned(loaded)) => {
                    let (seq, updated_at) = (loaded.seq, loaded.updated_at);
                    // A load that is in progress may have read the session before the message.
                    state.cache.evictions.record(&[Key::Id(session)]);
                    self.insert_loaded(&mut state, loaded);
                    state.cache.record_appended(session, seq, updated_at);
                }
                Ok(Found::Foreign) => return Err(Error::Forbidden(Kind::Session)),
                Ok(Found::Missing) => return Err(Error::NotFound(Kind::Session)),
                // Later loads of the session report the error. A CLI that got it here would send the stored message again.
                Err(_) => {}
            }
            if !is_new {
                return Ok(stored);
            }
            let is_ready = ready::is_ready(draft.content.text());
            let entry = state.cache.entry(session).filter(|_| is_ready);
            let notification = entry.map(|entry| self.ready_notification(&entry.session));
            let update_seq = state.event_numbers.allocate(message.created_at);
            let sent = Effect::message(session.clone(), draft.from, message, update_seq);
            std::iter::once(sent).chain(notification.map(Effect::Notify)).collect()
        };
        self.run_effects(effects, numbers);
        Ok(stored)
    }
}
