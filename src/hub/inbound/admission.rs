//! Authentication of a CLI's socket: the meaning of a frame before a valid CONNECT. The worker uses this module, too, before it
//! knows the namespace. No I/O.

use serde_json::value::RawValue;

use crate::auth::token::TokenVerifier;
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
    /// A valid CONNECT packet, with the namespace of its token and its other fields.
    Granted { namespace: Namespace, auth: ConnectAuth },
    /// A packet that is refused with this CONNECT_ERROR frame.
    Refused(String),
    /// A ping, with the frame that answers it.
    Pong(String),
    /// The socket is to be closed with this code and reason: the client disconnects, or sent no valid packet.
    Close(u16, &'static str),
    /// A packet without effect.
    Ignored,
}

const INVALID_TOKEN: &str = "Invalid token";

/// Interprets a frame before a valid CONNECT. `upgrade_namespace` is the namespace of the token in the upgrade request.
pub fn admit_frame(tokens: &TokenVerifier, upgrade_namespace: Option<&Namespace>, frame: &str) -> Admission {
    let text = match engineio::decode(frame) {
        Ok(engineio::Packet::Message(text)) => text,
        Ok(engineio::Packet::Ping(data)) => return Admission::Pong(engineio::pong_frame(data)),
        Ok(engineio::Packet::Close) => return Admission::Close(1000, ""),
        Ok(_) => return Admission::Ignored,
        Err(_) => return close(PARSE_ERROR),
    };
    match socketio::decode(text) {
        Ok(Packet::Connect { namespace, auth }) => admit_connect(tokens, upgrade_namespace, namespace, auth),
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

fn admit_connect(
    tokens: &TokenVerifier,
    upgrade_namespace: Option<&Namespace>,
    namespace: &str,
    auth: Option<&RawValue>,
) -> Admission {
    if namespace != NAMESPACE {
        return refused(namespace, "Invalid namespace");
    }
    let auth: ConnectAuth = match read_object(auth.map_or("{}", RawValue::get)) {
        Ok(auth) => auth,
        Err(error) if error.field == "token" => return refused(NAMESPACE, INVALID_TOKEN),
        Err(error) => return refused(NAMESPACE, &format!("Invalid auth. {error}")),
    };
    let granted = match &auth.token {
        Some(token) => tokens.verify(token),
        None => upgrade_namespace.cloned(),
    };
    let Some(granted) = granted else { return refused(NAMESPACE, INVALID_TOKEN) };
    if upgrade_namespace.is_some_and(|namespace| *namespace != granted) {
        let message = "Invalid token: it is for another namespace than the token of the upgrade request";
        return refused(NAMESPACE, message);
    }
    if auth.namespace.as_ref().is_some_and(|named| named != granted.as_ref()) {
        return refused(NAMESPACE, "Invalid namespace: the token is for another one");
    }
    Admission::Granted { namespace: granted, auth }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> TokenVerifier {
        TokenVerifier::new("secret", false)
    }

    /// Returns the admission of a CONNECT with this payload, after an upgrade with or without a token.
    fn connect(upgrade: Option<&Namespace>, auth: &str) -> Admission {
        admit_frame(&tokens(), upgrade, &format!("40/cli,{auth}"))
    }

    fn refusal(admission: Admission) -> String {
        match admission {
            Admission::Refused(frame) => frame,
            granted => panic!("{granted:?}"),
        }
    }

    #[test]
    fn a_token_may_be_in_the_upgrade_request_instead() {
        let team = Namespace::parse("team").unwrap();
        let granted = connect(Some(&team), "");
        assert!(matches!(granted, Admission::Granted { namespace, .. } if namespace == team));
        let other = connect(Some(&team), r#"{"token":"secret:other"}"#);
        assert!(refusal(other).contains("Invalid token"));
    }

    #[test]
    fn the_client_may_ping_and_disconnect_before_connect_but_send_no_other_packet() {
        assert_eq!(admit_frame(&tokens(), None, "2probe"), Admission::Pong("3probe".into()));
        for goodbye in ["1", "41", "41/cli,"] {
            assert_eq!(admit_frame(&tokens(), None, goodbye), Admission::Close(1000, ""), "{goodbye}");
        }
        for malformed in ["", "x", "4", "42/cli,", "40/cli,[]"] {
            assert_eq!(admit_frame(&tokens(), None, malformed), Admission::Close(1002, "parse error"), "{malformed}");
        }
        assert!(matches!(admit_frame(&tokens(), None, "451-/cli,[]"), Admission::Close(1003, _)));
        for unexpected in ["42[\"ping\"]", "42/cli,[\"ping\"]", "43/cli,5[]", "44/cli,{}"] {
            assert!(
                matches!(admit_frame(&tokens(), None, unexpected), Admission::Close(1002, reason) if reason.starts_with("Unexpected "))
            );
        }
        assert_eq!(admit_frame(&tokens(), None, "6"), Admission::Ignored);
    }
}
