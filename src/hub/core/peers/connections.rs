//! The WebSockets of a namespace, and their peers: the clients at the other end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use futures::channel::oneshot;
use serde::{Deserialize, Serialize};

use crate::hub::core::peers::cli::Cli;
use crate::hub::core::peers::frame_queue::{FrameQueue, QueuedFrame};
use crate::hub::core::peers::send_window::SendWindow;
use crate::hub::core::peers::subscription::{Format, Subscription};
use crate::hub::core::ports::ConnId;
use crate::model::json::is_default;
use crate::model::owner::Owner;

/// How long a socket may take to send a valid CONNECT, in milliseconds.
const CONNECT_TIMEOUT_MS: u64 = 10_000;

/// The client at the other end of a socket. The socket's attachment stores the peer across hibernation. The serialized names
/// must not change: attachments survive a deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Peer {
    /// A CLI whose CONNECT packet was not accepted yet.
    #[serde(rename = "opening")]
    Connecting(Connecting),
    Cli(Cli),
    /// A web client, or the worker that copies the frames to an SSE stream.
    Web(Subscription),
}

/// How a CLI's socket was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Upgrade {
    /// The upgrade request had no token.
    #[serde(rename = "bare")]
    Unauthenticated,
    /// The upgrade request had a valid token for this namespace. The CONNECT packet needs no token.
    Authenticated,
    /// The worker accepted the socket, sent the open packet and validated the CONNECT packet, which it now forwards.
    Bridged,
}

/// A CLI's socket before its CONNECT packet is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connecting {
    /// In Unix milliseconds.
    #[serde(rename = "since")]
    pub opened_at: u64,
    pub upgrade: Upgrade,
    /// The number of frames that were answered with an error.
    #[serde(rename = "refused", default, skip_serializing_if = "is_default")]
    pub refused_frames: u32,
    /// The number of frames without effect: pings, and packets that are ignored.
    #[serde(rename = "idle", default, skip_serializing_if = "is_default")]
    pub idle_frames: u32,
    /// The text of the upgrade token's [`Credential`](crate::auth::token::Credential).
    #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

impl Connecting {
    pub fn new(now: u64, upgrade: Upgrade) -> Self {
        Self { opened_at: now, upgrade, refused_frames: 0, idle_frames: 0, credential: None }
    }

    /// Returns when the socket is closed unless it has connected, in Unix milliseconds.
    pub fn expires_at(&self) -> u64 {
        self.opened_at + CONNECT_TIMEOUT_MS
    }

    /// Takes the state to handle a frame, and leaves a state without credential and counts, so that the socket still counts as connecting.
    pub fn take(&mut self) -> Self {
        let placeholder = Self::new(self.opened_at, self.upgrade);
        std::mem::replace(self, placeholder)
    }
}

#[derive(Debug)]
pub struct Connection {
    pub peer: Peer,
    /// Frames that were received while an earlier frame was being handled.
    pub queue: FrameQueue,
    /// Whether a frame of this socket is being handled.
    pub is_busy: bool,
    pub send_window: SendWindow,
}

impl Connection {
    fn new(peer: Peer) -> Self {
        Self { peer, queue: FrameQueue::default(), is_busy: false, send_window: SendWindow::default() }
    }

    /// Whether the client has sent no CONNECT in time. The handling of a CONNECT may wait for the database.
    pub fn missed_connect(&self, now: u64) -> bool {
        matches!(&self.peer, Peer::Connecting(connecting) if !self.is_busy && connecting.expires_at() <= now)
    }

    /// Whether the token of a web client has expired.
    pub fn is_expired(&self, now: u64) -> bool {
        matches!(&self.peer, Peer::Web(web) if web.expires_at.is_some_and(|at| at <= now))
    }

    /// Whether the peer is a worker that copies the frames to an SSE stream. It reads without delay, and needs no send window.
    fn is_sse(&self) -> bool {
        matches!(self.peer, Peer::Web(Subscription { format: Format::Sse, .. }))
    }
}

/// The open sockets, with indexes by the kind of peer, and by session and machine.
#[derive(Debug, Default)]
pub struct Connections {
    all: BTreeMap<ConnId, Connection>,
    /// Sockets that their clients have closed and whose last frames are still queued.
    closed: BTreeMap<ConnId, Connection>,
    by_owner: HashMap<Owner, Vec<ConnId>>,
    web: BTreeSet<ConnId>,
    /// The web clients that receive the messages of a session.
    web_by_session: HashMap<String, Vec<ConnId>>,
}

