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
    // A record that is no envelope itself is found in each of the three.
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
