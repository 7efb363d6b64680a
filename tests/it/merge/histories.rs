//! The merge of two sessions: a session that was resumed under a new id gets the messages of the old session.

use crate::support::merge::{
    MergeFixture, history, merge_fixture, resumable_metadata, resume, send_text, success, texts,
};
use crate::support::openapi::documented_properties;
use crate::support::prelude::*;
use crate::support::settings::{set_values, settings_of};

#[tokio::test(start_paused = true)]
async fn a_session_that_was_resumed_under_a_new_id_gets_the_messages_of_the_old_session() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let mut web = world.web("all=true").await;
    let mut web_of_new = world.web(&format!("sessionId={new}")).await;
    cli.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    let merged: Vec<(String, Option<String>)> =
        [("one", None), ("two", Some("b")), ("three", Some("c")), ("four", Some("d"))]
            .into_iter()
            .map(|(text, id): (&str, Option<&str>)| (text.to_owned(), id.map(str::to_owned)))
            .collect();
    assert_eq!(history(&world, &new).await, merged);
    assert_eq!(pick(&world.get_session(&new).await, ["seq", "active"]), json!([4, true]));
    assert_eq!(web.next_event_of("session-removed").await["sessionId"], old.as_str());
    assert_eq!(world.get("/api/sessions?archived=include").await.ok()["sessions"].as_array().unwrap().len(), 1);
    world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
    assert_eq!(world.db.number("SELECT count(*) FROM sessions WHERE namespace = 'team'"), 1);
    let wait_for_seq = async |web: &mut Web| loop {
        let data = web.next_event_of("session-updated").await["data"].clone();
        if data["seq"] == 4 {
            return;
        }
    };
    wait_for_seq(&mut web_of_new).await;

    // New messages are numbered after the merged messages, and repeated local ids are found.
    send_text(&mut cli, &new, "five", None).await;
    for (local_id, seq) in [("b", 2), ("c", 3), ("d", 4)] {
        let again = json!({"sid": new, "message": {"text": "again"}, "localId": local_id});
        assert_eq!(cli.emit_with_ack("message", &again).await["seq"], seq, "{local_id}");
    }
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "five"]);
    world.hibernate_and_wake().await;
    send_text(&mut cli, &new, "six", None).await;
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "five", "six"]);
    assert_eq!(resume(&world, &new).reply().await.ok(), success(&new));
    resume(&world, &old).reply().await.assert_error(404, "session_not_found");
}

#[tokio::test(start_paused = true)]
async fn the_merged_session_is_written_once() {
    let MergeFixture { world, new, mut cli, reply, .. } = merge_fixture(json!({"name": "Mine"}), json!({})).await;
    let before = world.db.write_batches().len();
    cli.send_keep_alive(&world, &new).await;
    reply.reply().await.ok();
    run_until_idle().await;
    let batches = world.db.write_batches();
    let writes = batches[before..].iter().flatten().filter(|statement| statement.sql.contains("INSERT INTO sessions"));
    assert_eq!(writes.count(), 1);
    assert_eq!(world.get_session(&new).await["metadata"]["name"], "Mine");
}

