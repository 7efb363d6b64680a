//! Events of CLIs (PROTOCOL-CLI.md "Events from a CLI"). A rejected event never closes the socket.

use serde_json::value::RawValue;

use crate::hub::core::effect::{Effect, Reply, VersionedUpdate};
use crate::hub::core::error::Error;
use crate::hub::core::state::{AckTiming, State};
use crate::hub::inbound::Socket;
use crate::hub::inbound::replies::{Refusal, Subject, subject_of};
use crate::hub::sessions::messages::Draft;
use crate::hub::sessions::presence::EndCause;
use crate::limits::{MAX_ECHO_CHARS, MAX_INLINE_BYTES};
use crate::log::{Level, LogLine};
use crate::model::event::DeltaEvent;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::owner::Owner;
use crate::wire::cli::{
    CliEvent, EventError, MessageDelta, NAMESPACE, NewMessage, UpdateEvent, decode, is_update, message_rejected,
    ok_ack, update_rejected,
};
use crate::wire::field_types::truncate;
use crate::wire::socketio::{AckId, ack_frame};

pub const MAX_UNKNOWN_EVENTS: usize = 100;

/// What a handled event shows about the activity of its session or machine, the owner.
enum Activity {
    Nothing,
    /// The socket serves the owner.
    Served,
    /// The socket serves the owner, which was alive when the event arrived.
    Alive,
    /// The socket serves the owner, which is active now, see [`Socket::record_activity`].
    Active,
    /// The socket no longer serves the owner.
    Ended,
}

/// An event of a connected CLI.
pub(super) struct ReceivedEvent<'a> {
    pub socket: Socket<'a>,
    /// In Unix milliseconds.
    pub arrived_at: u64,
    pub name: &'a str,
    /// The acknowledgement that the CLI requested.
    pub ack: Option<AckId>,
}

