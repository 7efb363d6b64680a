//! The sockets of connected CLIs: Engine.IO and Socket.IO as the official client speaks them, until the close.
//! Frames of one socket take effect in the order they came, also when one of them has to wait for a session to load.

use std::sync::Arc;

use super::connections::Peer;
use super::error::{Error, Kind};
use super::ports::ConnId;
use super::rpc::Owner;
use super::{Hub, State, note_key};
use crate::wire::cli::{ErrorEvent, UpdateBody, update};
use crate::wire::engineio;
use crate::wire::socketio::{self, AckId, Packet};

/// The Socket.IO namespace of CLIs.
pub const NAMESPACE: &str = "/cli";
/// The largest frame a CLI may send, in bytes: the runtime closes a WebSocket on a larger one.
pub const MAX_FRAME_BYTES: u64 = 32 * 1024 * 1024;
/// How many bytes of one socket's frames may wait while an earlier one is being handled.
const MAX_WAITING: usize = 48 * 1024 * 1024;

/// An `update` event as a frame.
pub(super) fn update_frame(id: &str, seq: u64, now: u64, body: &UpdateBody<'_>) -> String {
    socketio::event(NAMESPACE, None, "update", &[&update(id, seq, now, body)])
}

impl Hub {
    /// Makes a socket a peer, in memory and in its attachment.
    pub(super) fn put_peer(&self, state: &mut State, conn: ConnId, peer: Peer) {
        self.rt.attach(conn, &serde_json::to_string(&peer).unwrap_or_default());
        state.connections.put(conn, peer);
    }

    /// A text frame came in.
    pub async fn on_text(self: &Arc<Self>, conn: ConnId, text: String) {
        {
            let mut state = self.state();
            let Some(connection) = state.connections.get_mut(conn) else { return };
            if connection.busy {
                connection.waiting += text.len();
                connection.inbox.push_back(text);
                let flooded = connection.waiting > MAX_WAITING;
                drop(state);
                if flooded {
                    self.rt.close(conn, 1008, "Too many frames at once");
                    self.on_close(conn);
                }
                return;
            }
            connection.busy = true;
        }
        let mut next = Some(text);
        while let Some(text) = next {
            self.handle(conn, &text).await;
            let mut state = self.state();
            next = state.connections.get_mut(conn).and_then(|connection| {
                let next = connection.inbox.pop_front();
                connection.waiting -= next.as_ref().map_or(0, String::len);
                connection.busy = next.is_some();
                next
            });
        }
    }

    /// A binary frame came in. Nobody here speaks binary: it is an attachment of a packet that was refused already.
    pub fn on_binary(&self, conn: ConnId) {
        if self.state().connections.cli(conn).is_some() {
            self.send_error(conn, "Binary frames are not supported: send JSON.", "binary-unsupported", None);
        }
    }

    /// A socket is gone.
    pub fn on_close(&self, conn: ConnId) {
        let mut state = self.state();
        state.rpc.disconnect(conn);
        if let Some(Peer::Cli(cli)) = state.connections.remove(conn) {
            // The clock of what it spoke for starts anew, unless it said goodbye before.
            let now = self.rt.now();
            for owner in [cli.session.map(Owner::Session), cli.machine.map(Owner::Machine)].into_iter().flatten() {
                if state.liveness.depart(&owner, now) {
                    self.rt.note(&note_key(&owner), &now.to_string());
                }
            }
            let next = state.liveness.next_deadline();
            self.want_alarm(&mut state, next);
        }
    }

    async fn handle(self: &Arc<Self>, conn: ConnId, frame: &str) {
        if !self.seen(conn) {
            return;
        }
        match engineio::decode(frame) {
            Ok(engineio::Packet::Message(text)) => self.handle_packet(conn, text).await,
            Ok(engineio::Packet::Ping(data)) => self.rt.send(&[conn], &engineio::Packet::Pong(data).encode()),
            Ok(engineio::Packet::Close) => self.hang_up(conn),
            // Pongs, and packets without meaning here.
            Ok(_) => {}
            Err(error) => self.send_error(conn, &format!("{error}."), "bad-packet", None),
        }
    }

