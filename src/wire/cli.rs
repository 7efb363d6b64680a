//! The events between a CLI and the hub (PROTOCOL.md "Events from a CLI") as types.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::field_types::{optional_scalar, optional_word, scalar, shown};
use super::fields::{FieldError, read_object};
use crate::model::json::{Json, unescape};
use crate::model::keyword::MAX_KEYWORD_BYTES;
use crate::model::session::ControlMode;

/// The Socket.IO namespace of CLIs.
pub const NAMESPACE: &str = "/cli";

/// What a CLI names in its CONNECT packet.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectAuth {
    /// An access token; `None` when it came with the upgrade.
    pub token: Option<String>,
    /// The session that the socket is to stand for.
    pub session_id: Option<String>,
    /// The machine that the socket is to stand for.
    pub machine_id: Option<String>,
    /// The namespace that the client takes the token for; it must be the token's.
    pub namespace: Option<String>,
}

/// Something a CLI says.
#[derive(Debug)]
pub enum CliEvent<'a> {
    /// An entry for a session's history.
    Message(NewMessage<'a>),
    /// New metadata of a session.
    UpdateMetadata(SessionUpdate<'a>),
    /// A new agent state of a session.
    UpdateState(SessionUpdate<'a>),
    /// A session's sign of life.
    SessionAlive(SessionAlive),
    /// A session's end.
    SessionEnd(SessionEnd),
    /// A machine's sign of life.
    MachineAlive(MachineAlive),
    /// New metadata of a machine.
    MachineUpdateMetadata(MachineUpdate<'a>),
    /// A new runner state of a machine.
    MachineUpdateState(MachineUpdate<'a>),
    /// From now on this socket serves a method.
    RpcRegister(RpcMethod),
    /// It serves the method no more.
    RpcUnregister(RpcMethod),
    /// A question whether the hub is there.
    Ping,
}

/// `message`: an entry for the session's history.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewMessage<'a> {
    /// The session's id.
    pub sid: String,
    #[serde(borrow)]
    message: &'a RawValue,
    /// The CLI's own id of the message: one that is known is not stored again.
    pub local_id: Option<String>,
}

impl NewMessage<'_> {
    /// The content; a JSON string that holds JSON is unwrapped.
    pub fn content(&self) -> Json {
        unescape(self.message.get()).and_then(Json::from_string).unwrap_or_else(|| Json::from(self.message))
    }

    /// How many bytes it has as it came.
    pub fn size(&self) -> usize {
        self.message.get().len()
    }
}

/// `update-metadata` and `update-state`: a new value for the version that the CLI knows.
#[derive(Debug)]
pub struct SessionUpdate<'a> {
    /// The session's id.
    pub sid: String,
    /// The version that the new value was made from.
    pub expected_version: u64,
    /// The new value.
    pub value: &'a RawValue,
}

/// `machine-update-metadata` and `machine-update-state`.
#[derive(Debug)]
pub struct MachineUpdate<'a> {
    /// The machine's id.
    pub machine_id: String,
    /// The version that the new value was made from.
    pub expected_version: u64,
    /// The new value.
    pub value: &'a RawValue,
}

/// `session-alive`: a sign of life, with what the session is about.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionAlive {
    /// The session's id.
    pub sid: String,
    /// When it was said, in Unix milliseconds by the clock of the CLI.
    #[serde(deserialize_with = "scalar")]
    pub time: f64,
    /// Whether the agent is at work.
    #[serde(default, deserialize_with = "optional_scalar")]
    pub thinking: Option<bool>,
    /// Who is in control.
    #[serde(default, deserialize_with = "optional_word")]
    pub mode: Option<ControlMode>,
    /// The permission mode of the agent.
    pub permission_mode: Option<String>,
    /// The model of the agent.
    pub model_mode: Option<String>,
}

impl SessionAlive {
    fn checked(self) -> Result<Self, FieldError> {
        let words = [("permissionMode", &self.permission_mode), ("modelMode", &self.model_mode)];
        for (field, word) in words {
            if word.as_ref().is_some_and(|word| word.len() > MAX_KEYWORD_BYTES) {
                return Err(FieldError::new(
                    field,
                    format!("Field `{field}` must have at most {MAX_KEYWORD_BYTES} bytes."),
                ));
            }
        }
        Ok(self)
    }
}

/// `session-end`: the CLI is done with the session.
#[derive(Debug, Deserialize)]
pub struct SessionEnd {
    /// The session's id.
    pub sid: String,
    /// When it was said, in Unix milliseconds by the clock of the CLI.
    #[serde(deserialize_with = "scalar")]
    pub time: f64,
}

