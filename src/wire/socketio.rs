//! Socket.IO protocol 5, the packets inside Engine.IO messages.
//!
//! A packet is `<type>[<attachments>-][<namespace>,][<ack id>][<JSON payload>]`. Decoding is strict. Decoded packets borrow raw
//! JSON arguments from the frame, so that a large argument is not copied. Encoding returns a complete Engine.IO frame, which
//! starts with `4`. Binary packets are not supported.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("{0}")]
    Malformed(&'static str),
    /// A binary event or acknowledgement: its data would follow in binary frames.
    #[error("binary data is not supported: send it as base64 text")]
    BinaryUnsupported,
}

/// Decodes the packet in an Engine.IO message (without the Engine.IO `4`).
///
/// The namespace ends at the first `,`; a query string in the namespace (`/cli?a=b`) is removed. A payload may be nested at any
/// depth, because the payload is parsed without recursion.
pub fn decode(text: &str) -> Result<Packet<'_>, DecodeError> {
    let (kind, rest) = text.split_at_checked(1).unwrap_or_default();
    if matches!(kind, "5" | "6") {
        return Err(reject_binary(rest));
    }
    let (namespace, rest) = split_namespace(rest);
    let (ack, payload) = split_ack(rest)?;
    match (kind, ack) {
        ("0", None) => {
            let invalid = DecodeError::Malformed("a CONNECT packet has a JSON object or nothing as its payload");
            let auth = match payload {
                "" => None,
                text => Some(parse_value(text, &['{']).ok_or(invalid)?),
            };
            Ok(Packet::Connect { namespace, auth })
        }
        ("1", None) if payload.is_empty() => Ok(Packet::Disconnect { namespace }),
        ("2", _) => {
            let invalid = DecodeError::Malformed(
                "the payload of an event is a JSON array that starts with the name of the event",
            );
            let mut items = parse_array(payload).ok_or(invalid)?.into_iter();
            let name = items.next().and_then(parse_name).ok_or(invalid)?;
            Ok(Packet::Event { namespace, ack, name, args: items.collect() })
        }
        ("3", Some(id)) => {
            let invalid = DecodeError::Malformed("an acknowledgement has a JSON array as its payload");
            let args = parse_array(payload).ok_or(invalid)?;
            Ok(Packet::Ack { namespace, id, args })
        }
        ("4", None) => {
            let invalid = DecodeError::Malformed("a CONNECT_ERROR packet has a JSON object or string as its payload");
            let data = parse_value(payload, &['{', '"']).ok_or(invalid)?;
            Ok(Packet::ConnectError { namespace, data })
        }
        ("1", None) => Err(DecodeError::Malformed("a DISCONNECT packet must not have a payload")),
        ("3", None) => Err(DecodeError::Malformed("an acknowledgement has the id of its event")),
        ("0" | "1" | "4", Some(_)) => Err(DecodeError::Malformed("only events and acknowledgements have an id")),
        _ => Err(DecodeError::Malformed("a Socket.IO packet starts with a type from 0 to 6")),
    }
}

/// Returns the error for a binary packet, which starts with its number of attachments.
fn reject_binary(rest: &str) -> DecodeError {
    let (count, rest) = split_digits(rest);
    match count.parse::<usize>().is_ok() && rest.starts_with('-') {
        true => DecodeError::BinaryUnsupported,
        false => DecodeError::Malformed("a binary packet starts with its number of attachments and a '-'"),
    }
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
    let is_canonical = digits.len() == 1 || !digits.starts_with('0');
    match digits.parse() {
        Ok(id) if is_canonical && id <= MAX_ACK_ID => Ok((Some(id), rest)),
        _ => Err(DecodeError::Malformed("an acknowledgement id is a number below 2^53 without leading zeros")),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits).unwrap_or((text, ""))
}

/// How many items of an array are decoded: an event has a name and one argument, but an array may have millions of items.
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
    // Serde's error for a payload that is a string would contain a copy of the string.
    let items = payload.trim_ascii_start().starts_with('[').then(|| serde_json::from_str(payload).ok()).flatten();
    items.map(|FirstItems(items)| items)
}

/// Parses a JSON value whose first character, which determines its type, is one of `starts`.
fn parse_value<'a>(payload: &'a str, starts: &[char]) -> Option<&'a RawValue> {
    let value: &RawValue = serde_json::from_str(payload).ok()?;
    value.get().starts_with(starts).then_some(value)
}

/// Decodes the name of an event, a JSON string or number. A name without escapes is borrowed. If the name
/// is a number, its JSON text is the name, as in the official server.
fn parse_name(value: &RawValue) -> Option<Cow<'_, str>> {
    if value.get().starts_with(|start: char| start == '-' || start.is_ascii_digit()) {
        return Some(Cow::Borrowed(value.get()));
    }
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(value.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Encodes the acceptance of a CONNECT packet. `sid` is the id of the client in the namespace.
pub fn connect_frame(namespace: &str, sid: &str) -> String {
    frame_start("40", namespace, None) + Json::object(&[("sid", Json::of(sid))]).text()
}

pub fn connect_error_frame(namespace: &str, message: &str) -> String {
    frame_start("44", namespace, None) + Json::object(&[("message", Json::of(message))]).text()
}

/// Encodes an event. `args` are JSON texts; `ack` requests an acknowledgement.
pub fn event_frame(namespace: &str, ack: Option<AckId>, name: &str, args: &[&str]) -> String {
    let name = Json::of(name);
    let items = std::iter::once(name.text()).chain(args.iter().copied());
    array_frame(&frame_start("42", namespace, ack), items)
}

/// Encodes the acknowledgement of the event `id`. `args` are JSON texts.
pub fn ack_frame(namespace: &str, id: AckId, args: &[&str]) -> String {
    array_frame(&frame_start("43", namespace, Some(id)), args.iter().copied())
}

/// Concatenates a frame whose payload is an array. The frame is allocated only once, because an item may have 30 MB.
fn array_frame<'a>(start: &'a str, items: impl Iterator<Item = &'a str>) -> String {
    let mut parts = vec![start, "["];
    for (position, item) in items.enumerate() {
        parts.extend((position > 0).then_some(","));
        parts.push(item);
    }
    parts.push("]");
    parts.concat()
}

fn frame_start(types: &str, namespace: &str, ack: Option<AckId>) -> String {
    let id = ack.map(|id| id.to_string()).unwrap_or_default();
    if namespace == "/" { format!("{types}{id}") } else { format!("{types}{namespace},{id}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_a_frame_allocates_once() {
        let large = format!("\"{}\"", "x".repeat(100_000));
        for frame in [event_frame("/cli", Some(MAX_ACK_ID), "rpc-request", &[&large]), ack_frame("/cli", 0, &[&large])]
        {
            assert!(frame.capacity() < frame.len() + 16, "{} for {}", frame.capacity(), frame.len());
        }
    }
}
