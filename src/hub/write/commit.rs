//! Group commit. A use case adds its changes to the write queue; they are committed in batches. The effects of a batch run when it
//! is durable. [`Retrying`](crate::store::retry::Retrying) repeats a batch with an unknown outcome. After a failed batch, the
//! cache is cleared, because it contains changes that were never written. The refusal of an isolated batch fails only its own effects.
//!
//! Concurrent lookups of sessions share a batch, for example when many CLIs reconnect after a wake. Lookups of local ids, of which memory
//! lacks the older ones, wait for the next batch of a commit, so they cost no query of their own.

use std::collections::BTreeSet;
use std::ops::Range;

use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, join, select};

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::Error;
use crate::hub::core::local_ids::{LocalIds, Seen};
use crate::hub::core::ports::ConnId;
use crate::hub::core::sessions::cached_session::BeforeImages;
use crate::hub::core::sessions::evictions::{Key, LocalIdLookup, Lookup, ReadTicket, UnknownLocalId};
use crate::hub::core::state::State;
use crate::hub::turn::Turn;
use crate::limits::{MAX_LOCAL_ID_BYTES, MAX_LOCAL_ID_LOOKUPS, MAX_LOCAL_IDS};
use crate::log::{Level, LogLine};
use crate::metrics::{Counter, DurationMetric};
use crate::store::fence::FencedDb;
use crate::store::messages::{read_by_local_ids, select_by_local_ids};
use crate::store::write_queue::Batch;
use crate::store::{Database, DbError, Row, Statement, execute};
use crate::wire::cli::{CliEvent, NewMessage, decode_frame};

/// From this many queued changes on, a commit waits until the burst has ended. A single message queues fewer changes.
const BURST_CHANGES: usize = 6;
/// After a commit of more bytes than this, the hub evicts sessions from the cache.
const EVICT_AFTER_BYTES: usize = 100_000;

/// The most passes of the event loop for which a commit, a lookup or a write of attachments waits for the end of a burst.
const MAX_BURST_PASSES: usize = 64;
/// The hub pauses after a batch with this many effects, about 20 messages.
const MIN_PAUSED_EFFECTS: usize = 40;
/// The effects that the thread handles in a millisecond, roughly. A pause is at most as long as the effects of the batch occupied the
/// thread. The time of a slow database does not count, because the thread is free for other namespaces while the database writes.
const EFFECTS_PER_MS: usize = 6;
/// The longest pause after a batch, in milliseconds.
const MAX_PAUSE_MS: u64 = 100;

/// The largest number of session lookups in one batch: each may return a row of 2 MB.
pub const MAX_GROUPED_LOOKUPS: usize = 16;

/// How many bytes of queued frames are searched for local ids to look up together.
pub const MAX_SEARCHED_FRAME_BYTES: usize = 2_000_000;

