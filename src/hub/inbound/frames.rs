//! The sockets of connected CLIs: Engine.IO and Socket.IO as the official client speaks them, until the close.
//! Frames of one socket take effect in the order they came, also when one of them has to wait for a session to load.

use std::sync::Arc;

use crate::hub::error::{Error, Kind};
use crate::hub::inbound::admission::{FRAME_TOO_LARGE, binary_refusal};
use crate::hub::limits::{FRAME_OVERHEAD_BYTES, MAX_INBOUND_BYTES, MAX_UNAUTHENTICATED_FRAME_BYTES};
use crate::hub::peers::connections::{Connection, Peer};
use crate::hub::ports::ConnId;
use crate::hub::{Hub, State};
use crate::wire::cli::{ErrorEvent, NAMESPACE, message_rejected};
use crate::wire::engineio;
use crate::wire::socketio::{self, AckId, DecodeError, Packet};

/// What a frame takes, in bytes.
fn cost(text: &str) -> usize {
    text.len() + FRAME_OVERHEAD_BYTES
}

impl State {
    /// The socket that has to go so that a frame of so many bytes has room; `None` when it has.
    fn flooder(&self, conn: ConnId, size: usize) -> Option<ConnId> {
        if self.frame_bytes + size <= MAX_INBOUND_BYTES {
            return None;
        }
        let waiting = |socket: ConnId, waiting: usize| waiting + if socket == conn { size } else { 0 };
        let sockets = self.connections.iter().map(|(socket, c)| (waiting(socket, c.queued_bytes), socket));
        sockets.max().map(|(_, flooder)| flooder)
    }
}

impl Hub {
    /// Whether a socket may send a frame of so many bytes (or characters); if not, it is closed. To be asked before a large
    /// frame is brought into memory. Where there is no room for it, the socket goes of which most frames wait, with this one.
    pub fn admits_frame(&self, conn: ConnId, size: usize) -> bool {
        let (connecting, flooder) = {
            let state = self.state();
            let Some(connection) = state.connections.get(conn) else { return false };
            (matches!(connection.peer, Peer::Connecting(_)), state.flooder(conn, size))
        };
        if connecting && size > MAX_UNAUTHENTICATED_FRAME_BYTES {
            self.disconnect(&mut self.state(), conn, 1009, FRAME_TOO_LARGE);
            return false;
        }
        if let Some(flooder) = flooder {
            self.disconnect(&mut self.state(), flooder, 1008, "Too many frames at once");
        }
        flooder != Some(conn)
    }

    /// A text frame came in.
    pub async fn on_text(self: &Arc<Self>, conn: ConnId, text: String) {
        if !self.admits_frame(conn, text.len()) {
            return;
        }
        self.seen(conn);
        {
            let mut state = self.state();
            let State { connections, frame_bytes, .. } = &mut *state;
            let Some(connection) = connections.get_mut(conn) else { return };
            *frame_bytes += cost(&text);
            if connection.busy {
                connection.queued_bytes += cost(&text);
                connection.queued_frames.push_back(text);
                return;
            }
            connection.busy = true;
        }
        let mut next = Some(text);
        while let Some(text) = next {
            self.handle(conn, &text).await;
            let mut state = self.state();
            state.frame_bytes -= cost(&text);
            next = state.connections.get_mut(conn).and_then(|connection| {
                let next = connection.queued_frames.pop_front();
                connection.queued_bytes -= next.as_deref().map_or(0, cost);
                connection.busy = next.is_some();
                next
            });
        }
    }

    /// A binary frame came in. Nobody here speaks binary: it is an attachment of a packet that was refused already.
    pub fn on_binary(&self, conn: ConnId) {
        self.seen(conn);
        let connecting = match self.state().connections.get(conn) {
            // What belongs to a packet that waits behind CONNECT is refused with it.
            Some(Connection { peer: Peer::Connecting(connecting), busy: false, .. }) => Some(connecting.clone()),
            Some(Connection { peer: Peer::Cli(_), .. }) => None,
            _ => return,
        };
        match connecting {
            Some(connecting) => self.refuse_connect(conn, connecting, &binary_refusal()),
            None if self.is_behind(conn) => {}
            None => {
                self.send_error(conn, "Binary frames are not supported: send JSON.", "binary-unsupported", None);
            }
        }
    }

