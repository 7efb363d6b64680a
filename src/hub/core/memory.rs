//! The reservations of the hub's state in the memory budget of the isolate.

use std::sync::Arc;

use crate::memory_budget::{NamespaceBudget, Reservation};

/// The bytes of the pool that queued changes leave free. The hub needs them to read frames that it then refuses with `overloaded`.
const WRITE_QUEUE_HEADROOM_BYTES: usize = 8 * 1024 * 1024;

/// The memory that the hub's state holds.
pub struct MemoryReservations {
    /// The inbound frames that are being handled or queued.
    pub frames: Reservation,
    /// The bytes of `frames` that were admitted without free memory.
    pub unreserved_frame_bytes: usize,
    /// The changes that are not durable.
    pub write_queue: Reservation,
    /// The cached sessions and machines.
    pub cache: Reservation,
    pub live_texts: Reservation,
    pub budget: Arc<NamespaceBudget>,
}

impl MemoryReservations {
    pub fn new(budget: &Arc<NamespaceBudget>) -> Self {
        let reserve_nothing = || budget.empty_reservation();
        Self {
            frames: reserve_nothing(),
            unreserved_frame_bytes: 0,
            write_queue: reserve_nothing(),
            cache: reserve_nothing(),
            live_texts: reserve_nothing(),
            budget: Arc::clone(budget),
        }
    }

    /// Whether the write queue may grow to `bytes`. The bytes of the frames are subtracted: a change replaces the frame that it came
    /// from. Evicts cached sessions if that is necessary.
    pub fn make_room_for_write_queue(&self, bytes: usize) -> bool {
        let new_bytes = bytes.saturating_sub(self.write_queue.bytes() + self.frames.bytes()).max(1);
        self.budget.make_room_with_headroom(new_bytes, WRITE_QUEUE_HEADROOM_BYTES, self.cache.bytes())
    }
}
