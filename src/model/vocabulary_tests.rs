//! Tests of the vocabulary: parsing, resolving names, and the words of each dialect.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use strum::VariantNames;

const SETTING: &str = r#"{
    "agents": {"zeta-coder": "alpha", "eta": "gamma", "zeta-classic": "alpha"},
    "models": {"swift": "model_fast", "thorough": "model_strong"},
    "methods": {"git-status": "gitStatus", "spawn-session": "spawnSession", "config": "set-session-config"}
}"#;

fn vocabulary() -> Vocabulary {
    Vocabulary::parse(SETTING).unwrap()
}

fn parse_error(text: &str) -> String {
    Vocabulary::parse(text).unwrap_err()
}

#[test]
fn aliases_and_standard_names_are_resolved() {
    let vocabulary = vocabulary();
    for (alias, kind) in [("zeta-coder", "alpha"), ("zeta-classic", "alpha"), ("eta", "gamma")] {
        assert_eq!(vocabulary.agent(alias).unwrap().as_str(), kind);
    }
    assert!(AgentKind::VARIANTS.iter().all(|name| vocabulary.agent(name) == name.parse()));
    assert_eq!(vocabulary.model("swift"), Ok(ModelMode::ModelFast));
    assert_eq!(vocabulary.model("thorough"), Ok(ModelMode::ModelStrong));
    assert!(ModelMode::VARIANTS.iter().all(|name| vocabulary.model(name) == name.parse()));
    assert_eq!(vocabulary.method("git-status"), "gitStatus");
    assert_eq!(vocabulary.method("config"), "set-session-config");
    assert!(Method::VARIANTS.iter().all(|name| vocabulary.method(name) == *name));
    assert_eq!(vocabulary.method("a method of the CLI's own"), "a method of the CLI's own");
}

#[test]
fn the_error_for_an_unknown_name_lists_standard_names_and_aliases() {
    assert_eq!(
        vocabulary().agent("theta").unwrap_err().to_string(),
        "unknown agent: expected one of alpha, beta, gamma, delta, epsilon, zeta-coder, eta, zeta-classic"
    );
    assert_eq!(
        Vocabulary::default().model("swift").unwrap_err().to_string(),
        "unknown model mode: expected one of default, model_fast, model_strong"
    );
    for similar in ["Swift", "swift ", "", "zeta-coder"] {
        assert!(vocabulary().model(similar).is_err(), "{similar:?}");
    }
}

#[test]
fn a_flavor_is_resolved_and_alpha_by_default() {
    let vocabulary = vocabulary();
    assert_eq!(vocabulary.flavor(Some("eta")), vocabulary.flavor(Some("gamma")));
    assert_eq!(vocabulary.flavor(None), Flavor::Agent(AgentKind::Alpha));
    assert_eq!(vocabulary.flavor(Some("theta")), Flavor::Unknown);
    assert_eq!(Vocabulary::default().flavor(Some("eta")), Flavor::Unknown);
}

#[test]
fn the_default_agent_is_the_first_alias_of_alpha() {
    assert_eq!(vocabulary().default_agent(), "zeta-coder");
    assert_eq!(Vocabulary::default().default_agent(), "alpha");
    let others = Vocabulary::parse(r#"{"agents":{"eta":"gamma"}}"#).unwrap();
    assert_eq!(others.default_agent(), "alpha");
    let both = Vocabulary::parse(r#"{"agents":{"alpha":"alpha","zeta-coder":"alpha"}}"#).unwrap();
    assert_eq!(both.default_agent(), "alpha", "a standard name may be listed as its own alias");
}

#[test]
fn the_names_of_an_agent_begin_with_the_preferred_one() {
    let vocabulary = vocabulary();
    let all = |preferred| vocabulary.agent_names(AgentKind::Alpha, preferred).collect::<Vec<_>>();
    assert_eq!(all("zeta-classic"), ["zeta-classic", "alpha", "zeta-coder", "zeta-classic"]);
    assert_eq!(all("alpha"), ["alpha", "alpha", "zeta-coder", "zeta-classic"]);
}

#[test]
fn sections_may_be_missing_or_empty() {
    for text in ["{}", r#"{"agents":{},"models":{},"methods":{}}"#, " {\n} "] {
        assert_eq!(Vocabulary::parse(text), Ok(Vocabulary::default()), "{text}");
    }
    assert!(Vocabulary::parse(r#"{"methods":{"git-status":"gitStatus"}}"#).is_ok());
}

#[test]
fn a_standard_name_may_be_an_alias_of_itself_only() {
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
        (r#"{"agents":{"":"alpha"}}"#, "`agents.` must have 1 to 255 bytes"),
        (r#"{"agents":{"zeta coder":"alpha"}}"#, "`agents.zeta coder` must have"),
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
fn every_preset_is_valid_and_its_words_are_used() {
    for (name, text) in PRESETS {
        let preset = Vocabulary::parse(&format!("preset:{name}")).unwrap();
        assert_eq!(Vocabulary::parse(text), Ok(preset), "{name}");
    }
    let hapi = Vocabulary::parse(" preset:hapi\n").unwrap();
    assert_eq!(hapi.default_agent(), "claude");
    assert_eq!(hapi.method("spawn-happy-session"), "spawnSession");
    assert_eq!(hapi.model("opus"), Ok(ModelMode::ModelStrong));
    assert_eq!(hapi.offered_agents().len(), 5);
    let models: Vec<String> = hapi.offered_models().into_iter().map(|(word, _)| word).collect();
    assert_eq!(models, ["default", "sonnet", "opus"]);
    let error = parse_error("preset:hapy");
    assert_eq!(error, "VOCABULARY: unknown preset `hapy`, expected one of hapi.");
}

#[test]
fn each_dialect_has_its_words() {
    use Dialect::{Own, Protocol};
    let vocabulary = vocabulary();
    let agents = [
        (Own, "alpha", "zeta-coder"),
        (Own, "zeta-classic", "zeta-classic"),
        (Own, "beta", "beta"),
        (Own, "theta", "theta"),
        (Protocol, "zeta-classic", "alpha"),
        (Protocol, "alpha", "alpha"),
        (Protocol, "theta", "theta"),
    ];
    for (dialect, name, expected) in agents {
        assert_eq!(vocabulary.agent_in(dialect, name), expected, "{dialect:?} {name}");
    }
    let models = [(Own, "model_fast", "swift"), (Own, "default", "default"), (Protocol, "swift", "model_fast")];
    for (dialect, name, expected) in models {
        assert_eq!(vocabulary.model_in(dialect, name), expected, "{dialect:?} {name}");
    }
}

#[test]
fn the_dialect_of_a_cli_shows_in_its_words() {
    use Dialect::{Own, Protocol};
    let vocabulary = vocabulary();
    for (method, dialect) in [("git-status", Own), ("gitStatus", Protocol), ("readFile", Own), ("custom", Own)] {
        assert_eq!(vocabulary.dialect_of_method(method), dialect, "{method}");
    }
    for (flavor, dialect) in
        [(Some("zeta-coder"), Own), (Some("alpha"), Protocol), (Some("beta"), Own), (Some("theta"), Own), (None, Own)]
    {
        assert_eq!(vocabulary.dialect_of_flavor(flavor), dialect, "{flavor:?}");
    }
}

#[test]
fn fields_are_read_under_their_own_words_and_written_under_all_names() {
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
