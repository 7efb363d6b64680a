//! Deletes what belongs to deleted sessions: a chunk with each alarm, because a statement that deletes hundreds of thousands
//! of rows could reset the database. The sessions themselves disappear at once.

use std::sync::Arc;

use crate::hub::storage_keys::SWEEP;
use crate::hub::{Hub, State};
use crate::limits::{SWEEP_PAUSE_MS, SWEEP_RETRY_MS};
use crate::store::removals;

impl Hub {
    /// Schedules the first chunk, also if the object hibernates or is restarted before. Call it before the deletion is
    /// committed, so that a crash between the two leaves nothing behind.
    pub(in crate::hub) fn sweep_later(&self, state: &mut State) {
        self.rt.kv_put(SWEEP, "due");
        self.set_sweep(state, 0);
    }

    fn set_sweep(&self, state: &mut State, pause_ms: u64) {
        let at = self.rt.now() + pause_ms;
        state.sweep_at = Some(at);
        self.request_alarm(state, Some(at));
    }

    /// Deletes a chunk, and schedules the next one.
    pub(in crate::hub) async fn sweep(self: &Arc<Self>) {
        // The deletion may still be queued. If it fails, the sessions stay.
        let _ = self.flushed().await;
        let swept = removals::sweep(&self.db, &self.config.namespace).await;
        let mut state = self.state();
        match swept {
            Ok(true) => self.set_sweep(&mut state, SWEEP_PAUSE_MS),
            Err(_) => self.set_sweep(&mut state, SWEEP_RETRY_MS),
            Ok(false) if state.sweep_at.is_none() => self.rt.kv_delete(SWEEP),
            // Another session was deleted meanwhile.
            Ok(false) => {}
        }
    }
}
