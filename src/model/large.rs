//! Values that are too large for a database row.
//!
//! A D1 row has at most 2 MB. A larger value is split into parts, which are rows of another table. Memory, and the row of the
//! session or machine, hold only an excerpt of the value: the fields that the hub itself reads.

use std::fmt;

use serde::{Serialize, Serializer};

use super::json::{Json, JsonObject};
use crate::limits::{MAX_INLINE_BYTES, MAX_ROW_BYTES, MAX_TODOS_BYTES};

/// The largest metadata that is not a large value, in bytes. The row also has a state: together less than 2 MB.
pub const MAX_INLINE_METADATA_BYTES: usize = 600_000;
const _: () = assert!(MAX_INLINE_METADATA_BYTES + MAX_INLINE_BYTES + MAX_TODOS_BYTES < MAX_ROW_BYTES);

/// The largest number of `…SessionId` fields in an excerpt. A CLI writes one field for each name of its agent.
const MAX_EXCERPT_AGENT_IDS: usize = 50;
/// The largest `host` of a machine in an excerpt, in bytes of JSON.
const MAX_EXCERPT_HOST_BYTES: usize = 2_000;
/// The largest request id in an excerpt, in bytes of JSON. A row has space for
/// [`MAX_PENDING_REQUESTS`](crate::limits::MAX_PENDING_REQUESTS) ids of this size.
const MAX_EXCERPT_ID_BYTES: usize = 600;
/// The largest name of a tool in an excerpt, in bytes of JSON.
const MAX_EXCERPT_TOOL_BYTES: usize = 200;
/// The largest `createdAt` of a request in an excerpt, in bytes of JSON.
const MAX_EXCERPT_TIME_BYTES: usize = 20;
/// The largest error of an agent in an excerpt, in bytes of JSON.
const MAX_EXCERPT_ERROR_BYTES: usize = 4_000;

/// A reference to the parts of a large value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeRef {
    pub version: u64,
    pub parts: usize,
    /// The size of the value as JSON text.
    pub bytes: usize,
    /// Unique, so that a delayed write of another value can't be mistaken for a part of this value.
    pub id: String,
}

impl LargeRef {
    /// Parses the text that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(4, '/');
        let mut number = || fields.next()?.parse().ok();
        let (version, parts, bytes) = (number()?, number()?, number()?);
        let (parts, bytes) = (usize::try_from(parts).ok()?, usize::try_from(bytes).ok()?);
        Some(Self { version, parts, bytes, id: fields.next()?.to_owned() })
    }
}

impl fmt::Display for LargeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.version, self.parts, self.bytes, self.id)
    }
}

/// The value of a [`VersionedField`] in memory: the whole value, or an excerpt of a large value. Serialized as [`json`](Self::json).
#[derive(Debug, Clone, Default, PartialEq)]
pub enum InlineOrLarge {
    #[default]
    Null,
    Inline(Json),
    Large {
        excerpt: Json,
        large: LargeRef,
    },
}

impl InlineOrLarge {
    /// Creates a value that is not large; `None` is null.
    pub fn from_inline(value: Option<Json>) -> Self {
        Self::new(value, None)
    }

    /// Creates a value from two columns of a row: the whole value, or with `large` the excerpt of a large value.
    pub fn new(value: Option<Json>, large: Option<LargeRef>) -> Self {
        match (value, large) {
            (Some(excerpt), Some(large)) => Self::Large { excerpt, large },
            (Some(value), None) => Self::Inline(value),
            (None, _) => Self::Null,
        }
    }

    /// Returns the value, or the excerpt of a large value; `None` for null.
    pub fn json(&self) -> Option<&Json> {
        match self {
            Self::Null => None,
            Self::Inline(json) | Self::Large { excerpt: json, .. } => Some(json),
        }
    }

    /// Returns the value unless it is large.
    pub fn inline(&self) -> Option<&Json> {
        self.json().filter(|_| self.large().is_none())
    }

    pub fn large(&self) -> Option<&LargeRef> {
        match self {
            Self::Large { large, .. } => Some(large),
            Self::Null | Self::Inline(_) => None,
        }
    }
}

impl Serialize for InlineOrLarge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// A versioned value of a session or machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionedField {
    Metadata,
    AgentState,
    MachineMetadata,
    RunnerState,
}

impl VersionedField {
    /// Returns the name of the JSON member.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata | Self::MachineMetadata => "metadata",
            Self::AgentState => "agentState",
            Self::RunnerState => "runnerState",
        }
    }

    /// Returns the size, in bytes, up to which the row of the session or machine contains the whole value.
    pub fn max_inline_bytes(self) -> usize {
        match self {
            Self::Metadata | Self::MachineMetadata => MAX_INLINE_METADATA_BYTES,
            Self::AgentState | Self::RunnerState => MAX_INLINE_BYTES,
        }
    }

    pub fn is_large(self, value: &Json) -> bool {
        value.text().len() > self.max_inline_bytes()
    }

    /// Returns the excerpt of a value: only the fields that the hub reads.
    pub fn excerpt(self, value: &Json) -> Json {
        let value = JsonObject::of(Some(value));
        match self {
            Self::Metadata => excerpt_metadata(&value),
            Self::AgentState => excerpt_requests(&value),
            Self::MachineMetadata => filter_members(&value, |name, raw| {
                matches!(name, "host" | "installationId") && raw.len() <= MAX_EXCERPT_HOST_BYTES
            }),
            Self::RunnerState => JsonObject::default().to_json(),
        }
    }
}

