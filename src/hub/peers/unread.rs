//! How much of what a client was sent over its WebSocket it may not have read yet. A state machine without IO.
//!
//! The runtime does not say: it has no `bufferedAmount`, and keeps whatever it is given in memory for a client that does
//! not read (measured). So the client says it: each frame of a web client answers one heartbeat, each pong of a CLI one
//! ping, the oldest unanswered one, and what was sent before that was read.

use std::collections::VecDeque;

use crate::hub::limits::{MAX_UNACKED_BYTES, MAX_UNACKED_BYTES_WITH_REPLIES, PING_AFTER_BYTES};

/// What a client was sent and has not answered.
#[derive(Debug, Default)]
pub struct Unread {
    /// Bytes before each unanswered heartbeat or ping, from the one before it.
    before: VecDeque<usize>,
    /// Bytes since the last one.
    since: usize,
    /// All of these together.
    bytes: usize,
}

impl Unread {
    /// A frame is to go out. Answers whether it may: that no more is unread then than may be, or that it is so large by
    /// itself and little was unread before it.
    pub fn send(&mut self, bytes: usize) -> bool {
        let before = self.bytes;
        self.add(bytes);
        self.bytes <= MAX_UNACKED_BYTES || (bytes > MAX_UNACKED_BYTES / 2 && before <= MAX_UNACKED_BYTES / 2)
    }

    /// A frame goes out that the client asked for.
    pub fn add(&mut self, bytes: usize) {
        self.since += bytes;
        self.bytes += bytes;
    }

    /// Whether the client has left so much unread that it may ask for no more.
    pub fn is_behind(&self) -> bool {
        self.bytes > MAX_UNACKED_BYTES_WITH_REPLIES
    }

    /// Whether so much went out since the last ping that it is time for another one.
    pub fn asks(&self) -> bool {
        self.since >= PING_AFTER_BYTES
    }

    /// The frame that went out last was a heartbeat or a ping.
    pub fn beat(&mut self) {
        self.before.push_back(std::mem::take(&mut self.since));
    }

    /// A frame came in that answers one.
    pub fn answered(&mut self) {
        self.bytes -= self.before.pop_front().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIRD: usize = MAX_UNACKED_BYTES / 3;

    #[test]
    fn a_client_that_never_answers_may_be_sent_so_much_and_no_more() {
        let mut unread = Unread::default();
        assert!(unread.send(MAX_UNACKED_BYTES));
        unread.beat();
        assert!(!unread.send(1));
    }

    #[test]
    fn a_frame_that_is_larger_than_all_that_may_be_unread_goes_to_who_reads() {
        let mut unread = Unread::default();
        assert!(unread.send(MAX_UNACKED_BYTES / 2));
        unread.beat();
        assert!(unread.send(2 * MAX_UNACKED_BYTES));
        unread.beat();
        unread.answered();
        unread.answered();
        assert!(unread.send(MAX_UNACKED_BYTES / 2 + 1));
        assert!(!unread.send(2 * MAX_UNACKED_BYTES));
    }

    #[test]
    fn an_answer_tells_of_what_came_before_the_heartbeat_and_of_nothing_after_it() {
        let mut unread = Unread::default();
        assert!(unread.send(2 * THIRD));
        unread.beat();
        assert!(unread.send(THIRD));
        unread.answered();
        assert!(unread.send(2 * THIRD), "the first two thirds were read");
        assert!(!unread.send(3));
        unread.beat();
        unread.answered();
        assert!(unread.send(MAX_UNACKED_BYTES));
    }

    #[test]
    fn a_client_that_answers_more_and_more_slowly_is_found_out() {
        let mut unread = Unread::default();
        let beats = (1..100).find(|beat| {
            let ready = unread.send(THIRD / 10);
            unread.beat();
            if beat % 2 == 0 {
                unread.answered();
            }
            !ready
        });
        assert!(beats.is_some_and(|beats| (55..65).contains(&beats)), "{beats:?}");
    }

    #[test]
    fn who_reads_the_answers_may_ask_for_more_and_who_does_not_may_not() {
        let mut unread = Unread::default();
        assert!(unread.send(MAX_UNACKED_BYTES / 2));
        assert!(unread.send(2 * MAX_UNACKED_BYTES), "the largest update");
        unread.add(MAX_UNACKED_BYTES / 2);
        assert!(!unread.is_behind());
        unread.beat();
        unread.add(1);
        assert!(unread.is_behind());
        unread.answered();
        assert!(!unread.is_behind());
    }

    #[test]
    fn frames_that_answer_nothing_are_no_credit() {
        let mut unread = Unread::default();
        assert!(unread.send(MAX_UNACKED_BYTES));
        for _ in 0..5 {
            unread.answered();
        }
        assert!(!unread.send(1));
    }
}
