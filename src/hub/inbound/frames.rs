//! Frames of sockets: Engine.IO and Socket.IO, compatible with the official client. The hub handles the frames of one socket in order,
//! even when a frame waits for the database. Answers to the hub are the exception: they do not wait for earlier frames.

use std::fmt::Display;

use crate::hub::core::peers::connections::{Connection, Peer};
use crate::hub::core::peers::frame_queue::{FRAME_OVERHEAD_BYTES, QueuedFrame};
use crate::hub::core::peers::handshake::{
    BINARY_UNSUPPORTED, FRAME_TOO_LARGE, MAX_UNAUTHENTICATED_FRAME_BYTES, PARSE_ERROR, close_reason, unexpected_reason,
};
use crate::hub::core::state::State;
use crate::hub::inbound::Socket;
use crate::hub::inbound::events::ReceivedEvent;
use crate::hub::turn::Turn;
use crate::hub::turn::outbox::{CLOSE_STALLED, STALLED_CLI};
use crate::limits::PING_INTERVAL_MS;
use crate::log::{Level, LogLine};
use crate::wire::cli::{self, NAMESPACE};
use crate::wire::engineio;
use crate::wire::socketio::{self, Packet};

/// How long a frame of a CLI waits for memory, in milliseconds: several times as long as storing the largest frame takes.
pub const FRAME_MEMORY_TIMEOUT_MS: u64 = 30_000;

/// The largest frame, in bytes, that is handled without free memory: keep-alives and pongs are small.
const SMALL_FRAME_BYTES: usize = 16 * 1024;
/// The most bytes of a namespace's frames that were admitted without free memory. A quarter is kept for small frames.
const MAX_UNRESERVED_FRAME_BYTES: usize = 2 * 1024 * 1024;

/// After this time, in milliseconds, the hub disconnects a CLI that has not answered a ping: at the second tick after the ping. Half an
/// interval less than 60 s, because alarms are early or late by some milliseconds, and the next tick comes only after 90 s.
const PONG_TIMEOUT_MS: u64 = 2 * PING_INTERVAL_MS - PING_INTERVAL_MS / 2;

/// A frame that may be copied into wasm memory. The caller must pass it to [`Socket::on_admitted_text`], or its socket stays busy.
#[derive(Debug)]
pub struct AdmittedFrame {
    /// Whether the frame is handled at once, and later frames of the socket are queued. Otherwise it waits for the earlier frames.
    is_first: bool,
    /// The bytes that were added to `MemoryReservations::unreserved_frame_bytes` for the frame.
    unreserved_bytes: usize,
}

