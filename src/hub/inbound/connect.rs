//! Connecting sockets of CLIs: drives the [handshake](crate::hub::core::peers::handshake) until a valid CONNECT, or until its timeout.

use crate::auth::token::Credential;
use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::peers::cli::Cli;
use crate::hub::core::peers::connections::{Connecting, Peer, Upgrade};
use crate::hub::core::peers::handshake::{Outcome, TokenCheck, Verified};
use crate::hub::core::schedule::next_tick;
use crate::hub::inbound::Socket;
use crate::hub::inbound::replies::{Refusal, subject_of};
use crate::limits::PING_INTERVAL_MS;
use crate::log::{Level, LogLine};
use crate::model::owner::Owner;
use crate::wire::cli::NAMESPACE;
use crate::wire::engineio;
use crate::wire::socketio;

/// How many sockets a namespace may have, including closed ones whose clients have not answered. The platform allows 32,768.
pub const MAX_SOCKETS: usize = 32_000;

/// How many sockets without a token may wait for their CONNECT (PROTOCOL-CLI.md "The socket of a CLI").
const MAX_UNAUTHENTICATED: usize = 200;
const _: () = assert!(MAX_UNAUTHENTICATED < MAX_SOCKETS / 2 && MAX_SOCKETS < 32_768);

impl Hub {
    pub fn has_room_for_socket(&self) -> bool {
        self.rt.socket_count() < MAX_SOCKETS
    }

    /// Whether another CLI may open a socket. A closed socket takes a place until its client answers the close. Of the sockets without a
    /// token, at most [`MAX_UNAUTHENTICATED`] may wait for CONNECT, and none may be opened while half of all places are taken.
    pub fn has_room_for_cli(&self, upgrade: Upgrade) -> bool {
        if upgrade != Upgrade::Unauthenticated {
            return self.has_room_for_socket();
        }
        let turn = self.turn();
        let unauthenticated = turn.connections.connecting().filter(|(_, socket)| socket.upgrade == upgrade).count();
        unauthenticated < MAX_UNAUTHENTICATED && self.rt.socket_count() < MAX_SOCKETS / 2
    }
}

impl Socket<'_> {
    /// Opens a CLI's socket. `credential` is that of the upgrade request. The worker has already sent the open packet to a bridged socket.
    pub fn open_cli(&self, upgrade: Upgrade, credential: Option<&Credential>) {
        let Self { hub, conn } = *self;
        let now = hub.rt.now();
        if upgrade != Upgrade::Bridged {
            hub.rt.send(&[conn], &engineio::open_frame(&hub.ids.uuid()));
        }
        let mut turn = hub.turn();
        let credential = credential.map(Credential::to_string);
        let connecting = Connecting { credential, ..Connecting::new(now, upgrade) };
        turn.request_alarm(Some(connecting.expires_at()));
        turn.set_peer(conn, Peer::Connecting(connecting));
    }

    pub(super) async fn on_connect(&self, check: TokenCheck) {
        let Self { hub, conn } = *self;
        let own = &hub.config.namespace;
        let granted = match (check.auth.token.as_deref(), check.upgrade_credential()) {
            (Some(token), _) => hub.access.verify_token(token).await,
            (None, Some(credential)) => {
                let is_valid = hub.confirm_credential(&credential).await;
                is_valid.map(|is_valid| is_valid.then(|| (own.clone(), credential)))
            }
            (None, None) => Ok(None),
        };
        let Ok(granted) = granted else { return hub.turn().disconnect_to_resync([conn]) };
        let granted = granted.filter(|(namespace, credential)| namespace != own || !hub.access.is_revoked(credential));
        match check.decide(Some(own), granted) {
            Ok(verified) => self.connect(verified).await,
            Err(outcome) => self.finish_step(outcome),
        }
    }

    /// Performs the outcome of a frame that connected no CLI.
    pub(super) fn finish_step(&self, outcome: Outcome) {
        let Self { hub, conn } = *self;
        if outcome.is_refused {
            hub.telemetry.log(LogLine::new(Level::Info, "connect-refused"));
        }
        outcome.reply.iter().for_each(|reply| hub.rt.send(&[conn], reply));
        let mut turn = hub.turn();
        match outcome.next {
            Err((code, reason)) => turn.disconnect(conn, code, reason),
            // The client may have closed the socket meanwhile.
            Ok(next) if turn.connections.get(conn).is_some() => turn.set_peer(conn, Peer::Connecting(next)),
            Ok(_) => {}
        }
    }

    async fn connect(&self, verified: Verified) {
        let Self { hub, conn } = *self;
        hub.store_namespace();
        let auth = &verified.auth;
        let (session, machine) = (auth.session_id.clone(), auth.machine_id.clone());
        let mut named: Vec<(Owner, Option<Refusal>)> = Vec::new();
        for owner in session.map(Owner::Session).into_iter().chain(machine.map(Owner::Machine)) {
            let loaded = match &owner {
                Owner::Session(id) => hub.load_session(id).await,
                Owner::Machine(id) => hub.load_machine(id).await,
            };
            let refusal = match loaded {
                Ok(()) => None,
                Err(error @ (Error::Forbidden(_) | Error::NotFound(_))) => Some(error.into()),
                // The database can't be reached. The official client reconnects after a close, but not after a CONNECT_ERROR.
                Err(_) => return hub.turn().disconnect_to_resync([conn]),
            };
            named.push((owner, refusal));
        }
        // During the load the token may have been revoked.
        if hub.access.is_revoked(&verified.credential) {
            return self.finish_step(verified.refuse_revoked());
        }
        {
            let mut turn = hub.turn();
            if turn.connections.get(conn).is_none() {
                return;
            }
            for (owner, refusal) in named.iter_mut().filter(|(_, refusal)| refusal.is_none()) {
                let is_elsewhere = turn.connections.is_served_by_other(owner, auth.installation_id.as_ref());
                *refusal = is_elsewhere.then(Refusal::served_elsewhere);
            }
            let served_id = |kind| {
                let served = named.iter().find(|(owner, refusal)| refusal.is_none() && Kind::of(owner) == kind);
                served.map(|(owner, _)| owner.id().to_owned())
            };
            let cli = Cli {
                session: served_id(Kind::Session),
                machine: served_id(Kind::Machine),
                accepts_upload_chunks: auth.accepts_upload_chunks(),
                installation: auth.installation_id.clone(),
                token_device: verified.credential.device().map(str::to_owned),
                ..Cli::default()
            };
            turn.start_ticks();
            turn.set_peer(conn, Peer::Cli(cli));
            turn.request_alarm(Some(next_tick(hub.rt.now(), PING_INTERVAL_MS)));
        }
        hub.rt.send(&[conn], &socketio::connect_frame(NAMESPACE, &hub.ids.uuid()));
        for (owner, _) in named.iter().filter(|(_, refusal)| refusal.is_none()) {
            self.record_activity(owner.clone()).await;
        }
        for (owner, refusal) in &named {
            if let Some(refusal) = refusal {
                hub.turn().send_error_event(conn, refusal, Some(subject_of(owner)));
            }
        }
    }
}
