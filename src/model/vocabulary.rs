//! A deployment's own words for agents, models, methods and fields, for CLIs that use other words than the protocol.
//!
//! The hub accepts both a word of the deployment and the protocol's name. What a CLI writes is stored and shown unchanged.
//! Calls to a CLI use the words of the CLI's [`Dialect`]. Source: docs/SETTINGS.md, variable `VOCABULARY`.

use std::str::FromStr;

use serde_json::value::RawValue;
use strum::{IntoStaticStr, VariantNames};

use super::json::{Json, JsonObject};
use super::keyword::UnknownKeyword;
use super::method::Method;
use super::mode::{Agent, ModelMode};
use crate::limits::MAX_KEYWORD_BYTES;

/// The largest number of aliases in a section of the setting `VOCABULARY`.
pub const MAX_ALIASES: usize = 100;

/// The vocabularies that a deployment can name instead of writing its own: `preset:<name>`.
const PRESETS: [(&str, &str); 1] = [("hapi", include_str!("presets/hapi.json"))];

/// The deployment's words with their meanings, in the order of the setting. A meaning is a name of the protocol, or a label.
type Words = Vec<(String, String)>;

/// A field of `session-alive` and of `set-session-config` that CLIs name differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase")]
pub enum ModeField {
    PermissionMode,
    ModelMode,
}

/// Which words a CLI understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Protocol,
    /// The deployment's own words. If the deployment has no word for a name of the protocol, it uses the name itself.
    Own,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    agents: Words,
    models: Words,
    methods: Words,
    fields: Words,
    /// Labels of agents, models and modes.
    labels: Words,
}

