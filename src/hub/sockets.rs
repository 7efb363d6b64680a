//! CLI sockets: Engine.IO and Socket.IO as the official client speaks them, from the open packet to the close.
//! Frames of one socket take effect in the order they came, also when one of them has to wait for a session to load.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::connections::{Cli, MAX_OPENING, OPENING_MS, Opening, Peer};
use super::error::{Error, Kind};
use super::ports::ConnId;
use super::rpc::Owner;
use super::schedule::{PING_MS, PING_TIMEOUT_MS, next_beat};
use super::{Hub, State, note_key};
use crate::auth::token::AccessTokens;
use crate::model::namespace::Namespace;
use crate::wire::cli::{ConnectAuth, ErrorEvent, UpdateBody, update};
use crate::wire::engineio::{self, Handshake};
use crate::wire::fields::read_object;
use crate::wire::socketio::{self, AckId, Packet};

/// The Socket.IO namespace of CLIs.
pub const NAMESPACE: &str = "/cli";
/// The largest frame a CLI may send, in bytes: the runtime closes a WebSocket on a larger one.
pub const MAX_FRAME_BYTES: u64 = 32 * 1024 * 1024;
/// The longest attachment, in bytes (platform limit 16,384 with its framing).
const MAX_ATTACHMENT: usize = 16_000;
/// How many bytes of one socket's frames may wait while an earlier one is being handled.
const MAX_WAITING: usize = 48 * 1024 * 1024;

/// What is known of a CLI's socket when it opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upgrade {
    /// A good token for this namespace came with the upgrade.
    pub authenticated: bool,
    /// The worker greeted the client already, while it did not know the namespace.
    pub greeted: bool,
}

/// The open packet for a CLI.
pub fn greeting(sid: &str) -> String {
    Handshake { sid, ping_interval: PING_MS, ping_timeout: PING_TIMEOUT_MS, max_payload: MAX_FRAME_BYTES }.encode()
}

/// An `update` event as a frame.
pub(super) fn update_frame(id: &str, seq: u64, now: u64, body: &UpdateBody<'_>) -> String {
    socketio::event(NAMESPACE, None, "update", &[&update(id, seq, now, body)])
}

/// What a CONNECT packet asks for, checked as far as the tokens go.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may connect to this namespace.
    Granted { namespace: Namespace, auth: ConnectAuth },
    /// It is answered with this CONNECT_ERROR frame.
    Refused(String),
}

/// Checks a CONNECT packet. `upgrade` is the namespace of a token that came with the upgrade. Used by the object always,
/// and by the worker before it knows the object.
pub fn admit(
    tokens: &AccessTokens,
    upgrade: Option<&Namespace>,
    namespace: &str,
    auth: Option<&RawValue>,
) -> Admission {
    let refuse = |message: &str| Admission::Refused(socketio::connect_error(namespace, message));
    if namespace != NAMESPACE {
        return refuse("Invalid namespace");
    }
    let auth: ConnectAuth = match read_object(auth.map_or("{}", RawValue::get)) {
        Ok(auth) => auth,
        Err(error) => return refuse(&format!("Invalid auth. {error}")),
    };
    let granted = match &auth.token {
        Some(token) => tokens.verify(token),
        None => upgrade.cloned(),
    };
    let Some(granted) = granted else { return refuse("Invalid token") };
    if upgrade.is_some_and(|upgrade| *upgrade != granted) {
        return refuse("Invalid token: it is for another namespace than the one that came with the upgrade");
    }
    if auth.namespace.as_ref().is_some_and(|named| named != granted.as_ref()) {
        return refuse("Invalid namespace: the token is for another one");
    }
    Admission::Granted { namespace: granted, auth }
}

impl Hub {
    /// Whether one more socket may wait for its CONNECT.
    pub fn has_room(&self) -> bool {
        self.state().connections.opening().count() < MAX_OPENING
    }

    /// A CLI's socket is open.
    pub fn open_cli(&self, conn: ConnId, upgrade: &Upgrade) {
        let now = self.rt.now();
        if !upgrade.greeted {
            self.rt.send(&[conn], &greeting(&self.new_id()));
        }
        let mut state = self.state();
        self.put_peer(&mut state, conn, Peer::Opening(Opening { since: now, authenticated: upgrade.authenticated }));
        self.want_alarm(&mut state, Some(now + OPENING_MS));
    }

    /// Makes a socket a peer, in memory and in its attachment.
    pub(super) fn put_peer(&self, state: &mut State, conn: ConnId, peer: Peer) {
        self.rt.attach(conn, &serde_json::to_string(&peer).unwrap_or_default());
        state.connections.put(conn, peer);
    }

