//! What the hub asks of a machine: to start a session, and whether paths exist on it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::peers::rpc::RpcError;
use crate::model::json::JsonObject;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::field_types::optional_scalar;

/// The params of RPC `spawnSession`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnParams {
    /// The absolute path of the directory to start in.
    pub directory: String,
    /// The agent kind, in the word of the machine.
    pub agent: String,
    /// The model to start with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the agent is to ask for no permission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yolo: Option<bool>,
    /// `simple`, or `worktree` for a git worktree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_type: Option<&'static str>,
    /// The name of the worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_name: Option<String>,
}

/// How a spawn went.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spawned {
    /// Whether a session was started.
    pub success: bool,
    /// The id of the session that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Why none was, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Hub {
    /// Starts a session on a machine. What the CLI reports, failure included, is the result.
    pub async fn spawn(self: &Arc<Self>, machine: &str, params: &SpawnParams) -> Result<Spawned, Error> {
        let params = serde_json::to_string(params).unwrap_or_default();
        let answer = self.call(&Owner::Machine(machine.to_owned()), Method::SpawnSession, &params).await?;
        Ok(read_spawned(&answer))
    }

    /// Which of the paths exist on a machine: a map from path to truth value, as JSON text.
    pub async fn paths_exist(self: &Arc<Self>, machine: &str, paths: &[String]) -> Result<String, Error> {
        #[derive(Serialize)]
        struct Params<'a> {
            paths: &'a [String],
        }
        let params = serde_json::to_string(&Params { paths }).unwrap_or_default();
        let answer = self.call(&Owner::Machine(machine.to_owned()), Method::CheckPathExists, &params).await;
        let answer = answer.map_err(|error: RpcError| Error::CheckFailed(error.to_string()))?;
        read_paths(&answer).ok_or_else(|| Error::CheckFailed(said(&answer)))
    }
}

/// CLIs answer `{success, sessionId?, error?}` or `{type: "success", sessionId}` / `{type: "error", errorMessage}`.
pub(in crate::hub) fn read_spawned(answer: &str) -> Spawned {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Result {
        #[serde(default, deserialize_with = "optional_scalar")]
        success: Option<bool>,
        r#type: Option<String>,
        session_id: Option<String>,
        error: Option<String>,
        error_message: Option<String>,
    }
    let failure = |error: String| Spawned { success: false, session_id: None, error: Some(error) };
    let Ok(result) = serde_json::from_str::<Result>(answer) else {
        return failure("The CLI's answer to spawnSession has an unknown shape".into());
    };
    let success = result.success.unwrap_or(result.r#type.as_deref() == Some("success"));
    let error = result.error.or(result.error_message);
    if success {
        return Spawned { success, session_id: result.session_id, error };
    }
    failure(error.unwrap_or_else(|| "The CLI gave no reason".into()))
}

/// CLIs answer the plain map, or `{exists: {...}}`.
fn read_paths(answer: &str) -> Option<String> {
    let object = JsonObject::parse(answer)?;
    let nested = object.get("exists").filter(|value| value.get().starts_with('{'));
    let map = JsonObject::parse(nested.map_or(answer, RawValue::get))?;
    let flags = map.members().all(|(_, value)| matches!(value.get(), "true" | "false"));
    let failed = object.get("success").is_some_and(|value| value.get() == "false") && object.get("error").is_some();
    (flags && !failed).then(|| map.to_json().text().to_owned())
}

fn said(answer: &str) -> String {
    crate::hub::peers::rpc::rejection_reason(answer).unwrap_or_else(|| "the CLI's answer has an unknown shape".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_a_spawn_result_are_understood() {
        let spawned = |id: &str| Spawned { success: true, session_id: Some(id.into()), error: None };
        assert_eq!(read_spawned(r#"{"success":true,"sessionId":"a"}"#), spawned("a"));
        assert_eq!(read_spawned(r#"{"type":"success","sessionId":"b"}"#), spawned("b"));
        assert_eq!(read_spawned(r#"{"type":"error","errorMessage":"no"}"#).error.as_deref(), Some("no"));
        assert_eq!(read_spawned(r#"{"success":false,"error":"no"}"#).error.as_deref(), Some("no"));
        assert!(!read_spawned("{}").success);
    }

    #[test]
    fn both_shapes_of_a_path_check_are_understood_and_others_are_not() {
        assert_eq!(read_paths(r#"{"/a":true,"/b":false}"#).unwrap(), r#"{"/a":true,"/b":false}"#);
        assert_eq!(read_paths(r#"{"exists":{"/a":true}}"#).unwrap(), r#"{"/a":true}"#);
        for odd in [r#"{"/a":"yes"}"#, r#"{"success":false,"error":"x"}"#, "[]"] {
            assert_eq!(read_paths(odd), None, "{odd}");
        }
    }
}
