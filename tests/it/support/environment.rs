//! Environments of the retries of database operations: the clock, the pauses between attempts, random bytes and the log.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use session_gateway_hub::log::LogLine;
use session_gateway_hub::store::retry::{Environment, Retrying};

use super::prelude::*;

/// An environment whose clock advances only when a task sleeps or the test calls [`Self::advance`]. Every pause between retries
/// has its full length, unless the test sets random bytes.
#[derive(Default, Clone)]
pub struct FakeEnvironment {
    /// The next random bytes.
    pub random: Arc<Mutex<VecDeque<u8>>>,
    pub logs: Arc<Mutex<Vec<String>>>,
    /// Every pause, in milliseconds.
    pub pauses: Arc<Mutex<Vec<u64>>>,
    now: Arc<AtomicU64>,
}

impl FakeEnvironment {
    pub fn advance(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Environment for FakeEnvironment {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.advance(ms);
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(ms);
        Box::pin(tokio::task::yield_now())
    }

    fn random(&self) -> u8 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(u8::MAX)
    }

    fn log(&self, line: LogLine) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_string());
    }
}

/// An environment with tokio's clock, which starts at 0.
pub struct TokioEnvironment(tokio::time::Instant);

impl TokioEnvironment {
    pub fn start() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Environment for TokioEnvironment {
    fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn random(&self) -> u8 {
        u8::MAX
    }

    /// Returns a different secret of 43 characters on each call.
    fn generate_secret(&self) -> Option<String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Some(format!("{:043}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn log(&self, _: LogLine) {}
}

/// The database with retries, as the edge uses it, but without delays between the attempts.
pub fn with_retries(db: &Arc<Sqlite>) -> Arc<dyn Database> {
    Arc::new(Retrying::new(Arc::clone(db), Box::new(FakeEnvironment::default())))
}