impl Socket<'_> {
    /// Waits for memory for a frame of `bytes` that is not yet in wasm memory. `None` if the frame can't be handled: the socket
    /// was closed, or the hub closes it because the frame is too large or because there is no memory.
    pub async fn admit_frame(&self, bytes: usize) -> Option<AdmittedFrame> {
        let Self { hub, conn } = *self;
        let is_first = {
            let mut turn = hub.turn();
            let connection = turn.connections.get_mut(conn)?;
            if matches!(connection.peer, Peer::Connecting(_)) && bytes > MAX_UNAUTHENTICATED_FRAME_BYTES {
                turn.disconnect(conn, 1009, FRAME_TOO_LARGE);
                return None;
            }
            // Like a pong, each frame shows that the CLI is connected.
            if let Peer::Cli(cli) = &mut connection.peer
                && cli.unanswered_since.take().is_some()
            {
                hub.write_attachment(conn, &connection.peer);
            }
            !std::mem::replace(&mut connection.is_busy, true)
        };
        let memory_bytes = bytes + FRAME_OVERHEAD_BYTES;
        if is_first && bytes <= SMALL_FRAME_BYTES && self.admit_unreserved(memory_bytes, 0) {
            return Some(AdmittedFrame { is_first, unreserved_bytes: memory_bytes });
        }
        if hub.memory.budget.make_room(memory_bytes) || is_first && self.wait_for_frame_memory(memory_bytes).await {
            return Some(AdmittedFrame { is_first, unreserved_bytes: 0 });
        }
        if is_first && self.admit_unreserved(memory_bytes, MAX_UNRESERVED_FRAME_BYTES / 4) {
            return Some(AdmittedFrame { is_first, unreserved_bytes: memory_bytes });
        }
        let mut turn = hub.turn();
        let largest = turn.connections.largest_sender(conn, memory_bytes)?;
        turn.disconnect(largest, 1008, "Too many frames wait in the hub's memory: reconnect and send again");
        (largest != conn).then_some(AdmittedFrame { is_first, unreserved_bytes: 0 })
    }

    /// Waits up to [`FRAME_MEMORY_TIMEOUT_MS`] for memory. Returns whether there is enough; `false` at once if another frame waits.
    async fn wait_for_frame_memory(&self, bytes: usize) -> bool {
        let Some(_place) = self.hub.memory.budget.reserve_waiting_place() else { return false };
        self.hub.memory.reserve_until(bytes, self.hub.rt.now() + FRAME_MEMORY_TIMEOUT_MS).await.is_ok()
    }

    /// Admits a frame without a reservation, if `headroom` of [`MAX_UNRESERVED_FRAME_BYTES`] is left for others of the namespace.
    fn admit_unreserved(&self, bytes: usize, headroom: usize) -> bool {
        let unreserved_bytes = &mut self.hub.turn().memory_reservations.unreserved_frame_bytes;
        let is_admitted = *unreserved_bytes + bytes + headroom <= MAX_UNRESERVED_FRAME_BYTES;
        *unreserved_bytes += if is_admitted { bytes } else { 0 };
        is_admitted
    }

    /// Handles a text frame, after the earlier frames of the socket.
    pub async fn on_text(&self, frame: String) {
        if let Some(admitted) = self.admit_frame(frame.len()).await {
            self.on_admitted_text(admitted, frame).await;
        }
    }

    pub async fn on_admitted_text(&self, admitted: AdmittedFrame, frame: String) {
        let Self { hub, conn } = *self;
        if !admitted.is_first && self.on_answer(&frame) {
            return;
        }
        let frame = QueuedFrame { text: frame, arrived_at: hub.rt.now() };
        {
            let mut turn = hub.turn();
            let State { connections, memory_reservations, .. } = &mut *turn;
            if !admitted.is_first {
                let Some(connection) = connections.get_mut(conn) else { return };
                memory_reservations.frames.grow(frame.memory_bytes());
                let keep_alive = cli::decode_frame(&frame.text, &["session-alive", "machine-alive"]);
                let keep_alive = keep_alive.filter(|_| matches!(connection.peer, Peer::Cli(_)));
                let (owner, arrived_at) = (keep_alive.and_then(|event| event.owner()), frame.arrived_at);
                connection.queue.push(frame);
                if let Some(owner) = owner {
                    turn.restart_deadline_on_arrival(owner, conn, arrived_at);
                }
                return;
            }
            memory_reservations.frames.grow(frame.memory_bytes());
        }
        let (mut next_frame, mut unreserved_bytes) = (Some(frame), admitted.unreserved_bytes);
        while let Some(frame) = next_frame {
            self.on_frame(&frame).await;
            let mut turn = hub.turn();
            turn.memory_reservations.frames.release_part(frame.memory_bytes());
            turn.memory_reservations.unreserved_frame_bytes -= std::mem::take(&mut unreserved_bytes);
            next_frame = turn.connections.next_frame(conn);
        }
    }

    /// Closes the socket of a CLI that sent a binary frame. A binary frame of a web client is ignored.
    pub fn on_binary(&self) {
        let mut turn = self.hub.turn();
        if let Some(Connection { peer: Peer::Connecting(_) | Peer::Cli(_), .. }) = turn.connections.get(self.conn) {
            let (code, reason) = BINARY_UNSUPPORTED;
            turn.disconnect(self.conn, code, reason);
        }
    }

    /// Handles a close by the client or by the platform. Frames that a CLI sent before the close still take effect.
    pub fn on_close(&self) {
        let mut turn = self.hub.turn();
        let peer = turn.connections.client_closed(self.conn);
        turn.forget_connection(self.conn, peer);
    }

    async fn on_frame(&self, frame: &QueuedFrame) {
        let connecting = {
            let mut turn = self.hub.turn();
            let is_closed_cli = turn.connections.has_frames_of_closed_cli(self.conn);
            match turn.connections.get_mut(self.conn) {
                Some(Connection { peer: Peer::Connecting(connecting), .. }) => Some(connecting.take()),
                Some(Connection { peer: Peer::Cli(_), .. }) => None,
                Some(connection) => return self.on_web_client_text(connection),
                None if is_closed_cli => None,
                None => return,
            }
        };
        match connecting.map(|connecting| connecting.receive(&frame.text)) {
            Some(Ok(check)) => self.on_connect(check).await,
            Some(Err(outcome)) => self.finish_step(outcome),
            None => self.on_cli_frame(frame).await,
        }
    }

    /// Handles a frame of a web client: any text acknowledges a heartbeat.
    fn on_web_client_text(&self, connection: &mut Connection) {
        connection.send_window.acknowledge();
        if let Peer::Web(subscription) = &mut connection.peer
            && subscription.record_heartbeat_ack(self.hub.rt.now())
        {
            self.hub.write_attachment(self.conn, &connection.peer);
        }
    }

    /// Handles a pong, or the result of a call. An answer needs no database, so it overtakes frames. Returns false for other frames.
    fn on_answer(&self, frame: &str) -> bool {
        if self.hub.turn().connections.cli(self.conn).is_none() {
            return false;
        }
        match engineio::decode(frame) {
            Ok(engineio::Packet::Pong) => self.on_pong(),
            // `3` is the type of an acknowledgement. Other packets wait for the earlier frames, and are decoded then.
            Ok(engineio::Packet::Message(text)) if text.starts_with('3') => match socketio::decode(text) {
                Ok(Packet::Ack { namespace: NAMESPACE, id, args }) => {
                    if !self.disconnect_if_behind() {
                        self.hub.turn().rpc.complete(self.conn, id, &args);
                    }
                }
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    async fn on_cli_frame(&self, frame: &QueuedFrame) {
        match engineio::decode(&frame.text) {
            Ok(engineio::Packet::Close) => self.hub.turn().disconnect(self.conn, 1000, ""),
            Ok(engineio::Packet::Pong) => self.on_pong(),
            _ if self.disconnect_if_behind() => {}
            Ok(engineio::Packet::Message(text)) => self.on_packet(text, frame.arrived_at).await,
            Ok(engineio::Packet::Ping(data)) => self.hub.turn().send_frame(self.conn, &engineio::pong_frame(data)),
            Ok(engineio::Packet::Handshake) => {}
            Err(error) => self.close_invalid(&error, PARSE_ERROR),
        }
    }

    async fn on_packet(&self, text: &str, arrived_at: u64) {
        let Self { hub, conn } = *self;
        match socketio::decode(text) {
            Err(error) => self.close_invalid(&error, close_reason(&error)),
            Ok(Packet::Event { namespace: NAMESPACE, ack, name, args }) => {
                ReceivedEvent { socket: *self, arrived_at, name: &name, ack }.handle(&args).await;
            }
            Ok(Packet::Ack { namespace: NAMESPACE, id, args }) => hub.turn().rpc.complete(conn, id, &args),
            Ok(Packet::Disconnect { namespace: NAMESPACE }) => hub.turn().disconnect(conn, 1000, ""),
            Ok(Packet::Connect { namespace, .. }) if namespace != NAMESPACE => {
                hub.turn().send_frame(conn, &socketio::connect_error_frame(namespace, "Invalid namespace"));
            }
            Ok(packet) => {
                let (code, reason) = unexpected_reason(&packet);
                self.close_invalid(&reason, (code, reason));
            }
        }
    }

    /// Handles a pong: the CLI has read everything sent before the ping.
    fn on_pong(&self) {
        if let Some(connection) = self.hub.turn().connections.get_mut(self.conn) {
            connection.send_window.acknowledge();
        }
    }

    /// Disconnects a CLI if it has too many unread bytes. Called when the CLI sends a frame. Returns whether it was disconnected.
    fn disconnect_if_behind(&self) -> bool {
        let mut turn = self.hub.turn();
        let connection = turn.connections.get(self.conn);
        let is_behind = connection.is_some_and(|connection| connection.send_window.is_over_reply_limit());
        if is_behind {
            turn.disconnect(self.conn, CLOSE_STALLED, STALLED_CLI);
        }
        is_behind
    }

    /// Closes the socket after a packet that can't be decoded or is not expected.
    fn close_invalid(&self, error: &dyn Display, (code, reason): (u16, &str)) {
        self.hub.telemetry.log(LogLine::new(Level::Debug, "socket-closed").text("error", &error.to_string()));
        self.hub.turn().disconnect(self.conn, code, reason);
    }
}

impl Turn<'_> {
    /// Pings every CLI. Disconnects the CLIs from which no frame has come for [`PONG_TIMEOUT_MS`] after a ping.
    pub fn ping_clis(&mut self, now: u64) {
        let conns: Vec<_> = self.state.connections.clis().map(|(conn, _)| conn).collect();
        let mut to_ping = Vec::with_capacity(conns.len());
        for conn in conns {
            let Some(connection) = self.state.connections.get_mut(conn) else { continue };
            let Peer::Cli(cli) = &mut connection.peer else { continue };
            connection.send_window.record_ping();
            if cli.unanswered_since.is_some_and(|since| now >= since + PONG_TIMEOUT_MS) {
                self.disconnect(conn, 1001, "Ping timeout");
                continue;
            }
            if cli.unanswered_since.is_none() {
                cli.unanswered_since = Some(now);
                self.hub.write_attachment(conn, &connection.peer);
            }
            to_ping.push(conn);
        }
        self.hub.rt.send(&to_ping, engineio::PING_FRAME);
    }
}
