//! The bytes that the hub's state holds, in the ledger of the isolate.

use std::sync::Arc;

use crate::ledger::{Account, Reservation};
use crate::limits::JOURNALS_LEAVE_FREE_BYTES;

/// The memory that the hub's state holds.
pub struct StateMemory {
    /// The inbound frames that are being handled or queued.
    pub frames: Reservation,
    /// The bytes of `frames` that were admitted without free memory.
    pub unreserved_frame_bytes: usize,
    /// The changes that are not durable.
    pub journal: Reservation,
    /// The cached sessions and machines.
    pub cache: Reservation,
    pub account: Arc<Account>,
}

impl StateMemory {
    pub fn new(account: &Arc<Account>) -> Self {
        let reserve_nothing = || account.empty_reservation();
        Self {
            frames: reserve_nothing(),
            unreserved_frame_bytes: 0,
            journal: reserve_nothing(),
            cache: reserve_nothing(),
            account: Arc::clone(account),
        }
    }

    /// Whether the journal may have `bytes`. A change takes over the memory of the frame that it comes from: they exist together
    /// only while the one thread of the isolate handles this frame.
    pub fn has_room_for_journal(&self, bytes: usize) -> bool {
        let new_bytes = bytes.saturating_sub(self.journal.bytes() + self.frames.bytes()).max(1);
        self.account.has_room_leaving(new_bytes, JOURNALS_LEAVE_FREE_BYTES, self.cache.bytes())
    }
}
