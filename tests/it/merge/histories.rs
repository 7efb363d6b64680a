//! The merge of two sessions: a session that was resumed under a new id gets the messages of the old one.

use crate::support::merge::{
    MergeFixture, begin_merge, history, merge_fixture, resumable_metadata, resume, send_text, success, texts,
};
use crate::support::sqlite::{BatchKind, permanent_error};
use crate::support::web::Web;
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::hub::base::peers::subscription::Format;

#[tokio::test(start_paused = true)]
async fn a_session_that_was_resumed_under_a_new_id_gets_the_old_messages() {
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
    let record = world.get_session(&new).await;
    assert_eq!((&record["seq"], &record["active"]), (&json!(4), &json!(true)));
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

    // New messages are numbered after the merged ones, and repeated local ids are found.
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
async fn the_merged_session_is_pinned_if_the_old_one_was() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    world.request("PATCH", &format!("/api/sessions/{old}"), r#"{"pinned":true}"#).await.ok();
    let mut web = world.web("all=true").await;
    cli.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    let is_pinned = |event: &Value| event["sessionId"] == new.as_str() && event["data"]["pinned"] == true;
    assert!(web.events().await.iter().any(is_pinned));
    for round in ["before hibernation", "after hibernation"] {
        assert_eq!(world.get_session(&new).await["pinned"], true, "{round}");
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
async fn todos_are_copied_unless_the_new_session_has_some() {
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
        runner.serve("spawnSession", &json!({"success": true, "sessionId": new})).await;
        cli.send_keep_alive(&world, &new).await;
        reply.reply().await.ok();
        let expected = if has_todos { "completed" } else { "pending" };
        assert_eq!(world.get_session(&new).await["todos"][0]["status"], expected);
        world.hibernate_and_wake().await;
        assert_eq!(world.get_session(&new).await["todos"][0]["status"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_merged_session_has_the_completed_requests_of_both() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.create_session_with("/code", resumable_metadata()).await;
    let mut old_cli = world.live_cli(&old).await;
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
    runner.serve("spawnSession", &json!({"success": true, "sessionId": new})).await;
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
    let old = world.create_session_with("/code", resumable_metadata()).await;
    let mut before = world.live_cli(&old).await;
    before.update_agent_state(&old, 1, &json!({"completedRequests": {"a": {"tool": "A", "completedAt": 1}}})).await;
    before.emit_with_ack("session-end", &json!({"sid": old, "time": world.now()})).await;
    let new = world.create_session("/new").await;
    world.hibernate_and_wake().await;
    let mut runner = world.spawner("m", "box").await;
    let _cli = world.live_cli(&new).await;
    let reply = resume(&world, &old);
    let call = runner.next_call().await;
    world.db.hold(BatchKind::Reads);
    let early = world.start("GET", &format!("/api/sessions/{new}"), "");
    run_until_idle().await;
    assert_eq!(world.db.held_count(), 1, "the completed requests are being read");
    world.db.stop_holding();
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    assert_eq!(reply.reply().await.ok(), success(&new));
    world.db.release();
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
async fn messages_during_a_merge_wait_and_are_appended_in_order() {
    let mut fixture = merge_fixture(json!({}), json!({})).await;
    begin_merge(&mut fixture, None).await;
    let MergeFixture { world, new, mut cli, reply, .. } = fixture;
    let late_message =
        |n: usize| json!({"sid": new, "message": {"text": format!("late {n}")}, "localId": format!("late {n}")});
    let mut acks: Vec<u64> = (0..5).map(|n| cli.emit_for_ack("message", &late_message(n))).collect();
    // The local ids of a merged message and of a message that is still waiting.
    acks.push(cli.emit_for_ack("message", &json!({"sid": new, "message": {"text": "again"}, "localId": "c"})));
    acks.push(cli.emit_for_ack("message", &late_message(4)));
    let sent = world.start("POST", &format!("/api/sessions/{new}/messages"), r#"{"text":"from the web"}"#);
    run_until_idle().await;
    assert!(!sent.is_ready() && !reply.is_ready());
    world.db.release();
    reply.reply().await.ok();
    let mut seqs = Vec::new();
    for ack in acks {
        seqs.push(cli.wait_for_ack(ack).await["seq"].as_u64().unwrap());
    }
    sent.reply().await.ok();
    assert_eq!((seqs[5], seqs[6]), (3, seqs[4]), "{seqs:?}");
    let mut all = texts(&world, &new).await;
    assert_eq!(all.len(), 10);
    all.retain(|text| text != "from the web");
    assert_eq!(all, ["one", "two", "three", "four", "late 0", "late 1", "late 2", "late 3", "late 4"]);
    assert_eq!(world.get_session(&new).await["seq"], 10);
}

#[tokio::test(start_paused = true)]
async fn messages_during_the_second_of_two_merges_into_one_session_wait_for_it_too() {
    let mut fixture = merge_fixture(json!({}), json!({})).await;
    let older = fixture.world.create_session_with("/older", resumable_metadata()).await;
    let mut older_cli = fixture.world.cli(&older).await;
    send_text(&mut older_cli, &older, "zero", None).await;
    let second = resume(&fixture.world, &older);
    let call = fixture.runner.next_call().await;
    fixture.runner.respond(&call, &json!({"success": true, "sessionId": fixture.new}));
    run_until_idle().await;
    begin_merge(&mut fixture, None).await;
    let MergeFixture { world, new, mut cli, reply, .. } = fixture;
    let merges = |world: &World| {
        let batch = world.db.write_batches().pop().unwrap();
        batch.iter().filter(|statement| statement.sql.contains("UPDATE messages SET session_id")).count()
    };
    let mut writes = 0;
    // Commits the first merge and the writes after it, until the second one starts.
    world.db.release_one(0);
    run_until_idle().await;
    while merges(&world) == 0 {
        assert_eq!(world.db.held_count(), 1);
        world.db.release_one(0);
        run_until_idle().await;
        writes += 1;
        assert!(writes < 10, "no second merge has started");
    }
    reply.reply().await.ok();
    let message = json!({"sid": new, "message": {"text": "late"}});
    let ack = cli.emit_for_ack("message", &message);
    run_until_idle().await;
    world.db.release();
    assert_eq!(second.reply().await.ok(), success(&new));
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 6);
    assert_eq!(texts(&world, &new).await, ["zero", "one", "two", "three", "four", "late"]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_during_the_merge_makes_no_call() {
    let mut fixture = merge_fixture(json!({}), json!({})).await;
    begin_merge(&mut fixture, None).await;
    let MergeFixture { world, old, new, mut runner, reply, .. } = fixture;
    drop(runner.socket.drain().await);
    let again = resume(&world, &old);
    runner.socket.assert_no_frames().await;
    world.db.release();
    assert_eq!(reply.reply().await.ok(), success(&new));
    let again = again.reply().await;
    assert!(again.status == 404 || again.json() == success(&new), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_old_session_during_the_merge_have_no_effect() {
    for change in ["state", "metadata", "message", "alive", "end", "rename", "archive", "delete"] {
        let mut fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
        // Loads both sessions completely.
        fixture.world.get_session(&fixture.old).await;
        fixture.world.get_session(&fixture.new).await;
        let lingering = fixture.world.cli(&fixture.old).await;
        begin_merge(&mut fixture, None).await;
        let MergeFixture { world, old, new, mut cli, reply, .. } = fixture;
        let path = format!("/api/sessions/{old}");
        let state = json!({"completedRequests": {"late": {"tool": "T", "status": "denied"}}});
        let metadata = json!({"path": "/code", "host": "box", "name": "Mine", "late": 1});
        let emit = |event: &str, payload: Value| {
            lingering.emit(event, &payload);
            None
        };
        let request = match change {
            "state" => emit("update-state", json!({"sid": old, "expectedVersion": 1, "agentState": state})),
            "metadata" => emit("update-metadata", json!({"sid": old, "expectedVersion": 1, "metadata": metadata})),
            "message" => emit("message", json!({"sid": old, "message": {"text": "lost"}})),
            "alive" => emit("session-alive", json!({"sid": old, "time": world.now()})),
            "end" => emit("session-end", json!({"sid": old, "time": world.now()})),
            "rename" => Some(world.start("PATCH", &path, r#"{"name":"late"}"#)),
            "archive" => Some(world.start("POST", &format!("{path}/archive"), "")),
            _ => Some(world.start("DELETE", &path, "")),
        };
        run_until_idle().await;
        world.db.release();
        let reply = reply.reply().await;
        assert_eq!(reply.status, 200, "{change}: {reply:?}");
        if let Some(request) = request {
            // The request fails, because the session no longer exists.
            request.reply().await.assert_error(404, "session_not_found");
        }
        run_until_idle().await;
        send_text(&mut cli, &new, "five", None).await;
        assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "five"], "{change}");
        world.get(&path).await.assert_error(404, "session_not_found");
        assert!(world.get_session(&new).await["metadata"]["name"].is_string(), "{change}");
        assert_eq!(world.db.number("SELECT count(*) FROM sessions WHERE namespace = 'team'"), 1, "{change}");
        world.hibernate_and_wake().await;
        world.get(&path).await.assert_error(404, "session_not_found");
        world.advance(60_000).await;
        assert!(
            world.rt.stored_entries().keys().all(|key| !key.contains(&old)),
            "{change}: {:?}",
            world.rt.stored_entries()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_new_session_during_the_merge_are_not_lost() {
    let mut fixture = merge_fixture(json!({"name": "Mine"}), json!({})).await;
    begin_merge(&mut fixture, None).await;
    let MergeFixture { world, new, mut cli, reply, .. } = fixture;
    let state =
        json!({"requests": {"r": {"tool": "R"}}, "completedRequests": {"late": {"tool": "T", "status": "denied"}}});
    let state = cli.emit_for_ack("update-state", &json!({"sid": new, "expectedVersion": 1, "agentState": state}));
    let metadata = json!({"path": "/code", "host": "box", "late": 1});
    let metadata =
        cli.emit_for_ack("update-metadata", &json!({"sid": new, "expectedVersion": 1, "metadata": metadata}));
    run_until_idle().await;
    world.db.release();
    reply.reply().await.ok();
    assert_eq!(cli.wait_for_ack(state).await["result"], "success");
    let metadata = cli.wait_for_ack(metadata).await;
    assert!(["success", "version-mismatch"].contains(&metadata["result"].as_str().unwrap()), "{metadata}");
    for round in ["before hibernation", "after hibernation"] {
        let record = world.get_session(&new).await;
        assert_eq!(record["agentState"]["requests"], json!({"r": {"tool": "R"}}), "{round}");
        assert_eq!(record["agentState"]["completedRequests"]["late"]["tool"], "T", "{round}");
        assert_eq!(record["metadata"]["name"], "Mine", "{round}");
        if metadata["result"] == "success" {
            assert_eq!(record["metadata"]["late"], 1, "{round}");
        }
        assert_eq!(record["seq"], 4, "{round}");
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_of_a_session_that_is_deleted_during_the_resume_returns_the_new_session() {
    let MergeFixture { world, old, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let second = resume(&world, &old);
    run_until_idle().await;
    world.request("DELETE", &format!("/api/sessions/{old}"), "").await.ok();
    cli.send_keep_alive(&world, &new).await;
    for reply in [reply, second] {
        assert_eq!(reply.reply().await.ok(), success(&new));
    }
    assert_eq!(texts(&world, &new).await, ["two", "four"]);
}

#[tokio::test(start_paused = true)]
async fn deleting_the_new_session_during_the_merge_deletes_the_merged_messages_too() {
    let mut fixture = merge_fixture(json!({}), json!({})).await;
    let mut web = fixture.world.web("all=true").await;
    begin_merge(&mut fixture, None).await;
    let MergeFixture { world, old, new, cli, reply, .. } = fixture;
    cli.emit("session-end", &json!({"sid": new, "time": world.now()}));
    run_until_idle().await;
    let deleted = world.start("DELETE", &format!("/api/sessions/{new}"), "");
    let lingering = world.start("DELETE", &format!("/api/sessions/{old}"), "");
    run_until_idle().await;
    world.db.release();
    assert_eq!(reply.reply().await.ok(), success(&new));
    deleted.reply().await.ok();
    lingering.reply().await.assert_error(404, "session_not_found");
    for id in [&old, &new] {
        assert_eq!(web.next_event_of("session-removed").await["sessionId"], id.as_str());
        world.get(&format!("/api/sessions/{id}")).await.assert_error(404, "session_not_found");
    }
    world.advance(1_000).await;
    assert_eq!(world.db.number("SELECT count(*) FROM sessions"), 0);
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_merge_starts_while_other_sessions_are_written() {
    let MergeFixture { world, new, cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    let busy = world.create_session("/busy").await;
    let other = world.cli(&busy).await;
    world.db.hold(BatchKind::Writes);
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    run_until_idle().await;
    for n in 0..10 {
        // A change is queued whenever a batch ends.
        other.emit("message", &json!({"sid": busy, "message": {"text": format!("{n}")}}));
        run_until_idle().await;
        world.db.release();
        world.db.hold(BatchKind::Writes);
        run_until_idle().await;
    }
    let batches = world.db.write_batches();
    let has_started = batches.iter().flatten().any(|statement| statement.sql.contains("UPDATE messages"));
    assert!(has_started, "the merge must not wait for other sessions");
    world.db.release();
    assert_eq!(reply.reply().await.ok(), success(&new));
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four"]);
    assert_eq!(texts(&world, &busy).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_local_id_of_the_old_messages_is_found_if_its_lookup_started_before_the_merge() {
    let MergeFixture { world, new, mut cli, reply, .. } = merge_fixture(json!({}), json!({})).await;
    // The session has more local ids than the cache holds, so the hub looks up the older ones in the database.
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 5100)
         INSERT INTO messages (session_id, seq, id, local_id, content, created_at)
         SELECT session_id, i, 'm' || i, 'l' || i, content, created_at FROM messages, n
         WHERE session_id = '{new}' AND seq = 2;
         UPDATE sessions SET seq = 5100 WHERE id = '{new}';"
    ));
    world.db.fail(BatchKind::Writes, permanent_error());
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": new, "message": {"text": "lost"}})).await["ok"], false);
    // The session is in memory again, without its local ids.
    world.get(&format!("/api/sessions/{new}")).await.ok();
    let mut second = world.cli(&new).await;

    world.db.hold(BatchKind::Reads);
    let ack = cli.emit_for_ack("message", &json!({"sid": new, "message": {"text": "three"}, "localId": "c"}));
    run_until_idle().await;
    assert_eq!(world.db.held_count(), 1, "the lookup is held");
    world.db.stop_holding();
    second.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    world.db.release();
    let ack = cli.wait_for_ack(ack).await;
    assert_eq!((&ack["ok"], &ack["seq"]), (&json!(true), &json!(3)), "{ack}");
}

#[tokio::test(start_paused = true)]
async fn a_web_message_that_waited_for_a_merge_is_rejected_if_the_session_has_ended() {
    let mut fixture = merge_fixture(json!({}), json!({})).await;
    begin_merge(&mut fixture, None).await;
    let MergeFixture { world, new, cli, .. } = fixture;
    cli.emit("session-end", &json!({"sid": new, "time": world.now()}));
    run_until_idle().await;
    let sent = world.start("POST", &format!("/api/sessions/{new}/messages"), r#"{"text":"late"}"#);
    run_until_idle().await;
    world.db.release();
    sent.reply().await.assert_error(409, "session_inactive");
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four"]);
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
    // The id of the notice is after the gap, so that a client that reconnects with it gets no second one.
    let id = events[gap]["eventId"].as_str().unwrap();
    let query = format!("sessionId={new}&all=true");
    let mut resumed = Web(world.open_event_stream(&query, Some(id), Format::Json).await.unwrap());
    let received = resumed.events().await;
    assert_eq!(received[0]["data"]["resume"], "ok");
    assert_eq!(received[1..], events[gap + 1..]);
}
