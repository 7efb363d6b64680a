//! A session: one conversation with an agent, and the rules on its fields (PROTOCOL.md "The session").

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::EnumString;

use super::json::{Flaw, Json, JsonObject};
use super::large::Large;
use super::namespace::Namespace;

/// Who is in control: the terminal (`local`, the web is read-only) or the web (`remote`). Spec "Control mode".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ControlMode {
    /// The terminal.
    Local,
    /// The web.
    Remote,
}

/// A session as `GET /api/sessions/:id` shows it. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The id, a UUID v7.
    pub id: String,
    /// Whose it is.
    pub namespace: Namespace,
    /// The CLI's own name of it, by which it finds the session again.
    pub tag: String,
    /// The highest message seq; 0 before the first message.
    pub seq: u64,
    /// When it was made.
    pub created_at: u64,
    /// When it last changed.
    pub updated_at: u64,
    /// The last sign of life.
    pub active_at: u64,
    /// When `thinking` was last told.
    pub thinking_at: u64,
    /// Whether its CLI is there: a sign of life came in the last 30 s.
    pub active: bool,
    /// Whether its agent is at work.
    pub thinking: bool,
    /// Who is in control; `None` until a CLI says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ControlMode>,
    /// What the CLI says of it ("Sessions" in PROTOCOL.md); of a large value only its head.
    pub metadata: Option<Json>,
    /// Where the whole of a large one is.
    #[serde(skip)]
    pub metadata_large: Option<Large>,
    /// The version of the metadata, from 1 on.
    pub metadata_version: u64,
    /// Without `completedRequests`, which are kept apart (see [`agent_state`]); of a large one only its head.
    pub agent_state: Option<Json>,
    /// Where the whole of a large one is.
    #[serde(skip)]
    pub agent_state_large: Option<Large>,
    /// The version of the agent state, from 1 on.
    pub agent_state_version: u64,
    /// The todo list of the newest message that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<Json>,
    /// The permission mode of its agent; `None` until one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The model of its agent; `None` until one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_mode: Option<String>,
}

impl Session {
    /// A session that was just asked for by its tag.
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

    /// The metadata fields that the hub itself reads.
    pub fn facts(&self) -> Facts<'_> {
        self.metadata.as_ref().and_then(Json::read).unwrap_or_default()
    }

    /// What a person calls the session: its name, else its summary, else the last part of its path, else how its id begins.
    pub fn title(&self) -> String {
        let facts = self.facts();
        let summary = || serde_json::from_str::<Summary>(facts.summary?.get()).ok()?.text;
        let folder = || facts.path()?.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().map(str::to_owned);
        let id = || self.id.chars().take(8).collect();
        let says = |title: &String| !title.trim().is_empty();
        let title = text(facts.name).filter(says);
        title.or_else(|| summary().filter(says)).or_else(|| folder().filter(says)).unwrap_or_else(id)
    }

    /// Metadata that a CLI gives when it takes the session up again: with the name that the session had, unless it
    /// brings one.
    pub fn metadata_for_new_life(&self, given: &Json) -> Json {
        let old = self.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
        let mut new = JsonObject::parse(given.text()).unwrap_or_default();
        if let (Some(name), None) = (old.get("name"), new.get("name")) {
            new.set("name", name);
        }
        new.to_json()
    }
}

/// The metadata with another `name`, all the rest as its author wrote it.
pub fn renamed(metadata: Option<&Json>, name: &str) -> Json {
    let value = Json::of(name);
    let mut object = metadata.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    object.set("name", value.raw());
    object.to_json()
}

/// The metadata of a session that was archived and is in use again.
pub fn in_use(metadata: Option<&Json>, now: u64) -> Json {
    let (running, since) = (Json::of("running"), Json::of(&now));
    let mut object = metadata.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    object.set("lifecycleState", running.raw());
    object.set("lifecycleStateSince", since.raw());
    object.remove("archivedBy");
    object.remove("archiveReason");
    object.to_json()
}

/// The metadata fields that the hub acts upon; a missing or ill-typed field reads as `None`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts<'a> {
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

/// What stands in `summary`.
#[derive(Deserialize)]
struct Summary {
    text: Option<String>,
}

impl Facts<'_> {
    /// The session's working directory on its machine.
    pub fn path(&self) -> Option<String> {
        text(self.path)
    }

    /// The agent kind.
    pub fn flavor(&self) -> Option<String> {
        text(self.flavor)
    }

    /// Whether the session was archived.
    pub fn archived(&self) -> bool {
        text(self.lifecycle_state).as_deref() == Some("archived")
    }
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// Checks what the hub relies on in a session's metadata: an object with the texts `path` and `host`, whose fields have
/// names of their own, and those that the hub reads or lists a length to bear.
pub fn check_metadata(metadata: &Json) -> Result<(), Flaw> {
    let object = JsonObject::checked("metadata", metadata.raw())?;
    for name in ["path", "host"] {
        if text(object.get(name)).is_none() {
            return Err(Flaw::new(format!("metadata.{name}"), "must be a text"));
        }
    }
    for (name, value) in object.members() {
        // A text may be written with escapes, which are not its length.
        let is_longer = |limit| value.get().len() > limit && text(Some(value)).is_none_or(|text| text.len() > limit);
        if let Some(limit) = longest(name).filter(|limit| is_longer(*limit)) {
            return Err(Flaw::new(format!("metadata.{name}"), format!("must have at most {limit} bytes")));
        }
    }
    Ok(())
}

/// How many bytes a field of the metadata may have that the hub reads or lists; any number for the others.
fn longest(field: &str) -> Option<usize> {
    match field {
        "path" => Some(4_096),
        "host" | "machineId" => Some(255),
        "flavor" | "lifecycleState" => Some(64),
        "summary" | "worktree" => Some(16_384),
        // 255 code points.
        "name" => Some(1_020),
        // The agent's own id of the conversation, by the agent's kind.
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
    fn a_session_is_called_by_the_first_of_name_summary_folder_and_id_that_says_something() {
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
    fn renaming_keeps_every_other_field() {
        let s = session(r#"{"path":"/w","host":"h","x":1.50}"#);
        assert_eq!(
            renamed(s.metadata.as_ref(), "new \"name\"").text(),
            r#"{"path":"/w","host":"h","x":1.50,"name":"new \"name\""}"#
        );
    }

    #[test]
    fn metadata_must_name_its_path_and_host() {
        let field = |text: &str| check_metadata(&Json::parse(text).unwrap()).map_err(|flaw| flaw.field);
        assert_eq!(field(r#"{"path":"/w","host":"h"}"#), Ok(()));
        assert_eq!(field(r#"{"path":1,"host":"h"}"#), Err("metadata.path".into()));
        assert_eq!(field(r#"{"path":"\ud800","host":"h"}"#), Err("metadata.path".into()));
        assert_eq!(field(r#"{"path":"/w"}"#), Err("metadata.host".into()));
        assert_eq!(field("[]"), Err("metadata".into()));
        assert_eq!(field(r#"{"path":"/w","host":"h","\ud800":1}"#), Err("metadata".into()));
        assert_eq!(field(r#"{"path":"/w","host":"h","name":"a","name":"b"}"#), Err("metadata.name".into()));
    }

    #[test]
    fn what_the_hub_reads_of_the_metadata_has_a_length_to_bear() {
        let with = |name: &str, value: &str| {
            let mut metadata = serde_json::json!({"path": "/w", "host": "h"});
            metadata[name] = serde_json::from_str(value).unwrap();
            check_metadata(&Json::of(&metadata)).map_err(|flaw| flaw.field)
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
