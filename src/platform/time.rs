//! The time, and timers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use worker::Delay;

/// Unix time in milliseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A positive integer.
pub fn now() -> u64 {
    js_sys::Date::now() as u64
}

/// A pause. The timer is set when the pause is first polled, and cleared on drop.
///
/// [`Delay`] wakes only the task that first polled the delay. The future that processes a WebSocket frame is polled by two tasks:
/// first by the task of the event, later by a task of its own (`webSocketMessage` in `object.rs`). So the pause sets a new timer
/// when the polling task has changed.
pub struct Sleep {
    /// Unix milliseconds.
    ends_at: u64,
    timer: Option<(Waker, Delay)>,
}

pub fn sleep(ms: u64) -> Sleep {
    Sleep { ends_at: now().saturating_add(ms), timer: None }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let ends_at = self.ends_at;
        let timer = self.timer.take().filter(|(waker, _)| waker.will_wake(context.waker()));
        let (_, delay) = self.timer.insert(timer.unwrap_or_else(|| {
            let remaining = Duration::from_millis(ends_at.saturating_sub(now()));
            (context.waker().clone(), Delay::from(remaining))
        }));
        Pin::new(delay).poll(context)
    }
}
