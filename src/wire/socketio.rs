//! Socket.IO protocol 5, the packets inside Engine.IO messages.
//!
//! A packet is `<type>[<attachments>-][<namespace>,][<ack id>][<JSON payload>]`. Decoding is strict; it borrows from the frame
//! and leaves arguments as raw JSON, so that a large argument is not copied. Encoding returns a complete Engine.IO frame,
//! including its `4`. Binary packets are not supported.
//! Source: Socket.IO protocol, revision 5.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::json::{Json, MAX_SAFE_INTEGER};

/// Correlates an acknowledgement with its event. Chosen by the sender of the event, at most [`MAX_ACK_ID`].
pub type AckId = u64;

/// JavaScript peers parse the id as a number.
pub const MAX_ACK_ID: AckId = MAX_SAFE_INTEGER;

/// A packet that borrows from the frame. Namespaces have their leading `/`.
#[derive(Debug, Clone)]
pub enum Packet<'a> {
    Connect {
        namespace: &'a str,
        /// The credentials, a JSON object.
        auth: Option<&'a RawValue>,
    },
    Disconnect {
        namespace: &'a str,
    },
    Event {
        namespace: &'a str,
        /// `None` when the sender wants no acknowledgement.
        ack: Option<AckId>,
        name: Cow<'a, str>,
        args: Vec<&'a RawValue>,
    },
    Ack {
        namespace: &'a str,
        id: AckId,
        args: Vec<&'a RawValue>,
    },
    ConnectError {
        namespace: &'a str,
        /// A JSON object with a `message`, or a JSON string from old servers.
        data: &'a RawValue,
    },
}

impl<'a> Packet<'a> {
    pub fn namespace(&self) -> &'a str {
        match self {
            Self::Connect { namespace, .. }
            | Self::Disconnect { namespace }
            | Self::Event { namespace, .. }
            | Self::Ack { namespace, .. }
            | Self::ConnectError { namespace, .. } => namespace,
        }
    }
}

/// The packet types 0 to 4 in the order of their digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    Connect,
    Disconnect,
    Event,
    Ack,
    ConnectError,
}

/// A malformed or unsupported packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("empty Socket.IO packet: a packet starts with a type from 0 to 6")]
    Empty,
    #[error("unknown Socket.IO packet type {0:?}: expected a digit from 0 to 6")]
    UnknownType(char),
    #[error("invalid attachment count: a binary packet starts with its number of attachments and a '-'")]
    InvalidAttachments,
    /// A binary event or acknowledgement. Binary frames follow it.
    #[error("binary data is not supported: send it as base64 text")]
    BinaryUnsupported,
    #[error("invalid acknowledgement id: expected a number from 0 to 9007199254740991 without leading zeros")]
    InvalidAckId,
    #[error("missing acknowledgement id: expected the id of the acknowledged event")]
    MissingAckId,
    #[error("unexpected acknowledgement id on a packet of type {0:?}")]
    UnexpectedAckId(PacketType),
    /// The payload is missing, malformed, or of the wrong JSON type.
    #[error("invalid payload: a Socket.IO packet of type {0:?} has {expected}", expected = expected_payload(*.0))]
    InvalidPayload(PacketType),
}

fn expected_payload(kind: PacketType) -> &'static str {
    match kind {
        PacketType::Connect => "a JSON object or nothing",
        PacketType::Disconnect => "nothing",
        PacketType::Event => "a JSON array that starts with the event's name",
        PacketType::Ack => "a JSON array",
        PacketType::ConnectError => "a JSON object or string",
    }
}

/// Decodes the packet in an Engine.IO message (without the Engine.IO `4`).
///
/// The namespace ends at the first `,`; a query string in it (`/cli?a=b`) is removed. A payload may be nested at any depth: it
/// is parsed without recursion.
pub fn decode(text: &str) -> Result<Packet<'_>, DecodeError> {
    let mut chars = text.chars();
    let digit = chars.next().ok_or(DecodeError::Empty)?;
    let rest = chars.as_str();
    let kind = match digit {
        '0' => PacketType::Connect,
        '1' => PacketType::Disconnect,
        '2' => PacketType::Event,
        '3' => PacketType::Ack,
        '4' => PacketType::ConnectError,
        '5' | '6' => return Err(reject_binary(rest)),
        other => return Err(DecodeError::UnknownType(other)),
    };
    let (namespace, rest) = split_namespace(rest);
    let (ack, payload) = split_ack(rest)?;
    let invalid_payload = || DecodeError::InvalidPayload(kind);
    match (kind, ack) {
        (PacketType::Event, _) => {
            let mut items = parse_array(payload).ok_or_else(invalid_payload)?.into_iter();
            let name = items.next().and_then(parse_string).ok_or_else(invalid_payload)?;
            Ok(Packet::Event { namespace, ack, name, args: items.collect() })
        }
        (PacketType::Ack, Some(id)) => {
            let args = parse_array(payload).ok_or_else(invalid_payload)?;
            Ok(Packet::Ack { namespace, id, args })
        }
        (PacketType::Ack, None) => Err(DecodeError::MissingAckId),
        (_, Some(_)) => Err(DecodeError::UnexpectedAckId(kind)),
        (PacketType::Connect, None) => {
            let auth = match payload {
                "" => None,
                text => Some(parse_value(text, &['{']).ok_or_else(invalid_payload)?),
            };
            Ok(Packet::Connect { namespace, auth })
        }
        (PacketType::ConnectError, None) => {
            let data = parse_value(payload, &['{', '"']).ok_or_else(invalid_payload)?;
            Ok(Packet::ConnectError { namespace, data })
        }
        (PacketType::Disconnect, None) if payload.is_empty() => Ok(Packet::Disconnect { namespace }),
        (PacketType::Disconnect, None) => Err(invalid_payload()),
    }
}

