//! The sockets of a namespace: who is at their other end, and which of them concern a session or a machine.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::hub::peers::subscription::{Format, Subscription};
use crate::hub::peers::unread::Unread;
use crate::hub::ports::ConnId;
use crate::model::owner::Owner;
use crate::model::vocabulary::Vocabulary;

/// Who is at the other end of a socket. This is the socket's attachment: it restores the same state after a sleep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Peer {
    /// The transport is open, the CONNECT packet has not come yet.
    Opening(Opening),
    /// A CLI.
    Cli(Cli),
    /// A web client, or the worker that turns its frames into SSE.
    Web(Subscription),
}

/// What is known of a CLI's socket when it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Upgrade {
    /// Nothing: no good token came yet.
    Bare,
    /// A good token for this namespace came with the upgrade, so that CONNECT need not carry one.
    Authenticated,
    /// The worker greeted the client and read a good CONNECT, which follows.
    Bridged,
}

/// A socket before its CONNECT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opening {
    /// When the transport was opened.
    pub since: u64,
    /// What was known of it then.
    pub upgrade: Upgrade,
    /// How many of its frames were refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u32,
    /// How many of its frames meant nothing: pings, and packets without meaning here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A connected CLI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cli {
    /// The session it named and owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The machine it named and owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The RPC methods it serves, as it registered them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Its last sign of life for the session that it named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_alive_at: Option<u64>,
    /// Its last sign of life for the machine that it named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_alive_at: Option<u64>,
    /// Whether a ping waits for its answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
}

impl Cli {
    /// Its last sign of life for a session or machine that it named.
    pub fn alive_at(&self, owner: &Owner) -> Option<u64> {
        match owner {
            _ if !self.speaks_for(owner) => None,
            Owner::Session(_) => self.session_alive_at,
            Owner::Machine(_) => self.machine_alive_at,
        }
    }

    /// The same CLI after a sign of life for a session or machine that it named.
    pub fn signed(&self, owner: &Owner, now: u64) -> Self {
        match owner {
            Owner::Session(_) => Self { session_alive_at: Some(now), ..self.clone() },
            Owner::Machine(_) => Self { machine_alive_at: Some(now), ..self.clone() },
        }
    }

    /// Whether it named this session or machine.
    pub fn speaks_for(&self, owner: &Owner) -> bool {
        match owner {
            Owner::Session(id) => self.session.as_ref() == Some(id),
            Owner::Machine(id) => self.machine.as_ref() == Some(id),
        }
    }

    /// Whose method a name means, and the interface's own name of the method. A name is prefixed with the id of the
    /// session or machine that the socket named, or bare; any other prefix is not this socket's to use.
    pub fn scope<'n>(&self, name: &'n str, vocabulary: &Vocabulary) -> Option<(Owner, &'n str)> {
        let (owner, method) = self.unprefixed(name)?;
        Some((owner, vocabulary.method(method)))
    }

    /// Forgets a method under whatever name it was registered: `m` and `<session>:m` are one, and so are two words for it.
    pub fn forget(&mut self, name: &str, vocabulary: &Vocabulary) {
        let mut methods = std::mem::take(&mut self.methods);
        let forgotten = self.scope(name, vocabulary);
        methods.retain(|known| self.scope(known, vocabulary) != forgotten);
        self.methods = methods;
    }

    fn unprefixed<'n>(&self, name: &'n str) -> Option<(Owner, &'n str)> {
        let after = |id: &Option<String>| name.strip_prefix(id.as_deref()?)?.strip_prefix(':');
        if let Some(method) = after(&self.session) {
            return self.session.clone().map(|id| (Owner::Session(id), method));
        }
        if let Some(method) = after(&self.machine) {
            return self.machine.clone().map(|id| (Owner::Machine(id), method));
        }
        if name.contains(':') {
            return None;
        }
        let session = self.session.clone().map(Owner::Session);
        session.or_else(|| self.machine.clone().map(Owner::Machine)).map(|owner| (owner, name))
    }
}

/// A socket.
#[derive(Debug)]
pub struct Connection {
    /// Who is at the other end.
    pub peer: Peer,
    /// Frames that came while an earlier one was still waiting for something: a socket's frames take effect in order.
    pub inbox: VecDeque<String>,
    /// How many bytes those are.
    pub waiting: usize,
    /// Whether a frame of this socket is being handled.
    pub busy: bool,
    /// What it was sent and may not have read yet.
    pub unread: Unread,
}

