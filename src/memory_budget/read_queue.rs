//! A queue from which each read computes how long it must wait: only a limited number of reads run at a time, in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::EDGE_TIMEOUT_MS;

/// Reads of one kind, in the order in which they joined. Each entry is the time at which a read expires, in Unix milliseconds,
/// or 0 if the read has ended. Entries expire, because the platform may end a request without dropping its [`ReadPlace`].
#[derive(Default)]
pub struct ReadQueue(Mutex<Vec<Arc<AtomicU64>>>);

/// The place of a read in its queue, released on drop.
pub struct ReadPlace {
    queue: Arc<ReadQueue>,
    expires_at: Arc<AtomicU64>,
}

impl ReadQueue {
    /// Adds a read, which ends within [`EDGE_TIMEOUT_MS`]. `now` is in Unix milliseconds.
    pub fn join(self: &Arc<Self>, now: u64) -> ReadPlace {
        let expires_at = Arc::new(AtomicU64::new(now + EDGE_TIMEOUT_MS));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&expires_at));
        ReadPlace { queue: Arc::clone(self), expires_at }
    }
}

impl ReadPlace {
    /// Returns how many full rounds of `max_concurrent` reads are ahead of this read; 0 if this read may run now.
    pub fn rounds_ahead(&self, now: u64, max_concurrent: usize) -> u64 {
        let mut reads = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.retain(|expires_at| expires_at.load(Ordering::Relaxed) > now);
        let position = reads.iter().position(|expires_at| Arc::ptr_eq(expires_at, &self.expires_at));
        (position.unwrap_or(0) / max_concurrent) as u64
    }
}

impl Drop for ReadPlace {
    fn drop(&mut self) {
        self.expires_at.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_run_in_the_order_in_which_they_joined() {
        let queue = Arc::new(ReadQueue::default());
        let mut places: Vec<_> = (0..7).map(|_| Some(queue.join(0))).collect();
        let rounds = |places: &[Option<ReadPlace>]| {
            places.iter().flatten().map(|place| place.rounds_ahead(0, 3)).collect::<Vec<_>>()
        };
        assert_eq!(rounds(&places), [0, 0, 0, 1, 1, 1, 2]);
        places[1] = None;
        places[4] = None;
        assert_eq!(rounds(&places), [0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_read_that_is_never_dropped_expires() {
        let queue = Arc::new(ReadQueue::default());
        std::mem::forget(queue.join(5));
        let place = queue.join(6);
        assert_eq!(place.rounds_ahead(4 + EDGE_TIMEOUT_MS, 1), 1);
        assert_eq!(place.rounds_ahead(5 + EDGE_TIMEOUT_MS, 1), 0);
    }
}
