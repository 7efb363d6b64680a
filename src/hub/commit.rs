//! The way of every write: noted in the journal, committed in batches, and only then told to anyone.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::error::Error;
use super::ports::ConnId;
use super::state::effect::Effect;
use super::{Hub, State, note_key};
use crate::model::event::Event;
use crate::store::journal::Batch;
use crate::store::{DbError, Row, Statement};

/// How many notes make a burst: more than one message and what follows from it.
const BURST: usize = 6;
/// For how many turns of the runtime a growing burst is waited for at most.
const GATHER_TURNS: usize = 64;
/// How often a batch is tried when the database has a passing fault.
const ATTEMPTS: u32 = 6;
/// The pause before the second attempt, in milliseconds; it doubles with each further one.
const FIRST_PAUSE_MS: u64 = 50;
/// How many bytes of a batch may have made what memory holds larger than it may be.
const GROWTH_BYTES: usize = 100_000;
/// How many bytes may wait for the database, with what is to be told then, before new changes are refused.
pub const MAX_WAITING_BYTES: usize = 40_000_000;

impl Hub {
    /// Waits until everything noted so far is durable. What was read from memory before, anybody may see then.
    pub(super) fn flushed(self: &Arc<Self>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let waiter = {
                let mut state = self.state();
                if !state.journal.busy() {
                    return Ok(());
                }
                state.wait()
            };
            self.flush();
            waiter.await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    /// Waits for a change that was noted with [`State::wait`].
    pub(super) fn durable(
        self: &Arc<Self>,
        waiter: oneshot::Receiver<Result<(), Error>>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.flush();
            waiter.await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    /// Starts committing what is noted, unless that is under way already.
    pub(super) fn flush(self: &Arc<Self>) {
        let claimed = {
            let mut state = self.state();
            let State { journal, cache, .. } = &mut *state;
            journal.cut(&self.config.namespace, cache);
            journal.claim()
        };
        if claimed {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.commit_all().await }));
        }
    }

    async fn commit_all(&self) {
        loop {
            self.gather().await;
            let batch = {
                let mut state = self.state();
                let State { journal, cache, .. } = &mut *state;
                journal.take(&self.config.namespace, cache)
            };
            let Some(mut batch) = batch else { return };
            match self.write(&mut batch).await {
                Ok(numbers) => {
                    let grows = batch.bytes() > GROWTH_BYTES;
                    self.settle(batch.outcomes, numbers);
                    if grows {
                        self.state().make_room();
                    }
                }
                Err(error) => {
                    let clis_that_missed = error.leaves_doubt().then(|| self.clis_that_missed(&batch.outcomes));
                    self.forget(batch.outcomes, &Error::from(error.clone()));
                    // They come back, and read what stands.
                    self.send_away(clis_that_missed.into_iter().flatten());
                    self.handle_failed_batch(&error).await;
                }
            }
        }
    }

    /// Writes a batch with the log of its events, after what has to be written before it. Answers the events' numbers.
    async fn write(&self, batch: &mut Batch<Effect>) -> Result<Range<u64>, DbError> {
        for statements in batch.ahead(&self.config.namespace) {
            self.commit(statements).await?;
        }
        let numbers = self.log_events(&mut batch.statements, &batch.outcomes).await?;
        self.commit(std::mem::take(&mut batch.statements)).await?;
        Ok(numbers)
    }

    /// The CLIs that would have heard of what a batch was to change.
    fn clis_that_missed(&self, outcomes: &[Effect]) -> BTreeSet<ConnId> {
        let state = self.state();
        let told = outcomes.iter().filter_map(|outcome| match outcome {
            Effect::Update { owner, except, .. } => Some((state.connections.of(owner), except)),
            Effect::Message { session, except, .. } => Some((state.connections.of_session(session), except)),
            Effect::Reply { .. } | Effect::Publish(_) | Effect::Notify(_) | Effect::Departed(_) | Effect::Waiter(_) => {
                None
            }
        });
        let mut clis_that_missed = BTreeSet::new();
        for (conns, except) in told {
            clis_that_missed.extend(conns.iter().copied().filter(|conn| Some(*conn) != *except));
        }
        clis_that_missed
    }

    /// Memory had run ahead with what could not be written: it is dropped, and with it all that was built upon it.
    pub(super) fn forget(&self, outcomes: Vec<Effect>, error: &Error) {
        let abandoned = {
            let mut state = self.state();
            state.cache.clear();
            state.journal.abandon()
        };
        self.fail(outcomes.into_iter().chain(abandoned), error);
    }

    /// Lets a burst ride in one batch: waits for the runtime's next turn for as long as each one brings more. A lone
    /// change goes at once.
    async fn gather(&self) {
        let mut noted = self.state().journal.len();
        for _ in 0..GATHER_TURNS {
            if noted < BURST {
                return;
            }
            self.rt.sleep(0).await;
            let more = self.state().journal.len();
            if more == noted {
                return;
            }
            noted = more;
        }
    }

    /// Commits a batch. After an error that leaves no doubt ([`DbError::leaves_doubt`]) it was not committed.
    pub(super) async fn commit(&self, statements: Vec<Statement>) -> Result<(), DbError> {
        if statements.is_empty() {
            return Ok(());
        }
        self.attempt(statements).await.map(|_| ())
    }

    /// Runs a batch, again where the fault is a passing one. After such a fault a refusal says nothing of what became of
    /// the attempts before: the fault is what is answered.
    pub(super) async fn attempt(&self, mut statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError> {
        let mut pause = FIRST_PAUSE_MS;
        let mut fault = None;
        for _ in 1..ATTEMPTS {
            match self.db.run(&mut statements).await {
                Err(error @ DbError::Retryable(_)) => fault = Some(error),
                result => return result.map_err(|error| fault.unwrap_or(error)),
            }
            self.rt.sleep(pause).await;
            pause *= 2;
        }
        self.db.run(&mut statements).await.map_err(|error| fault.unwrap_or(error))
    }

    /// What was waited for is durable: the outcomes happen.
    pub(super) fn settle(&self, outcomes: Vec<Effect>, mut numbers: Range<u64>) {
        let mut state = self.state();
        let mut ended = false;
        for outcome in outcomes {
            match outcome {
                Effect::Reply { conn, done, .. } => self.send_answer(&mut state, conn, &done.put_together()),
                Effect::Publish(event) => self.publish(&mut state, numbers.next(), || event),
                Effect::Update { owner, except, frame } => {
                    let of_owner = state.connections.of(&owner).iter().copied();
                    let to: Vec<ConnId> = of_owner.filter(|conn| Some(*conn) != except).collect();
                    if !to.is_empty() {
                        self.send_update(&mut state, &to, &frame.put_together());
                    }
                }
                Effect::Message { session, except, message, number } => {
                    self.tell_message(&mut state, &session, except, &message, number);
                    self.publish(&mut state, numbers.next(), || Event::message_received(&session, &message));
                }
                Effect::Notify(notification) => self.notify(&mut state, notification),
                Effect::Departed(owner) => {
                    if !state.liveness.is_running(&owner) {
                        self.rt.kv_delete(&note_key(&owner));
                    }
                    ended = true;
                }
                Effect::Waiter(waiter) => {
                    let _ = waiter.send(Ok(()));
                }
            }
        }
        self.persist_last_event_seq(&mut state);
        if ended {
            state.make_room();
        }
    }

    fn fail(&self, outcomes: impl Iterator<Item = Effect>, error: &Error) {
        for outcome in outcomes {
            match outcome {
                Effect::Reply { conn, failed, .. } => self.send_answer(&mut self.state(), conn, &failed),
                Effect::Waiter(waiter) => {
                    let _ = waiter.send(Err(error.clone()));
                }
                // It is still active in the database: its clock goes on, and brings this up again.
                Effect::Departed(owner) => {
                    let mut state = self.state();
                    self.sign(&mut state, owner, None);
                }
                Effect::Publish(_) | Effect::Update { .. } | Effect::Message { .. } | Effect::Notify(_) => {}
            }
        }
    }
}

/// When a keep-alive is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckTiming {
    /// At once: it changed nothing that has to be written.
    Now,
    /// When the writes queued so far are durable.
    OnCommit,
}

impl State {
    /// When a keep-alive is acknowledged. One that changed nothing may repeat a value whose write is still queued.
    pub(super) fn ack_timing(&self, changed: bool) -> AckTiming {
        if changed || self.journal.busy() { AckTiming::OnCommit } else { AckTiming::Now }
    }

    /// Notes somebody who waits for everything noted before.
    pub(super) fn wait(&mut self) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        self.journal.on_commit(Effect::Waiter(sender));
        receiver
    }

    /// Refuses new changes while too many wait for the database.
    pub(super) fn check_room(&self) -> Result<(), Error> {
        self.check_room_for(0)
    }

    /// Refuses a change with a text of so many bytes while there is no room for it. One of the largest alone has room.
    pub(super) fn check_room_for(&self, bytes: usize) -> Result<(), Error> {
        if self.journal.bytes() + bytes > MAX_WAITING_BYTES { Err(Error::Overloaded) } else { Ok(()) }
    }
}

fn interrupted() -> Error {
    Error::Unavailable("The hub was interrupted. Try again.".into())
}
