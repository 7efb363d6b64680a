//! The ready event: the message of an agent that has finished its task and waits for input.
//!
//! It is `{type: "event", data: {type: "ready"}}`, either as the whole message or as `content` of a record `{role, content}`.
//! Source: PROTOCOL.md "Push notifications".

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::JsonObject;

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Whether a message is a ready event. `content` is JSON text.
pub fn is_ready(content: &str) -> bool {
    // Avoids parsing nearly all messages. In a JSON string the quotes would be escaped.
    if !content.contains("\"ready\"") {
        return false;
    }
    is_ready_event(content)
        || JsonObject::parse(content).is_some_and(|record| {
            let is_agent = record.get("role").is_some_and(|role| matches!(role.get(), "\"agent\"" | "\"assistant\""));
            is_agent && record.get("content").is_some_and(|content| is_ready_event(content.get()))
        })
}

fn is_ready_event(content: &str) -> bool {
    let data = parse_data(content, "\"event\"").flatten();
    data.is_some_and(|data| parse_data(data.get(), "\"ready\"").is_some())
}

/// Returns the `data` of an object if its `type` is `kind`, a JSON string.
fn parse_data<'a>(text: &'a str, kind: &str) -> Option<Option<&'a RawValue>> {
    let typed: Typed = JsonObject::parse(text).and_then(|_| serde_json::from_str(text).ok())?;
    typed.kind.is_some_and(|known| known.get() == kind).then_some(typed.data)
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
