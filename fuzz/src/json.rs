//! Opaque JSON and metadata: the text is kept verbatim, changing one member keeps the others, and a session with valid
//! metadata has a valid summary in the list.

use serde::de::IgnoredAny;
use serde_json::Value;
use session_gateway_hub::model::json::{Json, JsonObject};
use session_gateway_hub::model::large::{InlineOrLarge, VersionedField};
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::session::{Session, fit_metadata, mark_running, with_name};
use session_gateway_hub::model::summary::{SessionSummary, SummaryFields};

use super::value;

pub fn run(text: &str) {
    let parsed = Json::parse(text);
    assert_eq!(parsed.is_ok(), serde_json::from_str::<IgnoredAny>(text).is_ok());
    let Ok(json) = parsed else { return };
    assert_eq!(json.text(), text.trim_matches([' ', '\t', '\r', '\n']));
    check_members(&json);
    check_metadata_and_summary(&json);
}

fn check_members(json: &Json) {
    let Ok(mut object) = JsonObject::parse_strict("field", json.raw()) else { return };
    let names: Vec<String> = object.members().map(|(name, _)| name.to_owned()).collect();
    let serialized = object.to_json();
    let again = JsonObject::parse(serialized.text()).expect("a valid object");
    assert!(object.members().zip(again.members()).all(|((a, x), (b, y))| a == b && x.get() == y.get()));
    if let Some(Value::Object(expected)) = value(json.text()) {
        assert_eq!(names.len(), expected.len(), "names are unique");
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

fn check_metadata_and_summary(json: &Json) {
    let Ok(json) = &fit_metadata(json) else { return };
    let mut session = Session::new("s".into(), Namespace::default(), "t".into(), Some(json.clone()), 1);
    let summary = SessionSummary::of(&SummaryFields::of(&session));
    let listed = value(summary.json.as_deref().expect("the JSON of the summary"));
    assert!(listed.is_some_and(|listed| listed["id"] == "s"), "{:?}", summary.json);
    assert_eq!(summary.archived, session.metadata_fields().is_archived());
    let excerpt =
        Session { metadata: InlineOrLarge::Inline(VersionedField::Metadata.excerpt(json)), ..session.clone() };
    assert_eq!(
        SessionSummary::of(&SummaryFields::of(&excerpt)).json,
        summary.json,
        "the excerpt of large metadata has the fields of the summary"
    );
    let resumed =
        Session { metadata: InlineOrLarge::Inline(mark_running(session.metadata.json(), 2)), ..session.clone() };
    assert!(!resumed.metadata_fields().is_archived());
    for changed in [resumed.metadata.json(), Some(&session.metadata_keeping_name(json))].into_iter().flatten() {
        assert_eq!(fit_metadata(changed).as_ref(), Ok(changed));
    }
    session.metadata = InlineOrLarge::Inline(with_name(session.metadata.json(), "new"));
    let renamed = SessionSummary::of(&SummaryFields::of(&session)).json.and_then(|json| value(&json));
    assert!(renamed.is_some_and(|summary| summary["metadata"]["name"] == "new"));
}
