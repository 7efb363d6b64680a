//! RPC calls to a machine's runner: spawning a session, and checking which paths exist.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::{RpcError, rejection_reason};
use crate::model::json::{Json, JsonObject};
use crate::model::method::Method;
use crate::model::mode::Agent;
use crate::model::owner::Owner;
use crate::wire::field_types::{optional_keyword, optional_scalar};

/// The runner's error code for a directory that its user has not trusted.
pub(in crate::hub) const UNTRUSTED_DIRECTORY: &str = "untrusted_directory";

/// Where a machine starts a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionType {
    Simple,
    /// In a new git worktree.
    Worktree,
}

/// The request of a web client to spawn a session, and the params of RPC `spawnSession`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnParams {
    /// The absolute path of the working directory.
    pub directory: String,
    /// An agent that the machine lists, or an agent of the vocabulary by any of its names. By default the agent of the deployment.
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Whether the agent runs without asking for permissions.
    #[serde(default, deserialize_with = "optional_scalar", skip_serializing_if = "Option::is_none")]
    yolo: Option<bool>,
    #[serde(default, deserialize_with = "optional_keyword", skip_serializing_if = "Option::is_none")]
    pub session_type: Option<SessionType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_name: Option<String>,
    /// The branch from which the worktree is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// A map from the id of an agent's option to its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Json>,
    /// Whether the user trusts the directory (PROTOCOL-WEB.md "Trust of directories").
    #[serde(default, deserialize_with = "optional_scalar", skip_serializing_if = "Option::is_none")]
    trust: Option<bool>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnResult {
    pub success: bool,
    /// `success` or `error`, for clients that expect a type.
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The runner's code of the failure, such as [`UNTRUSTED_DIRECTORY`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Hub {
    /// Spawns a session on a machine. A runner's failure is in the result. An agent that the machine lacks must be in the vocabulary.
    pub async fn spawn_session(&self, machine: &str, params: SpawnParams) -> Result<SpawnResult, Error> {
        if params.yolo == Some(true) && self.config.forbidden_modes.forbids_approving_everything() {
            return Err(Error::ModeForbidden("yolo"));
        }
        let vocabulary = &self.config.vocabulary;
        let agent = params.agent.clone().unwrap_or_else(|| vocabulary.default_agent().to_owned());
        let is_listed = self.turn().cache.machine(machine)?.has_agent(&agent);
        if !is_listed {
            vocabulary.find_agent(&agent).map_err(|e| Error::field("agent", format!("Field `agent`: {e}.")))?;
        }
        let takes_model_modes = vocabulary.agent_of_flavor(Some(&agent)).is_some_and(Agent::accepts_model_modes);
        let params = SpawnParams { agent: Some(agent.clone()), ..params };
        let make_params = |dialect| {
            if is_listed {
                return Json::of(&params);
            }
            let model = params.model.as_ref().map(|model| match takes_model_modes {
                true => vocabulary.model_in(dialect, model),
                false => model.clone(),
            });
            let agent = Some(vocabulary.agent_in(dialect, &agent));
            Json::of(&SpawnParams { agent, model, ..params.clone() })
        };
        let owner = Owner::Machine(machine.to_owned());
        Ok(parse_spawn_result(&self.call_in_dialect(&owner, Method::SpawnSession, &make_params).await?))
    }

    /// Returns which of the paths exist on a machine, as a JSON object from path to boolean.
    pub async fn check_paths(&self, machine: &str, paths: &[String]) -> Result<String, Error> {
        let params = Json::object(&[("paths", Json::of(paths))]);
        let result = self.call(&Owner::Machine(machine.to_owned()), Method::CheckPathExists, &params).await;
        let result = result.map_err(|error: RpcError| Error::PathCheckFailed(error.to_string()))?;
        parse_paths(&result).ok_or_else(|| {
            let unknown_format = || "the runner's response has an unknown format".into();
            Error::PathCheckFailed(rejection_reason(&result).unwrap_or_else(unknown_format))
        })
    }
}

/// Parses `{success, sessionId?, error?, code?}`, or `{type: "success", sessionId}` and `{type: "error", errorMessage}`.
pub(in crate::hub) fn parse_spawn_result(text: &str) -> SpawnResult {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields {
        #[serde(default, deserialize_with = "optional_scalar")]
        success: Option<bool>,
        r#type: Option<String>,
        session_id: Option<String>,
        error: Option<String>,
        error_message: Option<String>,
        code: Option<Json>,
    }
    let unknown_format = || Some("The runner's response to spawnSession has an unknown format".into());
    let fields = serde_json::from_str(text).unwrap_or_else(|_| Fields { error: unknown_format(), ..Fields::default() });
    let success = fields.success.unwrap_or(fields.r#type.as_deref() == Some("success"));
    let no_reason = || (!success).then(|| "The runner gave no reason".into());
    SpawnResult {
        success,
        r#type: if success { "success" } else { "error" },
        session_id: fields.session_id.filter(|_| success),
        error: fields.error.or(fields.error_message).or_else(no_reason),
        // A code that is not a string is ignored.
        code: fields.code.filter(|_| !success).and_then(|code| code.read()),
    }
}

/// Parses an object from path to boolean, which may be in the field `exists`. `None` for another format or a failure.
fn parse_paths(text: &str) -> Option<String> {
    let object = JsonObject::parse(text)?;
    let nested = object.get("exists").filter(|value| value.get().starts_with('{'));
    let paths = JsonObject::parse(nested.map_or(text, RawValue::get))?;
    let are_booleans = paths.members().all(|(_, value)| matches!(value.get(), "true" | "false"));
    let is_failure = object.get("success").is_some_and(|value| value.get() == "false") && object.get("error").is_some();
    (are_booleans && !is_failure).then(|| paths.to_json().text().to_owned())
}
