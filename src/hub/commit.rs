//! The way of every write: noted in the journal, committed in batches, and only then told to anyone.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::error::Error;
use super::peers::frame_text::Text;
use super::ports::ConnId;
use super::{Hub, State, note_key};
use crate::model::event::Event;
use crate::model::message::Message;
use crate::model::owner::Owner;
use crate::push::payload::Notification;
use crate::store::journal::{Batch, Weigh};
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

/// What happens once the changes noted before it are durable, or have failed.
#[derive(Debug)]
pub enum Outcome {
    /// A frame for one socket.
    Reply {
        /// The socket.
        conn: ConnId,
        /// The frame once it is durable.
        done: Text,
        /// The frame when it failed.
        failed: String,
    },
    /// An event for web clients; dropped on failure.
    Publish(Event),
    /// A frame for the CLIs of a session or machine, save the one that caused it; dropped on failure.
    Update {
        /// The session or machine.
        owner: Owner,
        /// The socket that caused it.
        except: Option<ConnId>,
        /// The frame.
        frame: Text,
    },
    /// A message, for web clients and the CLIs of its session save the one that sent it; dropped on failure. What they
    /// hear is made only then: till then its text is held once, and an agent's CLI mostly is the only one.
    Message {
        /// The id of its session.
        session: String,
        /// The socket that sent it; `None` when the web did.
        except: Option<ConnId>,
        /// The message.
        message: Message,
        /// The seq of the `update` event.
        number: u64,
    },
    /// A notification for somebody who may be away; dropped on failure.
    Notify(Notification),
    /// The notebook may forget the clock of a session or machine that is not active any more.
    Departed(Owner),
    /// Somebody who waits.
    Waiter(oneshot::Sender<Result<(), Error>>),
}

impl Outcome {
    /// Whether web clients are told of it.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::Message { .. })
    }

    /// What web clients are told.
    pub fn event(&self) -> Option<Cow<'_, Event>> {
        match self {
            Self::Publish(event) => Some(Cow::Borrowed(event)),
            Self::Message { session, message, .. } => Some(Cow::Owned(Event::message_received(session, message))),
            Self::Reply { .. } | Self::Update { .. } | Self::Notify(_) | Self::Departed(_) | Self::Waiter(_) => None,
        }
    }
}

impl Weigh for Outcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Reply { done, failed, .. } => done.bytes() + failed.len(),
            Self::Publish(event) => event.body.len(),
            Self::Update { frame, .. } => frame.bytes(),
            Self::Message { message, .. } => message.content.text().len(),
            Self::Notify(Notification { body, earlier, .. }) => {
                body.len() + earlier.iter().map(String::len).sum::<usize>()
            }
            Self::Departed(_) | Self::Waiter(_) => 0,
        }
    }
}

impl Hub {
    /// Waits until everything noted so far is durable. What was read from memory before, anybody may see then.
    pub(super) fn settled(self: &Arc<Self>) -> BoxFuture<'_, Result<(), Error>> {
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
            let State { journal, memory, .. } = &mut *state;
            journal.cut(&self.config.namespace, memory);
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
                let State { journal, memory, .. } = &mut *state;
                journal.take(&self.config.namespace, memory)
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
                    let unheard = error.leaves_doubt().then(|| self.unheard(&batch.outcomes));
                    self.forget(batch.outcomes, &Error::from(error.clone()));
                    // They come back, and read what stands.
                    self.send_away(unheard.into_iter().flatten());
                    self.untold(&error).await;
                }
            }
        }
    }

    /// Writes a batch with the log of its events, after what has to be written before it. Answers the events' numbers.
    async fn write(&self, batch: &mut Batch<Outcome>) -> Result<Range<u64>, DbError> {
        for statements in batch.ahead(&self.config.namespace) {
            self.commit(statements).await?;
        }
        let numbers = self.log_events(&mut batch.statements, &batch.outcomes).await?;
        self.commit(std::mem::take(&mut batch.statements)).await?;
        Ok(numbers)
    }

    /// The CLIs that would have heard of what a batch was to change.
    fn unheard(&self, outcomes: &[Outcome]) -> BTreeSet<ConnId> {
        let state = self.state();
        let told = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Update { owner, except, .. } => Some((state.connections.of(owner), except)),
            Outcome::Message { session, except, .. } => Some((state.connections.of_session(session), except)),
            Outcome::Reply { .. }
            | Outcome::Publish(_)
            | Outcome::Notify(_)
            | Outcome::Departed(_)
            | Outcome::Waiter(_) => None,
        });
        let mut unheard = BTreeSet::new();
        for (conns, except) in told {
            unheard.extend(conns.iter().copied().filter(|conn| Some(*conn) != *except));
        }
        unheard
    }

    /// Memory had run ahead with what could not be written: it is dropped, and with it all that was built upon it.
    pub(super) fn forget(&self, outcomes: Vec<Outcome>, error: &Error) {
        let abandoned = {
            let mut state = self.state();
            state.memory.clear();
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
    pub(super) fn settle(&self, outcomes: Vec<Outcome>, mut numbers: Range<u64>) {
        let mut state = self.state();
        let mut ended = false;
        for outcome in outcomes {
            match outcome {
                Outcome::Reply { conn, done, .. } => self.send_answer(&mut state, conn, &done.put_together()),
                Outcome::Publish(event) => self.publish(&mut state, numbers.next(), || event),
                Outcome::Update { owner, except, frame } => {
                    let of_owner = state.connections.of(&owner).iter().copied();
                    let to: Vec<ConnId> = of_owner.filter(|conn| Some(*conn) != except).collect();
                    if !to.is_empty() {
                        self.send_update(&mut state, &to, &frame.put_together());
                    }
                }
                Outcome::Message { session, except, message, number } => {
                    self.tell_message(&mut state, &session, except, &message, number);
                    self.publish(&mut state, numbers.next(), || Event::message_received(&session, &message));
                }
                Outcome::Notify(notification) => self.notify(&mut state, notification),
                Outcome::Departed(owner) => {
                    if !state.liveness.runs(&owner) {
                        self.rt.unnote(&note_key(&owner));
                    }
                    ended = true;
                }
                Outcome::Waiter(waiter) => {
                    let _ = waiter.send(Ok(()));
                }
            }
        }
        self.keep_told(&mut state);
        if ended {
            state.make_room();
        }
    }

    fn fail(&self, outcomes: impl Iterator<Item = Outcome>, error: &Error) {
        for outcome in outcomes {
            match outcome {
                Outcome::Reply { conn, failed, .. } => self.send_answer(&mut self.state(), conn, &failed),
                Outcome::Waiter(waiter) => {
                    let _ = waiter.send(Err(error.clone()));
                }
                // It is still active in the database: its clock goes on, and brings this up again.
                Outcome::Departed(owner) => {
                    let mut state = self.state();
                    self.sign(&mut state, owner, None);
                }
                Outcome::Publish(_) | Outcome::Update { .. } | Outcome::Message { .. } | Outcome::Notify(_) => {}
            }
        }
    }
}

impl State {
    /// Notes somebody who waits for everything noted before.
    pub(super) fn wait(&mut self) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        self.journal.then(Outcome::Waiter(sender));
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
