//! Pings to CLIs, and their answers.

use super::Hub;
use super::connections::Peer;
use super::ports::ConnId;
use crate::wire::engineio;

impl Hub {
    /// Pings every CLI. One that left the last ping unanswered is gone.
    pub(super) fn ping_clis(&self) {
        let mut dead = Vec::new();
        {
            let mut state = self.state();
            let conns: Vec<ConnId> = state.connections.clis().map(|(conn, _)| conn).collect();
            let mut alive = Vec::with_capacity(conns.len());
            for conn in conns {
                let Some(connection) = state.connections.get_mut(conn) else { continue };
                let Peer::Cli(cli) = &mut connection.peer else { continue };
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

    /// A frame came in: any one answers a ping.
    pub(super) fn seen(&self, conn: ConnId) {
        let mut state = self.state();
        let Some(connection) = state.connections.get_mut(conn) else { return };
        let Peer::Cli(cli) = &mut connection.peer else { return };
        if std::mem::take(&mut cli.unanswered) {
            self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
        }
    }
}