    async fn handle(self: &Arc<Self>, conn: ConnId, frame: &str) {
        let connecting = match self.state().connections.get_mut(conn) {
            Some(Connection { peer: Peer::Connecting(connecting), .. }) => Some(connecting.clone()),
            Some(Connection { peer: Peer::Cli(_), .. }) => None,
            Some(connection) => return self.web_client_answered(conn, connection),
            None => return,
        };
        match connecting {
            Some(connecting) => self.on_first(conn, connecting, frame).await,
            None => self.on_frame(conn, frame).await,
        }
    }

    async fn on_frame(self: &Arc<Self>, conn: ConnId, frame: &str) {
        match engineio::decode(frame) {
            Ok(engineio::Packet::Close) => self.disconnect(&mut self.state(), conn, 1000, ""),
            Ok(engineio::Packet::Pong(_)) => self.ponged(conn),
            _ if self.is_behind(conn) => {}
            Ok(engineio::Packet::Message(text)) => self.on_packet(conn, text).await,
            Ok(engineio::Packet::Ping(data)) => self.answer_frame(conn, &engineio::Packet::Pong(data).encode()),
            // Packets without meaning here.
            Ok(_) => {}
            Err(error) => self.send_error(conn, &format!("{error}."), "bad-packet", None),
        }
    }

    async fn on_packet(self: &Arc<Self>, conn: ConnId, text: &str) {
        match socketio::decode(text) {
            Err(error) => self.refuse_packet(conn, &error),
            Ok(Packet::Connect { namespace, .. }) if namespace != NAMESPACE => {
                self.answer_frame(conn, &socketio::connect_error_frame(namespace, "Invalid namespace"));
            }
            // What is said in a namespace that was not joined is said to nobody.
            Ok(packet) if packet.namespace() != NAMESPACE => {}
            Ok(Packet::Event { ack, name, args, .. }) => self.on_event(conn, ack, &name, &args).await,
            Ok(Packet::Ack { id, args, .. }) => self.state().rpc.complete(conn, id, &args),
            Ok(Packet::Disconnect { .. }) => self.disconnect(&mut self.state(), conn, 1000, ""),
            Ok(Packet::Connect { .. } | Packet::ConnectError { .. }) => {}
        }
    }

    /// A packet that can't be read: its sender hears why, as the acknowledgement where it asked for one.
    fn refuse_packet(&self, conn: ConnId, error: &socketio::DecodeError) {
        let message = format!("{error}.");
        let code = match error {
            DecodeError::BinaryUnsupported { .. } => "binary-unsupported",
            _ => "bad-packet",
        };
        if let Some(id) = error.acknowledged_id() {
            self.state().rpc.fail_undecodable(conn, id);
        }
        match error.ack_id() {
            Some(ack) => self.send_ack(conn, ack, &message_rejected(&message, code)),
            None => self.send_error(conn, &message, code, None),
        }
    }

    /// Tells a CLI that an id is not its to use.
    pub(in crate::hub) fn send_refusal(&self, conn: ConnId, kind: Kind, id: &str, error: &Error) {
        self.send_error(conn, &error.to_string(), event_code(error), Some((kind.word(), id)));
    }

    pub(in crate::hub) fn send_error(&self, conn: ConnId, message: &str, code: &str, about: Option<(&str, &str)>) {
        let event = ErrorEvent::new(message, code, about).encode();
        self.answer_frame(conn, &socketio::event_frame(NAMESPACE, None, "error", &[&event]));
    }

    pub(in crate::hub) fn send_ack(&self, conn: ConnId, ack: AckId, answer: &str) {
        self.answer_frame(conn, &socketio::ack_frame(NAMESPACE, ack, &[answer]));
    }

    fn answer_frame(&self, conn: ConnId, frame: &str) {
        self.send_answer(&mut self.state(), conn, frame);
    }
}

/// The code of an `error` event.
pub(in crate::hub) fn event_code(error: &Error) -> &'static str {
    match error {
        Error::Foreign(_) => "access-denied",
        Error::Missing(_) => "not-found",
        Error::TooLarge { .. } => "too-large",
        Error::Overloaded => "overloaded",
        Error::Unavailable(_) | Error::NotStored => "unavailable",
        _ => "bad-payload",
    }
}
