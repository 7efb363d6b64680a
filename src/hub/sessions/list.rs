//! The list of sessions, and the inbox. Sessions that are not in memory are listed from the database, without loading them.

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::sessions::evictions::{Key, ReadTicket};
use crate::hub::core::sessions::inbox::{InboxRead, InboxRequest, Missing};
use crate::hub::core::sessions::session_list::ListRequest;
use crate::hub::core::state::State;
use crate::hub::turn::Turn;
use crate::limits::MEMORY_TIMEOUT_MS;
use crate::model::owner::Owner;
use crate::model::summary::SessionSummary;
use crate::store::inbox;
use crate::store::summaries::{self, Selection, Summaries};

/// How many bytes of the list are read from the database at once. The bytes and the summaries made from them fit a namespace's
/// share of memory. The SQL in `store::summaries` repeats the number.
const LIST_READ_BYTES: usize = 500_000;

#[derive(Clone, Copy)]
pub enum Page<'a> {
    Sessions(&'a ListRequest),
    Inbox(&'a InboxRequest),
}

impl Hub {
    /// Returns a page as JSON after all writes queued so far are durable, or of the last committed states if the database is stalled.
    pub async fn read_page(&self, page: Page<'_>) -> Result<String, Error> {
        let requested_at = self.rt.now();
        let deadline = requested_at + MEMORY_TIMEOUT_MS;
        let (mut last_failure, mut keep_json, mut inbox_read) = (None, None, None);
        loop {
            self.flush_unless_stalled().await?;
            let listed = {
                let State { cache, write_queue, .. } = &mut *self.turn();
                match page {
                    Page::Sessions(request) => cache.list_page(request, write_queue).map_err(Missing::Summaries),
                    Page::Inbox(request) => cache.inbox_page(request, inbox_read.as_ref(), write_queue, requested_at),
                }
            };
            let missing = match listed {
                Ok(page) => {
                    drop(keep_json);
                    self.turn().evict_sessions();
                    return Ok(page);
                }
                Err(missing) => missing,
            };
            let Some(last_failure) = &mut last_failure else {
                let lock = self.list_reads.lock().await;
                // The waiting requests share the error of a read: otherwise, in an outage, each would wait for another timeout.
                if let Some((_, error)) = lock.as_ref().filter(|(failed_at, _)| requested_at < *failed_at) {
                    return Err(error.clone().into());
                }
                last_failure = Some(lock);
                // Another request may have read the missing sessions meanwhile.
                continue;
            };
            if matches!(missing, Missing::Summaries(Selection::Ids(_))) {
                // The JSON that is read for a page stays in memory until the page is complete.
                keep_json = Some(self.turn().cache.session_list.keep_json());
            }
            // Memory for the rows, and for the summaries that are made from the rows.
            let _memory = self.memory.reserve_until(2 * LIST_READ_BYTES, deadline).await?;
            let ticket = self.begin_read().await?;
            let namespace = &self.config.namespace;
            let read = match (missing, page) {
                (Missing::Summaries(selection), _) => summaries::load(&self.db, namespace, &selection)
                    .await
                    .map(|read| self.turn().insert_summaries(&ticket, selection, read)),
                (Missing::Items(_), Page::Sessions(_)) => Ok(()),
                (Missing::Items(sessions), Page::Inbox(InboxRequest { after, limit })) => {
                    inbox::load(&self.db, namespace, &sessions, after, limit + 1, requested_at)
                        .await
                        .map(|result| inbox_read = Some(InboxRead { sessions, ticket, result }))
                }
            };
            read.inspect_err(|error| **last_failure = Some((self.rt.now(), error.clone())))?;
        }
    }
}

impl Turn<'_> {
    /// Adds summaries that were read from the database to the list.
    fn insert_summaries(&mut self, ticket: &ReadTicket, selection: Selection, read: Summaries) {
        if self.state.cache.evictions.redeem(ticket, Key::Namespace).is_none() {
            return;
        }
        for mut fields in read.fields {
            if fields.active && self.state.cache.entry(&fields.id).is_none() {
                let owner = Owner::Session(fields.id.clone());
                (fields.active_at, fields.disconnected) = self.restore_liveness(owner, fields.active_at);
            }
            let summary = SessionSummary::of(&fields);
            // After an eviction during the read, the summary may be stale. Memory has a newer one, unless the session was deleted.
            if let Some(read) = self.state.cache.evictions.redeem(ticket, Key::Id(&fields.id)) {
                self.state.cache.insert_summary(read, fields.id, summary);
            }
        }
        match selection {
            Selection::After(_) => self.state.cache.session_list.record_read(read.last_tag, read.is_complete),
            Selection::Ids(ids) if read.is_complete => {
                let is_deleted = |id: &&String| self.state.cache.evictions.redeem(ticket, Key::Id(id)).is_some();
                let deleted: Vec<&String> = ids.iter().filter(is_deleted).collect();
                deleted.into_iter().for_each(|id| self.state.cache.session_list.remove_if_without_json(id));
            }
            Selection::Ids(_) => {}
        }
        self.state.evict_sessions();
    }
}