/// Returns the error for a binary packet, which starts with its number of attachments.
fn reject_binary(rest: &str) -> DecodeError {
    let (count, rest) = split_digits(rest);
    let is_valid = count.parse::<usize>().is_ok() && rest.starts_with('-');
    if is_valid { DecodeError::BinaryUnsupported } else { DecodeError::InvalidAttachments }
}

/// Splits the namespace and its comma from the rest. The default is the main namespace, `/`.
fn split_namespace(text: &str) -> (&str, &str) {
    if !text.starts_with('/') {
        return ("/", text);
    }
    let (namespace, rest) = text.split_once(',').unwrap_or((text, ""));
    let path = namespace.split_once('?').map_or(namespace, |(path, _)| path);
    (path, rest)
}

fn split_ack(text: &str) -> Result<(Option<AckId>, &str), DecodeError> {
    let (digits, rest) = split_digits(text);
    if digits.is_empty() {
        return Ok((None, rest));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(DecodeError::InvalidAckId);
    }
    match digits.parse() {
        Ok(id) if id <= MAX_ACK_ID => Ok((Some(id), rest)),
        _ => Err(DecodeError::InvalidAckId),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits).unwrap_or((text, ""))
}

/// The number of array items that are kept, of possibly millions: the name of an event, its argument, and a few unused ones.
const MAX_ITEMS: usize = 8;

/// Parses the first [`MAX_ITEMS`] items of an array.
fn parse_array(payload: &str) -> Option<Vec<&RawValue>> {
    struct FirstItems<'a>(Vec<&'a RawValue>);
    impl<'de: 'a, 'a> Deserialize<'de> for FirstItems<'a> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_seq(Self(Vec::new()))
        }
    }
    impl<'de: 'a, 'a> Visitor<'de> for FirstItems<'a> {
        type Value = Self;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<Self, A::Error> {
            while self.0.len() < MAX_ITEMS
                && let Some(item) = array.next_element()?
            {
                self.0.push(item);
            }
            while array.next_element::<IgnoredAny>()?.is_some() {}
            Ok(self)
        }
    }
    // The error for a string would contain all of it.
    let items = payload.trim_ascii_start().starts_with('[').then(|| serde_json::from_str(payload).ok()).flatten();
    items.map(|FirstItems(items)| items)
}

/// Parses a JSON value whose first character, which determines its type, is one of `starts`.
fn parse_value<'a>(payload: &'a str, starts: &[char]) -> Option<&'a RawValue> {
    let value: &RawValue = serde_json::from_str(payload).ok()?;
    value.get().starts_with(starts).then_some(value)
}

/// Decodes a JSON string; borrows it when it has no escapes.
fn parse_string(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(value.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Encodes the acceptance of a CONNECT packet. `sid` is the id of the client in the namespace.
pub fn connect_frame(namespace: &str, sid: &str) -> String {
    let mut frame = begin_frame("40", namespace, None, sid.len() + 10);
    frame.push_str("{\"sid\":");
    push_string(&mut frame, sid);
    frame.push('}');
    frame
}

/// Encodes the rejection of a CONNECT packet.
pub fn connect_error_frame(namespace: &str, message: &str) -> String {
    let mut frame = begin_frame("44", namespace, None, message.len() + 14);
    frame.push_str("{\"message\":");
    push_string(&mut frame, message);
    frame.push('}');
    frame
}

/// Encodes an event. `args` are JSON texts; `ack` requests an acknowledgement.
pub fn event_frame(namespace: &str, ack: Option<AckId>, name: &str, args: &[&str]) -> String {
    let mut frame = begin_frame("42", namespace, ack, name.len() + 4 + joined_bytes(args));
    frame.push('[');
    push_string(&mut frame, name);
    for arg in args {
        frame.push(',');
        frame.push_str(arg);
    }
    frame.push(']');
    frame
}

/// Encodes the acknowledgement of the event `id`. `args` are JSON texts.
pub fn ack_frame(namespace: &str, id: AckId, args: &[&str]) -> String {
    let mut frame = begin_frame("43", namespace, Some(id), 2 + joined_bytes(args));
    frame.push('[');
    for (position, arg) in args.iter().enumerate() {
        if position > 0 {
            frame.push(',');
        }
        frame.push_str(arg);
    }
    frame.push(']');
    frame
}

/// Starts a frame with capacity for a payload of `payload_bytes`.
fn begin_frame(types: &str, namespace: &str, ack: Option<AckId>, payload_bytes: usize) -> String {
    let id = ack.map(|id| id.to_string()).unwrap_or_default();
    let mut frame = String::with_capacity(types.len() + namespace.len() + 1 + id.len() + payload_bytes);
    frame.push_str(types);
    if namespace != "/" {
        frame.push_str(namespace);
        frame.push(',');
    }
    frame.push_str(&id);
    frame
}

fn joined_bytes(args: &[&str]) -> usize {
    args.iter().map(|arg| arg.len() + 1).sum()
}

fn push_string(frame: &mut String, text: &str) {
    if text.bytes().any(|b| b < b' ' || b == b'"' || b == b'\\') {
        frame.push_str(Json::of(text).text());
    } else {
        frame.push('"');
        frame.push_str(text);
        frame.push('"');
    }
}

#[cfg(test)]
#[path = "socketio_tests.rs"]
mod tests;
