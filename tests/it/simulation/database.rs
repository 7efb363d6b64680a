//! The database as it is over a network: a batch is on its way for a while, is run at some moment, and its answer is on
//! its way for another while. Each of these moments is the scheduler's to choose, and so are the faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use session_gateway_hub::store::fence::CHECK_EPOCH;
use session_gateway_hub::store::{Database, DbError, JoinedRows, Row, Statement, Value, events};

use super::dice::Dice;
use super::scheduler::lock;
use crate::support::sqlite::{On, Sqlite};

pub type CallId = u64;

/// What goes wrong with a batch.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is not run.
    Before(DbError),
    /// It is run, and its sender hears an error.
    After(DbError),
    /// Its sender hears an error, while it is still on its way and may be stuck there.
    Late(DbError),
}

impl Fault {
    fn may_have_committed(&self) -> bool {
        let (Self::Before(error) | Self::After(error) | Self::Late(error)) = self;
        error.may_have_committed()
    }
}

/// A fault that passes.
pub fn passing() -> DbError {
    DbError::from_message("Network connection lost".into())
}

/// A fault that would be there again.
pub fn lasting() -> DbError {
    DbError::from_message("D1_ERROR: constraint failed".into())
}

/// No answer within the time that D1 is given.
pub fn silence() -> DbError {
    DbError::from_message("D1 did not answer in time".into())
}

type Answer<T> = (Option<Result<T, DbError>>, oneshot::Sender<Result<T, DbError>>);

enum Asked {
    Batch(Vec<Statement>, Answer<Vec<Vec<Row>>>),
    Joined(Statement, u64, Answer<JoinedRows>),
}

impl Asked {
    fn on(&self) -> On {
        match self {
            Self::Batch(statements, _) => On::of(statements),
            Self::Joined(..) => On::Reads,
        }
    }

    fn is_run(&self) -> bool {
        match self {
            Self::Batch(_, (answer, _)) => answer.is_some(),
            Self::Joined(_, _, (answer, _)) => answer.is_some(),
        }
    }

    fn is_abandoned(&self) -> bool {
        match self {
            Self::Batch(_, (_, sender)) => sender.is_canceled(),
            Self::Joined(_, _, (_, sender)) => sender.is_canceled(),
        }
    }

    /// The epoch in which it writes, if it does so in a namespace.
    fn epoch_of(&self, namespace: &str) -> Option<Value> {
        let Self::Batch(statements, _) = self else { return None };
        let check = statements.iter().find(|statement| statement.sql == CHECK_EPOCH)?;
        (check.params.first() == Some(&namespace.into())).then(|| check.params.get(1).cloned())?
    }

    /// The answer that its sender hears instead of its own, which nobody waits for any more.
    fn give_up(&mut self, error: DbError) -> Self {
        match self {
            Self::Batch(_, (_, sender)) => {
                let sender = std::mem::replace(sender, oneshot::channel().0);
                Self::Batch(Vec::new(), (Some(Err(error)), sender))
            }
            Self::Joined(statement, limit, (_, sender)) => {
                let sender = std::mem::replace(sender, oneshot::channel().0);
                Self::Joined(statement.clone(), *limit, (Some(Err(error)), sender))
            }
        }
    }

    fn run(&mut self, sqlite: &Sqlite, fault: Option<Fault>) {
        match self {
            Self::Batch(statements, (answer, _)) => {
                let run = || sqlite.batch(statements).now_or_never().expect("SQLite answers at once");
                *answer = Some(with(fault, run));
            }
            Self::Joined(statement, limit, (answer, _)) => {
                let run = || sqlite.query_joined(statement, *limit).now_or_never().expect("SQLite answers at once");
                *answer = Some(with(fault, run));
            }
        }
    }

    fn answer(self) {
        match self {
            Self::Batch(_, (Some(answer), sender)) => drop(sender.send(answer)),
            Self::Joined(_, _, (Some(answer), sender)) => drop(sender.send(answer)),
            Self::Batch(..) | Self::Joined(..) => {}
        }
    }
}

fn with<T>(fault: Option<Fault>, run: impl FnOnce() -> Result<T, DbError>) -> Result<T, DbError> {
    match fault {
        None => run(),
        Some(Fault::Before(error) | Fault::Late(error)) => Err(error),
        Some(Fault::After(error)) => run().and(Err(error)),
    }
}

struct Call {
    asked: Asked,
    /// Whether the database is too slow for it at the moment.
    stuck: bool,
}

