//! Values larger than a row. What the hub itself reads of one, its head, stands in the value's place, in memory as in the
//! row; the whole is kept in parts and read when somebody asks for it.

use std::fmt;

use super::json::{Json, JsonObject};

/// Where the whole of a large value is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Large {
    /// The version of the value. A hub that knows no large values may have set another one over it.
    pub version: u64,
    /// How many parts it has.
    pub parts: usize,
    /// How many bytes it has as JSON text.
    pub bytes: usize,
    /// What sets its parts apart from those of any other value, ever: one that came late can't be taken for it.
    pub id: String,
}

impl Large {
    /// Reads the name under which the parts of a value are kept; none when they are not those of this version.
    pub fn named(name: &str, version: u64) -> Option<Self> {
        let mut fields = name.splitn(4, '/');
        let of = fields.next()?.parse().ok().filter(|of| *of == version)?;
        let (parts, bytes) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { version: of, parts, bytes, id: fields.next()?.to_owned() })
    }
}

/// The name under which its parts are kept.
impl fmt::Display for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.version, self.parts, self.bytes, self.id)
    }
}

/// A versioned value of a session or machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// What a session is.
    Metadata,
    /// What its agent is at.
    AgentState,
    /// What a machine is.
    MachineMetadata,
    /// What its runner is at.
    RunnerState,
}

/// The largest metadata that stands in its row, in bytes. With all else the row fits D1 (2 MB).
pub const MAX_METADATA_IN_ROW: usize = 600_000;
/// The largest state that stands in its row, in bytes; no value that does is larger.
pub const MAX_IN_ROW: usize = 1_000_000;
/// How many ids of an agent's conversation a head may have: one for each of the words that stand for the agent.
const MAX_AGENT_IDS: usize = 50;
/// The longest host of a machine, as JSON text, that a head has: that of a session has 255 bytes.
const MAX_HOST_IN_HEAD: usize = 2_000;
/// The longest id of a request, as JSON text, that a head has: [so many](super::agent_state::MAX_PENDING) fit a row.
const MAX_ID_IN_HEAD: usize = 600;
/// The longest name of a tool, as JSON text, that a head has.
const MAX_TOOL_IN_HEAD: usize = 200;

impl Field {
    /// How many bytes of a value its row holds at most.
    pub fn in_row(self) -> usize {
        match self {
            Self::Metadata | Self::MachineMetadata => MAX_METADATA_IN_ROW,
            Self::AgentState | Self::RunnerState => MAX_IN_ROW,
        }
    }

    /// Whether a value is larger than what its row holds.
    pub fn is_large(self, value: &Json) -> bool {
        value.text().len() > self.in_row()
    }

    /// What the hub reads of a value.
    pub fn head(self, value: &Json) -> Json {
        let whole = JsonObject::parse(value.text()).unwrap_or_default();
        match self {
            Self::Metadata => metadata_head(&whole),
            Self::AgentState => requests_head(&whole),
            Self::MachineMetadata => members(&whole, |name, raw| name == "host" && raw.len() <= MAX_HOST_IN_HEAD),
            Self::RunnerState => JsonObject::default().to_json(),
        }
    }
}

fn members(whole: &JsonObject<'_>, mut wanted: impl FnMut(&str, &str) -> bool) -> Json {
    let mut head = JsonObject::default();
    for (name, value) in whole.members().filter(|(name, value)| wanted(name, value.get())) {
        head.push(name, value);
    }
    head.to_json()
}

/// The fields that are listed or acted upon. Each of them has a length to bear ([`check_metadata`](super::session)).
fn metadata_head(whole: &JsonObject<'_>) -> Json {
    let mut ids = 0;
    members(whole, |name, _| match name {
        "path" | "host" | "machineId" | "name" | "summary" | "flavor" | "worktree" | "lifecycleState" => true,
        id if id.ends_with("SessionId") => {
            ids += 1;
            ids <= MAX_AGENT_IDS
        }
        _ => false,
    })
}

fn tool_of(request: &str) -> Json {
    let request = JsonObject::parse(request).unwrap_or_default();
    members(&request, |name, tool| name == "tool" && tool.len() <= MAX_TOOL_IN_HEAD)
}