/// `machine-alive`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineAlive {
    /// The machine's id.
    pub machine_id: String,
    /// When it was said, in Unix milliseconds by the clock of the CLI.
    #[serde(deserialize_with = "scalar")]
    pub time: f64,
}

/// `rpc-register` and `rpc-unregister`.
#[derive(Debug, Deserialize)]
pub struct RpcMethod {
    /// The method's name, with or without the id of its session or machine before a colon.
    pub method: String,
}

impl RpcMethod {
    fn checked(self) -> Result<Self, FieldError> {
        if self.method.is_empty() {
            return Err(FieldError::new("method", "Field `method` must not be empty."));
        }
        Ok(self)
    }
}

/// Why an event was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// There is no event of this name.
    #[error("Unknown event `{0}`.")]
    Unknown(String),
    /// Its payload is not what it must be.
    #[error("Event `{name}` is malformed. {cause}")]
    Malformed {
        /// The name of the event.
        name: String,
        /// What is wrong with its payload.
        cause: FieldError,
    },
}

/// Reads an event from its name and arguments.
pub fn decode<'a>(name: &str, args: &[&'a RawValue]) -> Result<CliEvent<'a>, EventError> {
    let payload = args.first().map_or("", |raw| raw.get());
    let event = match name {
        "message" => read_object(payload).map(CliEvent::Message),
        "update-metadata" => {
            read_object(payload).map(|u: MetadataFields<'_>| CliEvent::UpdateMetadata(u.of(u.metadata)))
        }
        "update-state" => read_object(payload).map(|u: StateFields<'_>| CliEvent::UpdateState(u.of(u.agent_state))),
        "session-alive" => read_object(payload).and_then(SessionAlive::checked).map(CliEvent::SessionAlive),
        "session-end" => read_object(payload).map(CliEvent::SessionEnd),
        "machine-alive" => read_object(payload).map(CliEvent::MachineAlive),
        "machine-update-metadata" => {
            read_object(payload).map(|u: MachineMetadataFields<'_>| CliEvent::MachineUpdateMetadata(u.of(u.metadata)))
        }
        "machine-update-state" => {
            read_object(payload).map(|u: MachineStateFields<'_>| CliEvent::MachineUpdateState(u.of(u.runner_state)))
        }
        "rpc-register" => read_object(payload).and_then(RpcMethod::checked).map(CliEvent::RpcRegister),
        "rpc-unregister" => read_object(payload).and_then(RpcMethod::checked).map(CliEvent::RpcUnregister),
        "ping" => Ok(CliEvent::Ping),
        _ => return Err(EventError::Unknown(name.to_owned())),
    };
    event.map_err(|cause| EventError::Malformed { name: name.to_owned(), cause })
}

/// The four versioned updates differ in the names of their fields only.
macro_rules! versioned_fields {
    ($fields:ident, $value:ident, $id:ident, $update:ident) => {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct $fields<'a> {
            $id: String,
            #[serde(deserialize_with = "scalar")]
            expected_version: u64,
            #[serde(borrow)]
            $value: &'a RawValue,
        }
        impl<'a> $fields<'a> {
            fn of(&self, value: &'a RawValue) -> $update<'a> {
                $update { $id: self.$id.clone(), expected_version: self.expected_version, value }
            }
        }
    };
}
versioned_fields!(MetadataFields, metadata, sid, SessionUpdate);
versioned_fields!(StateFields, agent_state, sid, SessionUpdate);
versioned_fields!(MachineMetadataFields, metadata, machine_id, MachineUpdate);
versioned_fields!(MachineStateFields, runner_state, machine_id, MachineUpdate);

/// Acknowledges a `message`: it is durable under this id and seq.
pub fn message_ack(id: &str, seq: u64) -> String {
    format!(r#"{{"ok":true,"id":"{id}","seq":{seq}}}"#)
}

/// Acknowledges a `message` that was not taken.
pub fn message_refused(error: &str, code: &str) -> String {
    to_text(&Refused { ok: false, error: &shown(error, MAX_SENTENCE), code })
}

#[derive(Serialize)]
struct Refused<'a> {
    ok: bool,
    error: &'a str,
    code: &'a str,
}

/// The answer to a versioned update. `field` is the name under which the value stands (`metadata`, `agentState`,
/// `runnerState`); the value itself is put in the place of the null there, the only one.
pub enum UpdateAck<'a> {
    /// The update is stored under this version.
    Success {
        /// The version of the value.
        version: u64,
        /// The name under which the value stands.
        field: &'a str,
    },
    /// It was made from another version than this one, which stands.
    Mismatch {
        /// The version of the value.
        version: u64,
        /// The name under which the value stands.
        field: &'a str,
    },
    /// It is not stored.
    Error {
        /// The sentence for a person.
        reason: &'a str,
        /// The stable word for programs.
        code: &'a str,
    },
}

impl UpdateAck<'_> {
    /// The acknowledgement as JSON text.
    pub fn encode(&self) -> String {
        let versioned =
            |result, version, field| format!(r#"{{"result":"{result}","version":{version},"{field}":null}}"#);
        match self {
            Self::Success { version, field } => versioned("success", version, field),
            Self::Mismatch { version, field } => versioned("version-mismatch", version, field),
            Self::Error { reason, code } => {
                to_text(&Failed { result: "error", reason: &shown(reason, MAX_SENTENCE), code })
            }
        }
    }
}

#[derive(Serialize)]
struct Failed<'a> {
    result: &'a str,
    reason: &'a str,
    code: &'a str,
}

/// The longest sentence that tells a CLI of its mistake, in characters: names and ids that it sent stand in it.
const MAX_SENTENCE: usize = 1_000;
/// The longest id that it is told of as it stands, in characters. No session or machine has one that is longer.
const MAX_ID: usize = 255;

/// The hub's `error` event.
#[derive(Serialize)]
pub struct ErrorEvent<'a> {
    message: Cow<'a, str>,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
}