impl Connection {
    fn new(peer: Peer) -> Self {
        Self { peer, inbox: VecDeque::new(), waiting: 0, busy: false, unread: Unread::default() }
    }

    /// Whether it is a stream's: the worker is its reader, so its client cannot fill the object's memory.
    fn is_stream(&self) -> bool {
        matches!(self.peer, Peer::Web(Subscription { format: Format::Sse, .. }))
    }
}

/// All sockets, with indexes for those that concern one session or machine.
#[derive(Debug, Default)]
pub struct Connections {
    all: BTreeMap<ConnId, Connection>,
    opening: BTreeSet<ConnId>,
    by_session: HashMap<String, Vec<ConnId>>,
    by_machine: HashMap<String, Vec<ConnId>>,
}

impl Connections {
    /// Adds a socket, or makes a known one another peer.
    pub fn put(&mut self, conn: ConnId, peer: Peer) {
        if let Some(old) = self.all.get(&conn).map(|c| c.peer.clone()) {
            self.unindex(conn, &old);
        }
        if let Peer::Opening(_) = &peer {
            self.opening.insert(conn);
        }
        if let Peer::Cli(cli) = &peer {
            if let Some(id) = &cli.session {
                self.by_session.entry(id.clone()).or_default().push(conn);
            }
            if let Some(id) = &cli.machine {
                self.by_machine.entry(id.clone()).or_default().push(conn);
            }
        }
        match self.all.get_mut(&conn) {
            Some(connection) => connection.peer = peer,
            None => {
                self.all.insert(conn, Connection::new(peer));
            }
        }
    }

    /// Forgets a socket.
    pub fn remove(&mut self, conn: ConnId) -> Option<Peer> {
        let connection = self.all.remove(&conn)?;
        self.unindex(conn, &connection.peer);
        Some(connection.peer)
    }

    fn unindex(&mut self, conn: ConnId, peer: &Peer) {
        fn drop_from(index: &mut HashMap<String, Vec<ConnId>>, id: &str, conn: ConnId) {
            if let Some(conns) = index.get_mut(id) {
                conns.retain(|c| *c != conn);
                if conns.is_empty() {
                    index.remove(id);
                }
            }
        }
        self.opening.remove(&conn);
        if let Peer::Cli(cli) = peer {
            if let Some(id) = &cli.session {
                drop_from(&mut self.by_session, id, conn);
            }
            if let Some(id) = &cli.machine {
                drop_from(&mut self.by_machine, id, conn);
            }
        }
    }

    /// A socket.
    pub fn get(&self, conn: ConnId) -> Option<&Connection> {
        self.all.get(&conn)
    }

