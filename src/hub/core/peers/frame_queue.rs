//! The frames of a socket that arrived while an earlier frame was being handled: frames of a socket take effect in order.

use std::collections::VecDeque;

use futures::channel::oneshot;

/// The memory of a queued frame besides its text, in bytes.
pub const FRAME_OVERHEAD_BYTES: usize = 64;

/// A frame of a CLI or web client.
#[derive(Debug)]
pub struct QueuedFrame {
    pub text: String,
    /// In Unix milliseconds.
    pub arrived_at: u64,
}

impl QueuedFrame {
    /// Returns the bytes that the frame takes in memory, with those of its entry in the queue.
    pub fn memory_bytes(&self) -> usize {
        self.text.len() + FRAME_OVERHEAD_BYTES
    }
}

#[derive(Debug)]
enum QueueEntry {
    Frame(QueuedFrame),
    /// Resolves when the frames before it have been handled.
    Waiter(oneshot::Sender<()>),
}

/// The queued frames of a socket, with the waiters between them.
#[derive(Debug, Default)]
pub struct FrameQueue {
    entries: VecDeque<QueueEntry>,
    bytes: usize,
}

impl FrameQueue {
    /// The memory of the frames, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn push(&mut self, frame: QueuedFrame) {
        self.bytes += frame.memory_bytes();
        self.entries.push_back(QueueEntry::Frame(frame));
    }

    /// Removes and returns the next frame. Must be called only when all earlier frames have been handled.
    pub fn pop(&mut self) -> Option<QueuedFrame> {
        loop {
            match self.entries.pop_front()? {
                QueueEntry::Frame(frame) => {
                    self.bytes -= frame.memory_bytes();
                    return Some(frame);
                }
                // The receiver may have been dropped.
                QueueEntry::Waiter(sender) => drop(sender.send(())),
            }
        }
    }

    /// Returns a receiver that resolves when the frame in progress and all queued frames have been handled.
    pub fn add_waiter(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.entries.push_back(QueueEntry::Waiter(sender));
        receiver
    }

    pub fn frames(&self) -> impl Iterator<Item = &QueuedFrame> {
        self.entries.iter().filter_map(|entry| match entry {
            QueueEntry::Frame(frame) => Some(frame),
            QueueEntry::Waiter(_) => None,
        })
    }
}
