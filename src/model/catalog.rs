//! What a deployment offers: its agents with their permission modes and models, in the words of its
//! [vocabulary](super::vocabulary) and with labels for people.

use serde::Serialize;

use super::mode::{Agent, PermissionMode, permission_modes};
use super::vocabulary::Vocabulary;

/// An agent that a session can be started with.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct AgentChoice {
    /// The deployment's word for the agent, used as `metadata.flavor` and as `agent` of a spawn.
    id: String,
    /// The protocol's name of the agent.
    kind: String,
    label: String,
    modes: Vec<Choice>,
    /// Empty for an agent without model modes.
    models: Vec<Choice>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    id: String,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'static str>,
    /// Whether this mode approves edits of files and still asks before commands.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    accepts_edits: bool,
    /// Whether this mode approves everything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    never_asks: bool,
}

/// Returns the agents of the deployment, in the order of its vocabulary, without the permission modes that it forbids.
pub fn list_agents(vocabulary: &Vocabulary, forbids: &dyn Fn(&str) -> bool) -> Vec<AgentChoice> {
    let choice = |(id, kind): (String, String)| {
        let agent = vocabulary.agent_of_flavor(Some(&id));
        let allowed = permission_modes(agent).iter().filter(|mode| !forbids(mode.into_str()));
        let modes = allowed.map(|mode| mode_choice(vocabulary, *mode)).collect();
        let models = match agent.is_some_and(Agent::accepts_model_modes) {
            true => vocabulary.offered_models().into_iter().map(|(model, _)| model_choice(vocabulary, model)).collect(),
            false => Vec::new(),
        };
        let label = label(vocabulary, &id);
        AgentChoice { id, kind, label, modes, models }
    };
    vocabulary.offered_agents().into_iter().map(choice).collect()
}

fn mode_choice(vocabulary: &Vocabulary, mode: PermissionMode) -> Choice {
    let (label, description) = match mode {
        PermissionMode::Default => ("Ask", "Asks before each tool"),
        PermissionMode::AcceptEdits => ("Accept edits", "Edits files without asking, asks before commands"),
        PermissionMode::BypassPermissions => ("Approve everything", "Never asks"),
        PermissionMode::Plan => ("Plan", "Plans before it acts"),
        PermissionMode::Ask => ("Ask always", "Asks before each action"),
        PermissionMode::ReadOnly => ("Read only", "Changes no files"),
        PermissionMode::SafeYolo => ("Safe auto", "Does not ask before safe actions"),
        PermissionMode::Yolo => ("Approve everything", "Never asks"),
    };
    let label = vocabulary.label(mode.into_str()).unwrap_or(label).to_owned();
    let accepts_edits = mode == PermissionMode::AcceptEdits;
    let never_asks = PermissionMode::NEVER_ASKING.contains(&mode);
    Choice { id: mode.into_str().to_owned(), label, description: Some(description), accepts_edits, never_asks }
}

fn model_choice(vocabulary: &Vocabulary, id: String) -> Choice {
    let label = match (vocabulary.label(&id), id.as_str()) {
        (None, "default") => "Default model".to_owned(),
        (None, "model_fast") => "Fast model".to_owned(),
        (None, "model_strong") => "Strong model".to_owned(),
        _ => label(vocabulary, &id),
    };
    Choice { id, label, description: None, accepts_edits: false, never_asks: false }
}

/// Returns the deployment's label of a word, or the word with a capital letter.
pub fn label(vocabulary: &Vocabulary, word: &str) -> String {
    if let Some(label) = vocabulary.label(word) {
        return label.to_owned();
    }
    let mut label = word.to_owned();
    label.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn listed(setting: &str) -> Value {
        serde_json::to_value(list_agents(&Vocabulary::parse(setting).unwrap(), &|_| false)).unwrap()
    }

    fn values<'v>(list: &'v Value, name: &str) -> Vec<&'v str> {
        list.as_array().unwrap().iter().map(|item| item[name].as_str().unwrap()).collect()
    }

    #[test]
    fn agents_have_the_names_of_the_protocol_if_there_is_no_vocabulary() {
        let agents = listed("{}");
        assert_eq!(values(&agents, "id"), ["alpha", "beta", "gamma", "delta", "epsilon"]);
        assert_eq!(values(&agents, "label"), ["Alpha", "Beta", "Gamma", "Delta", "Epsilon"]);
        assert_eq!(values(&agents[0]["modes"], "id"), ["default", "acceptEdits", "bypassPermissions", "plan"]);
        assert_eq!(values(&agents[0]["models"], "label"), ["Default model", "Fast model", "Strong model"]);
        assert_eq!(agents[1]["models"], json!([]));
        let approves_everything =
            json!({"id": "yolo", "label": "Approve everything", "description": "Never asks", "neverAsks": true});
        assert_eq!(agents[4]["modes"][1], approves_everything);
    }

    #[test]
    fn the_list_has_only_the_deployment_s_own_words_with_their_labels() {
        let agents = listed(
            r#"{"agents":{"zeta":"gamma","eta":"alpha"},"models":{"swift":"model_fast"},
            "labels":{"eta":"Eta 2","plan":"Think","swift":"Swift one"}}"#,
        );
        assert_eq!(values(&agents, "id"), ["zeta", "eta"]);
        assert_eq!(values(&agents, "kind"), ["gamma", "alpha"]);
        assert_eq!(values(&agents, "label"), ["Zeta", "Eta 2"]);
        assert_eq!(values(&agents[0]["modes"], "label"), ["Ask", "Think", "Ask always", "Approve everything"]);
        assert_eq!(values(&agents[1]["models"], "label"), ["Default model", "Swift one"]);
    }
}