#[tokio::test(start_paused = true)]
async fn the_merged_session_has_the_metadata_that_users_set_in_the_old_session() {
    let old_metadata = json!({
        "name": "Mine", "worktree": {"basePath": "/w", "branch": "b", "name": "n"},
        "summary": {"text": "newer", "updatedAt": 20},
    });
    let MergeFixture { world, new, mut cli, reply, .. } =
        merge_fixture(old_metadata.clone(), json!({"version": "2", "summary": {"text": "older", "updatedAt": 10}}))
            .await;
    cli.send_keep_alive(&world, &new).await;
    reply.reply().await.ok();
    for round in ["before hibernation", "after hibernation"] {
        let metadata = world.get_session(&new).await["metadata"].clone();
        for field in ["name", "worktree", "summary"] {
            assert_eq!(metadata[field], old_metadata[field], "{field} {round}");
        }
        assert_eq!((&metadata["path"], &metadata["version"]), (&json!("/work#2"), &json!("2")));
        assert_eq!(metadata.get("betaSessionId"), None, "the agent id is not copied");
        world.hibernate_and_wake().await;
    }
    let update = cli.next_event("update").await["body"].clone();
    assert_eq!((&update["metadata"]["version"], &update["metadata"]["value"]["name"]), (&json!(2), &json!("Mine")));

    let newer = json!({"name": "Other", "summary": {"text": "newest", "updatedAt": 30}, "worktree": {"name": "o"}});
    let MergeFixture { world, new, mut cli, reply, .. } = merge_fixture(old_metadata, newer.clone()).await;
    cli.send_keep_alive(&world, &new).await;
    reply.reply().await.ok();
    let metadata = world.get_session(&new).await["metadata"].clone();
    for field in ["name", "worktree", "summary"] {
        assert_eq!(metadata[field], newer[field], "a field of the new session is not overwritten: {field}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_people_set_on_the_old_session_stays_after_a_merge() {
    let settings = set_values();
    let names = settings.keys().map(String::as_str).chain(["name", "expectedVersion"]);
    assert_eq!(documented_properties("operationId: changeSession"), names.map(str::to_owned).collect());
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    world.request("PATCH", &format!("/api/sessions/{old}"), r#"{"name":"N"}"#).await.ok();
    world.change_session(&old, &settings).await;
    let mut web = world.web("all=true").await;
    cli.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    let has_all = |data: &Value| data["metadata"]["name"] == "N" && settings_of(data) == settings;
    let is_merge = |event: &Value| event["sessionId"] == new.as_str() && has_all(&event["data"]);
    assert!(web.events().await.iter().any(is_merge));
    for round in ["before hibernation", "after hibernation"] {
        assert!(has_all(&world.get_session(&new).await), "{round}");
        world.hibernate_and_wake().await;
    }
}

/// A message of the agent that sets a todo list with one entry.
fn todos_message(status: &str) -> Value {
    let todos = json!([{"id": "1", "content": "test", "status": status, "priority": "high"}]);
    let data = json!({"type": "tool-call", "name": "TodoWrite", "input": {"todos": todos}});
    json!({"role": "agent", "content": {"type": "beta", "data": data}, "text": status})
}

#[tokio::test(start_paused = true)]
async fn the_todos_of_the_old_session_are_copied_unless_the_new_session_has_todos() {
    for has_todos in [false, true] {
        let world = World::new();
        let mut runner = world.spawner("m", "box").await;
        let old = world.create_session_with("/code", resumable_metadata()).await;
        let mut old_cli = world.cli(&old).await;
        old_cli.emit_with_ack("message", &json!({"sid": old, "message": todos_message("pending")})).await;
        let reply = resume(&world, &old);
        let new = world.create_session("/new").await;
        let mut cli = world.cli(&new).await;
        if has_todos {
            cli.emit_with_ack("message", &json!({"sid": new, "message": todos_message("completed")})).await;
        }
        runner.respond_to_next_call("spawnSession", &json!({"success": true, "sessionId": new})).await;
        cli.send_keep_alive(&world, &new).await;
        reply.reply().await.ok();
        let expected = if has_todos { "completed" } else { "pending" };
        assert_eq!(world.get_session(&new).await["todos"][0]["status"], expected);
        world.hibernate_and_wake().await;
        assert_eq!(world.get_session(&new).await["todos"][0]["status"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_merged_session_has_the_completed_requests_of_both_sessions() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let (old, mut old_cli) = world.active_session_with("/code", resumable_metadata()).await;
    let entry = |tool: &str, at: u64| json!({"tool": tool, "arguments": {}, "status": "approved", "completedAt": at});
    let record =
        json!({"requests": {"w": {"tool": "W"}}, "completedRequests": {"a": entry("A", 1), "x": entry("old", 2)}});
    old_cli.update_agent_state(&old, 1, &record).await;
    old_cli.emit_with_ack("session-end", &json!({"sid": old, "time": world.now()})).await;
    let reply = resume(&world, &old);
    let new = world.create_session("/new").await;
    let mut cli = world.cli(&new).await;
    let record =
        json!({"requests": {"p": {"tool": "P"}}, "completedRequests": {"x": entry("new", 3), "b": entry("B", 4)}});
    cli.update_agent_state(&new, 1, &record).await;
    world.get_session(&new).await;
    runner.respond_to_next_call("spawnSession", &json!({"success": true, "sessionId": new})).await;
    cli.send_keep_alive(&world, &new).await;
    reply.reply().await.ok();
    let state = world.get_session(&new).await["agentState"].clone();
    let completed = &state["completedRequests"];
    let tools: Vec<&Value> = ["a", "b", "x", "w"].iter().map(|id| &completed[*id]["tool"]).collect();
    assert_eq!(tools, ["A", "B", "new", "W"], "{completed}");
    assert_eq!(completed["w"]["status"], "canceled");
    assert_eq!(state["requests"], json!({"p": {"tool": "P"}}), "requests of the new session stay pending");
}

#[tokio::test(start_paused = true)]
async fn a_read_of_completed_requests_from_before_a_merge_is_repeated() {
    let world = World::new();
    let (old, mut before) = world.active_session_with("/code", resumable_metadata()).await;
    before.update_agent_state(&old, 1, &json!({"completedRequests": {"a": {"tool": "A", "completedAt": 1}}})).await;
    before.emit_with_ack("session-end", &json!({"sid": old, "time": world.now()})).await;
    let new = world.create_session("/new").await;
    world.hibernate_and_wake().await;
    let mut runner = world.spawner("m", "box").await;
    let _cli = world.live_cli(&new).await;
    let reply = resume(&world, &old);
    let call = runner.next_call().await;
    world.db.hold_results(BatchKind::Reads);
    let early = world.start("GET", &format!("/api/sessions/{new}"), "");
    assert_eq!(world.held_results().await, 1, "the completed requests are being read");
    world.db.stop_holding();
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    assert_eq!(reply.reply().await.ok(), success(&new));
    world.db.release_results();
    assert_eq!(early.reply().await.ok()["session"]["agentState"]["completedRequests"]["a"]["tool"], "A");
    assert_eq!(world.get_session(&new).await["agentState"]["completedRequests"]["a"]["tool"], "A");
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_stored_in_parts_are_merged() {
    let MergeFixture { world, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let long = "x".repeat(3_500_000);
    send_text(&mut cli, &new, &long, Some("long")).await;
    cli.send_keep_alive(&world, &new).await;
    reply.reply().await.ok();
    let all = texts(&world, &new).await;
    assert_eq!(all[..4], ["one", "two", "three", "four"]);
    assert!(all[4] == long, "the long message is unchanged");
}

#[tokio::test(start_paused = true)]
async fn connected_web_clients_of_the_merged_session_get_a_gap_because_its_messages_are_renumbered() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let mut web_of_new = world.web(&format!("sessionId={new}&all=true")).await;
    let mut others = [world.web("all=true").await, world.web(&format!("sessionId={old}")).await];
    cli.send_keep_alive(&world, &new).await;
    reply.reply().await.ok();
    send_text(&mut cli, &new, "five", None).await;
    let events = web_of_new.events().await;
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let gap = types.iter().position(|kind| *kind == "connection-changed").expect("no gap");
    assert_eq!(events[gap]["data"]["resume"], "gap");
    assert!(events[gap]["data"]["subscriptionId"].is_string());
    let removal = types.iter().position(|kind| *kind == "session-removed").unwrap();
    let message = types.iter().position(|kind| *kind == "message-received").unwrap();
    assert!(removal < gap && gap < message, "{types:?}");
    for other in &mut others {
        assert!(!other.types().await.contains(&"connection-changed".to_owned()), "it holds no renumbered message");
    }
    // The id of the gap event is the id after the gap. So a client that reconnects with this id gets no second gap event.
    let id = events[gap]["eventId"].as_str().unwrap();
    let query = format!("sessionId={new}&all=true");
    let mut resumed = Web(world.open_event_stream(&query, Some(id), Format::Json).await.unwrap());
    let received = resumed.events().await;
    assert_eq!(received[0]["data"]["resume"], "ok");
    assert_eq!(received[1..], events[gap + 1..]);
}