impl ReceivedEvent<'_> {
    pub async fn handle(&self, args: &[&RawValue]) {
        let Self { socket, arrived_at, name, .. } = *self;
        let Socket { hub, conn } = socket;
        let payload = args.first().filter(|_| name == "session-alive");
        let translated = payload.and_then(|payload| hub.config.vocabulary.with_protocol_fields(payload.get()));
        let translated_args = translated.as_ref().map(|payload| [payload.raw()]);
        let event = match decode(name, translated_args.as_ref().map_or(args, |args| args)) {
            Ok(event) => event,
            Err(EventError::Unknown(name)) => {
                self.log_unknown_event(&name);
                if let Some(ack) = self.ack {
                    hub.turn().send_frame(conn, &ack_frame(NAMESPACE, ack, &[]));
                }
                return;
            }
            Err(error) => return self.reject(&Refusal::new("bad-payload", error.to_string()), None),
        };
        let mut owner = event.owner();
        if let Some(owner) = &owner
            && hub.turn().connections.is_served_elsewhere(owner, conn)
        {
            return self.reject(&Refusal::served_elsewhere(), Some(subject_of(owner)));
        }
        let mut ignored = Vec::new();
        let result = match event {
            CliEvent::Message(message) => self.on_message(message).await.map(|()| (Activity::Served, None)),
            CliEvent::MessageDelta(delta) => {
                self.on_message_delta(&delta).await.map(|()| (Activity::Nothing, Some(AckTiming::Now)))
            }
            CliEvent::Update(update) => self.on_update(update).await.map(|()| (Activity::Active, None)),
            CliEvent::SessionAlive(alive) => {
                let result = hub.on_session_alive(&alive, conn, arrived_at).await;
                ignored = alive.ignored;
                result.map(|timing| (Activity::Alive, Some(timing)))
            }
            CliEvent::SessionEnd(end) => {
                let ended = hub.end_session(&end.sid, EndCause::LeftBy(conn)).await;
                ended.map(|()| (Activity::Ended, Some(AckTiming::OnCommit)))
            }
            CliEvent::MachineAlive(alive) => {
                let result = hub.record_machine_activity(&alive.machine_id, conn, arrived_at).await;
                result.map(|timing| (Activity::Alive, Some(timing)))
            }
            CliEvent::RpcRegister(rpc) => match socket.register(&rpc.method).await {
                Ok(registered) => {
                    owner = registered;
                    Ok((Activity::Active, Some(AckTiming::Now)))
                }
                Err(refusal) => return self.reject(&refusal, Some(("rpc", &rpc.method))),
            },
            CliEvent::RpcUnregister(rpc) => {
                socket.unregister(&rpc.method);
                Ok((Activity::Nothing, Some(AckTiming::Now)))
            }
            CliEvent::Ping => Ok((Activity::Nothing, Some(AckTiming::Now))),
        };
        match result {
            Ok((activity, timing)) => {
                if let Some(owner) = owner {
                    self.handle_activity(owner, activity).await;
                }
                self.acknowledge(&ignored, timing);
            }
            Err(error) => self.reject(&error.into(), owner.as_ref().map(subject_of)),
        }
    }

    async fn on_message(&self, message: NewMessage<'_>) -> Result<(), Error> {
        self.check_room_for_copy(message.payload_bytes())?;
        let content = message.content();
        let draft = Draft::new(message.sid, message.local_id, content);
        let Self { socket: Socket { hub, conn }, ack, .. } = *self;
        hub.append_message(Draft { from: Some(conn), ack, ..draft }).await.map(drop)
    }

    /// Sends a delta to the web clients that receive the session's messages, or drops it.
    async fn on_message_delta(&self, delta: &MessageDelta) -> Result<(), Error> {
        let hub = self.socket.hub;
        hub.load_session(&delta.sid).await?;
        let mut turn = hub.turn();
        let State { live_texts, memory_reservations, connections, .. } = &mut *turn;
        let MessageDelta { sid, id, kind, .. } = delta;
        let Some((offset, text)) = live_texts.receive(delta, hub.rt.now(), memory_reservations) else {
            return Ok(());
        };
        let clients: Vec<_> = connections.subscribers_of_session(sid).collect();
        if !clients.is_empty() && turn.ensure_write_queue_has_room(0).is_ok() {
            let delta = DeltaEvent { session_id: sid, id, offset, text: &text, kind: *kind };
            turn.send_delta(&clients, &delta.encode());
        }
        Ok(())
    }

    async fn on_update(&self, update: UpdateEvent<'_>) -> Result<(), Error> {
        let Self { socket: Socket { hub, conn }, arrived_at, ack, .. } = *self;
        let UpdateEvent { owner, field, expected_version, value } = update;
        if let Owner::Session(_) = owner {
            hub.turn().restart_deadline_on_arrival(owner.clone(), conn, arrived_at);
        }
        self.check_room_for_copy(value.get().len())?;
        let value = Json::from(value);
        let update = VersionedUpdate { id: owner.id(), field, expected_version, value, from: conn, ack };
        match field {
            VersionedField::Metadata => hub.update_metadata(&update).await,
            VersionedField::AgentState => hub.update_agent_state(&update).await,
            VersionedField::MachineMetadata | VersionedField::RunnerState => hub.update_machine(&update).await,
        }
    }

    async fn handle_activity(&self, owner: Owner, activity: Activity) {
        let Self { socket, arrived_at, .. } = *self;
        match activity {
            Activity::Nothing => {}
            Activity::Ended => socket.remove_served(&owner),
            Activity::Served => socket.add_served(&owner),
            // The time must follow `add_served`: the attachment stores times only for what the socket serves.
            Activity::Alive => {
                socket.add_served(&owner);
                socket.hub.turn().restart_deadline_on_arrival(owner, socket.conn, arrived_at);
            }
            Activity::Active => {
                socket.add_served(&owner);
                socket.record_activity(owner).await;
            }
        }
    }

    /// Refuses a large value if the write queue has no room for a copy. Call this before the value is copied out of its frame.
    fn check_room_for_copy(&self, bytes: usize) -> Result<(), Error> {
        if bytes > MAX_INLINE_BYTES { self.socket.hub.turn().ensure_write_queue_has_room(bytes) } else { Ok(()) }
    }

    /// Acknowledges a handled event; `None`: the commit of its change does. `ignored`: the names of the event's invalid fields.
    fn acknowledge(&self, ignored: &[&str], timing: Option<AckTiming>) {
        let Socket { hub, conn } = self.socket;
        let (Some(timing), Some(ack)) = (timing, self.ack) else { return };
        let failed = message_rejected("The hub could not store the change. Try again.", "unavailable", None);
        let reply = Reply::acknowledgement(conn, ack, &ok_ack(ignored), &failed);
        match timing {
            AckTiming::Now => hub.turn().send_committed_reply(&reply),
            AckTiming::OnCommit => {
                hub.turn().write_queue.on_commit(Effect::Reply(reply));
                hub.start_commit();
            }
        }
    }

    /// Rejects the event in its acknowledgement, if the CLI requested one. Also sends an `error` event if the CLI requested no
    /// acknowledgement, or if the session or machine does not exist, belongs to another namespace, or is served elsewhere.
    fn reject(&self, refusal: &Refusal, subject: Option<Subject<'_>>) {
        let Refusal { code, message, quota } = refusal;
        let mut turn = self.socket.hub.turn();
        if let Some(ack) = self.ack {
            let answer = match is_update(self.name) {
                true => update_rejected(message, code),
                false => message_rejected(message, code, *quota),
            };
            turn.send_frame(self.socket.conn, &ack_frame(NAMESPACE, ack, &[&answer]));
        }
        if self.ack.is_none() || matches!(*code, "access-denied" | "not-found" | "served-elsewhere") {
            turn.send_error_event(self.socket.conn, refusal, subject);
        }
    }

    /// Logs an event that the protocol does not define, the first of each name. CLIs of other versions may send such events.
    fn log_unknown_event(&self, name: &str) {
        let hub = self.socket.hub;
        let (name, logged) = (truncate(name, MAX_ECHO_CHARS), &mut hub.turn().unknown_events);
        if logged.len() < MAX_UNKNOWN_EVENTS && !logged.contains(name.as_ref()) {
            hub.telemetry.log(LogLine::new(Level::Debug, "unknown-event").text("name", &name));
            logged.insert(name.into_owned());
        }
    }
}

impl Socket<'_> {
    /// Records activity other than a keep-alive. A machine comes online. The deadline of an active session restarts; an
    /// inactive session stays inactive. Errors are ignored, because later activity has the same effect.
    pub(super) async fn record_activity(&self, owner: Owner) {
        let Self { hub, conn } = *self;
        let now = hub.rt.now();
        match owner {
            Owner::Machine(id) => drop(hub.record_machine_activity(&id, conn, now).await),
            Owner::Session(_) => hub.turn().restart_deadline_on_arrival(owner, conn, now),
        }
    }
}
