//! The handshake of a CLI's socket, from the open packet to a valid CONNECT:
//!
//! ```text
//! Connecting --receive--> TokenCheck --decide--> Verified
//!     ^                                 |            |
//!     +------------- Outcome -----------+---refuse---+
//! ```
//!
//! Each step consumes its state. The object of a namespace runs it, and the worker for a socket whose namespace it does not know yet.

use serde_json::value::RawValue;

use crate::auth::token::Credential;
use crate::hub::core::peers::connections::{Connecting, Upgrade};
use crate::model::namespace::Namespace;
use crate::wire::cli::{ConnectAuth, NAMESPACE};
use crate::wire::engineio;
use crate::wire::fields::read_object;
use crate::wire::socketio::{self, DecodeError, Packet};

/// The largest frame before CONNECT is answered, in bytes.
pub const MAX_UNAUTHENTICATED_FRAME_BYTES: usize = 16 * 1024;
/// The number of refused frames before CONNECT after which the hub closes a socket.
const MAX_REFUSALS: u32 = 3;
/// The number of frames without effect before CONNECT after which the hub closes a socket, because each frame wakes the hub.
const MAX_IDLE_FRAMES: u32 = 16;

pub type Close = (u16, &'static str);

/// The close reason after a frame above [`MAX_UNAUTHENTICATED_FRAME_BYTES`].
pub const FRAME_TOO_LARGE: &str = "A frame before CONNECT is answered may have at most 16 KiB";
pub const NO_CONNECT: Close = (1008, "No CONNECT packet came within 10 seconds");
const TOO_MANY_REFUSALS: Close = (1008, "No valid CONNECT packet came: 3 were refused");
const TOO_MANY_IDLE_FRAMES: Close = (1008, "More than 16 other frames came before CONNECT");
const CLOSED_BY_CLIENT: Close = (1000, "");

/// After a malformed or unknown packet. The official server closes the connection for this reason, too.
pub const PARSE_ERROR: Close = (1002, "parse error");
pub const BINARY_UNSUPPORTED: Close = (1003, "Binary data is not supported: send it as base64 text");

pub fn close_reason(error: &DecodeError) -> Close {
    if *error == DecodeError::BinaryUnsupported { BINARY_UNSUPPORTED } else { PARSE_ERROR }
}

/// Returns the close code and reason after a valid packet that the connection does not allow. The official server closes, too.
pub fn unexpected_reason(packet: &Packet<'_>) -> Close {
    let reason = match packet {
        Packet::Connect { .. } => "Unexpected CONNECT: this Socket.IO namespace is connected already",
        Packet::ConnectError { .. } => "Unexpected CONNECT_ERROR: only the server sends it",
        Packet::Disconnect { .. } | Packet::Event { .. } | Packet::Ack { .. } => {
            "Unexpected packet: this Socket.IO namespace is not connected. Send CONNECT for it first"
        }
    };
    (1002, reason)
}

const INVALID_TOKEN: &str = "Invalid token";

/// What follows a frame that connects no CLI.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the frame is refused, and `reply` is a CONNECT_ERROR.
    pub is_refused: bool,
    /// A frame to send first.
    pub reply: Option<String>,
    /// The state in which the socket waits for its next frame, or the reason to close it.
    pub next: Result<Connecting, Close>,
}

impl Outcome {
    fn close(close: Close) -> Self {
        Self { is_refused: false, reply: None, next: Err(close) }
    }
}

/// A CONNECT packet whose token must be verified.
#[derive(Debug)]
pub struct TokenCheck {
    connecting: Connecting,
    pub auth: ConnectAuth,
}

/// A CONNECT packet with a valid token.
#[derive(Debug)]
pub struct Verified {
    connecting: Connecting,
    pub auth: ConnectAuth,
    pub namespace: Namespace,
    pub credential: Credential,
}

impl Connecting {
    /// Handles a frame of a socket that has not connected yet. `Err`: what to do with a frame that is no CONNECT.
    pub fn receive(self, frame: &str) -> Result<TokenCheck, Outcome> {
        let text = match engineio::decode(frame) {
            Ok(engineio::Packet::Message(text)) => text,
            Ok(engineio::Packet::Ping(data)) => return Err(self.count_idle_frame(Some(engineio::pong_frame(data)))),
            Ok(engineio::Packet::Close) => return Err(Outcome::close(CLOSED_BY_CLIENT)),
            Ok(engineio::Packet::Pong | engineio::Packet::Handshake) => return Err(self.count_idle_frame(None)),
            Err(_) => return Err(Outcome::close(PARSE_ERROR)),
        };
        match socketio::decode(text) {
            Ok(Packet::Connect { namespace: NAMESPACE, auth }) => {
                match read_object(auth.map_or("{}", RawValue::get)).and_then(ConnectAuth::validate) {
                    Ok(auth) => Ok(TokenCheck { connecting: self, auth }),
                    Err(error) if error.field == "token" => Err(self.refuse(NAMESPACE, INVALID_TOKEN)),
                    Err(error) => Err(self.refuse(NAMESPACE, &format!("Invalid auth. {error}"))),
                }
            }
            Ok(Packet::Connect { namespace, .. }) => Err(self.refuse(namespace, "Invalid namespace")),
            Ok(Packet::Disconnect { .. }) => Err(Outcome::close(CLOSED_BY_CLIENT)),
            Ok(packet) => Err(Outcome::close(unexpected_reason(&packet))),
            Err(error) => Err(Outcome::close(close_reason(&error))),
        }
    }