fn filter_members(object: &JsonObject<'_>, mut predicate: impl FnMut(&str, &str) -> bool) -> Json {
    object.members().filter(|(name, value)| predicate(name, value.get())).collect::<JsonObject<'_>>().to_json()
}

/// Returns the fields that the hub reads: for the session list, to resume a session, and to change its mode.
/// [`fit_metadata`](super::session::fit_metadata) limits the size of each field.
fn excerpt_metadata(metadata: &JsonObject<'_>) -> Json {
    let mut ids = 0;
    filter_members(metadata, |name, value| match name {
        "path" | "host" | "machineId" | "installationId" | "name" | "summary" | "flavor" | "agentName" | "worktree"
        | "lifecycleState" | "modes" | "models" => true,
        "agentError" => value.len() <= MAX_EXCERPT_ERROR_BYTES,
        id if id.ends_with("SessionId") => {
            ids += 1;
            ids <= MAX_EXCERPT_AGENT_IDS
        }
        _ => false,
    })
}

/// Returns the tool and the time of a request, and the size of its arguments.
pub(super) fn excerpt_request(request: &str) -> Json {
    let request = JsonObject::parse(request).unwrap_or_default();
    let small = |name, limit| request.get(name).filter(|value| value.get().len() <= limit).map(Json::from);
    Json::object_of_some(&[
        ("tool", small("tool", MAX_EXCERPT_TOOL_BYTES)),
        ("createdAt", small("createdAt", MAX_EXCERPT_TIME_BYTES)),
        ("argumentsBytes", request.get("arguments").map(|arguments| Json::of(&arguments.get().len()))),
    ])
}

/// Returns the ids of the pending requests, with an excerpt of each. A long id is replaced by a number, so that no request is missing.
fn excerpt_requests(state: &JsonObject<'_>) -> Json {
    let pending = state.object("requests").unwrap_or_default();
    let excerpts: Vec<Json> = pending.members().map(|(_, request)| excerpt_request(request.get())).collect();
    let mut requests = JsonObject::default();
    for (number, ((id, _), excerpt)) in pending.members().zip(&excerpts).enumerate() {
        match Json::of(id).text().len() {
            length if length <= MAX_EXCERPT_ID_BYTES => requests.push(id, excerpt.raw()),
            _ => requests.push(&format!("#{number}"), excerpt.raw()),
        }
    }
    Json::object(&[("requests", requests.to_json())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(field: VersionedField, text: &str) -> String {
        field.excerpt(&Json::parse(text).unwrap()).text().to_owned()
    }

    #[test]
    fn a_reference_is_parsed_from_its_text_but_not_from_a_malformed_text() {
        let large = LargeRef { version: 7, parts: 3, bytes: 4_000_000, id: "a/b".into() };
        assert_eq!(large.to_string(), "7/3/4000000/a/b");
        assert_eq!(LargeRef::parse(&large.to_string()), Some(large));
        for malformed in ["", "7", "7/3", "7/3/x/a", "x/3/4/a"] {
            assert_eq!(LargeRef::parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn the_excerpt_of_metadata_has_only_the_fields_that_the_hub_reads() {
        let metadata = r#"{"z":"x","path":"/w","host":"h","alphaSessionId":"a","summary":{"text":"s"},"tools":["t"],"name":"n","agentName":"Zeta"}"#;
        let listed =
            r#"{"path":"/w","host":"h","alphaSessionId":"a","summary":{"text":"s"},"name":"n","agentName":"Zeta"}"#;
        assert_eq!(excerpt(VersionedField::Metadata, metadata), listed);
        let ids: Vec<String> = (0..1_000).map(|n| format!(r#""{n}SessionId":"i""#)).collect();
        let many = excerpt(VersionedField::Metadata, &format!("{{{},\"path\":\"/w\"}}", ids.join(",")));
        assert_eq!((many.matches("SessionId").count(), many.contains("path")), (MAX_EXCERPT_AGENT_IDS, true));
    }

    #[test]
    fn the_excerpt_of_a_state_has_all_pending_requests_even_if_their_ids_are_long() {
        assert_eq!(
            excerpt(
                VersionedField::AgentState,
                r#"{"x":1,"requests":{"a":{"tool":"T","arguments":{},"createdAt":7},"b":{}}}"#
            ),
            r#"{"requests":{"a":{"tool":"T","createdAt":7,"argumentsBytes":2},"b":{}}}"#
        );
        for none in ["{}", r#"{"requests":null}"#, r#"{"requests":{}}"#] {
            assert_eq!(excerpt(VersionedField::AgentState, none), r#"{"requests":{}}"#);
        }
        let id = |n: usize| format!("{n}{}", "\\u0001".repeat(250));
        let tool = "t".repeat(MAX_EXCERPT_TOOL_BYTES - 2);
        let ids: Vec<String> = (0..1_000)
            .map(|n| format!(r#""{}":{{"tool":"{tool}","arguments":8,"createdAt":12345678901234567890}}"#, id(n)))
            .collect();
        let many = excerpt(VersionedField::AgentState, &format!(r#"{{"requests":{{{}}}}}"#, ids.join(",")));
        assert!(many.len() < MAX_INLINE_BYTES, "{}", many.len());
        assert_eq!(super::super::agent_state::count_pending(Some(&Json::parse(&many).unwrap())), 1_000);
    }
}
