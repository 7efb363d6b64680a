//! Engine.IO protocol 4 over WebSocket text frames, the layer below Socket.IO.
//!
//! A frame is one packet: a digit for the type, then data. Binary frames and the base64 packets of the long-polling transport
//! are not supported.
//! Source: Engine.IO protocol, revision 4.

use crate::model::json::Json;

/// A packet that borrows its data from the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The server's handshake as JSON text: see [`Handshake::encode`].
    Open(&'a str),
    /// The sender closes the connection.
    Close,
    /// Sent by the server. The reply is a [`Packet::Pong`] with the same data.
    Ping(&'a str),
    Pong(&'a str),
    /// A Socket.IO packet.
    Message(&'a str),
    /// Completes a change of transport. Unused on a connection that starts as a WebSocket.
    Upgrade,
    /// Ignored by the receiver.
    Noop,
}

/// A frame that is not an Engine.IO packet. The protocol requires closing the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("empty Engine.IO frame: a frame starts with a packet type from 0 to 6")]
    Empty,
    #[error("unknown Engine.IO packet type {0:?}: expected a digit from 0 to 6")]
    UnknownType(char),
    /// A packet of this type has no data.
    #[error("an Engine.IO packet of type {0} carries no data, but this one does")]
    UnexpectedData(char),
}

/// Decodes a WebSocket text frame.
pub fn decode(frame: &str) -> Result<Packet<'_>, DecodeError> {
    let mut chars = frame.chars();
    let kind = chars.next().ok_or(DecodeError::Empty)?;
    let data = chars.as_str();
    let without_data = |packet| match data {
        "" => Ok(packet),
        _ => Err(DecodeError::UnexpectedData(kind)),
    };
    match kind {
        '0' => Ok(Packet::Open(data)),
        '1' => without_data(Packet::Close),
        '2' => Ok(Packet::Ping(data)),
        '3' => Ok(Packet::Pong(data)),
        '4' => Ok(Packet::Message(data)),
        '5' => without_data(Packet::Upgrade),
        '6' => without_data(Packet::Noop),
        other => Err(DecodeError::UnknownType(other)),
    }
}

impl Packet<'_> {
    /// Encodes the packet as the text of a WebSocket frame.
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

/// The data of the open packet. Times are milliseconds.
///
/// The client closes the connection when it receives no ping for `ping_interval + ping_timeout`. That sum must be below 2^31,
/// because the official client passes it to `setTimeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// The connection id.
    pub sid: &'a str,
    pub ping_interval: u64,
    pub ping_timeout: u64,
    /// The largest frame that the server accepts, in bytes.
    pub max_payload: u64,
}

impl Handshake<'_> {
    /// Encodes the open packet, `0{...}`. `upgrades` is empty: there is no transport to upgrade to.
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
    fn every_packet_type_is_decoded_and_encoded() {
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
    fn malformed_frames_are_rejected() {
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
    fn the_open_packet_has_the_handshake_fields() {
        let handshake = Handshake { sid: "abc", ping_interval: 25_000, ping_timeout: 20_000, max_payload: 1_000_000 };
        assert_eq!(
            handshake.encode(),
            r#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#
        );
    }

    #[test]
    fn the_sid_of_a_handshake_is_escaped() {
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
        fn decode_reverses_encode((kind, data) in any_packet()) {
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
        fn encode_reverses_decode(frame in any::<String>()) {
            if let Ok(packet) = decode(&frame) {
                prop_assert_eq!(packet.encode(), frame);
            }
        }

        #[test]
        fn text_that_resembles_a_packet_does_not_panic(frame in "[0-9b]?.{0,20}") {
            if let Ok(packet) = decode(&frame) {
                prop_assert_eq!(packet.encode(), frame);
            }
        }
    }
}