#[derive(Default)]
struct Calls {
    under_way: BTreeMap<CallId, Call>,
    last: CallId,
    /// One after the other, each for one batch of its kind.
    planned: VecDeque<(On, Fault)>,
    /// What meets every batch of its kind.
    outage: Option<(On, DbError)>,
    slow: Option<On>,
    faults: u64,
    /// The namespaces that had a fault after which nobody knew whether a batch was written.
    doubted: BTreeSet<String>,
    /// Those of them in which it may not have been found out yet.
    in_doubt: BTreeSet<String>,
    /// Whether somebody may not have heard yet of a fault.
    clis_that_missed: bool,
}

impl Calls {
    /// Notes a doubt, or its end: a write that is answered, or the log of events read once more.
    fn note_doubt(&mut self, asked: &Asked, fault: Option<&Fault>) {
        let Asked::Batch(statements, _) = asked else { return };
        let ends = |statement: &&Statement| [CHECK_EPOCH, events::SELECT].contains(&statement.sql);
        let Some(Value::Text(namespace)) = statements.iter().find(ends).and_then(|found| found.params.first()) else {
            return;
        };
        if fault.is_none() {
            self.in_doubt.remove(namespace);
        } else if asked.on() == On::Writes && fault.is_some_and(Fault::may_have_committed) {
            self.doubted.insert(namespace.clone());
            self.in_doubt.insert(namespace.clone());
        }
    }
}

/// The database.
pub struct Remote {
    pub sqlite: Arc<Sqlite>,
    calls: Mutex<Calls>,
}

impl Remote {
    pub fn new(sqlite: Arc<Sqlite>) -> Self {
        Self { sqlite, calls: Mutex::default() }
    }

    /// The next batch of this kind meets a fault.
    pub fn plan(&self, on: On, fault: Fault) {
        lock(&self.calls).planned.push_back((on, fault));
    }

    /// Every batch of this kind fails from now on.
    pub fn break_down(&self, on: On, error: DbError) {
        lock(&self.calls).outage = Some((on, error));
    }

    /// Batches of this kind get stuck somewhere on their way from now on.
    pub fn slow_down(&self, on: On) {
        lock(&self.calls).slow = Some(on);
    }

    /// What was stuck goes on.
    pub fn speed_up(&self) {
        let mut calls = lock(&self.calls);
        calls.slow = None;
        calls.under_way.values_mut().for_each(|call| call.stuck = false);
    }

    /// Nothing fails any more, and nothing is slow.
    pub fn repair(&self) {
        self.speed_up();
        let mut calls = lock(&self.calls);
        calls.outage = None;
        calls.planned.clear();
    }

    /// Whether batches fail, or will.
    pub fn is_faulty(&self) -> bool {
        let calls = lock(&self.calls);
        calls.outage.is_some() || !calls.planned.is_empty()
    }

    /// How many faults there were.
    pub fn faults(&self) -> u64 {
        lock(&self.calls).faults
    }

    /// Whether a namespace ever had to find out what became of a batch.
    pub fn was_in_doubt(&self, namespace: &str) -> bool {
        lock(&self.calls).doubted.contains(namespace)
    }

    /// Whether a namespace may still have to.
    pub fn is_in_doubt(&self, namespace: &str) -> bool {
        lock(&self.calls).in_doubt.contains(namespace)
    }

    /// How many faults there were of which everybody has heard, or a few less.
    pub fn heard_faults(&self) -> u64 {
        let calls = lock(&self.calls);
        calls.faults.saturating_sub(u64::from(calls.clis_that_missed))
    }

    /// Everything has come to rest: unless an answer is still on its way, everybody has heard of every fault.
    pub fn come_to_rest(&self) {
        let mut calls = lock(&self.calls);
        calls.clis_that_missed &= !calls.under_way.is_empty();
    }

    /// The calls that get on when their turn comes.
    pub fn movable(&self) -> Vec<CallId> {
        lock(&self.calls).under_way.iter().filter(|(_, call)| !call.stuck).map(|(id, _)| *id).collect()
    }

