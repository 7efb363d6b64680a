//! To-do lists, as agents write them into their messages.
//!
//! A message with a list replaces the session's list; the newest one counts. Agents are not in the hub's hands, so
//! reading is tolerant: what cannot be read is left out rather than guessed at.
//! Source: decisions, "Todos".

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::vocabulary::Vocabulary;

/// One entry of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// The agent's own id of the entry, else its place in the list: `3` (from `TodoWrite`), `plan-3` (from a plan).
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// How much it matters.
    pub priority: TodoPriority,
}

/// How far a to-do is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

/// How much a to-do matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    /// First.
    High,
    /// In between; what an entry without a priority has.
    Medium,
    /// Last.
    Low,
}

/// How much of a to-do list is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Entries with status completed.
    pub completed: usize,
    /// All entries.
    pub total: usize,
}

/// Counts what is done.
pub fn progress(todos: &[TodoItem]) -> Progress {
    let is_done = |todo: &&TodoItem| todo.status == TodoStatus::Completed;
    Progress { completed: todos.iter().filter(is_done).count(), total: todos.len() }
}

/// The to-do list that a message's `content` (JSON text) carries, or `None` when it carries none.
///
/// The list is looked for in a record `{role: "agent" | "assistant", content}`, which is the message itself or stands
/// in its `message`, `data.message` or `payload.message`. When a message writes several lists, the last one counts.
///
/// - An empty list is a list: the agent cleared it.
/// - An entry without text, or with a status that is none of the three, is left out; the others keep their places. A
///   list of which nothing can be read is no list, so that the one before it stays.
/// - A missing status is `pending`; a missing or unknown priority is `medium`.
pub fn extract(content: &str, vocabulary: &Vocabulary) -> Option<Vec<TodoItem>> {
    // This runs on every message, and nearly none has a list: look before parsing. The quotes keep prose with "plan"
    // in it out; inside a JSON text that is quoted once more they would be escaped.
    if !content.contains("\"TodoWrite\"") && !content.contains("\"plan\"") {
        return None;
    }
    let message: Envelope = object(content)?;
    let wrapped = [message.message, message_in(message.data), message_in(message.payload)];
    let inner = wrapped.into_iter().flatten().map(RawValue::get);
    std::iter::once(content).chain(inner).find_map(|record| in_record(record, vocabulary))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// What stands in a record's `content`, in that one's `data`, and in the blocks of an assistant's message: objects
/// that say their `type`.
#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    entries: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TodoInput<'a> {
    #[serde(borrow)]
    todos: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    priority: Option<&'a RawValue>,
}

/// Reads a JSON object. Derived structs would take arrays too, as positional fields.
fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    let is_object = json.trim_ascii_start().starts_with('{');
    is_object.then(|| serde_json::from_str(json).ok()).flatten()
}

fn message_in(outer: Option<&RawValue>) -> Option<&RawValue> {
    object::<Envelope>(outer?.get())?.message
}

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

fn items(value: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    let list = value?.get();
    // Of a text serde would make an error that contains all of it.
    list.starts_with('[').then(|| serde_json::from_str(list).ok()).flatten()
}

/// A word of an enumeration; none of them is this long, and of another text serde would make an error that contains it.
fn word<T: for<'a> Deserialize<'a>>(value: &RawValue) -> Option<T> {
    const MAX_WORD: usize = 64;
    (value.get().len() <= MAX_WORD).then(|| serde_json::from_str(value.get()).ok()).flatten()
}

fn in_record(record: &str, vocabulary: &Vocabulary) -> Option<Vec<TodoItem>> {
    let record: Record = object(record)?;
    if !matches!(text(record.role)?.as_str(), "agent" | "assistant") {
        return None;
    }
    let content: Typed = object(record.content?.get())?;
    let data: Typed = object(content.data?.get())?;
    let kind = text(content.kind)?;
    let of_agent = || vocabulary.agent(&kind).is_ok();
    match text(data.kind)?.as_str() {
        "assistant" if kind == "output" => in_assistant_message(data.message?.get()),
        "tool-call" if of_agent() => in_todo_write(&data),
        "plan" if of_agent() => list(data.entries, "plan-"),
        _ => None,
    }
}

fn in_assistant_message(message: &str) -> Option<Vec<TodoItem>> {
    let message: Record = object(message)?;
    let blocks = items(message.content)?;
    blocks.iter().rev().find_map(|block| {
        let block: Typed = object(block.get())?;
        let is_tool_use = text(block.kind)? == "tool_use";
        is_tool_use.then(|| in_todo_write(&block)).flatten()
    })
}

fn in_todo_write(call: &Typed<'_>) -> Option<Vec<TodoItem>> {
    if text(call.name)? != "TodoWrite" {
        return None;
    }
    let input: TodoInput = object(call.input?.get())?;
    list(input.todos, "")
}

fn list(entries: Option<&RawValue>, id_prefix: &str) -> Option<Vec<TodoItem>> {
    let entries = items(entries)?;
    let readable: Vec<TodoItem> = entries
        .iter()
        .zip(1_usize..)
        .filter_map(|(entry, place)| item(entry, || format!("{id_prefix}{place}")))
        .collect();
    (entries.is_empty() || !readable.is_empty()).then_some(readable)
}

fn item(entry: &RawValue, default_id: impl FnOnce() -> String) -> Option<TodoItem> {
    let entry: Entry = object(entry.get())?;
    let status = match entry.status {
        None => TodoStatus::Pending,
        Some(status) => word(status)?,
    };
    Some(TodoItem {
        id: id(entry.id).unwrap_or_else(default_id),
        content: text(entry.content)?,
        status,
        priority: entry.priority.and_then(word).unwrap_or(TodoPriority::Medium),
    })
}

/// Ids are text; agents also number their entries.
fn id(value: Option<&RawValue>) -> Option<String> {
    let number = value.filter(|value| value.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()));
    text(value).filter(|id| !id.is_empty()).or_else(|| Some(number?.get().to_owned()))
}

#[cfg(test)]
#[path = "todo_tests.rs"]
mod tests;