impl Connections {
    /// Inserts a socket, or replaces its peer.
    pub fn insert(&mut self, conn: ConnId, peer: Peer) {
        let connection = match self.all.remove(&conn) {
            Some(connection) => {
                self.unindex(conn, &connection.peer);
                Connection { peer, ..connection }
            }
            None => Connection::new(peer),
        };
        match &connection.peer {
            Peer::Connecting(_) => {}
            Peer::Cli(cli) => {
                for owner in cli.served() {
                    self.by_owner.entry(owner).or_default().push(conn);
                }
            }
            Peer::Web(subscription) => {
                self.web.insert(conn);
                let session = subscription.session.iter();
                session.for_each(|id| self.web_by_session.entry(id.clone()).or_default().push(conn));
            }
        }
        self.all.insert(conn, connection);
    }

    /// Removes a socket and its queued frames. Returns the peer of the socket, and the bytes of the frames.
    pub fn remove(&mut self, conn: ConnId) -> (Option<Peer>, usize) {
        let peer = self.client_closed(conn);
        (peer, self.closed.remove(&conn).map_or(0, |connection| connection.queue.bytes()))
    }

    /// Removes a socket that its client has closed, and returns its peer. Its queued frames, which arrived before the close, remain.
    pub fn client_closed(&mut self, conn: ConnId) -> Option<Peer> {
        let connection = self.all.remove(&conn)?;
        self.unindex(conn, &connection.peer);
        let peer = connection.peer.clone();
        if !connection.queue.is_empty() {
            self.closed.insert(conn, connection);
        }
        Some(peer)
    }

    /// Whether frames are queued that a CLI sent before it closed its socket.
    pub fn has_frames_of_closed_cli(&self, conn: ConnId) -> bool {
        self.closed.get(&conn).is_some_and(|connection| matches!(connection.peer, Peer::Cli(_)))
    }

    /// Removes and returns the next queued frame of a socket. If no frame is queued, the socket is no longer busy.
    pub fn next_frame(&mut self, conn: ConnId) -> Option<QueuedFrame> {
        let connection = self.all.get_mut(&conn).or_else(|| self.closed.get_mut(&conn))?;
        let next = connection.queue.pop();
        connection.is_busy = next.is_some();
        if next.is_none() {
            self.closed.remove(&conn);
        }
        next
    }

    /// Returns a receiver that resolves when all frames of a socket so far have been handled; `None` if they have been handled.
    pub fn wait_for_frames(&mut self, conn: ConnId) -> Option<oneshot::Receiver<()>> {
        let connection = self.all.get_mut(&conn).or_else(|| self.closed.get_mut(&conn))?;
        connection.is_busy.then(|| connection.queue.add_waiter())
    }

    pub fn queued_frames(&self, conn: ConnId) -> impl Iterator<Item = &QueuedFrame> {
        let connection = self.all.get(&conn).or_else(|| self.closed.get(&conn));
        connection.into_iter().flat_map(|connection| connection.queue.frames())
    }

    /// Returns the socket with the most queued bytes, with a new frame of `bytes` on `conn`; `None` if `conn` is closed and has none.
    pub fn largest_sender(&self, conn: ConnId, bytes: usize) -> Option<ConnId> {
        let is_known = self.all.contains_key(&conn) || self.closed.contains_key(&conn);
        let sockets = self.all.iter().chain(&self.closed).map(|(socket, connection)| {
            let arrived = if *socket == conn { bytes } else { 0 };
            (connection.queue.bytes() + arrived, *socket)
        });
        sockets.max().filter(|_| is_known).map(|(_, socket)| socket)
    }

    fn unindex(&mut self, conn: ConnId, peer: &Peer) {
        fn remove_from<K: Eq + Hash>(index: &mut HashMap<K, Vec<ConnId>>, key: &K, conn: ConnId) {
            if let Some(conns) = index.get_mut(key) {
                conns.retain(|c| *c != conn);
                if conns.is_empty() {
                    index.remove(key);
                }
            }
        }
        match peer {
            Peer::Connecting(_) => {}
            Peer::Cli(cli) => cli.served().for_each(|owner| remove_from(&mut self.by_owner, &owner, conn)),
            Peer::Web(subscription) => {
                self.web.remove(&conn);
                let session = subscription.session.iter();
                session.for_each(|id| remove_from(&mut self.web_by_session, id, conn));
            }
        }
    }