    async fn handle_packet(self: &Arc<Self>, conn: ConnId, text: &str) {
        let opening = match self.state().connections.get(conn).map(|c| c.peer.clone()) {
            Some(Peer::Opening(opening)) => Some(opening),
            Some(Peer::Cli(_) | Peer::Web(_)) => None,
            None => return,
        };
        let packet = match socketio::decode(text) {
            Ok(packet) => packet,
            Err(error) if opening.is_some() => {
                let namespace = error.namespace().unwrap_or(NAMESPACE);
                return self.rt.send(&[conn], &socketio::connect_error(namespace, &format!("{error}.")));
            }
            Err(error) => return self.refuse_packet(conn, &error),
        };
        match (packet, opening) {
            (Packet::Connect { namespace, auth }, Some(opening)) => self.connect(conn, &opening, namespace, auth).await,
            (Packet::Disconnect { .. }, Some(_)) => self.hang_up(conn),
            (packet, Some(_)) => {
                let refusal = "Not connected: send a CONNECT packet first";
                self.rt.send(&[conn], &socketio::connect_error(packet.namespace(), refusal));
            }
            (Packet::Connect { namespace, .. }, None) if namespace != NAMESPACE => {
                self.rt.send(&[conn], &socketio::connect_error(namespace, "Invalid namespace"));
            }
            // What is said in a namespace that was not joined is said to nobody.
            (packet, None) if packet.namespace() != NAMESPACE => {}
            (Packet::Event { ack, name, args, .. }, None) => self.on_event(conn, ack, &name, &args).await,
            (Packet::Ack { id, args, .. }, None) => self.state().rpc.resolve(conn, id, &args),
            (Packet::Disconnect { .. }, None) => self.hang_up(conn),
            (Packet::Connect { .. } | Packet::ConnectError { .. }, None) => {}
        }
    }

    fn hang_up(&self, conn: ConnId) {
        self.rt.close(conn, 1000, "");
        self.on_close(conn);
    }

    /// A packet that can't be read: its sender hears why, as the acknowledgement where it asked for one.
    fn refuse_packet(&self, conn: ConnId, error: &socketio::DecodeError) {
        let message = format!("{error}.");
        if let Some(id) = error.answered_id() {
            self.state().rpc.unreadable(conn, id);
        }
        match error.ack_id() {
            Some(ack) => self.send_ack(conn, ack, &crate::wire::cli::message_refused(&message, "bad-packet")),
            None => self.send_error(conn, &message, "bad-packet", None),
        }
    }

    /// Tells a CLI that an id is not its to use.
    pub(super) fn send_refusal(&self, conn: ConnId, kind: Kind, id: &str, error: &Error) {
        self.send_error(conn, &error.to_string(), event_code(error), Some((kind.word(), id)));
    }

    pub(super) fn send_error(&self, conn: ConnId, message: &str, code: &str, about: Option<(&str, &str)>) {
        let (scope, id) = about.unzip();
        let event = ErrorEvent { message: message.into(), code, scope, id }.encode();
        self.rt.send(&[conn], &socketio::event(NAMESPACE, None, "error", &[&event]));
    }

    pub(super) fn send_ack(&self, conn: ConnId, ack: AckId, answer: &str) {
        self.rt.send(&[conn], &socketio::ack(NAMESPACE, ack, &[answer]));
    }
}

/// The code of an `error` event.
pub(super) fn event_code(error: &Error) -> &'static str {
    match error {
        Error::Foreign(_) => "access-denied",
        Error::Missing(_) => "not-found",
        Error::TooLarge { .. } => "too-large",
        Error::Overloaded => "overloaded",
        Error::Unavailable(_) | Error::NotStored => "unavailable",
        _ => "bad-payload",
    }
}
