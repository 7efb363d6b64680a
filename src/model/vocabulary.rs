//! The words of a deployment whose CLIs speak of agents, models and methods in words of their own.
//!
//! They stand beside the interface's own words, never in their place: both are taken wherever a client writes one. What
//! was written is kept and sent on as it was written; here it is only looked up what it stands for.
//! Source: decisions, "Vocabulary".

use std::str::FromStr;

use serde_json::value::RawValue;

use super::json::JsonObject;
use super::method::Method;
use super::mode::{AgentKind, Flavor, ModelMode};
use super::words::{MAX_WORD, UnknownWord};

/// The most words of one part.
const MAX_WORDS: usize = 100;

/// What the words of one part stand for, in the order in which they were written.
type Words<T> = Vec<(String, T)>;

/// The words that a deployment has besides the interface's own. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    agents: Words<AgentKind>,
    models: Words<ModelMode>,
    methods: Words<Method>,
}

impl Vocabulary {
    /// Reads the variable `VOCABULARY`, a JSON object
    /// `{agents?: {<word>: <kind>}, models?: {<word>: <mode>}, methods?: {<word>: <method>}}`; the error is a sentence
    /// that names what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: JsonObject<'_> =
            serde_json::from_str(text).map_err(|e| format!("VOCABULARY must be a JSON object: {e}."))?;
        let mut vocabulary = Self::default();
        for (part, words) in parts.members() {
            match part {
                "agents" => add(&mut vocabulary.agents, part, words)?,
                "models" => add(&mut vocabulary.models, part, words)?,
                "methods" => add(&mut vocabulary.methods, part, words)?,
                _ => {
                    return Err(format!("VOCABULARY has the parts `agents`, `models` and `methods`, but no `{part}`."));
                }
            }
        }
        Ok(vocabulary)
    }

    /// The agent that a word stands for.
    pub fn agent(&self, word: &str) -> Result<AgentKind, UnknownWord> {
        look_up(word, &self.agents)
    }

    /// The model mode that a word stands for.
    pub fn model(&self, word: &str) -> Result<ModelMode, UnknownWord> {
        look_up(word, &self.models)
    }

    /// The interface's own name of a method; any other name stands for itself.
    pub fn method<'n>(&self, name: &'n str) -> &'n str {
        self.methods.iter().find(|(word, _)| word == name).map_or(name, |(_, method)| method.as_str())
    }

    /// Reads `metadata.flavor`; a missing or null one counts as alpha.
    pub fn flavor(&self, word: Option<&str>) -> Flavor {
        match word.map(|word| self.agent(word)) {
            None => Flavor::Agent(AgentKind::Alpha),
            Some(Ok(kind)) => Flavor::Agent(kind),
            Some(Err(_)) => Flavor::Unknown,
        }
    }

    /// The word for agent alpha where no client wrote one: the deployment's first, for its CLIs may know no other.
    pub fn default_agent(&self) -> &str {
        let own = self.agents.iter().find(|(_, kind)| *kind == AgentKind::Alpha);
        own.map_or(AgentKind::Alpha.as_str(), |(word, _)| word)
    }

    /// All words for an agent: the one that was written, then the interface's own, then the deployment's.
    pub fn agent_words<'a>(&'a self, kind: AgentKind, written: &'a str) -> impl Iterator<Item = &'a str> {
        let own = self.agents.iter().filter(move |(_, known)| *known == kind).map(|(word, _)| word.as_str());
        [written, kind.as_str()].into_iter().chain(own)
    }
}

fn look_up<T: FromStr<Err = UnknownWord> + Copy>(word: &str, own: &[(String, T)]) -> Result<T, UnknownWord> {
    word.parse().or_else(|mut unknown: UnknownWord| {
        if let Some((_, value)) = own.iter().find(|(known, _)| known == word) {
            return Ok(*value);
        }
        for (known, _) in own {
            unknown.expected.push_str(", ");
            unknown.expected.push_str(known);
        }
        Err(unknown)
    })
}

