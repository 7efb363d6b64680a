//! A remote database. A query is in flight, is executed, and its result is in flight; the simulation chooses when each step
//! happens, and which faults occur.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use session_gateway_hub::store::fence::CHECK_EPOCH;
use session_gateway_hub::store::{Database, DbError, JoinedRows, Row, Statement, Value, events};

use super::random::Rng;
use super::scheduler::lock;
use crate::support::sqlite::{BatchKind, Sqlite};

pub type CallId = u64;

#[derive(Debug, Clone)]
pub enum Fault {
    /// The batch is not executed.
    Before(DbError),
    /// The batch is executed, but its result is an error.
    After(DbError),
    /// The result is an error, but the batch is still in flight and is executed later.
    Late(DbError),
}

impl Fault {
    fn may_have_committed(&self) -> bool {
        let (Self::Before(error) | Self::After(error) | Self::Late(error)) = self;
        error.may_have_committed()
    }
}

pub fn retryable_error() -> DbError {
    DbError::from_message("Network connection lost".into())
}

pub fn permanent_error() -> DbError {
    DbError::from_message("D1_ERROR: constraint failed".into())
}

pub fn timeout() -> DbError {
    DbError::from_message("D1 did not answer in time".into())
}

type Response<T> = (Option<Result<T, DbError>>, oneshot::Sender<Result<T, DbError>>);

enum Operation {
    Batch(Vec<Statement>, Response<Vec<Vec<Row>>>),
    Joined(Statement, u64, Response<JoinedRows>),
}