    pub fn get(&self, conn: ConnId) -> Option<&Connection> {
        self.all.get(&conn)
    }

    /// Returns a socket for a change that affects no index. Other changes use [`insert`](Self::insert).
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.all.get_mut(&conn)
    }

    pub fn cli(&self, conn: ConnId) -> Option<&Cli> {
        match &self.all.get(&conn)?.peer {
            Peer::Cli(cli) => Some(cli),
            _ => None,
        }
    }

    /// Returns the sockets of the CLIs that serve a session or machine.
    pub fn clis_of_owner(&self, owner: &Owner) -> &[ConnId] {
        self.by_owner.get(owner).map_or(&[], Vec::as_slice)
    }

    pub fn clis_of_session(&self, id: &str) -> &[ConnId] {
        self.clis_of_owner(&Owner::Session(id.to_owned()))
    }

    /// Whether a socket of another installation serves a session; `false` for a machine, and for a client without an installation. Looks
    /// only at the sockets that serve the session.
    pub fn is_served_by_other(&self, owner: &Owner, installation: Option<&String>) -> bool {
        let is_other = |conn: &ConnId| {
            let serving = self.cli(*conn).and_then(|cli| cli.installation.as_ref());
            serving.is_some_and(|serving| Some(serving) != installation)
        };
        let is_possible = installation.is_some() && matches!(owner, Owner::Session(_));
        is_possible && self.clis_of_owner(owner).iter().any(is_other)
    }

    /// Whether another installation than that of a socket serves a session. The socket may be closed.
    pub fn is_served_elsewhere(&self, owner: &Owner, conn: ConnId) -> bool {
        let connection = self.all.get(&conn).or_else(|| self.closed.get(&conn));
        let Some(Connection { peer: Peer::Cli(cli), .. }) = connection else { return false };
        self.is_served_by_other(owner, cli.installation.as_ref())
    }

    /// Returns all sockets, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.all.iter().map(|(conn, connection)| (*conn, connection))
    }

    /// Returns the web clients, oldest first.
    pub fn subscriptions(&self) -> impl Iterator<Item = (ConnId, &Subscription)> {
        self.web.iter().filter_map(|conn| Some((*conn, self.subscription(*conn)?)))
    }

    fn subscription(&self, conn: ConnId) -> Option<&Subscription> {
        match &self.all.get(&conn)?.peer {
            Peer::Web(subscription) => Some(subscription),
            _ => None,
        }
    }

    /// Returns the sockets of the web clients that receive the messages of a session, with their formats.
    pub fn subscribers_of_session(&self, session: &str) -> impl Iterator<Item = (ConnId, Format)> {
        let conns = self.web_by_session.get(session).map_or(&[][..], Vec::as_slice);
        conns.iter().filter_map(|conn| Some((*conn, self.subscription(*conn)?.format)))
    }

    /// Whether a web client on `device` (`None`: on any) is visible, by a report that is not older than `since`, in Unix milliseconds.
    pub fn has_visible_client(&self, device: Option<&str>, since: u64, now: u64) -> bool {
        self.subscriptions().any(|(_, subscription)| {
            subscription.counts_as_visible(now)
                && subscription.visibility_reported_at >= since
                && subscription.may_be_on(device)
        })
    }

    /// Counts a frame that the hub is about to send and that is not a reply. Returns false if the socket is closed, or if its
    /// client is too slow ([`SendWindow::record_event`]).
    #[must_use]
    pub fn record_event(&mut self, conn: ConnId, bytes: usize) -> bool {
        let connection = self.all.get_mut(&conn);
        connection.is_some_and(|connection| connection.is_sse() || connection.send_window.record_event(bytes))
    }

    /// Counts a droppable frame. Returns false if the socket is closed, or the frame must be dropped ([`SendWindow::record_droppable`]).
    #[must_use]
    pub fn record_droppable(&mut self, conn: ConnId, bytes: usize) -> bool {
        let connection = self.all.get_mut(&conn);
        // The worker drops frames of an SSE stream whose client does not read.
        connection.is_some_and(|connection| connection.is_sse() || connection.send_window.record_droppable(bytes))
    }

    pub fn record_heartbeat(&mut self) {
        let web_sockets = self.all.values_mut().filter(|c| matches!(c.peer, Peer::Web(_)) && !c.is_sse());
        for connection in web_sockets {
            connection.send_window.record_ping();
        }
    }

    pub fn connecting(&self) -> impl Iterator<Item = (ConnId, &Connecting)> {
        self.iter().filter_map(|(conn, connection)| match &connection.peer {
            Peer::Connecting(connecting) => Some((conn, connecting)),
            _ => None,
        })
    }

    /// Returns the sockets that have not sent a CONNECT packet, not those whose packet is being handled or waits for the database.
    pub fn awaiting_connect(&self) -> impl Iterator<Item = (ConnId, &Connecting)> {
        self.connecting().filter(|(conn, _)| self.all.get(conn).is_some_and(|connection| !connection.is_busy))
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn has_clients(&self) -> bool {
        self.clis().next().is_some() || !self.web.is_empty()
    }

    /// Returns the numbers of connected CLIs and web clients.
    pub fn client_counts(&self) -> (u64, u64) {
        (self.clis().count() as u64, self.web.len() as u64)
    }

    pub fn clis(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.iter().filter(|(_, connection)| matches!(connection.peer, Peer::Cli(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::core::peers::cli::ServedOwner;

    #[test]
    fn an_attachment_round_trips() {
        let connecting = Connecting { refused_frames: 2, idle_frames: 3, ..Connecting::new(5, Upgrade::Bridged) };
        let peers = [
            Peer::Connecting(Connecting { credential: Some("d".into()), ..connecting }),
            Peer::Cli(Cli {
                session: Some("s".into()),
                machine: Some("m".into()),
                methods: vec!["s:gitStatus".into()],
                others: vec![
                    ServedOwner {
                        owner: Owner::Session("t".into()),
                        methods: vec!["readFile".into()],
                        alive_at: Some(6),
                    },
                    ServedOwner { owner: Owner::Machine("n".into()), methods: vec![], alive_at: None },
                ],
                session_alive_at: Some(7),
                machine_alive_at: Some(8),
                unanswered_since: Some(9),
                accepts_upload_chunks: true,
                installation: Some("laptop".into()),
                token_device: Some("d".into()),
            }),
            Peer::Web(Subscription {
                id: "sub".into(),
                receives_all: true,
                is_reported_visible: true,
                visibility_confirmed_at: 8,
                visibility_reported_at: 7,
                acks_heartbeats: true,
                device: Some("desk".into()),
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
    fn attachments_of_earlier_versions_are_read() {
        let read = |attachment: &str| serde_json::from_str::<Peer>(attachment).unwrap();
        let connecting =
            Connecting { refused_frames: 2, idle_frames: 3, ..Connecting::new(5, Upgrade::Unauthenticated) };
        assert_eq!(
            read(r#"{"opening":{"since":5,"upgrade":"bare","refused":2,"idle":3}}"#),
            Peer::Connecting(connecting)
        );
        let cli = Cli { session: Some("s".into()), session_alive_at: Some(7), ..Cli::default() };
        assert_eq!(read(r#"{"cli":{"session":"s","sessionAliveAt":7,"unanswered":true}}"#), Peer::Cli(cli));
        let other =
            |alive_at| ServedOwner { owner: Owner::Session("t".into()), methods: vec!["readFile".into()], alive_at };
        for (array, alive_at) in [(r#"["readFile"]"#, None), (r#"["readFile"],6"#, Some(6))] {
            let attachment = format!(r#"{{"cli":{{"others":[[{{"session":"t"}},{array}]]}}}}"#);
            let cli = Peer::Cli(Cli { others: vec![other(alive_at)], ..Cli::default() });
            assert_eq!(read(&attachment), cli);
            assert_eq!(serde_json::to_string(&cli).unwrap(), attachment);
        }
        let subscription = Subscription {
            id: "sub".into(),
            is_reported_visible: true,
            visibility_confirmed_at: 8,
            acks_heartbeats: true,
            last_published: 6,
            expires_at: Some(9),
            ..Subscription::default()
        };
        let web = r#"{"web":{"id":"sub","visible":true,"seenAt":8,"answers":true,"told":6,"expiresAt":9}}"#;
        assert_eq!(read(web), Peer::Web(subscription));
    }
}