impl Hub {
    /// Commits the write queue, and waits until all writes queued so far are durable.
    pub(in crate::hub) fn flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let has_pending = self.turn().write_queue.has_pending();
            if has_pending { self.wait_for_commit().await } else { Ok(()) }
        })
    }

    /// Takes a ticket for a read of the database, and flushes the write queue, because the database lacks the queued changes.
    pub(in crate::hub) async fn begin_read(&self) -> Result<ReadTicket, Error> {
        let ticket = self.turn().cache.evictions.take_ticket();
        self.flush().await?;
        Ok(ticket)
    }

    /// Waits until all writes queued so far are durable, or the database is stalled: then reads use the [before-images](BeforeImages).
    pub(in crate::hub) async fn flush_unless_stalled(&self) -> Result<(), Error> {
        let mut flush = self.flush();
        loop {
            let ms = self.db.ms_until_stalled(self.rt.now());
            match select(flush, self.rt.sleep(ms)).await {
                Either::Left((result, _)) => return result,
                Either::Right(_) if ms == 0 => return Ok(()),
                Either::Right((_, waiting)) => flush = waiting,
            }
        }
    }

    /// Commits the write queue even if nothing is queued, and waits for the result.
    pub(in crate::hub) async fn wait_for_commit(&self) -> Result<(), Error> {
        let (sender, committed) = oneshot::channel();
        self.turn().write_queue.on_commit(Effect::Resolve(sender));
        self.start_commit();
        committed.await.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Starts to commit the queued changes, unless a commit is running.
    pub(in crate::hub) fn start_commit(&self) {
        let must_commit = {
            let mut turn = self.turn();
            let State { write_queue, cache, memory_reservations, .. } = &mut *turn;
            memory_reservations.write_queue.resize(write_queue.pending_bytes());
            write_queue.seal_if_full(&self.config.namespace, cache);
            write_queue.start_committing()
        };
        if must_commit {
            self.spawn(|hub| async move { hub.commit_until_empty().await });
        }
    }

    async fn commit_until_empty(&self) {
        loop {
            // A message that waits for a lookup counts as a burst: the messages queued behind it share the lookup.
            self.await_burst_end(BURST_CHANGES, |state| {
                state.write_queue.queued_changes() + BURST_CHANGES * state.unknown_local_ids.len()
            })
            .await;
            let (mut batch, lookup) = {
                let mut turn = self.turn();
                let State { write_queue, cache, memory_reservations, .. } = &mut *turn;
                let batch = write_queue.take_batch(&self.config.namespace, cache);
                memory_reservations.write_queue.resize(write_queue.pending_bytes());
                // Without a batch, the lookups wait for the next batch.
                let Some(batch) = batch else { return };
                (batch, turn.take_local_id_lookup())
            };
            let started_at = self.rt.now();
            let has_statements = !batch.statements.is_empty();
            let written = self.write_batch(&mut batch, lookup).await;
            if let Err(error @ DbError::Refused(_)) = &written
                && batch.is_isolated
            {
                let mut turn = self.turn();
                turn.write_queue.finish_batch();
                turn.fail_effects(batch.effects.into_iter(), &Error::from(error.clone()));
                turn.withdraw_failed_events(error);
                continue;
            }
            let metrics = &self.telemetry.metrics;
            let took_ms = self.rt.now().saturating_sub(started_at);
            metrics.count(if written.is_ok() { Counter::CommitWritten } else { Counter::CommitFailed });
            metrics.measure(DurationMetric::Commit, took_ms);
            if written.is_ok() && has_statements {
                self.pause_after_batch(batch.effects.len(), took_ms).await;
            }
            match written {
                Ok(event_numbers) => {
                    let is_large = batch.bytes > EVICT_AFTER_BYTES;
                    // Before the effects: a client that reads after it received an effect must find the change.
                    self.turn().write_queue.finish_batch();
                    self.turn().run_effects(batch.effects, event_numbers);
                    if is_large {
                        // Sessions of a batch in flight cannot be evicted.
                        self.turn().evict_sessions();
                    }
                }
                Err(error) => {
                    let line = LogLine::new(Level::Error, "commit-failed");
                    self.telemetry.log(line.text("error", &error.to_string()));
                    // If the batch was committed despite the error, these CLIs have missed its updates.
                    let effects = batch.effects.iter().filter(|_| error.is_outcome_unknown());
                    let missed: BTreeSet<ConnId> = effects.flat_map(|effect| self.turn().recipients(effect)).collect();
                    self.turn().discard_uncommitted(batch.effects, &Error::from(error.clone()));
                    self.turn().disconnect_to_resync(missed);
                    self.turn().withdraw_failed_events(&error);
                }
            }
        }
    }

    /// Writes the parts of large values, then the batch with its event log and the lookup. Returns the numbers of the events.
    async fn write_batch(
        &self,
        batch: &mut Batch<Effect, BeforeImages>,
        lookup: LocalIdLookup,
    ) -> Result<Range<u64>, DbError> {
        for statements in batch.part_statements(&self.config.namespace) {
            execute(&self.db, statements).await?;
        }
        let event_numbers = self.log_events(batch).await?;
        let mut statements = std::mem::take(&mut batch.statements);
        statements.extend(select_by_local_ids(&self.config.namespace, &lookup.pairs));
        if !statements.is_empty() {
            let mut results = self.db.batch(&mut statements).await?;
            self.turn().insert_looked_up(lookup, &statements, &mut results);
            self.turn().events.appender.on_written(&statements, results);
        }
        Ok(event_numbers)
    }

    /// Reserves numbers for the events of a batch, and adds their rows to it. The events of an empty batch have no numbers.
    async fn log_events(&self, batch: &mut Batch<Effect, BeforeImages>) -> Result<Range<u64>, DbError> {
        let Batch { statements, effects, .. } = batch;
        let count = effects.iter().filter(|effect| effect.is_event()).count();
        if statements.is_empty() || count == 0 {
            return Ok(0..0);
        }
        self.publish_missed_events().await?;
        let events = &mut self.turn().events;
        let numbers = events.reserve_for_batch(count, self.rt.now());
        let rows = events.encode_batch(numbers.clone(), effects.iter().filter_map(Effect::event));
        events.append_rows(&self.config.namespace, rows, statements);
        Ok(numbers)
    }

    /// Waits until a pass of the event loop has queued nothing more, so that the items share a batch; not for fewer than `min` items.
    pub(in crate::hub) async fn await_burst_end(&self, min: usize, count_queued: fn(&State) -> usize) {
        let mut queued = 0;
        for _ in 0..MAX_BURST_PASSES {
            let queued_before = std::mem::replace(&mut queued, count_queued(&self.turn()));
            if queued < min || queued == queued_before {
                return;
            }
            // Lets the runtime deliver more events.
            self.rt.sleep(0).await;
        }
    }

    /// Records that the namespace has written a batch. Pauses before the effects of a large batch while another namespace of the isolate
    /// writes: else a client that sends many messages would take the thread, because its next messages follow the acknowledgements.
    async fn pause_after_batch(&self, effects: usize, batch_ms: u64) {
        let others_write = self.config.recent_writers.record(&self.config.namespace, self.rt.now());
        if others_write && effects >= MIN_PAUSED_EFFECTS {
            let thread_ms = (effects / EFFECTS_PER_MS) as u64;
            self.rt.sleep(batch_ms.min(thread_ms).min(MAX_PAUSE_MS)).await;
        }
    }

    /// Runs statements with small results in a batch with other lookups. Returns the rows of each. Other tasks may run after the read.
    pub(in crate::hub) async fn look_up(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let lookups = &mut self.turn().lookups;
            lookups.push(Lookup { statements, sender });
            lookups.len() == 1
        };
        if is_first {
            self.spawn(|hub| async move {
                hub.await_burst_end(1, |state| state.lookups.len()).await;
                let mut lookups = std::mem::take(&mut hub.turn().lookups);
                while !lookups.is_empty() {
                    let later_lookups = lookups.split_off(lookups.len().min(MAX_GROUPED_LOOKUPS));
                    let batch = std::mem::replace(&mut lookups, later_lookups);
                    hub.spawn(|hub| async move { run_lookups(&hub.db, batch).await });
                }
            });
        }
        receiver.await.unwrap_or_else(|_| Err(DbError::Unavailable("the hub was interrupted".into())))
    }

    /// Runs a read, and reads the last rows of the event log at the same time, because the next change needs them.
    pub(in crate::hub) async fn read_beside_log(
        &self,
        read: BoxFuture<'_, Result<Vec<Vec<Row>>, DbError>>,
    ) -> Result<Vec<Vec<Row>>, DbError> {
        let is_database_idle = self.db.is_idle() && self.turn().lookups.is_empty();
        let sync_log = async {
            if is_database_idle {
                // After an error, the change reads the log again.
                let _ = self.publish_missed_events().await;
            }
        };
        join(read, sync_log).await.0
    }
}

