//! Backpressure: the bytes that were sent to a WebSocket client and that it has not acknowledged.
//!
//! The runtime has no `bufferedAmount`, and buffers without limit for a client that does not read. So clients acknowledge: each
//! frame of a web client acknowledges the oldest unacknowledged heartbeat, and each pong of a CLI acknowledges the oldest
//! unacknowledged ping. Everything that was sent before that heartbeat or ping is then acknowledged, too.

use std::collections::VecDeque;

/// The bytes that a client may leave unacknowledged before the hub disconnects the client: twice the largest event.
pub const MAX_UNACKED_BYTES: usize = 16 * 1024 * 1024;
const _: () = assert!(MAX_UNACKED_BYTES >= 2 * crate::model::event::MAX_EVENT_CONTENT_BYTES);
/// The unacknowledged bytes above which a web client gets no `message-delta`, so that it still gets events that it must not miss.
pub const MAX_UNACKED_BYTES_WITH_DELTAS: usize = MAX_UNACKED_BYTES / 4;

/// The most unacknowledged bytes of a CLI, replies included. Above this limit, the hub disconnects the CLI when the CLI sends its next
/// frame. The limit leaves room for the largest update in addition to [`MAX_UNACKED_BYTES`].
const MAX_UNACKED_BYTES_WITH_REPLIES: usize = 3 * MAX_UNACKED_BYTES;
/// After this many sent bytes, a CLI gets an extra ping: [`PING_INTERVAL_MS`](crate::limits::PING_INTERVAL_MS) is too long for a backlog.
const PING_AFTER_BYTES: usize = 2 * 1024 * 1024;

/// The unacknowledged bytes of a client.
#[derive(Debug, Default)]
pub struct SendWindow {
    /// For each unacknowledged heartbeat or ping, the bytes that were sent between the previous heartbeat or ping and this one.
    bytes_before_pings: VecDeque<usize>,
    bytes_after_last_ping: usize,
    /// The sum of `bytes_before_pings` and `bytes_after_last_ping`.
    unacked_bytes: usize,
    /// How many heartbeats or pings were sent.
    ping_count: u64,
}

impl SendWindow {
    /// Counts a frame that the client did not request. Returns false if the client is too slow, with more than [`MAX_UNACKED_BYTES`]
    /// unacknowledged. A frame larger than half of this limit may exceed it, if at most half of it was unacknowledged before.
    #[must_use]
    pub fn record_event(&mut self, bytes: usize) -> bool {
        let before = self.unacked_bytes;
        self.record_reply(bytes);
        self.unacked_bytes <= MAX_UNACKED_BYTES || (bytes > MAX_UNACKED_BYTES / 2 && before <= MAX_UNACKED_BYTES / 2)
    }

    /// Counts a frame that may be dropped. Returns false, and counts nothing, if more than
    /// [`MAX_UNACKED_BYTES_WITH_DELTAS`] would be unacknowledged.
    #[must_use]
    pub fn record_droppable(&mut self, bytes: usize) -> bool {
        let fits = self.unacked_bytes + bytes <= MAX_UNACKED_BYTES_WITH_DELTAS;
        if fits {
            self.record_reply(bytes);
        }
        fits
    }

    /// Counts a frame that the client requested.
    pub fn record_reply(&mut self, bytes: usize) {
        self.bytes_after_last_ping += bytes;
        self.unacked_bytes += bytes;
    }

    /// Whether the client has too many unacknowledged bytes to request more.
    pub fn is_over_reply_limit(&self) -> bool {
        self.unacked_bytes > MAX_UNACKED_BYTES_WITH_REPLIES
    }

    /// Whether [`PING_AFTER_BYTES`] were sent since the last ping.
    pub fn needs_ping(&self) -> bool {
        self.bytes_after_last_ping >= PING_AFTER_BYTES
    }

    /// Records that a heartbeat or ping was sent. Returns its number, from 1.
    pub fn record_ping(&mut self) -> u64 {
        self.bytes_before_pings.push_back(std::mem::take(&mut self.bytes_after_last_ping));
        self.ping_count += 1;
        self.ping_count
    }

    /// Whether the heartbeat or ping with this number is acknowledged.
    pub fn is_acknowledged(&self, ping: u64) -> bool {
        ping + self.bytes_before_pings.len() as u64 <= self.ping_count
    }

    /// Records the acknowledgement of the oldest unacknowledged heartbeat or ping, if there is one.
    pub fn acknowledge(&mut self) {
        self.unacked_bytes -= self.bytes_before_pings.pop_front().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIRD: usize = MAX_UNACKED_BYTES / 3;

    #[test]
    fn an_acknowledgement_covers_only_bytes_sent_before_the_ping() {
        let mut window = SendWindow::default();
        assert!(window.record_event(2 * THIRD));
        window.record_ping();
        assert!(window.record_event(THIRD));
        window.acknowledge();
        assert!(window.record_event(2 * THIRD), "the first two thirds are acknowledged");
        assert!(!window.record_event(3));
        window.record_ping();
        window.acknowledge();
        assert!(window.record_event(MAX_UNACKED_BYTES));
    }

    #[test]
    fn replies_have_a_limit_of_their_own() {
        let mut window = SendWindow::default();
        assert!(window.record_event(MAX_UNACKED_BYTES / 2));
        assert!(window.record_event(2 * MAX_UNACKED_BYTES), "the largest update");
        window.record_reply(MAX_UNACKED_BYTES / 2);
        assert!(!window.is_over_reply_limit());
        window.record_ping();
        window.record_reply(1);
        assert!(window.is_over_reply_limit());
        window.acknowledge();
        assert!(!window.is_over_reply_limit());
    }

    #[test]
    fn acknowledgements_without_a_ping_are_ignored() {
        let mut window = SendWindow::default();
        assert!(window.record_event(MAX_UNACKED_BYTES));
        for _ in 0..5 {
            window.acknowledge();
        }
        assert!(!window.record_event(1));
    }
}
