//! The client side of a socket to the hub.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;

use super::Object;
use super::prelude::*;
use super::runtime::SocketKey;

pub struct Socket {
    object: Arc<Object>,
    pub key: SocketKey,
    frames: mpsc::UnboundedReceiver<Frame>,
    unread: VecDeque<Frame>,
}

impl Socket {
    pub fn new(object: Arc<Object>, key: SocketKey, frames: mpsc::UnboundedReceiver<Frame>) -> Self {
        Self { object, key, frames, unread: VecDeque::new() }
    }

    /// Sends a text frame. The hub handles it in another task.
    pub fn send(&self, text: impl Into<String>) {
        let Some(conn) = self.object.rt.conn(self.key) else { return };
        let (hub, text) = (self.object.hub(), text.into());
        tokio::spawn(async move { hub.socket(conn).on_text(text).await });
    }

    pub fn send_binary(&self) {
        if let Some(conn) = self.object.rt.conn(self.key) {
            self.object.hub().socket(conn).on_binary();
        }
    }

    /// Closes the socket from the side of the client.
    pub fn close(&self) {
        if let Some(conn) = self.object.rt.conn(self.key) {
            self.object.hub().socket(conn).on_close();
            self.object.rt.remove_socket(conn);
        }
    }

    pub fn is_open(&self) -> bool {
        self.object.rt.is_open(self.key)
    }

    /// Makes the client never answer a close of the hub.
    pub fn never_answer_close(&self) {
        self.object.rt.never_answer_close(self.key);
    }

    /// Moves the received frames to `unread`.
    fn collect(&mut self) {
        while let Ok(frame) = self.frames.try_recv() {
            self.unread.push_back(frame);
        }
    }

    /// Waits for the first frame that `parse` accepts. Other frames remain unread.
    pub async fn wait_for<T>(&mut self, description: &str, mut parse: impl FnMut(&Frame) -> Option<T>) -> T {
        let mut checked = 0;
        loop {
            self.collect();
            for position in checked..self.unread.len() {
                if let Some(found) = parse(&self.unread[position]) {
                    self.unread.remove(position);
                    return found;
                }
            }
            checked = self.unread.len();
            // The paused clock of tokio advances only when all tasks are waiting.
            match tokio::time::timeout(Duration::from_secs(1), self.frames.next()).await {
                Ok(Some(frame)) => self.unread.push_back(frame),
                _ => panic!("{description} was not received; unread frames: {:#?}", self.unread),
            }
        }
    }

    /// Runs all tasks until they wait. Returns the first unread frame that `parse` accepts. Other frames remain unread.
    pub async fn try_find<T>(&mut self, parse: impl FnMut(&Frame) -> Option<T>) -> Option<T> {
        super::run_until_idle().await;
        self.collect();
        let (index, found) =
            self.unread.iter().map(parse).enumerate().find_map(|(index, found)| Some((index, found?)))?;
        self.unread.remove(index);
        Some(found)
    }

    /// Runs all tasks until they wait. Then calls `visit` with each unread text frame. The frames remain unread.
    pub async fn peek(&mut self, mut visit: impl FnMut(&str)) {
        super::run_until_idle().await;
        self.collect();
        for frame in &self.unread {
            if let Frame::Text(text) = frame {
                visit(text);
            }
        }
    }

    pub async fn next(&mut self) -> Frame {
        self.wait_for("a frame", |frame| Some(frame.clone())).await
    }

    /// The next frame, which must be text.
    pub async fn next_text(&mut self) -> String {
        match self.next().await {
            Frame::Text(text) => text,
            closed => panic!("expected a text frame, but received {closed:?}"),
        }
    }

    /// Waits until the hub closes the socket. Returns the close code.
    pub async fn wait_for_close(&mut self) -> u16 {
        self.wait_for("the socket to be closed", |frame| match frame {
            Frame::Closed { code, .. } => Some(*code),
            Frame::Text(_) => None,
        })
        .await
    }

    /// Runs all tasks until they wait. Returns all unread frames.
    pub async fn drain(&mut self) -> Vec<Frame> {
        super::run_until_idle().await;
        self.collect();
        self.unread.drain(..).collect()
    }

    /// Fails if there are unread frames.
    pub async fn assert_no_frames(&mut self) {
        let frames = self.drain().await;
        assert!(frames.is_empty(), "expected no frames, but received {frames:#?}");
    }
}
