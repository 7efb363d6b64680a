//! Events of CLIs. The first line of the input is the name, the rest the payload. An event must be accepted exactly if its
//! fields have the right types, and must have the values that a JSON parser finds.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use session_gateway_hub::limits::MAX_LOCAL_ID_BYTES;
use session_gateway_hub::model::json::{Json, MAX_SAFE_INTEGER};
use session_gateway_hub::model::owner::Owner;
use session_gateway_hub::model::text_parts::TextParts;
use session_gateway_hub::wire::cli::MAX_DELTA_TEXT_BYTES;
use session_gateway_hub::wire::cli::{
    CliEvent, EventError, UpdateEvent, decode, error_event, message_rejected, rpc_request, update_ack, update_rejected,
};

use super::{lines, value};

pub fn run(input: &str) {
    let [name, payload] = lines(input);
    // The Socket.IO parser passes on only valid JSON.
    let Ok(raw) = serde_json::from_str::<&RawValue>(payload) else { return };
    let decoded = decode(name, &[raw]);
    match &decoded {
        Ok(event) => check_values(event, raw),
        Err(EventError::Unknown(unknown)) => assert_eq!(unknown, name),
        Err(EventError::Malformed { cause, .. }) => {
            assert!(!cause.message.starts_with("It is not valid JSON"), "{payload}: {}", cause.message);
        }
    }
    if let Some(parsed) = value(payload) {
        // Serialized again without duplicate keys, which the hub refuses.
        let printed: Box<RawValue> = serde_json::value::to_raw_value(&parsed).expect("a value");
        assert_eq!(decode(name, &[&printed]).is_ok(), has_valid_types(name, &parsed), "{name} {printed}");
    }
    check_answers(name, raw);
}

/// Whether a payload has the types of docs/PROTOCOL-CLI.md, "Events from a CLI".
fn has_valid_types(name: &str, payload: &Value) -> bool {
    let text = |field: &str| payload[field].is_string();
    let any = |field: &str| payload.get(field).is_some();
    let absent = |field: &str| payload.get(field).is_none_or(Value::is_null);
    let is_whole = |number: f64| number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER as f64).contains(&number);
    let version = || payload["expectedVersion"].is_u64() || payload["expectedVersion"].as_f64().is_some_and(is_whole);
    let is_object = payload.is_object();
    match name {
        "ping" => true,
        "message" => is_object && text("sid") && any("message") && (absent("localId") || text("localId")),
        "update-metadata" => is_object && text("sid") && version() && any("metadata"),
        "update-state" => is_object && text("sid") && version() && any("agentState"),
        "machine-update-metadata" => is_object && text("machineId") && version() && any("metadata"),
        "machine-update-state" => is_object && text("machineId") && version() && any("runnerState"),
        "message-delta" => {
            let length = |field: &str| payload[field].as_str().map_or(0, str::len);
            let offset = absent("offset") || payload["offset"].as_u64().is_some_and(|at| at <= MAX_SAFE_INTEGER);
            let kind = absent("kind") || payload["kind"] == "text" || payload["kind"] == "thinking";
            let id = (1..=MAX_LOCAL_ID_BYTES).contains(&length("id"));
            is_object && text("sid") && id && text("text") && length("text") <= MAX_DELTA_TEXT_BYTES && offset && kind
        }
        // Other invalid fields of a keep-alive are ignored.
        "session-alive" | "session-end" => is_object && text("sid"),
        "machine-alive" => is_object && text("machineId"),
        "rpc-register" | "rpc-unregister" => is_object && text("method") && payload["method"] != "",
        _ => false,
    }
}

/// Compares an event with its payload.
fn check_values(event: &CliEvent<'_>, raw: &RawValue) {
    let Some(payload) = value(raw.get()) else { return };
    let text = |field: &str, read: &str| assert_eq!(payload[field], *read);
    let word = |field: &str, read: &Option<String>| assert_eq!(payload[field], json!(read));
    let opaque = |field: &str, read: &RawValue| {
        assert!(raw.get().contains(read.get()), "opaque JSON is kept verbatim");
        assert_eq!(value(read.get()).as_ref(), payload.get(field));
    };
    match event {
        CliEvent::Message(message) => {
            text("sid", &message.sid);
            word("localId", &message.local_id);
            let content = value(message.content().text());
            let inner = payload["message"].as_str().and_then(|text| Json::parse(text).ok());
            let expected = inner.map_or(Some(payload["message"].clone()), |inner| value(inner.text()));
            assert_eq!(content, expected);
        }
        CliEvent::MessageDelta(delta) => {
            text("sid", &delta.sid);
            text("id", &delta.id);
            opaque("text", delta.text.raw());
            assert_eq!(payload["offset"], json!(delta.offset));
            assert_eq!(payload["kind"], json!(delta.kind));
        }
        CliEvent::Update(UpdateEvent { owner, field, expected_version, value }) => {
            text(if matches!(owner, Owner::Session(_)) { "sid" } else { "machineId" }, owner.id());
            assert_eq!(payload["expectedVersion"].as_f64(), Some(*expected_version as f64));
            opaque(field.name(), value);
        }
        CliEvent::SessionAlive(alive) => {
            text("sid", &alive.sid);
            let keywords = [("permissionMode", &alive.permission_mode), ("modelMode", &alive.model_mode)];
            for (name, keyword) in keywords.into_iter().filter(|(name, _)| !alive.ignored.contains(name)) {
                word(name, keyword);
            }
            let sent = payload["activity"].as_str().unwrap_or_default();
            assert!(alive.activity.as_ref().is_none_or(|activity| sent.contains(activity)), "the first line");
            for (name, value) in [("thinking", json!(alive.thinking)), ("mode", json!(alive.mode))] {
                let expected = if alive.ignored.contains(&name) { &serde_json::Value::Null } else { &payload[name] };
                assert_eq!(*expected, value, "{name}");
            }
        }
        CliEvent::SessionEnd(end) => text("sid", &end.sid),
        CliEvent::MachineAlive(alive) => text("machineId", &alive.machine_id),
        CliEvent::RpcRegister(rpc) | CliEvent::RpcUnregister(rpc) => text("method", &rpc.method),
        CliEvent::Ping => {}
    }
}

/// Checks that messages with untrusted text in them are valid JSON with that text.
fn check_answers(text: &str, opaque: &RawValue) {
    let json = Json::from(opaque);
    let ack = TextParts::value(Some(json)).insert_into(&update_ack(false, 7, "metadata"), "null").concat();
    assert!(ack.contains(opaque.get()) && Json::parse(&ack).is_ok(), "{ack}");
    let encoded = [
        (message_rejected(text, "code", None), "error"),
        (update_rejected(text, "code"), "reason"),
        (rpc_request("method", text), "params"),
    ];
    for (json, field) in encoded {
        let parsed = value(&json).expect("JSON");
        // Error texts are truncated.
        let is_truncated = text.chars().count() > 1_000 && field != "params";
        assert!(parsed[field] == *text || is_truncated, "{json}");
    }
    let error = value(&error_event(text, "code", Some(("session", text)))).expect("JSON");
    for (field, limit) in [("message", 1_000), ("id", 255)] {
        let found = error[field].as_str().expect("a text");
        let start: String = text.chars().take(limit).collect();
        assert!(found == text || (start.len() < text.len() && found.starts_with(&start)), "{field}: {found}");
    }
}
