//! Rows on their way into the database: many of them as one JSON parameter, large texts as parameters of their own.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Statement, Value, sql};
use crate::model::completed_request::CompletedRequest;
use crate::model::json::Json;
use crate::model::large::LargeRef;
use crate::model::machine::Machine;
use crate::model::message::Message;
use crate::model::namespace::Namespace;
use crate::model::session::{ControlMode, Session};

/// The largest JSON parameter with several rows, in bytes: half of D1's 2 MB a value, so that one more row always fits.
const MAX_PARAM_BYTES: usize = 1_000_000;

/// A row with more text than this is bound alone, in bytes: inside JSON a text can double its size by escaping.
const LARGE_ROW_BYTES: usize = 250_000;

/// The largest message content, metadata, agent state without its completed requests, and runner state, in bytes: what
/// fits a CLI's frame (32 MiB) with room for the event around it. What does not fit a row is kept in parts.
pub const MAX_CONTENT_BYTES: usize = 30 * 1024 * 1024;

/// How much of a large text one row holds, in bytes: within D1's 2 MB a row, also with the rest of the message
/// around it when it is read.
pub const PART_BYTES: usize = 1_500_000;

/// How many parts are written or read at once: each is in memory several times over while it crosses the border, and a
/// message of the largest size fits no memory that often.
pub const PARTS_AT_ONCE: usize = 4;

/// The largest completed permission request, in bytes: it fits a D1 row (2 MB).
pub const MAX_COMPLETED_BYTES: usize = 1_900_000;

/// How many bytes of completed permission requests one update may name: each is held several times over until it is
/// written and told.
pub const MAX_COMPLETED_AT_ONCE: usize = 8_000_000;

/// How large the record of a session's completed requests may become, in bytes: its texts, and [`COMPLETED_ROW_BYTES`] for
/// each entry. It is read and answered whole, and is in memory several times over meanwhile.
pub const MAX_RECORD_BYTES: usize = 10_000_000;

/// How much of a record stays when it became too large, in bytes: its newest entries. (The statements of `sql` name both.)
pub const KEPT_COMPLETED_BYTES: usize = 9_000_000;

/// What an entry of a record counts for besides its id and its text, in bytes.
pub const COMPLETED_ROW_BYTES: usize = 200;

/// The largest permission request that waits, in bytes: with its answer it fits a row.
pub const MAX_REQUEST_BYTES: usize = 1_000_000;

/// The largest todo list, in bytes. With the other values that stand in the row it fits D1.
pub const MAX_TODOS_BYTES: usize = 250_000;

/// A row of a statement whose parameters are `?1`: rows as a JSON array, `?2`: namespace, then one for each large text,
/// NULL when the text stands in the row.
pub trait Row<'a>: Serialize {
    /// The texts that can be large, in the order of the statement's parameters.
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        Vec::new()
    }
}

/// Makes statements from rows.
pub struct Writer {
    namespace: Value,
    /// The statements so far, in the order in which they have to run.
    pub statements: Vec<Statement>,
}

impl Writer {
    /// A writer for a namespace.
    pub fn new(namespace: &Namespace) -> Self {
        Self { namespace: namespace.as_ref().into(), statements: Vec::new() }
    }

    /// Writes rows, as few statements as the limits allow, in their order.
    pub fn add<'a, R: Row<'a>>(&mut self, sql: &'static str, rows: impl Iterator<Item = R>) {
        let mut array = String::new();
        let mut larges = 0;
        for mut row in rows {
            let large = row.large();
            larges = large.len();
            if large.iter().map(|text| text.map_or(0, str::len)).sum::<usize>() > LARGE_ROW_BYTES {
                let texts = large.into_iter().map(|text| text.take().map_or(Value::Null, Value::from)).collect();
                self.flush(sql, &mut array, vec![Value::Null; larges]);
                push(&mut array, &row);
                self.flush(sql, &mut array, texts);
                continue;
            }
            push(&mut array, &row);
            if array.len() > MAX_PARAM_BYTES {
                self.flush(sql, &mut array, vec![Value::Null; larges]);
            }
        }
        self.flush(sql, &mut array, vec![Value::Null; larges]);
    }

    fn flush(&mut self, sql: &'static str, array: &mut String, texts: Vec<Value>) {
        if array.is_empty() {
            return;
        }
        array.push(']');
        let mut params = vec![Value::Text(std::mem::take(array)), self.namespace.clone()];
        params.extend(texts);
        self.statements.push(Statement { sql, params });
    }
}

fn push<R: Serialize>(array: &mut String, row: &R) {
    array.push(if array.is_empty() { '[' } else { ',' });
    // Rows hold texts, numbers and flags only, which always serialize.
    array.push_str(&serde_json::to_string(row).unwrap_or_default());
}

/// An id alone.
#[derive(Serialize)]
pub struct IdRow<'a>(pub &'a str);

