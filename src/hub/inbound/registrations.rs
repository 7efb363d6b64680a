//! The sessions and machines that a socket serves, and the RPC methods that it registers. Its attachment stores them.

use std::collections::BTreeSet;

use crate::hub::core::error::Error;
use crate::hub::core::peers::cli::{Cli, ServedOwner};
use crate::hub::core::peers::connections::Peer;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::State;
use crate::hub::inbound::Socket;
use crate::hub::inbound::replies::{Refusal, subject_of};
use crate::hub::turn::Turn;
use crate::model::method::Method;
use crate::model::owner::Owner;

/// The largest attachment of a socket, in bytes as the platform stores it. Its limit is 16,384, framing included.
const MAX_ATTACHMENT_BYTES: usize = 16_000;

/// Returns the size of a text as the platform stores it (measured): one byte a character in Latin-1, else two for each UTF-16 unit.
fn stored_bytes(text: &str) -> usize {
    let is_latin1 = text.chars().all(|character| u32::from(character) <= 0xff);
    if is_latin1 { text.chars().count() } else { 2 * text.encode_utf16().count() }
}

/// The most bytes that one byte of an id or name takes in the attachment: a control character is escaped as six UTF-16 units.
const MAX_STORED_BYTES_PER_BYTE: usize = 12;
/// The most bytes that an id or name takes besides its own text: field names, punctuation, times.
const MAX_STORED_BYTES_PER_TEXT: usize = 120;

/// Whether the attachment of a CLI's socket fits the limit of the platform, even when each owner has the time of a keep-alive.
fn fits_attachment(cli: &Cli) -> bool {
    // Computing an upper bound is faster than serializing the attachment, and enough for most attachments.
    let (texts, bytes) =
        cli.ids_and_method_names().fold((0, 0), |(texts, bytes), text| (texts + 1, bytes + text.len()));
    if MAX_STORED_BYTES_PER_BYTE * bytes + MAX_STORED_BYTES_PER_TEXT * (texts + 1) <= MAX_ATTACHMENT_BYTES {
        return true;
    }
    let mut cli = cli.clone();
    for owner in cli.served().collect::<Vec<_>>() {
        // The time has as many digits as any other until the year 2286.
        cli.set_last_activity(&owner, Some(1_800_000_000_000));
    }
    serde_json::to_string(&Peer::Cli(cli)).is_ok_and(|text| stored_bytes(&text) <= MAX_ATTACHMENT_BYTES)
}

impl State {
    /// Shrinks a CLI to the size limit of its socket's attachment, but keeps `added`. First removes inactive sessions and machines
    /// without methods; then inactive ones that the CLI has ended, oldest first. `None` if the CLI still does not fit.
    fn shrink_to_attachment(&self, mut cli: Cli, added: &Owner) -> Option<Cli> {
        let is_needed = |owner: &Owner| owner == added || self.liveness.is_live(owner);
        if !fits_attachment(&cli) {
            cli.others.retain(|other| !other.methods.is_empty() || is_needed(&other.owner));
        }
        while !fits_attachment(&cli) {
            let is_ended = |other: &ServedOwner| other.alive_at.is_none() && !is_needed(&other.owner);
            let ended = cli.others.iter().position(is_ended)?;
            cli.others.remove(ended);
        }
        Some(cli)
    }
}