    fn count_idle_frame(self, pong: Option<String>) -> Outcome {
        if self.idle_frames == MAX_IDLE_FRAMES {
            return Outcome::close(TOO_MANY_IDLE_FRAMES);
        }
        let next = Ok(Self { idle_frames: self.idle_frames + 1, ..self });
        Outcome { is_refused: false, reply: pong, next }
    }

    fn refuse(self, namespace: &str, message: &str) -> Outcome {
        let refused_frames = self.refused_frames + 1;
        let next =
            if refused_frames < MAX_REFUSALS { Ok(Self { refused_frames, ..self }) } else { Err(TOO_MANY_REFUSALS) };
        Outcome { is_refused: true, reply: Some(socketio::connect_error_frame(namespace, message)), next }
    }
}

impl TokenCheck {
    /// Returns the credential of the upgrade request's token, which counts if the packet has no token.
    pub fn upgrade_credential(&self) -> Option<Credential> {
        // An earlier version stored no credential.
        let stored = || self.connecting.credential.as_deref().and_then(Credential::parse).unwrap_or(Credential::Shared);
        (self.connecting.upgrade == Upgrade::Authenticated).then(stored)
    }

    /// Accepts or refuses the packet. `granted` is the namespace and the credential of the valid token, `own` the namespace to which the
    /// socket belongs; `None` if the token chooses the namespace.
    pub fn decide(
        self,
        own: Option<&Namespace>,
        granted: Option<(Namespace, Credential)>,
    ) -> Result<Verified, Outcome> {
        let Self { connecting, auth } = self;
        let Some((namespace, credential)) = granted else { return Err(connecting.refuse(NAMESPACE, INVALID_TOKEN)) };
        let is_foreign = own.is_some_and(|own| *own != namespace);
        let refusal = if is_foreign && connecting.upgrade == Upgrade::Authenticated {
            "Invalid token: it is for another namespace than the token of the upgrade request"
        } else if auth.namespace.as_ref().is_some_and(|named| named != namespace.as_str()) {
            "Invalid namespace: the token is for another one"
        } else if is_foreign {
            "Invalid token: it is for another namespace"
        } else {
            return Ok(Verified { connecting, auth, namespace, credential });
        };
        Err(connecting.refuse(NAMESPACE, refusal))
    }
}

impl Verified {
    /// Refuses the packet, because its token was revoked meanwhile.
    pub fn refuse_revoked(self) -> Outcome {
        self.connecting.refuse(NAMESPACE, INVALID_TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = r#"40/cli,{"token":"t"}"#;

    fn receive(frame: &str) -> Outcome {
        Connecting::new(5, Upgrade::Unauthenticated).receive(frame).unwrap_err()
    }

    #[test]
    fn the_client_may_disconnect_before_connect() {
        for disconnect in ["1", "41", "41/cli,"] {
            assert_eq!(receive(disconnect), Outcome::close((1000, "")), "{disconnect}");
        }
    }

    #[test]
    fn the_third_refusal_closes_wherever_the_packet_was_refused() {
        let granted = || Some((Namespace::parse("team").unwrap(), Credential::Shared));
        let first = receive("40/web,").next.unwrap();
        let second = first.receive(VALID).unwrap().decide(None, None).unwrap_err();
        assert!(second.is_refused);
        let third = second.next.unwrap().receive(VALID).unwrap().decide(None, granted()).unwrap().refuse_revoked();
        assert_eq!(third.next, Err(TOO_MANY_REFUSALS));
        assert_eq!(third.reply, Some(socketio::connect_error_frame(NAMESPACE, INVALID_TOKEN)));
    }

    #[test]
    fn the_token_of_the_upgrade_counts_only_for_an_authenticated_socket() {
        let credential = |upgrade, credential: Option<&str>| {
            let state = Connecting { credential: credential.map(str::to_owned), ..Connecting::new(5, upgrade) };
            state.receive("40/cli,").unwrap().upgrade_credential()
        };
        assert_eq!(credential(Upgrade::Authenticated, Some("d")), Some(Credential::Device("d".into())));
        assert_eq!(credential(Upgrade::Authenticated, None), Some(Credential::Shared));
        assert_eq!(credential(Upgrade::Bridged, None), None);
    }
}
