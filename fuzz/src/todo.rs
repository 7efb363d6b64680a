//! Todo lists of messages: a list can be stored and read again, and is found in each kind of envelope.

use serde_json::Value;
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::todo::{TodoItem, extract, progress};
use session_gateway_hub::model::vocabulary::Vocabulary;

use super::value;

pub fn run(content: &str) {
    let vocabulary = Vocabulary::parse(r#"{"agents":{"zeta-coder":"alpha"}}"#).expect("a vocabulary");
    let found = extract(content, &vocabulary);
    if let Some(list) = &found {
        let stored = Json::of(list);
        assert_eq!(stored.read::<Vec<TodoItem>>().as_ref(), Some(list));
        assert_eq!(progress(list).total, list.len());
        assert!(progress(list).completed <= list.len() && list.iter().all(|item| !item.id.is_empty()));
        assert!(content.contains("TodoWrite") || content.contains("plan"));
    }
    let Ok(json) = Json::parse(content) else {
        assert_eq!(found, None, "invalid JSON has no list");
        return;
    };
    // The list is also found when the message is wrapped in an envelope.
    let envelopes = ["message", "data", "payload"];
    let is_record = |value: Value| value["role"].is_string() && envelopes.iter().all(|name| value.get(name).is_none());
    if found.is_some() && value(content).is_some_and(is_record) {
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