impl Socket<'_> {
    /// Registers a method. Returns the session or machine of the method; `None` if the socket has closed.
    pub(super) async fn register(&self, name: &str) -> Result<Option<Owner>, Refusal> {
        let Self { hub, conn } = *self;
        let vocabulary = &hub.config.vocabulary;
        let is_served = |state: &State| {
            state.connections.cli(conn).is_some_and(|cli| cli.resolve_method(name, vocabulary).is_some())
        };
        let added = if is_served(&hub.turn()) { None } else { self.find_owner(name).await? };
        let mut turn = hub.turn();
        let Some(mut cli) = turn.connections.cli(conn).cloned() else { return Ok(None) };
        added.into_iter().for_each(|owner| cli.add_other(owner));
        let resolved = cli.resolve_method(name, vocabulary).filter(|(_, method)| !method.is_empty());
        let (owner, method) = resolved.ok_or_else(|| {
            let message = "A method can only be registered as `<id>:<method>` with the id of a session or machine of this namespace, \
                or without an id by a socket that named a session or machine when it connected.";
            Refusal::new("access-denied", message)
        })?;
        if turn.connections.is_served_elsewhere(&owner, conn) {
            return Err(Refusal::served_elsewhere());
        }
        cli.add_method(name, vocabulary);
        let cli = turn.shrink_to_attachment(cli, &owner).ok_or_else(|| {
            let message =
                "Event `rpc-register`: this socket has registered more methods than fit the limit of 16,000 characters. Use a socket for each session.";
            Refusal::new("too-many-methods", message)
        })?;
        let replaced = turn.rpc.register(owner.clone(), method, name, conn, hub.rt.now());
        turn.request_alarm(turn.rpc.grace.next_deadline());
        turn.set_served(conn, cli);
        if method == Method::KillSession.into_str() {
            hub.kill_if_archived(owner.id());
        }
        // Otherwise the replaced registration would be restored after hibernation.
        if let Some((replaced_conn, name)) = replaced {
            turn.remove_method(replaced_conn, &name);
        }
        Ok(Some(owner))
    }

    /// Finds the session or machine of the namespace whose id is the prefix of a method name. `None` if there is none.
    async fn find_owner(&self, name: &str) -> Result<Option<Owner>, Refusal> {
        // An id of a machine, or the name of a method, may contain colons.
        let prefixes = [name.split_once(':'), name.rsplit_once(':')].into_iter().flatten();
        for (id, _) in prefixes {
            let session = self.hub.load_session(id).await.map(|()| Owner::Session(id.to_owned()));
            let owner = match session {
                Err(Error::NotFound(_)) => self.hub.load_machine(id).await.map(|()| Owner::Machine(id.to_owned())),
                session => session,
            };
            match owner {
                Ok(owner) => return Ok(Some(owner)),
                Err(Error::NotFound(_) | Error::Forbidden(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Records that the socket serves a session or machine, and so gets its updates. The CLI gets an error if the attachment has no room.
    pub(super) fn add_served(&self, owner: &Owner) {
        let (mut turn, conn) = (self.hub.turn(), self.conn);
        let Some(cli) = turn.connections.cli(conn) else { return };
        if turn.connections.clis_of_owner(owner).contains(&conn) {
            return;
        }
        let subject = Some(subject_of(owner));
        // Another installation may have begun to serve the session while the event of this socket was handled.
        if turn.connections.is_served_elsewhere(owner, conn) {
            return turn.send_error_event(conn, &Refusal::served_elsewhere(), subject);
        }
        let mut cli = cli.clone();
        cli.add_other(owner.clone());
        match turn.shrink_to_attachment(cli, owner) {
            Some(cli) => turn.set_served(conn, cli),
            None => {
                let message = "This socket serves more sessions and machines than the hub can store for it, so it gets no updates of \
                    this one. Use a socket for each session.";
                turn.send_error_event(conn, &Refusal::new("too-many-served", message), subject);
            }
        }
    }

    /// Records that the socket has ended a session.
    pub(super) fn remove_served(&self, session: &Owner) {
        let (mut turn, conn) = (self.hub.turn(), self.conn);
        if !turn.connections.clis_of_owner(session).contains(&conn) {
            return;
        }
        let Some(mut cli) = turn.connections.cli(conn).cloned() else { return };
        cli.record_session_end(session);
        turn.set_peer(conn, Peer::Cli(cli));
        turn.activation_waiters.cancel_report_waiters(session.id());
    }

    pub(super) fn unregister(&self, name: &str) {
        let (mut turn, conn) = (self.hub.turn(), self.conn);
        let cli = turn.connections.cli(conn);
        if let Some((owner, method)) = cli.and_then(|cli| cli.resolve_method(name, &self.hub.config.vocabulary)) {
            turn.rpc.unregister(owner, method, conn);
        }
        turn.remove_method(conn, name);
    }
}

impl Turn<'_> {
    /// Replaces the CLI of a socket, and unregisters the methods of sessions and machines that the CLI no longer serves.
    fn set_served(&mut self, conn: ConnId, cli: Cli) {
        let before = self.state.connections.cli(conn).map_or(&[][..], |before| &before.others);
        let is_removed = |other: &&ServedOwner| !cli.others.iter().any(|kept| kept.owner == other.owner);
        let removed: Vec<ServedOwner> = before.iter().filter(is_removed).cloned().collect();
        for ServedOwner { owner, methods, .. } in removed {
            for method in methods {
                self.state.rpc.unregister(owner.clone(), self.hub.config.vocabulary.method(&method), conn);
            }
        }
        self.set_cli_in_burst(conn, cli);
    }

    /// Sets the CLI of a socket: in memory at once, in the attachment at the end of the burst, because most CLIs register all their
    /// methods at once. If a panic prevents the write, [`Runtime::spawn`](crate::hub::core::ports::Runtime::spawn) closes the sockets.
    fn set_cli_in_burst(&mut self, conn: ConnId, cli: Cli) {
        self.state.connections.insert(conn, Peer::Cli(cli));
        self.state.unwritten_attachments.push(conn);
        if let [_] = self.state.unwritten_attachments[..] {
            self.hub.spawn(|hub| async move {
                hub.await_burst_end(1, |state| state.unwritten_attachments.len()).await;
                let mut turn = hub.turn();
                let conns: BTreeSet<ConnId> = std::mem::take(&mut turn.unwritten_attachments).into_iter().collect();
                for conn in conns {
                    if let Some(connection) = turn.connections.get(conn) {
                        hub.write_attachment(conn, &connection.peer);
                    }
                }
            });
        }
    }

    fn remove_method(&mut self, conn: ConnId, name: &str) {
        let Some(mut cli) = self.state.connections.cli(conn).cloned() else { return };
        cli.remove_method(name, &self.hub.config.vocabulary);
        self.set_cli_in_burst(conn, cli);
    }
}
