//! Socket.IO protocol 5: the packets inside Engine.IO messages.
//!
//! A packet's text is `<type>[<attachments>-][<namespace>,][<ack id>][<JSON payload>]`. Reading borrows from the
//! frame and leaves payload items as raw JSON text, so that a large argument is neither copied nor rewritten. Reading
//! is strict: a packet is whole, or it is an error. Writing gives the complete Engine.IO frame, its `4` included.
//! Source: the Socket.IO protocol, revision 5.

use std::borrow::Cow;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::json::{Json, MAX_SAFE_INTEGER};

/// The number that joins an event to its acknowledgement: chosen by the event's sender, at most [`MAX_ACK_ID`].
pub type AckId = u64;

/// The largest ack id: JavaScript peers read the id as a number.
pub const MAX_ACK_ID: AckId = MAX_SAFE_INTEGER;

/// One Socket.IO packet; it borrows from the text that it was read from.
#[derive(Debug, Clone)]
pub enum Packet<'a> {
    /// A client asks to join a namespace.
    Connect {
        /// The namespace, with its leading `/`.
        namespace: &'a str,
        /// The credentials, a JSON object, when the client sent some.
        auth: Option<&'a RawValue>,
    },
    /// A client leaves a namespace.
    Disconnect {
        /// The namespace, with its leading `/`.
        namespace: &'a str,
    },
    /// A named event with its arguments.
    Event {
        /// The namespace, with its leading `/`.
        namespace: &'a str,
        /// The id to answer under, when the sender wants an acknowledgement.
        ack: Option<AckId>,
        /// The event's name.
        name: Cow<'a, str>,
        /// The arguments, each a JSON text.
        args: Vec<&'a RawValue>,
    },
    /// The answer to an event.
    Ack {
        /// The namespace, with its leading `/`.
        namespace: &'a str,
        /// The id that the event carried.
        id: AckId,
        /// The arguments, each a JSON text.
        args: Vec<&'a RawValue>,
    },
    /// A server refuses a connection to a namespace.
    ConnectError {
        /// The namespace, with its leading `/`.
        namespace: &'a str,
        /// The reason: a JSON object with a `message`, or a bare JSON string from old servers.
        data: &'a RawValue,
    },
}

impl<'a> Packet<'a> {
    /// The namespace that the packet is for.
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

/// The types of packet, as the first character of a packet tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Type 0.
    Connect,
    /// Type 1.
    Disconnect,
    /// Type 2.
    Event,
    /// Type 3.
    Ack,
    /// Type 4.
    ConnectError,
    /// Type 5.
    BinaryEvent,
    /// Type 6.
    BinaryAck,
}

/// Why a text is no packet that this hub takes. The texts of the errors are fit to be sent to the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text has no characters.
    #[error("empty Socket.IO packet: a packet starts with a type from 0 to 6")]
    Empty,
    /// The first character names no packet type of protocol 5.
    #[error("unknown Socket.IO packet type {0:?}: expected a digit from 0 to 6")]
    UnknownType(char),
    /// A binary packet does not say how many attachments follow it.
    #[error("invalid attachment count: a binary packet starts with its number of attachments and a '-'")]
    InvalidAttachments,
    /// A well-formed head of a binary event or acknowledgement, which this hub does not speak.
    /// `attachments` binary frames follow it and mean nothing without it.
    #[error("binary data is not supported: send it as base64 text")]
    BinaryUnsupported {
        /// [`Kind::BinaryEvent`] or [`Kind::BinaryAck`].
        kind: Kind,
        /// The namespace that the packet was sent in.
        namespace: String,
        /// The packet's ack id: the one to answer (event), or the one that is answered (acknowledgement).
        ack: Option<AckId>,
        /// How many binary frames follow.
        attachments: usize,
    },
    /// The ack id has a leading zero or is larger than [`MAX_ACK_ID`].
    #[error("invalid acknowledgement id: expected a number from 0 to 9007199254740991 without leading zeros")]
    InvalidAckId,
    /// An acknowledgement that does not say which event it answers.
    #[error("an acknowledgement needs the id of the event that it answers")]
    MissingAckId,
    /// An ack id on a packet that cannot be acknowledged.
    #[error("an acknowledgement id has no place on a {0:?} packet")]
    UnexpectedAckId(Kind),
    /// The payload is missing, is not JSON, has text after it, or has the wrong type for the packet.
    #[error("invalid payload: a Socket.IO packet of type {kind:?} carries {}", expected_payload(*.kind))]
    InvalidPayload {
        /// The type of the packet.
        kind: Kind,
        /// The namespace that the packet was sent in.
        namespace: String,
        /// The packet's ack id: the one to answer (event), or the one that is answered (acknowledgement).
        ack: Option<AckId>,
    },
}

