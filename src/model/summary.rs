//! A session's line in the list (PROTOCOL.md "GET /api/sessions").

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::agent_state;
use super::json::Json;
use super::session::Session;
use super::todo::{self, Progress, TodoItem};

/// What a line is made of, whether the session is in memory or its columns come from the database.
#[derive(Debug, Deserialize)]
pub struct Facts {
    /// The session's id.
    pub id: String,
    /// Whether it is active.
    pub active: bool,
    /// Whether its agent is at work.
    pub thinking: bool,
    /// Its last sign of life, in Unix milliseconds.
    pub active_at: u64,
    /// When it last changed, in Unix milliseconds.
    pub updated_at: u64,
    /// When it was made, in Unix milliseconds.
    pub created_at: u64,
    /// The metadata, or at least those of its fields that are listed.
    pub metadata: Option<Json>,
    /// How far its todo list is done; `None` without one.
    pub todo_progress: Option<Progress>,
    /// How many permission requests wait for an answer.
    pub pending_requests: usize,
    /// The permission mode of its agent.
    pub permission_mode: Option<String>,
    /// The model of its agent.
    pub model_mode: Option<String>,
}

impl Facts {
    /// What a session's line is made of.
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
            pending_requests: agent_state::pending(s.agent_state.as_ref()),
            permission_mode: s.permission_mode.clone(),
            model_mode: s.model_mode.clone(),
        }
    }
}

/// A session's line, with what the list is filtered and sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The session's id.
    pub id: String,
    /// Whether it is active.
    pub active: bool,
    /// Whether it is archived.
    pub archived: bool,
    /// When it last changed, in Unix milliseconds.
    pub updated_at: u64,
    /// The line as JSON text.
    pub text: String,
}

impl Line {
    /// The line made of these facts.
    pub fn of(facts: Facts) -> Self {
        let listed: Option<Listed<'_>> = facts.metadata.as_ref().and_then(Json::read);
        let archived = listed.as_ref().and_then(|listed| listed.lifecycle_state);
        let archived = archived.and_then(|state| serde_json::from_str::<String>(state.get()).ok());
        let text = Json::of(&Summary {
            id: &facts.id,
            active: facts.active,
            thinking: facts.thinking,
            active_at: facts.active_at,
            updated_at: facts.updated_at,
            created_at: facts.created_at,
            metadata: listed,
            todo_progress: facts.todo_progress,
            pending_requests_count: facts.pending_requests,
            permission_mode: facts.permission_mode.as_deref(),
            model_mode: facts.model_mode.as_deref(),
        });
        let (active, updated_at) = (facts.active, facts.updated_at);
        let archived = archived.as_deref() == Some("archived");
        Self { active, archived, updated_at, text: text.text().to_owned(), id: facts.id }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    id: &'a str,
    active: bool,
    thinking: bool,
    active_at: u64,
    updated_at: u64,
    created_at: u64,
    metadata: Option<Listed<'a>>,
    todo_progress: Option<Progress>,
    pending_requests_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_mode: Option<&'a str>,
}

/// The fields of the metadata that are listed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    path: &'a RawValue,
    #[serde(borrow)]
    host: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    machine_id: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none", deserialize_with = "summary_text")]
    #[serde(default)]
    summary: Option<SummaryText<'a>>,
    #[serde(borrow)]
    flavor: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    worktree: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    lifecycle_state: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
struct SummaryText<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

/// A summary of another shape than `{text}` is left out of the list, it does not spoil it.
fn summary_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<SummaryText<'de>>, D::Error> {
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

    fn line(session: &Session) -> Line {
        Line::of(Facts::of(session))
    }

    #[test]
    fn a_line_shows_the_listed_fields_of_the_metadata_and_no_others() {
        let mut s =
            session(r#"{"path":"/w","host":"h","tools":["x"],"summary":{"text":"doing","updatedAt":5},"name":"N"}"#);
        s.agent_state = Some(Json::parse(r#"{"requests":{"r1":{},"r2":{}}}"#).unwrap());
        assert_eq!(
            line(&s).text,
            r#"{"id":"s1","active":false,"thinking":false,"activeAt":1000,"updatedAt":1000,"createdAt":1000,"metadata":{"name":"N","path":"/w","host":"h","summary":{"text":"doing"},"flavor":null},"todoProgress":null,"pendingRequestsCount":2}"#
        );
    }

    #[test]
    fn odd_metadata_does_not_spoil_the_list() {
        let odd = line(&session(r#"{"path":"/w","host":"h","summary":7,"flavor":5}"#)).text;
        assert!(odd.contains(r#""flavor":5"#) && !odd.contains("summary"), "{odd}");
        assert!(line(&session("[1]")).text.contains(r#""metadata":null"#));
    }

    #[test]
    fn a_line_knows_whether_its_session_is_archived() {
        let archived =
            |state: &str| line(&session(&format!(r#"{{"path":"/w","host":"h","lifecycleState":{state}}}"#))).archived;
        assert!(archived("\"archived\"") && archived(r#""\u0061rchived""#));
        assert!(!archived("\"running\"") && !archived("null") && !archived("[1]"));
    }
}
