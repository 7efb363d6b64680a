//! Waiting for the end of a burst.

use crate::hub::Hub;
use crate::hub::base::state::State;

/// The most passes of the event loop for which a commit, a lookup or a write of attachments waits for the end of a burst.
const MAX_BURST_PASSES: usize = 64;

impl Hub {
    /// Waits until `count_queued` has not grown during a pass of the event loop, so that the queued items share a batch or a write of
    /// the attachment. Does not wait if fewer than `min` items are queued.
    pub(in crate::hub) async fn await_burst_end(&self, min: usize, count_queued: fn(&State) -> usize) {
        let mut queued = count_queued(&self.turn());
        for _ in 0..MAX_BURST_PASSES {
            if queued < min {
                return;
            }
            // Lets the runtime deliver more events.
            self.rt.sleep(0).await;
            let now_queued = count_queued(&self.turn());
            if now_queued == queued {
                return;
            }
            queued = now_queued;
        }
    }
}
