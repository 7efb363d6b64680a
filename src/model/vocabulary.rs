//! The vocabulary: a deployment's own words for agents, models, methods and fields, for CLIs that use other words than the
//! protocol.
//!
//! The hub accepts a word and the protocol's name for it alike. What a CLI writes is stored and shown as it wrote it; a call
//! to a CLI has the words of its [`Dialect`].
//! Source: docs/DEPLOY.md, variable `VOCABULARY`.

use std::str::FromStr;

use serde_json::value::RawValue;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::json::{Json, JsonObject};
use super::keyword::UnknownKeyword;
use super::method::Method;
use super::mode::{AgentKind, Flavor, ModelMode};
use crate::limits::{MAX_ALIASES, MAX_KEYWORD_BYTES};

/// The vocabularies that a deployment can name instead of writing its own: `preset:<name>`.
const PRESETS: [(&str, &str); 1] = [("hapi", include_str!("presets/hapi.json"))];

/// Words with their meanings, in the order of the setting.
type Aliases<T> = Vec<(String, T)>;

/// A field of `session-alive` and of `set-session-config` that CLIs name differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase", parse_err_ty = UnknownKeyword, parse_err_fn = unknown_field)]
pub enum ModeField {
    PermissionMode,
    ModelMode,
}

fn unknown_field(_: &str) -> UnknownKeyword {
    UnknownKeyword::of::<ModeField>("field")
}

/// Which words a CLI understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The names of the protocol.
    Protocol,
    /// The deployment's own words, and the protocol's names for what has none.
    Own,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    agents: Aliases<AgentKind>,
    models: Aliases<ModelMode>,
    methods: Aliases<Method>,
    fields: Aliases<ModeField>,
    /// Labels of agents, models and modes, by the word.
    labels: Aliases<String>,
}

impl Vocabulary {
    /// Parses the variable `VOCABULARY`: `preset:<name>`, or a JSON object
    /// `{agents?: {<word>: <kind>}, models?: {<word>: <mode>}, methods?: {<word>: <method>}, fields?: {<word>: <field>},
    /// labels?: {<word>: <label>}}`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim().strip_prefix("preset:") {
            Some(name) => match PRESETS.iter().find(|(preset, _)| *preset == name) {
                Some((_, preset)) => Self::parse_object(preset),
                None => {
                    let known = PRESETS.map(|(preset, _)| preset).join(", ");
                    Err(format!("VOCABULARY: unknown preset `{name}`, expected one of {known}."))
                }
            },
            None => Self::parse_object(text),
        }
    }

    fn parse_object(text: &str) -> Result<Self, String> {
        let sections: JsonObject<'_> = serde_json::from_str(text)
            .map_err(|e| format!("VOCABULARY must be a JSON object, or `preset:` and the name of a preset: {e}."))?;
        let mut vocabulary = Self::default();
        for (section, aliases) in sections.members() {
            match section {
                "agents" => parse_section(&mut vocabulary.agents, section, aliases)?,
                "models" => parse_section(&mut vocabulary.models, section, aliases)?,
                "methods" => parse_section(&mut vocabulary.methods, section, aliases)?,
                "fields" => parse_section(&mut vocabulary.fields, section, aliases)?,
                "labels" => parse_words(&mut vocabulary.labels, section, aliases, |_, label| Ok(label.to_owned()))?,
                _ => {
                    return Err(format!(
                        "VOCABULARY: unknown field `{section}`, expected `agents`, `models`, `methods`, `fields` or `labels`."
                    ));
                }
            }
        }
        Ok(vocabulary)
    }

    /// Resolves the name or word of an agent.
    pub fn agent(&self, name: &str) -> Result<AgentKind, UnknownKeyword> {
        resolve(name, &self.agents)
    }

    /// Resolves the name or word of a model mode.
    pub fn model(&self, name: &str) -> Result<ModelMode, UnknownKeyword> {
        resolve(name, &self.models)
    }

    /// Resolves the word of a method. Any other name is returned unchanged.
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

    /// Returns the dialect of a CLI that registered a method under this name. Where the vocabulary has no word of its own,
    /// the name shows nothing, and the CLI is assumed to use the deployment's words.
    pub fn dialect_of_method(&self, registered: &str) -> Dialect {
        dialect(registered, &self.methods)
    }

    /// Returns the dialect of a CLI that wrote this flavor. Without one, the CLI is assumed to use the deployment's words.
    pub fn dialect_of_flavor(&self, flavor: Option<&str>) -> Dialect {
        flavor.map_or(Dialect::Own, |flavor| dialect(flavor, &self.agents))
    }

    /// Returns the name of an agent in a dialect. An unknown name is returned unchanged.
    pub fn agent_in(&self, dialect: Dialect, name: &str) -> String {
        translate(name, &self.agents, dialect)
    }

    /// Returns the name of a model in a dialect. An unknown name is returned unchanged.
    pub fn model_in(&self, dialect: Dialect, name: &str) -> String {
        translate(name, &self.models, dialect)
    }

    /// Returns an object of a CLI with the protocol's names of its fields too. A `null` under a word of the deployment is the
    /// mode `default`. `None` if the text has none of these words, or the protocol's names beside them.
    pub fn with_protocol_fields(&self, text: &str) -> Option<Json> {
        // Keep-alives are frequent: without a word of its own, the text is not parsed.
        if !self.fields.iter().any(|(word, _)| text.contains(word.as_str())) {
            return None;
        }
        let mut object = JsonObject::parse(text)?;
        let (default, mut is_changed) = (Json::of("default"), false);
        for (word, field) in &self.fields {
            let name: &str = field.into();
            if let (Some(value), None) = (object.get(word), object.get(name)) {
                object.push(name, if value.get() == "null" { default.raw() } else { value });
                is_changed = true;
            }
        }
        is_changed.then(|| object.to_json())
    }

    /// Returns the names under which a field is sent to CLIs: the protocol's and the deployment's.
    pub fn field_names(&self, field: ModeField) -> impl Iterator<Item = &str> {
        let words = self.fields.iter().filter(move |(_, known)| *known == field).map(|(word, _)| word.as_str());
        std::iter::once(field.into()).chain(words)
    }

    /// Returns the name to use for agent alpha when the client gave none: the first word, because the CLIs of the deployment
    /// may not know the protocol's name.
    pub fn default_agent(&self) -> &str {
        let alias = self.agents.iter().find(|(_, kind)| *kind == AgentKind::Alpha);
        alias.map_or(AgentKind::Alpha.as_str(), |(alias, _)| alias)
    }

    /// Returns the agents that the deployment has words for, or else all by the protocol's names, with what each means.
    pub fn offered_agents(&self) -> Vec<(String, AgentKind)> {
        offered(&self.agents, &[])
    }

    /// Returns the models that the deployment has words for, or else all by the protocol's names. `default` is always there.
    pub fn offered_models(&self) -> Vec<(String, ModelMode)> {
        offered(&self.models, &[ModelMode::Default])
    }

    /// Returns the deployment's label of an agent, model or mode.
    pub fn label(&self, word: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == word).map(|(_, label)| label.as_str())
    }

    /// Returns all names of an agent: `preferred`, the protocol's name, then the deployment's words.
    pub fn agent_names<'a>(&'a self, kind: AgentKind, preferred: &'a str) -> impl Iterator<Item = &'a str> {
        let aliases = self.agents.iter().filter(move |(_, known)| *known == kind).map(|(alias, _)| alias.as_str());
        [preferred, kind.as_str()].into_iter().chain(aliases)
    }
}

