//! Makes a database read wait until the namespace has memory for the read, and until earlier reads have ended.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::DbError;
use super::retry::Environment;
use crate::limits::MEMORY_TIMEOUT_MS;
use crate::memory_budget::{NamespaceBudget, ReadPlace, ReadQueue, Reservation};

/// How often a request that waits for memory tries again, in milliseconds.
pub const MEMORY_RETRY_MS: u64 = 100;

/// The pause before a waiting read checks again, in milliseconds, multiplied by the rounds of reads that run before it.
const READ_RETRY_MS: u64 = 10;

/// The memory for the reads of a namespace, and the clock for waits. A task can't wake a task of another request, so it polls.
#[derive(Clone)]
pub struct ReadMemory {
    pub budget: Arc<NamespaceBudget>,
    environment: Arc<dyn Environment>,
}

impl ReadMemory {
    pub fn new(budget: Arc<NamespaceBudget>, environment: Arc<dyn Environment>) -> Self {
        Self { budget, environment }
    }

    /// Returns the time until which a request that begins now may wait, in Unix milliseconds.
    pub fn deadline(&self) -> u64 {
        self.environment.now() + MEMORY_TIMEOUT_MS
    }

    /// Reserves bytes without waiting. Fails with [`DbError::NoMemory`] if too few are free.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, DbError> {
        self.budget.reserve(bytes).ok_or(DbError::NoMemory)
    }

    /// Waits until bytes can be reserved, up to [`MEMORY_TIMEOUT_MS`]: not with a lock that a task that frees memory needs.
    pub fn reserve(&self, bytes: usize) -> BoxFuture<'_, Result<Reservation, DbError>> {
        Box::pin(self.reserve_until(bytes, self.deadline()))
    }

    /// Waits until bytes can be reserved. Fails with [`DbError::NoMemory`] at the deadline.
    pub async fn reserve_until(&self, bytes: usize, deadline: u64) -> Result<Reservation, DbError> {
        loop {
            if let Some(reservation) = self.budget.reserve(bytes) {
                return Ok(reservation);
            }
            self.pause(MEMORY_RETRY_MS, deadline).await?;
        }
    }

    /// Waits until a read, one of `max_concurrent` of its queue, may run. Fails with [`DbError::NoMemory`] at the deadline.
    pub async fn wait_to_read(
        &self,
        queue: &Arc<ReadQueue>,
        max_concurrent: usize,
        deadline: u64,
    ) -> Result<ReadPlace, DbError> {
        let place = queue.join(self.environment.now());
        loop {
            match place.rounds_ahead(self.environment.now(), max_concurrent) {
                0 => return Ok(place),
                rounds => self.pause(rounds * READ_RETRY_MS, deadline).await?,
            }
        }
    }

    async fn pause(&self, ms: u64, deadline: u64) -> Result<(), DbError> {
        match deadline.saturating_sub(self.environment.now()) {
            0 => Err(DbError::NoMemory),
            remaining_ms => {
                self.environment.sleep(ms.min(remaining_ms)).await;
                Ok(())
            }
        }
    }
}
