//! The summary of a session in the session list (PROTOCOL-WEB.md "GET /api/sessions").

use serde::Serialize;

use super::agent_state;
use super::json::{Json, JsonObject, is_default};
use super::session::Session;
use super::settings::{Settings, serialize_set};
use super::todo::{self, Progress, TodoItem};

/// The list shows at most this much of a text in metadata, in bytes of JSON. The SQL in `store::summaries` repeats the number.
const MAX_LISTED_TEXT_BYTES: usize = 512;

/// Calls a macro with the paths of the metadata texts that the list shows. The paths are a macro, because `store::summaries`
/// builds SQL from the paths at compile time. [`ListedMetadata::of_texts`] depends on the order of the paths: texts of one object are
/// adjacent, and `lifecycleState` is the last.
macro_rules! listed_texts {
    ($macro:ident) => {
        $macro! {
            "name" "path" "host" "machineId" "summary.text" "flavor" "agentName" "worktree.basePath" "worktree.branch"
            "worktree.name" "worktree.worktreePath" "lifecycleState"
        }
    };
}
pub(crate) use listed_texts;

macro_rules! array {
    ($($path:literal)*) => { &[$($path),*] };
}

const LISTED_TEXTS: &[&str] = listed_texts!(array);

/// The length of the longest character in JSON: two escape sequences such as `\ud83e\udd80`.
const MAX_CHARACTER_BYTES: usize = 12;

/// The fields of a summary, read from a session in memory or selected from the database.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SummaryFields {
    pub id: String,
    pub active: bool,
    pub thinking: bool,
    pub thinking_at: u64,
    pub active_at: u64,
    pub updated_at: u64,
    pub created_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen_since: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub held_messages_count: usize,
    pub metadata: Option<ListedMetadata>,
    pub todo_progress: Option<Progress>,
    pub pending_requests_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<String>,
    #[serde(flatten, serialize_with = "serialize_set")]
    pub settings: Settings,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disconnected: bool,
    /// Absent from a summary that was read from the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Absent like `activity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_at: Option<u64>,
}

impl SummaryFields {
    pub fn of(s: &Session) -> Self {
        Self {
            id: s.id.clone(),
            active: s.active,
            thinking: s.thinking,
            thinking_at: s.thinking_at,
            active_at: s.active_at,
            updated_at: s.updated_at,
            created_at: s.created_at,
            last_message_at: s.last_message_at,
            ended_at: s.ended_at,
            unseen_since: s.unseen_since,
            held_messages_count: s.held_messages_count,
            metadata: s.metadata.json().and_then(ListedMetadata::of),
            todo_progress: s.todos.as_ref().and_then(Json::read::<Vec<TodoItem>>).map(|list| todo::progress(&list)),
            pending_requests_count: agent_state::count_pending(s.agent_state.json()),
            permission_mode: s.permission_mode.clone(),
            model_mode: s.model_mode.clone(),
            settings: s.settings.clone(),
            disconnected: s.disconnected,
            activity: s.activity.clone(),
            activity_at: s.activity_at,
        }
    }
}

/// A serialized summary, with the fields by which the list is filtered and sorted.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub active: bool,
    pub archived: bool,
    pub pinned: bool,
    /// Unix milliseconds.
    pub updated_at: u64,
    pub pending_requests_count: usize,
    pub unseen_since: Option<u64>,
    /// The summary as JSON; `None` if it must be read from the database.
    pub json: Option<Box<str>>,
}

impl SessionSummary {
    pub fn of(fields: &SummaryFields) -> Self {
        Self {
            active: fields.active,
            archived: fields.metadata.as_ref().is_some_and(|metadata| metadata.is_archived),
            pinned: fields.settings.pinned,
            updated_at: fields.updated_at,
            pending_requests_count: fields.pending_requests_count,
            unseen_since: fields.unseen_since,
            json: Some(Json::of(fields).text().into()),
        }
    }
}

/// The metadata that the list shows. Archiving or renaming a session whose metadata was null creates metadata without `path`,
/// `host` and `flavor`. The list then shows an empty `path` and `host`, and null as `flavor`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ListedMetadata {
    json: Json,
    #[serde(skip)]
    is_archived: bool,
}

impl ListedMetadata {
    /// Returns `None` if the metadata is not an object.
    fn of(metadata: &Json) -> Option<Self> {
        let metadata = JsonObject::parse(metadata.text())?;
        let texts = LISTED_TEXTS.iter().map(|path| match path.split_once('.') {
            Some((parent, name)) => {
                let parent = metadata.object(parent)?;
                // Of several members with one name, the first counts, as in SQL.
                parent.members().find(|(key, _)| *key == name).map(|(_, text)| text.get())
            }
            None => metadata.get(path).map(|text| text.get()),
        });
        Some(Self::of_texts(&texts.map(Option::unwrap_or_default).collect::<Vec<_>>()))
    }

    /// `texts`: the JSON of each value in [`listed_texts`]; empty for a missing value. The caller may cut a text after
    /// [`MAX_LISTED_TEXT_BYTES`] + 1 characters, which suffice to see that the text is too long.
    pub fn of_texts(texts: &[&str]) -> Self {
        let (mut json, mut open_parent, mut is_archived) = ("{".to_owned(), "", false);
        for (path, text) in LISTED_TEXTS.iter().zip(texts) {
            let text = match (*path, cut_text(text)) {
                (_, Some(text)) => text,
                ("path" | "host", None) => "\"\"".to_owned(),
                ("flavor", None) => "null".to_owned(),
                (_, None) => continue,
            };
            let (parent, name) = path.split_once('.').unwrap_or(("", path));
            if parent != open_parent {
                if !open_parent.is_empty() {
                    json.push('}');
                }
                if !parent.is_empty() {
                    push_member(&mut json, parent, "{");
                }
                open_parent = parent;
            }
            push_member(&mut json, name, &text);
            is_archived = *path == "lifecycleState" && decode(&text).as_deref() == Some("archived");
        }
        json.push_str(if open_parent.is_empty() { "}" } else { "}}" });
        Self { json: Json::from_string(json).unwrap_or_else(Json::null), is_archived }
    }
}

fn push_member(json: &mut String, name: &str, value: &str) {
    json.extend([if json.ends_with('{') { "\"" } else { ",\"" }, name, "\":", value]);
}

fn decode(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Shortens a text for the list, to at most [`MAX_LISTED_TEXT_BYTES`] of JSON. `None` for a value that is not a string, and for a
/// text with an unpaired surrogate, which some clients cannot read.
fn cut_text(json: &str) -> Option<String> {
    if json.len() <= MAX_LISTED_TEXT_BYTES {
        return decode(json).map(|_| json.to_owned());
    }
    // Drops bytes one at a time until the text does not end inside a character or an escape sequence.
    (1..=MAX_CHARACTER_BYTES).find_map(|removed_bytes| {
        let cut = format!("{}\"", json.get(..MAX_LISTED_TEXT_BYTES - removed_bytes)?);
        decode(&cut).map(|_| cut)
    })
}
