//! Waiting for the end of a burst.

use crate::hub::Hub;
use crate::hub::base::state::State;

/// How many turns of the event loop a commit, a lookup or a write of attachments waits for a growing burst.
const MAX_BURST_TURNS: usize = 64;

impl Hub {
    /// Waits for the end of a burst, so that its changes or lookups share a batch, or its registrations a write of the attachment.
    /// Does not wait if fewer than `min` are queued.
    /// Each `sleep(0)` lets the runtime deliver more events.
    pub(in crate::hub) async fn await_burst_end(&self, min: usize, count_queued: fn(&State) -> usize) {
        let mut queued = count_queued(&self.turn());
        for _ in 0..MAX_BURST_TURNS {
            if queued < min {
                return;
            }
            self.rt.sleep(0).await;
            let now_queued = count_queued(&self.turn());
            if now_queued == queued {
                return;
            }
            queued = now_queued;
        }
    }
}
