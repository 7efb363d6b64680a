//! Authentication of a CLI's socket: the meaning of a frame before a valid CONNECT. The worker uses this module, too, before it
//! knows the namespace. No I/O.

use serde_json::value::RawValue;

use crate::model::namespace::Namespace;
use crate::wire::cli::{ConnectAuth, NAMESPACE};
use crate::wire::engineio;
use crate::wire::fields::read_object;
use crate::wire::socketio::{self, DecodeError, Packet};

/// The close reason after a frame before CONNECT that was too large.
pub const FRAME_TOO_LARGE: &str = "A frame before CONNECT is answered may have at most 16 KiB";
/// The close reason after [`CONNECT_TIMEOUT_MS`](crate::limits::CONNECT_TIMEOUT_MS).
pub const NO_CONNECT: &str = "No CONNECT packet came within 10 seconds";
/// The close reason after [`MAX_REFUSALS`](crate::limits::MAX_REFUSALS) refused frames.
pub const TOO_MANY_REFUSALS: &str = "No valid CONNECT packet came: 3 were refused";
/// The close reason after [`MAX_IDLE_FRAMES`](crate::limits::MAX_IDLE_FRAMES) frames without effect.
pub const TOO_MANY_IDLE_FRAMES: &str = "More than 16 other frames came before CONNECT";

/// The close code and reason after a malformed or unknown packet. The official server closes the connection for this reason,
/// too.
pub const PARSE_ERROR: (u16, &str) = (1002, "parse error");
/// The close code and reason after a binary packet or frame.
pub const BINARY_UNSUPPORTED: (u16, &str) = (1003, "Binary data is not supported: send it as base64 text");

/// Returns the close code and reason after a packet that can't be decoded.
pub fn close_reason(error: &DecodeError) -> (u16, &'static str) {
    if *error == DecodeError::BinaryUnsupported { BINARY_UNSUPPORTED } else { PARSE_ERROR }
}

/// Returns the close code and reason after a valid packet that the connection does not allow. The official server closes the
/// connection, too.
pub fn unexpected_reason(packet: &Packet<'_>) -> (u16, &'static str) {
    let reason = match packet {
        Packet::Connect { .. } => "Unexpected CONNECT: this Socket.IO namespace is connected already",
        Packet::ConnectError { .. } => "Unexpected CONNECT_ERROR: only the server sends it",
        Packet::Disconnect { .. } | Packet::Event { .. } | Packet::Ack { .. } => {
            "Unexpected packet: this Socket.IO namespace is not connected. Send CONNECT for it first"
        }
    };
    (1002, reason)
}

/// The meaning of a frame before a valid CONNECT.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// A CONNECT packet whose token was not verified yet.
    Connect(ConnectAuth),
    /// A packet that is refused with this CONNECT_ERROR frame.
    Refused(String),
    /// A ping, with the frame that answers it.
    Pong(String),
    /// The socket is to be closed with this code and reason: the client disconnects, or sent no valid packet.
    Close(u16, &'static str),
    /// A packet without effect.
    Ignored,
}

/// The message of a CONNECT_ERROR.
pub const INVALID_TOKEN: &str = "Invalid token";

/// Interprets a frame before a valid CONNECT.
pub fn interpret_frame(frame: &str) -> Admission {
    let text = match engineio::decode(frame) {
        Ok(engineio::Packet::Message(text)) => text,
        Ok(engineio::Packet::Ping(data)) => return Admission::Pong(engineio::pong_frame(data)),
        Ok(engineio::Packet::Close) => return Admission::Close(1000, ""),
        Ok(_) => return Admission::Ignored,
        Err(_) => return close(PARSE_ERROR),
    };
    match socketio::decode(text) {
        Ok(Packet::Connect { namespace, auth }) => admit_connect(namespace, auth),
        Ok(Packet::Disconnect { .. }) => Admission::Close(1000, ""),
        Ok(packet) => close(unexpected_reason(&packet)),
        Err(error) => close(close_reason(&error)),
    }
}

fn close((code, reason): (u16, &'static str)) -> Admission {
    Admission::Close(code, reason)
}

fn refused(namespace: &str, message: &str) -> Admission {
    Admission::Refused(socketio::connect_error_frame(namespace, message))
}

fn admit_connect(namespace: &str, auth: Option<&RawValue>) -> Admission {
    if namespace != NAMESPACE {
        return refused(namespace, "Invalid namespace");
    }
    match read_object(auth.map_or("{}", RawValue::get)).and_then(ConnectAuth::validate) {
        Ok(auth) => Admission::Connect(auth),
        Err(error) if error.field == "token" => refused(NAMESPACE, INVALID_TOKEN),
        Err(error) => refused(NAMESPACE, &format!("Invalid auth. {error}")),
    }
}

/// Checks the namespace of a CONNECT packet. `granted` is the namespace of its valid token or, without a token, of the token in the
/// upgrade request. Returns the namespace, or the CONNECT_ERROR frame.
pub fn check_connect(
    auth: &ConnectAuth,
    upgrade_namespace: Option<&Namespace>,
    granted: Option<Namespace>,
) -> Result<Namespace, String> {
    let error = |message| Err(socketio::connect_error_frame(NAMESPACE, message));
    let Some(granted) = granted else { return error(INVALID_TOKEN) };
    if upgrade_namespace.is_some_and(|namespace| *namespace != granted) {
        return error("Invalid token: it is for another namespace than the token of the upgrade request");
    }
    if auth.namespace.as_ref().is_some_and(|named| named != granted.as_ref()) {
        return error("Invalid namespace: the token is for another one");
    }
    Ok(granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_must_be_for_the_namespace_of_the_upgrade_and_of_the_packet() {
        let namespace = |name| Namespace::parse(name).unwrap();
        let (team, other) = (namespace("team"), namespace("other"));
        let auth = |named: Option<&str>| ConnectAuth { namespace: named.map(Into::into), ..ConnectAuth::default() };
        for (named, upgrade) in [(None, None), (Some("team"), None), (None, Some(&team))] {
            assert_eq!(check_connect(&auth(named), upgrade, Some(team.clone())), Ok(team.clone()));
        }
        for (named, upgrade, granted) in [(None, None, None), (None, Some(&other), Some(team.clone()))] {
            assert!(check_connect(&auth(named), upgrade, granted).unwrap_err().contains("Invalid token"));
        }
        assert!(check_connect(&auth(Some("other")), None, Some(team)).unwrap_err().contains("Invalid namespace"));
    }

    #[test]
    fn the_client_may_ping_and_disconnect_before_connect_but_send_no_other_packet() {
        assert_eq!(interpret_frame("2probe"), Admission::Pong("3probe".into()));
        for disconnect in ["1", "41", "41/cli,"] {
            assert_eq!(interpret_frame(disconnect), Admission::Close(1000, ""), "{disconnect}");
        }
        for malformed in ["", "x", "4", "42/cli,", "40/cli,[]"] {
            assert_eq!(interpret_frame(malformed), Admission::Close(1002, "parse error"), "{malformed}");
        }
        assert!(matches!(interpret_frame("451-/cli,[]"), Admission::Close(1003, _)));
        for unexpected in ["42[\"ping\"]", "42/cli,[\"ping\"]", "43/cli,5[]", "44/cli,{}"] {
            assert!(
                matches!(interpret_frame(unexpected), Admission::Close(1002, reason) if reason.starts_with("Unexpected "))
            );
        }
        assert_eq!(interpret_frame("6"), Admission::Ignored);
    }
}
