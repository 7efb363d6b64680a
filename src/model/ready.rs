//! The ready event: the message of an agent that has finished its task and waits for input.
//!
//! The message is `{type: "event", data: {type: "ready"}}`, either as the whole message or as `content` of a record `{role, content}`.
//! Source: PROTOCOL-PUSH.md "Push notifications".

use serde_json::value::RawValue;

use super::agent_message::Fields;

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
