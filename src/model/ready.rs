//! The message by which an agent says that it is done and waits (PROTOCOL.md "Push notifications"):
//! `{type: "event", data: {type: "ready"}}`, bare, or as `content` of a record `{role, content}`.

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

/// Whether a message's content (JSON text) says so.
pub fn is_ready(content: &str) -> bool {
    // This runs on every message, and nearly none says so: look before parsing. Inside a text the quotes are escaped.
    if !content.contains("\"ready\"") {
        return false;
    }
    is_event(content)
        || JsonObject::parse(content).is_some_and(|record| {
            let of_agent = record.get("role").is_some_and(|role| matches!(role.get(), "\"agent\"" | "\"assistant\""));
            of_agent && record.get("content").is_some_and(|content| is_event(content.get()))
        })
}

fn is_event(content: &str) -> bool {
    let data = data_of(content, "\"event\"").flatten();
    data.is_some_and(|data| data_of(data.get(), "\"ready\"").is_some())
}

/// The data of an object of this type.
fn data_of<'a>(text: &'a str, kind: &str) -> Option<Option<&'a RawValue>> {
    let typed: Typed = JsonObject::parse(text).and_then(|_| serde_json::from_str(text).ok())?;
    typed.kind.is_some_and(|known| known.get() == kind).then_some(typed.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_ready_when_its_message_says_so() {
        for ready in [
            r#"{"type":"event","data":{"type":"ready"}}"#,
            r#" {"data" : {"x":1, "type":"ready"}, "id":"e", "type":"event"}"#,
            r#"{"role":"agent","content":{"type":"event","data":{"type":"ready"}}}"#,
            r#"{"meta":{},"content":{"id":"1","type":"event","data":{"type":"ready"}},"role":"assistant"}"#,
        ] {
            assert!(is_ready(ready), "{ready}");
        }
    }

    #[test]
    fn nothing_else_makes_it_ready() {
        for other in [
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
            assert!(!is_ready(other), "{other}");
        }
    }
}
