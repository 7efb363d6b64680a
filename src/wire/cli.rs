//! Events between a CLI and the hub (PROTOCOL-CLI.md "Events from a CLI" and "Events to a CLI").

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::engineio;
use super::field_types::{optional_keyword, optional_scalar, scalar, truncate};
use super::fields::{read_lenient_text, read_object};
use super::socketio::{self, Packet};
use crate::limits::{MAX_KEYWORD_BYTES, MAX_LOCAL_ID_BYTES};
use crate::model::json::{FieldError, Json, MAX_SAFE_INTEGER, unescape};
use crate::model::large::VersionedField;
use crate::model::message::{Message, TextKind};
use crate::model::owner::Owner;
use crate::model::session::ControlMode;

/// The longest text of a `message-delta`, in bytes (PROTOCOL-EVENTS.md "Live text").
pub const MAX_DELTA_TEXT_BYTES: usize = 64 * 1024;

/// The longest activity, in characters. The rest of a longer activity is cut off.
const MAX_ACTIVITY_CHARS: usize = 200;

/// The longest error message to a CLI, in characters. The message may contain names and ids that the CLI sent.
const MAX_ERROR_CHARS: usize = 1_000;
/// The longest id in an error message to a CLI, in characters. Valid ids are not longer.
const MAX_ERROR_ID_CHARS: usize = 255;

/// The longest `installationId` of CONNECT, in bytes.
pub const MAX_INSTALLATION_ID_BYTES: usize = 100;

/// The Socket.IO namespace of CLIs.
pub const NAMESPACE: &str = "/cli";

/// The credentials in a CLI's CONNECT packet.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectAuth {
    /// An access token; `None` when it was sent with the upgrade request.
    pub token: Option<String>,
    pub session_id: Option<String>,
    pub machine_id: Option<String>,
    /// The namespace that the client expects; must be the namespace of the token.
    pub namespace: Option<String>,
    /// The installation of the client. While a socket of an installation serves a session, sockets of other installations do not.
    pub installation_id: Option<String>,
    /// What the client supports beyond the protocol's first version. Unknown names are ignored.
    pub features: Option<Vec<String>>,
}

impl ConnectAuth {
    /// Checks the length of `installationId`.
    pub fn validate(self) -> Result<Self, FieldError> {
        if let Some(id) = &self.installation_id {
            check_length("installationId", id, MAX_INSTALLATION_ID_BYTES)?;
        }
        Ok(self)
    }

    /// Whether the client accepts uploads in chunks (PROTOCOL-CLI.md "Uploads in chunks").
    pub fn accepts_upload_chunks(&self) -> bool {
        self.features.iter().flatten().any(|feature| feature == "upload-chunks")
    }
}

fn check_length(field: &str, text: &str, max_bytes: usize) -> Result<(), FieldError> {
    match (1..=max_bytes).contains(&text.len()) {
        true => Ok(()),
        false => Err(FieldError::of_rule(field, format_args!("must have 1 to {max_bytes} bytes"))),
    }
}

#[derive(Debug)]
pub enum CliEvent<'a> {
    Message(NewMessage<'a>),
    MessageDelta(MessageDelta),
    Update(UpdateEvent<'a>),
    SessionAlive(SessionAlive),
    SessionEnd(SessionEnd),
    MachineAlive(MachineAlive),
    RpcRegister(RpcMethod),
    RpcUnregister(RpcMethod),
    Ping,
}

impl CliEvent<'_> {
    /// Returns the session or machine for which the event speaks; `None` for an event about a method.
    pub fn owner(&self) -> Option<Owner> {
        let session = |id: &String| Some(Owner::Session(id.clone()));
        match self {
            Self::Message(message) => session(&message.sid),
            Self::MessageDelta(delta) => session(&delta.sid),
            Self::Update(update) => Some(update.owner.clone()),
            Self::SessionAlive(alive) => session(&alive.sid),
            Self::SessionEnd(end) => session(&end.sid),
            Self::MachineAlive(alive) => Some(Owner::Machine(alive.machine_id.clone())),
            Self::RpcRegister(_) | Self::RpcUnregister(_) | Self::Ping => None,
        }
    }
}

/// `message`: appends to the history of a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewMessage<'a> {
    pub sid: String,
    #[serde(borrow)]
    message: &'a RawValue,
    /// An idempotency key: a message with a known key is not stored again.
    pub local_id: Option<String>,
}

impl NewMessage<'_> {
    /// Returns the content. A JSON string that contains JSON is decoded.
    pub fn content(&self) -> Json {
        unescape(self.message.get()).and_then(Json::from_string).unwrap_or_else(|| Json::from(self.message))
    }

    /// Returns the size of the content as received, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.message.get().len()
    }
}

