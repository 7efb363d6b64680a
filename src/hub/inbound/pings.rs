//! Pings to CLIs, and their answers: whether a CLI is there, and whether it reads what it is sent.

use crate::hub::peers::connections::Peer;
use crate::hub::ports::ConnId;
use crate::hub::{Hub, State};
use crate::wire::engineio;

impl Hub {
    /// Pings every CLI. One that left the last ping unanswered is gone.
    pub(in crate::hub) fn ping_clis(&self) {
        let mut dead = Vec::new();
        {
            let mut state = self.state();
            let conns: Vec<ConnId> = state.connections.clis().map(|(conn, _)| conn).collect();
            let mut alive = Vec::with_capacity(conns.len());
            for conn in conns {
                let Some(connection) = state.connections.get_mut(conn) else { continue };
                let Peer::Cli(cli) = &mut connection.peer else { continue };
                connection.unread.beat();
                if std::mem::replace(&mut cli.unanswered, true) {
                    dead.push(conn);
                } else {
                    self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
                    alive.push(conn);
                }
            }
            self.rt.send(&alive, &engineio::Packet::Ping("").encode());
        }
        for conn in dead {
            self.rt.close(conn, 1001, "Ping timeout");
            self.on_close(conn);
        }
    }

    /// Sends an update to CLIs, and hangs up on those who do not read.
    pub(in crate::hub) fn send_update(&self, state: &mut State, to: &[ConnId], frame: &str) {
        let (ready, stalled): (Vec<ConnId>, Vec<ConnId>) =
            to.iter().partition(|conn| state.connections.reads(**conn, frame.len()));
        self.rt.send(&ready, frame);
        for conn in ready {
            self.ask_whether_it_reads(state, conn);
        }
        for conn in stalled {
            self.close_unread(state, conn);
        }
    }

    /// Sends a CLI what it asked for, or a call. Whether it reads such frames is looked at when it says the next thing
    /// ([`Hub::is_behind`]): many answers at once are no fault of a CLI that said much at once.
    pub(in crate::hub) fn send_answer(&self, state: &mut State, conn: ConnId, frame: &str) {
        if let Some(connection) = state.connections.get_mut(conn) {
            connection.unread.add(frame.len());
        }
        self.rt.send(&[conn], frame);
        self.ask_whether_it_reads(state, conn);
    }

    /// Whether a CLI has left too much unread to say more; if so, its socket is closed.
    pub(in crate::hub) fn is_behind(&self, conn: ConnId) -> bool {
        let mut state = self.state();
        let behind = state.connections.get(conn).is_some_and(|connection| connection.unread.is_behind());
        if behind {
            self.close_unread(&mut state, conn);
        }
        behind
    }

    fn ask_whether_it_reads(&self, state: &mut State, conn: ConnId) {
        if let Some(connection) = state.connections.get_mut(conn).filter(|connection| connection.unread.asks()) {
            connection.unread.beat();
            self.rt.send(&[conn], &engineio::Packet::Ping("").encode());
        }
    }

    fn close_unread(&self, state: &mut State, conn: ConnId) {
        self.rt.close(conn, 4408, "Too much is unread: reconnect");
        self.gone(state, conn);
    }

    /// A pong came in: what was sent before its ping was read.
    pub(in crate::hub) fn ponged(&self, conn: ConnId) {
        if let Some(connection) = self.state().connections.get_mut(conn) {
            connection.unread.answered();
        }
    }

    /// A frame came in, which may have to wait before it is handled: any one answers a ping, as far as it asks who is there.
    pub(in crate::hub) fn seen(&self, conn: ConnId) {
        let mut state = self.state();
        let Some(connection) = state.connections.get_mut(conn) else { return };
        let Peer::Cli(cli) = &mut connection.peer else { return };
        if std::mem::take(&mut cli.unanswered) {
            self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
        }
    }
}
