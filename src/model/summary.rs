//! The summary of a session in the session list (PROTOCOL.md "GET /api/sessions").

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::agent_state;
use super::json::{Json, JsonObject};
use super::session::Session;
use super::todo::{self, Progress, TodoItem};
use crate::limits::{MAX_LISTED_BYTES, MAX_LISTED_CHARS};

/// The fields from which the summary of a session is computed. They are read from a session in memory or selected from
/// the database.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all(serialize = "camelCase"))]
pub struct SummaryFields {
    pub id: String,
    pub active: bool,
    pub thinking: bool,
    pub active_at: u64,
    pub updated_at: u64,
    pub created_at: u64,
    /// The metadata, or an object with the fields of [`SummaryMetadata`].
    pub metadata: Option<Json>,
    pub todo_progress: Option<Progress>,
    pub pending_requests_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
            metadata: s.metadata.clone(),
            todo_progress: s.todos.as_ref().and_then(Json::read::<Vec<TodoItem>>).map(|list| todo::progress(&list)),
            pending_requests_count: agent_state::count_pending(s.agent_state.as_ref()),
            permission_mode: s.permission_mode.clone(),
            model_mode: s.model_mode.clone(),
        }
    }
}

/// A serialized summary, with the fields that the list is filtered and sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    pub id: String,
    pub active: bool,
    pub archived: bool,
    /// Unix milliseconds.
    pub updated_at: u64,
    /// The summary as JSON text.
    pub json: String,
}

impl SessionSummary {
    pub fn of(mut fields: SummaryFields) -> Self {
        let metadata: Option<SummaryMetadata<'_>> = fields.metadata.as_ref().and_then(Json::read);
        let raw_lifecycle = metadata.as_ref().and_then(|metadata| metadata.lifecycle_state);
        let lifecycle = raw_lifecycle.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let archived = lifecycle.as_deref() == Some("archived");
        let listed = metadata.map(|metadata| Json::of(&metadata));
        fields.metadata = listed;
        let json = Json::of(&fields).text().to_owned();
        Self { active: fields.active, archived, updated_at: fields.updated_at, json, id: fields.id }
    }
}

/// The metadata fields of a summary. They are raw JSON, because they are copied unchanged, whatever their type. `flavor` is
/// `null` when it is missing; the other optional fields are omitted.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryMetadata<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    path: &'a RawValue,
    #[serde(borrow)]
    host: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    machine_id: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none", deserialize_with = "deserialize_metadata_summary")]
    #[serde(default)]
    summary: Option<MetadataSummary<'a>>,
    #[serde(borrow)]
    flavor: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none", serialize_with = "serialize_worktree")]
    worktree: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    lifecycle_state: Option<&'a RawValue>,
}

/// The metadata field `summary`: the agent's description of its work.
#[derive(Serialize, Deserialize)]
struct MetadataSummary<'a> {
    #[serde(borrow, serialize_with = "serialize_text")]
    text: &'a RawValue,
}

/// The only fields of a long `worktree` that the list shows.
const LISTED_WORKTREE_FIELDS: [&str; 4] = ["basePath", "branch", "name", "worktreePath"];

fn serialize_text<S: Serializer>(text: &RawValue, serializer: S) -> Result<S::Ok, S::Error> {
    match listed_text(text).filter(|_| text.get().len() > MAX_LISTED_BYTES) {
        Some(start) => start.serialize(serializer),
        None => text.serialize(serializer),
    }
}

// serde passes a reference to the field.
#[allow(clippy::ref_option)]
fn serialize_worktree<S: Serializer>(worktree: &Option<&RawValue>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(long) = worktree.filter(|worktree| worktree.get().len() > MAX_LISTED_BYTES) else {
        return worktree.serialize(serializer);
    };
    let fields = JsonObject::parse(long.get()).unwrap_or_default();
    let listed = |name| Some((name, listed_text(fields.get(name)?)?));
    serializer.collect_map(LISTED_WORKTREE_FIELDS.into_iter().filter_map(listed))
}

/// Returns what the list shows of a long text; `None` if the value is not a string.
fn listed_text(text: &RawValue) -> Option<String> {
    let text: String = serde_json::from_str(text.get()).ok()?;
    Some(text.chars().take(MAX_LISTED_CHARS).collect())
}

/// Deserializes a `summary`. A value without `text` counts as missing: an error would drop all metadata.
fn deserialize_metadata_summary<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MetadataSummary<'de>>, D::Error> {
    let raw = Option::<&RawValue>::deserialize(deserializer)?;
    Ok(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::namespace::Namespace;

    fn session(metadata: &str) -> Session {
        let namespace = Namespace::parse("default").unwrap();
        Session::new("s1".into(), namespace, "/work".into(), Some(Json::parse(metadata).unwrap()), 1000)
    }

    fn summary(session: &Session) -> SessionSummary {
        SessionSummary::of(SummaryFields::of(session))
    }

    #[test]
    fn a_summary_has_only_some_fields_of_the_metadata() {
        let mut s = session(
            r#"{"path":"/w","host":"h","tools":["x"],"summary":{"text":"doing","updatedAt":5},"name":"N","agentName":"Zeta"}"#,
        );
        s.agent_state = Some(Json::parse(r#"{"requests":{"r1":{},"r2":{}}}"#).unwrap());
        assert_eq!(
            summary(&s).json,
            r#"{"id":"s1","active":false,"thinking":false,"activeAt":1000,"updatedAt":1000,"createdAt":1000,"metadata":{"name":"N","path":"/w","host":"h","summary":{"text":"doing"},"flavor":null,"agentName":"Zeta"},"todoProgress":null,"pendingRequestsCount":2}"#
        );
    }

    #[test]
    fn metadata_of_unexpected_types_is_copied_or_omitted() {
        let json = summary(&session(r#"{"path":"/w","host":"h","summary":7,"flavor":5}"#)).json;
        assert!(json.contains(r#""flavor":5"#) && !json.contains("summary"), "{json}");
        assert!(summary(&session("[1]")).json.contains(r#""metadata":null"#));
    }
}