    /// A text frame came in.
    pub async fn on_text(self: &Arc<Self>, conn: ConnId, text: String) {
        {
            let mut state = self.state();
            let Some(connection) = state.connections.get_mut(conn) else { return };
            if connection.busy {
                connection.waiting += text.len();
                connection.inbox.push_back(text);
                let flooded = connection.waiting > MAX_WAITING;
                drop(state);
                if flooded {
                    self.rt.close(conn, 1008, "Too many frames at once");
                    self.on_close(conn);
                }
                return;
            }
            connection.busy = true;
        }
        let mut next = Some(text);
        while let Some(text) = next {
            self.handle(conn, &text).await;
            let mut state = self.state();
            next = state.connections.get_mut(conn).and_then(|connection| {
                let next = connection.inbox.pop_front();
                connection.waiting -= next.as_ref().map_or(0, String::len);
                connection.busy = next.is_some();
                next
            });
        }
    }

    /// A binary frame came in. Nobody here speaks binary: it is an attachment of a packet that was refused already.
    pub fn on_binary(&self, conn: ConnId) {
        if self.state().connections.cli(conn).is_some() {
            self.send_error(conn, "Binary frames are not supported: send JSON.", "binary-unsupported", None);
        }
    }

    /// A socket is gone.
    pub fn on_close(&self, conn: ConnId) {
        let mut state = self.state();
        state.rpc.disconnect(conn);
        if let Some(Peer::Cli(cli)) = state.connections.remove(conn) {
            // The clock of what it spoke for starts anew, unless it said goodbye before.
            let now = self.rt.now();
            for owner in [cli.session.map(Owner::Session), cli.machine.map(Owner::Machine)].into_iter().flatten() {
                if state.liveness.depart(&owner, now) {
                    self.rt.note(&note_key(&owner), &now.to_string());
                }
            }
            let next = state.liveness.next_deadline();
            self.want_alarm(&mut state, next);
        }
    }

    async fn handle(self: &Arc<Self>, conn: ConnId, frame: &str) {
        if !self.seen(conn) {
            return;
        }
        match engineio::decode(frame) {
            Ok(engineio::Packet::Message(text)) => self.handle_packet(conn, text).await,
            Ok(engineio::Packet::Ping(data)) => self.rt.send(&[conn], &engineio::Packet::Pong(data).encode()),
            Ok(engineio::Packet::Close) => self.hang_up(conn),
            // Pongs, and packets without meaning here.
            Ok(_) => {}
            Err(error) => self.send_error(conn, &format!("{error}."), "bad-packet", None),
        }
    }

    /// Any frame answers a ping. Answers whether it came from a CLI: web clients only listen.
    fn seen(&self, conn: ConnId) -> bool {
        let mut state = self.state();
        let Some(connection) = state.connections.get_mut(conn) else { return false };
        match &mut connection.peer {
            Peer::Web(_) => return false,
            Peer::Opening(_) => {}
            Peer::Cli(cli) => {
                if std::mem::take(&mut cli.unanswered) {
                    self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
                }
            }
        }
        true
    }

    async fn handle_packet(self: &Arc<Self>, conn: ConnId, text: &str) {
        let opening = match self.state().connections.get(conn).map(|c| c.peer.clone()) {
            Some(Peer::Opening(opening)) => Some(opening),
            Some(Peer::Cli(_) | Peer::Web(_)) => None,
            None => return,
        };
        let packet = match socketio::decode(text) {
            Ok(packet) => packet,
            Err(error) if opening.is_some() => {
                let namespace = error.namespace().unwrap_or(NAMESPACE);
                return self.rt.send(&[conn], &socketio::connect_error(namespace, &format!("{error}.")));
            }
            Err(error) => return self.refuse_packet(conn, &error),
        };
        match (packet, opening) {
            (Packet::Connect { namespace, auth }, Some(opening)) => self.connect(conn, &opening, namespace, auth).await,
            (Packet::Disconnect { .. }, Some(_)) => self.hang_up(conn),
            (packet, Some(_)) => {
                let refusal = "Not connected: send a CONNECT packet first";
                self.rt.send(&[conn], &socketio::connect_error(packet.namespace(), refusal));
            }
            (Packet::Connect { namespace, .. }, None) if namespace != NAMESPACE => {
                self.rt.send(&[conn], &socketio::connect_error(namespace, "Invalid namespace"));
            }
            // What is said in a namespace that was not joined is said to nobody.
            (packet, None) if packet.namespace() != NAMESPACE => {}
            (Packet::Event { ack, name, args, .. }, None) => self.on_event(conn, ack, &name, &args).await,
            (Packet::Ack { id, args, .. }, None) => self.state().rpc.resolve(conn, id, &args),
            (Packet::Disconnect { .. }, None) => self.hang_up(conn),
            (Packet::Connect { .. } | Packet::ConnectError { .. }, None) => {}
        }
    }