impl<'a> Row<'a> for IdRow<'a> {}
impl<'a> Row<'a> for TouchRow<'a> {}

/// The small columns of a session.
#[derive(Serialize)]
pub struct TouchRow<'a> {
    id: &'a str,
    seq: u64,
    updated_at: u64,
    active_at: u64,
    thinking_at: u64,
    active: bool,
    thinking: bool,
    mode: Option<ControlMode>,
    permission_mode: Option<&'a str>,
    model_mode: Option<&'a str>,
}

impl<'a> TouchRow<'a> {
    /// The row of a session.
    pub fn of(s: &'a Session) -> Self {
        Self {
            id: &s.id,
            seq: s.seq,
            updated_at: s.updated_at,
            active_at: s.active_at,
            thinking_at: s.thinking_at,
            active: s.active,
            thinking: s.thinking,
            mode: s.mode,
            permission_mode: s.permission_mode.as_deref(),
            model_mode: s.model_mode.as_deref(),
        }
    }
}

/// A session, whole.
#[derive(Serialize)]
pub struct SessionRow<'a> {
    #[serde(flatten)]
    small: TouchRow<'a>,
    tag: &'a str,
    created_at: u64,
    metadata: Option<&'a str>,
    metadata_version: u64,
    agent_state: Option<&'a str>,
    agent_state_version: u64,
    todos: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_parts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_state_parts: Option<String>,
}

impl<'a> SessionRow<'a> {
    /// The row of a session.
    pub fn of(s: &'a Session) -> Self {
        Self {
            small: TouchRow::of(s),
            tag: &s.tag,
            created_at: s.created_at,
            metadata: s.metadata.as_ref().map(|j| j.text()),
            metadata_version: s.metadata_version,
            agent_state: s.agent_state.as_ref().map(|j| j.text()),
            agent_state_version: s.agent_state_version,
            todos: s.todos.as_ref().map(|j| j.text()),
            parts: count([&s.metadata_large, &s.agent_state_large]),
            metadata_parts: s.metadata_large.as_ref().map(LargeRef::to_string),
            agent_state_parts: s.agent_state_large.as_ref().map(LargeRef::to_string),
        }
    }
}

/// How many parts the values of a row have; none for nearly every row.
fn count(values: [&Option<LargeRef>; 2]) -> Option<usize> {
    values.into_iter().flatten().map(|large| large.parts).reduce(|one, other| one + other)
}

/// A value larger than a row, on its way into the database.
#[derive(Debug, Clone)]
pub struct LargeValue {
    /// The session or machine that it belongs to.
    pub owner: String,
    /// Under which name its parts are kept.
    pub large: LargeRef,
    /// The whole.
    pub value: Json,
}

impl LargeValue {
    /// A value under a new id of its parts.
    pub fn new(owner: &str, version: u64, id: String, value: Json) -> Self {
        let text = value.text();
        let large = LargeRef { version, parts: parts(text).count(), bytes: text.len(), id };
        Self { owner: owner.to_owned(), large, value }
    }
}

/// A part of a value larger than a row.
#[derive(Serialize)]
pub struct ValuePartRow<'a> {
    owner: &'a str,
    whole: String,
    part: usize,
    content: Option<&'a str>,
}

impl<'a> ValuePartRow<'a> {
    /// The rows of a value; its parts are counted from 1.
    pub fn of(v: &'a LargeValue) -> impl Iterator<Item = Self> {
        let row =
            |(at, content)| Self { owner: &v.owner, whole: v.large.to_string(), part: at + 1, content: Some(content) };
        parts(v.value.text()).enumerate().map(row)
    }
}

/// What has to be written before the rows of large values, in transactions of its own: few parts at a time, after those
/// that nobody needs any more were swept away.
pub fn values_ahead<'a>(
    namespace: &'a Namespace,
    values: &'a [LargeValue],
) -> impl Iterator<Item = Vec<Statement>> + 'a {
    let owners = distinct(values.iter().map(|value| value.owner.as_str()));
    let sweep = statements(namespace, sql::SWEEP_VALUE_PARTS, owners.into_iter().map(IdRow));
    let mut parts = values.iter().flat_map(ValuePartRow::of);
    let few = move || statements(namespace, sql::UPSERT_VALUE_PARTS, parts.by_ref().take(PARTS_AT_ONCE));
    std::iter::once(sweep).chain(std::iter::repeat_with(few)).take_while(|statements| !statements.is_empty())
}

/// Each id once.
pub fn distinct<'a>(ids: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut distinct = BTreeSet::new();
    // One by one: to collect them at once brings a sort for their type.
    distinct.extend(ids);
    distinct
}

/// Rows of one kind as statements.
pub fn statements<'a, R: Row<'a>>(
    namespace: &Namespace,
    sql: &'static str,
    rows: impl Iterator<Item = R>,
) -> Vec<Statement> {
    let mut writer = Writer::new(namespace);
    writer.add(sql, rows);
    writer.statements
}

