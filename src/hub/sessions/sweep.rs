//! Sweeps: deletes the messages and completed requests of deleted sessions, a batch with each alarm, because a statement that
//! deletes hundreds of thousands of rows could reset the database. The sessions themselves are deleted at once.

use std::sync::Arc;

use crate::hub::storage_keys::SWEEP;
use crate::hub::{Hub, State};
use crate::limits::{BACKGROUND_RETRY_MS, SWEEP_PAUSE_FACTOR};
use crate::store::removals;

impl Hub {
    /// Schedules the first batch of a sweep. The sweep survives hibernation and restarts. Call this before the deletion of the
    /// session is committed, so that a crash between the two leaves nothing behind.
    pub(in crate::hub) fn schedule_sweep(&self, state: &mut State) {
        self.rt.kv_put(SWEEP, "due");
        self.schedule_batch(state, 0);
    }

    /// Deletes a batch, and schedules the next one.
    pub(in crate::hub) async fn sweep(self: &Arc<Self>) {
        // The deletion may still be queued. If it fails, the sessions stay.
        let _ = self.flushed().await;
        let started_at = self.rt.now();
        let result = removals::sweep(&self.db, &self.config.namespace).await;
        let took_ms = self.rt.now().saturating_sub(started_at);
        let mut state = self.state();
        let is_scheduled = state.sweep.end();
        match result {
            Ok(true) => self.schedule_batch(&mut state, BACKGROUND_RETRY_MS.min(took_ms * SWEEP_PAUSE_FACTOR)),
            Err(_) => self.schedule_batch(&mut state, BACKGROUND_RETRY_MS),
            // Another session was deleted during the batch.
            Ok(false) if is_scheduled => self.schedule_batch(&mut state, 0),
            Ok(false) => self.rt.kv_delete(SWEEP),
        }
    }

    fn schedule_batch(&self, state: &mut State, pause_ms: u64) {
        state.sweep.schedule(self.rt.now() + pause_ms);
        self.request_alarm(state, state.sweep.next_deadline());
    }
}
