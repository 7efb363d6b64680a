//! The fields that the hub reads in messages of agents, and the ready event: the message of an agent that has finished its task and waits
//! for input. Agents write many formats, so every field is optional and of any type.
//!
//! A ready event is `{type: "event", data: {type: "ready"}}`, either as the whole message or as `content` of a record `{role, content}`.
//! Source: PROTOCOL-PUSH.md "Push notifications".

use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields of a message, a record `{role, content}`, an object with a `type`, or a to-do entry: one type for all, because each type adds
/// its own parser to the wasm module. A field that is `null` is absent.
#[derive(Deserialize)]
pub struct Fields<'a> {
    #[serde(borrow)]
    pub role: Option<&'a RawValue>,
    pub content: Option<&'a RawValue>,
    #[serde(rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub data: Option<&'a RawValue>,
    pub message: Option<&'a RawValue>,
    pub payload: Option<&'a RawValue>,
    pub name: Option<&'a RawValue>,
    pub input: Option<&'a RawValue>,
    pub entries: Option<&'a RawValue>,
    pub todos: Option<&'a RawValue>,
    pub id: Option<&'a RawValue>,
    pub status: Option<&'a RawValue>,
    pub priority: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Parses a JSON object. The derived parser would also accept an array, as positional fields.
    pub fn parse(json: &'a str) -> Option<Self> {
        let is_object = json.trim_ascii_start().starts_with('{');
        is_object.then(|| serde_json::from_str(json).ok()).flatten()
    }
}

/// Whether a message is a ready event. `content` is JSON text.
pub fn is_ready(content: &str) -> bool {
    // Nearly all messages lack this text, and need not be parsed. (In a JSON string, the quotes would be escaped.)
    if !content.contains("\"ready\"") {
        return false;
    }
    let is_record_of_ready_event = |record: Fields<'_>| {
        let is_agent = record.role.is_some_and(|role| matches!(role.get(), "\"agent\"" | "\"assistant\""));
        is_agent && record.content.is_some_and(|content| is_ready_event(content.get()))
    };
    is_ready_event(content) || Fields::parse(content).is_some_and(is_record_of_ready_event)
}

fn is_ready_event(content: &str) -> bool {
    let data = Fields::parse(content).filter(|event| has_type(event, "\"event\"")).and_then(|event| event.data);
    data.and_then(|data| Fields::parse(data.get())).is_some_and(|data| has_type(&data, "\"ready\""))
}

/// Whether the `type` of an object is `json`, a JSON string.
fn has_type(object: &Fields<'_>, json: &str) -> bool {
    object.kind.map(RawValue::get) == Some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_event_is_recognized_in_each_form() {
        for content in [
            r#"{"type":"event","data":{"type":"ready"}}"#,
            r#" {"data" : {"x":1, "type":"ready"}, "id":"e", "type":"event"}"#,
            r#"{"role":"agent","content":{"type":"event","data":{"type":"ready"}}}"#,
            r#"{"meta":{},"content":{"id":"1","type":"event","data":{"type":"ready"}},"role":"assistant"}"#,
        ] {
            assert!(is_ready(content), "{content}");
        }
    }

    #[test]
    fn other_messages_are_not_ready_events() {
        for content in [
            r#""ready""#,
            r#"{"type":"ready"}"#,
            r#"{"type":"event","data":{"type":"message","message":"ready"}}"#,
            r#"{"type":"event","data":"ready"}"#,
            r#"{"type":"event","data":["ready",null]}"#,
            r#"["event",{"type":"ready"}]"#,
            r#"{"role":"user","content":{"type":"event","data":{"type":"ready"}}}"#,
            r#"{"content":{"type":"event","data":{"type":"ready"}}}"#,
            r#"{"role":"agent","content":{"type":"text","text":"{\"type\":\"event\",\"data\":{\"type\":\"ready\"}}"}}"#,
            r#"{"role":"agent","content":"ready"}"#,
            r#"{"type":"event","type":"event","data":{"type":"ready"}"#,
        ] {
            assert!(!is_ready(content), "{content}");
        }
    }
}
