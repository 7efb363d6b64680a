//! Agent kinds, flavors and modes, and the rules on which mode fits which flavor.
//!
//! Source: the specification's "Enumerations". The words here are the interface's own. For agents and models a
//! deployment may have others besides them: [`super::vocabulary`] knows those.

use super::words::words;

words! {
    /// The agents that the hub knows.
    AgentKind, "agent" {
        /// `alpha`, the default.
        Alpha = "alpha",
        /// `beta`.
        Beta = "beta",
        /// `gamma`.
        Gamma = "gamma",
        /// `delta`.
        Delta = "delta",
        /// `epsilon`.
        Epsilon = "epsilon",
    }
}

words! {
    /// How much an agent may do without asking.
    PermissionMode, "permission mode" {
        /// Ask on every tool use.
        Default = "default",
        /// Approve file edits, ask for commands.
        AcceptEdits = "acceptEdits",
        /// Approve everything.
        BypassPermissions = "bypassPermissions",
        /// Describe actions first.
        Plan = "plan",
        /// A mode of agent gamma; the specification names it without saying more.
        Ask = "ask",
        /// Change no files.
        ReadOnly = "read-only",
        /// Approve safe operations.
        SafeYolo = "safe-yolo",
        /// Approve everything.
        Yolo = "yolo",
    }
}

words! {
    /// Which model an agent of kind alpha uses.
    ModelMode, "model mode" {
        /// The agent's own choice.
        Default = "default",
        /// The fast model.
        ModelFast = "model_fast",
        /// The strong model.
        ModelStrong = "model_strong",
    }
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
        let modes = PermissionMode::ALL.iter().copied();
        modes.filter(|mode| flavor.accepts_permission_mode(*mode)).map(PermissionMode::as_str).collect()
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
        let all: Vec<_> = PermissionMode::ALL.iter().map(|mode| mode.as_str()).collect();
        assert_eq!(all, words);
        let all: Vec<_> = ModelMode::ALL.iter().map(|mode| mode.as_str()).collect();
        assert_eq!(all, ["default", "model_fast", "model_strong"]);
        for mode in PermissionMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(*mode));
        }
        for mode in ModelMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(*mode));
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
