//! Queues of reads: some of them run at a time, the others wait in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::EDGE_TIMEOUT_MS;

/// The reads of one kind in an isolate, in the order in which they began.
#[derive(Default)]
pub struct ReadQueue(Mutex<Reads>);

#[derive(Default)]
struct Reads {
    last_ticket: u64,
    /// The oldest first.
    queue: VecDeque<Read>,
}

struct Read {
    ticket: u64,
    /// Unix milliseconds. The platform may have ended the request without removing its read.
    expires_at: u64,
}

/// The place of a read in its queue, released on drop.
pub struct ReadPlace {
    queue: Arc<ReadQueue>,
    ticket: u64,
}

impl ReadQueue {
    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a read, which ends within [`EDGE_TIMEOUT_MS`]. `now` is in Unix milliseconds.
    pub fn join(self: &Arc<Self>, now: u64) -> ReadPlace {
        let mut reads = self.reads();
        reads.last_ticket += 1;
        let ticket = reads.last_ticket;
        reads.queue.push_back(Read { ticket, expires_at: now + EDGE_TIMEOUT_MS });
        ReadPlace { queue: Arc::clone(self), ticket }
    }
}

impl ReadPlace {
    /// Returns how many times `at_once` reads must end before this one may run.
    pub fn rounds_ahead(&self, now: u64, at_once: usize) -> u64 {
        let queue = &mut self.queue.reads().queue;
        let expired = queue.partition_point(|read| read.expires_at < now);
        queue.drain(..expired);
        (queue.partition_point(|read| read.ticket < self.ticket) / at_once) as u64
    }
}

impl Drop for ReadPlace {
    fn drop(&mut self) {
        self.queue.reads().queue.retain(|read| read.ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_run_in_the_order_in_which_they_began() {
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
    fn a_read_whose_request_has_ended_without_removing_it_expires() {
        let queue = Arc::new(ReadQueue::default());
        std::mem::forget(queue.join(5));
        let place = queue.join(6);
        assert_eq!(place.rounds_ahead(5 + EDGE_TIMEOUT_MS, 1), 1);
        assert_eq!(place.rounds_ahead(6 + EDGE_TIMEOUT_MS, 1), 0);
    }
}
