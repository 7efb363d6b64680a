//! Merges during which other requests, messages and lookups arrive.

use crate::support::merge::{
    MergeFixture, begin_merge, begun_merge, merge_fixture, resumable_metadata, resume, send_text, success, texts,
};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn messages_during_a_merge_wait_and_are_appended_in_order() {
    let MergeFixture { world, new, mut cli, reply, .. } = begun_merge(json!({}), None).await;
    let late_message =
        |n: usize| json!({"sid": new, "message": {"text": format!("late {n}")}, "localId": format!("late {n}")});
    let mut acks: Vec<u64> = (0..5).map(|n| cli.emit_for_ack("message", &late_message(n))).collect();
    // The local ids of a merged message and of a message that is still waiting.
    acks.push(cli.emit_for_ack("message", &json!({"sid": new, "message": {"text": "again"}, "localId": "c"})));
    acks.push(cli.emit_for_ack("message", &late_message(4)));
    let sent = world.start("POST", &format!("/api/sessions/{new}/messages"), r#"{"text":"from the web"}"#);
    assert!(!sent.has_response().await && !reply.is_ready());
    world.db.release_results();
    reply.reply().await.ok();
    let seqs = each(acks, async |ack| cli.wait_for_ack(ack).await["seq"].as_u64().unwrap()).await;
    sent.reply().await.ok();
    assert_eq!((seqs[5], seqs[6]), (3, seqs[4]), "{seqs:?}");
    let mut all = texts(&world, &new).await;
    assert_eq!(all.len(), 10);
    all.retain(|text| text != "from the web");
    assert_eq!(all, ["one", "two", "three", "four", "late 0", "late 1", "late 2", "late 3", "late 4"]);
    assert_eq!(world.get_session(&new).await["seq"], 10);
}

#[tokio::test(start_paused = true)]
async fn messages_also_wait_during_the_second_of_two_merges_into_one_session() {
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
    // Commits the first merge and the writes after it, until the second merge starts.
    world.release_result(0).await;
    while merges(&world) == 0 {
        assert_eq!(world.db.held_result_count(), 1);
        world.release_result(0).await;
        writes += 1;
        assert!(writes < 10, "no second merge has started");
    }
    reply.reply().await.ok();
    let message = json!({"sid": new, "message": {"text": "late"}});
    let ack = cli.emit_for_ack("message", &message);
    world.release_results().await;
    assert_eq!(second.reply().await.ok(), success(&new));
    assert_eq!(cli.wait_for_ack(ack).await["seq"], 6);
    assert_eq!(texts(&world, &new).await, ["zero", "one", "two", "three", "four", "late"]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_during_the_merge_makes_no_call() {
    let MergeFixture { world, old, new, mut runner, reply, .. } = begun_merge(json!({}), None).await;
    drop(runner.socket.drain().await);
    let again = resume(&world, &old);
    runner.socket.assert_no_frames().await;
    world.db.release_results();
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
        world.release_results().await;
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
    let MergeFixture { world, new, mut cli, reply, .. } = begun_merge(json!({"name": "Mine"}), None).await;
    let state =
        json!({"requests": {"r": {"tool": "R"}}, "completedRequests": {"late": {"tool": "T", "status": "denied"}}});
    let state = cli.emit_for_ack("update-state", &json!({"sid": new, "expectedVersion": 1, "agentState": state}));
    let metadata = json!({"path": "/code", "host": "box", "late": 1});
    let metadata =
        cli.emit_for_ack("update-metadata", &json!({"sid": new, "expectedVersion": 1, "metadata": metadata}));
    world.release_results().await;
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
    cli.deliver("session-end", &json!({"sid": new, "time": world.now()})).await;
    let deleted = world.start("DELETE", &format!("/api/sessions/{new}"), "");
    let lingering = world.start("DELETE", &format!("/api/sessions/{old}"), "");
    world.release_results().await;
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
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("session-alive", &json!({"sid": new, "time": world.now()})).await;
    for n in 0..10 {
        // A change is queued whenever a batch ends.
        other.deliver("message", &json!({"sid": busy, "message": {"text": format!("{n}")}})).await;
        world.db.release_results();
        world.db.hold_results(BatchKind::Writes);
        run_until_idle().await;
    }
    let batches = world.db.write_batches();
    let has_started = batches.iter().flatten().any(|statement| statement.sql.contains("UPDATE messages"));
    assert!(has_started, "the merge must not wait for other sessions");
    world.db.release_results();
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

    world.db.hold_results(BatchKind::Reads);
    let ack = cli.emit_for_ack("message", &json!({"sid": new, "message": {"text": "three"}, "localId": "c"}));
    assert_eq!(world.held_results().await, 1, "the lookup is held");
    world.db.stop_holding();
    second.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    world.db.release_results();
    let ack = cli.wait_for_ack(ack).await;
    assert_eq!((&ack["ok"], &ack["seq"]), (&json!(true), &json!(3)), "{ack}");
}

#[tokio::test(start_paused = true)]
async fn a_web_message_that_waited_for_a_merge_is_rejected_if_the_session_has_ended() {
    let MergeFixture { world, new, cli, .. } = begun_merge(json!({}), None).await;
    cli.deliver("session-end", &json!({"sid": new, "time": world.now()})).await;
    let sent = world.start("POST", &format!("/api/sessions/{new}/messages"), r#"{"text":"late"}"#);
    world.release_results().await;
    sent.reply().await.assert_error(409, "session_inactive");
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four"]);
}
