//! A pending permission request: what it asks, for notifications.

use serde_json::value::RawValue;

use super::agent_state::pending_map;
use super::json::{Json, JsonObject, unescape};

/// The arguments that describe a call best, in order of preference.
const DETAIL_FIELDS: [&str; 10] =
    ["command", "file_path", "path", "filePath", "pattern", "query", "url", "description", "prompt", "title"];

/// The tools that ask for the approval of a plan (PROTOCOL.md "What a request says").
const PLAN_TOOLS: [&str; 3] = ["ExitPlanMode", "exit_plan_mode", "SwitchMode"];

/// A pending permission request of a session.
pub struct PendingCall<'a> {
    /// The request as its CLI wrote it.
    pub text: &'a str,
    fields: JsonObject<'a>,
}

impl<'a> PendingCall<'a> {
    /// Finds a pending request in an agent state.
    pub fn find(state: Option<&'a Json>, id: &str) -> Option<Self> {
        let text = pending_map(state).get(id)?.get();
        Some(Self { text, fields: JsonObject::parse(text)? })
    }

    pub fn tool(&self) -> Option<String> {
        self.fields.text("tool")
    }

    /// Returns the argument that describes the call best, such as the command or the file.
    pub fn detail(&self) -> Option<String> {
        let arguments = self.fields.object("arguments")?;
        DETAIL_FIELDS.iter().filter_map(|name| arguments.get(name)).find_map(|value| {
            let words = || serde_json::from_str::<Vec<String>>(value.get()).ok().map(|words| words.join(" "));
            unescape(value.get()).or_else(words).filter(|text| !text.trim().is_empty())
        })
    }

    /// Returns all arguments; `None` if the request has no arguments, or only an excerpt of the arguments.
    pub fn arguments(&self) -> Option<&'a RawValue> {
        self.fields.get("arguments").filter(|_| !self.is_set("shortened"))
    }

    /// Whether an approval or a denial alone answers the request: it has all its arguments, and no question, choice or plan.
    pub fn is_yes_or_no(&self) -> bool {
        let asks = |arguments: &RawValue| {
            JsonObject::parse(arguments.get()).is_some_and(|fields| fields.get("questions").is_some())
        };
        let is_plan = self.tool().is_none_or(|tool| PLAN_TOOLS.contains(&tool.as_str()));
        self.arguments().is_some_and(|arguments| !asks(arguments)) && !is_plan && !self.is_set("needsChoice")
    }

    /// Whether the request has a field that is neither `null` nor `false`.
    fn is_set(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|value| !["null", "false"].contains(&value.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_is_the_argument_that_describes_the_call_best() {
        for (arguments, expected) in [
            (r#"{"description":"Runs tests","command":"npm test"}"#, Some("npm test")),
            (r#"{"command":["git","push"]}"#, Some("git push")),
            (r#"{"command":"  ","file_path":"a.ts"}"#, Some("a.ts")),
            (r#"{"command":7,"other":"x"}"#, None),
            (r#"{}"#, None),
            (r#""text""#, None),
        ] {
            let state = format!(r#"{{"requests":{{"r":{{"tool":"T","arguments":{arguments}}}}}}}"#);
            let state = Json::parse(&state).unwrap();
            let detail = PendingCall::find(Some(&state), "r").unwrap().detail();
            assert_eq!(detail.as_deref(), expected, "{arguments}");
        }
    }
}