    fn hang_up(&self, conn: ConnId) {
        self.rt.close(conn, 1000, "");
        self.on_close(conn);
    }

    /// A packet that can't be read: its sender hears why, as the acknowledgement where it asked for one.
    fn refuse_packet(&self, conn: ConnId, error: &socketio::DecodeError) {
        let message = format!("{error}.");
        if let Some(id) = error.answered_id() {
            self.state().rpc.unreadable(conn, id);
        }
        match error.ack_id() {
            Some(ack) => self.send_ack(conn, ack, &crate::wire::cli::message_refused(&message, "bad-packet")),
            None => self.send_error(conn, &message, "bad-packet", None),
        }
    }

    async fn connect(self: &Arc<Self>, conn: ConnId, opening: &Opening, namespace: &str, auth: Option<&RawValue>) {
        let own = &self.config.namespace;
        let upgrade = opening.authenticated.then_some(own);
        let auth = match admit(&self.config.tokens, upgrade, namespace, auth) {
            Admission::Granted { namespace, auth } if namespace == *own => auth,
            Admission::Granted { .. } => {
                let refusal = socketio::connect_error(namespace, "Invalid token: it is for another namespace");
                return self.rt.send(&[conn], &refusal);
            }
            Admission::Refused(frame) => return self.rt.send(&[conn], &frame),
        };
        let session = self.named(Kind::Session, auth.session_id).await;
        let machine = self.named(Kind::Machine, auth.machine_id).await;
        let (Ok(session), Ok(machine)) = (session, machine) else {
            // The client comes back by itself, which a CONNECT_ERROR would keep it from.
            self.rt.close(conn, 1013, "The hub can't reach its database, try again");
            return self.on_close(conn);
        };
        let cli = Cli { session: session.owned(), machine: machine.owned(), ..Cli::default() };
        {
            let mut state = self.state();
            // It may have gone while the database was asked.
            if state.connections.get(conn).is_none() {
                return;
            }
            self.begin_beats(&mut state);
            self.put_peer(&mut state, conn, Peer::Cli(cli));
            self.want_alarm(&mut state, Some(next_beat(self.rt.now(), PING_MS)));
        }
        self.rt.send(&[conn], &socketio::connect(NAMESPACE, &self.new_id()));
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

    /// Tells a CLI that an id is not its to use.
    pub(super) fn send_refusal(&self, conn: ConnId, kind: Kind, id: &str, error: &Error) {
        self.send_error(conn, &error.to_string(), event_code(error), Some((kind.word(), id)));
    }

    pub(super) fn send_error(&self, conn: ConnId, message: &str, code: &str, about: Option<(&str, &str)>) {
        let (scope, id) = about.unzip();
        let event = ErrorEvent { message: message.into(), code, scope, id }.encode();
        self.rt.send(&[conn], &socketio::event(NAMESPACE, None, "error", &[&event]));
    }

    pub(super) fn send_ack(&self, conn: ConnId, ack: AckId, answer: &str) {
        self.rt.send(&[conn], &socketio::ack(NAMESPACE, ack, &[answer]));
    }

    /// Registers a method for a socket, here and in its attachment; the error is what to tell it.
    pub(super) fn register(&self, conn: ConnId, name: &str) -> Result<(), (&'static str, &'static str)> {
        const DENIED: (&str, &str) = (
            "access-denied",
            "A method can only be registered under the session or machine that this socket named and owns.",
        );
        let mut state = self.state();
        let Some(cli) = state.connections.cli(conn) else { return Ok(()) };
        let vocabulary = &self.config.vocabulary;
        let (owner, method) = cli.scope(name, vocabulary).filter(|(_, method)| !method.is_empty()).ok_or(DENIED)?;
        let mut cli = cli.clone();
        cli.forget(name, vocabulary);
        cli.methods.push(name.to_owned());
        let peer = Peer::Cli(cli);
        if serde_json::to_string(&peer).map_or(0, |text| text.len()) > MAX_ATTACHMENT {
            return Err(("too-many-methods", "This socket has registered more methods than the hub can hold."));
        }
        let lost = state.rpc.register(owner, method, name, conn);
        self.put_peer(&mut state, conn, peer);
        // The loser forgets it, so that it is not the loser's again after a sleep.
        if let Some((loser, name)) = lost {
            self.forget_method(&mut state, loser, &name);
        }
        Ok(())
    }

    /// Takes a registration back.
    pub(super) fn unregister(&self, conn: ConnId, name: &str) {
        let mut state = self.state();
        if let Some((owner, method)) =
            state.connections.cli(conn).and_then(|cli| cli.scope(name, &self.config.vocabulary))
        {
            state.rpc.unregister(owner, method, conn);
        }
        self.forget_method(&mut state, conn, name);
    }

    fn forget_method(&self, state: &mut State, conn: ConnId, name: &str) {
        let Some(mut cli) = state.connections.cli(conn).cloned() else { return };
        cli.forget(name, &self.config.vocabulary);
        self.put_peer(state, conn, Peer::Cli(cli));
    }

    /// Pings every CLI. One that left the last ping unanswered is gone.
    pub(super) fn ping_clis(&self) {
        let mut dead = Vec::new();
        {
            let mut state = self.state();
            let conns: Vec<ConnId> = state.connections.clis().map(|(conn, _)| conn).collect();
            let mut alive = Vec::with_capacity(conns.len());
            for conn in conns {
                let Some(connection) = state.connections.get_mut(conn) else { continue };
                let Peer::Cli(cli) = &mut connection.peer else { continue };
                if std::mem::replace(&mut cli.unanswered, true) {
                    dead.push(conn);
                } else {
                    self.rt.attach(conn, &serde_json::to_string(&connection.peer).unwrap_or_default());
                    alive.push(conn);
                }
            }
            self.rt.send(&alive, &engineio::Packet::Ping("").encode());
        }
        for conn in dead {
            self.rt.close(conn, 1001, "Ping timeout");
            self.on_close(conn);
        }
    }

    /// Closes the sockets that did not connect in time.
    pub(super) fn expire_opening(&self, now: u64) {
        let late: Vec<ConnId> = {
            let state = self.state();
            let late = state.connections.opening().filter(|(_, since)| since + OPENING_MS <= now);
            // One whose CONNECT is being checked has come in time.
            let idle = |conn: &ConnId| state.connections.get(*conn).is_some_and(|connection| !connection.busy);
            late.map(|(conn, _)| conn).filter(idle).collect()
        };
        for conn in late {
            self.rt.close(conn, 1008, "No CONNECT packet came");
            self.on_close(conn);
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

/// The code of an `error` event.
pub(super) fn event_code(error: &Error) -> &'static str {
    match error {
        Error::Foreign(_) => "access-denied",
        Error::Missing(_) => "not-found",
        Error::TooLarge { .. } => "too-large",
        Error::Overloaded => "overloaded",
        Error::Unavailable(_) | Error::NotStored => "unavailable",
        _ => "bad-payload",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    fn tokens() -> AccessTokens {
        AccessTokens::new("secret", false)
    }

    fn refusal(admission: Admission) -> String {
        match admission {
            Admission::Refused(frame) => frame,
            granted => panic!("{granted:?}"),
        }
    }

    #[test]
    fn a_token_opens_its_namespace_and_no_other() {
        let auth = raw(r#"{"token":"secret:team","sessionId":"s","clientType":"x","other":1}"#);
        let Admission::Granted { namespace, auth } = admit(&tokens(), None, "/cli", Some(&auth)) else { panic!() };
        assert_eq!((namespace.as_ref(), auth.session_id.as_deref()), ("team", Some("s")));
        let contradiction = raw(r#"{"token":"secret:team","namespace":"other"}"#);
        assert!(refusal(admit(&tokens(), None, "/cli", Some(&contradiction))).contains("Invalid namespace"));
    }

    #[test]
    fn a_connect_without_a_good_token_is_refused_as_the_official_client_expects() {
        for auth in [None, Some(raw("{}")), Some(raw(r#"{"token":"wrong"}"#))] {
            let frame = refusal(admit(&tokens(), None, "/cli", auth.as_deref()));
            assert_eq!(frame, r#"44/cli,{"message":"Invalid token"}"#);
        }
        assert_eq!(refusal(admit(&tokens(), None, "/", None)), r#"44{"message":"Invalid namespace"}"#);
        assert!(refusal(admit(&tokens(), None, "/cli", Some(&raw(r#"{"token":5}"#)))).contains("`token`"));
    }

    #[test]
    fn a_token_may_come_with_the_upgrade_instead() {
        let team = Namespace::parse("team").unwrap();
        let granted = admit(&tokens(), Some(&team), "/cli", None);
        assert!(matches!(granted, Admission::Granted { namespace, .. } if namespace == team));
        let other = raw(r#"{"token":"secret:other"}"#);
        assert!(refusal(admit(&tokens(), Some(&team), "/cli", Some(&other))).contains("Invalid token"));
    }
}
