//! Opaque JSON and metadata: the text is the author's to the letter, one member can be changed and the rest stays, and
//! whatever an accepted metadata holds, the list has a line for its session.

use serde::de::IgnoredAny;
use serde_json::Value;
use session_gateway_hub::model::json::{Json, JsonObject};
use session_gateway_hub::model::large::Field;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::session::{Session, check_metadata, mark_running, with_name};
use session_gateway_hub::model::summary::{SessionSummary, SummaryFields};

use super::value;

pub fn run(text: &str) {
    let parsed = Json::parse(text);
    assert_eq!(parsed.is_ok(), serde_json::from_str::<IgnoredAny>(text).is_ok());
    let Ok(json) = parsed else { return };
    assert_eq!(json.text(), text.trim_matches([' ', '\t', '\r', '\n']));
    members(&json);
    metadata(&json);
}

fn members(json: &Json) {
    let Ok(mut object) = JsonObject::parse_strict("field", json.raw()) else { return };
    let names: Vec<String> = object.members().map(|(name, _)| name.to_owned()).collect();
    let written = object.to_json();
    let again = JsonObject::parse(written.text()).expect("what was written");
    assert!(object.members().zip(again.members()).all(|((a, x), (b, y))| a == b && x.get() == y.get()));
    if let Some(Value::Object(expected)) = value(json.text()) {
        assert_eq!(names.len(), expected.len(), "no name stands twice");
        assert!(
            names.iter().all(|name| value(object.get(name).expect("a member").get()).as_ref() == expected.get(name))
        );
    }
    let new = Json::of("new");
    for name in names.iter().map(String::as_str).chain(["added"]) {
        object.set(name, new.raw());
        assert_eq!(object.get(name).map(|value| value.get()), Some("\"new\""));
    }
    for name in &names {
        assert!(object.remove(name).is_some() && object.get(name).is_none());
    }
}

fn metadata(json: &Json) {
    if check_metadata(json).is_err() {
        return;
    }
    let mut session = Session::new("s".into(), Namespace::default(), "t".into(), Some(json.clone()), 1);
    let line = SessionSummary::of(SummaryFields::of(&session));
    let shown = value(&line.json);
    assert!(shown.is_some_and(|line| line["id"] == "s") || value(json.text()).is_none(), "{}", line.json);
    assert_eq!(line.archived, session.metadata_fields().is_archived());
    let head = Session { metadata: Some(Field::Metadata.excerpt(json)), ..session.clone() };
    assert_eq!(
        SessionSummary::of(SummaryFields::of(&head)).json,
        line.json,
        "the head of large metadata has what is listed"
    );
    let back = Session { metadata: Some(mark_running(session.metadata.as_ref(), 2)), ..session.clone() };
    assert!(!back.metadata_fields().is_archived());
    for changed in [back.metadata.as_ref(), Some(&session.metadata_keeping_name(json))].into_iter().flatten() {
        assert_eq!(check_metadata(changed), Ok(()));
    }
    session.metadata = Some(with_name(session.metadata.as_ref(), "new"));
    let listed = value(&SessionSummary::of(SummaryFields::of(&session)).json);
    assert!(listed.is_none_or(|line| line["metadata"]["name"] == "new"));
}
