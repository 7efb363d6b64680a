//! Bursts of changes: a commit waits for the end of a burst, and pauses after a burst while other namespaces write.

use crate::hub::Hub;
use crate::hub::core::state::State;

/// The most passes of the event loop for which a commit, a lookup or a write of attachments waits for the end of a burst.
const MAX_BURST_PASSES: usize = 64;
/// The hub pauses after a batch with this many effects, about 20 messages.
const MIN_PAUSED_EFFECTS: usize = 40;
/// The effects that the thread handles in a millisecond, roughly. A pause is at most as long as the effects of the batch occupied the
/// thread. The time of a slow database does not count, because the thread is free for other namespaces while the database writes.
const EFFECTS_PER_MS: usize = 6;
/// The longest pause after a batch, in milliseconds.
const MAX_PAUSE_MS: u64 = 100;

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

    /// Records that the namespace has written a batch. If the batch is large and another namespace of the isolate has written recently,
    /// pauses before the effects of the batch run. The pause delays the acknowledgements, and so the next messages, of a client that
    /// sends many messages. Without the pause, such a client would take the isolate's thread from the other namespaces.
    pub(in crate::hub) async fn pause_after_batch(&self, effects: usize, batch_ms: u64) {
        let others_write = self.config.recent_writers.record(&self.config.namespace, self.rt.now());
        if others_write && effects >= MIN_PAUSED_EFFECTS {
            let thread_ms = (effects / EFFECTS_PER_MS) as u64;
            self.rt.sleep(batch_ms.min(thread_ms).min(MAX_PAUSE_MS)).await;
        }
    }
}