/// Adds the words of a part, given as a JSON object from word to the interface's own word.
fn add<T>(known: &mut Words<T>, part: &str, words: &RawValue) -> Result<(), String>
where
    T: FromStr<Err = UnknownWord> + Copy + PartialEq + std::fmt::Display,
{
    let words = JsonObject::parse(words.get()).ok_or_else(|| format!("VOCABULARY: `{part}` must be an object."))?;
    for (word, meaning) in words.members() {
        let wrong = |what: String| Err(format!("VOCABULARY: `{part}.{word}`{what}."));
        if !(1..=MAX_WORD).contains(&word.len()) || word.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return wrong(format!(": a word has 1 to {MAX_WORD} bytes, and no white space or control characters"));
        }
        let Ok(meaning) = serde_json::from_str::<String>(meaning.get()) else {
            return wrong(" must be a text".into());
        };
        let value = match meaning.parse::<T>() {
            Ok(value) => value,
            Err(unknown) => return wrong(format!(" is `{meaning}`: {unknown}")),
        };
        if word.parse::<T>().is_ok_and(|own| own != value) {
            return wrong(format!(": this word is the interface's own and can't stand for `{value}`"));
        }
        if known.iter().any(|(before, _)| before == word) {
            return wrong(" stands there twice".into());
        }
        known.push((word.to_owned(), value));
    }
    if known.len() > MAX_WORDS {
        return Err(format!("VOCABULARY: `{part}` has {} words; {MAX_WORDS} are the most.", known.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantNames;

    const WORDS: &str = r#"{
        "agents": {"zeta-coder": "alpha", "eta": "gamma", "zeta-classic": "alpha"},
        "models": {"swift": "model_fast", "thorough": "model_strong"},
        "methods": {"git-status": "gitStatus", "spawn-session": "spawnSession", "config": "set-session-config"}
    }"#;

    fn words() -> Vocabulary {
        Vocabulary::parse(WORDS).unwrap()
    }

    fn refusal(text: &str) -> String {
        Vocabulary::parse(text).unwrap_err()
    }

    #[test]
    fn a_word_of_the_deployment_stands_for_one_of_the_interface_and_both_are_known() {
        let words = words();
        for (word, kind) in [("zeta-coder", "alpha"), ("zeta-classic", "alpha"), ("eta", "gamma")] {
            assert_eq!(words.agent(word).unwrap().as_str(), kind);
        }
        assert!(AgentKind::VARIANTS.iter().all(|word| words.agent(word) == word.parse()));
        assert_eq!(words.model("swift"), Ok(ModelMode::ModelFast));
        assert_eq!(words.model("thorough"), Ok(ModelMode::ModelStrong));
        assert!(ModelMode::VARIANTS.iter().all(|word| words.model(word) == word.parse()));
        assert_eq!(words.method("git-status"), "gitStatus");
        assert_eq!(words.method("config"), "set-session-config");
        assert!(Method::VARIANTS.iter().all(|word| words.method(word) == *word));
        assert_eq!(words.method("a method of the CLI's own"), "a method of the CLI's own");
    }

    #[test]
    fn an_unknown_word_is_answered_with_all_words_that_there_are() {
        assert_eq!(
            words().agent("theta").unwrap_err().to_string(),
            "unknown agent: expected one of alpha, beta, gamma, delta, epsilon, zeta-coder, eta, zeta-classic"
        );
        assert_eq!(
            Vocabulary::default().model("swift").unwrap_err().to_string(),
            "unknown model mode: expected one of default, model_fast, model_strong"
        );
        for near in ["Swift", "swift ", "", "zeta-coder"] {
            assert!(words().model(near).is_err(), "{near:?}");
        }
    }

    #[test]
    fn a_flavor_is_read_in_both_words_and_a_missing_one_counts_as_alpha() {
        let words = words();
        assert_eq!(words.flavor(Some("eta")), words.flavor(Some("gamma")));
        assert_eq!(words.flavor(None), Flavor::Agent(AgentKind::Alpha));
        assert_eq!(words.flavor(Some("theta")), Flavor::Unknown);
        assert_eq!(Vocabulary::default().flavor(Some("eta")), Flavor::Unknown);
    }

    #[test]
    fn where_nobody_wrote_a_word_for_alpha_the_deployments_first_one_is_taken() {
        assert_eq!(words().default_agent(), "zeta-coder");
        assert_eq!(Vocabulary::default().default_agent(), "alpha");
        let others = Vocabulary::parse(r#"{"agents":{"eta":"gamma"}}"#).unwrap();
        assert_eq!(others.default_agent(), "alpha");
        let both = Vocabulary::parse(r#"{"agents":{"alpha":"alpha","zeta-coder":"alpha"}}"#).unwrap();
        assert_eq!(both.default_agent(), "alpha", "a deployment may name the interface's own word first");
    }

    #[test]
    fn the_words_for_an_agent_begin_with_the_one_that_was_written() {
        let words = words();
        let all = |written| words.agent_words(AgentKind::Alpha, written).collect::<Vec<_>>();
        assert_eq!(all("zeta-classic"), ["zeta-classic", "alpha", "zeta-coder", "zeta-classic"]);
        assert_eq!(all("alpha"), ["alpha", "alpha", "zeta-coder", "zeta-classic"]);
    }

    #[test]
    fn any_part_may_be_missing_or_empty() {
        for text in ["{}", r#"{"agents":{},"models":{},"methods":{}}"#, " {\n} "] {
            assert_eq!(Vocabulary::parse(text), Ok(Vocabulary::default()), "{text}");
        }
        assert!(Vocabulary::parse(r#"{"methods":{"git-status":"gitStatus"}}"#).is_ok());
    }

    #[test]
    fn a_word_of_the_interface_may_stand_for_itself_and_for_nothing_else() {
        assert!(Vocabulary::parse(r#"{"agents":{"beta":"beta"},"models":{"default":"default"}}"#).is_ok());
        let table = [
            (r#"{"agents":{"beta":"alpha"}}"#, "`agents.beta`"),
            (r#"{"models":{"default":"model_fast"}}"#, "`models.default`"),
            (r#"{"methods":{"abort":"killSession"}}"#, "`methods.abort`"),
        ];
        for (text, place) in table {
            let sentence = refusal(text);
            assert!(sentence.contains(place) && sentence.contains("the interface's own"), "{sentence}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!(r#"{{"agents":{{"{}":"alpha"}}}}"#, "z".repeat(MAX_WORD + 1));
        let many = (0..=MAX_WORDS).map(|n| format!(r#""z{n}":"alpha""#)).collect::<Vec<_>>().join(",");
        let many = format!(r#"{{"agents":{{{many}}}}}"#);
        let table = [
            ("agents", "must be a JSON object"),
            ("[]", "must be a JSON object"),
            ("{} {}", "must be a JSON object"),
            (r#"{"agents":{"z":"alpha"}"#, "must be a JSON object"),
            (r#"{"agent":{"z":"alpha"}}"#, "no `agent`"),
            (r#"{"agents":["z"]}"#, "`agents` must be an object"),
            (r#"{"models":null}"#, "`models` must be an object"),
            (r#"{"models":{"swift":5}}"#, "`models.swift` must be a text"),
            (r#"{"models":{"swift":null}}"#, "`models.swift` must be a text"),
            (r#"{"agents":{"z":"omega"}}"#, "`agents.z` is `omega`: unknown agent: expected one of alpha, beta"),
            (r#"{"models":{"swift":"fast"}}"#, "`models.swift` is `fast`: unknown model mode: expected one of default"),
            (r#"{"methods":{"m":"gitstatus"}}"#, "`methods.m` is `gitstatus`: unknown method: expected one of upload"),
            (r#"{"agents":{"":"alpha"}}"#, "`agents.`: a word has 1 to 64 bytes"),
            (r#"{"agents":{"zeta coder":"alpha"}}"#, "`agents.zeta coder`: a word has"),
            (r#"{"agents":{"zeta\u0000":"alpha"}}"#, "no white space or control characters"),
            (&long, "a word has 1 to 64 bytes"),
            (&many, "`agents` has 101 words; 100 are the most"),
            (r#"{"agents":{"z":"alpha","z":"beta"}}"#, "`agents.z` stands there twice"),
            (r#"{"agents":{"z":"alpha"},"agents":{"z":"beta"}}"#, "`agents.z` stands there twice"),
        ];
        for (text, expected) in table {
            let sentence = refusal(text);
            assert!(sentence.starts_with("VOCABULARY") && sentence.contains(expected), "{text}: {sentence}");
            assert!(sentence.ends_with('.'), "{sentence}");
        }
        assert!(Vocabulary::parse(&long.replacen('z', "", 1)).is_ok(), "64 bytes are not too many");
        assert!(Vocabulary::parse(&many.replacen(r#""z0":"alpha","#, "", 1)).is_ok(), "100 words are not too many");
    }
}
