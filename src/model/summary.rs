//! The summary of a session in the session list (PROTOCOL.md "GET /api/sessions").

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::agent_state;
use super::json::{Json, JsonObject};
use super::session::Session;
use super::todo::{self, Progress, TodoItem};
use crate::limits::MAX_LISTED_TEXT_BYTES;

/// The fields of a summary. They are read from a session in memory or selected from the database, which has to select all of
/// them.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryFields {
    pub id: String,
    pub active: bool,
    pub thinking: bool,
    pub active_at: u64,
    pub updated_at: u64,
    pub created_at: u64,
    // With a function, a missing field is an error.
    #[serde(deserialize_with = "Option::deserialize")]
    pub metadata: Option<ListedMetadata>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub todo_progress: Option<Progress>,
    pub pending_requests_count: usize,
    #[serde(deserialize_with = "Option::deserialize", skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(deserialize_with = "Option::deserialize", skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<String>,
}

impl SummaryFields {
    pub fn of(s: &Session) -> Self {
        Self {
            id: s.id.clone(),
            active: s.active,
            thinking: s.thinking,
            active_at: s.active_at,
            updated_at: s.updated_at,
            created_at: s.created_at,
            metadata: s.metadata.as_ref().and_then(ListedMetadata::of),
            todo_progress: s.todos.as_ref().and_then(Json::read::<Vec<TodoItem>>).map(|list| todo::progress(&list)),
            pending_requests_count: agent_state::count_pending(s.agent_state.as_ref()),
            permission_mode: s.permission_mode.clone(),
            model_mode: s.model_mode.clone(),
        }
    }
}

/// A serialized summary, with the fields that the list is filtered and sorted by.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub active: bool,
    pub archived: bool,
    /// Unix milliseconds.
    pub updated_at: u64,
    /// The summary as JSON; `None` if only the database has it.
    pub json: Option<Box<str>>,
}

impl SessionSummary {
    pub fn of(fields: &SummaryFields) -> Self {
        let lifecycle = fields.metadata.as_ref().and_then(|metadata| metadata.lifecycle_state.decode());
        Self {
            active: fields.active,
            archived: lifecycle.as_deref() == Some("archived"),
            updated_at: fields.updated_at,
            json: Some(Json::of(fields).text().into()),
        }
    }
}

/// What the list shows of the metadata.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListedMetadata {
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    name: ListedText,
    #[serde(serialize_with = "serialize_required")]
    path: ListedText,
    #[serde(serialize_with = "serialize_required")]
    host: ListedText,
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    machine_id: ListedText,
    #[serde(skip_serializing_if = "ListedSummary::is_missing")]
    summary: ListedSummary,
    flavor: ListedText,
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    agent_name: ListedText,
    #[serde(skip_serializing_if = "ListedWorktree::is_missing")]
    worktree: ListedWorktree,
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    lifecycle_state: ListedText,
}

/// The agent's description of its work.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ListedSummary {
    text: ListedText,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListedWorktree {
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    base_path: ListedText,
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    branch: ListedText,
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    name: ListedText,
    #[serde(skip_serializing_if = "ListedText::is_missing")]
    worktree_path: ListedText,
}

impl ListedMetadata {
    /// `None` if the metadata is not an object.
    fn of(metadata: &Json) -> Option<Self> {
        let metadata = JsonObject::parse(metadata.text())?;
        let nested = |name| metadata.get(name).and_then(|value| JsonObject::parse(value.get())).unwrap_or_default();
        let (summary, worktree) = (nested("summary"), nested("worktree"));
        Some(Self {
            name: ListedText::of_member(&metadata, "name"),
            path: ListedText::of_member(&metadata, "path"),
            host: ListedText::of_member(&metadata, "host"),
            machine_id: ListedText::of_member(&metadata, "machineId"),
            summary: ListedSummary { text: ListedText::of_member(&summary, "text") },
            flavor: ListedText::of_member(&metadata, "flavor"),
            agent_name: ListedText::of_member(&metadata, "agentName"),
            worktree: ListedWorktree {
                base_path: ListedText::of_member(&worktree, "basePath"),
                branch: ListedText::of_member(&worktree, "branch"),
                name: ListedText::of_member(&worktree, "name"),
                worktree_path: ListedText::of_member(&worktree, "worktreePath"),
            },
            lifecycle_state: ListedText::of_member(&metadata, "lifecycleState"),
        })
    }
}

impl ListedSummary {
    fn is_missing(&self) -> bool {
        self.text.is_missing()
    }
}

impl ListedWorktree {
    fn is_missing(&self) -> bool {
        [&self.base_path, &self.branch, &self.name, &self.worktree_path].into_iter().all(ListedText::is_missing)
    }
}