impl DecodeError {
    /// The id under which the peer awaits an answer to the event that could not be read, if it can be told.
    pub fn ack_id(&self) -> Option<AckId> {
        self.id_of(&[Kind::Event, Kind::BinaryEvent])
    }

    /// The id of this side's own event that the peer meant to answer with an acknowledgement that could not be read.
    /// The call behind it can be failed at once, instead of when its time runs out.
    pub fn answered_id(&self) -> Option<AckId> {
        self.id_of(&[Kind::Ack, Kind::BinaryAck])
    }

    /// The namespace of the packet, where it could be read.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::BinaryUnsupported { namespace, .. } | Self::InvalidPayload { namespace, .. } => Some(namespace),
            _ => None,
        }
    }

    fn id_of(&self, kinds: &[Kind]) -> Option<AckId> {
        match self {
            Self::BinaryUnsupported { kind, ack, .. } | Self::InvalidPayload { kind, ack, .. }
                if kinds.contains(kind) =>
            {
                *ack
            }
            _ => None,
        }
    }
}

fn expected_payload(kind: Kind) -> &'static str {
    match kind {
        Kind::Connect => "a JSON object or nothing",
        Kind::Disconnect => "nothing",
        Kind::Event | Kind::BinaryEvent => "a JSON array that starts with the event's name",
        Kind::Ack | Kind::BinaryAck => "a JSON array",
        Kind::ConnectError => "a JSON object or string",
    }
}

/// Reads the packet inside an Engine.IO message (without the Engine.IO `4`).
///
/// The namespace ends at the first `,`; a query string in it (`/cli?a=b`) is cut off. A payload may be nested at any
/// depth: it is checked without recursion.
pub fn decode(text: &str) -> Result<Packet<'_>, DecodeError> {
    let mut chars = text.chars();
    let digit = chars.next().ok_or(DecodeError::Empty)?;
    let rest = chars.as_str();
    let kind = match digit {
        '0' => Kind::Connect,
        '1' => Kind::Disconnect,
        '2' => Kind::Event,
        '3' => Kind::Ack,
        '4' => Kind::ConnectError,
        '5' | '6' => return Err(refuse_binary(digit, rest)),
        other => return Err(DecodeError::UnknownType(other)),
    };
    let (namespace, rest) = split_namespace(rest);
    let (ack, payload) = split_ack(rest)?;
    let invalid_payload = || DecodeError::InvalidPayload { kind, namespace: namespace.to_owned(), ack };
    match (kind, ack) {
        (Kind::Event, _) => {
            let mut items = array(payload).ok_or_else(invalid_payload)?.into_iter();
            let name = items.next().and_then(string).ok_or_else(invalid_payload)?;
            Ok(Packet::Event { namespace, ack, name, args: items.collect() })
        }
        (Kind::Ack, Some(id)) => {
            let args = array(payload).ok_or_else(invalid_payload)?;
            Ok(Packet::Ack { namespace, id, args })
        }
        (Kind::Ack, None) => Err(DecodeError::MissingAckId),
        (_, Some(_)) => Err(DecodeError::UnexpectedAckId(kind)),
        (Kind::Connect, None) => {
            let auth = match payload {
                "" => None,
                text => Some(value(text, &['{']).ok_or_else(invalid_payload)?),
            };
            Ok(Packet::Connect { namespace, auth })
        }
        (Kind::ConnectError, None) => {
            let data = value(payload, &['{', '"']).ok_or_else(invalid_payload)?;
            Ok(Packet::ConnectError { namespace, data })
        }
        (Kind::Disconnect, None) if payload.is_empty() => Ok(Packet::Disconnect { namespace }),
        (Kind::Disconnect | Kind::BinaryEvent | Kind::BinaryAck, None) => Err(invalid_payload()),
    }
}

