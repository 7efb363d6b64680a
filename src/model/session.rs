//! Sessions: conversations with an agent, and the rules on their metadata (PROTOCOL.md "The session").

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::{EnumString, IntoStaticStr};

use super::json::{FieldError, Json, JsonObject, is_default, unescape};
use super::large::InlineOrLarge;
use super::namespace::Namespace;
use super::settings::{Settings, serialize_set};
use crate::limits::MAX_KEYWORD_BYTES;

/// The longest text in the `summary` or `worktree` of metadata, in bytes.
const MAX_FIELD_TEXT_BYTES: usize = 65_536;
/// The longest JSON of a `summary`, `worktree`, `modes` or `models`, in bytes. The excerpt of large metadata has all four.
const MAX_FIELD_JSON_BYTES: usize = 128_000;

/// Where a session is controlled from (specification, "Control mode").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ControlMode {
    /// The terminal; the web is read-only.
    Local,
    /// The web.
    Remote,
}

/// A session as `GET /api/sessions/:id` returns it. Times are Unix milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// A UUID v7.
    pub id: String,
    pub namespace: Namespace,
    /// Chosen by the CLI and unique in the namespace: a CLI that sends it again gets the same session.
    pub tag: String,
    /// The highest message seq; 0 before the first message.
    pub seq: u64,
    pub created_at: u64,
    pub updated_at: u64,
    /// The time of the last keep-alive.
    pub active_at: u64,
    /// The time at which `thinking` got its value.
    pub thinking_at: u64,
    /// Whether the last keep-alive is at most 30 s old.
    pub active: bool,
    /// Whether the agent is working.
    pub thinking: bool,
    /// `None` until a CLI reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ControlMode>,
    /// Written by the CLI.
    pub metadata: InlineOrLarge,
    /// Starts at 1.
    pub metadata_version: u64,
    /// The state without its completed requests.
    pub agent_state: InlineOrLarge,
    /// Starts at 1.
    pub agent_state_version: u64,
    /// The to-do list in the newest message that contains a to-do list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The id of the model: a model of the agent, or one of the session's own models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<String>,
    #[serde(flatten, serialize_with = "serialize_set")]
    pub settings: Settings,
    /// Whether the session is active, but no CLI has been connected for a moment. Not stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disconnected: bool,
    /// The `created_at` of the newest message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<u64>,
    /// When the session ended. `None` while it is active, and after a lost connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Since when the session waits to be seen, because its agent became ready or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen_since: Option<u64>,
    /// The number of messages that wait until the CLI is back.
    #[serde(skip_serializing_if = "is_default")]
    pub held_messages_count: usize,
    /// What the agent is doing while `thinking`. Not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// When `activity` last changed while the agent works. `None` if no change is known. Not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_at: Option<u64>,
    /// When the hub stored those pending requests that have no plausible time of their own: a JSON object by the id of the request.
    #[serde(skip)]
    pub request_times: Option<Json>,
}

impl Session {
    pub fn new(id: String, namespace: Namespace, tag: String, metadata: Option<Json>, now: u64) -> Self {
        Self {
            id,
            namespace,
            tag,
            created_at: now,
            updated_at: now,
            active_at: now,
            thinking_at: now,
            metadata: InlineOrLarge::from_inline(metadata),
            metadata_version: 1,
            agent_state_version: 1,
            ..Self::default()
        }
    }

    pub fn metadata_fields(&self) -> MetadataFields<'_> {
        MetadataFields(JsonObject::of(self.metadata.json()))
    }

    /// Returns the first of these that is not blank: name, summary, last part of the path, first eight characters of the id.
    pub fn title(&self) -> String {
        let fields = self.metadata_fields();
        let summary = || fields.0.object("summary")?.text("text");
        let folder = || fields.path()?.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().map(str::to_owned);
        let short_id = || self.id.chars().take(8).collect();
        let is_not_blank = |title: &String| !title.trim().is_empty();
        let name = fields.0.text("name").filter(is_not_blank);
        name.or_else(|| summary().filter(is_not_blank))
            .or_else(|| folder().filter(is_not_blank))
            .unwrap_or_else(short_id)
    }

    /// Returns `new`, the new metadata. If `new` has no name, adds the current name.
    pub fn metadata_keeping_name(&self, new: &Json) -> Json {
        let current = JsonObject::of(self.metadata.json());
        let mut new = JsonObject::of(Some(new));
        if let (Some(name), None) = (current.get("name"), new.get("name")) {
            new.set("name", name);
        }
        new.to_json()
    }
}

pub fn with_name(metadata: Option<&Json>, name: &str) -> Json {
    let value = Json::of(name);
    let mut object = JsonObject::of(metadata);
    object.set("name", value.raw());
    object.to_json()
}

/// Returns the metadata with the lifecycle state `running` instead of `archived`.
pub fn mark_running(metadata: Option<&Json>, now: u64) -> Json {
    let (running, since) = (Json::of("running"), Json::of(&now));
    let mut object = JsonObject::of(metadata);
    object.set("lifecycleState", running.raw());
    object.set("lifecycleStateSince", since.raw());
    object.remove("archivedBy");
    object.remove("archiveReason");
    object.to_json()
}

