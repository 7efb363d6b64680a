//! Letting CLIs in: from the open packet to a good CONNECT, or to the end of the time that a socket has for one.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::auth::token::AccessTokens;
use crate::hub::error::{Error, Kind};
use crate::hub::limits::{
    CONNECT_TIMEOUT_MS, MAX_FRAME_BYTES, MAX_IDLE_FRAMES, MAX_REFUSALS, MAX_SOCKETS, MAX_UNAUTHENTICATED,
    PING_INTERVAL_MS, PING_TIMEOUT_MS,
};
use crate::hub::peers::connections::{Cli, Connecting, Peer, Upgrade};
use crate::hub::ports::ConnId;
use crate::hub::state::schedule::next_tick;
use crate::hub::{Hub, storage_keys};
use crate::model::namespace::Namespace;
use crate::wire::cli::ConnectAuth;
use crate::wire::cli::NAMESPACE;
use crate::wire::engineio::{self, Handshake};
use crate::wire::fields::read_object;
use crate::wire::socketio::{self, Packet};

/// The close reason of a socket whose frame before CONNECT was too large.
pub const FRAME_TOO_LARGE: &str = "A frame before CONNECT is answered may have at most 16 KiB";
/// Why a socket is closed whose time for CONNECT is over.
pub const NO_CONNECT: &str = "No CONNECT packet came";
/// Why a socket is closed that had so many refused.
pub const TOO_MANY_REFUSALS: &str = "No good CONNECT packet came: too many were refused";
/// Why a socket is closed of which so many frames meant nothing.
pub const TOO_MANY_IDLE_FRAMES: &str = "No CONNECT packet came, but too many other frames";

/// The open packet for a CLI.
pub fn greeting(sid: &str) -> String {
    Handshake { sid, ping_interval: PING_INTERVAL_MS, ping_timeout: PING_TIMEOUT_MS, max_payload: MAX_FRAME_BYTES }
        .encode()
}

/// What a frame that came before a good CONNECT means.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// A CONNECT packet that may connect to this namespace.
    Granted {
        /// The namespace that the token opens.
        namespace: Namespace,
        /// What else the packet names.
        auth: ConnectAuth,
    },
    /// It is answered with this CONNECT_ERROR frame. A socket has [`MAX_REFUSALS`] of them.
    Refused(String),
    /// A ping of the client, which is answered with this frame. A socket has [`MAX_IDLE_FRAMES`] of pings and what is
    /// ignored.
    Pong(String),
    /// The client leaves.
    Left,
    /// A packet without meaning here.
    Ignored,
}

/// Reads a frame that came before a good CONNECT. `upgrade` is the namespace of a token that came with the upgrade. Used
/// by the object always, and by the worker before it knows the object.
pub fn admission(tokens: &AccessTokens, upgrade: Option<&Namespace>, frame: &str) -> Admission {
    let text = match engineio::decode(frame) {
        Ok(engineio::Packet::Message(text)) => text,
        Ok(engineio::Packet::Ping(data)) => return Admission::Pong(engineio::Packet::Pong(data).encode()),
        Ok(engineio::Packet::Close) => return Admission::Left,
        Ok(_) => return Admission::Ignored,
        Err(error) => return refused(NAMESPACE, &format!("{error}.")),
    };
    match socketio::decode(text) {
        Ok(Packet::Connect { namespace, auth }) => admit(tokens, upgrade, namespace, auth),
        Ok(Packet::Disconnect { .. }) => Admission::Left,
        Ok(packet) => refused(packet.namespace(), "Not connected: send a CONNECT packet first"),
        Err(error) => refused(error.namespace().unwrap_or(NAMESPACE), &format!("{error}.")),
    }
}

/// The CONNECT_ERROR frame that answers a binary frame before CONNECT.
pub fn binary_refusal() -> String {
    socketio::connect_error_frame(NAMESPACE, "Not connected, and binary is not supported: send a CONNECT packet first")
}

fn refused(namespace: &str, message: &str) -> Admission {
    Admission::Refused(socketio::connect_error_frame(namespace, message))
}

fn admit(tokens: &AccessTokens, upgrade: Option<&Namespace>, namespace: &str, auth: Option<&RawValue>) -> Admission {
    if namespace != NAMESPACE {
        return refused(namespace, "Invalid namespace");
    }
    let auth: ConnectAuth = match read_object(auth.map_or("{}", RawValue::get)) {
        Ok(auth) => auth,
        Err(error) => return refused(NAMESPACE, &format!("Invalid auth. {error}")),
    };
    let granted = match &auth.token {
        Some(token) => tokens.verify(token),
        None => upgrade.cloned(),
    };
    let Some(granted) = granted else { return refused(NAMESPACE, "Invalid token") };
    if upgrade.is_some_and(|upgrade| *upgrade != granted) {
        let message = "Invalid token: it is for another namespace than the one that came with the upgrade";
        return refused(NAMESPACE, message);
    }
    if auth.namespace.as_ref().is_some_and(|named| named != granted.as_ref()) {
        return refused(NAMESPACE, "Invalid namespace: the token is for another one");
    }
    Admission::Granted { namespace: granted, auth }
}