/// A message, with the first part of its content.
#[derive(Serialize)]
pub struct MessageRow<'a> {
    session_id: &'a str,
    seq: u64,
    id: &'a str,
    local_id: Option<&'a str>,
    created_at: u64,
    parts: usize,
    bytes: usize,
    content: Option<&'a str>,
}

impl<'a> MessageRow<'a> {
    /// The row of a message of a session.
    pub fn of(session_id: &'a str, m: &'a Message) -> Self {
        let content = m.content.text();
        Self {
            session_id,
            seq: m.seq,
            id: &m.id,
            local_id: m.local_id.as_deref(),
            created_at: m.created_at,
            parts: parts(content).count().saturating_sub(1),
            bytes: content.len(),
            content: parts(content).next(),
        }
    }
}

/// What a message's content goes on with.
#[derive(Serialize)]
pub struct PartRow<'a> {
    session_id: &'a str,
    message_id: &'a str,
    part: usize,
    content: Option<&'a str>,
}

impl<'a> PartRow<'a> {
    /// The rows besides the message's own; none for nearly every message.
    pub fn of(session_id: &'a str, m: &'a Message) -> impl Iterator<Item = Self> {
        let row = move |(part, content)| Self { session_id, message_id: &m.id, part, content: Some(content) };
        parts(m.content.text()).enumerate().skip(1).map(row)
    }
}

/// Whether a message is larger than a row.
pub fn has_parts(m: &Message) -> bool {
    m.content.text().len() > PART_BYTES
}

/// How many bytes of a message's content stand in its own row.
pub fn bytes_in_row(content: &str) -> usize {
    parts(content).next().map_or(0, str::len)
}

/// A text in parts of at most [`PART_BYTES`], cut between characters.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at_checked(rest.floor_char_boundary(PART_BYTES))?;
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// A completed permission request.
#[derive(Serialize)]
pub struct CompletedRow<'a> {
    session_id: &'a str,
    request_id: &'a str,
    completed_at: u64,
    value: Option<&'a str>,
}

impl<'a> CompletedRow<'a> {
    /// The row of a completed request.
    pub fn of(r: &'a CompletedRequest) -> Self {
        let value = Some(r.value.text());
        Self { session_id: &r.session_id, request_id: &r.request_id, completed_at: r.completed_at, value }
    }
}

/// A machine.
#[derive(Serialize)]
pub struct MachineRow<'a> {
    id: &'a str,
    seq: u64,
    created_at: u64,
    updated_at: u64,
    active: bool,
    active_at: u64,
    metadata: Option<&'a str>,
    metadata_version: u64,
    runner_state: Option<&'a str>,
    runner_state_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_parts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state_parts: Option<String>,
}

impl<'a> MachineRow<'a> {
    /// The row of a machine.
    pub fn of(m: &'a Machine) -> Self {
        Self {
            id: &m.id,
            seq: m.seq,
            created_at: m.created_at,
            updated_at: m.updated_at,
            active: m.active,
            active_at: m.active_at,
            metadata: m.metadata.as_ref().map(|j| j.text()),
            metadata_version: m.metadata_version,
            runner_state: m.runner_state.as_ref().map(|j| j.text()),
            runner_state_version: m.runner_state_version,
            parts: count([&m.metadata_large, &m.runner_state_large]),
            metadata_parts: m.metadata_large.as_ref().map(LargeRef::to_string),
            runner_state_parts: m.runner_state_large.as_ref().map(LargeRef::to_string),
        }
    }
}

impl<'a> Row<'a> for SessionRow<'a> {
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        vec![&mut self.metadata, &mut self.agent_state, &mut self.todos]
    }
}

impl<'a> Row<'a> for MessageRow<'a> {
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        vec![&mut self.content]
    }
}

impl<'a> Row<'a> for PartRow<'a> {
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        vec![&mut self.content]
    }
}

impl<'a> Row<'a> for ValuePartRow<'a> {
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        vec![&mut self.content]
    }
}

impl<'a> Row<'a> for CompletedRow<'a> {
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        vec![&mut self.value]
    }
}

impl<'a> Row<'a> for MachineRow<'a> {
    fn large(&mut self) -> Vec<&mut Option<&'a str>> {
        vec![&mut self.metadata, &mut self.runner_state]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_nothing_of_it_is_lost() {
        let text = "ü".repeat(PART_BYTES);
        let cut: Vec<&str> = parts(&text).collect();
        assert_eq!(cut.len(), 2);
        assert!(cut.iter().all(|part| part.len() <= PART_BYTES));
        assert_eq!(cut.concat(), text);
        assert_eq!(parts("short").collect::<Vec<_>>(), ["short"]);
    }
}
