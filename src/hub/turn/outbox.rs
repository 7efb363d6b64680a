//! Sending frames, and closing sockets. A client that does not read is disconnected, because the runtime keeps unread frames in
//! memory without limit.

use crate::hub::core::peers::connections::{Connection, Peer};
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::wire::engineio;

/// The close reason of a CLI, and the close code of a client, with too many unread bytes.
pub const STALLED_CLI: &str = "Too much is unread: reconnect";
pub const CLOSE_STALLED: u16 = 4408;

impl Turn<'_> {
    /// Sends a reply or a call to a CLI. Does not check the CLI's unread bytes, because even a fast CLI can have many replies
    /// queued: they are checked when the CLI's next frame arrives.
    pub fn send_frame(&mut self, conn: ConnId, frame: &str) {
        if let Some(connection) = self.state.connections.get_mut(conn) {
            connection.send_window.record_reply(frame.len());
        }
        self.hub.rt.send(&[conn], frame);
        self.ping_if_needed(conn);
    }

    /// Pings a CLI if many bytes were sent to it since the last ping. The pong shows that the CLI has read these bytes.
    fn ping_if_needed(&mut self, conn: ConnId) {
        if self.state.connections.get(conn).is_some_and(|connection| connection.send_window.needs_ping()) {
            self.ping_after_frame(conn);
        }
    }

    /// Pings a CLI. The pong shows that the CLI has read all earlier frames. Returns the number of the ping; 0 for a closed socket.
    pub fn ping_after_frame(&mut self, conn: ConnId) -> u64 {
        let Some(connection) = self.state.connections.get_mut(conn) else { return 0 };
        self.hub.rt.send(&[conn], engineio::PING_FRAME);
        connection.send_window.record_ping()
    }

    /// Disconnects CLIs that may have an outdated state after a failed write. A CLI reads the current state when it reconnects.
    pub fn disconnect_to_resync(&mut self, conns: impl IntoIterator<Item = ConnId>) {
        for conn in conns {
            self.disconnect(conn, 1013, "The hub can't reach its database. Reconnect.");
        }
    }

    pub fn disconnect_where(&mut self, (code, reason): (u16, &str), matches: impl Fn(&Connection) -> bool) {
        let matching = self.state.connections.iter().filter(|(_, connection)| matches(connection));
        let matching: Vec<ConnId> = matching.map(|(conn, _)| conn).collect();
        matching.into_iter().for_each(|conn| self.disconnect(conn, code, reason));
    }

    /// Sends an update to CLIs. Disconnects the CLIs with too many unread bytes.
    pub fn send_update(&mut self, to: &[ConnId], frame: &str) {
        for conn in self.send_unless_stalled(to, frame, STALLED_CLI) {
            self.ping_if_needed(conn);
        }
    }

    /// Sends a frame to the clients without too many unread bytes, and returns their sockets. Disconnects the other clients.
    pub fn send_unless_stalled(&mut self, to: &[ConnId], frame: &str, close_reason: &str) -> Vec<ConnId> {
        let (ready, stalled): (Vec<ConnId>, Vec<ConnId>) =
            to.iter().partition(|conn| self.state.connections.record_event(**conn, frame.len()));
        self.hub.rt.send(&ready, frame);
        for conn in stalled {
            self.disconnect(conn, CLOSE_STALLED, close_reason);
        }
        ready
    }

    /// Closes a socket and removes it from the state.
    pub fn disconnect(&mut self, conn: ConnId, code: u16, reason: &str) {
        self.hub.rt.close(conn, code, reason);
        let (peer, dropped_bytes) = self.state.connections.remove(conn);
        self.state.memory_reservations.frames.release_part(dropped_bytes);
        self.forget_connection(conn, peer);
    }

    pub fn forget_connection(&mut self, conn: ConnId, peer: Option<Peer>) {
        let now = self.hub.rt.now();
        self.state.rpc.on_socket_closed(conn, now);
        match peer {
            Some(Peer::Web(_)) => self.schedule_log_end(),
            Some(Peer::Cli(cli)) => {
                for owner in cli.served() {
                    self.restart_deadline_on_disconnect(&owner, now);
                    self.state.activation_waiters.cancel_report_waiters(owner.id());
                }
            }
            _ => {}
        }
    }
}
