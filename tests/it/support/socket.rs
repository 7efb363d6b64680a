//! The client's end of a socket to the hub.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;

use super::Object;
use super::runtime::{Frame, SocketKey};

/// A socket that speaks text frames.
pub struct Socket {
    object: Arc<Object>,
    pub key: SocketKey,
    frames: mpsc::UnboundedReceiver<Frame>,
    heard: VecDeque<Frame>,
}

impl Socket {
    /// The client's end of a socket that the runtime opened.
    pub fn new(object: Arc<Object>, key: SocketKey, frames: mpsc::UnboundedReceiver<Frame>) -> Self {
        Self { object, key, frames, heard: VecDeque::new() }
    }

    /// Sends a frame; the hub handles it beside the caller.
    pub fn send(&self, text: impl Into<String>) {
        let Some(conn) = self.object.rt.conn(self.key) else { return };
        let (hub, text) = (self.object.hub(), text.into());
        tokio::spawn(async move { hub.on_text(conn, text).await });
    }

    /// Sends a binary frame.
    pub fn send_binary(&self) {
        if let Some(conn) = self.object.rt.conn(self.key) {
            self.object.hub().on_binary(conn);
        }
    }

    /// Closes the socket from the client's side.
    pub fn close(&self) {
        if let Some(conn) = self.object.rt.conn(self.key) {
            self.object.hub().on_close(conn);
            self.object.rt.remove_socket(conn);
        }
    }

    /// Whether neither side has closed the socket.
    pub fn is_open(&self) -> bool {
        self.object.rt.conn(self.key).is_some()
    }

    fn collect(&mut self) {
        while let Ok(frame) = self.frames.try_recv() {
            self.heard.push_back(frame);
        }
    }

    /// The first frame, heard already or yet to come, of which `read` makes something. The others stay.
    pub async fn wait_for<T>(&mut self, what: &str, mut read: impl FnMut(&Frame) -> Option<T>) -> T {
        let mut checked = 0;
        loop {
            self.collect();
            for position in checked..self.heard.len() {
                if let Some(found) = read(&self.heard[position]) {
                    self.heard.remove(position);
                    return found;
                }
            }
            checked = self.heard.len();
            // The clock of the test's executor stands; it only goes on when nobody has anything left to do.
            match tokio::time::timeout(Duration::from_secs(1), self.frames.next()).await {
                Ok(Some(frame)) => self.heard.push_back(frame),
                _ => panic!("waited in vain for {what}; heard only {:#?}", self.heard),
            }
        }
    }

    /// The first frame heard, once nobody has anything left to do, of which `read` makes something. The others stay.
    pub async fn try_find<T>(&mut self, read: impl FnMut(&Frame) -> Option<T>) -> Option<T> {
        super::run_until_idle().await;
        self.collect();
        let (at, found) = self.heard.iter().map(read).enumerate().find_map(|(at, found)| Some((at, found?)))?;
        self.heard.remove(at);
        Some(found)
    }

    /// Shows every text heard and not yet read, once nobody has anything left to do. All stay.
    pub async fn peek(&mut self, mut show: impl FnMut(&str)) {
        super::run_until_idle().await;
        self.collect();
        for frame in &self.heard {
            if let Frame::Text(text) = frame {
                show(text);
            }
        }
    }

    /// The next frame.
    pub async fn next(&mut self) -> Frame {
        self.wait_for("a frame", |frame| Some(frame.clone())).await
    }

    /// The next frame, which must be a text.
    pub async fn next_text(&mut self) -> String {
        match self.next().await {
            Frame::Text(text) => text,
            closed => panic!("expected a text, but heard {closed:?}"),
        }
    }

    /// The code with which the hub closes the socket.
    pub async fn wait_for_close(&mut self) -> u16 {
        self.wait_for("the socket to be closed", |frame| match frame {
            Frame::Closed { code, .. } => Some(*code),
            Frame::Text(_) => None,
        })
        .await
    }

    /// All that was heard and not yet read, once nobody has anything left to do.
    pub async fn drain(&mut self) -> Vec<Frame> {
        super::run_until_idle().await;
        self.collect();
        self.heard.drain(..).collect()
    }

    /// Fails when anything was heard that is not yet read.
    pub async fn assert_no_frames(&mut self) {
        let rest = self.drain().await;
        assert!(rest.is_empty(), "expected silence, but heard {rest:#?}");
    }
}
