//! Group commit: use cases queue changes in the journal, batches of them are committed, and the effects of a batch run when
//! it is durable. After a failed batch the cache is dropped, for it holds what was never written.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::effects::others;
use super::error::Error;
use super::limits::{BURST_CHANGES, EVICT_AFTER_BYTES, MAX_BURST_TURNS, MAX_QUEUED_BYTES};
use super::ports::ConnId;
use super::state::effect::Effect;
use super::{Hub, State};
use crate::store::journal::Batch;
use crate::store::{Database, DbError, Statement};

/// When a keep-alive is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckTiming {
    /// At once: it changed nothing that has to be written.
    Now,
    /// When the writes queued so far are durable.
    OnCommit,
}

impl Hub {
    /// Waits until all writes queued so far are durable.
    pub(super) fn flushed(self: &Arc<Self>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let committed = {
                let mut state = self.state();
                if !state.journal.has_pending() {
                    return Ok(());
                }
                state.commit_waiter()
            };
            self.committed(committed).await
        })
    }

    /// Waits for the commit that a [`State::commit_waiter`] stands for.
    pub(super) fn committed(
        self: &Arc<Self>,
        committed: oneshot::Receiver<Result<(), Error>>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.flush();
            let interrupted = || Error::Unavailable("The hub was interrupted. Try again.".into());
            committed.await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    /// Loads a session, waits while it is being merged, and changes it. What `change` queues is committed; the caller does
    /// not wait for that.
    pub(super) async fn with_session<T>(
        self: &Arc<Self>,
        id: &str,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.load_session(id).await?;
        let result = change(&mut self.state())?;
        self.flush();
        Ok(result)
    }

    /// Changes a session like [`Hub::with_session`], and waits until the change is durable.
    pub(super) async fn commit_session<T>(
        self: &Arc<Self>,
        id: &str,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (result, committed) =
            self.with_session(id, |state| change(state).map(|result| (result, state.commit_waiter()))).await?;
        self.committed(committed).await?;
        Ok(result)
    }

    /// Starts committing what is queued, unless a commit is running.
    pub(super) fn flush(self: &Arc<Self>) {
        let is_started = {
            let mut state = self.state();
            let State { journal, cache, .. } = &mut *state;
            journal.seal_if_full(&self.config.namespace, cache);
            journal.start_committing()
        };
        if is_started {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.commit_all().await }));
        }
    }

    async fn commit_all(&self) {
        loop {
            self.await_burst().await;
            let batch = {
                let mut state = self.state();
                let State { journal, cache, .. } = &mut *state;
                journal.take_batch(&self.config.namespace, cache)
            };
            let Some(mut batch) = batch else { return };
            match self.write(&mut batch).await {
                Ok(event_numbers) => {
                    let is_large = batch.bytes() > EVICT_AFTER_BYTES;
                    self.run_effects(batch.effects, event_numbers);
                    if is_large {
                        self.state().evict();
                    }
                }
                Err(error) => {
                    let missed = error.may_have_committed().then(|| self.clis_that_missed(&batch.effects));
                    self.discard_uncommitted(batch.effects, &Error::from(error.clone()));
                    self.disconnect_to_resync(missed.into_iter().flatten());
                    self.handle_failed_batch(&error).await;
                }
            }
        }
    }

    /// Waits for the end of a burst of changes, so that they share a batch. A single change is committed at once.
    async fn await_burst(&self) {
        let mut queued = self.state().journal.queued_changes();
        for _ in 0..MAX_BURST_TURNS {
            if queued < BURST_CHANGES {
                return;
            }
            self.rt.sleep(0).await;
            let now_queued = self.state().journal.queued_changes();
            if now_queued == queued {
                return;
            }
            queued = now_queued;
        }
    }

    /// Writes a batch with the log of its events, after the parts of its large values. Returns the events' numbers.
    async fn write(&self, batch: &mut Batch<Effect>) -> Result<Range<u64>, DbError> {
        for statements in batch.part_writes(&self.config.namespace) {
            self.commit(statements).await?;
        }
        let event_numbers = self.log_events(&mut batch.statements, &batch.effects).await?;
        self.commit(std::mem::take(&mut batch.statements)).await?;
        Ok(event_numbers)
    }

    /// Commits a batch.
    pub(super) async fn commit(&self, mut statements: Vec<Statement>) -> Result<(), DbError> {
        if statements.is_empty() {
            return Ok(());
        }
        self.db.batch(&mut statements).await.map(drop)
    }

    /// Returns the CLIs that do not know whether a batch was committed.
    fn clis_that_missed(&self, effects: &[Effect]) -> BTreeSet<ConnId> {
        let state = self.state();
        let missed = effects.iter().filter_map(|effect| match effect {
            Effect::Update { owner, except, .. } => Some(others(state.connections.of_owner(owner), *except)),
            Effect::Message { session, except, .. } => Some(others(state.connections.of_session(session), *except)),
            _ => None,
        });
        missed.flatten().collect()
    }

    /// Drops the cache and everything queued after a failed batch, for it is built on changes that were not written.
    pub(super) fn discard_uncommitted(&self, effects: Vec<Effect>, error: &Error) {
        let queued = {
            let mut state = self.state();
            state.cache.clear();
            state.journal.discard()
        };
        self.fail_effects(effects.into_iter().chain(queued), error);
    }
}

impl State {
    /// When a keep-alive is acknowledged. One that changed nothing may repeat a value whose write is still queued.
    pub(super) fn ack_timing(&self, changed: bool) -> AckTiming {
        if changed || self.journal.has_pending() { AckTiming::OnCommit } else { AckTiming::Now }
    }

    /// Returns a receiver that resolves when everything queued so far is durable, or has failed.
    pub(super) fn commit_waiter(&mut self) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        self.journal.on_commit(Effect::Resolve(sender));
        receiver
    }

    /// Refuses a change while too many bytes wait for the database.
    pub(super) fn check_queue(&self) -> Result<(), Error> {
        self.check_queue_for(0)
    }

    /// Refuses a change that would make the queue larger than it may be.
    pub(super) fn check_queue_for(&self, bytes: usize) -> Result<(), Error> {
        if self.journal.pending_bytes() + bytes > MAX_QUEUED_BYTES { Err(Error::Overloaded) } else { Ok(()) }
    }
}