/// Returns the words with their meanings, after those of `required` that have none. Without words, returns all protocol names.
fn offered<T: FromStr + Copy + PartialEq + ToString + VariantNames>(
    aliases: &[(String, T)],
    required: &[T],
) -> Vec<(String, T)> {
    if aliases.is_empty() {
        let names = T::VARIANTS.iter().filter_map(|name| Some(((*name).to_owned(), name.parse().ok()?)));
        return names.collect();
    }
    let missing = required.iter().filter(|value| !aliases.iter().any(|(_, known)| known == *value));
    missing.map(|value| (value.to_string(), *value)).chain(aliases.iter().cloned()).collect()
}

fn dialect<T: FromStr + PartialEq>(name: &str, aliases: &[(String, T)]) -> Dialect {
    let is_own = aliases.iter().any(|(alias, _)| alias == name);
    let has_own = || name.parse().is_ok_and(|value: T| aliases.iter().any(|(_, known)| *known == value));
    if !is_own && has_own() { Dialect::Protocol } else { Dialect::Own }
}

fn translate<T: FromStr + PartialEq + ToString>(name: &str, aliases: &[(String, T)], dialect: Dialect) -> String {
    let own = aliases.iter().find(|(alias, _)| alias == name);
    let translated = match (dialect, own) {
        (Dialect::Protocol, Some((_, value))) => Some(value.to_string()),
        (Dialect::Own, None) => {
            let word = |value: T| aliases.iter().find(|(_, known)| *known == value).map(|(alias, _)| alias.clone());
            name.parse().ok().and_then(word)
        }
        _ => None,
    };
    translated.unwrap_or_else(|| name.to_owned())
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

/// Parses a section whose values are names of the protocol.
fn parse_section<T>(aliases: &mut Aliases<T>, section: &str, members: &RawValue) -> Result<(), String>
where
    T: FromStr<Err = UnknownKeyword> + PartialEq + std::fmt::Display,
{
    parse_words(aliases, section, members, |alias, name| {
        let value = name.parse::<T>().map_err(|unknown| format!("is `{name}`: {unknown}"))?;
        match alias.parse::<T>() {
            Ok(standard) if standard != value => Err(format!("is a standard name and can't be an alias of `{value}`")),
            _ => Ok(value),
        }
    })
}

/// Parses a section, a JSON object from word to a string, which `parse` reads.
fn parse_words<T>(
    aliases: &mut Aliases<T>,
    section: &str,
    members: &RawValue,
    parse: impl Fn(&str, &str) -> Result<T, String>,
) -> Result<(), String> {
    let members =
        JsonObject::parse(members.get()).ok_or_else(|| format!("VOCABULARY: `{section}` must be an object."))?;
    for (alias, name) in members.members() {
        let invalid = |what: String| format!("VOCABULARY: `{section}.{alias}` {what}.");
        if !(1..=MAX_KEYWORD_BYTES).contains(&alias.len())
            || alias.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(invalid(format!(
                "must have 1 to {MAX_KEYWORD_BYTES} bytes, and no white space or control characters"
            )));
        }
        let name: String = serde_json::from_str(name.get()).map_err(|_| invalid("must be a string".into()))?;
        let value = parse(alias, &name).map_err(invalid)?;
        if aliases.iter().any(|(known, _)| known == alias) {
            return Err(invalid("is a duplicate field".into()));
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
#[path = "vocabulary_tests.rs"]
mod tests;