async fn run_lookups(db: &FencedDb, mut lookups: Vec<Lookup>) {
    let counts: Vec<usize> = lookups.iter().map(|lookup| lookup.statements.len()).collect();
    let mut statements = lookups.iter_mut().flat_map(|lookup| std::mem::take(&mut lookup.statements)).collect();
    let mut rows = db.batch(&mut statements).await.map(Vec::into_iter);
    for (lookup, count) in lookups.into_iter().zip(counts) {
        let own_rows = rows.as_mut().map(|rows| rows.by_ref().take(count).collect()).map_err(|error| error.clone());
        // Fails if the request has ended.
        let _ = lookup.sender.send(own_rows);
    }
}

/// The error of a caller whose commit was abandoned.
pub(in crate::hub) fn interrupted() -> Error {
    Error::Unavailable("The hub was interrupted while it saved the change. Try again.".into())
}

impl Turn<'_> {
    /// Clears the cache and the write queue after a failed batch, because both depend on it. Fails its `effects` and those in the queue.
    pub fn discard_uncommitted(&mut self, effects: Vec<Effect>, error: &Error) {
        self.state.cache.clear();
        self.state.stored_bytes.forget();
        let queued = self.state.write_queue.discard();
        self.fail_effects(effects.into_iter().chain(queued), error);
    }

    /// Stores the results of a lookup in memory. `results` are the results of the whole batch.
    fn insert_looked_up(&mut self, lookup: LocalIdLookup, batch: &[Statement], results: &mut [Vec<Row>]) {
        let found = match read_by_local_ids(lookup.pairs.len(), batch, results) {
            Ok(found) => found,
            // The waiting messages repeat the lookup, and are rejected after several failures.
            Err(error) => {
                let line = LogLine::new(Level::Debug, "lookup-failed");
                return self.hub.telemetry.log(line.text("error", &error.to_string()));
            }
        };
        for ((session, local_id), message) in lookup.pairs.into_iter().zip(found) {
            if self.state.cache.evictions.redeem(&lookup.ticket, Key::Id(&session)).is_none() {
                continue;
            }
            if let Some(local_ids) = self.state.cache.local_ids_mut(&session)
                && local_ids.look_up(&local_id) == Seen::Unknown
                && local_ids.insert(local_id, message)
            {
                self.state.cache.evictions.invalidate_reads(&session);
            }
        }
    }
}

