//! Stories of to-do extraction: every listed shape in every listed wrapping, and what only looks like one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(content: &str) -> Option<Vec<TodoItem>> {
    extract(content, &Vocabulary::default())
}

fn of(content: &Value) -> Option<Vec<TodoItem>> {
    read(&content.to_string())
}

/// A list in short: `id content status priority` of each entry.
fn brief(todos: &[TodoItem]) -> Vec<String> {
    let word = |value: Value| value.as_str().unwrap().to_owned();
    todos
        .iter()
        .map(|todo| {
            let status = word(serde_json::to_value(todo.status).unwrap());
            let priority = word(serde_json::to_value(todo.priority).unwrap());
            format!("{} {} {status} {priority}", todo.id, todo.content)
        })
        .collect()
}

fn briefly(content: &Value) -> Vec<String> {
    brief(&of(content).unwrap_or_else(|| panic!("no todos in {content}")))
}

fn two_todos() -> Value {
    json!([
        {"content": "dig", "status": "completed", "priority": "high", "id": "a"},
        {"content": "plant", "status": "in_progress"},
    ])
}

const TWO_TODOS: [&str; 2] = ["a dig completed high", "2 plant in_progress medium"];

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
fn an_assistant_message_with_the_todo_writing_tool_use_is_read() {
    let blocks = json!([{"type": "text", "text": "Let me plan."}, tool_use("TodoWrite", two_todos())]);
    assert_eq!(briefly(&agent(output(blocks))), TWO_TODOS);
}

#[test]
fn a_tool_call_of_each_agent_kind_is_read() {
    for kind in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        let content = agent(tool_call(kind, "TodoWrite", two_todos()));
        assert_eq!(briefly(&content), TWO_TODOS, "{kind}");
    }
}

#[test]
fn a_plan_of_each_agent_kind_is_read_and_its_entries_are_numbered() {
    for kind in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        let entries = json!([
            {"content": "dig", "priority": "low", "status": "pending"},
            {"content": "plant", "priority": "high", "status": "completed", "id": "p"},
            {"content": "water", "priority": "medium", "status": "in_progress"},
        ]);
        let expected = ["plan-1 dig pending low", "p plant completed high", "plan-3 water in_progress medium"];
        assert_eq!(briefly(&agent(plan(kind, entries))), expected, "{kind}");
    }
}

#[test]
fn the_record_may_stand_bare_or_in_any_of_the_wrappings_and_in_both_roles() {
    for role in ["agent", "assistant"] {
        for content in
            [output(json!([tool_use("TodoWrite", two_todos())])), tool_call("beta", "TodoWrite", two_todos())]
        {
            let record = json!({"role": role, "content": content});
            let wrappings = [
                record.clone(),
                json!({"message": record, "type": "x"}),
                json!({"data": {"message": record}}),
                json!({"payload": {"message": record}}),
                json!({"message": "hello", "data": 5, "payload": {"message": record}}),
                json!({"role": "user", "content": "hello", "message": record}),
            ];
            for wrapped in wrappings {
                assert_eq!(briefly(&wrapped), TWO_TODOS, "{wrapped}");
            }
        }
    }
}

#[test]
fn what_only_looks_like_a_list_is_none() {
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
        // The wrapping.
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
        assert_eq!(of(&content), None, "{content}");
    }
    for broken in ["", "\"plan\"", "{\"plan\"", "{\"TodoWrite\":}", "null \"plan\""] {
        assert_eq!(read(broken), None, "{broken:?}");
    }
}

#[test]
fn an_entry_that_cannot_be_read_is_left_out_and_the_others_keep_their_places() {
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
        briefly(&agent(tool_call("alpha", "TodoWrite", entries.clone()))),
        ["2 plant pending medium", "7 rest completed medium"]
    );
    assert_eq!(
        briefly(&agent(plan("alpha", entries))),
        ["plan-2 plant pending medium", "plan-7 rest completed medium"]
    );
}

