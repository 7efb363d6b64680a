//! A sweep deletes the messages and completed requests of deleted sessions, one batch at each alarm: a statement that deletes
//! hundreds of thousands of rows could reset the database. The sessions themselves are deleted immediately.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::storage_keys::SWEEP;
use crate::hub::turn::Turn;
use crate::limits::BACKGROUND_RETRY_MS;
use crate::store::removals;

/// The pause after a batch of a sweep, as a multiple of the duration of the batch, so that requests have priority.
const SWEEP_PAUSE_FACTOR: u64 = 4;

impl Hub {
    /// Deletes a batch, and schedules the next one.
    pub(in crate::hub) async fn sweep(self: &Arc<Self>) {
        // Write the queued deletion of the session first. If this write fails, the session still exists, and the sweep does not
        // delete its messages.
        let _ = self.flush().await;
        let started_at = self.rt.now();
        let has_more = removals::sweep(&self.db, &self.config.namespace).await;
        let took_ms = self.rt.now().saturating_sub(started_at);
        let mut turn = self.turn();
        let was_requested_again = turn.sweep.end_batch();
        match has_more {
            Ok(true) => turn.schedule_batch(BACKGROUND_RETRY_MS.min(took_ms * SWEEP_PAUSE_FACTOR)),
            Err(_) => turn.schedule_batch(BACKGROUND_RETRY_MS),
            // Another session was deleted during the batch.
            Ok(false) if was_requested_again => turn.schedule_batch(0),
            Ok(false) => self.rt.kv_delete(SWEEP),
        }
    }
}

impl Turn<'_> {
    /// Schedules the first batch of a sweep, also in storage, so that it survives hibernation and restarts. Call this before the
    /// deletion of the session is committed: a crash between the two must not leave rows that are never deleted.
    pub(in crate::hub) fn schedule_sweep(&mut self) {
        self.hub.rt.kv_put(SWEEP, "due");
        self.schedule_batch(0);
    }

    fn schedule_batch(&mut self, pause_ms: u64) {
        self.state.sweep.schedule(self.hub.rt.now() + pause_ms);
        self.request_alarm(self.state.sweep.next_deadline());
    }
}