impl<'a> ErrorEvent<'a> {
    /// What is wrong, and the scope and id that it is about. Of what a CLI sent only the beginning is sent back.
    pub fn new(message: &'a str, code: &'a str, about: Option<(&'a str, &'a str)>) -> Self {
        let (scope, id) = about.unzip();
        Self { message: shown(message, MAX_SENTENCE), code, scope, id: id.map(|id| shown(id, MAX_ID)) }
    }

    /// The event's argument as JSON text.
    pub fn encode(&self) -> String {
        to_text(self)
    }
}

/// The argument of `rpc-request`: `params` is JSON inside a JSON string.
pub fn rpc_request(method: &str, params: &str) -> String {
    to_text(&RpcRequest { method, params })
}

#[derive(Serialize)]
struct RpcRequest<'a> {
    method: &'a str,
    params: &'a str,
}

/// None of these types can fail to serialize: they hold texts, numbers and checked JSON.
fn to_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    fn error(name: &str, payload: &str) -> String {
        decode(name, &[&raw(payload)]).unwrap_err().to_string()
    }

    #[test]
    fn every_malformed_payload_names_its_field() {
        assert!(error("message", r#"{"message":{}}"#).contains("`sid`"));
        assert!(error("message", r#"{"sid":1,"message":{}}"#).contains("`sid`"));
        assert!(error("message", r#"{"sid":"s"}"#).contains("`message`"));
        assert!(
            error("update-state", r#"{"sid":"s","expectedVersion":-1,"agentState":null}"#)
                .contains("`expectedVersion`")
        );
        assert!(error("update-metadata", r#"{"sid":"s","expectedVersion":1}"#).contains("`metadata`"));
        assert!(error("session-alive", r#"{"sid":"s","time":1,"mode":"sideways"}"#).contains("`mode`"));
        assert!(error("session-alive", r#"{"sid":"s","time":"now"}"#).contains("`time`"));
        assert!(error("rpc-register", r#"{"method":null}"#).contains("`method`"));
        assert!(error("machine-alive", "[]").contains("object"));
        assert!(decode("message", &[]).unwrap_err().to_string().contains("object"));
        assert_eq!(error("no-such-event", "{}"), "Unknown event `no-such-event`.");
    }

    #[test]
    fn a_message_given_as_a_json_string_is_unwrapped() {
        let content = |payload: &str| {
            let payload = raw(payload);
            match decode("message", &[&payload]).unwrap() {
                CliEvent::Message(m) => m.content().text().to_owned(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(content(r#"{"sid":"s","message":"{\"role\":\"agent\",\"n\":1.0}"}"#), r#"{"role":"agent","n":1.0}"#);
        assert_eq!(content(r#"{"sid":"s","message":"just words"}"#), r#""just words""#);
        assert_eq!(content(r#"{"sid":"s","message":{"b":1,"a":2}}"#), r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn an_update_from_another_version_is_told_which_one_is_current() {
        let ack = UpdateAck::Mismatch { version: 4, field: "metadata" };
        assert_eq!(ack.encode(), r#"{"result":"version-mismatch","version":4,"metadata":null}"#);
    }
}