impl Hub {
    /// Whether there is room for one more socket at all.
    pub fn has_room(&self) -> bool {
        self.state().connections.len() < MAX_SOCKETS
    }

    /// Whether one more CLI may open a socket. Those without a token never keep out those with one.
    pub fn has_room_for(&self, upgrade: Upgrade) -> bool {
        let bare = |(_, connecting): &(ConnId, &Connecting)| connecting.upgrade == Upgrade::Unauthenticated;
        let strangers = self.state().connections.connecting().filter(bare).count();
        self.has_room() && (upgrade != Upgrade::Unauthenticated || strangers < MAX_UNAUTHENTICATED)
    }

    /// A CLI's socket is open.
    pub fn open_cli(&self, conn: ConnId, upgrade: Upgrade) {
        let now = self.rt.now();
        if upgrade != Upgrade::Bridged {
            self.rt.send(&[conn], &greeting(&self.new_id()));
        }
        let mut state = self.state();
        self.set_peer(&mut state, conn, Peer::Connecting(Connecting::new(now, upgrade)));
        self.request_alarm(&mut state, Some(now + CONNECT_TIMEOUT_MS));
    }

    /// Somebody with a good token is here: from now on the notebook keeps the namespace, which alarms and frames come
    /// without. Whoever shows none leaves nothing behind.
    pub fn note_namespace(&self) {
        if !std::mem::replace(&mut self.state().namespace_stored, true) {
            self.rt.kv_put(storage_keys::NAMESPACE, self.config.namespace.as_ref());
        }
    }

    /// Whether nobody with a good token was ever here, and nobody waits to be let in: such an object keeps nothing.
    pub fn is_unused(&self) -> bool {
        let state = self.state();
        !state.namespace_stored && state.connections.is_empty()
    }

    /// A frame came before a good CONNECT.
    pub(in crate::hub) async fn on_first(self: &Arc<Self>, conn: ConnId, connecting: Connecting, frame: &str) {
        let own = &self.config.namespace;
        let shown = (connecting.upgrade == Upgrade::Authenticated).then_some(own);
        match admission(&self.config.tokens, shown, frame) {
            Admission::Granted { namespace, auth } if namespace == *own => self.connect(conn, auth).await,
            Admission::Granted { .. } => {
                let message = "Invalid token: it is for another namespace";
                self.refuse_connect(conn, connecting, &socketio::connect_error_frame(NAMESPACE, message));
            }
            Admission::Refused(frame) => self.refuse_connect(conn, connecting, &frame),
            Admission::Pong(frame) => self.pass_over(conn, connecting, Some(&frame)),
            Admission::Left => self.disconnect(&mut self.state(), conn, 1000, ""),
            Admission::Ignored => self.pass_over(conn, connecting, None),
        }
    }

    /// A frame before CONNECT means nothing, save for what a ping is answered; one too many of them costs the socket.
    fn pass_over(&self, conn: ConnId, mut connecting: Connecting, pong: Option<&str>) {
        connecting.idle_frames += 1;
        if connecting.idle_frames > MAX_IDLE_FRAMES {
            return self.disconnect(&mut self.state(), conn, 1008, TOO_MANY_IDLE_FRAMES);
        }
        pong.into_iter().for_each(|pong| self.rt.send(&[conn], pong));
        self.set_peer(&mut self.state(), conn, Peer::Connecting(connecting));
    }

    /// Refuses a frame before CONNECT, and with the last one that a socket has the socket.
    pub(in crate::hub) fn refuse_connect(&self, conn: ConnId, mut connecting: Connecting, refusal: &str) {
        self.rt.send(&[conn], refusal);
        connecting.refused_frames += 1;
        if connecting.refused_frames < MAX_REFUSALS {
            return self.set_peer(&mut self.state(), conn, Peer::Connecting(connecting));
        }
        self.disconnect(&mut self.state(), conn, 1008, TOO_MANY_REFUSALS);
    }