    /// What a call is about, for a person.
    pub fn describe(&self, id: CallId) -> String {
        let calls = lock(&self.calls);
        let Some(call) = calls.under_way.get(&id) else { return String::new() };
        let (statements, outcome) = match &call.asked {
            Asked::Batch(statements, (answer, _)) => {
                (&**statements, answer.as_ref().map(|a| a.as_ref().err().cloned()))
            }
            Asked::Joined(statement, _, (answer, _)) => {
                (std::slice::from_ref(statement), answer.as_ref().map(|a| a.as_ref().err().cloned()))
            }
        };
        let heads = statements.iter().map(|s| s.sql.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
        let heads = heads.collect::<Vec<_>>().join("; ");
        match outcome {
            None => format!("the database runs {id}: {heads}"),
            Some(None) => format!("the answer of {id} arrives"),
            Some(Some(error)) => format!("the answer of {id} arrives: {error}"),
        }
    }

    /// How many calls are under way.
    pub fn under_way(&self) -> usize {
        lock(&self.calls).under_way.len()
    }

    /// A call gets on: it is run, or its answer arrives.
    pub fn step(&self, id: CallId) {
        let mut calls = lock(&self.calls);
        let Some(mut call) = calls.under_way.remove(&id) else { return };
        if call.asked.is_run() {
            drop(calls);
            return call.asked.answer();
        }
        if call.asked.is_abandoned() {
            // Nobody hears of it any more.
            return call.asked.run(&self.sqlite, None);
        }
        let on = call.asked.on();
        let planned = calls.planned.iter().position(|(of, _)| *of == on).and_then(|at| calls.planned.remove(at));
        let outage = calls.outage.clone().filter(|(of, _)| *of == on).map(|(_, error)| Fault::Before(error));
        let fault = planned.map(|(_, fault)| fault).or(outage);
        calls.faults += u64::from(fault.is_some());
        calls.clis_that_missed |= fault.is_some();
        calls.note_doubt(&call.asked, fault.as_ref());
        let slow = calls.slow == Some(on);
        match fault {
            Some(Fault::Late(error)) => {
                let asked = call.asked.give_up(error);
                calls.last += 1;
                // Some of them for long.
                call.stuck = calls.last.is_multiple_of(2);
                let heard = calls.last;
                calls.under_way.insert(heard, Call { asked, stuck: slow });
            }
            fault => {
                call.asked.run(&self.sqlite, fault);
                call.stuck = slow;
            }
        }
        calls.under_way.insert(id, call);
    }

    /// Whoever asked may be gone: of what he asked some is run nevertheless, at once, soon, or only when the database is not
    /// slow any more; but nobody hears of it.
    pub fn bury(&self, dice: &mut Dice) {
        let mut calls = lock(&self.calls);
        let abandoned = |call: &Call| call.asked.is_abandoned() && !call.asked.is_run();
        calls.under_way.retain(|_, call| !call.asked.is_abandoned() || !call.asked.is_run());
        for (id, mut call) in std::mem::take(&mut calls.under_way) {
            if abandoned(&call) {
                match dice.below(6) {
                    0 | 1 => continue,
                    2 | 3 => {
                        call.asked.run(&self.sqlite, None);
                        continue;
                    }
                    roll => call.stuck = roll == 5,
                }
            }
            calls.under_way.insert(id, call);
        }
    }

    /// Whether something that nobody waits for may still change what a namespace has.
    pub fn is_haunted(&self, namespace: &str) -> bool {
        let calls = lock(&self.calls);
        let epochs = calls.under_way.values().filter(|call| call.asked.is_abandoned() && !call.asked.is_run());
        let mut epochs = epochs.filter_map(|call| call.asked.epoch_of(namespace));
        let begun = self.sqlite.select(&format!("SELECT epoch FROM fences WHERE namespace = '{namespace}'"));
        let begun = begun.first().and_then(|row| row.first()).cloned();
        epochs.any(|epoch| !matches!((epoch, &begun), (Value::Integer(of), Some(Value::Integer(begun))) if of < *begun))
    }

    fn add(&self, asked: Asked) {
        let mut calls = lock(&self.calls);
        calls.last += 1;
        let id = calls.last;
        // It gets stuck on its way there or on its way back.
        let stuck = calls.slow == Some(asked.on()) && id.is_multiple_of(2);
        calls.under_way.insert(id, Call { asked, stuck });
    }
}

impl Database for Remote {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        async move {
            let (sender, answer) = oneshot::channel();
            self.add(Asked::Batch(statements.to_vec(), (None, sender)));
            answer.await.unwrap_or_else(|_| Err(passing()))
        }
        .boxed()
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        async move {
            let (sender, answer) = oneshot::channel();
            self.add(Asked::Joined(statement.clone(), limit, (None, sender)));
            answer.await.unwrap_or_else(|_| Err(passing()))
        }
        .boxed()
    }
}
