//! Agents, permission modes and models, and which modes are valid for which agent.
//!
//! Source: the specification's "Enumerations". A deployment may add aliases for agents and models:
//! [`super::vocabulary`].

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// The agents of the protocol. The vocabulary of a deployment says which product is which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Agent {
    /// The agent of a session whose metadata names no agent.
    Alpha,
    Beta,
    Gamma,
    Delta,
    Epsilon,
}

impl Agent {
    pub const fn accepts_model_modes(self) -> bool {
        matches!(self, Self::Alpha)
    }
}

/// Returns the permission modes of an agent. `None`: neither an agent of the protocol nor an alias in the deployment's vocabulary.
pub const fn permission_modes(agent: Option<Agent>) -> &'static [PermissionMode] {
    use PermissionMode::{AcceptEdits, Ask, BypassPermissions, Default, Plan, ReadOnly, SafeYolo, Yolo};
    match agent {
        Some(Agent::Alpha) => &[Default, AcceptEdits, BypassPermissions, Plan],
        Some(Agent::Beta | Agent::Delta) => &[Default, ReadOnly, SafeYolo, Yolo],
        Some(Agent::Epsilon) => &[Default, Yolo],
        Some(Agent::Gamma) => &[Default, Plan, Ask, Yolo],
        None => &[Default],
    }
}

/// What an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum PermissionMode {
    /// Asks before each use of a tool.
    Default,
    /// Edits files without asking; asks before commands.
    #[strum(serialize = "acceptEdits")]
    AcceptEdits,
    /// Never asks.
    #[strum(serialize = "bypassPermissions")]
    BypassPermissions,
    /// Describes actions instead of taking them.
    Plan,
    /// A mode of agent gamma that the specification does not describe.
    Ask,
    /// Changes no files.
    ReadOnly,
    /// Asks before unsafe operations.
    SafeYolo,
    /// Never asks.
    Yolo,
}

impl PermissionMode {
    /// The modes in which the agent never asks.
    pub const NEVER_ASKING: [Self; 2] = [Self::BypassPermissions, Self::Yolo];
}

/// The models that only agent alpha has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ModelMode {
    /// The agent chooses.
    Default,
    ModelFast,
    ModelStrong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_matched_exactly() {
        let modes = ["default", "acceptEdits", "bypassPermissions", "plan", "ask", "read-only", "safe-yolo", "yolo"];
        assert_eq!(PermissionMode::VARIANTS, modes);
        assert_eq!(ModelMode::VARIANTS, ["default", "model_fast", "model_strong"]);
        for name in modes {
            assert_eq!(name.parse::<PermissionMode>().unwrap().into_str(), name);
        }
        for name in ["", "Default", "accept-edits", "acceptedits", "read_only", "yolo ", "model_fast"] {
            assert!(name.parse::<PermissionMode>().is_err(), "{name:?}");
        }
    }
}
