//! Tests of the vocabulary: parsing, resolving names, and the presets.

use super::*;

// The protocol's own names of agents are `alpha`, `beta` and so on; of models, `default`, `model_fast` and `model_strong`.

fn parse_error(text: &str) -> String {
    Vocabulary::parse(text).unwrap_err()
}

#[test]
fn sections_may_be_missing_or_empty() {
    for text in ["{}", r#"{"agents":{},"models":{},"methods":{}}"#, " {\n} "] {
        assert_eq!(Vocabulary::parse(text), Ok(Vocabulary::default()), "{text}");
    }
    assert!(Vocabulary::parse(r#"{"methods":{"git-status":"gitStatus"}}"#).is_ok());
}

#[test]
fn a_standard_name_cannot_get_another_meaning() {
    assert!(Vocabulary::parse(r#"{"agents":{"beta":"beta"},"models":{"default":"default"}}"#).is_ok());
    let table = [
        (r#"{"agents":{"beta":"alpha"}}"#, "`agents.beta`"),
        (r#"{"models":{"default":"model_fast"}}"#, "`models.default`"),
        (r#"{"methods":{"abort":"killSession"}}"#, "`methods.abort`"),
    ];
    for (text, field) in table {
        let error = parse_error(text);
        assert!(error.contains(field) && error.contains("is a standard name"), "{error}");
    }
}

#[test]
fn errors_name_the_field() {
    let long = format!(r#"{{"agents":{{"{}":"alpha"}}}}"#, "z".repeat(MAX_KEYWORD_BYTES + 1));
    let many = (0..=MAX_ALIASES).map(|n| format!(r#""z{n}":"alpha""#)).collect::<Vec<_>>().join(",");
    let many = format!(r#"{{"agents":{{{many}}}}}"#);
    let table = [
        ("agents", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ("{} {}", "must be a JSON object"),
        (r#"{"agents":{"z":"alpha"}"#, "must be a JSON object"),
        (r#"{"agent":{"z":"alpha"}}"#, "unknown field `agent`"),
        (r#"{"agents":["z"]}"#, "`agents` must be an object"),
        (r#"{"models":null}"#, "`models` must be an object"),
        (r#"{"models":{"swift":5}}"#, "`models.swift` must be a string"),
        (r#"{"models":{"swift":null}}"#, "`models.swift` must be a string"),
        (r#"{"agents":{"z":"omega"}}"#, "`agents.z` is `omega`: unknown agent: expected one of alpha, beta"),
        (r#"{"models":{"swift":"fast"}}"#, "`models.swift` is `fast`: unknown model mode: expected one of default"),
        (r#"{"methods":{"m":"gitstatus"}}"#, "`methods.m` is `gitstatus`: unknown method: expected one of upload"),
        (r#"{"agents":{"":"alpha"}}"#, "the word `` in `agents` must have 1 to 255 bytes"),
        (r#"{"agents":{"zeta coder":"alpha"}}"#, "the word `zeta coder` in `agents` must have"),
        (r#"{"agents":{"zeta\u0000":"alpha"}}"#, "no white space or control characters"),
        (&long, "must have 1 to 255 bytes"),
        (&many, "`agents` has 101 fields, but at most 100 are allowed"),
        (r#"{"agents":{"z":"alpha","z":"beta"}}"#, "`agents.z` is a duplicate field"),
        (r#"{"agents":{"z":"alpha"},"agents":{"z":"beta"}}"#, "`agents.z` is a duplicate field"),
    ];
    for (text, expected) in table {
        let error = parse_error(text);
        assert!(error.starts_with("VOCABULARY") && error.contains(expected), "{text}: {error}");
        assert!(error.ends_with('.'), "{error}");
    }
    assert!(Vocabulary::parse(&long.replacen('z', "", 1)).is_ok(), "255 bytes are not too many");
    assert!(Vocabulary::parse(&many.replacen(r#""z0":"alpha","#, "", 1)).is_ok(), "100 aliases are not too many");
}

#[test]
fn every_preset_is_valid_and_documented_and_resolves_its_words() {
    for (name, text) in PRESETS {
        let preset = Vocabulary::parse(&format!("preset:{name}")).unwrap();
        assert_eq!(Vocabulary::parse(text), Ok(preset), "{name}");
        let page = include_str!("../../docs/CLIENTS.md");
        assert!(
            page.contains(&format!("`VOCABULARY = \"preset:{name}\"`")),
            "docs/CLIENTS.md does not describe {name}."
        );
    }
    let hapi = Vocabulary::parse(" preset:hapi\n").unwrap();
    assert_eq!(hapi.default_agent(), "claude");
    assert_eq!(hapi.method("spawn-happy-session"), "spawnSession");
    assert_eq!(hapi.find_model("opus"), Ok(ModelMode::ModelStrong));
    assert_eq!(hapi.offered_agents().len(), 5);
    let models: Vec<String> = hapi.offered_models().into_iter().map(|(word, _)| word).collect();
    assert_eq!(models, ["default", "sonnet", "opus"]);
    let error = parse_error("preset:hapy");
    assert_eq!(error, "VOCABULARY: unknown preset `hapy`, expected one of hapi.");
}

#[test]
fn the_value_of_a_renamed_field_is_copied_to_the_field_with_the_protocol_s_name() {
    let vocabulary = Vocabulary::parse(r#"{"fields":{"model":"modelMode","rights":"permissionMode"}}"#).unwrap();
    for (text, expected) in [
        (r#"{"time":1.50,"model":"opus"}"#, r#"{"time":1.50,"model":"opus","modelMode":"opus"}"#),
        (r#"{"model":null}"#, r#"{"model":null,"modelMode":"default"}"#),
    ] {
        assert_eq!(vocabulary.with_protocol_fields(text).unwrap().text(), expected);
    }
    for unchanged in [r#"{"model":"a","modelMode":"b"}"#, r#"{"time":1}"#, r#"["model"]"#, r#"{"text":"model"}"#] {
        assert_eq!(vocabulary.with_protocol_fields(unchanged), None, "{unchanged}");
    }
    assert_eq!(vocabulary.field_names(ModeField::ModelMode).collect::<Vec<_>>(), ["modelMode", "model"]);
    assert_eq!(Vocabulary::default().field_names(ModeField::ModelMode).collect::<Vec<_>>(), ["modelMode"]);
    assert!(parse_error(r#"{"fields":{"model":"mode"}}"#).contains("expected one of permissionMode, modelMode"));
}

#[test]
fn a_label_is_any_text() {
    let vocabulary = Vocabulary::parse(r#"{"labels":{"zeta":"Zeta coder"}}"#).unwrap();
    assert_eq!([vocabulary.label("zeta"), vocabulary.label("eta")], [Some("Zeta coder"), None]);
    assert!(parse_error(r#"{"labels":{"zeta":1}}"#).contains("`labels.zeta` must be a string"));
}
