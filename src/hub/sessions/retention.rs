//! Deleting old data: archived sessions that have not changed for a long time, and old messages. A run begins once a day, and deletes a
//! batch at each alarm.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::storage_keys::RETENTION;
use crate::limits::BACKGROUND_RETRY_MS;
use crate::store::retention;

/// The time between two runs, in milliseconds.
const RUN_INTERVAL_MS: u64 = 86_400_000;
/// The pause after a batch, as a multiple of the duration of the batch, so that requests have priority.
const PAUSE_FACTOR: u64 = 4;

impl Hub {
    /// Deletes a batch, and schedules the next one. A run that is interrupted begins again.
    pub(in crate::hub) async fn delete_old_data(self: &Arc<Self>) {
        let started_at = self.rt.now();
        let result = self.delete_old_batch(started_at).await;
        let now = self.rt.now();
        let next_at = match result {
            Ok(true) => now + BACKGROUND_RETRY_MS.min((now - started_at) * PAUSE_FACTOR),
            Ok(false) => {
                let next_at = now + RUN_INTERVAL_MS;
                self.turn().retention.searched_tag = Some(String::new());
                self.rt.kv_put(RETENTION, &next_at.to_string());
                next_at
            }
            Err(_) => now + BACKGROUND_RETRY_MS,
        };
        let mut turn = self.turn();
        turn.retention.due_at = Some(next_at);
        turn.request_alarm(Some(next_at));
    }

    /// Deletes a batch. Returns whether the run must continue.
    async fn delete_old_batch(self: &Arc<Self>, now: u64) -> Result<bool, Error> {
        let quotas = &self.config.quotas;
        let searched_tag = self.turn().retention.searched_tag.clone();
        if let Some((after, age)) = searched_tag.zip(quotas.archived_session_retention_ms) {
            self.delete_archived(&after, now.saturating_sub(age)).await?;
            return Ok(true);
        }
        let Some(age) = quotas.message_retention_ms else { return Ok(false) };
        let cutoff = now.saturating_sub(age);
        // Writes the queued changes first, because the deletion selects its rows in the database.
        self.flush().await?;
        let is_deleted = retention::delete_expired(&self.db, &self.config.namespace, cutoff).await?;
        if is_deleted {
            self.recount_stored_bytes();
        }
        Ok(is_deleted)
    }

    async fn delete_archived(self: &Arc<Self>, after: &str, cutoff: u64) -> Result<(), Error> {
        let found = retention::find_archived(&self.db, &self.config.namespace, after, cutoff).await?;
        for (_, id) in &found {
            match self.delete_archived_session(id, cutoff).await {
                // A client has deleted the session, or its CLI has opened it again.
                Ok(()) | Err(Error::NotFound(_) | Error::SessionActive) => {}
                Err(error) => return Err(error),
            }
        }
        let is_complete = found.len() < retention::ARCHIVED_AT_ONCE;
        self.turn().retention.searched_tag = found.into_iter().next_back().map(|(tag, _)| tag).filter(|_| !is_complete);
        Ok(())
    }
}