    async fn connect(self: &Arc<Self>, conn: ConnId, auth: ConnectAuth) {
        self.note_namespace();
        let session = self.named(Kind::Session, auth.session_id).await;
        let machine = self.named(Kind::Machine, auth.machine_id).await;
        let (Ok(session), Ok(machine)) = (session, machine) else {
            // The client comes back by itself, which a CONNECT_ERROR would keep it from.
            return self.disconnect_to_resync([conn]);
        };
        let cli = Cli { session: session.owned(), machine: machine.owned(), ..Cli::default() };
        {
            let mut state = self.state();
            // It may have gone while the database was asked.
            if state.connections.get(conn).is_none() {
                return;
            }
            self.start_ticks(&mut state);
            self.set_peer(&mut state, conn, Peer::Cli(cli));
            self.request_alarm(&mut state, Some(next_tick(self.rt.now(), PING_INTERVAL_MS)));
        }
        self.rt.send(&[conn], &socketio::connect_frame(NAMESPACE, &self.new_id()));
        for (kind, named) in [(Kind::Session, session), (Kind::Machine, machine)] {
            if let Named::Refused(id, error) = named {
                self.send_refusal(conn, kind, &id, &error);
            }
        }
    }

    /// Whether an id that a CLI named is its namespace's.
    async fn named(self: &Arc<Self>, kind: Kind, id: Option<String>) -> Result<Named, Error> {
        let Some(id) = id else { return Ok(Named::Nothing) };
        let loaded = match kind {
            Kind::Machine => self.load_machine(&id).await,
            Kind::Session | Kind::Subscription | Kind::Request => self.load_session(&id).await,
        };
        match loaded {
            Ok(()) => Ok(Named::Owned(id)),
            Err(error @ (Error::Foreign(_) | Error::Missing(_))) => Ok(Named::Refused(id, error)),
            Err(error) => Err(error),
        }
    }

    /// Closes the sockets that did not connect in time.
    pub(in crate::hub) fn expire_connecting(&self, now: u64) {
        let late: Vec<ConnId> = {
            let state = self.state();
            let late = state
                .connections
                .awaiting_connect()
                .filter(|(_, connecting)| connecting.opened_at + CONNECT_TIMEOUT_MS <= now);
            late.map(|(conn, _)| conn).collect()
        };
        for conn in late {
            self.disconnect(&mut self.state(), conn, 1008, NO_CONNECT);
        }
    }
}

/// What became of an id that a CLI named.
enum Named {
    Nothing,
    Owned(String),
    Refused(String, Error),
}

impl Named {
    fn owned(&self) -> Option<String> {
        match self {
            Self::Owned(id) => Some(id.clone()),
            Self::Nothing | Self::Refused(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> AccessTokens {
        AccessTokens::new("secret", false)
    }

    /// What CONNECT with this payload means, after an upgrade with or without a token.
    fn connect(upgrade: Option<&Namespace>, auth: &str) -> Admission {
        admission(&tokens(), upgrade, &format!("40/cli,{auth}"))
    }

    fn refusal(admission: Admission) -> String {
        match admission {
            Admission::Refused(frame) => frame,
            granted => panic!("{granted:?}"),
        }
    }

    #[test]
    fn a_token_opens_its_namespace_and_no_other() {
        let auth = r#"{"token":"secret:team","sessionId":"s","clientType":"x","other":1}"#;
        let Admission::Granted { namespace, auth } = connect(None, auth) else { panic!() };
        assert_eq!((namespace.as_ref(), auth.session_id.as_deref()), ("team", Some("s")));
        let contradiction = connect(None, r#"{"token":"secret:team","namespace":"other"}"#);
        assert!(refusal(contradiction).contains("Invalid namespace"));
    }

    #[test]
    fn a_connect_without_a_good_token_is_refused_as_the_official_client_expects() {
        for auth in ["", "{}", r#"{"token":"wrong"}"#] {
            assert_eq!(refusal(connect(None, auth)), r#"44/cli,{"message":"Invalid token"}"#);
        }
        assert_eq!(refusal(admission(&tokens(), None, "40")), r#"44{"message":"Invalid namespace"}"#);
        assert!(refusal(connect(None, r#"{"token":5}"#)).contains("`token`"));
    }

    #[test]
    fn a_token_may_come_with_the_upgrade_instead() {
        let team = Namespace::parse("team").unwrap();
        let granted = connect(Some(&team), "");
        assert!(matches!(granted, Admission::Granted { namespace, .. } if namespace == team));
        let other = connect(Some(&team), r#"{"token":"secret:other"}"#);
        assert!(refusal(other).contains("Invalid token"));
    }

    #[test]
    fn the_client_may_ping_and_leave_before_it_connects() {
        assert_eq!(admission(&tokens(), None, "2probe"), Admission::Pong("3probe".into()));
        for goodbye in ["1", "41", "41/cli,"] {
            assert_eq!(admission(&tokens(), None, goodbye), Admission::Left, "{goodbye}");
        }
        assert_eq!(admission(&tokens(), None, "6"), Admission::Ignored);
    }
}
