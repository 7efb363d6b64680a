//! The list of sessions. Sessions that are not in memory are listed from the database, without loading them.

use std::sync::Arc;

use crate::hub::error::Error;
use crate::hub::state::session_list::{ListRequest, ReadSummaries};
use crate::hub::{Hub, State};
use crate::limits::{LIST_READ_BYTES, MEMORY_TIMEOUT_MS};
use crate::model::owner::Owner;
use crate::model::summary::{SessionSummary, SummaryFields};
use crate::store::summaries::{self as store, Summaries};

/// The memory of a read: its rows, and the summaries that are made of them, in bytes.
const READ_MEMORY_BYTES: usize = 2 * LIST_READ_BYTES;

impl Hub {
    /// Returns a page of the list as JSON, after everything queued so far is durable. While the database is stalled, the list has
    /// the last committed states.
    pub async fn list_sessions(self: &Arc<Self>, request: &ListRequest) -> Result<Arc<str>, Error> {
        self.load_list().await?;
        self.flushed_or_stalled().await?;
        let (mut read, mut memory) = (ReadSummaries::new(), Vec::new());
        loop {
            let listed = {
                let mut state = self.state();
                let listed = state.cache.list(request, &read);
                if listed.is_ok() {
                    state.cache.list.store_json(std::mem::take(&mut read));
                    state.evict_sessions();
                }
                listed
            };
            let missing = match listed {
                Ok(page) => return Ok(page),
                Err(missing) => missing,
            };
            memory.push(self.wait_for_memory(READ_MEMORY_BYTES).await?);
            let generation = self.state().cache.evictions.generation();
            let Summaries { mut fields, is_complete, .. } =
                store::load_by_ids(&self.db, &self.config.namespace, &missing).await?;
            let mut state = self.state();
            for fields in &mut fields {
                state.set_active_at(fields);
                let json = SessionSummary::of(fields).json;
                read.extend(json.map(|json| (std::mem::take(&mut fields.id), (generation, json))));
            }
            if is_complete {
                let deleted: Vec<String> = missing.into_iter().filter(|id| !read.contains_key(id)).collect();
                state.cache.remove_unlisted(generation, &deleted);
            }
        }
    }

    /// Reads sessions from the database until the list has all of them. One request reads for all that wait.
    async fn load_list(self: &Arc<Self>) -> Result<(), Error> {
        let deadline = self.rt.now() + MEMORY_TIMEOUT_MS;
        if self.state().cache.list.unread_after().is_none() {
            return Ok(());
        }
        let _turn = self.list_reads.lock().await;
        loop {
            let Some(tag) = self.state().cache.list.unread_after() else { return Ok(()) };
            let _memory = self.wait_for_memory_until(READ_MEMORY_BYTES, deadline).await?;
            self.flushed().await?;
            let generation = self.state().cache.evictions.generation();
            let Summaries { mut fields, last_tag, is_complete } =
                store::load_after(&self.db, &self.config.namespace, &tag).await?;
            let mut state = self.state();
            fields.iter_mut().for_each(|fields| state.set_active_at(fields));
            let is_active = |fields: &&SummaryFields| fields.active && state.cache.entry(&fields.id).is_none();
            let active: Vec<Owner> =
                fields.iter().filter(is_active).map(|fields| Owner::Session(fields.id.clone())).collect();
            let summaries = fields.into_iter().map(|fields| (SessionSummary::of(&fields), fields.id));
            if state.cache.insert_summaries(generation, summaries) {
                active.into_iter().for_each(|owner| self.start_timeout(&mut state, owner));
                state.cache.list.set_read(last_tag, is_complete);
            }
            state.evict_sessions();
        }
    }
}

impl State {
    /// Sets the time of the last keep-alive, which is written only with other changes.
    fn set_active_at(&self, fields: &mut SummaryFields) {
        if fields.active {
            let owner = Owner::Session(fields.id.clone());
            fields.active_at = fields.active_at.max(self.liveness.active_at(&owner));
        }
    }
}
