//! Pings to CLIs. The pong shows that a CLI is connected, and has read everything that was sent before the ping.

use crate::hub::Hub;
use crate::hub::core::peers::connections::Peer;
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::limits::PING_INTERVAL_MS;
use crate::wire::engineio;

/// After this time, in milliseconds, the hub disconnects a CLI that has not answered a ping: at the second tick after the ping. Half an
/// interval less than 60 s, because alarms are early or late by some milliseconds, and the next tick comes only after 90 s.
const PONG_TIMEOUT_MS: u64 = 2 * PING_INTERVAL_MS - PING_INTERVAL_MS / 2;

impl Hub {
    /// Pings every CLI. Disconnects the CLIs from which no frame has come for [`PONG_TIMEOUT_MS`] after a ping.
    pub(in crate::hub) fn ping_clis(&self) {
        let now = self.rt.now();
        let mut silent = Vec::new();
        {
            let mut turn = self.turn();
            let conns: Vec<ConnId> = turn.connections.clis().map(|(conn, _)| conn).collect();
            let mut to_ping = Vec::with_capacity(conns.len());
            for conn in conns {
                let Some(connection) = turn.connections.get_mut(conn) else { continue };
                let Peer::Cli(cli) = &mut connection.peer else { continue };
                connection.send_window.record_ping();
                match cli.unanswered_since {
                    Some(since) if now >= since + PONG_TIMEOUT_MS => {
                        silent.push(conn);
                        continue;
                    }
                    Some(_) => {}
                    None => {
                        cli.unanswered_since = Some(now);
                        self.write_attachment(conn, &connection.peer);
                    }
                }
                to_ping.push(conn);
            }
            self.rt.send(&to_ping, engineio::PING_FRAME);
        }
        for conn in silent {
            self.turn().disconnect(conn, 1001, "Ping timeout");
        }
    }

    /// Handles a pong: the CLI has read everything sent before the ping.
    pub(in crate::hub) fn on_pong(&self, conn: ConnId) {
        if let Some(connection) = self.turn().connections.get_mut(conn) {
            connection.send_window.acknowledge();
        }
    }
}

impl Turn<'_> {
    /// Records a received frame: like a pong, it shows that the CLI is connected.
    pub(in crate::hub) fn record_frame(&mut self, conn: ConnId) {
        let Some(connection) = self.state.connections.get_mut(conn) else { return };
        let Peer::Cli(cli) = &mut connection.peer else { return };
        if cli.unanswered_since.take().is_some() {
            self.hub.write_attachment(conn, &connection.peer);
        }
    }
}
