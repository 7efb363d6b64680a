//! To-do lists in the messages of agents.
//!
//! Each message with a list replaces the session's list. Parsing is lenient, because the hub does not control what agents
//! write: an entry of another shape is skipped.
//! Source: PROTOCOL.md "What agents write".

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::agent_message::Fields;
use super::json::Json;
use super::vocabulary::Vocabulary;
use crate::limits::{MAX_KEYWORD_BYTES, MAX_TODOS_BYTES};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// The agent's id of the item. The default is the position in the list: `3` in `TodoWrite`, `plan-3` in a plan.
    pub id: String,
    pub content: String,
    pub status: TodoStatus,
    pub priority: TodoPriority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    High,
    Medium,
    Low,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub completed: usize,
    pub total: usize,
}

pub fn progress(todos: &[TodoItem]) -> Progress {
    let is_completed = |todo: &&TodoItem| todo.status == TodoStatus::Completed;
    Progress { completed: todos.iter().filter(is_completed).count(), total: todos.len() }
}

/// Returns the to-do list of a message as JSON. Ignores a list above [`MAX_TODOS_BYTES`].
pub fn find(content: &str, vocabulary: &Vocabulary) -> Option<Json> {
    let todos = Json::of(&extract(content, vocabulary)?);
    (todos.text().len() <= MAX_TODOS_BYTES).then_some(todos)
}

/// Returns the to-do list of a message. `content` is JSON text.
///
/// The list is in a record `{role: "agent" | "assistant", content}`. The record is the message itself, or its `message`,
/// `data.message` or `payload.message`. If a message has several lists, the last one wins.
///
/// - An empty list is valid: the agent cleared its list.
/// - An entry without `content` or with an unknown `status` is skipped; the others keep their positions. A list in which all
///   entries are skipped is ignored, so that the previous list remains.
/// - The default status is `pending`. A missing or unknown priority is `medium`.
pub fn extract(content: &str, vocabulary: &Vocabulary) -> Option<Vec<TodoItem>> {
    // Avoids parsing nearly all messages. "plan" with quotes matches no prose, because quotes in a JSON string are escaped.
    if !content.contains("\"TodoWrite\"") && !content.contains("\"plan\"") {
        return None;
    }
    let message = Fields::parse(content)?;
    let nested = [message.message, message_field(message.data), message_field(message.payload)];
    let nested = nested.into_iter().flatten().map(RawValue::get);
    std::iter::once(content).chain(nested).find_map(|record| parse_record(record, vocabulary))
}

fn message_field(outer: Option<&RawValue>) -> Option<&RawValue> {
    Fields::parse(outer?.get())?.message
}

fn parse_string(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

fn parse_array(value: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    let list = value?.get();
    // The error for a string would contain the whole string.
    list.starts_with('[').then(|| serde_json::from_str(list).ok()).flatten()
}

/// Parses a variant of an enum. The length is checked first, because the error for an unknown variant contains the whole text.
fn parse_variant<T: for<'a> Deserialize<'a>>(value: &RawValue) -> Option<T> {
    (value.get().len() <= MAX_KEYWORD_BYTES).then(|| serde_json::from_str(value.get()).ok()).flatten()
}

fn parse_record(record: &str, vocabulary: &Vocabulary) -> Option<Vec<TodoItem>> {
    let record = Fields::parse(record)?;
    if !matches!(parse_string(record.role)?.as_str(), "agent" | "assistant") {
        return None;
    }
    let content = Fields::parse(record.content?.get())?;
    let data = Fields::parse(content.data?.get())?;
    let kind = parse_string(content.kind)?;
    let is_agent = || vocabulary.find_agent(&kind).is_ok();
    match parse_string(data.kind)?.as_str() {
        "assistant" if kind == "output" => parse_assistant_message(data.message?.get()),
        "tool-call" if is_agent() => parse_todo_write(&data),
        "plan" if is_agent() => parse_list(data.entries, "plan-"),
        _ => None,
    }
}

fn parse_assistant_message(message: &str) -> Option<Vec<TodoItem>> {
    let message = Fields::parse(message)?;
    let blocks = parse_array(message.content)?;
    blocks.iter().rev().find_map(|block| {
        let block = Fields::parse(block.get())?;
        let is_tool_use = parse_string(block.kind)? == "tool_use";
        is_tool_use.then(|| parse_todo_write(&block)).flatten()
    })
}

fn parse_todo_write(call: &Fields<'_>) -> Option<Vec<TodoItem>> {
    if parse_string(call.name)? != "TodoWrite" {
        return None;
    }
    let input = Fields::parse(call.input?.get())?;
    parse_list(input.todos, "")
}

fn parse_list(entries: Option<&RawValue>, id_prefix: &str) -> Option<Vec<TodoItem>> {
    let entries = parse_array(entries)?;
    let items: Vec<TodoItem> = entries
        .iter()
        .zip(1_usize..)
        .filter_map(|(entry, position)| parse_item(entry, || format!("{id_prefix}{position}")))
        .collect();
    (entries.is_empty() || !items.is_empty()).then_some(items)
}

fn parse_item(entry: &RawValue, default_id: impl FnOnce() -> String) -> Option<TodoItem> {
    let entry = Fields::parse(entry.get())?;
    let status = match entry.status {
        None => TodoStatus::Pending,
        Some(status) => parse_variant(status)?,
    };
    Some(TodoItem {
        id: parse_id(entry.id).unwrap_or_else(default_id),
        content: parse_string(entry.content)?,
        status,
        priority: entry.priority.and_then(parse_variant).unwrap_or(TodoPriority::Medium),
    })
}

fn parse_id(value: Option<&RawValue>) -> Option<String> {
    let number = value.filter(|value| value.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()));
    parse_string(value).filter(|id| !id.is_empty()).or_else(|| Some(number?.get().to_owned()))
}

#[cfg(test)]
#[path = "todo_tests.rs"]
mod tests;
