//! The hub's use of the isolate's memory ([`crate::ledger`]): requests wait for it, and the cache of sessions is evicted for it.

use std::sync::{Arc, TryLockError};

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::base::state::State;
use crate::ledger::{Account, Evictable, Reservation};
use crate::limits::{CACHE_HEADROOM_BYTES, MAX_CACHED_SUMMARY_BYTES, MIN_CACHED_BYTES};
use crate::model::owner::Owner;
use crate::store::memory::Memory;

impl Hub {
    /// The namespace's account in the ledger of the isolate.
    pub fn account(&self) -> &Arc<Account> {
        &self.memory.account
    }

    /// The namespace's memory, for reads that need no live state.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Reserves memory that is needed now. Fails if there is none.
    pub fn reserve_memory(&self, bytes: usize) -> Result<Reservation, Error> {
        self.account().reserve(bytes).ok_or(Error::MemoryInUse)
    }

    /// Waits for memory. Fails after [`MEMORY_TIMEOUT_MS`](crate::limits::MEMORY_TIMEOUT_MS).
    ///
    /// Must not be called while a lock is held: a task that frees memory may need the lock.
    pub fn wait_for_memory(&self, bytes: usize) -> BoxFuture<'_, Result<Reservation, Error>> {
        self.wait_for_memory_until(bytes, self.memory.deadline())
    }

    /// Waits for memory until a time in Unix milliseconds.
    pub(in crate::hub) fn wait_for_memory_until(
        &self,
        bytes: usize,
        deadline: u64,
    ) -> BoxFuture<'_, Result<Reservation, Error>> {
        Box::pin(async move { Ok(self.memory.reserve(bytes, deadline).await?) })
    }
}

impl Evictable for Hub {
    fn evict(&self, bytes: usize) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The lock is held by the code that asks for memory, which may be changing a cached session.
            Err(TryLockError::WouldBlock) => return,
        };
        if state.reservations.cache.bytes() > MIN_CACHED_BYTES {
            state.shrink_cache(|_| bytes);
        }
    }
}

impl State {
    /// Evicts sessions from the cache to stay within its limits, and to leave memory for other buffers. Sessions with work in
    /// progress or queued writes stay; active and connected ones are evicted last.
    pub(in crate::hub) fn evict_sessions(&mut self) {
        self.shrink_cache(|account| account.shortfall(CACHE_HEADROOM_BYTES));
    }

    /// Updates the reservation of the cache, then evicts sessions of `surplus(account)` bytes. If these are too few, drops the JSON
    /// of the list.
    fn shrink_cache(&mut self, surplus: impl FnOnce(&Account) -> usize) {
        let Self { cache, connections, liveness, in_flight, activation_waiters, journal, reservations, .. } = self;
        let is_evictable = |id: &str| {
            let is_ending = liveness.is_expired(&Owner::Session(id.to_owned()));
            !(is_ending || in_flight.has_any(id) || activation_waiters.has_waiter(id) || journal.is_session_queued(id))
        };
        let is_in_use =
            |id: &str| !connections.of_session(id).is_empty() || liveness.is_running(&Owner::Session(id.to_owned()));
        let session_bytes = cache.session_bytes();
        let other_bytes = cache.machine_bytes() + cache.committed_bytes();
        reservations.cache.resize(session_bytes + other_bytes + cache.list.bytes());
        let surplus = surplus(&reservations.account);
        let min_bytes = MIN_CACHED_BYTES.saturating_sub(cache.list.bytes_without_json());
        let max_bytes = session_bytes.saturating_sub(surplus).max(min_bytes);
        let remaining_bytes = cache.evict(max_bytes, is_evictable, is_in_use);
        let is_short = surplus > session_bytes - remaining_bytes;
        let must_shrink = is_short && remaining_bytes + cache.list.bytes() > MIN_CACHED_BYTES;
        cache.list.shrink(if must_shrink { 0 } else { MAX_CACHED_SUMMARY_BYTES });
        reservations.cache.resize(remaining_bytes + other_bytes + cache.list.bytes());
    }
}
