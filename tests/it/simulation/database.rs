//! A remote database. A call takes two steps: the database executes the operation, and the result arrives at the sender. The
//! simulation chooses when each step happens, and which faults occur.

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

/// A fault of one operation.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The batch is not executed.
    NotExecuted(DbError),
    /// The batch is executed, but its result is an error.
    ResultLost(DbError),
    /// The result is an error, and the batch is executed later.
    ExecutedLater(DbError),
}

impl Fault {
    fn is_outcome_unknown(&self) -> bool {
        let (Self::NotExecuted(error) | Self::ResultLost(error) | Self::ExecutedLater(error)) = self;
        error.is_outcome_unknown()
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

/// The result of an operation, `None` until its execution, and the channel to its sender.
type Response<T> = (Option<Result<T, DbError>>, oneshot::Sender<Result<T, DbError>>);

enum Operation {
    Batch(Vec<Statement>, Response<Vec<Vec<Row>>>),
    /// The statement and limit of a [`Database::query_joined`].
    Joined(Statement, u64, Response<JoinedRows>),
}

impl Operation {
    fn kind(&self) -> BatchKind {
        match self {
            Self::Batch(statements, _) => BatchKind::of(statements),
            Self::Joined(..) => BatchKind::Reads,
        }
    }

    fn is_executed(&self) -> bool {
        match self {
            Self::Batch(_, (result, _)) => result.is_some(),
            Self::Joined(_, _, (result, _)) => result.is_some(),
        }
    }

    /// Whether the sender no longer waits for the result.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Batch(_, (_, sender)) => sender.is_canceled(),
            Self::Joined(_, _, (_, sender)) => sender.is_canceled(),
        }
    }

    /// The epoch that the operation checks, if it is a write in this namespace.
    fn epoch_in(&self, namespace: &str) -> Option<Value> {
        let Self::Batch(statements, _) = self else { return None };
        let check = statements.iter().find(|statement| statement.sql == CHECK_EPOCH)?;
        (check.params.first() == Some(&namespace.into())).then(|| check.params.get(1).cloned())?
    }

    /// Returns an executed operation whose result is this error for the sender. The operation itself becomes abandoned.
    fn split_off_error(&mut self, error: DbError) -> Self {
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

    fn execute(&mut self, sqlite: &Sqlite, fault: Option<Fault>) {
        match self {
            Self::Batch(statements, (result, _)) => {
                let query = || sqlite.batch(statements).now_or_never().expect("SQLite is synchronous");
                *result = Some(execute_with(fault, query));
            }
            Self::Joined(statement, limit, (result, _)) => {
                let query = || sqlite.query_joined(statement, *limit).now_or_never().expect("SQLite is synchronous");
                *result = Some(execute_with(fault, query));
            }
        }
    }

    fn deliver_result(self) {
        match self {
            Self::Batch(_, (Some(result), sender)) => drop(sender.send(result)),
            Self::Joined(_, _, (Some(result), sender)) => drop(sender.send(result)),
            Self::Batch(..) | Self::Joined(..) => {}
        }
    }
}

fn execute_with<T>(fault: Option<Fault>, query: impl FnOnce() -> Result<T, DbError>) -> Result<T, DbError> {
    match fault {
        None => query(),
        Some(Fault::NotExecuted(error) | Fault::ExecutedLater(error)) => Err(error),
        Some(Fault::ResultLost(error)) => query().and(Err(error)),
    }
}

struct Call {
    operation: Operation,
    /// Whether the call makes no progress until the database is fast again.
    is_stuck: bool,
    /// When the request arrives at the database, or the result at the sender, in Unix milliseconds.
    arrives_at: u64,
}

/// Half of a round trip to the database, in milliseconds: at least 70.
fn half_round_trip_ms(id: CallId) -> u64 {
    70 + (id % 4) * (id * 37 % 60)
}

#[derive(Default)]
struct Calls {
    /// Unix milliseconds.
    now: u64,
    /// Whether requests and results take time to arrive.
    has_round_trip_time: bool,
    in_flight: BTreeMap<CallId, Call>,
    last_id: CallId,
    /// Faults of the next operations. An operation gets the first fault of its kind.
    injected: VecDeque<(BatchKind, Fault)>,
    /// The kinds of operations that all fail, with the error.
    outages: Vec<(BatchKind, DbError)>,
    /// Some operations of this kind get stuck.
    slow_kind: Option<BatchKind>,
    /// Whether all operations get stuck.
    is_silent: bool,
    /// The number of operations with a fault.
    fault_count: u64,
    /// The namespaces that ever had a write with an unknown outcome.
    had_unknown_outcome: BTreeSet<String>,
    /// The namespaces that may not know yet whether a write of events was committed.
    unknown_outcome: BTreeSet<String>,
    /// Whether a fault may exist whose error has not arrived at the sender.
    has_unseen_fault: bool,
}

impl Calls {
    fn arrival(&self, id: CallId) -> u64 {
        self.now + if self.has_round_trip_time { half_round_trip_ms(id) } else { 0 }
    }