    /// A socket, to be changed. Its session and machine may only change through [`put`](Self::put).
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.all.get_mut(&conn)
    }

    /// The CLI at the other end of a socket.
    pub fn cli(&self, conn: ConnId) -> Option<&Cli> {
        match &self.all.get(&conn)?.peer {
            Peer::Cli(cli) => Some(cli),
            _ => None,
        }
    }

    /// The CLI sockets that named a session or machine.
    pub fn of(&self, owner: &Owner) -> &[ConnId] {
        match owner {
            Owner::Session(id) => self.of_session(id),
            Owner::Machine(id) => self.of_machine(id),
        }
    }

    /// The CLI sockets that named a session.
    pub fn of_session(&self, id: &str) -> &[ConnId] {
        self.by_session.get(id).map_or(&[], Vec::as_slice)
    }

    /// The CLI sockets that named a machine.
    pub fn of_machine(&self, id: &str) -> &[ConnId] {
        self.by_machine.get(id).map_or(&[], Vec::as_slice)
    }

    /// All sockets in the order of their coming.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.all.iter().map(|(conn, connection)| (*conn, connection))
    }

    /// The web clients with their sockets.
    pub fn subscriptions(&self) -> impl Iterator<Item = (ConnId, &Subscription)> {
        self.iter().filter_map(|(conn, connection)| match &connection.peer {
            Peer::Web(subscription) => Some((conn, subscription)),
            _ => None,
        })
    }

    /// Whether somebody looks at a page of the hub.
    pub fn is_watched(&self, now: u64) -> bool {
        self.subscriptions().any(|(_, subscription)| subscription.is_watching(now))
    }

    /// A frame is to go to a client. Answers whether it may: whether the client reads.
    pub fn reads(&mut self, conn: ConnId, bytes: usize) -> bool {
        self.all.get_mut(&conn).is_some_and(|connection| connection.is_stream() || connection.unread.send(bytes))
    }

    /// All web clients were sent a heartbeat.
    pub fn beat(&mut self) {
        let web_sockets = self.all.values_mut().filter(|c| matches!(c.peer, Peer::Web(_)) && !c.is_stream());
        web_sockets.for_each(|connection| connection.unread.beat());
    }

    /// The sockets still without CONNECT.
    pub fn opening(&self) -> impl Iterator<Item = (ConnId, &Opening)> {
        self.opening.iter().filter_map(|conn| match &self.all.get(conn)?.peer {
            Peer::Opening(opening) => Some((*conn, opening)),
            _ => None,
        })
    }

    /// Those of them that have sent no CONNECT: one that is being checked has come in time.
    pub fn silent(&self) -> impl Iterator<Item = (ConnId, &Opening)> {
        self.opening().filter(|(conn, _)| self.all.get(conn).is_some_and(|connection| !connection.busy))
    }

    /// How many sockets there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no socket at all.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sockets of connected CLIs.
    pub fn clis(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.iter().filter(|(_, connection)| matches!(connection.peer, Peer::Cli(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cli(session: &str) -> Peer {
        Peer::Cli(Cli { session: Some(session.into()), ..Cli::default() })
    }

    #[test]
    fn an_attachment_restores_the_same_peer() {
        let peers = [
            Peer::Opening(Opening { since: 5, upgrade: Upgrade::Bridged, refused: 2, idle: 3 }),
            Peer::Cli(Cli {
                session: Some("s".into()),
                machine: Some("m".into()),
                methods: vec!["s:gitStatus".into()],
                session_alive_at: Some(7),
                machine_alive_at: Some(8),
                unanswered: true,
            }),
            Peer::Web(Subscription {
                id: "sub".into(),
                all: true,
                visible: true,
                seen_at: 8,
                answers: true,
                format: Format::Sse,
                expires_at: Some(9),
                ..Default::default()
            }),
        ];
        for peer in peers {
            let attachment = serde_json::to_string(&peer).unwrap();
            assert_eq!(serde_json::from_str::<Peer>(&attachment).unwrap(), peer);
        }
    }

    #[test]
    fn a_method_may_only_be_registered_under_what_the_socket_named() {
        let cli = Cli { session: Some("s".into()), machine: Some("m:1".into()), ..Cli::default() };
        let none = Vocabulary::default();
        assert_eq!(cli.scope("s:read", &none), Some((Owner::Session("s".into()), "read")));
        assert_eq!(cli.scope("m:1:spawn", &none), Some((Owner::Machine("m:1".into()), "spawn")));
        assert_eq!(cli.scope("read", &none), Some((Owner::Session("s".into()), "read")));
        assert_eq!(cli.scope("t:read", &none), None);
        assert_eq!(Cli::default().scope("read", &none), None);
    }

    #[test]
    fn a_method_of_another_name_is_the_interfaces_own_wherever_its_prefix_is_gone() {
        let cli = Cli { session: Some("s".into()), machine: Some("m".into()), ..Cli::default() };
        let words = Vocabulary::parse(r#"{"methods":{"read-file":"readFile"}}"#).unwrap();
        for name in ["s:read-file", "read-file", "s:readFile"] {
            assert_eq!(cli.scope(name, &words), Some((Owner::Session("s".into()), "readFile")), "{name}");
        }
        assert_eq!(cli.scope("m:read-file", &words), Some((Owner::Machine("m".into()), "readFile")));
        assert_eq!(cli.scope("t:read-file", &words), None);
    }

    #[test]
    fn the_sockets_of_a_session_follow_its_clis_as_they_come_and_go() {
        let mut connections = Connections::default();
        connections.put(1, Peer::Opening(Opening { since: 0, upgrade: Upgrade::Bare, refused: 0, idle: 0 }));
        connections.put(1, cli("a"));
        connections.put(2, cli("a"));
        assert_eq!(connections.of_session("a"), [1, 2]);
        connections.put(2, cli("b"));
        connections.remove(1);
        assert!(connections.of_session("a").is_empty());
        assert_eq!(connections.of_session("b"), [2]);
    }
}
