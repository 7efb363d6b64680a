//! Events of CLIs (PROTOCOL-CLI.md "Events from a CLI"). A rejected event never closes the socket.

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::effect::{Effect, Reply, VersionedUpdate};
use crate::hub::core::error::Error;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::{AckTiming, State};
use crate::hub::inbound::replies::{Refusal, Sender, subject_of};
use crate::hub::sessions::messages::Draft;
use crate::hub::sessions::presence::EndCause;
use crate::limits::{MAX_ECHO_CHARS, MAX_INLINE_BYTES};
use crate::log::{Level, LogLine};
use crate::model::event::DeltaEvent;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::owner::Owner;
use crate::wire::cli::{
    CliEvent, EventError, MessageDelta, NAMESPACE, NewMessage, UpdateEvent, decode, is_update, message_rejected, ok_ack,
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
    /// The socket serves the owner, which is active now, see [`Hub::record_activity`].
    Active,
    /// The socket no longer serves the owner.
    Ended,
}

impl Hub {
    /// Handles an event of a connected CLI. `arrived_at` is in Unix milliseconds.
    pub(in crate::hub) async fn on_event(
        &self,
        (conn, arrived_at): (ConnId, u64),
        ack: Option<AckId>,
        name: &str,
        args: &[&RawValue],
    ) {
        let from = Sender { conn, ack, is_update: is_update(name) };
        let payload = args.first().filter(|_| name == "session-alive");
        let translated = payload.and_then(|payload| self.config.vocabulary.with_protocol_fields(payload.get()));
        let translated_args = translated.as_ref().map(|payload| [payload.raw()]);
        let event = match decode(name, translated_args.as_ref().map_or(args, |args| args)) {
            Ok(event) => event,
            Err(EventError::Unknown(name)) => {
                self.log_unknown_event(&name);
                if let Some(ack) = ack {
                    self.turn().send_frame(conn, &ack_frame(NAMESPACE, ack, &[]));
                }
                return;
            }
            Err(error) => {
                return self.turn().reject(from, &Refusal::new("bad-payload", error.to_string()), None);
            }
        };
        let mut owner = event.owner();
        if let Some(owner) = &owner
            && self.turn().connections.is_served_elsewhere(owner, conn)
        {
            return self.turn().reject(from, &Refusal::served_elsewhere(), Some(subject_of(owner)));
        }
        let mut ignored = Vec::new();
        let result = match event {
            CliEvent::Message(message) => self.on_message(from, message).await.map(|()| (Activity::Served, None)),
            CliEvent::MessageDelta(delta) => {
                self.on_message_delta(&delta).await.map(|()| (Activity::Nothing, Some(AckTiming::Now)))
            }
            CliEvent::Update(update) => {
                self.on_update(from, arrived_at, update).await.map(|()| (Activity::Active, None))
            }
            CliEvent::SessionAlive(alive) => {
                let result = self.on_session_alive(&alive, conn, arrived_at).await;
                ignored = alive.ignored;
                result.map(|timing| (Activity::Alive, Some(timing)))
            }
            CliEvent::SessionEnd(end) => {
                let ended = self.end_session(&end.sid, EndCause::LeftBy(conn)).await;
                ended.map(|()| (Activity::Ended, Some(AckTiming::OnCommit)))
            }
            CliEvent::MachineAlive(alive) => {
                let result = self.record_machine_activity(&alive.machine_id, conn, arrived_at).await;
                result.map(|timing| (Activity::Alive, Some(timing)))
            }
            CliEvent::RpcRegister(rpc) => match self.register(conn, &rpc.method).await {
                Ok(registered) => {
                    owner = registered;
                    Ok((Activity::Active, Some(AckTiming::Now)))
                }
                Err(refusal) => {
                    return self.turn().reject(from, &refusal, Some(("rpc", &rpc.method)));
                }
            },
            CliEvent::RpcUnregister(rpc) => {
                self.turn().unregister(conn, &rpc.method);
                Ok((Activity::Nothing, Some(AckTiming::Now)))
            }
            CliEvent::Ping => Ok((Activity::Nothing, Some(AckTiming::Now))),
        };
        match result {
            Ok((activity, timing)) => {
                if let Some(owner) = owner {
                    self.handle_activity(owner, (conn, arrived_at), activity).await;
                }
                self.acknowledge(from, &ignored, timing);
            }
            Err(error) => self.turn().reject(from, &error.into(), owner.as_ref().map(subject_of)),
        }
    }

