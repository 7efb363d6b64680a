//! Pings to CLIs, and their answers: whether a CLI is there, and whether it reads what it is sent.

use crate::hub::Hub;
use crate::hub::peers::connections::Peer;
use crate::hub::ports::ConnId;
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
                connection.send_window.record_ping();
                if std::mem::replace(&mut cli.ping_unanswered, true) {
                    dead.push(conn);
                } else {
                    self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
                    alive.push(conn);
                }
            }
            self.rt.send(&alive, &engineio::Packet::Ping("").encode());
        }
        for conn in dead {
            self.disconnect(&mut self.state(), conn, 1001, "Ping timeout");
        }
    }

    /// A pong came in: what was sent before its ping was read.
    pub(in crate::hub) fn ponged(&self, conn: ConnId) {
        if let Some(connection) = self.state().connections.get_mut(conn) {
            connection.send_window.acknowledge();
        }
    }

    /// A frame came in, which may have to wait before it is handled: any one answers a ping, as far as it asks who is there.
    pub(in crate::hub) fn seen(&self, conn: ConnId) {
        let mut state = self.state();
        let Some(connection) = state.connections.get_mut(conn) else { return };
        let Peer::Cli(cli) = &mut connection.peer else { return };
        if std::mem::take(&mut cli.ping_unanswered) {
            self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
        }
    }
}
