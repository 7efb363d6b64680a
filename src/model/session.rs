//! Sessions: conversations with an agent, and the rules on their metadata (PROTOCOL.md "The session").

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::EnumString;

use super::json::{InvalidField, Json, JsonObject};
use super::large::LargeRef;
use super::namespace::Namespace;

/// Where a session is controlled from (specification, "Control mode").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ControlMode {
    /// The terminal; the web is read-only.
    Local,
    /// The web.
    Remote,
}

/// A session as `GET /api/sessions/:id` returns it. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// The time of the last keep-alive that set `thinking`.
    pub thinking_at: u64,
    /// Whether the last keep-alive is at most 30 s old.
    pub active: bool,
    /// Whether the agent is working.
    pub thinking: bool,
    /// `None` until a CLI reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ControlMode>,
    /// Written by the CLI; only the excerpt of a large value.
    pub metadata: Option<Json>,
    #[serde(skip)]
    pub metadata_large: Option<LargeRef>,
    /// Starts at 1.
    pub metadata_version: u64,
    /// The state without its completed requests; only the excerpt of a large value.
    pub agent_state: Option<Json>,
    #[serde(skip)]
    pub agent_state_large: Option<LargeRef>,
    /// Starts at 1.
    pub agent_state_version: u64,
    /// The list in the newest message that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<String>,
}

impl Session {
    pub fn new(id: String, namespace: Namespace, tag: String, metadata: Option<Json>, now: u64) -> Self {
        Self {
            id,
            namespace,
            tag,
            seq: 0,
            created_at: now,
            updated_at: now,
            active_at: now,
            thinking_at: now,
            active: false,
            thinking: false,
            mode: None,
            metadata,
            metadata_large: None,
            metadata_version: 1,
            agent_state: None,
            agent_state_large: None,
            agent_state_version: 1,
            todos: None,
            permission_mode: None,
            model_mode: None,
        }
    }

    pub fn metadata_fields(&self) -> MetadataFields<'_> {
        self.metadata.as_ref().and_then(Json::read).unwrap_or_default()
    }

    /// Returns the first that is not blank: the name, the summary, the last part of the path, the first eight characters of
    /// the id.
    pub fn title(&self) -> String {
        let fields = self.metadata_fields();
        let summary = || serde_json::from_str::<MetadataSummary>(fields.summary?.get()).ok()?.text;
        let folder = || fields.path()?.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().map(str::to_owned);
        let short_id = || self.id.chars().take(8).collect();
        let is_not_blank = |title: &String| !title.trim().is_empty();
        let name = parse_string(fields.name).filter(is_not_blank);
        name.or_else(|| summary().filter(is_not_blank))
            .or_else(|| folder().filter(is_not_blank))
            .unwrap_or_else(short_id)
    }

    /// Returns the new metadata with the current name, unless the new metadata has a name.
    pub fn metadata_keeping_name(&self, new: &Json) -> Json {
        let current = self.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
        let mut new = JsonObject::parse(new.text()).unwrap_or_default();
        if let (Some(name), None) = (current.get("name"), new.get("name")) {
            new.set("name", name);
        }
        new.to_json()
    }
}

/// Returns the metadata with another `name`.
pub fn with_name(metadata: Option<&Json>, name: &str) -> Json {
    let value = Json::of(name);
    let mut object = metadata.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    object.set("name", value.raw());
    object.to_json()
}

/// Returns the metadata with the lifecycle state `running` instead of `archived`.
pub fn mark_running(metadata: Option<&Json>, now: u64) -> Json {
    let (running, since) = (Json::of("running"), Json::of(&now));
    let mut object = metadata.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    object.set("lifecycleState", running.raw());
    object.set("lifecycleStateSince", since.raw());
    object.remove("archivedBy");
    object.remove("archiveReason");
    object.to_json()
}

/// The metadata fields that the hub reads. A field of the wrong type counts as missing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataFields<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    path: Option<&'a RawValue>,
    #[serde(borrow)]
    flavor: Option<&'a RawValue>,
    #[serde(borrow)]
    lifecycle_state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MetadataSummary {
    text: Option<String>,
}

impl MetadataFields<'_> {
    /// The working directory on the machine.
    pub fn path(&self) -> Option<String> {
        parse_string(self.path)
    }

    pub fn flavor(&self) -> Option<String> {
        parse_string(self.flavor)
    }

    pub fn is_archived(&self) -> bool {
        parse_string(self.lifecycle_state).as_deref() == Some("archived")
    }
}