#[test]
fn missing_parts_of_an_entry_are_filled_in() {
    let entries = json!([
        {"content": "no status"},
        {"content": "null status", "status": null, "priority": null, "id": null},
        {"content": "odd priority", "status": "pending", "priority": "urgent"},
        {"content": "priority of another type", "priority": 1},
        {"content": "number as id", "id": 17},
        {"content": "empty id", "id": ""},
        {"content": "id of another type", "id": ["x"]},
        {"content": "more", "activeForm": "Doing more", "id": "\u{e9}\"\n"},
    ]);
    assert_eq!(
        briefly(&agent(tool_call("alpha", "TodoWrite", entries))),
        [
            "1 no status pending medium",
            "2 null status pending medium",
            "3 odd priority pending medium",
            "4 priority of another type pending medium",
            "17 number as id pending medium",
            "6 empty id pending medium",
            "7 id of another type pending medium",
            "\u{e9}\"\n more pending medium",
        ]
    );
}

#[test]
fn an_empty_list_clears_the_list() {
    assert_eq!(of(&agent(tool_call("alpha", "TodoWrite", json!([])))), Some(vec![]));
    assert_eq!(of(&agent(plan("alpha", json!([])))), Some(vec![]));
    assert_eq!(of(&agent(output(json!([tool_use("TodoWrite", json!([]))])))), Some(vec![]));
}

#[test]
fn the_last_of_several_lists_counts() {
    let blocks = json!([
        tool_use("TodoWrite", json!([{"content": "old"}])),
        tool_use("TodoWrite", two_todos()),
        tool_use("Other", json!([{"content": "other"}])),
        tool_use("TodoWrite", json!("broken")),
    ]);
    assert_eq!(briefly(&agent(output(blocks))), TWO_TODOS);
}

#[test]
fn a_deployment_may_have_its_own_word_for_an_agent_kind() {
    let content = agent(plan("zeta", two_todos())).to_string();
    assert_eq!(read(&content), None);
    let found = extract(&content, &Vocabulary::parse(r#"{"agents":{"zeta":"beta"}}"#).unwrap()).unwrap();
    assert_eq!(found[1].id, "plan-2");
}

#[test]
fn white_space_in_the_text_does_not_matter() {
    let content = serde_json::to_string_pretty(&agent(plan("beta", two_todos()))).unwrap();
    assert_eq!(brief(&read(&format!("\n {content} \n")).unwrap()).len(), 2);
}

#[test]
fn items_are_written_in_the_words_of_the_interface() {
    let todos = of(&agent(tool_call("alpha", "TodoWrite", two_todos()))).unwrap();
    let json = serde_json::to_value(&todos).unwrap();
    assert_eq!(
        json,
        json!([
            {"id": "a", "content": "dig", "status": "completed", "priority": "high"},
            {"id": "2", "content": "plant", "status": "in_progress", "priority": "medium"},
        ])
    );
    assert_eq!(serde_json::from_value::<Vec<TodoItem>>(json).unwrap(), todos);
}

#[test]
fn progress_counts_what_is_completed() {
    let todos = of(&agent(tool_call("alpha", "TodoWrite", two_todos()))).unwrap();
    let json = serde_json::to_value(progress(&todos)).unwrap();
    assert_eq!(json, json!({"completed": 1, "total": 2}));
    assert_eq!(progress(&[]), Progress { completed: 0, total: 0 });
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
    let found = small_stack.spawn(move || read(&content)).unwrap().join().unwrap();
    assert_eq!(brief(&found.unwrap()), ["plan-1 dig pending medium"]);
}

proptest! {
    #[test]
    fn no_text_is_a_panic(start in any::<String>(), end in any::<String>()) {
        prop_assert_eq!(read(&format!("{start}\"plan\"{end}")), None);
    }

    #[test]
    fn any_entries_give_items_of_them_in_order(
        contents in prop::collection::vec(any::<String>(), 0..8),
    ) {
        let entries: Vec<Value> = contents.iter().map(|text| json!({"content": text})).collect();
        let found = of(&agent(plan("gamma", json!(entries)))).unwrap();
        let read: Vec<String> = found.into_iter().map(|todo| todo.content).collect();
        prop_assert_eq!(read, contents);
    }
}
