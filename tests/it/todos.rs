//! To-do lists: the hub extracts them from agent messages, returns them in sessions and events, and searches older messages for
//! them.

use crate::support::prelude::*;

async fn send_message(cli: &mut Cli, session: &str, message: &Value) {
    let ack = cli.emit_with_ack("message", &json!({"sid": session, "message": message})).await;
    assert_eq!(ack["ok"], true, "{message}");
}

/// Sends a to-do list with this name.
async fn send_list(cli: &mut Cli, session: &str, name: &str) {
    send_message(cli, session, &agent_message(output_content(todo_list(name)))).await;
}

async fn todos(world: &World, session: &str) -> Value {
    world.get_session(session).await["todos"].clone()
}

/// The progress of the first session in the list.
async fn progress(world: &World) -> Value {
    world.get("/api/sessions").await.ok()["sessions"][0]["todoProgress"].clone()
}

fn counts(completed: u64, total: u64) -> Value {
    json!({"completed": completed, "total": total})
}

fn todo_list(name: &str) -> Value {
    json!([
        {"id": "a", "content": name, "status": "completed", "priority": "high"},
        {"id": "b", "content": "second", "status": "in_progress", "priority": "low"},
        {"id": "c", "content": "third", "status": "pending", "priority": "medium"},
    ])
}

fn agent_message(content: Value) -> Value {
    json!({"role": "agent", "content": content, "meta": {"sentFrom": "cli"}})
}

fn tool_call_content(kind: &str, todos: Value) -> Value {
    json!({"type": kind, "data": {"type": "tool-call", "name": "TodoWrite", "callId": "1", "input": {"todos": todos}}})
}

fn plan_content(kind: &str, entries: Value) -> Value {
    json!({"type": kind, "data": {"type": "plan", "entries": entries}})
}

fn output_content(todos: Value) -> Value {
    let blocks = json!([
        {"type": "text", "text": "I have a plan"},
        {"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": todos}},
    ]);
    json!({"type": "output", "data": {"type": "assistant", "message": {"role": "assistant", "content": blocks}}})
}

/// One message for each format of to-do lists. Each message has a name, which its to-do list contains.
fn list_messages() -> Vec<(String, Value)> {
    let mut messages = Vec::new();
    let mut add = |name: String, make: &dyn Fn(Value) -> Value| messages.push((name.clone(), make(todo_list(&name))));
    add("output".into(), &|todos| agent_message(output_content(todos)));
    for kind in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        add(format!("tool call of {kind}"), &|todos| agent_message(tool_call_content(kind, todos)));
        add(format!("plan of {kind}"), &|todos| agent_message(plan_content(kind, todos)));
    }
    add("assistant".into(), &|todos| json!({"role": "assistant", "content": output_content(todos)}));
    add("in message".into(), &|todos| json!({"message": agent_message(output_content(todos))}));
    add(
        "in data".into(),
        &|todos| json!({"type": "x", "data": {"message": agent_message(tool_call_content("beta", todos))}}),
    );
    add("in payload".into(), &|todos| json!({"payload": {"message": agent_message(plan_content("gamma", todos))}}));
    add("as a string".into(), &|todos| json!(agent_message(output_content(todos)).to_string()));
    messages
}

