//! Events of CLIs (PROTOCOL-CLI.md "Events from a CLI"). An event names a session or machine of the socket's namespace. A rejected
//! event never closes the socket.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::AckTiming;
use crate::hub::core::versioned::VersionedUpdate;
use crate::hub::inbound::replies::{Rejection, Sender};
use crate::hub::sessions::drafts::Draft;
use crate::hub::turn::Turn;
use crate::limits::{MAX_ECHO_CHARS, MAX_INLINE_BYTES, MAX_UNKNOWN_EVENTS};
use crate::log::{Level, LogLine};
use crate::model::json::Json;
use crate::model::owner::Owner;
use crate::wire::cli::{CliEvent, EventError, NewMessage, UpdateEvent, decode, is_update};
use crate::wire::field_types::truncate;
use crate::wire::socketio::AckId;

impl Hub {
    /// Handles an event of a connected CLI. `arrived_at` is in Unix milliseconds.
    pub(in crate::hub) async fn on_event(
        self: &Arc<Self>,
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
                self.turn().count_unknown_event(&name);
                return self.turn().acknowledge_unknown(from);
            }
            Err(error) => {
                let message = error.to_string();
                return self
                    .turn()
                    .reject(from, &Rejection { code: "bad-payload", message, subject: None, quota: None });
            }
        };
        let session = event.session().map(|id| Owner::Session(id.to_owned()));
        if let Some(session) = session.filter(|session| self.turn().connections.is_served_elsewhere(session, conn)) {
            return self.turn().reject(from, &Rejection::served_elsewhere(session.id()));
        }
        if let CliEvent::Update(UpdateEvent { owner: owner @ Owner::Session(_), .. }) = &event {
            self.turn().restart_deadline_on_arrival(owner.clone(), conn, arrived_at);
        }
        match event {
            CliEvent::Message(message) => self.on_message(from, message).await,
            CliEvent::MessageDelta(delta) => match self.on_message_delta(&delta).await {
                Ok(()) => self.turn().acknowledge_now(from, &[]),
                Err(error) => self.turn().reject(from, &Rejection::of(&error, Kind::Session, &delta.sid)),
            },
            CliEvent::Update(update) => self.on_update(from, update).await,
            CliEvent::SessionAlive(alive) => {
                let result = self.on_session_alive(&alive, conn, arrived_at).await;
                if result.is_ok() {
                    self.record_served_by_keep_alive(conn, Owner::Session(alive.sid.clone()), arrived_at);
                }
                self.acknowledge(from, (Kind::Session, &alive.sid), &alive.ignored, result)
            }
            CliEvent::SessionEnd(end) => {
                let result = self.on_session_end(&end, conn).await;
                if result.is_ok() {
                    self.turn().remove_served(conn, &Owner::Session(end.sid.clone()));
                }
                self.acknowledge(from, (Kind::Session, &end.sid), &[], result)
            }
            CliEvent::MachineAlive(alive) => {
                let result = self.record_machine_activity(&alive.machine_id, conn, arrived_at).await;
                if result.is_ok() {
                    self.record_served_by_keep_alive(conn, Owner::Machine(alive.machine_id.clone()), arrived_at);
                }
                self.acknowledge(from, (Kind::Machine, &alive.machine_id), &[], result)
            }
            CliEvent::RpcRegister(rpc) => match self.register(conn, &rpc.method).await {
                Ok(owner) => {
                    if let Some(owner) = owner {
                        self.record_activity(owner, conn).await;
                    }
                    self.turn().acknowledge_now(from, &[]);
                }
                Err((code, message)) => self
                    .turn()
                    .reject(from, &Rejection { code, message, subject: Some(("rpc", &rpc.method)), quota: None }),
            },
            CliEvent::RpcUnregister(rpc) => {
                self.turn().unregister(conn, &rpc.method);
                self.turn().acknowledge_now(from, &[]);
            }
            CliEvent::Ping => self.turn().acknowledge_now(from, &[]),
        }
    }

    /// Returns how often each event that the protocol does not define was ignored since the object started.
    pub fn unknown_events(&self) -> HashMap<String, u64> {
        self.turn().unknown_events.clone()
    }

    async fn on_message(self: &Arc<Self>, from: Sender, message: NewMessage<'_>) {
        if let Err(error) = self.check_message_size(&message) {
            return self.turn().reject(from, &Rejection::of(&error, Kind::Session, &message.sid));
        }
        let content = message.content();
        let sid = message.sid.clone();
        let draft = Draft::of_cli(message.sid, message.local_id, content, from.conn, from.ack);
        let added = self.append_message(draft).await;
        self.record_served_or_reject(from, Owner::Session(sid), added.map(|_| ()))
    }

    async fn on_update(self: &Arc<Self>, from: Sender, update: UpdateEvent<'_>) {
        let UpdateEvent { owner, field, expected_version, value } = update;
        let Sender { conn, ack, .. } = from;
        let result = match self.copy_value(value) {
            Ok(value) => {
                let update = VersionedUpdate { id: owner.id(), field, expected_version, value, from: conn, ack };
                match &owner {
                    Owner::Session(_) => self.update_session(&update).await,
                    Owner::Machine(_) => self.update_machine(&update).await,
                }
            }
            Err(error) => Err(error),
        };
        let is_ok = result.is_ok();
        self.record_served_or_reject(from, owner.clone(), result);
        if is_ok {
            self.record_activity(owner, conn).await;
        }
    }

    /// Records activity other than a keep-alive. A machine comes online. The deadline of an active session restarts; an
    /// inactive session stays inactive. Errors are ignored, because later activity has the same effect.
    pub(in crate::hub) async fn record_activity(self: &Arc<Self>, owner: Owner, from: ConnId) {
        let now = self.rt.now();
        match owner {
            Owner::Machine(id) => drop(self.record_machine_activity(&id, from, now).await),
            Owner::Session(_) => self.turn().restart_deadline_on_arrival(owner, from, now),
        }
    }

    /// Records that a socket serves a session or machine whose keep-alive arrived on it.
    fn record_served_by_keep_alive(&self, conn: ConnId, owner: Owner, arrived_at: u64) {
        self.turn().add_served(conn, owner.clone());
        // Must follow `add_served`: the attachment stores times only for the sessions and machines that the socket serves.
        self.turn().restart_deadline_on_arrival(owner, conn, arrived_at);
    }

    /// Copies a value out of its frame. If the write queue has no room for a large value, refuses the value before the copy.
    fn copy_value(&self, value: &RawValue) -> Result<Json, Error> {
        if value.get().len() > MAX_INLINE_BYTES {
            self.turn().ensure_write_queue_has_room(value.get().len())?;
        }
        Ok(Json::from(value))
    }

    /// Rejects a failed event. After a successful event, records that the sender's socket serves the session or machine.
    fn record_served_or_reject(&self, from: Sender, owner: Owner, result: Result<(), Error>) {
        match result {
            Ok(()) => self.turn().add_served(from.conn, owner),
            Err(error) => self.turn().reject(from, &Rejection::of(&error, Kind::of(&owner), owner.id())),
        }
    }

    /// Acknowledges a keep-alive, or the end of a session: immediately, or when the change is durable. `ignored`: the names of
    /// the event's invalid fields.
    fn acknowledge(
        self: &Arc<Self>,
        from: Sender,
        (kind, id): (Kind, &str),
        ignored: &[&str],
        result: Result<AckTiming, Error>,
    ) {
        match result {
            Ok(AckTiming::Now) => self.turn().acknowledge_now(from, ignored),
            Ok(AckTiming::OnCommit) => {
                if let Some(reply) = from.ok_on_commit(ignored) {
                    self.turn().write_queue.on_commit(Effect::Reply(reply));
                    self.start_commit();
                }
            }
            Err(error) => self.turn().reject(from, &Rejection::of(&error, kind, id)),
        }
    }
}

impl Turn<'_> {
    /// Counts an event that the protocol does not define, and logs the first event of each name. CLIs of other versions may send
    /// such events.
    fn count_unknown_event(&mut self, name: &str) {
        let name = truncate(name, MAX_ECHO_CHARS);
        let counts = &mut self.state.unknown_events;
        if let Some(count) = counts.get_mut(name.as_ref()) {
            *count += 1;
        } else if counts.len() < MAX_UNKNOWN_EVENTS {
            self.hub.telemetry.log(LogLine::new(Level::Debug, "unknown-event").text("name", &name));
            counts.insert(name.into_owned(), 1);
        }
    }
}