impl Vocabulary {
    /// Parses the variable `VOCABULARY`: `preset:<name>`, or a JSON object
    /// `{agents?: {<word>: <agent>}, models?: {<word>: <mode>}, methods?: {<word>: <method>}, fields?: {<word>: <field>},
    /// labels?: {<word>: <label>}}`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(name) = text.trim().strip_prefix("preset:") else { return Self::parse_object(text) };
        let Some((_, preset)) = PRESETS.iter().find(|(preset, _)| *preset == name) else {
            let known = PRESETS.map(|(preset, _)| preset).join(", ");
            return Err(format!("VOCABULARY: unknown preset `{name}`, expected one of {known}."));
        };
        Self::parse_object(preset)
    }

    fn parse_object(text: &str) -> Result<Self, String> {
        let sections: JsonObject<'_> = serde_json::from_str(text)
            .map_err(|e| format!("VOCABULARY must be a JSON object, or `preset:` and the name of a preset: {e}."))?;
        let mut vocabulary = Self::default();
        for (section, members) in sections.members() {
            let (words, meanings) = match section {
                "agents" => (&mut vocabulary.agents, Some(("agent", Agent::VARIANTS))),
                "models" => (&mut vocabulary.models, Some(("model mode", ModelMode::VARIANTS))),
                "methods" => (&mut vocabulary.methods, Some(("method", Method::VARIANTS))),
                "fields" => (&mut vocabulary.fields, Some(("field", ModeField::VARIANTS))),
                "labels" => (&mut vocabulary.labels, None),
                _ => {
                    return Err(format!(
                        "VOCABULARY: unknown field `{section}`, expected `agents`, `models`, `methods`, `fields` or \
                        `labels`."
                    ));
                }
            };
            parse_section(words, section, meanings, members)?;
        }
        Ok(vocabulary)
    }

    /// Returns the agent with this name of the protocol or word of the deployment.
    pub fn find_agent(&self, name: &str) -> Result<Agent, UnknownKeyword> {
        resolve("agent", name, &self.agents)
    }

    /// Returns the model mode with this name of the protocol or word of the deployment.
    pub fn find_model(&self, name: &str) -> Result<ModelMode, UnknownKeyword> {
        resolve("model mode", name, &self.models)
    }

    /// Returns the protocol's name of a method. `name` is a word of the deployment; any other name is returned unchanged.
    pub fn method<'n>(&'n self, name: &'n str) -> &'n str {
        find_meaning(name, &self.methods).unwrap_or(name)
    }

    /// Returns the agent that `metadata.flavor` names; alpha if the metadata has no flavor, and `None` if the flavor is unknown.
    pub fn agent_of_flavor(&self, flavor: Option<&str>) -> Option<Agent> {
        flavor.map_or(Some(Agent::Alpha), |name| self.find_agent(name).ok())
    }

    /// Returns the dialect of a CLI that registered a method under this name. If the vocabulary has no word for the
    /// method, the name tells nothing about the dialect, and the CLI is assumed to use the deployment's words.
    pub fn dialect_of_method(&self, registered: &str) -> Dialect {
        dialect_of_name(registered, &self.methods)
    }

    /// Returns the dialect of a CLI that wrote this flavor. Without a flavor, the CLI is assumed to use the deployment's words.
    pub fn dialect_of_flavor(&self, flavor: Option<&str>) -> Dialect {
        flavor.map_or(Dialect::Own, |flavor| dialect_of_name(flavor, &self.agents))
    }

    /// Returns the name of an agent in a dialect. An unknown name is returned unchanged.
    pub fn agent_in(&self, dialect: Dialect, name: &str) -> String {
        translate(name, &self.agents, dialect)
    }

    /// Returns the name of a model in a dialect. An unknown name is returned unchanged.
    pub fn model_in(&self, dialect: Dialect, name: &str) -> String {
        translate(name, &self.models, dialect)
    }

    /// For each field that a CLI named by a word of the deployment, adds a field with the protocol's name and the same value,
    /// unless the object has such a field. The value `null` becomes the mode `default`. Returns `None` if no field was added.
    pub fn with_protocol_fields(&self, text: &str) -> Option<Json> {
        // Keep-alives are frequent, so a text without any of the words is not parsed.
        if !self.fields.iter().any(|(word, _)| text.contains(word.as_str())) {
            return None;
        }
        let mut object = JsonObject::parse(text)?;
        let (default, mut is_changed) = (Json::of("default"), false);
        for (word, field) in &self.fields {
            if let (Some(value), None) = (object.get(word), object.get(field)) {
                object.push(field, if value.get() == "null" { default.raw() } else { value });
                is_changed = true;
            }
        }
        is_changed.then(|| object.to_json())
    }

    /// Returns the names under which a field is sent to CLIs: the protocol's and the deployment's.
    pub fn field_names(&self, field: ModeField) -> impl Iterator<Item = &str> {
        let name: &str = field.into();
        std::iter::once(name).chain(words_for(name, &self.fields))
    }

    /// Returns the name to use for agent alpha when neither the client nor the session names an agent. This name is the first word
    /// of the vocabulary, because the CLIs of the deployment may not know the protocol's name.
    pub fn default_agent(&self) -> &str {
        let alpha = Agent::Alpha.into_str();
        words_for(alpha, &self.agents).next().unwrap_or(alpha)
    }

    /// Returns the deployment's words for agents, with their meanings; if there are none, all agents by their names in the protocol.
    pub fn offered_agents(&self) -> Words {
        words_or_names(&self.agents, Agent::VARIANTS)
    }

    /// Returns the deployment's words for models, with their meanings. If the deployment has none, returns all models by their
    /// names in the protocol. `default` is always included.
    pub fn offered_models(&self) -> Words {
        let mut models = words_or_names(&self.models, ModelMode::VARIANTS);
        let default = ModelMode::Default.to_string();
        if words_for(&default, &models).next().is_none() {
            models.insert(0, (default.clone(), default));
        }
        models
    }

    /// Returns the deployment's label of an agent, model or mode.
    pub fn label(&self, word: &str) -> Option<&str> {
        find_meaning(word, &self.labels)
    }

    /// Returns all names of an agent: `preferred`, the protocol's name, then the deployment's words.
    pub fn agent_names<'a>(&'a self, agent: Agent, preferred: &'a str) -> impl Iterator<Item = &'a str> {
        [preferred, agent.into_str()].into_iter().chain(words_for(agent.into_str(), &self.agents))
    }
}