/// Reads as much of a binary packet as it takes to answer it.
fn refuse_binary(digit: char, rest: &str) -> DecodeError {
    let (count, rest) = split_digits(rest);
    let (Ok(attachments), Some(rest)) = (count.parse(), rest.strip_prefix('-')) else {
        return DecodeError::InvalidAttachments;
    };
    let (namespace, rest) = split_namespace(rest);
    match split_ack(rest) {
        Ok((ack, _)) => DecodeError::BinaryUnsupported {
            kind: match digit {
                '5' => Kind::BinaryEvent,
                _ => Kind::BinaryAck,
            },
            namespace: namespace.to_owned(),
            ack,
            attachments,
        },
        Err(error) => error,
    }
}

/// Splits off the namespace and its comma. Without either, the packet is in the main namespace, `/`.
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

/// How many items of an array are kept: an event's name and its argument, and some that clients add.
const MAX_ITEMS: usize = 8;

/// The first items of an array. A frame may have millions.
fn array(payload: &str) -> Option<Vec<&RawValue>> {
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
    // Of a text serde would make an error that contains all of it.
    let items = payload.trim_ascii_start().starts_with('[').then(|| serde_json::from_str(payload).ok()).flatten();
    items.map(|FirstItems(items)| items)
}

/// The payload as one JSON value that starts with one of the given characters, which tell its JSON type.
fn value<'a>(payload: &'a str, starts: &[char]) -> Option<&'a RawValue> {
    let value: &RawValue = serde_json::from_str(payload).ok()?;
    value.get().starts_with(starts).then_some(value)
}

/// The text of a JSON string, borrowed when it holds no escapes.
fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(value.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Writes the frame by which the server accepts a client in a namespace; `sid` is the id of the client there.
pub fn connect(namespace: &str, sid: &str) -> String {
    let mut frame = head("40", namespace, None, sid.len() + 10);
    frame.push_str("{\"sid\":");
    push_string(&mut frame, sid);
    frame.push('}');
    frame
}

/// Writes the frame by which the server refuses a client in a namespace.
pub fn connect_error(namespace: &str, message: &str) -> String {
    let mut frame = head("44", namespace, None, message.len() + 14);
    frame.push_str("{\"message\":");
    push_string(&mut frame, message);
    frame.push('}');
    frame
}

/// Writes the frame of an event. `args` are JSON texts, put in as they are; `ack`, at most [`MAX_ACK_ID`], asks the
/// peer for an acknowledgement.
pub fn event(namespace: &str, ack: Option<AckId>, name: &str, args: &[&str]) -> String {
    let mut frame = head("42", namespace, ack, name.len() + 4 + joined_len(args));
    frame.push('[');
    push_string(&mut frame, name);
    for arg in args {
        frame.push(',');
        frame.push_str(arg);
    }
    frame.push(']');
    frame
}

/// Writes the frame of an event with one argument, which is serialized where it stands, so that a large one is not in
/// memory twice. `room` is about how many bytes it takes. The argument must be one that can't fail to serialize.
pub fn event_of<T: Serialize>(namespace: &str, name: &str, arg: &T, room: usize) -> String {
    let mut frame = head("42", namespace, None, name.len() + 5 + room);
    frame.push('[');
    push_string(&mut frame, name);
    frame.push(',');
    let mut bytes = frame.into_bytes();
    let written = serde_json::to_writer(&mut bytes, arg);
    debug_assert!(written.is_ok());
    bytes.push(b']');
    String::from_utf8(bytes).unwrap_or_default()
}

/// Writes the frame that acknowledges the peer's event `id`. `args` are JSON texts, put in as they are.
pub fn ack(namespace: &str, id: AckId, args: &[&str]) -> String {
    let mut frame = head("43", namespace, Some(id), 2 + joined_len(args));
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

/// Starts a frame and reserves room for `payload` bytes, so that writing a large payload allocates once.
fn head(types: &str, namespace: &str, ack: Option<AckId>, payload: usize) -> String {
    let id = ack.map(|id| id.to_string()).unwrap_or_default();
    let mut frame = String::with_capacity(types.len() + namespace.len() + 1 + id.len() + payload);
    frame.push_str(types);
    if namespace != "/" {
        frame.push_str(namespace);
        frame.push(',');
    }
    frame.push_str(&id);
    frame
}

fn joined_len(args: &[&str]) -> usize {
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
