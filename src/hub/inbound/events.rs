//! What CLIs say, and what follows from it. Who is speaking comes from the socket; a session or machine that an event
//! names must be the namespace's. Whatever is wrong is answered, as the acknowledgement where one was asked for and as
//! an `error` event otherwise; the socket lives on.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::commit::AckTiming;
use crate::hub::error::{Error, Kind};
use crate::hub::inbound::frames::event_code;
use crate::hub::machines::manage::MachinePart;
use crate::hub::ports::ConnId;
use crate::hub::sessions::messages::Draft;
use crate::hub::state::effect::Effect;
use crate::hub::versioned::Updated;
use crate::model::json::Json;
use crate::model::large::MAX_INLINE_BYTES;
use crate::wire::cli::NAMESPACE;
use crate::wire::cli::{
    CliEvent, MachineUpdate, NewMessage, SessionUpdate, UpdateAck, decode, message_ack, message_rejected,
};
use crate::wire::socketio::{self, AckId};

/// An acknowledgement that says no more than that it was done.
const OK: &str = r#"{"ok":true}"#;

impl Hub {
    /// An event of a connected CLI.
    pub(in crate::hub) async fn on_event(
        self: &Arc<Self>,
        conn: ConnId,
        ack: Option<AckId>,
        name: &str,
        args: &[&RawValue],
    ) {
        let event = match decode(name, args) {
            Ok(event) => event,
            Err(error) => {
                let versioned = name.starts_with("update-") || name.starts_with("machine-update-");
                return self.refuse(conn, ack, versioned, None, "bad-payload", &error.to_string());
            }
        };
        match event {
            CliEvent::Message(message) => self.on_message(conn, ack, message).await,
            CliEvent::UpdateMetadata(u) => self.on_metadata(conn, ack, u).await,
            CliEvent::UpdateState(u) => self.on_state(conn, ack, u).await,
            CliEvent::MachineUpdateMetadata(u) => self.on_machine_update(conn, ack, MachinePart::Metadata, u).await,
            CliEvent::MachineUpdateState(u) => self.on_machine_update(conn, ack, MachinePart::RunnerState, u).await,
            CliEvent::SessionAlive(alive) => {
                let id = alive.sid.clone();
                let result = self.session_alive(alive, conn).await;
                self.answer(conn, ack, Kind::Session, &id, result);
            }
            CliEvent::SessionEnd(end) => {
                let result = self.session_end(&end).await;
                self.answer(conn, ack, Kind::Session, &end.sid, result);
            }
            CliEvent::MachineAlive(alive) => {
                let id = alive.machine_id.clone();
                let result = self.machine_alive(alive, conn).await;
                self.answer(conn, ack, Kind::Machine, &id, result);
            }
            CliEvent::RpcRegister(rpc) => match self.register(conn, &rpc.method) {
                Ok(()) => self.acknowledge(conn, ack),
                Err((code, message)) => self.refuse(conn, ack, false, Some(("rpc", &rpc.method)), code, message),
            },
            CliEvent::RpcUnregister(rpc) => {
                self.unregister(conn, &rpc.method);
                self.acknowledge(conn, ack);
            }
            CliEvent::Ping => self.acknowledge(conn, ack),
        }
    }

    async fn on_message(self: &Arc<Self>, conn: ConnId, ack: Option<AckId>, message: NewMessage<'_>) {
        if let Err(error) = self.check_message_size(&message) {
            let about = Some((Kind::Session.word(), message.sid.as_str()));
            return self.refuse(conn, ack, false, about, event_code(&error), &error.to_string());
        }
        let content = message.content();
        let draft = Draft { session: message.sid, local_id: message.local_id, content, from: Some(conn) };
        let sid = draft.session.clone();
        let result = self
            .append(draft, |message| {
                let done = socketio::ack_frame(NAMESPACE, ack?, &[&message_ack(&message.id, message.seq)]).into();
                let failed = message_rejected("The hub could not store the message. Send it again.", "unavailable");
                Some(Effect::Reply { conn, done, failed: socketio::ack_frame(NAMESPACE, ack?, &[&failed]) })
            })
            .await;
        if let Err(error) = result {
            self.refuse(conn, ack, false, Some((Kind::Session.word(), &sid)), event_code(&error), &error.to_string());
        }
    }

    async fn on_metadata(self: &Arc<Self>, conn: ConnId, ack: Option<AckId>, u: SessionUpdate<'_>) {
        let reply = |updated: &Updated| update_reply(conn, ack?, "metadata", updated);
        let result = match self.take_out(u.value) {
            Ok(value) => self.update_metadata(&u.sid, u.expected_version, value, conn, &reply).await,
            Err(error) => Err(error),
        };
        self.answer_update(conn, ack, Kind::Session, &u.sid, result);
    }

