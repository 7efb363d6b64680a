//! Letting CLIs in: from the open packet to a good CONNECT, or to the end of the time that a socket has for one.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Hub;
use super::connections::{Cli, Opening, Peer};
use super::error::{Error, Kind};
use super::ports::ConnId;
use super::schedule::{PING_MS, PING_TIMEOUT_MS, next_beat};
use super::sockets::{MAX_FRAME_BYTES, NAMESPACE};
use crate::auth::token::AccessTokens;
use crate::model::namespace::Namespace;
use crate::wire::cli::ConnectAuth;
use crate::wire::engineio::Handshake;
use crate::wire::fields::read_object;
use crate::wire::socketio;

/// How many sockets may wait for their CONNECT at once (decisions.md).
const MAX_OPENING: usize = 200;
/// How long a socket may take to connect, in milliseconds.
pub const OPENING_MS: u64 = 10_000;

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

    pub(super) async fn connect(
        self: &Arc<Self>,
        conn: ConnId,
        opening: &Opening,
        namespace: &str,
        auth: Option<&RawValue>,
    ) {
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
