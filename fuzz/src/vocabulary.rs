//! The parsed variables of a deployment: VOCABULARY, CORS_ORIGINS and NAMESPACE_ROUTING. A valid value has its meaning, an
//! invalid one an error text.

use serde_json::Value;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::Routing;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::vocabulary::Vocabulary;

use super::value;

pub fn run(text: &str) {
    check_vocabulary(text);
    check_origins(text);
    match Routing::parse(text) {
        Ok(Routing::Single(namespace)) => {
            assert_eq!(Namespace::parse(namespace.as_str()), Some(namespace.clone()));
            assert_eq!(text.trim().strip_prefix("single:"), Some(namespace.as_str()));
        }
        Ok(_) => assert!(["", "token", "host"].contains(&text.trim())),
        Err(reason) => assert!(reason.starts_with("NAMESPACE_ROUTING")),
    }
}

fn check_vocabulary(text: &str) {
    let vocabulary = match Vocabulary::parse(text) {
        Ok(vocabulary) => vocabulary,
        Err(reason) => {
            assert!(reason.starts_with("VOCABULARY") && reason.ends_with('.'), "{reason}");
            return;
        }
    };
    let Some(Value::Object(parts)) = value(text) else { return };
    let each = |part: &str| parts.get(part).and_then(Value::as_object).into_iter().flatten();
    for (word, meaning) in each("agents") {
        let kind = vocabulary.find_agent(word).expect("a known word");
        assert!(kind.into_str() == meaning, "{word}: {meaning}");
        assert!(vocabulary.agent_names(kind, "written").any(|known| known == word));
    }
    for (word, meaning) in each("models") {
        assert!(vocabulary.find_model(word).expect("a word").to_string() == *meaning);
    }
    for (word, meaning) in each("methods") {
        assert!(vocabulary.method(word) == meaning);
    }
    assert!(vocabulary.find_agent(vocabulary.default_agent()).is_ok_and(|kind| kind.into_str() == "alpha"));
}

fn check_origins(text: &str) {
    match Cors::parse(text) {
        Ok(cors) if cors.0.iter().any(|origin| origin != "*") => {
            for origin in &cors.0 {
                assert!(cors.allows(origin, "hub.example"), "{origin}");
                let headers = cors.headers(Some(origin), "hub.example", false);
                assert_eq!(headers.get("access-control-allow-origin").map(|o| o.as_bytes()), Some(origin.as_bytes()));
            }
            assert!(!cors.allows("https://foreign.example/", "hub.example"));
        }
        Ok(_) => assert!(text.chars().all(|c| c == '*' || c == ',' || c == '/' || c.is_whitespace())),
        Err(reason) => assert!(reason.starts_with("CORS_ORIGINS")),
    }
}
