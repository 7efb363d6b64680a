//! The `update` event: notifies a CLI of a change by another client (PROTOCOL-CLI.md "Events to a CLI").

use super::cli::NAMESPACE;
use super::socketio;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::message::Message;

/// The placeholder for a versioned value in an `update` event. Occurs nowhere else, because quotes in a string are escaped.
pub const VALUE_PLACEHOLDER: &str = r#""value":null"#;

/// Encodes the event. Opaque values in `body` are placeholders: [`TextParts`](crate::model::text_parts::TextParts) replaces them.
/// `id` is a UUID v7. `seq` increases monotonically in the namespace. `created_at`: Unix milliseconds.
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