/// A text of the list as JSON, with its escape sequences, of at most [`MAX_LISTED_TEXT_BYTES`]. `None` in place of a value of
/// another type, and of a text with an unpaired surrogate.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ListedText(Option<Box<RawValue>>);

/// The length of the JSON of a character: two escape sequences such as `\ud83e\udd80`.
const MAX_CHARACTER_BYTES: usize = 12;

impl ListedText {
    /// `json` is a value, or the first [`MAX_LISTED_TEXT_BYTES`] + 1 characters of a longer one.
    fn of(json: &str) -> Self {
        let is_text = |json: &str| serde_json::from_str::<String>(json).is_ok();
        let listed = match json.len() {
            ..=MAX_LISTED_TEXT_BYTES => is_text(json).then(|| json.to_owned()),
            // The text is cut before the character that exceeds the limit.
            _ => (1..=MAX_CHARACTER_BYTES).find_map(|rest| {
                let cut = format!("{}\"", json.get(..MAX_LISTED_TEXT_BYTES - rest)?);
                is_text(&cut).then_some(cut)
            }),
        };
        Self(listed.and_then(|listed| RawValue::from_string(listed).ok()))
    }

    /// The first member of a name, as in SQL.
    fn of_member(object: &JsonObject<'_>, name: &str) -> Self {
        object.members().find(|(key, _)| *key == name).map_or(Self(None), |(_, value)| Self::of(value.get()))
    }

    fn is_missing(&self) -> bool {
        self.0.is_none()
    }

    fn decode(&self) -> Option<String> {
        self.0.as_ref().and_then(|json| serde_json::from_str(json.get()).ok())
    }
}

/// Deserializes a string with the JSON of a text, or null.
impl<'de> Deserialize<'de> for ListedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not an `Option`, because a missing field is an error.
        let value = <&RawValue>::deserialize(deserializer)?;
        Ok(serde_json::from_str::<String>(value.get()).map_or(Self(None), |json| Self::of(&json)))
    }
}

/// Serializes a missing text as an empty one: the metadata of a session that had none may have no `path` and `host`.
fn serialize_required<S: Serializer>(text: &ListedText, serializer: S) -> Result<S::Ok, S::Error> {
    match &text.0 {
        Some(json) => json.serialize(serializer),
        None => "".serialize(serializer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::namespace::Namespace;

    fn session(metadata: &str) -> Session {
        let namespace = Namespace::parse("default").unwrap();
        Session::new("s1".into(), namespace, "/work".into(), Some(Json::parse(metadata).unwrap()), 1000)
    }

    fn summary(session: &Session) -> String {
        SessionSummary::of(&SummaryFields::of(session)).json.unwrap().into()
    }

    #[test]
    fn a_summary_has_only_some_fields_of_the_metadata() {
        let mut s = session(
            r#"{"path":"/w","host":"h","tools":["x"],"summary":{"text":"doing","updatedAt":5},"name":"N","agentName":"Zeta"}"#,
        );
        s.agent_state = Some(Json::parse(r#"{"requests":{"r1":{},"r2":{}}}"#).unwrap());
        assert_eq!(
            summary(&s),
            r#"{"id":"s1","active":false,"thinking":false,"activeAt":1000,"updatedAt":1000,"createdAt":1000,"metadata":{"name":"N","path":"/w","host":"h","summary":{"text":"doing"},"flavor":null,"agentName":"Zeta"},"todoProgress":null,"pendingRequestsCount":2}"#
        );
    }

    #[test]
    fn a_text_keeps_its_escape_sequences_and_other_values_are_left_out() {
        let json = summary(&session(r#"{"path":"\/w","host":"h","summary":7,"flavor":5,"name":"\u00e9\ud800"}"#));
        assert!(json.contains(r#""metadata":{"path":"\/w","host":"h","flavor":null}"#), "{json}");
        assert!(summary(&session("[1]")).contains(r#""metadata":null"#));
    }

    #[test]
    fn a_field_that_the_database_does_not_select_is_an_error() {
        let mut fields = serde_json::json!({"id": "s", "active": true, "thinking": true, "activeAt": 1, "updatedAt": 1,
            "createdAt": 1, "metadata": null, "todoProgress": null, "pendingRequestsCount": 1, "permissionMode": null,
            "modelMode": null});
        let is_valid = |fields: &serde_json::Value| serde_json::from_str::<SummaryFields>(&fields.to_string()).is_ok();
        assert!(is_valid(&fields));
        for name in fields.as_object().unwrap().clone().keys() {
            let value = fields.as_object_mut().unwrap().remove(name).unwrap();
            assert!(!is_valid(&fields), "{name}");
            fields[name] = value;
        }
        fields["metadata"] = serde_json::json!({"name": null});
        assert!(!is_valid(&fields));
    }
}
