//! Engine.IO protocol 4 over WebSocket text frames, the layer below Socket.IO.
//!
//! A frame is one packet: a digit for the type, then data. Not supported: binary frames, and the base64 packets of long-polling.
//! Source: Engine.IO protocol, revision 4.

use crate::limits::{MAX_CONTENT_BYTES, PING_INTERVAL_MS};
use crate::model::json::Json;

/// The largest frame that a CLI may send, in bytes. The runtime closes a WebSocket on a larger frame.
const MAX_FRAME_BYTES: u64 = 32 * 1024 * 1024;
const _: () = assert!((MAX_CONTENT_BYTES as u64) < MAX_FRAME_BYTES);
/// The `pingTimeout` that is announced in the Engine.IO open packet, in milliseconds. A client disconnects when it gets no ping
/// for 90 s, the sum of `pingInterval` and `pingTimeout`: an alarm that is less than a minute late loses no connection.
const PING_TIMEOUT_MS: u64 = 60_000;

/// A packet of a client, which borrows its data from the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The sender closes the connection.
    Close,
    /// The data must be in the answer, [`pong_frame`].
    Ping(&'a str),
    Pong,
    /// A Socket.IO packet.
    Message(&'a str),
    /// An open, upgrade or noop packet, which has no effect on a connection that starts as a WebSocket.
    Handshake,
}

/// Decodes a WebSocket text frame. The error says why the frame is not a packet: the caller must close the connection.
pub fn decode(frame: &str) -> Result<Packet<'_>, &'static str> {
    match frame.split_at_checked(1) {
        Some(("1", "")) => Ok(Packet::Close),
        Some(("2", data)) => Ok(Packet::Ping(data)),
        Some(("3", _)) => Ok(Packet::Pong),
        Some(("4", data)) => Ok(Packet::Message(data)),
        Some(("0", _) | ("5" | "6", "")) => Ok(Packet::Handshake),
        Some(("1" | "5" | "6", _)) => Err("an Engine.IO packet of type 1, 5 or 6 carries no data"),
        _ => Err("an Engine.IO frame starts with a packet type from 0 to 6"),
    }
}

/// The ping of the hub, as a complete frame.
pub const PING_FRAME: &str = "2";

pub fn pong_frame(data: &str) -> String {
    format!("3{data}")
}

/// Encodes the open packet. `sid` is the UUID of the connection. `upgrades` is empty: there is no transport to upgrade to.
///
/// The client closes the connection when it receives no ping for the sum of the interval and the timeout. That sum must be below
/// 2^31 milliseconds, because the official client passes it to `setTimeout`.
pub fn open_frame(sid: &str) -> String {
    let open = Json::object(&[
        ("sid", Json::of(sid)),
        ("upgrades", Json::of(&[(); 0])),
        ("pingInterval", Json::of(&PING_INTERVAL_MS)),
        ("pingTimeout", Json::of(&PING_TIMEOUT_MS)),
        ("maxPayload", Json::of(&MAX_FRAME_BYTES)),
    ]);
    format!("0{}", open.text())
}
