//! The hub's use of the isolate's memory ([`crate::memory_budget`]): requests wait for memory, and sessions are evicted to free it.

use std::sync::{Arc, TryLockError};

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::limits::MIN_CACHED_BYTES;
use crate::memory_budget::{Evictable, NamespaceBudget, Reservation};
use crate::store::memory::ReadMemory;

impl Hub {
    pub fn budget(&self) -> &Arc<NamespaceBudget> {
        &self.memory.budget
    }

    /// The namespace's memory, for reads that need no live state.
    pub fn memory(&self) -> &ReadMemory {
        &self.memory
    }

    /// Reserves memory without waiting. Fails if too little is free.
    pub fn reserve_memory(&self, bytes: usize) -> Result<Reservation, Error> {
        self.budget().reserve(bytes).ok_or(Error::MemoryInUse)
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
            // The code that requests memory holds the lock, and may be changing a cached session.
            Err(TryLockError::WouldBlock) => return,
        };
        if state.memory_reservations.cache.bytes() > MIN_CACHED_BYTES {
            state.shrink_cache(|_| bytes);
        }
    }
}