    /// Records that a namespace does not know the outcome of a write. If the write has events, the namespace learns the outcome
    /// from a later write or a later read of the event log without a fault. A write without events only fails its request.
    fn track_outcome(&mut self, operation: &Operation, fault: Option<&Fault>) {
        let Operation::Batch(statements, _) = operation else { return };
        let names_namespace = |statement: &&Statement| [CHECK_EPOCH, events::SELECT].contains(&statement.sql);
        let Some(Value::Text(namespace)) =
            statements.iter().find(names_namespace).and_then(|found| found.params.first())
        else {
            return;
        };
        if fault.is_none() {
            self.unknown_outcome.remove(namespace);
        } else if operation.kind() == BatchKind::Writes && fault.is_some_and(Fault::is_outcome_unknown) {
            self.had_unknown_outcome.insert(namespace.clone());
            if statements.iter().any(|s| s.sql.contains("INSERT INTO events") || s.sql.contains("UPDATE events")) {
                self.unknown_outcome.insert(namespace.clone());
            }
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

    /// Makes the round trip of each call take 140 ms or more.
    pub fn add_round_trip_time(&self) {
        lock(&self.calls).has_round_trip_time = true;
    }

    pub fn set_now(&self, now: u64) {
        lock(&self.calls).now = now;
    }

    /// Whether a request or a result will arrive at a later time.
    pub fn has_round_trips(&self) -> bool {
        let calls = lock(&self.calls);
        calls.in_flight.values().any(|call| !call.is_stuck && call.arrives_at > calls.now)
    }

    /// Injects a fault into the next operation of this kind.
    pub fn inject(&self, kind: BatchKind, fault: Fault) {
        lock(&self.calls).injected.push_back((kind, fault));
    }

    /// Makes all operations of this kind fail until [`repair`](Self::repair).
    pub fn fail_all(&self, kind: BatchKind, error: DbError) {
        lock(&self.calls).outages.push((kind, error));
    }

    /// Makes some operations of this kind get stuck until [`end_slowness`](Self::end_slowness).
    pub fn start_slowness(&self, kind: BatchKind) {
        lock(&self.calls).slow_kind = Some(kind);
    }

    /// Makes all operations get stuck until [`end_slowness`](Self::end_slowness).
    pub fn start_silence(&self) {
        let mut calls = lock(&self.calls);
        calls.is_silent = true;
        calls.in_flight.values_mut().for_each(|call| call.is_stuck = true);
    }

    /// Ends the slowness. All stuck operations can make progress again.
    pub fn end_slowness(&self) {
        let mut calls = lock(&self.calls);
        (calls.slow_kind, calls.is_silent) = (None, false);
        calls.in_flight.values_mut().for_each(|call| call.is_stuck = false);
    }

    /// Ends all faults.
    pub fn repair(&self) {
        self.end_slowness();
        let mut calls = lock(&self.calls);
        calls.outages.clear();
        calls.injected.clear();
    }

    /// Whether a fault is active or injected.
    pub fn is_faulty(&self) -> bool {
        let calls = lock(&self.calls);
        !calls.outages.is_empty() || !calls.injected.is_empty()
    }

    /// The number of operations that had a fault.
    pub fn fault_count(&self) -> u64 {
        lock(&self.calls).fault_count
    }

    /// Whether a namespace ever had a write with an unknown outcome.
    pub fn had_unknown_outcome(&self, namespace: &str) -> bool {
        lock(&self.calls).had_unknown_outcome.contains(namespace)
    }

    /// Whether a namespace may have a write of events with an unknown outcome.
    pub fn has_unknown_outcome(&self, namespace: &str) -> bool {
        lock(&self.calls).unknown_outcome.contains(namespace)
    }

    /// A lower bound of the number of faults whose error has arrived at the sender.
    pub fn seen_fault_count(&self) -> u64 {
        let calls = lock(&self.calls);
        calls.fault_count.saturating_sub(u64::from(calls.has_unseen_fault))
    }

    /// Called when the world is idle. If no operation is in flight, the errors of all faults have arrived at the hub.
    pub fn mark_faults_seen(&self) {
        let mut calls = lock(&self.calls);
        calls.has_unseen_fault &= !calls.in_flight.is_empty();
    }

    /// The calls that can make progress.
    pub fn runnable(&self) -> Vec<CallId> {
        let calls = lock(&self.calls);
        let is_runnable = |call: &Call| !call.is_stuck && call.arrives_at <= calls.now;
        calls.in_flight.iter().filter(|(_, call)| is_runnable(call)).map(|(id, _)| *id).collect()
    }

    /// Describes the next step of a call for the log.
    pub fn describe(&self, id: CallId) -> String {
        let calls = lock(&self.calls);
        let Some(call) = calls.in_flight.get(&id) else { return String::new() };
        let (statements, outcome) = match &call.operation {
            Operation::Batch(statements, (result, _)) => {
                (&**statements, result.as_ref().map(|result| result.as_ref().err().cloned()))
            }
            Operation::Joined(statement, _, (result, _)) => {
                (std::slice::from_ref(statement), result.as_ref().map(|result| result.as_ref().err().cloned()))
            }
        };
        let summaries = statements.iter().map(|s| s.sql.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
        let summaries = summaries.collect::<Vec<_>>().join("; ");
        match outcome {
            None => format!("the database executes {id}: {summaries}"),
            Some(None) => format!("the result of {id} arrives"),
            Some(Some(error)) => format!("the result of {id} arrives: {error}"),
        }
    }

    /// The number of operations whose result has not arrived.
    pub fn in_flight_count(&self) -> usize {
        lock(&self.calls).in_flight.len()
    }

    /// Executes an operation, or delivers its result.
    pub fn advance_call(&self, id: CallId) {
        let mut calls = lock(&self.calls);
        let Some(mut call) = calls.in_flight.remove(&id) else { return };
        if call.operation.is_executed() {
            drop(calls);
            return call.operation.deliver_result();
        }
        if call.operation.is_abandoned() {
            return call.operation.execute(&self.sqlite, None);
        }
        let kind = call.operation.kind();
        let position = calls.injected.iter().position(|(fault_kind, _)| *fault_kind == kind);
        let injected = position.and_then(|position| calls.injected.remove(position));
        let outage = calls
            .outages
            .iter()
            .find(|(fault_kind, _)| *fault_kind == kind)
            .map(|(_, error)| Fault::NotExecuted(error.clone()));
        let fault = injected.map(|(_, fault)| fault).or(outage);
        calls.fault_count += u64::from(fault.is_some());
        calls.has_unseen_fault |= fault.is_some();
        calls.track_outcome(&call.operation, fault.as_ref());
        let is_slow = calls.slow_kind == Some(kind);
        match fault {
            Some(Fault::ExecutedLater(error)) => {
                let operation = call.operation.split_off_error(error);
                calls.last_id += 1;
                // Half of the operations that are executed later get stuck.
                call.is_stuck = calls.last_id.is_multiple_of(2);
                let id = calls.last_id;
                let arrives_at = calls.arrival(id);
                calls.in_flight.insert(id, Call { operation, is_stuck: is_slow, arrives_at });
            }
            fault => {
                call.operation.execute(&self.sqlite, fault);
                call.is_stuck = is_slow;
            }
        }
        call.arrives_at = calls.arrival(id);
        calls.in_flight.insert(id, call);
    }

    /// Decides at random whether each operation of a crashed object is lost, is executed now or later, or gets stuck.
    pub fn abandon_calls(&self, rng: &mut Rng) {
        let mut calls = lock(&self.calls);
        let is_unexecuted = |call: &Call| call.operation.is_abandoned() && !call.operation.is_executed();
        calls.in_flight.retain(|_, call| !call.operation.is_abandoned() || !call.operation.is_executed());
        for (id, mut call) in std::mem::take(&mut calls.in_flight) {
            if is_unexecuted(&call) {
                match rng.below(6) {
                    0 | 1 => continue,
                    2 | 3 => {
                        call.operation.execute(&self.sqlite, None);
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
        let epochs =
            calls.in_flight.values().filter(|call| call.operation.is_abandoned() && !call.operation.is_executed());
        let mut epochs = epochs.filter_map(|call| call.operation.epoch_in(namespace));
        let current = self.sqlite.select(&format!("SELECT epoch FROM fences WHERE namespace = '{namespace}'"));
        let current = current.first().and_then(|row| row.first()).cloned();
        epochs.any(
            |epoch| !matches!((epoch, &current), (Value::Integer(epoch), Some(Value::Integer(current))) if epoch < *current),
        )
    }

    fn send(&self, operation: Operation) -> Wait<'_> {
        let mut calls = lock(&self.calls);
        calls.last_id += 1;
        let id = calls.last_id;
        let is_stuck = calls.is_silent || calls.slow_kind == Some(operation.kind()) && id.is_multiple_of(2);
        let arrives_at = calls.arrival(id);
        calls.in_flight.insert(id, Call { operation, is_stuck, arrives_at });
        Wait { db: self, id }
    }
}

/// The sender's wait for a result. If the sender stops waiting before the result arrives, the call counts as a fault, and the
/// outcome of a write is unknown.
struct Wait<'a> {
    db: &'a RemoteDatabase,
    id: CallId,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut calls = lock(&self.db.calls);
        if let Some(call) = calls.in_flight.remove(&self.id) {
            calls.fault_count += 1;
            calls.has_unseen_fault = true;
            calls.track_outcome(&call.operation, Some(&Fault::ResultLost(retryable_error())));
            calls.in_flight.insert(self.id, call);
        }
    }
}

impl Database for RemoteDatabase {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        async move {
            let (sender, receiver) = oneshot::channel();
            let _wait = self.send(Operation::Batch(statements.to_vec(), (None, sender)));
            receiver.await.unwrap_or_else(|_| Err(retryable_error()))
        }
        .boxed()
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        async move {
            let (sender, receiver) = oneshot::channel();
            let _wait = self.send(Operation::Joined(statement.clone(), limit, (None, sender)));
            receiver.await.unwrap_or_else(|_| Err(retryable_error()))
        }
        .boxed()
    }
}