/// The metadata fields that the hub reads. A field of the wrong type counts as missing.
#[derive(Debug)]
pub struct MetadataFields<'a>(JsonObject<'a>);

impl MetadataFields<'_> {
    /// Returns the working directory on the machine.
    pub fn path(&self) -> Option<String> {
        self.0.text("path")
    }

    /// Returns the name of the agent: a name of the protocol, such as `alpha`, or a word of the deployment, such as `claude`.
    pub fn flavor(&self) -> Option<String> {
        self.0.text("flavor")
    }

    /// Returns the product name of the agent, unless it is blank.
    pub fn agent_name(&self) -> Option<String> {
        self.0.text("agentName").filter(|name| !name.trim().is_empty())
    }

    /// Returns the ids in `modes`: the permission modes that this session has in addition to the modes of its agent.
    pub fn own_modes(&self) -> Vec<String> {
        list_ids(self.0.get("modes"))
    }

    /// Returns the ids in `models`: the models that this session has in addition to the models of its agent.
    pub fn own_models(&self) -> Vec<String> {
        list_ids(self.0.get("models"))
    }

    pub fn is_archived(&self) -> bool {
        self.0.text("lifecycleState").as_deref() == Some("archived")
    }

    /// Whether the agent cannot be started.
    pub fn is_failed(&self) -> bool {
        self.0.text("lifecycleState").as_deref() == Some("failed")
    }

    pub fn agent_error(&self) -> Option<String> {
        self.0.text("agentError")
    }
}

/// Returns the `id` of each object in an array. Elements without an `id` are ignored.
pub(super) fn list_ids(array: Option<&RawValue>) -> Vec<String> {
    let elements: Vec<&RawValue> = array.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    elements.into_iter().filter_map(|element| JsonObject::parse(element.get())?.text("id")).collect()
}

/// Validates a session's metadata: it must be an object without duplicate names, have the strings `path` and `host`,
/// and respect [`max_field_bytes`]. Returns the metadata, in which long texts that are only displayed are truncated.
pub fn fit_metadata(metadata: &Json) -> Result<Json, FieldError> {
    let mut object = JsonObject::parse_strict("metadata", metadata.raw())?;
    for name in ["path", "host"] {
        if object.text(name).is_none() {
            return Err(FieldError::of_rule(&format!("metadata.{name}"), format_args!("must be a string")));
        }
    }
    let mut cut = Vec::new();
    for (name, value) in object.members() {
        let Some(limit) = max_field_bytes(name) else { continue };
        let fitting = match name {
            "name" | "host" | "agentName" => cut_string(value, limit),
            "summary" | "worktree" => cut_texts(value),
            _ if is_within(value, limit) => continue,
            _ => None,
        };
        let rule = format_args!("must have at most {limit} bytes");
        let too_long = || FieldError::of_rule(&format!("metadata.{name}"), rule);
        match fitting.ok_or_else(too_long)? {
            Cow::Borrowed(_) => {}
            Cow::Owned(fitting) => cut.push((name.to_owned(), fitting)),
        }
    }
    if cut.is_empty() {
        return Ok(metadata.clone());
    }
    cut.iter().for_each(|(name, value)| object.set(name, value));
    Ok(object.to_json())
}

/// Whether a value has at most `limit` bytes: as JSON text or, for a string, as decoded text.
fn is_within(value: &RawValue, limit: usize) -> bool {
    value.get().len() <= limit || unescape(value.get()).is_some_and(|string| string.len() <= limit)
}

/// Cuts a string to `limit` bytes. `None` for a longer value that is not a string.
fn cut_string(value: &RawValue, limit: usize) -> Option<Cow<'_, RawValue>> {
    if is_within(value, limit) {
        return Some(Cow::Borrowed(value));
    }
    let string = unescape(value.get())?;
    let start = string.get(..string.floor_char_boundary(limit))?;
    Some(Cow::Owned(Json::of(start).raw().to_owned()))
}

/// Cuts the texts in a `summary` or `worktree`, until the field has at most [`MAX_FIELD_JSON_BYTES`] of JSON. `None` if the
/// JSON is longer even with the shortest texts.
fn cut_texts(value: &RawValue) -> Option<Cow<'_, RawValue>> {
    [MAX_FIELD_TEXT_BYTES, MAX_FIELD_TEXT_BYTES / 4, MAX_FIELD_TEXT_BYTES / 16].into_iter().find_map(|limit| {
        let cut = cut_texts_to(value, limit)?;
        (cut.get().len() <= MAX_FIELD_JSON_BYTES).then_some(cut)
    })
}

