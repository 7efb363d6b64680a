//! Frames of sockets: Engine.IO and Socket.IO as the official client speaks them. The frames of one socket take effect in
//! order, even when one waits for the database.

use std::sync::Arc;

use crate::hub::inbound::admission::{FRAME_TOO_LARGE, binary_refusal};
use crate::hub::inbound::replies::{Rejection, Sender, error_event};
use crate::hub::peers::connections::{Connection, Peer};
use crate::hub::ports::ConnId;
use crate::hub::state::effect::Effect;
use crate::hub::{Hub, State};
use crate::limits::{FRAME_OVERHEAD_BYTES, MAX_INBOUND_BYTES, MAX_UNAUTHENTICATED_FRAME_BYTES};
use crate::wire::cli::NAMESPACE;
use crate::wire::engineio;
use crate::wire::socketio::{self, DecodeError, Packet};

fn memory_bytes(frame: &str) -> usize {
    frame.len() + FRAME_OVERHEAD_BYTES
}

impl State {
    /// Returns the socket to disconnect so that a frame of `bytes` fits into memory: the one with the most queued bytes,
    /// this frame included. `None` when the frame fits.
    fn largest_sender(&self, conn: ConnId, bytes: usize) -> Option<ConnId> {
        if self.frame_bytes + bytes <= MAX_INBOUND_BYTES {
            return None;
        }
        let queued = |socket: ConnId, queued: usize| queued + if socket == conn { bytes } else { 0 };
        let sockets = self.connections.iter().map(|(socket, c)| (queued(socket, c.queued_bytes), socket));
        sockets.max().map(|(_, socket)| socket)
    }
}

impl Hub {
    /// Whether a frame of `bytes` may be read into memory. If not, its socket is disconnected, or another one that has more
    /// queued.
    pub fn admits_frame(&self, conn: ConnId, bytes: usize) -> bool {
        let mut state = self.state();
        let Some(connection) = state.connections.get(conn) else { return false };
        if matches!(connection.peer, Peer::Connecting(_)) && bytes > MAX_UNAUTHENTICATED_FRAME_BYTES {
            self.disconnect(&mut state, conn, 1009, FRAME_TOO_LARGE);
            return false;
        }
        let largest = state.largest_sender(conn, bytes);
        if let Some(largest) = largest {
            self.disconnect(&mut state, largest, 1008, "Too many frames at once");
        }
        largest != Some(conn)
    }

    /// Handles a text frame, after the earlier frames of its socket.
    pub async fn on_text(self: &Arc<Self>, conn: ConnId, frame: String) {
        if !self.admits_frame(conn, frame.len()) {
            return;
        }
        self.record_frame(conn);
        {
            let mut state = self.state();
            let State { connections, frame_bytes, .. } = &mut *state;
            let Some(connection) = connections.get_mut(conn) else { return };
            *frame_bytes += memory_bytes(&frame);
            if connection.busy {
                connection.queued_bytes += memory_bytes(&frame);
                connection.queued_frames.push_back(frame);
                return;
            }
            connection.busy = true;
        }
        let mut next = Some(frame);
        while let Some(frame) = next {
            self.on_frame(conn, &frame).await;
            let mut state = self.state();
            state.frame_bytes -= memory_bytes(&frame);
            next = state.connections.get_mut(conn).and_then(|connection| {
                let next = connection.queued_frames.pop_front();
                connection.queued_bytes -= next.as_deref().map_or(0, memory_bytes);
                connection.busy = next.is_some();
                next
            });
        }
    }

    /// Rejects a binary frame: the attachment of a packet that was rejected before.
    pub fn on_binary(&self, conn: ConnId) {
        self.record_frame(conn);
        let connecting = match self.state().connections.get(conn) {
            Some(Connection { peer: Peer::Connecting(connecting), busy: false, .. }) => Some(connecting.clone()),
            Some(Connection { peer: Peer::Cli(_), .. }) => None,
            // While CONNECT is being handled, its result decides.
            _ => return,
        };
        match connecting {
            Some(connecting) => self.refuse_connect(conn, connecting, &binary_refusal()),
            None if self.disconnect_if_behind(conn) => {}
            None => {
                let message = "Binary frames are not supported: send JSON.";
                self.run_effects_without_commit(vec![error_event(conn, message, "binary-unsupported", None)]);
            }
        }
    }

    async fn on_frame(self: &Arc<Self>, conn: ConnId, frame: &str) {
        let connecting = match self.state().connections.get_mut(conn) {
            Some(Connection { peer: Peer::Connecting(connecting), .. }) => Some(connecting.clone()),
            Some(Connection { peer: Peer::Cli(_), .. }) => None,
            Some(connection) => return self.web_client_answered(conn, connection),
            None => return,
        };
        match connecting {
            Some(connecting) => self.on_connecting_frame(conn, connecting, frame).await,
            None => {
                let effects = self.on_cli_frame(conn, frame).await;
                if !effects.is_empty() {
                    self.run_effects_without_commit(effects);
                }
            }
        }
    }

    async fn on_cli_frame(self: &Arc<Self>, conn: ConnId, frame: &str) -> Vec<Effect> {
        match engineio::decode(frame) {
            Ok(engineio::Packet::Close) => vec![Effect::Disconnect { conn }],
            Ok(engineio::Packet::Pong(_)) => {
                self.on_pong(conn);
                Vec::new()
            }
            _ if self.disconnect_if_behind(conn) => Vec::new(),
            Ok(engineio::Packet::Message(text)) => self.on_packet(conn, text).await,
            Ok(engineio::Packet::Ping(data)) => {
                vec![Effect::Send { conn, frame: engineio::Packet::Pong(data).encode() }]
            }
            // Other Engine.IO packets are for the handshake.
            Ok(_) => Vec::new(),
            Err(error) => vec![error_event(conn, &format!("{error}."), "bad-packet", None)],
        }
    }

    async fn on_packet(self: &Arc<Self>, conn: ConnId, text: &str) -> Vec<Effect> {
        match socketio::decode(text) {
            Err(error) => self.reject_packet(conn, &error),
            Ok(Packet::Connect { namespace, .. }) if namespace != NAMESPACE => {
                vec![Effect::Send { conn, frame: socketio::connect_error_frame(namespace, "Invalid namespace") }]
            }
            // A packet for another Socket.IO namespace, which was never joined.
            Ok(packet) if packet.namespace() != NAMESPACE => Vec::new(),
            Ok(Packet::Event { ack, name, args, .. }) => self.on_event(conn, ack, &name, &args).await,
            Ok(Packet::Ack { id, args, .. }) => {
                self.state().rpc.complete(conn, id, &args);
                Vec::new()
            }
            Ok(Packet::Disconnect { .. }) => vec![Effect::Disconnect { conn }],
            Ok(Packet::Connect { .. } | Packet::ConnectError { .. }) => Vec::new(),
        }
    }

    /// Rejects a packet that can't be decoded. A call that it would have answered fails.
    fn reject_packet(&self, conn: ConnId, error: &DecodeError) -> Vec<Effect> {
        let code = match error {
            DecodeError::BinaryUnsupported { .. } => "binary-unsupported",
            _ => "bad-packet",
        };
        if let Some(id) = error.acknowledged_id() {
            self.state().rpc.fail_undecodable(conn, id);
        }
        let from = Sender { conn, ack: error.ack_id(), is_update: false };
        from.reject(&Rejection { code, message: format!("{error}."), subject: None })
    }
}
