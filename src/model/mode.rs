//! Agent kinds, flavors and modes, and the rules on which mode fits which flavor.
//!
//! Source: the specification's "Enumerations". The words here are the interface's own. For agents and models a
//! deployment may have others besides them: [`super::vocabulary`] knows those.

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::words::UnknownWord;

/// The agents that the hub knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownWord, parse_err_fn = unknown_agent)]
pub enum AgentKind {
    /// `alpha`, the default.
    Alpha,
    /// `beta`.
    Beta,
    /// `gamma`.
    Gamma,
    /// `delta`.
    Delta,
    /// `epsilon`.
    Epsilon,
}

impl AgentKind {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn unknown_agent(_: &str) -> UnknownWord {
    UnknownWord::of::<AgentKind>("agent")
}

/// How much an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(parse_err_ty = UnknownWord, parse_err_fn = unknown_permission_mode)]
pub enum PermissionMode {
    /// Ask on every tool use.
    #[strum(serialize = "default")]
    Default,
    /// Approve file edits, ask for commands.
    #[strum(serialize = "acceptEdits")]
    AcceptEdits,
    /// Approve everything.
    #[strum(serialize = "bypassPermissions")]
    BypassPermissions,
    /// Describe actions first.
    #[strum(serialize = "plan")]
    Plan,
    /// A mode of agent gamma; the specification names it without saying more.
    #[strum(serialize = "ask")]
    Ask,
    /// Change no files.
    #[strum(serialize = "read-only")]
    ReadOnly,
    /// Approve safe operations.
    #[strum(serialize = "safe-yolo")]
    SafeYolo,
    /// Approve everything.
    #[strum(serialize = "yolo")]
    Yolo,
}

impl PermissionMode {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn unknown_permission_mode(_: &str) -> UnknownWord {
    UnknownWord::of::<PermissionMode>("permission mode")
}

/// Which model an agent of kind alpha uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownWord, parse_err_fn = unknown_model_mode)]
pub enum ModelMode {
    /// The agent's own choice.
    Default,
    /// The fast model.
    ModelFast,
    /// The strong model.
    ModelStrong,
}

fn unknown_model_mode(_: &str) -> UnknownWord {
    UnknownWord::of::<ModelMode>("model mode")
}

/// What `metadata.flavor` makes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// A known agent.
    Agent(AgentKind),
    /// A word that the hub does not know.
    Unknown,
}

impl Flavor {
    /// The permission modes that are valid for the flavor. An unknown flavor has `default` only.
    pub const fn permission_modes(self) -> &'static [PermissionMode] {
        use PermissionMode::{AcceptEdits, Ask, BypassPermissions, Default, Plan, ReadOnly, SafeYolo, Yolo};
        match self {
            Self::Agent(AgentKind::Alpha) => &[Default, AcceptEdits, BypassPermissions, Plan],
            Self::Agent(AgentKind::Beta | AgentKind::Delta) => &[Default, ReadOnly, SafeYolo, Yolo],
            Self::Agent(AgentKind::Epsilon) => &[Default, Yolo],
            Self::Agent(AgentKind::Gamma) => &[Default, Plan, Ask, Yolo],
            Self::Unknown => &[Default],
        }
    }

    /// Whether a session of the flavor takes the permission mode.
    pub fn accepts_permission_mode(self, mode: PermissionMode) -> bool {
        self.permission_modes().contains(&mode)
    }

    /// Whether a session of the flavor takes a model mode at all: alpha alone does.
    pub const fn accepts_model_modes(self) -> bool {
        matches!(self, Self::Agent(AgentKind::Alpha))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::vocabulary::Vocabulary;

    fn flavor(word: Option<&str>) -> Flavor {
        Vocabulary::default().flavor(word)
    }

    fn valid_modes(word: Option<&str>) -> Vec<&'static str> {
        let flavor = flavor(word);
        let words = PermissionMode::VARIANTS.iter().copied();
        words.filter(|word| flavor.accepts_permission_mode(word.parse().unwrap())).collect()
    }

    #[test]
    fn each_flavor_takes_exactly_the_permission_modes_of_the_specification() {
        let alpha = ["default", "acceptEdits", "bypassPermissions", "plan"];
        let sandboxed = ["default", "read-only", "safe-yolo", "yolo"];
        assert_eq!(valid_modes(Some("alpha")), alpha);
        assert_eq!(valid_modes(Some("beta")), sandboxed);
        assert_eq!(valid_modes(Some("delta")), sandboxed);
        assert_eq!(valid_modes(Some("epsilon")), ["default", "yolo"]);
        assert_eq!(valid_modes(Some("gamma")), ["default", "plan", "ask", "yolo"]);
    }

    #[test]
    fn a_session_without_a_flavor_counts_as_alpha() {
        assert_eq!(valid_modes(None), valid_modes(Some("alpha")));
        assert!(flavor(None).accepts_model_modes());
    }

    #[test]
    fn an_unknown_flavor_takes_the_default_permission_mode_only() {
        for word in ["zeta", "", "Alpha", "alpha ", "unknown"] {
            assert_eq!(valid_modes(Some(word)), ["default"], "{word:?}");
        }
    }

    #[test]
    fn only_alpha_takes_model_modes() {
        let takers: Vec<_> = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
            .into_iter()
            .filter(|word| flavor(Some(word)).accepts_model_modes())
            .collect();
        assert_eq!(takers, ["alpha"]);
    }

    #[test]
    fn only_the_exact_words_are_taken() {
        let words = ["default", "acceptEdits", "bypassPermissions", "plan", "ask", "read-only", "safe-yolo", "yolo"];
        assert_eq!(PermissionMode::VARIANTS, words);
        assert_eq!(ModelMode::VARIANTS, ["default", "model_fast", "model_strong"]);
        for word in words {
            assert_eq!(word.parse::<PermissionMode>().unwrap().as_str(), word);
        }
        for word in ["", "Default", "accept-edits", "acceptedits", "read_only", "yolo ", "model_fast"] {
            assert!(word.parse::<PermissionMode>().is_err(), "{word:?}");
        }
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_words_that_there_are() {
        assert_eq!(
            "fast".parse::<ModelMode>().unwrap_err().to_string(),
            "unknown model mode: expected one of default, model_fast, model_strong"
        );
        assert_eq!(
            "zeta".parse::<AgentKind>().unwrap_err().to_string(),
            "unknown agent: expected one of alpha, beta, gamma, delta, epsilon"
        );
    }
}