/// `message-delta`: a piece of a message that the agent is writing.
#[derive(Debug, Deserialize)]
pub struct MessageDelta {
    pub sid: String,
    pub id: String,
    /// A JSON string, decoded together with the previous delta: it may begin or end with half of a surrogate pair.
    pub text: Json,
    /// Where `text` begins in the text of the message, in UTF-16 code units.
    #[serde(default, deserialize_with = "optional_scalar")]
    pub offset: Option<u64>,
    /// Whether the text belongs to the answer or to the reasoning.
    #[serde(default, deserialize_with = "optional_keyword")]
    pub kind: Option<TextKind>,
}

impl MessageDelta {
    fn validate(self) -> Result<Self, FieldError> {
        check_length("id", &self.id, MAX_LOCAL_ID_BYTES)?;
        if read_lenient_text("text", &self.text)?.0.len() > MAX_DELTA_TEXT_BYTES {
            return Err(FieldError::of_rule("text", format_args!("must have at most {MAX_DELTA_TEXT_BYTES} bytes")));
        }
        if self.offset.is_some_and(|offset| offset > MAX_SAFE_INTEGER) {
            return Err(FieldError::of_rule("offset", format_args!("must be at most {MAX_SAFE_INTEGER}")));
        }
        Ok(self)
    }
}

/// `update-metadata`, `update-state`, `machine-update-metadata` and `machine-update-state`: replace a versioned value.
#[derive(Debug)]
pub struct UpdateEvent<'a> {
    pub owner: Owner,
    pub field: VersionedField,
    pub expected_version: u64,
    pub value: &'a RawValue,
}

/// `session-alive`: a keep-alive with the state of the session. `time` is ignored, because the clock of the CLI may be wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionAlive {
    pub sid: String,
    pub thinking: Option<bool>,
    pub mode: Option<ControlMode>,
    pub permission_mode: Option<String>,
    pub model_mode: Option<String>,
    /// What the agent is doing: the first line of the received text, at most [`MAX_ACTIVITY_CHARS`].
    pub activity: Option<String>,
    /// The names of the invalid fields. An invalid field is `None` above, and the keep-alive is still valid.
    pub ignored: Vec<&'static str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionAliveFields<'a> {
    sid: String,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    mode: Option<&'a RawValue>,
    #[serde(borrow)]
    permission_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    model_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    activity: Option<&'a RawValue>,
}

impl SessionAliveFields<'_> {
    fn read(self) -> SessionAlive {
        fn read_field<T>(
            ignored: &mut Vec<&'static str>,
            name: &'static str,
            field: Option<&RawValue>,
            read: impl Fn(&str) -> Option<T>,
        ) -> Option<T> {
            let value = read(field?.get());
            if value.is_none() {
                ignored.push(name);
            }
            value
        }
        let read_keyword = |text: &str| {
            let keyword: String = serde_json::from_str(text).ok()?;
            (keyword.len() <= MAX_KEYWORD_BYTES).then_some(keyword)
        };
        let read_line = |text: &str| {
            let text: String = serde_json::from_str(text).ok()?;
            let line = text.trim().lines().next().unwrap_or_default();
            Some(line.chars().take(MAX_ACTIVITY_CHARS).collect::<String>())
        };
        let mut ignored = Vec::new();
        SessionAlive {
            sid: self.sid,
            thinking: read_field(&mut ignored, "thinking", self.thinking, |text| serde_json::from_str(text).ok()),
            mode: read_field(&mut ignored, "mode", self.mode, |text| read_keyword(text)?.parse().ok()),
            permission_mode: read_field(&mut ignored, "permissionMode", self.permission_mode, read_keyword),
            model_mode: read_field(&mut ignored, "modelMode", self.model_mode, read_keyword),
            activity: read_field(&mut ignored, "activity", self.activity, read_line).filter(|line| !line.is_empty()),
            ignored,
        }
    }
}

/// `session-end`: the CLI has left the session. The field `time` is ignored.
#[derive(Debug, Deserialize)]
pub struct SessionEnd {
    pub sid: String,
}

/// `machine-alive`: a keep-alive. The field `time` is ignored.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineAlive {
    pub machine_id: String,
}

/// `rpc-register` and `rpc-unregister`.
#[derive(Debug, Deserialize)]
pub struct RpcMethod {
    /// `<method>` or `<session or machine id>:<method>`.
    pub method: String,
}

