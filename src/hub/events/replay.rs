//! Logs events with their changes, and loads them for web clients that reconnect.

use std::ops::Range;
use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::Error;
use crate::limits::RETAINED_BYTES;
use crate::store::events::{self, TRIM_BYTES};
use crate::store::{DbError, Statement};

/// How long a web client that resumes waits for the memory to read the event log, in milliseconds.
const LOG_MEMORY_TIMEOUT_MS: u64 = 2_000;

impl Hub {
    /// Reserves numbers for the events of a batch, and adds their rows to it. The events of an empty batch have no numbers.
    pub(in crate::hub) async fn log_events(
        &self,
        batch: &mut Vec<Statement>,
        effects: &[Effect],
    ) -> Result<Range<u64>, DbError> {
        let events = effects.iter().filter(|effect| effect.is_event()).count();
        if batch.is_empty() || events == 0 {
            return Ok(0..0);
        }
        self.publish_missed_events().await?;
        let state = &mut *self.turn();
        let numbers = state.events.reserve_for_batch(events, self.rt.now());
        let rows = state.events.encode_batch(numbers.clone(), effects.iter().filter_map(Effect::event));
        state.events.append_rows(&self.config.namespace, rows, batch);
        Ok(numbers)
    }

    /// Adds a gap to the log in a batch that makes earlier events useless. Returns the number for an event of the batch, and the last
    /// number of the gap.
    pub(in crate::hub) async fn log_gap(&self, batch: &mut Vec<Statement>) -> Result<(u64, u64), DbError> {
        self.publish_missed_events().await?;
        let state = &mut *self.turn();
        let numbers = state.events.reserve_for_batch(2, self.rt.now());
        let rows = state.events.encode_gap(numbers.end - 1);
        state.events.append_rows(&self.config.namespace, rows, batch);
        Ok((numbers.start, numbers.end - 1))
    }

    /// Returns the newer of two event ids. An id that is malformed or of another namespace counts as older.
    pub fn newer_event_id(&self, one: Option<String>, other: Option<String>) -> Option<String> {
        let ids = &self.turn().events.ids;
        one.into_iter().chain(other).max_by_key(|id| ids.parse(id))
    }

    /// Loads the events after `last_event_id` that are still in the log, if there is memory for them. Call it before
    /// [`subscribe`](Self::subscribe).
    pub async fn load_missed_events(self: &Arc<Self>, last_event_id: Option<&str>) -> Result<(), Error> {
        self.publish_missed_events().await?;
        let to_load = || last_event_id.and_then(|id| self.turn().events.rows_to_load(id));
        if to_load().is_none() {
            return Ok(());
        }
        // One client loads the rows for all waiting clients. If this read fails, all of these clients get the error: in an
        // outage, each client would otherwise wait for the same timeout again.
        let requested_at = self.rt.now();
        let mut last_failure = self.log_reads.lock().await;
        let failed_during_wait = |failed_at| requested_at < failed_at && failed_at <= self.rt.now();
        if let Some((_, error)) = last_failure.as_ref().filter(|(failed_at, _)| failed_during_wait(*failed_at)) {
            return Err(error.clone().into());
        }
        if let Some((after, up_to)) = to_load() {
            // Memory for the rows as text, and for their events. Without this memory, the client gets a gap notice. Waiting while the
            // lock is held is safe: no task that frees memory needs this lock. All clients that wait for the lock have the same
            // deadline.
            let deadline = requested_at + LOG_MEMORY_TIMEOUT_MS;
            let memory = self.wait_for_memory_until(2 * (RETAINED_BYTES + TRIM_BYTES), deadline).await;
            let Ok(_memory) = memory else { return Ok(()) };
            let rows = events::load(&self.db, &self.config.namespace, after, Some(up_to)).await;
            let rows = rows.inspect_err(|error| *last_failure = Some((self.rt.now(), error.clone())))?;
            self.turn().events.log.insert_loaded(up_to, rows);
        }
        Ok(())
    }
}
