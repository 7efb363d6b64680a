//! The quotas of a namespace, and counting the bytes of its messages. Deleting, answering, reading and renaming are never refused.

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::namespace::quotas::Quotas;
use crate::hub::core::state::State;
use crate::store::counts;

/// How many sessions a namespace may have above its quota while sessions are being resumed.
const MAX_SESSIONS_ABOVE_QUOTA: usize = 16;

/// The pause between two counts, as a multiple of the duration of a count: all namespaces share the database.
const COUNT_PAUSE_FACTOR: u64 = 4;
/// The longest pause between two counts, in milliseconds.
const MAX_COUNT_PAUSE_MS: u64 = 1_000;

impl Hub {
    /// Returns the bytes of all messages. Too low until the messages from before the quota are counted.
    pub async fn used_bytes(&self) -> Result<u64, Error> {
        self.count_stored_bytes().await?;
        Ok(self.turn().stored_bytes.bytes.unwrap_or(0))
    }

    /// Counts the bytes of all messages, unless they are known. If many were never counted, returns after the first batch.
    pub(in crate::hub) async fn count_stored_bytes(&self) -> Result<(), Error> {
        let (counted, is_first) = {
            let mut turn = self.turn();
            if turn.stored_bytes.bytes.is_some() {
                return Ok(());
            }
            turn.stored_bytes.wait_for_count()
        };
        if is_first {
            // In a task, because the caller's request may end, and others wait for the count.
            self.spawn(|hub| async move {
                let result = hub.count_batch().await;
                hub.turn().stored_bytes.end_count(&result.clone().map(drop));
                if result == Ok(false) {
                    hub.count_remaining().await;
                }
            });
        }
        counted.await.unwrap_or(Ok(()))
    }

    /// Requires another count, because messages were deleted. If the storage has a quota and web clients are connected, counts at once.
    pub(in crate::hub) fn recount_stored_bytes(&self) {
        self.turn().stored_bytes.forget();
        self.announce_storage_when_counted();
    }

    /// Counts the bytes in a task, and then sends them to web clients. Does nothing without a quota, or without web clients.
    pub(in crate::hub) fn announce_storage_when_counted(&self) {
        let has_web_clients = self.turn().connections.subscriptions().next().is_some();
        if has_web_clients && self.config.quotas.max_bytes.is_some() {
            // After an error, the next message counts again.
            self.spawn(|hub| async move { drop(hub.count_stored_bytes().await) });
        }
    }

    async fn count_remaining(&self) {
        loop {
            let started_at = self.rt.now();
            match self.count_batch().await {
                Ok(false) => {}
                Ok(true) => return,
                Err(_) => return self.turn().stored_bytes.forget(),
            }
            let took_ms = self.rt.now().saturating_sub(started_at);
            self.rt.sleep(MAX_COUNT_PAUSE_MS.min(took_ms * COUNT_PAUSE_FACTOR)).await;
        }
    }

    /// Counts some messages. Returns whether all are counted.
    async fn count_batch(&self) -> Result<bool, Error> {
        let start = self.turn().stored_bytes.start_of_count();
        self.flush().await?;
        let (bytes, is_complete) = counts::count_bytes(&self.db, &self.config.namespace).await?;
        let mut turn = self.turn();
        turn.stored_bytes.set_counted(bytes, start);
        turn.announce_storage();
        Ok(is_complete)
    }
}

impl State {
    /// Refuses a new message beyond a quota. Returns `false` if the stored bytes must be counted first.
    pub(super) fn check_message_quotas(&mut self, quotas: &Quotas, now: u64) -> Result<bool, Error> {
        if let Some(max) = quotas.max_messages_per_minute {
            let wait_ms = self.message_rate.wait_ms(now, max);
            if wait_ms > 0 {
                return Err(Error::TooManyMessages { wait_ms });
            }
        }
        self.check_storage(quotas)
    }

    /// Refuses a new session beyond a quota, but not in place of one that is being resumed. `false` if the bytes must be counted first.
    pub(super) fn check_session_quotas(&self, quotas: &Quotas, now: u64) -> Result<bool, Error> {
        let max = quotas.max_sessions();
        let resumes = self.in_flight.count_resumes(now).min(MAX_SESSIONS_ABOVE_QUOTA);
        if self.cache.tags().is_some_and(|tags| tags.session_count >= max + resumes) {
            return Err(Error::TooManySessions(max));
        }
        if resumes > 0 { Ok(true) } else { self.check_storage(quotas) }
    }

    fn check_storage(&self, quotas: &Quotas) -> Result<bool, Error> {
        let Some(max) = quotas.max_bytes else { return Ok(true) };
        match self.stored_bytes.bytes {
            Some(bytes) if bytes >= max => Err(Error::StorageFull),
            stored => Ok(stored.is_some()),
        }
    }
}
