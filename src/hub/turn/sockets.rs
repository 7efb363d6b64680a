//! Frames to one socket, and the attachment of a socket, which survives hibernation.

use crate::hub::Hub;
use crate::hub::core::peers::connections::Peer;
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::wire::engineio;

impl Turn<'_> {
    /// Sets the peer of a socket, in memory and in the attachment that survives hibernation.
    pub fn set_peer(&mut self, conn: ConnId, peer: Peer) {
        self.hub.write_attachment(conn, &peer);
        self.state.connections.insert(conn, peer);
    }

    /// Sends a reply or a call to a CLI. Does not check the CLI's unread bytes, because even a fast CLI can have many replies
    /// queued. [`Turn::disconnect_if_behind`] checks the unread bytes when the CLI's next frame arrives.
    pub fn send_frame(&mut self, conn: ConnId, frame: &str) {
        if let Some(connection) = self.state.connections.get_mut(conn) {
            connection.send_window.record_reply(frame.len());
        }
        self.hub.rt.send(&[conn], frame);
        self.ping_if_needed(conn);
    }

    /// Pings a CLI if many bytes were sent to it since the last ping. The pong shows that the CLI has read these bytes.
    pub fn ping_if_needed(&mut self, conn: ConnId) {
        if self.state.connections.get(conn).is_some_and(|connection| connection.send_window.needs_ping()) {
            self.ping_after_frame(conn);
        }
    }

    /// Pings a CLI. The pong shows that the CLI has read all earlier frames. Returns the number of the ping; 0 if the socket is
    /// closed.
    pub fn ping_after_frame(&mut self, conn: ConnId) -> u64 {
        let Some(connection) = self.state.connections.get_mut(conn) else { return 0 };
        self.hub.rt.send(&[conn], engineio::PING_FRAME);
        connection.send_window.record_ping()
    }
}

impl Hub {
    pub(in crate::hub) fn write_attachment(&self, conn: ConnId, peer: &Peer) {
        self.rt.attach(conn, &serde_json::to_string(peer).unwrap_or_default());
    }
}