    async fn on_message(&self, from: Sender, message: NewMessage<'_>) -> Result<(), Error> {
        self.check_room_for_copy(message.payload_bytes())?;
        let content = message.content();
        let draft = Draft::new(message.sid, message.local_id, content);
        self.append_message(Draft { from: Some(from.conn), ack: from.ack, ..draft }).await.map(drop)
    }

    /// Sends a delta to the web clients that receive the session's messages, or drops it.
    async fn on_message_delta(&self, delta: &MessageDelta) -> Result<(), Error> {
        self.load_session(&delta.sid).await?;
        let mut turn = self.turn();
        let State { live_texts, memory_reservations, connections, .. } = &mut *turn;
        let MessageDelta { sid, id, kind, .. } = delta;
        let Some((offset, text)) = live_texts.receive(delta, self.rt.now(), memory_reservations) else {
            return Ok(());
        };
        let clients: Vec<_> = connections.subscribers_of_session(sid).collect();
        if !clients.is_empty() && turn.ensure_write_queue_has_room(0).is_ok() {
            let delta = DeltaEvent { session_id: sid, id, offset, text: &text, kind: *kind };
            turn.send_delta(&clients, &delta.encode());
        }
        Ok(())
    }

    async fn on_update(&self, from: Sender, arrived_at: u64, update: UpdateEvent<'_>) -> Result<(), Error> {
        let UpdateEvent { owner, field, expected_version, value } = update;
        let Sender { conn, ack, .. } = from;
        if let Owner::Session(_) = owner {
            self.turn().restart_deadline_on_arrival(owner.clone(), conn, arrived_at);
        }
        self.check_room_for_copy(value.get().len())?;
        let value = Json::from(value);
        let update = VersionedUpdate { id: owner.id(), field, expected_version, value, from: conn, ack };
        match field {
            VersionedField::Metadata => self.update_metadata(&update).await,
            VersionedField::AgentState => self.update_agent_state(&update).await,
            VersionedField::MachineMetadata | VersionedField::RunnerState => self.update_machine(&update).await,
        }
    }

    async fn handle_activity(&self, owner: Owner, (conn, arrived_at): (ConnId, u64), activity: Activity) {
        match activity {
            Activity::Nothing => {}
            Activity::Ended => self.turn().remove_served(conn, &owner),
            Activity::Served => self.turn().add_served(conn, &owner),
            // The time must follow `add_served`: the attachment stores times only for what the socket serves.
            Activity::Alive => {
                self.turn().add_served(conn, &owner);
                self.turn().restart_deadline_on_arrival(owner, conn, arrived_at);
            }
            Activity::Active => {
                self.turn().add_served(conn, &owner);
                self.record_activity(owner, conn).await;
            }
        }
    }

    /// Records activity other than a keep-alive. A machine comes online. The deadline of an active session restarts; an
    /// inactive session stays inactive. Errors are ignored, because later activity has the same effect.
    pub(in crate::hub) async fn record_activity(&self, owner: Owner, from: ConnId) {
        let now = self.rt.now();
        match owner {
            Owner::Machine(id) => drop(self.record_machine_activity(&id, from, now).await),
            Owner::Session(_) => self.turn().restart_deadline_on_arrival(owner, from, now),
        }
    }

    /// Refuses a large value if the write queue has no room for a copy. Call this before the value is copied out of its frame.
    fn check_room_for_copy(&self, bytes: usize) -> Result<(), Error> {
        if bytes > MAX_INLINE_BYTES { self.turn().ensure_write_queue_has_room(bytes) } else { Ok(()) }
    }

    /// Acknowledges a handled event; `None`: the commit of its change does. `ignored`: the names of the event's invalid fields.
    fn acknowledge(&self, from: Sender, ignored: &[&str], timing: Option<AckTiming>) {
        let (Some(timing), Some(ack)) = (timing, from.ack) else { return };
        let failed = message_rejected("The hub could not store the change. Try again.", "unavailable", None);
        let reply = Reply::acknowledgement(from.conn, ack, &ok_ack(ignored), &failed);
        match timing {
            AckTiming::Now => self.turn().send_committed_reply(&reply),
            AckTiming::OnCommit => {
                self.turn().write_queue.on_commit(Effect::Reply(reply));
                self.start_commit();
            }
        }
    }

    /// Logs an event that the protocol does not define, the first of each name. CLIs of other versions may send such events.
    fn log_unknown_event(&self, name: &str) {
        let (name, logged) = (truncate(name, MAX_ECHO_CHARS), &mut self.turn().unknown_events);
        if logged.len() < MAX_UNKNOWN_EVENTS && !logged.contains(name.as_ref()) {
            self.telemetry.log(LogLine::new(Level::Debug, "unknown-event").text("name", &name));
            logged.insert(name.into_owned());
        }
    }
}