impl Operation {
    fn on(&self) -> BatchKind {
        match self {
            Self::Batch(statements, _) => BatchKind::of(statements),
            Self::Joined(..) => BatchKind::Reads,
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

    /// The epoch of a write in a namespace.
    fn epoch_of(&self, namespace: &str) -> Option<Value> {
        let Self::Batch(statements, _) = self else { return None };
        let check = statements.iter().find(|statement| statement.sql == CHECK_EPOCH)?;
        (check.params.first() == Some(&namespace.into())).then(|| check.params.get(1).cloned())?
    }

    /// Splits off the result for the sender, an error; the operation itself becomes abandoned.
    fn time_out(&mut self, error: DbError) -> Self {
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
                let run = || sqlite.batch(statements).now_or_never().expect("SQLite is synchronous");
                *answer = Some(execute_with(fault, run));
            }
            Self::Joined(statement, limit, (answer, _)) => {
                let run = || sqlite.query_joined(statement, *limit).now_or_never().expect("SQLite is synchronous");
                *answer = Some(execute_with(fault, run));
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

fn execute_with<T>(fault: Option<Fault>, run: impl FnOnce() -> Result<T, DbError>) -> Result<T, DbError> {
    match fault {
        None => run(),
        Some(Fault::Before(error) | Fault::Late(error)) => Err(error),
        Some(Fault::After(error)) => run().and(Err(error)),
    }
}

struct Call {
    operation: Operation,
    /// Whether it makes no progress while the database is slow.
    is_stuck: bool,
}

#[derive(Default)]
struct Calls {
    in_flight: BTreeMap<CallId, Call>,
    last: CallId,
    /// Each affects the next operation of its kind.
    planned: VecDeque<(BatchKind, Fault)>,
    /// Affects every operation of its kind.
    outage: Option<(BatchKind, DbError)>,
    slow: Option<BatchKind>,
    faults: u64,
    /// The namespaces that ever had a write with an unknown outcome.
    had_unknown_outcome: BTreeSet<String>,
    /// The namespaces that may not have determined the outcome yet.
    unknown_outcome: BTreeSet<String>,
    /// Whether a fault may not have been reported to its sender yet.
    has_unreported_fault: bool,
}

impl Calls {
    /// Records a write with an unknown outcome, or its end: a later write with a result, or a read of the event log.
    fn track_outcome(&mut self, operation: &Operation, fault: Option<&Fault>) {
        let Operation::Batch(statements, _) = operation else { return };
        let ends = |statement: &&Statement| [CHECK_EPOCH, events::SELECT].contains(&statement.sql);
        let Some(Value::Text(namespace)) = statements.iter().find(ends).and_then(|found| found.params.first()) else {
            return;
        };
        if fault.is_none() {
            self.unknown_outcome.remove(namespace);
        } else if operation.on() == BatchKind::Writes && fault.is_some_and(Fault::may_have_committed) {
            self.had_unknown_outcome.insert(namespace.clone());
            self.unknown_outcome.insert(namespace.clone());
        }
    }
}

pub struct RemoteDatabase {
    pub sqlite: Arc<Sqlite>,
    calls: Mutex<Calls>,
}

impl RemoteDatabase {
    pub fn new(sqlite: Arc<Sqlite>) -> Self {
        Self { sqlite, calls: Mutex::default() }
    }

    /// Injects a fault into the next operation of this kind.
    pub fn inject(&self, on: BatchKind, fault: Fault) {
        lock(&self.calls).planned.push_back((on, fault));
    }

    /// All operations of this kind fail until [`repair`](Self::repair).
    pub fn fail_all(&self, on: BatchKind, error: DbError) {
        lock(&self.calls).outage = Some((on, error));
    }

    /// Some operations of this kind get stuck until [`unslow`](Self::unslow).
    pub fn slow(&self, on: BatchKind) {
        lock(&self.calls).slow = Some(on);
    }

    pub fn unslow(&self) {
        let mut calls = lock(&self.calls);
        calls.slow = None;
        calls.in_flight.values_mut().for_each(|call| call.is_stuck = false);
    }

    /// Ends all faults.
    pub fn repair(&self) {
        self.unslow();
        let mut calls = lock(&self.calls);
        calls.outage = None;
        calls.planned.clear();
    }

    /// Whether a fault is active or injected.
    pub fn is_faulty(&self) -> bool {
        let calls = lock(&self.calls);
        calls.outage.is_some() || !calls.planned.is_empty()
    }

    pub fn faults(&self) -> u64 {
        lock(&self.calls).faults
    }

    /// Whether a namespace ever had a write with an unknown outcome.
    pub fn had_unknown_outcome(&self, namespace: &str) -> bool {
        lock(&self.calls).had_unknown_outcome.contains(namespace)
    }

    /// Whether a namespace may have a write with an unknown outcome.
    pub fn has_unknown_outcome(&self, namespace: &str) -> bool {
        lock(&self.calls).unknown_outcome.contains(namespace)
    }

    /// A lower bound of the number of faults that were reported to their senders.
    pub fn reported_faults(&self) -> u64 {
        let calls = lock(&self.calls);
        calls.faults.saturating_sub(u64::from(calls.has_unreported_fault))
    }

    /// Called when the world is idle: without results in flight, all faults have been reported.
    pub fn mark_faults_reported(&self) {
        let mut calls = lock(&self.calls);
        calls.has_unreported_fault &= !calls.in_flight.is_empty();
    }

    /// The calls that can make progress.
    pub fn runnable(&self) -> Vec<CallId> {
        lock(&self.calls).in_flight.iter().filter(|(_, call)| !call.is_stuck).map(|(id, _)| *id).collect()
    }

    /// Describes the next step of a call for the log.
    pub fn describe(&self, id: CallId) -> String {
        let calls = lock(&self.calls);
        let Some(call) = calls.in_flight.get(&id) else { return String::new() };
        let (statements, outcome) = match &call.operation {
            Operation::Batch(statements, (answer, _)) => {
                (&**statements, answer.as_ref().map(|a| a.as_ref().err().cloned()))
            }
            Operation::Joined(statement, _, (answer, _)) => {
                (std::slice::from_ref(statement), answer.as_ref().map(|a| a.as_ref().err().cloned()))
            }
        };
        let heads = statements.iter().map(|s| s.sql.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
        let heads = heads.collect::<Vec<_>>().join("; ");
        match outcome {
            None => format!("the database executes {id}: {heads}"),
            Some(None) => format!("the result of {id} arrives"),
            Some(Some(error)) => format!("the result of {id} arrives: {error}"),
        }
    }

    pub fn in_flight(&self) -> usize {
        lock(&self.calls).in_flight.len()
    }

    /// Executes an operation, or delivers its result.
    pub fn step(&self, id: CallId) {
        let mut calls = lock(&self.calls);
        let Some(mut call) = calls.in_flight.remove(&id) else { return };
        if call.operation.is_run() {
            drop(calls);
            return call.operation.answer();
        }
        if call.operation.is_abandoned() {
            return call.operation.run(&self.sqlite, None);
        }
        let on = call.operation.on();
        let planned = calls.planned.iter().position(|(of, _)| *of == on).and_then(|at| calls.planned.remove(at));
        let outage = calls.outage.clone().filter(|(of, _)| *of == on).map(|(_, error)| Fault::Before(error));
        let fault = planned.map(|(_, fault)| fault).or(outage);
        calls.faults += u64::from(fault.is_some());
        calls.has_unreported_fault |= fault.is_some();
        calls.track_outcome(&call.operation, fault.as_ref());
        let slow = calls.slow == Some(on);
        match fault {
            Some(Fault::Late(error)) => {
                let operation = call.operation.time_out(error);
                calls.last += 1;
                // Half of them get stuck.
                call.is_stuck = calls.last.is_multiple_of(2);
                let id = calls.last;
                calls.in_flight.insert(id, Call { operation, is_stuck: slow });
            }
            fault => {
                call.operation.run(&self.sqlite, fault);
                call.is_stuck = slow;
            }
        }
        calls.in_flight.insert(id, call);
    }

    /// Called after a crash. Abandoned operations are lost, executed now, executed later, or stuck.
    pub fn abandon_calls(&self, rng: &mut Rng) {
        let mut calls = lock(&self.calls);
        let abandoned = |call: &Call| call.operation.is_abandoned() && !call.operation.is_run();
        calls.in_flight.retain(|_, call| !call.operation.is_abandoned() || !call.operation.is_run());
        for (id, mut call) in std::mem::take(&mut calls.in_flight) {
            if abandoned(&call) {
                match rng.below(6) {
                    0 | 1 => continue,
                    2 | 3 => {
                        call.operation.run(&self.sqlite, None);
                        continue;
                    }
                    roll => call.is_stuck = roll == 5,
                }
            }
            calls.in_flight.insert(id, call);
        }
    }

    /// Whether an abandoned write may still change a namespace.
    pub fn has_abandoned_writes(&self, namespace: &str) -> bool {
        let calls = lock(&self.calls);
        let epochs = calls.in_flight.values().filter(|call| call.operation.is_abandoned() && !call.operation.is_run());
        let mut epochs = epochs.filter_map(|call| call.operation.epoch_of(namespace));
        let current = self.sqlite.select(&format!("SELECT epoch FROM fences WHERE namespace = '{namespace}'"));
        let current = current.first().and_then(|row| row.first()).cloned();
        epochs.any(
            |epoch| !matches!((epoch, &current), (Value::Integer(of), Some(Value::Integer(current))) if of < *current),
        )
    }

    fn add(&self, operation: Operation) {
        let mut calls = lock(&self.calls);
        calls.last += 1;
        let id = calls.last;
        let is_stuck = calls.slow == Some(operation.on()) && id.is_multiple_of(2);
        calls.in_flight.insert(id, Call { operation, is_stuck });
    }
}

impl Database for RemoteDatabase {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        async move {
            let (sender, answer) = oneshot::channel();
            self.add(Operation::Batch(statements.to_vec(), (None, sender)));
            answer.await.unwrap_or_else(|_| Err(retryable_error()))
        }
        .boxed()
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        async move {
            let (sender, answer) = oneshot::channel();
            self.add(Operation::Joined(statement.clone(), limit, (None, sender)));
            answer.await.unwrap_or_else(|_| Err(retryable_error()))
        }
        .boxed()
    }
}