fn parse_string(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// Validates a session's metadata: it must be an object without duplicate names, have the strings `path` and `host`, and
/// respect [`max_field_bytes`].
pub fn check_metadata(metadata: &Json) -> Result<(), InvalidField> {
    let object = JsonObject::parse_strict("metadata", metadata.raw())?;
    for name in ["path", "host"] {
        if parse_string(object.get(name)).is_none() {
            return Err(InvalidField::new(format!("metadata.{name}"), "must be a string"));
        }
    }
    for (name, value) in object.members() {
        // The limit is for the decoded string: escapes make the JSON longer.
        let exceeds =
            |limit| value.get().len() > limit && parse_string(Some(value)).is_none_or(|string| string.len() > limit);
        if let Some(limit) = max_field_bytes(name).filter(|limit| exceeds(*limit)) {
            return Err(InvalidField::new(format!("metadata.{name}"), format!("must have at most {limit} bytes")));
        }
    }
    Ok(())
}

/// The size limit of a metadata field that the hub reads or lists; `None` for other fields.
fn max_field_bytes(field: &str) -> Option<usize> {
    match field {
        "path" => Some(4_096),
        "host" | "machineId" => Some(255),
        "flavor" | "lifecycleState" => Some(64),
        "summary" | "worktree" => Some(16_384),
        // 255 code points.
        "name" => Some(1_020),
        // The agent's id of the conversation, one field for each agent kind.
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
    fn the_title_is_the_first_of_name_summary_folder_and_id_that_is_not_blank() {
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

    #[test]
    fn renaming_preserves_the_other_fields() {
        let s = session(r#"{"path":"/w","host":"h","x":1.50}"#);
        assert_eq!(
            with_name(s.metadata.as_ref(), "new \"name\"").text(),
            r#"{"path":"/w","host":"h","x":1.50,"name":"new \"name\""}"#
        );
    }

    #[test]
    fn metadata_must_have_a_path_and_a_host() {
        let field = |text: &str| check_metadata(&Json::parse(text).unwrap()).map_err(|error| error.field);
        assert_eq!(field(r#"{"path":"/w","host":"h"}"#), Ok(()));
        assert_eq!(field(r#"{"path":1,"host":"h"}"#), Err("metadata.path".into()));
        assert_eq!(field(r#"{"path":"\ud800","host":"h"}"#), Err("metadata.path".into()));
        assert_eq!(field(r#"{"path":"/w"}"#), Err("metadata.host".into()));
        assert_eq!(field("[]"), Err("metadata".into()));
        assert_eq!(field(r#"{"path":"/w","host":"h","\ud800":1}"#), Err("metadata".into()));
        assert_eq!(field(r#"{"path":"/w","host":"h","name":"a","name":"b"}"#), Err("metadata.name".into()));
    }

    #[test]
    fn the_fields_that_the_hub_reads_have_a_size_limit() {
        let with = |name: &str, value: &str| {
            let mut metadata = serde_json::json!({"path": "/w", "host": "h"});
            metadata[name] = serde_json::from_str(value).unwrap();
            check_metadata(&Json::of(&metadata)).map_err(|error| error.field)
        };
        let limits = [
            ("path", 4_096),
            ("host", 255),
            ("machineId", 255),
            ("name", 1_020),
            ("flavor", 64),
            ("lifecycleState", 64),
            ("alphaSessionId", 1_024),
        ];
        for (name, limit) in limits {
            assert_eq!(with(name, &format!("\"{}\"", "x".repeat(limit))), Ok(()), "{name}");
            assert_eq!(with(name, &format!("\"{}\"", r"\n".repeat(limit))), Ok(()), "{name}");
            assert_eq!(with(name, &format!("\"{}\"", "x".repeat(limit + 1))), Err(format!("metadata.{name}")));
        }
        for name in ["summary", "worktree"] {
            assert_eq!(with(name, &format!(r#"{{"text":"{}"}}"#, "x".repeat(16_000))), Ok(()));
            assert_eq!(with(name, &format!(r#"{{"text":"{}"}}"#, "x".repeat(16_384))), Err(format!("metadata.{name}")));
        }
        assert_eq!(with("tools", &format!("[\"{}\"]", "x".repeat(100_000))), Ok(()), "the hub does not read it");
    }
}