/// Which requests wait and for which tool; of one whose id takes much room only that it does.
fn requests_head(whole: &JsonObject<'_>) -> Json {
    let waiting = whole.get("requests").and_then(|requests| JsonObject::parse(requests.get())).unwrap_or_default();
    let tools: Vec<Json> = waiting.members().map(|(_, request)| tool_of(request.get())).collect();
    let mut requests = JsonObject::default();
    for (number, ((id, _), tool)) in waiting.members().zip(&tools).enumerate() {
        match Json::of(id).text().len() {
            length if length <= MAX_ID_IN_HEAD => requests.push(id, tool.raw()),
            _ => requests.push(&format!("#{number}"), tool.raw()),
        }
    }
    let requests = requests.to_json();
    let mut head = JsonObject::default();
    head.push("requests", requests.raw());
    head.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(field: Field, text: &str) -> String {
        field.head(&Json::parse(text).unwrap()).text().to_owned()
    }

    #[test]
    fn the_name_of_the_parts_is_read_again_for_the_version_that_they_are_of() {
        let large = Large { version: 7, parts: 3, bytes: 4_000_000, id: "a/b".into() };
        assert_eq!(large.to_string(), "7/3/4000000/a/b");
        assert_eq!(Large::named(&large.to_string(), 7), Some(large.clone()));
        assert_eq!(Large::named(&large.to_string(), 8), None, "somebody set another value over it");
        for odd in ["", "7", "7/3", "7/3/x/a", "x/3/4/a"] {
            assert_eq!(Large::named(odd, 7), None, "{odd}");
        }
    }

    #[test]
    fn the_head_of_metadata_has_what_is_listed_and_what_a_resume_needs() {
        let metadata =
            r#"{"z":"x","path":"/w","host":"h","alphaSessionId":"a","summary":{"text":"s"},"tools":["t"],"name":"n"}"#;
        let listed = r#"{"path":"/w","host":"h","alphaSessionId":"a","summary":{"text":"s"},"name":"n"}"#;
        assert_eq!(head(Field::Metadata, metadata), listed);
        let ids: Vec<String> = (0..1_000).map(|n| format!(r#""{n}SessionId":"i""#)).collect();
        let many = head(Field::Metadata, &format!("{{{},\"path\":\"/w\"}}", ids.join(",")));
        assert_eq!((many.matches("SessionId").count(), many.contains("path")), (MAX_AGENT_IDS, true));
    }

    #[test]
    fn the_head_of_a_state_has_the_requests_that_wait_however_their_ids_are_written() {
        assert_eq!(
            head(Field::AgentState, r#"{"x":1,"requests":{"a":{"tool":"T","arguments":{}},"b":{}}}"#),
            r#"{"requests":{"a":{"tool":"T"},"b":{}}}"#
        );
        for none in ["{}", r#"{"requests":null}"#, r#"{"requests":{}}"#] {
            assert_eq!(head(Field::AgentState, none), r#"{"requests":{}}"#);
        }
        let id = |n: usize| format!("{n}{}", "\\u0001".repeat(250));
        let tool = "t".repeat(MAX_TOOL_IN_HEAD - 2);
        let ids: Vec<String> = (0..1_000).map(|n| format!(r#""{}":{{"tool":"{tool}"}}"#, id(n))).collect();
        let many = head(Field::AgentState, &format!(r#"{{"requests":{{{}}}}}"#, ids.join(",")));
        assert!(many.len() < MAX_IN_ROW, "{}", many.len());
        assert_eq!(super::super::agent_state::pending(Some(&Json::parse(&many).unwrap())), 1_000);
    }

    #[test]
    fn the_head_of_a_machine_has_its_host_and_that_of_a_runner_nothing() {
        assert_eq!(head(Field::MachineMetadata, r#"{"x":1,"host":"h"}"#), r#"{"host":"h"}"#);
        let long = format!(r#"{{"host":"{}"}}"#, "h".repeat(10_000));
        assert_eq!(head(Field::MachineMetadata, &long), "{}");
        assert_eq!([head(Field::RunnerState, "[1]"), head(Field::RunnerState, r#"{"a":1}"#)], ["{}", "{}"]);
    }
}
