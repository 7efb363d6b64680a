//! Group commit: use cases queue changes in the write queue, batches of them are committed, and the effects of a batch run when
//! it is durable. [`Retrying`](crate::store::retry::Retrying) repeats a batch whose outcome is unknown. After a failed
//! batch the cache is dropped, because it contains changes that were never written.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};

use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::base::ports::ConnId;
use crate::hub::base::state::State;
use crate::hub::base::state::before_images::BeforeImages;
use crate::hub::base::state::effect::Effect;
use crate::hub::base::state::evictions::ReadTicket;
use crate::hub::base::state::lookup::LocalIdLookup;
use crate::hub::turn::Turn;
use crate::hub::turn::effects::others;
use crate::store::messages::select_by_local_ids;
use crate::store::write_queue::Batch;
use crate::store::{Database, DbError, Statement};

/// The number of queued changes that is a burst: a commit waits for its end. A single message queues fewer.
const BURST_CHANGES: usize = 6;
/// A commit of more bytes than this is followed by eviction from the cache.
const EVICT_AFTER_BYTES: usize = 100_000;

impl Hub {
    /// Waits until all writes queued so far are durable.
    pub(in crate::hub) fn flushed(self: &Arc<Self>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let committed = {
                let mut turn = self.turn();
                if !turn.write_queue.has_pending() {
                    return Ok(());
                }
                turn.commit_waiter()
            };
            self.wait_for_commit(committed).await
        })
    }

    /// Takes a ticket for a read of the database, and flushes the write queue: the database lacks what is queued.
    pub(in crate::hub) async fn begin_read(self: &Arc<Self>) -> Result<ReadTicket, Error> {
        let ticket = self.turn().cache.evictions.take_ticket();
        self.flushed().await?;
        Ok(ticket)
    }

    /// Waits until all writes queued so far are durable, or the database is stalled. Then the write queue has
    /// [before-images](BeforeImages) for reads.
    pub(in crate::hub) async fn flushed_or_stalled(self: &Arc<Self>) -> Result<(), Error> {
        let mut flushed = self.flushed();
        loop {
            let ms = self.db.ms_until_stalled(self.rt.now());
            match select(flushed, self.rt.sleep(ms)).await {
                Either::Left((result, _)) => return result,
                Either::Right(_) if ms == 0 => return Ok(()),
                Either::Right((_, waiting)) => flushed = waiting,
            }
        }
    }

    /// Starts a commit, and waits for the result that a [`State::commit_waiter`] receives.
    pub(in crate::hub) fn wait_for_commit(
        self: &Arc<Self>,
        committed: oneshot::Receiver<Result<(), Error>>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.start_commit();
            let interrupted =
                || Error::Unavailable("The hub was interrupted while it saved the change. Try again.".into());
            committed.await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    /// Starts committing what is queued, unless a commit is running.
    pub(in crate::hub) fn start_commit(self: &Arc<Self>) {
        let must_commit = {
            let mut turn = self.turn();
            let State { write_queue, cache, reservations, .. } = &mut *turn;
            reservations.write_queue.resize(write_queue.pending_bytes());
            write_queue.seal_if_full(&self.config.namespace, cache);
            write_queue.start_committing()
        };
        if must_commit {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.commit_until_empty().await }));
        }
    }

    async fn commit_until_empty(&self) {
        loop {
            // A message that waits for a lookup counts as a burst: the messages queued behind it share the lookup.
            self.await_burst(BURST_CHANGES, |turn| {
                turn.write_queue.queued_changes() + BURST_CHANGES * turn.unknown_local_ids.len()
            })
            .await;
            let (mut batch, lookup) = {
                let mut turn = self.turn();
                let State { write_queue, cache, reservations, .. } = &mut *turn;
                let batch = write_queue.take_batch(&self.config.namespace, cache);
                reservations.write_queue.resize(write_queue.pending_bytes());
                // Without a batch, the lookups wait for the next one.
                let Some(batch) = batch else { return };
                (batch, turn.take_local_id_lookup())
            };
            match self.write(&mut batch, lookup).await {
                Ok(event_numbers) => {
                    let is_large = batch.bytes() > EVICT_AFTER_BYTES;
                    // Before the effects: a client that receives one must read the change.
                    self.turn().write_queue.finish_batch();
                    self.turn().run_effects(batch.effects, event_numbers);
                    if is_large {
                        // The batch kept its sessions in the cache until now.
                        self.turn().evict_sessions();
                    }
                }
                Err(error) => {
                    let missed = error.may_have_committed().then(|| self.turn().clis_that_missed(&batch.effects));
                    self.turn().discard_uncommitted(batch.effects, &Error::from(error.clone()));
                    self.turn().disconnect_to_resync(missed.into_iter().flatten());
                    self.turn().handle_failed_batch(&error);
                }
            }
        }
    }

    /// Writes the parts of a batch's large values, then the batch together with the log of its events, and looks up local ids. Returns
    /// the numbers of the events.
    async fn write(
        &self,
        batch: &mut Batch<Effect, BeforeImages>,
        lookup: LocalIdLookup,
    ) -> Result<Range<u64>, DbError> {
        for statements in batch.part_writes(&self.config.namespace) {
            self.commit(statements).await?;
        }
        let event_numbers = self.log_events(&mut batch.statements, &batch.effects).await?;
        let mut statements = std::mem::take(&mut batch.statements);
        statements.extend(select_by_local_ids(&self.config.namespace, &lookup.pairs));
        if !statements.is_empty() {
            let mut results = self.db.batch(&mut statements).await?;
            self.turn().insert_looked_up(lookup, &statements, &mut results);
            self.turn().event_appender.on_written(&statements, results);
        }
        Ok(event_numbers)
    }

    pub(in crate::hub) async fn commit(&self, mut statements: Vec<Statement>) -> Result<(), DbError> {
        if statements.is_empty() {
            return Ok(());
        }
        self.db.batch(&mut statements).await.map(drop)
    }
}

impl Turn<'_> {
    /// Clears the cache and the queue after a failed batch, because both build on changes that were not written. Fails the
    /// batch's `effects` and the queued ones.
    pub(in crate::hub) fn discard_uncommitted(&mut self, effects: Vec<Effect>, error: &Error) {
        self.state.cache.clear();
        let queued = self.state.write_queue.discard();
        self.fail_effects(effects.into_iter().chain(queued), error);
    }

    /// Returns the CLIs that were to receive the batch's updates. If the batch was committed despite an error, they
    /// have missed these updates.
    fn clis_that_missed(&mut self, effects: &[Effect]) -> BTreeSet<ConnId> {
        let missed = effects.iter().filter_map(|effect| match effect {
            Effect::Update { owner, except, .. } => Some(others(self.state.connections.clis_of_owner(owner), *except)),
            Effect::Message { session, except, .. } => {
                Some(others(self.state.connections.clis_of_session(session), *except))
            }
            _ => None,
        });
        missed.flatten().collect()
    }
}
