//! Runs tasks one poll at a time, in whatever order the caller chooses: every interleaving at an await can happen, and
//! the same choices make the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;

/// A life of an object in memory, from its waking to its end. What runs for nobody in particular has the life 0.
pub type Life = u64;

pub type TaskId = u64;

struct Task {
    life: Life,
    future: BoxFuture<'static, ()>,
}

#[derive(Default)]
struct Tasks {
    all: BTreeMap<TaskId, Task>,
    last: TaskId,
}

type Ready = Arc<Mutex<BTreeSet<TaskId>>>;

/// The tasks of a world.
#[derive(Default)]
pub struct Scheduler {
    tasks: Mutex<Tasks>,
    ready: Ready,
}

struct Waking {
    task: TaskId,
    ready: Ready,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.task);
    }
}

impl Scheduler {
    /// Adds a task that is polled some time later.
    pub fn spawn(&self, life: Life, future: BoxFuture<'static, ()>) -> TaskId {
        let mut tasks = lock(&self.tasks);
        tasks.last += 1;
        let id = tasks.last;
        tasks.all.insert(id, Task { life, future });
        lock(&self.ready).insert(id);
        id
    }

    /// Runs a task up to where it first waits, as a runtime does with the handler of an event.
    pub fn start(&self, life: Life, future: BoxFuture<'static, ()>) {
        let id = self.spawn(life, future);
        self.poll(id);
    }

    /// The tasks that would get on if they were polled.
    pub fn ready(&self) -> Vec<TaskId> {
        lock(&self.ready).iter().copied().collect()
    }

    /// Polls a task once.
    pub fn poll(&self, id: TaskId) {
        lock(&self.ready).remove(&id);
        let Some(mut task) = lock(&self.tasks).all.remove(&id) else { return };
        let waker = Waker::from(Arc::new(Waking { task: id, ready: Arc::clone(&self.ready) }));
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            lock(&self.tasks).all.insert(id, task);
        }
    }

    /// Drops the tasks of a life wherever they wait.
    pub fn kill(&self, life: Life) {
        let killed: Vec<Task> = {
            let mut tasks = lock(&self.tasks);
            let (killed, rest) = std::mem::take(&mut tasks.all).into_iter().partition(|(_, task)| task.life == life);
            tasks.all = rest;
            let killed: BTreeMap<TaskId, Task> = killed;
            killed.into_values().collect()
        };
        // What a task holds may wake another one when it is dropped.
        drop(killed);
        let left: BTreeSet<TaskId> = lock(&self.tasks).all.keys().copied().collect();
        lock(&self.ready).retain(|id| left.contains(id));
    }

    /// How many tasks of a life have not come to their end.
    pub fn running(&self, life: Life) -> usize {
        lock(&self.tasks).all.values().filter(|task| task.life == life).count()
    }

    /// How many tasks there are in all.
    pub fn len(&self) -> usize {
        lock(&self.tasks).all.len()
    }
}

/// Lets everybody else go first, once.
#[derive(Default)]
pub struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Locks what a panic may have left locked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
