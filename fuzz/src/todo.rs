//! Todo lists out of messages: what is found can be kept and read again, and is found as well inside of each envelope.

use serde_json::Value;
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::todo::{TodoItem, extract, progress};
use session_gateway_hub::model::vocabulary::Vocabulary;

use super::value;

pub fn run(content: &str) {
    let vocabulary = Vocabulary::parse(r#"{"agents":{"zeta-coder":"alpha"}}"#).expect("words");
    let found = extract(content, &vocabulary);
    if let Some(list) = &found {
        let kept = Json::of(list);
        assert_eq!(kept.read::<Vec<TodoItem>>().as_ref(), Some(list));
        assert_eq!(progress(list).total, list.len());
        assert!(progress(list).completed <= list.len() && list.iter().all(|item| !item.id.is_empty()));
        assert!(content.contains("TodoWrite") || content.contains("plan"));
    }
    let Ok(json) = Json::parse(content) else {
        assert_eq!(found, None, "no JSON has no list");
        return;
    };
    // In an envelope the record is looked for one level deep, so only one that is no envelope itself is found again.
    let is_record = value(content).is_some_and(|value| value["role"].is_string() && value.get("message").is_none());
    if is_record && found.is_some() && !has_envelope(content) {
        let text = json.text();
        for wrapped in [
            format!(r#"{{"message":{text}}}"#),
            format!(r#"{{"data":{{"message":{text}}}}}"#),
            format!(r#"{{"payload":{{"message":{text}}}}}"#),
        ] {
            assert_eq!(extract(&wrapped, &vocabulary), found, "{wrapped}");
        }
    }
}

fn has_envelope(content: &str) -> bool {
    let has = |field: &str| value(content).is_some_and(|value| value[field].is_object());
    ["data", "payload"].iter().any(|field| has(field)) || !value(content).is_some_and(|v| matches!(v, Value::Object(_)))
}