impl State {
    /// Returns the local ids to look up with a batch: of the waiting messages, and of the messages that wait behind them.
    fn take_local_id_lookup(&mut self) -> LocalIdLookup {
        let (mut pairs, mut searched_bytes) = (Vec::new(), 0);
        for UnknownLocalId { session, local_id, from } in std::mem::take(&mut self.unknown_local_ids) {
            self.cache.local_ids_mut(&session).into_iter().for_each(LocalIds::make_room);
            pairs.push((session, local_id));
            for frame in from.into_iter().flat_map(|conn| self.connections.queued_frames(conn)) {
                searched_bytes += frame.memory_bytes();
                if pairs.len() >= MAX_LOCAL_ID_LOOKUPS || searched_bytes > MAX_SEARCHED_FRAME_BYTES {
                    break;
                }
                let event = decode_frame(&frame.text, &["message"]);
                let Some(CliEvent::Message(NewMessage { sid, local_id: Some(local_id), .. })) = event else { continue };
                // A longer local id is rejected later, and would not fit the statement.
                if local_id.len() <= MAX_LOCAL_ID_BYTES {
                    pairs.push((sid, local_id));
                }
            }
        }
        pairs.retain(|(session, local_id)| self.can_look_up(session, local_id));
        LocalIdLookup { pairs, ticket: self.cache.evictions.take_ticket() }
    }

    /// Whether only the database knows the local id. `false` with too many messages that are not durable: both may lack the local id.
    fn can_look_up(&self, session: &str, local_id: &str) -> bool {
        let Some(entry) = self.cache.entry(session) else { return false };
        let durable_seq = match self.write_queue.committed_session(session) {
            Some(Some(committed)) => committed.session.seq,
            Some(None) => 0,
            None => entry.session.seq,
        };
        let is_unknown = entry.local_ids.as_ref().is_some_and(|ids| ids.look_up(local_id) == Seen::Unknown);
        is_unknown && entry.session.seq - durable_seq < MAX_LOCAL_IDS as u64
    }
}