fn find_meaning<'w>(word: &str, words: &'w [(String, String)]) -> Option<&'w str> {
    words.iter().find(|(known, _)| known == word).map(|(_, meaning)| meaning.as_str())
}

fn words_for<'w>(meaning: &'w str, words: &'w [(String, String)]) -> impl Iterator<Item = &'w str> {
    words.iter().filter(move |(_, known)| known == meaning).map(|(word, _)| word.as_str())
}

/// Returns the deployment's words with their meanings; if there are none, all names of the protocol.
fn words_or_names(words: &[(String, String)], names: &[&str]) -> Words {
    match words {
        [] => names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect(),
        words => words.to_vec(),
    }
}

fn dialect_of_name(name: &str, words: &[(String, String)]) -> Dialect {
    let is_protocol = find_meaning(name, words).is_none() && words_for(name, words).next().is_some();
    if is_protocol { Dialect::Protocol } else { Dialect::Own }
}

fn translate(name: &str, words: &[(String, String)], dialect: Dialect) -> String {
    let translated = match (dialect, find_meaning(name, words)) {
        (Dialect::Protocol, meaning) => meaning,
        (Dialect::Own, None) => words_for(name, words).next(),
        (Dialect::Own, Some(_)) => None,
    };
    translated.unwrap_or(name).to_owned()
}

fn resolve<T: FromStr + VariantNames>(kind: &'static str, name: &str, words: &Words) -> Result<T, UnknownKeyword> {
    find_meaning(name, words).unwrap_or(name).parse().map_err(|_| {
        let mut unknown = UnknownKeyword::of::<T>(kind);
        words.iter().for_each(|(word, _)| unknown.expected.extend([", ", word]));
        unknown
    })
}

/// Parses a section, a JSON object from word to meaning. `names`: the noun for a meaning in errors, and the valid meanings.
/// `None` accepts any text as a meaning.
fn parse_section(
    words: &mut Words,
    section: &str,
    names: Option<(&'static str, &[&str])>,
    members: &RawValue,
) -> Result<(), String> {
    let members =
        JsonObject::parse(members.get()).ok_or_else(|| format!("VOCABULARY: `{section}` must be an object."))?;
    for (word, value) in members.members() {
        let invalid = |what: String| Err(format!("VOCABULARY: `{section}.{word}` {what}."));
        if !(1..=MAX_KEYWORD_BYTES).contains(&word.len())
            || word.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(format!(
                "VOCABULARY: the word `{word}` in `{section}` must have 1 to {MAX_KEYWORD_BYTES} bytes, and no white space or control characters."
            ));
        }
        let Ok(meaning) = serde_json::from_str::<String>(value.get()) else {
            return invalid("must be a string".into());
        };
        if let Some((kind, names)) = names {
            if !names.contains(&meaning.as_str()) {
                let unknown = UnknownKeyword { kind, expected: names.join(", ") };
                return invalid(format!("is `{meaning}`: {unknown}"));
            }
            if names.contains(&word) && word != meaning {
                return invalid(format!("is a standard name and can't be an alias of `{meaning}`"));
            }
        }
        if words.iter().any(|(known, _)| known == word) {
            return invalid("is a duplicate field".into());
        }
        words.push((word.to_owned(), meaning));
    }
    if words.len() > MAX_ALIASES {
        return Err(format!(
            "VOCABULARY: `{section}` has {} fields, but at most {MAX_ALIASES} are allowed.",
            words.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "vocabulary_tests.rs"]
mod tests;
