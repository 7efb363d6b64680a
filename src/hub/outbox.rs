//! Everything that goes out to sockets: frames, attachments, and closing. A client that does not read is disconnected, for
//! the runtime keeps unread frames in memory without a bound.

use super::peers::connections::Peer;
use super::ports::ConnId;
use super::storage_keys::alive_key;
use super::{Hub, State};
use crate::model::owner::Owner;
use crate::wire::engineio;

impl Hub {
    /// Sets who is at the other end of a socket, in memory and in the attachment that survives hibernation.
    pub(super) fn set_peer(&self, state: &mut State, conn: ConnId, peer: Peer) {
        self.rt.attach(conn, &serde_json::to_string(&peer).unwrap_or_default());
        state.connections.insert(conn, peer);
    }

    /// Sends an update to CLIs, and disconnects those that have too much unread.
    pub(super) fn send_update(&self, state: &mut State, to: &[ConnId], frame: &str) {
        let (ready, stalled): (Vec<ConnId>, Vec<ConnId>) =
            to.iter().partition(|conn| state.connections.record_event(**conn, frame.len()));
        self.rt.send(&ready, frame);
        for conn in ready {
            self.ping_if_unread(state, conn);
        }
        for conn in stalled {
            self.disconnect_stalled(state, conn);
        }
    }

    /// Sends a CLI a call or the answer to what it sent. Many answers at once are no fault of the client, so what is
    /// unread is checked with its next frame ([`Hub::is_behind`]).
    pub(super) fn send_answer(&self, state: &mut State, conn: ConnId, frame: &str) {
        if let Some(connection) = state.connections.get_mut(conn) {
            connection.send_window.record_reply(frame.len());
        }
        self.rt.send(&[conn], frame);
        self.ping_if_unread(state, conn);
    }

    /// Whether a CLI has too much unread to send more. If so, it is disconnected.
    pub(super) fn is_behind(&self, conn: ConnId) -> bool {
        let mut state = self.state();
        let is_behind =
            state.connections.get(conn).is_some_and(|connection| connection.send_window.is_over_reply_limit());
        if is_behind {
            self.disconnect_stalled(&mut state, conn);
        }
        is_behind
    }

    /// Pings a CLI that was sent much since the last ping: the pong shows what it has read.
    fn ping_if_unread(&self, state: &mut State, conn: ConnId) {
        if let Some(connection) =
            state.connections.get_mut(conn).filter(|connection| connection.send_window.needs_ping())
        {
            connection.send_window.record_ping();
            self.rt.send(&[conn], &engineio::Packet::Ping("").encode());
        }
    }

    fn disconnect_stalled(&self, state: &mut State, conn: ConnId) {
        self.disconnect(state, conn, 4408, "Too much is unread: reconnect");
    }

    /// Closes a socket.
    pub(super) fn disconnect(&self, state: &mut State, conn: ConnId, code: u16, reason: &str) {
        self.rt.close(conn, code, reason);
        self.handle_disconnect(state, conn);
    }

    /// Disconnects CLIs that must read the current state again, because a write failed.
    pub(super) fn disconnect_to_resync(&self, conns: impl IntoIterator<Item = ConnId>) {
        for conn in conns {
            self.disconnect(&mut self.state(), conn, 1013, "The hub can't reach its database, try again");
        }
    }

    /// Handles a socket that was closed by the client or by the platform.
    pub fn on_close(&self, conn: ConnId) {
        self.handle_disconnect(&mut self.state(), conn);
    }

    fn handle_disconnect(&self, state: &mut State, conn: ConnId) {
        let now = self.rt.now();
        state.rpc.disconnect(conn, now);
        state.frame_bytes -= state.connections.get(conn).map_or(0, |connection| connection.queued_bytes);
        match state.connections.remove(conn) {
            Some(Peer::Web(_)) => self.stop_logging_later(state),
            Some(Peer::Cli(cli)) => {
                for owner in [cli.session.map(Owner::Session), cli.machine.map(Owner::Machine)].into_iter().flatten() {
                    self.handle_cli_disconnect(state, &owner, now);
                }
            }
            _ => {}
        }
        let next = state.liveness.next_deadline();
        self.request_alarm(state, next);
    }

    /// Restarts the timeout of an owner that has not ended: its CLI has that time to reconnect.
    fn handle_cli_disconnect(&self, state: &mut State, owner: &Owner, now: u64) {
        if !state.liveness.is_running(owner) {
            return;
        }
        state.cache.set_active_at(owner, now);
        match state.connections.of_owner(owner).last().copied() {
            // The attachment of another socket of the same owner stores the time.
            Some(other) => self.record_keep_alive(state, owner.clone(), Some(other)),
            None => {
                state.liveness.record_disconnect(owner, now);
                self.rt.kv_put(&alive_key(owner), &now.to_string());
            }
        }
    }
}
