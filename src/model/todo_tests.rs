//! Tests of to-do extraction: each shape of a list in each envelope, and messages that only resemble them.

use super::*;
use serde_json::{Value, json};

fn extract_default(content: &str) -> Option<Vec<TodoItem>> {
    extract(content, &Vocabulary::default())
}

fn extract_value(content: &Value) -> Option<Vec<TodoItem>> {
    extract_default(&content.to_string())
}

/// Formats each entry as `id content status priority`.
fn format_items(todos: &[TodoItem]) -> Vec<String> {
    let string = |value: Value| value.as_str().unwrap().to_owned();
    todos
        .iter()
        .map(|todo| {
            let status = string(serde_json::to_value(todo.status).unwrap());
            let priority = string(serde_json::to_value(todo.priority).unwrap());
            format!("{} {} {status} {priority}", todo.id, todo.content)
        })
        .collect()
}

fn extract_formatted(content: &Value) -> Vec<String> {
    format_items(&extract_value(content).unwrap_or_else(|| panic!("no todos in {content}")))
}

fn two_todos() -> Value {
    json!([
        {"content": "dig", "status": "completed", "priority": "high", "id": "a"},
        {"content": "plant", "status": "in_progress"},
    ])
}

fn tool_use(name: &str, todos: Value) -> Value {
    json!({"type": "tool_use", "id": "t1", "name": name, "input": {"todos": todos}})
}

fn output(blocks: Value) -> Value {
    let message = json!({"role": "assistant", "content": blocks});
    json!({"type": "output", "data": {"type": "assistant", "uuid": "u", "message": message}})
}

fn tool_call(kind: &str, name: &str, todos: Value) -> Value {
    let data = json!({"type": "tool-call", "name": name, "callId": "c", "input": {"todos": todos}});
    json!({"type": kind, "data": data})
}

fn plan(kind: &str, entries: Value) -> Value {
    json!({"type": kind, "data": {"type": "plan", "entries": entries}})
}

fn agent(content: Value) -> Value {
    json!({"role": "agent", "content": content, "meta": {"x": 1}})
}

#[test]
fn other_messages_have_no_list() {
    let todo_write = || output(json!([tool_use("TodoWrite", two_todos())]));
    let record = agent(todo_write());
    let table = [
        // The role.
        json!({"role": "user", "content": todo_write()}),
        json!({"role": "Agent", "content": todo_write()}),
        json!({"role": null, "content": todo_write()}),
        json!({"role": ["agent"], "content": todo_write()}),
        json!({"content": todo_write()}),
        todo_write(),
        // The envelope.
        json!({"payload": record}),
        json!({"data": record}),
        json!({"data": {"payload": {"message": record}}}),
        json!({"message": {"message": record}}),
        json!({"message": record.to_string()}),
        json!([record]),
        json!(["agent", todo_write()]),
        json!(record.to_string()),
        // The tool.
        agent(output(json!([tool_use("TodoRead", two_todos())]))),
        agent(output(json!([tool_use("todowrite", two_todos())]))),
        agent(tool_call("beta", "plan", two_todos())),
        agent(output(json!([{"type": "text", "text": "\"TodoWrite\""}]))),
        agent(output(json!([{"type": "tool_result", "name": "TodoWrite", "input": {"todos": two_todos()}}]))),
        agent(output(json!("TodoWrite"))),
        agent(
            json!({"type": "output", "data": {"type": "user", "message": {"content": [tool_use("TodoWrite", two_todos())]}}}),
        ),
        // The kind.
        agent(
            json!({"type": "beta", "data": {"type": "assistant", "message": {"content": [tool_use("TodoWrite", two_todos())]}}}),
        ),
        agent(tool_call("output", "TodoWrite", two_todos())),
        agent(tool_call("zeta", "TodoWrite", two_todos())),
        agent(plan("event", two_todos())),
        agent(json!({"data": {"type": "plan", "entries": two_todos()}})),
        // The list.
        agent(plan("beta", json!([[null, "dig", "pending", "high"]]))),
        agent(plan("beta", json!({"0": {"content": "dig"}}))),
        agent(plan("beta", Value::Null)),
        agent(json!({"type": "beta", "data": {"type": "plan", "todos": two_todos()}})),
        agent(json!({"type": "beta", "data": {"type": "tool-call", "name": "TodoWrite", "input": two_todos()}})),
        agent(json!({"type": "beta", "data": {"type": "tool-call", "name": "TodoWrite"}})),
        agent(plan("beta", json!(["dig", 5, {"text": "dig"}, {"content": 5}]))),
        agent(plan("beta", json!([{"content": "dig", "status": "someday"}]))),
    ];
    for content in table {
        assert_eq!(extract_value(&content), None, "{content}");
    }
    for broken in ["", "\"plan\"", "{\"plan\"", "{\"TodoWrite\":}", "null \"plan\""] {
        assert_eq!(extract_default(broken), None, "{broken:?}");
    }
}

#[test]
fn invalid_entries_are_skipped_and_the_others_keep_their_positions() {
    let entries = json!([
        {"content": "dig", "status": "done"},
        {"content": "plant", "status": "pending"},
        {"status": "pending"},
        "water",
        null,
        {"content": "harvest", "status": 5},
        {"content": "rest", "status": "completed"},
    ]);
    assert_eq!(
        extract_formatted(&agent(tool_call("alpha", "TodoWrite", entries.clone()))),
        ["2 plant pending medium", "7 rest completed medium"]
    );
    assert_eq!(
        extract_formatted(&agent(plan("alpha", entries))),
        ["plan-2 plant pending medium", "plan-7 rest completed medium"]
    );
}

#[test]
fn missing_fields_of_an_entry_have_defaults() {
    let entries = json!([
        {"content": "no status"},
        {"content": "null status", "status": null, "priority": null, "id": null},
        {"content": "invalid priority", "status": "pending", "priority": "urgent"},
        {"content": "priority of another type", "priority": 1},
        {"content": "number as id", "id": 17},
        {"content": "empty id", "id": ""},
        {"content": "id of another type", "id": ["x"]},
        {"content": "more", "activeForm": "Doing more", "id": "\u{e9}\"\n"},
    ]);
    assert_eq!(
        extract_formatted(&agent(tool_call("alpha", "TodoWrite", entries))),
        [
            "1 no status pending medium",
            "2 null status pending medium",
            "3 invalid priority pending medium",
            "4 priority of another type pending medium",
            "17 number as id pending medium",
            "6 empty id pending medium",
            "7 id of another type pending medium",
            "\u{e9}\"\n more pending medium",
        ]
    );
}

#[test]
fn a_deeply_nested_message_does_not_exhaust_the_stack() {
    let depth = 300_000;
    let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let entries = format!(r#"[{{"content":"dig","x":{deep}}},{{"content":{deep}}},{{"status":{deep}}}]"#);
    let content = format!(
        r#"{{"x":{deep},"role":"agent","content":{{"type":"beta","data":{{"type":"plan","entries":{entries}}}}}}}"#
    );
    let small_stack = std::thread::Builder::new().stack_size(128 * 1024);
    let found = small_stack.spawn(move || extract_default(&content)).unwrap().join().unwrap();
    assert_eq!(format_items(&found.unwrap()), ["plan-1 dig pending medium"]);
}