/// Cuts a string, or the strings in an object, to `limit` bytes.
fn cut_texts_to(value: &RawValue, limit: usize) -> Option<Cow<'_, RawValue>> {
    if value.get().len() <= limit {
        return Some(Cow::Borrowed(value));
    }
    let Some(mut object) = JsonObject::parse(value.get()) else { return cut_string(value, limit) };
    let texts: Vec<(String, Box<RawValue>)> = object
        .members()
        .filter_map(|(name, member)| match cut_string(member, limit) {
            Some(Cow::Owned(text)) => Some((name.to_owned(), text)),
            _ => None,
        })
        .collect();
    if texts.is_empty() {
        return Some(Cow::Borrowed(value));
    }
    texts.iter().for_each(|(name, text)| object.set(name, text));
    Some(Cow::Owned(object.to_json().raw().to_owned()))
}

/// Returns the size limit of a metadata field that the hub reads, or shows in the list of sessions; `None` for other fields.
fn max_field_bytes(field: &str) -> Option<usize> {
    match field {
        "path" => Some(4_096),
        "host" | "machineId" | "installationId" | "agentName" => Some(255),
        "flavor" | "lifecycleState" => Some(MAX_KEYWORD_BYTES),
        "summary" | "worktree" | "modes" | "models" => Some(MAX_FIELD_JSON_BYTES),
        // 255 code points.
        "name" => Some(1_020),
        // The agent's id of the conversation, one field for each agent.
        id if id.ends_with("SessionId") => Some(1_024),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(metadata: &str) -> Session {
        let namespace = Namespace::parse("default").unwrap();
        Session::new("s1".into(), namespace, "/work".into(), Some(Json::parse(metadata).unwrap()), 1000)
    }

    #[test]
    fn the_title_is_the_first_text_that_is_not_blank() {
        for (metadata, title) in [
            (r#"{"path":"/code/demo","host":"h","name":"N","summary":{"text":"S"}}"#, "N"),
            (r#"{"path":"/code/demo","host":"h","name":" ","summary":{"text":"S"}}"#, "S"),
            (r#"{"path":"/code/demo/","host":"h","name":7,"summary":"S"}"#, "demo"),
            (r#"{"path":"C:\\code\\demo","host":"h","summary":{"text":null}}"#, "demo"),
            (r#"{"path":"/","host":"h"}"#, "s1"),
        ] {
            assert_eq!(session(metadata).title(), title, "{metadata}");
        }
    }

    /// Fits metadata with this field. `Ok`: the value that the field then has. `Err`: the name of the refused field.
    fn fit_field(name: &str, value: &serde_json::Value) -> Result<serde_json::Value, String> {
        let mut metadata = serde_json::json!({"path": "/w", "host": "h"});
        metadata[name] = value.clone();
        let fitted = fit_metadata(&Json::of(&metadata)).map_err(|error| error.field)?;
        Ok(fitted.read::<serde_json::Value>().unwrap()[name].clone())
    }

    #[test]
    fn the_fields_that_the_hub_reads_have_a_size_limit() {
        let limits =
            [("path", 4_096), ("machineId", 255), ("flavor", 255), ("lifecycleState", 255), ("alphaSessionId", 1_024)];
        for (name, limit) in limits {
            for longest in ["x".repeat(limit), "\n".repeat(limit)] {
                assert_eq!(fit_field(name, &longest.clone().into()), Ok(longest.into()), "{name}");
            }
            assert_eq!(fit_field(name, &"x".repeat(limit + 1).into()), Err(format!("metadata.{name}")));
        }
        let other = serde_json::json!(["x".repeat(200_000)]);
        assert_eq!(fit_field("tools", &other), Ok(other.clone()), "the hub does not read `tools`");
    }

    #[test]
    fn texts_that_are_only_displayed_are_truncated() {
        for (name, limit) in [("name", 1_020), ("host", 255), ("agentName", 255), ("summary", 65_536)] {
            let longest = format!("\n{}", "x".repeat(limit - 1));
            assert_eq!(fit_field(name, &longest.clone().into()), Ok(longest.into()), "{name}");
            let cut = fit_field(name, &"é".repeat(limit).into()).unwrap();
            assert_eq!(cut.as_str().unwrap(), "é".repeat(limit / 2), "{name}");
        }
        for name in ["summary", "worktree"] {
            let value = |text: String| serde_json::json!({"text": text, "updatedAt": 5, "name": "n"});
            assert_eq!(fit_field(name, &value("x".repeat(65_536))), Ok(value("x".repeat(65_536))));
            assert_eq!(fit_field(name, &value("x".repeat(65_537))), Ok(value("x".repeat(65_536))));
            assert_eq!(fit_field(name, &value("\u{1}".repeat(65_536))), Ok(value("\u{1}".repeat(16_384))));
            let list = serde_json::json!({"text": "x", "list": vec!["x".repeat(1_000); 200]});
            assert_eq!(fit_field(name, &list), Err(format!("metadata.{name}")));
        }
        assert_eq!(fit_field("name", &serde_json::json!(["x".repeat(2_000)])), Err("metadata.name".into()));
        for name in ["modes", "models"] {
            let list = |length| serde_json::json!([{"id": "x".repeat(length)}]);
            assert_eq!(fit_field(name, &list(100_000)), Ok(list(100_000)));
            assert_eq!(fit_field(name, &list(200_000)), Err(format!("metadata.{name}")));
        }
    }
}