impl RpcMethod {
    fn validate(self) -> Result<Self, FieldError> {
        if self.method.is_empty() {
            return Err(FieldError::of_rule("method", format_args!("must not be empty")));
        }
        Ok(self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error("Unknown event `{0}`.")]
    Unknown(String),
    #[error("Event `{name}` is malformed. {cause}")]
    Malformed { name: String, cause: FieldError },
}

/// Decodes the event in a frame if its name is one of `names`. Frames with other names are not parsed.
pub fn decode_frame<'a>(frame: &'a str, names: &[&str]) -> Option<CliEvent<'a>> {
    let Ok(engineio::Packet::Message(text)) = engineio::decode(frame) else { return None };
    let (_, event) = text.split_once('[')?;
    let name = event.trim_start().strip_prefix('"')?.split('"').next()?;
    if !names.contains(&name) {
        return None;
    }
    match socketio::decode(text) {
        Ok(Packet::Event { namespace: NAMESPACE, name, args, .. }) => decode(&name, &args).ok(),
        _ => None,
    }
}

/// Whether an event is a versioned update, whose acknowledgement has another shape.
pub fn is_update(name: &str) -> bool {
    matches!(name, "update-metadata" | "update-state" | "machine-update-metadata" | "machine-update-state")
}

/// Decodes an event. An event that the protocol does not define is an error, as is an invalid field.
pub fn decode<'a>(name: &str, args: &[&'a RawValue]) -> Result<CliEvent<'a>, EventError> {
    let payload = args.first().map_or("", |raw| raw.get());
    let event = match name {
        "message" => read_object(payload).map(CliEvent::Message),
        "message-delta" => read_object(payload).and_then(MessageDelta::validate).map(CliEvent::MessageDelta),
        "update-metadata" => read_object(payload).map(|u: MetadataUpdate<'_>| CliEvent::Update(u.into())),
        "update-state" => read_object(payload).map(|u: StateUpdate<'_>| CliEvent::Update(u.into())),
        "session-alive" => {
            read_object(payload).map(|alive: SessionAliveFields<'_>| CliEvent::SessionAlive(alive.read()))
        }
        "session-end" => read_object(payload).map(CliEvent::SessionEnd),
        "machine-alive" => read_object(payload).map(CliEvent::MachineAlive),
        "machine-update-metadata" => {
            read_object(payload).map(|u: MachineMetadataUpdate<'_>| CliEvent::Update(u.into()))
        }
        "machine-update-state" => read_object(payload).map(|u: MachineStateUpdate<'_>| CliEvent::Update(u.into())),
        "rpc-register" => read_object(payload).and_then(RpcMethod::validate).map(CliEvent::RpcRegister),
        "rpc-unregister" => read_object(payload).and_then(RpcMethod::validate).map(CliEvent::RpcUnregister),
        "ping" => Ok(CliEvent::Ping),
        _ => return Err(EventError::Unknown(name.to_owned())),
    };
    event.map_err(|cause| EventError::Malformed { name: name.to_owned(), cause })
}

// The four versioned updates differ only in the names of their fields. A macro instead of one type with serde aliases, because with
// aliases each event would accept the names of the other events.
macro_rules! versioned_fields {
    ($fields:ident, $id:ident, $value:ident, $owner:path, $field:path) => {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct $fields<'a> {
            $id: String,
            #[serde(deserialize_with = "scalar")]
            expected_version: u64,
            #[serde(borrow)]
            $value: &'a RawValue,
        }

        impl<'a> From<$fields<'a>> for UpdateEvent<'a> {
            fn from(u: $fields<'a>) -> Self {
                Self { owner: $owner(u.$id), field: $field, expected_version: u.expected_version, value: u.$value }
            }
        }
    };
}

versioned_fields!(MetadataUpdate, sid, metadata, Owner::Session, VersionedField::Metadata);
versioned_fields!(StateUpdate, sid, agent_state, Owner::Session, VersionedField::AgentState);
versioned_fields!(MachineMetadataUpdate, machine_id, metadata, Owner::Machine, VersionedField::MachineMetadata);
versioned_fields!(MachineStateUpdate, machine_id, runner_state, Owner::Machine, VersionedField::RunnerState);

/// The acknowledgement of a `message`, with the id and the seq of the stored message.
pub fn message_ack(id: &str, seq: u64) -> String {
    format!(r#"{{"ok":true,"id":"{id}","seq":{seq}}}"#)
}

/// The acknowledgement of an event. `ignored`: the names of the event's invalid fields.
pub fn ok_ack(ignored: &[&str]) -> String {
    match ignored {
        [] => r#"{"ok":true}"#.to_owned(),
        _ => Json::object(&[("ok", Json::of(&true)), ("ignored", Json::of(ignored))]).text().to_owned(),
    }
}

/// The acknowledgement of a `message` that was not stored. `quota`: the quota that refuses the message, if one does.
pub fn message_rejected(error: &str, code: &str, quota: Option<QuotaExceeded>) -> String {
    let (quota, retry_after_ms) = quota.map(|q| (Json::of(q.quota), Json::of(&q.retry_after_ms))).unzip();
    let members = [
        ("ok", Some(Json::of(&false))),
        ("error", Some(Json::of(truncate(error, MAX_ERROR_CHARS).as_ref()))),
        ("code", Some(Json::of(code))),
        ("quota", quota),
        ("retryAfterMs", retry_after_ms),
    ];
    Json::object_of_some(&members).text().to_owned()
}

/// A quota of the namespace that refuses a message for now.
#[derive(Debug, Clone, Copy)]
pub struct QuotaExceeded {
    /// `storage` or `messages`.
    pub quota: &'static str,
    /// How long the CLI should wait before it sends the message again.
    pub retry_after_ms: u64,
}

/// The acknowledgement of a versioned update that was applied, or that was based on an old version. `version`: the version of `field`
/// now, which includes an applied update. The value is null; the caller replaces it.
pub fn update_ack(is_applied: bool, version: u64, field: &str) -> String {
    let result = if is_applied { "success" } else { "version-mismatch" };
    format!(r#"{{"result":"{result}","version":{version},"{field}":null}}"#)
}

/// The acknowledgement of a versioned update that failed for another reason than its version.
pub fn update_rejected(reason: &str, code: &str) -> String {
    let reason = Json::of(truncate(reason, MAX_ERROR_CHARS).as_ref());
    Json::object(&[("result", Json::of("error")), ("reason", reason), ("code", Json::of(code))]).text().to_owned()
}

/// The argument of an `error` event. `subject` is the scope (`session` or `machine`) and id that the error is about.
pub fn error_event(message: &str, code: &str, subject: Option<(&str, &str)>) -> String {
    let message = Json::of(truncate(message, MAX_ERROR_CHARS).as_ref());
    let id_of = |id| Json::of(truncate(id, MAX_ERROR_ID_CHARS).as_ref());
    let (scope, id) = subject.map(|(scope, id)| (Json::of(scope), id_of(id))).unzip();
    let members = [("message", Some(message)), ("code", Some(Json::of(code))), ("scope", scope), ("id", id)];
    Json::object_of_some(&members).text().to_owned()
}

/// The argument of `rpc-request`: `params` is JSON inside a JSON string.
pub fn rpc_request(method: &str, params: &str) -> String {
    #[derive(Serialize)]
    struct Request<'a> {
        method: &'a str,
        params: &'a str,
    }
    // Strings always serialize. Not `Json::object`, which would copy large params twice.
    serde_json::to_string(&Request { method, params }).unwrap_or_default()
}

/// The placeholder for a versioned value in an `update` event. Occurs nowhere else, because quotes in a string are escaped.
pub const VALUE_PLACEHOLDER: &str = r#""value":null"#;

/// Encodes the event `update`, which notifies a CLI of a change by another client. [`TextParts`](crate::model::text_parts::TextParts)
/// replaces the placeholders in `body`. `id` is a UUID v7. `seq` increases in the namespace. `created_at`: Unix milliseconds.
pub fn update_frame(id: &str, seq: u64, created_at: u64, body: Json) -> String {
    let (id, seq, created_at) = (Json::of(id), Json::of(&seq), Json::of(&created_at));
    let update = Json::object(&[("id", id), ("seq", seq), ("createdAt", created_at), ("body", body)]);
    socketio::event_frame(NAMESPACE, None, "update", &[update.text()])
}

pub fn new_message(session: &str, message: &Message) -> Json {
    Json::object(&[("t", Json::of("new-message")), ("sid", Json::of(session)), ("message", Json::of(message))])
}

/// Returns the body for a new version of a field. The other versioned field of the session or machine, `id`, is null.
pub fn new_version(id: &str, field: VersionedField, version: u64) -> Json {
    let (kind, id_name, fields) = match field {
        VersionedField::Metadata | VersionedField::AgentState => ("update-session", "sid", ["metadata", "agentState"]),
        VersionedField::MachineMetadata | VersionedField::RunnerState => {
            ("update-machine", "machineId", ["metadata", "runnerState"])
        }
    };
    let changed = Json::object(&[("version", Json::of(&version)), ("value", Json::null())]);
    let [first, second] = fields.map(|name| (name, if name == field.name() { changed.clone() } else { Json::null() }));
    Json::object(&[("t", Json::of(kind)), (id_name, Json::of(id)), first, second])
}