#[tokio::test(start_paused = true)]
async fn a_todo_list_in_any_format_is_stored_in_the_session_and_published() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    for (name, message) in list_messages() {
        send_message(&mut cli, &session, &message).await;
        assert_eq!(todos(&world, &session).await, todo_list(&name), "{name}");
        let event = web.next_event_of("session-updated").await;
        assert_eq!((&event["sessionId"], &event["data"]["todos"]), (&json!(session), &todo_list(&name)), "{name}");
        assert_eq!(progress(&world).await, counts(1, 3), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_todo_list_replaces_the_older_list_even_if_the_newer_list_is_empty() {
    let (world, session, mut cli) = live_session().await;
    assert_eq!(progress(&world).await, Value::Null);
    assert_eq!(world.get_session(&session).await.get("todos"), None);
    send_list(&mut cli, &session, "first").await;
    send_message(&mut cli, &session, &agent_message(plan_content("beta", todo_list("second")))).await;
    assert_eq!(todos(&world, &session).await, todo_list("second"));
    send_message(&mut cli, &session, &agent_message(output_content(json!([])))).await;
    assert_eq!(todos(&world, &session).await, json!([]));
    assert_eq!(progress(&world).await, counts(0, 0));
}

#[tokio::test(start_paused = true)]
async fn messages_without_a_valid_todo_list_do_not_change_the_stored_list() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    send_list(&mut cli, &session, "valid").await;
    send_message(&mut cli, &session, &agent_message(tool_call_content("zeta", todo_list("an unknown type's")))).await;
    assert_eq!(todos(&world, &session).await, todo_list("valid"));
    web.events().await;
    let text = agent_message(output_content(todo_list("forged"))).to_string();
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": text})).await.ok();
    assert_eq!(todos(&world, &session).await, todo_list("valid"), "messages from the web are not searched");
    web.0.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_todo_list_is_persisted_with_its_message() {
    let (world, session, mut cli) = live_session().await;
    let writes = world.db.write_count();
    send_list(&mut cli, &session, "valid").await;
    assert_eq!(world.db.write_count(), writes + 1, "the list and the message are one batch");
    world.hibernate_and_wake().await;
    assert_eq!(progress(&world).await, counts(1, 3));
    assert_eq!(todos(&world, &session).await, todo_list("valid"));
    world.db.fail(BatchKind::Writes, permanent_error());
    let lost = json!({"sid": session, "message": agent_message(output_content(todo_list("lost")))});
    assert_eq!(cli.emit_with_ack("message", &lost).await["ok"], false);
    assert_eq!(todos(&world, &session).await, todo_list("valid"), "the list of an unwritten message is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_todo_list_over_the_size_limit_is_ignored_but_its_message_is_stored() {
    let (world, session, mut cli) = live_session().await;
    send_list(&mut cli, &session, "valid").await;
    let oversized: Vec<Value> = (0..5_000).map(|n| json!({"content": format!("{n}{}", "x".repeat(80))})).collect();
    send_message(&mut cli, &session, &agent_message(output_content(json!(oversized)))).await;
    let record = world.get_session(&session).await;
    assert_eq!((&record["seq"], &record["todos"]), (&json!(2), &todo_list("valid")));
    clear_stored_todos(&world).await;
    assert_eq!(todos(&world, &session).await, todo_list("valid"), "the search ignores the oversized list, too");
}

/// Clears the stored lists and hibernates the hub. Sessions that an older version of the hub wrote have no stored list.
async fn clear_stored_todos(world: &World) {
    run_until_idle().await;
    world.db.execute("UPDATE sessions SET todos = NULL");
    world.hibernate_and_wake().await;
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_a_session_without_a_stored_todo_list_are_searched_on_first_access() {
    for (name, message) in list_messages() {
        let (world, session, mut cli) = live_session().await;
        send_list(&mut cli, &session, "older").await;
        send_message(&mut cli, &session, &message).await;
        let text = json!({"role": "agent", "content": {"type": "text", "text": "no \"plan\" here"}});
        send_message(&mut cli, &session, &text).await;
        let unknown = tool_call_content("zeta", todo_list("newer, but of an unknown type"));
        send_message(&mut cli, &session, &agent_message(unknown)).await;
        clear_stored_todos(&world).await;
        assert_eq!(todos(&world, &session).await, todo_list(&name), "{name}");
        assert_eq!(progress(&world).await, counts(1, 3), "{name}");
        world.hibernate_and_wake().await;
        assert_eq!(progress(&world).await["total"], 3, "the list that was found is stored: {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_a_session_without_any_todo_list_are_searched_once() {
    let (world, session, mut cli) = live_session().await;
    cli.send_message(&session, "hello").await;
    clear_stored_todos(&world).await;
    assert_eq!(world.get_session(&session).await.get("todos"), None);
    let (reads, writes) = (world.db.read_count(), world.db.write_count());
    for _ in 0..3 {
        assert_eq!(world.get_session(&session).await.get("todos"), None);
    }
    assert_eq!((world.db.read_count(), world.db.write_count()), (reads, writes));
}

#[tokio::test(start_paused = true)]
async fn the_search_finds_a_todo_list_before_many_messages_that_contain_its_keywords() {
    let (world, session, mut cli) = live_session().await;
    send_list(&mut cli, &session, "oldest").await;
    for n in 0..120 {
        let text = json!({"role": "agent", "content": {"type": "text", "text": n}, "meta": {"permissionMode": "plan"}});
        send_message(&mut cli, &session, &text).await;
    }
    clear_stored_todos(&world).await;
    assert_eq!(todos(&world, &session).await, todo_list("oldest"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_search_for_a_todo_list_is_repeated() {
    let (world, session, mut cli) = live_session().await;
    send_list(&mut cli, &session, "found").await;
    clear_stored_todos(&world).await;
    // Loads the session, so that the next read is the search.
    cli.update_agent_state(&session, 1, &json!({})).await;
    world.db.fail(BatchKind::Reads, permanent_error());
    let path = format!("/api/sessions/{session}");
    let first = world.get(&path).await;
    if first.status != 503 {
        assert_eq!(first.ok()["session"]["todos"], todo_list("found"));
    }
    assert_eq!(todos(&world, &session).await, todo_list("found"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_during_a_search_all_return_the_todo_list() {
    let (world, session, mut cli) = live_session().await;
    send_list(&mut cli, &session, "found").await;
    clear_stored_todos(&world).await;
    cli.update_agent_state(&session, 1, &json!({})).await;
    world.db.hold_results(BatchKind::Reads);
    let reads: Vec<_> = (0..3).map(|_| world.start("GET", &format!("/api/sessions/{session}"), "")).collect();
    run_until_idle().await;
    world.db.release_results();
    for read in reads {
        assert_eq!(read.reply().await.ok()["session"]["todos"], todo_list("found"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_todo_list_that_arrives_during_the_search_replaces_the_list_that_the_search_finds() {
    let (world, session, mut cli) = live_session().await;
    send_list(&mut cli, &session, "old").await;
    clear_stored_todos(&world).await;
    cli.update_agent_state(&session, 1, &json!({})).await;
    world.db.hold_results(BatchKind::Reads);
    let read = world.start_and_run("GET", &format!("/api/sessions/{session}"), "").await;
    send_list(&mut cli, &session, "new").await;
    world.db.release_results();
    assert_eq!(read.reply().await.ok()["session"]["todos"], todo_list("new"));
    world.hibernate_and_wake().await;
    assert_eq!(todos(&world, &session).await, todo_list("new"));
}

#[tokio::test(start_paused = true)]
async fn a_search_that_finds_no_list_does_not_hide_later_activity() {
    let (world, session, mut cli) = live_session().await;
    cli.send_message(&session, "no list").await;
    world.hibernate_and_wake().await;
    world.get_session(&session).await;
    world.advance_in_steps(10_000).await;
    cli.socket.close();
    assert_eq!(world.get_session(&session).await["activeAt"], world.now());
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["activeAt"], world.now());
}