    async fn on_state(self: &Arc<Self>, conn: ConnId, ack: Option<AckId>, u: SessionUpdate<'_>) {
        let reply = |updated: &Updated| update_reply(conn, ack?, "agentState", updated);
        let result = match self.take_out(u.value) {
            Ok(value) => self.update_state(&u.sid, u.expected_version, value, conn, &reply).await,
            Err(error) => Err(error),
        };
        self.answer_update(conn, ack, Kind::Session, &u.sid, result);
    }

    async fn on_machine_update(
        self: &Arc<Self>,
        conn: ConnId,
        ack: Option<AckId>,
        part: MachinePart,
        u: MachineUpdate<'_>,
    ) {
        let reply = |updated: &Updated| update_reply(conn, ack?, part.name(), updated);
        let result = match self.take_out(u.value) {
            Ok(value) => self.update_machine(&u.machine_id, part, u.expected_version, value, conn, &reply).await,
            Err(error) => Err(error),
        };
        self.answer_update(conn, ack, Kind::Machine, &u.machine_id, result);
    }

    /// A value out of its frame. It is in memory already: one for which there is no room is refused before it is copied.
    fn take_out(&self, value: &RawValue) -> Result<Json, Error> {
        if value.get().len() > MAX_INLINE_BYTES {
            self.state().check_queue_for(value.get().len())?;
        }
        Ok(Json::from(value))
    }

    fn answer_update(&self, conn: ConnId, ack: Option<AckId>, kind: Kind, id: &str, result: Result<(), Error>) {
        if let Err(error) = result {
            self.refuse(conn, ack, true, Some((kind.word(), id)), event_code(&error), &error.to_string());
        }
    }

    /// Answers a sign of life: once what followed from it is durable.
    fn answer(
        self: &Arc<Self>,
        conn: ConnId,
        ack: Option<AckId>,
        kind: Kind,
        id: &str,
        result: Result<AckTiming, Error>,
    ) {
        match (result, ack) {
            (Ok(AckTiming::Now), _) => self.acknowledge(conn, ack),
            (Ok(AckTiming::OnCommit), None) => {}
            (Ok(AckTiming::OnCommit), Some(ack)) => {
                let failed = message_rejected("The hub could not store the change. Try again.", "unavailable");
                let done = socketio::ack_frame(NAMESPACE, ack, &[OK]).into();
                let failed = socketio::ack_frame(NAMESPACE, ack, &[&failed]);
                self.state().journal.on_commit(Effect::Reply { conn, done, failed });
                self.flush();
            }
            (Err(error), _) => {
                self.refuse(conn, ack, false, Some((kind.word(), id)), event_code(&error), &error.to_string())
            }
        }
    }

    fn acknowledge(&self, conn: ConnId, ack: Option<AckId>) {
        if let Some(ack) = ack {
            self.send_ack(conn, ack, OK);
        }
    }

    /// Says what is wrong: in the acknowledgement where one was asked for, and in an `error` event where none was or an
    /// id is at fault.
    fn refuse(
        &self,
        conn: ConnId,
        ack: Option<AckId>,
        versioned: bool,
        about: Option<(&str, &str)>,
        code: &str,
        message: &str,
    ) {
        if let Some(ack) = ack {
            let answer = match versioned {
                true => UpdateAck::Error { reason: message, code }.encode(),
                false => message_rejected(message, code),
            };
            self.send_ack(conn, ack, &answer);
        }
        if ack.is_none() || matches!(code, "access-denied" | "not-found") {
            self.send_error(conn, message, code, about);
        }
    }
}

fn update_reply(conn: ConnId, ack: AckId, field: &str, updated: &Updated) -> Option<Effect> {
    let (done, value) = match updated {
        Updated::Success { version, value } => (UpdateAck::Success { version: *version, field }, value),
        Updated::Mismatch { version, value } => (UpdateAck::Mismatch { version: *version, field }, value),
    };
    let failed = UpdateAck::Error { reason: "The hub could not store the update. Try again.", code: "unavailable" };
    Some(Effect::Reply {
        conn,
        done: value.clone().insert_into(&socketio::ack_frame(NAMESPACE, ack, &[&done.encode()]), "null"),
        failed: socketio::ack_frame(NAMESPACE, ack, &[&failed.encode()]),
    })
}
