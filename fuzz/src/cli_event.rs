//! The events of CLIs: the first line is the name, the rest the payload. An event is taken exactly when a JSON parser
//! finds the right types in it, and says afterwards what the parser found.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use session_gateway_hub::hub::peers::frame_parts::FrameParts;
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::keyword::MAX_KEYWORD_BYTES;
use session_gateway_hub::wire::cli::{
    CliEvent, ErrorEvent, EventError, MachineUpdate, SessionUpdate, UpdateAck, decode, message_rejected, rpc_request,
};

use super::{lines, value};

pub fn run(input: &str) {
    let [name, payload] = lines(input);
    // The codec below hands in checked JSON only.
    let Ok(raw) = serde_json::from_str::<&RawValue>(payload) else { return };
    let decoded = decode(name, &[raw]);
    match &decoded {
        Ok(event) => as_json_says(event, raw),
        Err(EventError::Unknown(unknown)) => assert_eq!(unknown, name),
        Err(EventError::Malformed { cause, .. }) => {
            assert!(!cause.message.starts_with("It is not valid JSON"), "{payload} is JSON, but: {}", cause.message);
        }
    }
    if let Some(parsed) = value(payload) {
        // Printed again, no name stands twice, which the hub refuses and a parser may not.
        let printed: Box<RawValue> = serde_json::value::to_raw_value(&parsed).expect("a value");
        assert_eq!(decode(name, &[&printed]).is_ok(), fits(name, &parsed), "{name} {printed}");
    }
    answers(name, raw);
}

/// Whether a payload has the types that docs/PROTOCOL.md ("Events from a CLI") gives its event.
fn fits(name: &str, payload: &Value) -> bool {
    let text = |field: &str| payload[field].is_string();
    let any = |field: &str| payload.get(field).is_some();
    let absent = |field: &str| payload.get(field).is_none_or(Value::is_null);
    let number = |field: &str| payload[field].is_number();
    let version = || payload["expectedVersion"].is_u64();
    let word =
        |field: &str| absent(field) || payload[field].as_str().is_some_and(|word| word.len() <= MAX_KEYWORD_BYTES);
    let is_object = payload.is_object();
    match name {
        "ping" => true,
        "message" => is_object && text("sid") && any("message") && (absent("localId") || text("localId")),
        "update-metadata" => is_object && text("sid") && version() && any("metadata"),
        "update-state" => is_object && text("sid") && version() && any("agentState"),
        "machine-update-metadata" => is_object && text("machineId") && version() && any("metadata"),
        "machine-update-state" => is_object && text("machineId") && version() && any("runnerState"),
        "session-end" => is_object && text("sid") && number("time"),
        "machine-alive" => is_object && text("machineId") && number("time"),
        "rpc-register" | "rpc-unregister" => is_object && text("method") && payload["method"] != "",
        "session-alive" => {
            let mode = absent("mode") || payload["mode"] == "local" || payload["mode"] == "remote";
            let thinking = absent("thinking") || payload["thinking"].is_boolean();
            is_object
                && text("sid")
                && number("time")
                && thinking
                && mode
                && word("permissionMode")
                && word("modelMode")
        }
        _ => false,
    }
}

/// Compares an event with its payload.
fn as_json_says(event: &CliEvent<'_>, raw: &RawValue) {
    let Some(payload) = value(raw.get()) else { return };
    let text = |field: &str, read: &str| assert_eq!(payload[field], *read);
    let word = |field: &str, read: &Option<String>| assert_eq!(payload[field], json!(read));
    let opaque = |field: &str, read: &RawValue| {
        assert!(raw.get().contains(read.get()), "its text is the author's");
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
        CliEvent::UpdateMetadata(SessionUpdate { sid, expected_version, value })
        | CliEvent::UpdateState(SessionUpdate { sid, expected_version, value }) => {
            text("sid", sid);
            assert_eq!(payload["expectedVersion"], *expected_version);
            opaque(if matches!(event, CliEvent::UpdateState(_)) { "agentState" } else { "metadata" }, value);
        }
        CliEvent::MachineUpdateMetadata(MachineUpdate { machine_id, expected_version, value })
        | CliEvent::MachineUpdateState(MachineUpdate { machine_id, expected_version, value }) => {
            text("machineId", machine_id);
            assert_eq!(payload["expectedVersion"], *expected_version);
            opaque(if matches!(event, CliEvent::MachineUpdateState(_)) { "runnerState" } else { "metadata" }, value);
        }
        CliEvent::SessionAlive(alive) => {
            text("sid", &alive.sid);
            word("permissionMode", &alive.permission_mode);
            word("modelMode", &alive.model_mode);
            assert_eq!(payload["thinking"], json!(alive.thinking));
            assert_eq!(payload["mode"], json!(alive.mode));
            assert!(alive.time.is_finite());
        }
        CliEvent::SessionEnd(end) => {
            text("sid", &end.sid);
            assert!(end.time.is_finite());
        }
        CliEvent::MachineAlive(alive) => {
            text("machineId", &alive.machine_id);
            assert!(alive.time.is_finite());
        }
        CliEvent::RpcRegister(rpc) | CliEvent::RpcUnregister(rpc) => text("method", &rpc.method),
        CliEvent::Ping => {}
    }
}

/// What the hub says with somebody else's words in it is JSON, and the words come out as they went in.
fn answers(word: &str, opaque: &RawValue) {
    let json = Json::from(opaque);
    let ack = FrameParts::value(Some(json))
        .insert_into(&UpdateAck::Mismatch { version: 7, field: "metadata" }.encode(), "null");
    let ack = ack.concat();
    assert!(ack.contains(opaque.get()) && Json::parse(&ack).is_ok(), "{ack}");
    let said = [
        (message_rejected(word, "code"), "error"),
        (UpdateAck::Error { reason: word, code: "code" }.encode(), "reason"),
        (rpc_request("method", word), "params"),
    ];
    for (text, field) in said {
        let came = value(&text).expect("JSON");
        // Of a long one that only tells of a mistake, the beginning.
        let cut = word.chars().count() > 1_000 && field != "params";
        assert!(came[field] == *word || cut, "{text}");
    }
    let error = value(&ErrorEvent::new(word, "code", Some(("session", word))).encode()).expect("JSON");
    for (field, most) in [("message", 1_000), ("id", 255)] {
        let told = error[field].as_str().expect("a text");
        let beginning: String = word.chars().take(most).collect();
        assert!(told == word || (beginning.len() < word.len() && told.starts_with(&beginning)), "{field}: {told}");
    }
}
