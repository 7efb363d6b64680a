//! A deterministic task scheduler. The caller chooses which task to poll next, so that every interleaving at an await is
//! possible.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;

/// Identifies one run of an object, from its start to its eviction or crash. Tasks outside of objects have the incarnation 0.
pub type Incarnation = u64;

pub type TaskId = u64;

struct Task {
    incarnation: Incarnation,
    future: BoxFuture<'static, ()>,
}

#[derive(Default)]
struct Tasks {
    by_id: BTreeMap<TaskId, Task>,
    last_id: TaskId,
}

type Ready = Arc<Mutex<BTreeSet<TaskId>>>;

#[derive(Default)]
pub struct Scheduler {
    tasks: Mutex<Tasks>,
    ready: Ready,
}

struct TaskWaker {
    task: TaskId,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.task);
    }
}

impl Scheduler {
    /// Adds a task without polling it.
    pub fn spawn(&self, incarnation: Incarnation, future: BoxFuture<'static, ()>) -> TaskId {
        let mut tasks = lock(&self.tasks);
        tasks.last_id += 1;
        let id = tasks.last_id;
        tasks.by_id.insert(id, Task { incarnation, future });
        lock(&self.ready).insert(id);
        id
    }

    /// Adds a task and polls it once, as the platform does with an event handler.
    pub fn start(&self, incarnation: Incarnation, future: BoxFuture<'static, ()>) {
        let id = self.spawn(incarnation, future);
        self.poll(id);
    }

    /// The tasks that were woken since their last poll.
    pub fn ready(&self) -> Vec<TaskId> {
        lock(&self.ready).iter().copied().collect()
    }

    pub fn poll(&self, id: TaskId) {
        lock(&self.ready).remove(&id);
        let Some(mut task) = lock(&self.tasks).by_id.remove(&id) else { return };
        let waker = Waker::from(Arc::new(TaskWaker { task: id, ready: Arc::clone(&self.ready) }));
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            lock(&self.tasks).by_id.insert(id, task);
        }
    }

    /// Drops the tasks of an incarnation.
    pub fn kill(&self, incarnation: Incarnation) {
        let killed: Vec<Task> = {
            let mut tasks = lock(&self.tasks);
            let (killed, rest) =
                std::mem::take(&mut tasks.by_id).into_iter().partition(|(_, task)| task.incarnation == incarnation);
            tasks.by_id = rest;
            let killed: BTreeMap<TaskId, Task> = killed;
            killed.into_values().collect()
        };
        // The lock is released first, because the drop of a task may wake another task.
        drop(killed);
        let remaining: BTreeSet<TaskId> = lock(&self.tasks).by_id.keys().copied().collect();
        lock(&self.ready).retain(|id| remaining.contains(id));
    }

    /// The number of unfinished tasks of an incarnation.
    pub fn unfinished_tasks(&self, incarnation: Incarnation) -> usize {
        lock(&self.tasks).by_id.values().filter(|task| task.incarnation == incarnation).count()
    }

    pub fn len(&self) -> usize {
        lock(&self.tasks).by_id.len()
    }
}

/// A future that is pending at the first poll and ready at the second.
#[derive(Default)]
pub struct YieldNow(bool);

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Locks a mutex. Ignores poisoning, so that a failed check does not hide its own message.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
