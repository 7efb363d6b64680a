//! Engine.IO protocol 4, the layer below Socket.IO, over WebSocket text frames.
//!
//! One frame carries one packet: a digit that names the packet's type, then its data. Binary frames, and the
//! base64 packets of the long-polling transport, are not spoken here.
//! Source: the Engine.IO protocol, revision 4.

use crate::model::json::Json;

/// One Engine.IO packet, borrowing its data from the frame it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The server's greeting; the data is the handshake's JSON text. Only a server sends it: see [`Handshake::encode`].
    Open(&'a str),
    /// The sender is about to close the connection.
    Close,
    /// A heartbeat that asks for a [`Packet::Pong`] with the same data. In protocol 4 the server sends it.
    Ping(&'a str),
    /// The answer to a ping.
    Pong(&'a str),
    /// The layer above: a Socket.IO packet.
    Message(&'a str),
    /// The end of a change of transport; it has no meaning on a connection that began as a WebSocket.
    Upgrade,
    /// Nothing; receivers ignore it.
    Noop,
}

/// Why a text frame is no Engine.IO packet. The protocol has the connection closed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame has no characters, so it has no packet type.
    #[error("empty Engine.IO frame: a frame starts with a packet type from 0 to 6")]
    Empty,
    /// The first character names no packet type of protocol 4.
    #[error("unknown Engine.IO packet type {0:?}: expected a digit from 0 to 6")]
    UnknownType(char),
    /// The packet's type (the character given) has no data, yet some follows.
    #[error("an Engine.IO packet of type {0} carries no data, but this one does")]
    UnexpectedData(char),
}

/// Reads one WebSocket text frame; the packet borrows from `frame`.
pub fn decode(frame: &str) -> Result<Packet<'_>, DecodeError> {
    let mut chars = frame.chars();
    let kind = chars.next().ok_or(DecodeError::Empty)?;
    let data = chars.as_str();
    let bare = |packet| match data {
        "" => Ok(packet),
        _ => Err(DecodeError::UnexpectedData(kind)),
    };
    match kind {
        '0' => Ok(Packet::Open(data)),
        '1' => bare(Packet::Close),
        '2' => Ok(Packet::Ping(data)),
        '3' => Ok(Packet::Pong(data)),
        '4' => Ok(Packet::Message(data)),
        '5' => bare(Packet::Upgrade),
        '6' => bare(Packet::Noop),
        other => Err(DecodeError::UnknownType(other)),
    }
}

impl Packet<'_> {
    /// Writes the packet as the text of one WebSocket frame.
    pub fn encode(&self) -> String {
        let (kind, data) = match *self {
            Packet::Open(data) => ('0', data),
            Packet::Close => ('1', ""),
            Packet::Ping(data) => ('2', data),
            Packet::Pong(data) => ('3', data),
            Packet::Message(data) => ('4', data),
            Packet::Upgrade => ('5', ""),
            Packet::Noop => ('6', ""),
        };
        let mut frame = String::with_capacity(1 + data.len());
        frame.push(kind);
        frame.push_str(data);
        frame
    }
}

/// What the server tells a client in the open packet.
///
/// The client gives the connection up when no ping came for `ping_interval + ping_timeout`. The official client holds
/// that sum in a timer, so it must stay below 2^31 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// The connection's id.
    pub sid: &'a str,
    /// Milliseconds from one ping of the server to the next.
    pub ping_interval: u64,
    /// Milliseconds that the client grants a late ping.
    pub ping_timeout: u64,
    /// The most bytes that the server takes in one frame.
    pub max_payload: u64,
}

impl Handshake<'_> {
    /// Writes the open packet, `0{...}`. `upgrades` is empty: a WebSocket has nothing better to change to.
    pub fn encode(&self) -> String {
        let Handshake { sid, ping_interval, ping_timeout, max_payload } = *self;
        let sid = Json::of(sid);
        let sid = sid.text();
        format!(
            "0{{\"sid\":{sid},\"upgrades\":[],\"pingInterval\":{ping_interval},\
             \"pingTimeout\":{ping_timeout},\"maxPayload\":{max_payload}}}"
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_packet_type_is_read_and_written_as_the_protocol_says() {
        let table = [
            (r#"0{"sid":"a"}"#, Packet::Open(r#"{"sid":"a"}"#)),
            ("1", Packet::Close),
            ("2", Packet::Ping("")),
            ("2probe", Packet::Ping("probe")),
            ("3", Packet::Pong("")),
            ("3probe", Packet::Pong("probe")),
            ("4", Packet::Message("")),
            (r#"42["a"]"#, Packet::Message(r#"2["a"]"#)),
            ("4\u{1F980}", Packet::Message("\u{1F980}")),
            ("5", Packet::Upgrade),
            ("6", Packet::Noop),
        ];
        for (frame, packet) in table {
            assert_eq!(decode(frame), Ok(packet), "reading {frame:?}");
            assert_eq!(packet.encode(), frame, "writing {packet:?}");
        }
    }

    #[test]
    fn frames_that_are_no_packet_are_refused_with_the_reason() {
        let table = [
            ("", DecodeError::Empty),
            ("abc", DecodeError::UnknownType('a')),
            ("7", DecodeError::UnknownType('7')),
            (" 2", DecodeError::UnknownType(' ')),
            ("bAQID", DecodeError::UnknownType('b')),
            ("\u{0662}", DecodeError::UnknownType('\u{0662}')),
            ("\u{1F980}4", DecodeError::UnknownType('\u{1F980}')),
            ("11", DecodeError::UnexpectedData('1')),
            ("5now", DecodeError::UnexpectedData('5')),
            ("6 ", DecodeError::UnexpectedData('6')),
        ];
        for (frame, error) in table {
            assert_eq!(decode(frame), Err(error), "reading {frame:?}");
        }
    }

    #[test]
    fn the_open_packet_carries_the_handshake_fields_that_clients_expect() {
        let handshake = Handshake { sid: "abc", ping_interval: 25_000, ping_timeout: 20_000, max_payload: 1_000_000 };
        assert_eq!(
            handshake.encode(),
            r#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#
        );
    }

    #[test]
    fn a_handshake_stays_valid_json_whatever_the_sid_holds() {
        let sid = "a\"b\\c\nd\u{1F980}";
        let frame = Handshake { sid, ping_interval: 1, ping_timeout: 2, max_payload: u64::MAX }.encode();
        let Ok(Packet::Open(json)) = decode(&frame) else { panic!("not an open packet: {frame}") };
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(value["sid"], sid);
        assert_eq!(value["maxPayload"], u64::MAX);
    }

    fn any_packet() -> impl Strategy<Value = (u8, String)> {
        (0u8..7, any::<String>())
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_the_same((kind, data) in any_packet()) {
            let packet = match kind {
                0 => Packet::Open(&data),
                1 => Packet::Close,
                2 => Packet::Ping(&data),
                3 => Packet::Pong(&data),
                4 => Packet::Message(&data),
                5 => Packet::Upgrade,
                _ => Packet::Noop,
            };
            let frame = packet.encode();
            prop_assert_eq!(decode(&frame), Ok(packet));
        }

        #[test]
        fn any_text_is_either_refused_or_written_back_unchanged(frame in any::<String>()) {
            if let Ok(packet) = decode(&frame) {
                prop_assert_eq!(packet.encode(), frame);
            }
        }

        #[test]
        fn text_that_looks_like_a_packet_is_never_a_panic(frame in "[0-9b]?.{0,20}") {
            if let Ok(packet) = decode(&frame) {
                prop_assert_eq!(packet.encode(), frame);
            }
        }
    }
}
