//! The bytes that the hub's state holds, in the ledger of the isolate.

use std::sync::Arc;

use crate::ledger::{Account, Reservation};
use crate::limits::JOURNAL_HEADROOM_BYTES;

/// The memory that the hub's state holds.
pub struct Reservations {
    /// The inbound frames that are being handled or queued.
    pub frames: Reservation,
    /// The bytes of `frames` that were admitted without free memory.
    pub unreserved_frame_bytes: usize,
    /// The changes that are not durable.
    pub journal: Reservation,
    /// The cached sessions and machines.
    pub cache: Reservation,
    /// What agents are writing.
    pub live_texts: Reservation,
    pub account: Arc<Account>,
}

impl Reservations {
    pub fn new(account: &Arc<Account>) -> Self {
        let reserve_nothing = || account.empty_reservation();
        Self {
            frames: reserve_nothing(),
            unreserved_frame_bytes: 0,
            journal: reserve_nothing(),
            cache: reserve_nothing(),
            live_texts: reserve_nothing(),
            account: Arc::clone(account),
        }
    }

    /// Whether the journal may grow to `bytes`. The bytes of the frames are subtracted: a change replaces the frame that it came
    /// from. Evicts cached sessions if that is necessary.
    pub fn make_room_for_journal(&self, bytes: usize) -> bool {
        let new_bytes = bytes.saturating_sub(self.journal.bytes() + self.frames.bytes()).max(1);
        self.account.make_room_with_headroom(new_bytes, JOURNAL_HEADROOM_BYTES, self.cache.bytes())
    }
}
