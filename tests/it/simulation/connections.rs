//! The connections between clients and the hub, with the frames in flight in both directions.

use std::collections::VecDeque;

use futures::channel::mpsc;

use super::world::World;
use crate::support::runtime::{Frame, SocketKey};

pub type ConnectionId = u64;

/// The client of a connection, by its index in [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Cli(usize),
    Web(usize),
    /// The client has disconnected.
    Gone,
}

/// A frame or close that a client has sent.
#[derive(Debug)]
pub enum ClientFrame {
    Text(String),
    Close,
}

pub struct Connection {
    pub namespace_index: usize,
    pub key: SocketKey,
    pub peer: Peer,
    /// Whether the client does not read its frames.
    pub is_paused: bool,
    receiver: mpsc::UnboundedReceiver<Frame>,
    /// Frames in flight from the hub to the client.
    pub to_client: VecDeque<Frame>,
    /// Frames in flight from the client to the hub.
    pub to_hub: VecDeque<ClientFrame>,
}

impl Connection {
    /// Queues the frames that the hub has sent since the last call. Drops them if the client has disconnected.
    pub fn queue_sent_frames(&mut self) {
        while let Ok(frame) = self.receiver.try_recv() {
            self.to_client.push_back(frame);
        }
        if self.peer == Peer::Gone {
            self.to_client.clear();
        }
    }
}

impl World {
    pub fn add_connection(
        &mut self,
        namespace_index: usize,
        peer: Peer,
        key: SocketKey,
        receiver: mpsc::UnboundedReceiver<Frame>,
    ) -> ConnectionId {
        let id = self.next_number();
        let connection = Connection {
            namespace_index,
            key,
            peer,
            is_paused: false,
            receiver,
            to_client: VecDeque::new(),
            to_hub: VecDeque::new(),
        };
        self.connections.insert(id, connection);
        id
    }

    /// Queues a frame for delivery to the hub.
    pub fn send(&mut self, connection: ConnectionId, text: String) {
        self.log_detail(|| format!("{connection}> {text}"));
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.to_hub.push_back(ClientFrame::Text(text));
        }
    }

    /// The client disconnects. Some of its in-flight frames, and possibly its close, are lost.
    pub fn disconnect(&mut self, id: ConnectionId) {
        let close_is_delivered = self.rng.chance(85);
        let delivered_frames = self.rng.below(4);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.peer = Peer::Gone;
        connection.to_hub.truncate(delivered_frames);
        if close_is_delivered {
            connection.to_hub.push_back(ClientFrame::Close);
        }
    }

    /// Handles a close that the client has received. The client answers after its earlier frames, or never.
    fn answer_close(&mut self, id: ConnectionId) {
        let is_answered = self.rng.chance(60);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.peer = Peer::Gone;
        connection.to_hub.extend(is_answered.then_some(ClientFrame::Close));
    }

    /// Delivers the next frame of the client to the hub.
    pub fn deliver_to_hub(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (namespace_index, key) = (connection.namespace_index, connection.key);
        match connection.to_hub.pop_front() {
            Some(ClientFrame::Text(text)) => {
                self.observe_arrival(namespace_index, id, &text);
                self.objects[namespace_index].on_text(key, text);
            }
            Some(ClientFrame::Close) => self.objects[namespace_index].on_close(key),
            None => {}
        }
    }

    /// Delivers the next frame of the hub to the client.
    pub fn deliver_to_client(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(frame) = connection.to_client.pop_front() else { return };
        let (namespace_index, peer) = (connection.namespace_index, connection.peer);
        self.log_detail(|| match &frame {
            Frame::Text(text) => format!("{id}< {text}"),
            Frame::Closed { code, .. } => format!("{id}< closed {code}"),
        });
        if let Frame::Text(text) = &frame {
            self.check_isolation(namespace_index, text);
        }
        match frame {
            Frame::Closed { code: 1006, .. } => drop(self.connections.remove(&id)),
            Frame::Closed { .. } => self.answer_close(id),
            Frame::Text(_) => {}
        }
        match peer {
            Peer::Cli(cli) => self.cli_on_frame(cli, frame),
            Peer::Web(web) => self.web_on_frame(web, frame),
            Peer::Gone => {}
        }
    }
}
