//! The vocabulary: a deployment's aliases for agents, models and methods, for CLIs that use other names than the protocol.
//!
//! The hub accepts an alias wherever it accepts the standard name. It stores and forwards the name that the client sent; an
//! alias is resolved only where the hub acts on it.
//! Source: docs/DEPLOY.md, variable `VOCABULARY`.

use std::str::FromStr;

use serde_json::value::RawValue;

use super::json::JsonObject;
use super::keyword::UnknownKeyword;
use super::method::Method;
use super::mode::{AgentKind, Flavor, ModelMode};
use crate::limits::{MAX_ALIASES, MAX_KEYWORD_BYTES};

/// Aliases with their meanings, in the order of the setting.
type Aliases<T> = Vec<(String, T)>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    agents: Aliases<AgentKind>,
    models: Aliases<ModelMode>,
    methods: Aliases<Method>,
}

impl Vocabulary {
    /// Parses the variable `VOCABULARY`, a JSON object
    /// `{agents?: {<alias>: <kind>}, models?: {<alias>: <mode>}, methods?: {<alias>: <method>}}`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let sections: JsonObject<'_> =
            serde_json::from_str(text).map_err(|e| format!("VOCABULARY must be a JSON object: {e}."))?;
        let mut vocabulary = Self::default();
        for (section, aliases) in sections.members() {
            match section {
                "agents" => parse_section(&mut vocabulary.agents, section, aliases)?,
                "models" => parse_section(&mut vocabulary.models, section, aliases)?,
                "methods" => parse_section(&mut vocabulary.methods, section, aliases)?,
                _ => {
                    return Err(format!(
                        "VOCABULARY: unknown field `{section}`, expected `agents`, `models` or `methods`."
                    ));
                }
            }
        }
        Ok(vocabulary)
    }

    /// Resolves the name or alias of an agent.
    pub fn agent(&self, name: &str) -> Result<AgentKind, UnknownKeyword> {
        resolve(name, &self.agents)
    }

    /// Resolves the name or alias of a model mode.
    pub fn model(&self, name: &str) -> Result<ModelMode, UnknownKeyword> {
        resolve(name, &self.models)
    }

    /// Resolves the alias of a method. Any other name is returned unchanged.
    pub fn method<'n>(&self, name: &'n str) -> &'n str {
        self.methods.iter().find(|(alias, _)| alias == name).map_or(name, |(_, method)| method.as_str())
    }

    /// Resolves `metadata.flavor`, which is alpha by default.
    pub fn flavor(&self, name: Option<&str>) -> Flavor {
        match name.map(|name| self.agent(name)) {
            None => Flavor::Agent(AgentKind::Alpha),
            Some(Ok(kind)) => Flavor::Agent(kind),
            Some(Err(_)) => Flavor::Unknown,
        }
    }

    /// Returns the name to use for agent alpha when the client gave none: the first alias, because the CLIs of the deployment
    /// may not know the standard name.
    pub fn default_agent(&self) -> &str {
        let alias = self.agents.iter().find(|(_, kind)| *kind == AgentKind::Alpha);
        alias.map_or(AgentKind::Alpha.as_str(), |(alias, _)| alias)
    }

    /// Returns all names of an agent: `preferred`, the standard name, then the aliases.
    pub fn agent_names<'a>(&'a self, kind: AgentKind, preferred: &'a str) -> impl Iterator<Item = &'a str> {
        let aliases = self.agents.iter().filter(move |(_, known)| *known == kind).map(|(alias, _)| alias.as_str());
        [preferred, kind.as_str()].into_iter().chain(aliases)
    }
}

fn resolve<T: FromStr<Err = UnknownKeyword> + Copy>(name: &str, aliases: &[(String, T)]) -> Result<T, UnknownKeyword> {
    name.parse().or_else(|mut unknown: UnknownKeyword| {
        if let Some((_, value)) = aliases.iter().find(|(alias, _)| alias == name) {
            return Ok(*value);
        }
        for (alias, _) in aliases {
            unknown.expected.push_str(", ");
            unknown.expected.push_str(alias);
        }
        Err(unknown)
    })
}

/// Parses a section, a JSON object from alias to standard name.
fn parse_section<T>(aliases: &mut Aliases<T>, section: &str, members: &RawValue) -> Result<(), String>
where
    T: FromStr<Err = UnknownKeyword> + Copy + PartialEq + std::fmt::Display,
{
    let members =
        JsonObject::parse(members.get()).ok_or_else(|| format!("VOCABULARY: `{section}` must be an object."))?;
    for (alias, name) in members.members() {
        let invalid = |what: String| Err(format!("VOCABULARY: `{section}.{alias}` {what}."));
        if !(1..=MAX_KEYWORD_BYTES).contains(&alias.len())
            || alias.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return invalid(format!(
                "must have 1 to {MAX_KEYWORD_BYTES} bytes, and no white space or control characters"
            ));
        }
        let Ok(name) = serde_json::from_str::<String>(name.get()) else {
            return invalid("must be a string".into());
        };
        let value = match name.parse::<T>() {
            Ok(value) => value,
            Err(unknown) => return invalid(format!("is `{name}`: {unknown}")),
        };
        if alias.parse::<T>().is_ok_and(|standard| standard != value) {
            return invalid(format!("is a standard name and can't be an alias of `{value}`"));
        }
        if aliases.iter().any(|(known, _)| known == alias) {
            return invalid("is a duplicate field".into());
        }
        aliases.push((alias.to_owned(), value));
    }
    if aliases.len() > MAX_ALIASES {
        return Err(format!(
            "VOCABULARY: `{section}` has {} fields, but at most {MAX_ALIASES} are allowed.",
            aliases.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        assert!(Vocabulary::parse(&long.replacen('z', "", 1)).is_ok(), "64 bytes are not too many");
        assert!(Vocabulary::parse(&many.replacen(r#""z0":"alpha","#, "", 1)).is_ok(), "100 aliases are not too many");
    }
}
