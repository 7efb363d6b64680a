//! Web actions that change the lifecycle of a session: abort, switch, archive and delete.

use session_gateway_hub::limits::KILL_TIMEOUT_MS;

use crate::support::prelude::*;

pub fn post_action(world: &World, session: &str, action: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/{action}"), body.to_string())
}

async fn archive(world: &World, session: &str, body: &Value) -> Reply {
    post_action(world, session, "archive", body).reply().await
}

pub async fn end_session(world: &World, session: &str, cli: &mut Cli) {
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    run_until_idle().await;
}

async fn list_session_ids(world: &World, query: &str) -> Vec<String> {
    let list = world.get(&format!("/api/sessions{query}")).await.ok();
    list["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_abort_makes_the_session_inactive_until_the_next_keep_alive() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true})).await;
    let mut web = world.web("all=true").await;
    let reply = post_action(&world, &session, "abort", &json!({"reason": "wrong file"}));
    let call = cli.next_call().await;
    assert_eq!((call.method.as_str(), &call.params), ("abort", &json!({"reason": "wrong file"})));
    assert!(!reply.has_response().await);
    assert_eq!(world.get_session(&session).await["active"], true, "still active until the CLI has replied");
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    assert_eq!(pick(&world.get_session(&session).await, ["active", "thinking"]), json!([false, false]));
    assert_eq!(web.next_event_of("session-updated").await["data"]["active"], false);
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
    post_action(&world, &session, "abort", &json!({})).reply().await.assert_error(409, "session_inactive");
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.get_session(&session).await["active"], true);
    let reply = post_action(&world, &session, "abort", &json!({}));
    assert!(cli.respond_to_next_call("abort", &json!({})).await["reason"].is_string(), "the reason has a default");
    reply.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_action_that_the_cli_rejects_or_does_not_answer_changes_nothing() {
    for action in ["abort", "switch"] {
        let (world, session, mut cli) = session_with_methods(&[]).await;
        post_action(&world, &session, action, &json!({})).reply().await.assert_error(503, "cli_unreachable");
        cli.register(action).await;
        let reply = post_action(&world, &session, action, &json!({}));
        cli.respond_to_next_call(action, &json!({"success": false, "error": "can't"})).await;
        reply.reply().await.assert_error(503, "cli_refused");
        let reply = post_action(&world, &session, action, &json!({}));
        cli.next_call().await;
        cli.time_out_calls(&world, &session).await;
        reply.reply().await.assert_error(504, "rpc_timeout");
        let reply = post_action(&world, &session, action, &json!({}));
        cli.next_call().await;
        cli.socket.close();
        reply.reply().await.assert_error(503, "cli_unreachable");
        let record = world.get_session(&session).await;
        assert_eq!((&record["active"], record.get("mode")), (&json!(true), None), "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_switch_changes_the_mode_from_local_to_remote() {
    let (world, session, mut cli) = session_with_methods(&["switch"]).await;
    let mut web = world.web("all=true").await;
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "mode": "local"})).await;
    assert_eq!(web.next_event_of("session-updated").await["data"]["mode"], "local");
    assert_eq!(world.get_session(&session).await["mode"], "local");
    let reply = post_action(&world, &session, "switch", &json!({}));
    assert_eq!(cli.respond_to_next_call("switch", &json!({"success": true})).await, json!({"to": "remote"}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    assert_eq!(web.next_event_of("session-updated").await["data"]["mode"], "remote");
    assert_eq!(pick(&world.get_session(&session).await, ["mode", "active"]), json!(["remote", true]));
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["mode"], "remote", "the change is persisted");
    end_session(&world, &session, &mut cli).await;
    post_action(&world, &session, "switch", &json!({})).reply().await.assert_error(409, "session_inactive");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_disappears_at_once_and_alarms_delete_its_messages_in_chunks_even_after_hibernation() {
    let world = World::new();
    let session = world.create_session("/large").await;
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
         INSERT INTO messages (session_id, seq, id, local_id, created_at, content)
         SELECT '{session}', i, 'm' || i, 'l' || i, 1, '1' FROM n"
    ));
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    let path = format!("/api/sessions/{session}");
    world.get(&path).await.assert_error(404, "session_not_found");
    world.get(&format!("{path}/messages")).await.assert_error(404, "session_not_found");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"], json!([]));
    let again = world.create_session("/large").await;
    assert_ne!(again, session, "its tag is free");
    let count = || world.db.number("SELECT count(*) FROM messages");
    world.fire_alarm_at(world.now() + 1).await;
    assert_eq!(count(), 7_000);
    world.hibernate_and_wake().await;
    world.advance(1_000).await;
    assert_eq!((count(), world.rt.alarm()), (0, None));
    assert_eq!(world.db.number("SELECT count(*) FROM sessions"), 1);
    let batches = world.db.read_count() + world.db.write_count();
    world.hibernate_and_wake().await;
    world.advance(60_000).await;
    assert_eq!(world.db.read_count() + world.db.write_count(), batches, "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_unknown_outcome_is_swept_without_another_deletion() {
    for committed in [false, true] {
        let (world, session) = idle_session().await;
        let error = DbError::Unavailable("Network connection lost".into());
        world.db.fail_write(error, committed);
        world.request("DELETE", &format!("/api/sessions/{session}"), "").await.assert_error(503, "hub_unavailable");
        world.advance(60_000).await;
        assert_eq!(world.db.number("SELECT count(*) FROM sessions"), i64::from(!committed), "{committed}");
        assert!(!world.rt.stored_entries().contains_key("sweep"), "{committed}: nothing is left to sweep");
    }
}

#[tokio::test(start_paused = true)]
async fn an_active_session_is_archived_after_its_cli_has_replied_to_kill_session() {
    let (world, session, mut cli) = session_with_methods(&["killSession"]).await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    world.rt.set_now(world.now() + 50);
    let reply = post_action(&world, &session, "archive", &json!({"reason": "done with it"}));
    let call = cli.next_call().await;
    assert_eq!((call.method.as_str(), &call.params), ("killSession", &json!({})));
    assert!(!reply.has_response().await);
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    let record = world.get_session(&session).await;
    let metadata = json!({
        "path": "/code", "host": "box", "lifecycleState": "archived", "lifecycleStateSince": world.now(),
        "archivedBy": "web", "archiveReason": "done with it",
    });
    assert_eq!((&record["metadata"], &record["metadataVersion"]), (&metadata, &json!(2)));
    assert_eq!(record["active"], false);
    assert_eq!(second.next_event("update").await["body"]["metadata"], json!({"version": 2, "value": metadata}));
    let mut changes = Value::Null;
    while changes.get("metadata").is_none() {
        changes = web.next_event_of("session-updated").await["data"].clone();
    }
    assert_eq!(changes["metadata"]["lifecycleState"], "archived");
}

#[tokio::test(start_paused = true)]
async fn a_session_in_any_state_can_be_archived() {
    let world = World::new();
    let unused = world.create_session("/unused").await;
    archive(&world, &unused, &json!({})).await.ok();
    let (ended, mut cli) = world.active_session("/ended").await;
    end_session(&world, &ended, &mut cli).await;
    archive(&world, &ended, &json!({"reason": "first"})).await.ok();
    archive(&world, &ended, &json!({"reason": "second"})).await.ok();
    let disconnected = world.create_session("/disconnected").await;
    world.live_cli(&disconnected).await.socket.close();
    archive(&world, &disconnected, &json!({})).await.ok();
    let (without_handler, cli) = world.active_session("/without-handler").await;
    let reply = world.request("POST", &format!("/api/sessions/{without_handler}/archive"), "").await;
    assert_eq!(reply.ok(), json!({"ok": true}), "the body is empty, and the CLI has no handler for killSession");
    cli.socket.close();
    for (session, reason) in [
        (&unused, "Archived by user"),
        (&ended, "second"),
        (&disconnected, "Archived by user"),
        (&without_handler, "Archived by user"),
    ] {
        let record = world.get_session(session).await;
        assert_eq!(record["active"], false);
        assert_eq!(record["metadata"]["lifecycleState"], "archived");
        assert_eq!(record["metadata"]["archivedBy"], "web");
        assert_eq!(record["metadata"]["archiveReason"], reason);
    }
    let reply = archive(&world, &unused, &json!({"reason": 5})).await;
    assert_eq!(reply.assert_error(400, "invalid_field")["field"], "reason");
}

#[tokio::test(start_paused = true)]
async fn an_archive_waits_at_most_five_seconds_for_the_cli() {
    let (world, session, mut cli) = session_with_methods(&["killSession"]).await;
    let reply = post_action(&world, &session, "archive", &json!({}));
    cli.next_call().await;
    run_until_idle().await;
    assert!(world.rt.alarm().is_some_and(|at| at <= world.now() + 5_000));
    world.advance(4_999).await;
    assert!(!reply.is_ready());
    world.advance(1).await;
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["metadata"]["lifecycleState"], "archived");
    // An error result or a lost connection does not prevent the archive either.
    for case in ["error", "disconnect"] {
        let (session, mut cli) = world.active_session(&format!("/{case}")).await;
        cli.register("killSession").await;
        let reply = post_action(&world, &session, "archive", &json!({}));
        let call = cli.next_call().await;
        match case {
            "error" => cli.respond(&call, &json!({"success": false, "error": "no"})),
            _ => cli.socket.close(),
        }
        reply.reply().await.ok();
        assert_eq!(world.get_session(&session).await["active"], false, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_archive_kills_the_cli_of_an_inactive_session() {
    let (world, session, mut cli) = session_with_methods(&["killSession"]).await;
    world.advance(30_000).await;
    assert_eq!(world.get_session(&session).await["active"], false, "expired");
    let reply = post_action(&world, &session, "archive", &json!({}));
    assert_eq!(cli.respond_to_next_call("killSession", &json!({"success": true})).await, json!({}));
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["metadata"]["lifecycleState"], "archived");
}

#[tokio::test(start_paused = true)]
async fn no_event_of_its_cli_restores_an_archived_session() {
    let (world, session, mut cli) = session_with_methods(&["killSession"]).await;
    let reply = post_action(&world, &session, "archive", &json!({}));
    let call = cli.next_call().await;
    let metadata = json!({"path": "/code", "host": "box", "lifecycleState": "completed", "exit": 0});
    let updated = cli
        .emit_with_ack("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata}))
        .await;
    assert_eq!(updated["result"], "success");
    end_session(&world, &session, &mut cli).await;
    cli.respond(&call, &json!({"success": true}));
    reply.reply().await.ok();
    let record = world.get_session(&session).await;
    assert_eq!(record["metadata"]["lifecycleState"], "archived");
    assert_eq!((&record["metadata"]["exit"], &record["metadataVersion"]), (&json!(0), &json!(3)));
    for _ in 0..3 {
        cli.send_keep_alive(&world, &session).await;
        world.advance(2_000).await;
    }
    world.hibernate_and_wake().await;
    cli.send_keep_alive(&world, &session).await;
    let record = world.get_session(&session).await;
    assert_eq!((&record["active"], &record["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
    assert_eq!(list_session_ids(&world, "").await, Vec::<String>::new());
    world
        .post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"}))
        .await
        .assert_error(409, "session_inactive");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_cli_archives_is_inactive_even_if_the_cli_sends_keep_alives() {
    let (world, session, mut cli) = session_with_methods(&[]).await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
    let metadata = json!({"path": "/code", "host": "box", "lifecycleState": "archived"});
    cli.put_metadata(&session, 1, &metadata).await;
    for _ in 0..4 {
        cli.send_keep_alive(&world, &session).await;
        let record = world.get_session(&session).await;
        assert_eq!((&record["active"], &record["agentState"]["requests"]), (&json!(false), &json!({})));
        assert_eq!(record["agentState"]["completedRequests"]["r"]["status"], "canceled");
        world.hibernate_and_wake().await;
        world.advance(10_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_during_an_archive_does_not_keep_the_session_active() {
    let (world, session, mut cli) = session_with_methods(&[]).await;
    let metadata = json!({"path": "/code", "host": "box", "notes": "x".repeat(1_500_000)});
    cli.put_metadata(&session, 1, &metadata).await;
    world.db.hold_all_results();
    let reply = post_action(&world, &session, "archive", &json!({}));
    assert_eq!(world.held_results().await, 1, "the archive reads the metadata");
    cli.emit("session-alive", &json!({"sid": session, "time": 0}));
    world.release_results().await;
    reply.reply().await.ok();
    cli.send_keep_alive(&world, &session).await;
    let record = world.get_session(&session).await;
    assert_eq!((&record["active"], &record["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
}

#[tokio::test(start_paused = true)]
async fn creating_a_session_with_the_tag_of_an_archived_session_restores_that_session_and_keeps_its_name() {
    let (world, session, mut cli) = session_with_methods(&[]).await;
    cli.send_message(&session, "old").await;
    world.request("PATCH", &format!("/api/sessions/{session}"), json!({"name": "Mine"}).to_string()).await.ok();
    archive(&world, &session, &json!({})).await.ok();
    let mut web = world.web("all=true").await;
    let again = world.create_session_with("/code", json!({"version": "2"})).await;
    assert_eq!(again, session);
    let record = world.get_session(&session).await;
    let metadata = json!({"path": "/code", "host": "box", "version": "2", "name": "Mine"});
    assert_eq!((&record["metadata"], &record["seq"], &record["active"]), (&metadata, &json!(1), &json!(false)));
    assert_eq!(web.next_event_of("session-updated").await["data"]["metadata"], metadata);
    assert_eq!(list_session_ids(&world, "").await, [session.as_str()]);
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.get_session(&session).await["active"], true);
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["metadata"], metadata, "the change is persisted");
    let named = world.create_session_with("/code", json!({"name": "Other"})).await;
    assert_eq!(
        world.get_session(&named).await["metadata"]["name"],
        "Mine",
        "the metadata of a session that is not archived does not change"
    );
}

#[tokio::test(start_paused = true)]
async fn the_session_list_includes_archived_sessions_on_request() {
    let world = World::new();
    let (open, archived) = (world.create_session("/open").await, world.create_session("/archived").await);
    let archived_by_cli = world.create_session("/archived-by-cli").await;
    archive(&world, &archived, &json!({})).await.ok();
    let mut cli = world.cli(&archived_by_cli).await;
    let metadata = json!({"path": "/archived-by-cli", "host": "box", "lifecycleState": "archived"});
    cli.put_metadata(&archived_by_cli, 1, &metadata).await;
    for round in ["before hibernation", "after hibernation"] {
        assert_eq!(list_session_ids(&world, "").await, [open.as_str()], "{round}");
        let mut listed = list_session_ids(&world, "?archived=only").await;
        listed.sort();
        let mut expected = vec![archived.clone(), archived_by_cli.clone()];
        expected.sort();
        assert_eq!(listed, expected, "{round}");
        let mut listed = list_session_ids(&world, "?archived=include").await;
        listed.sort();
        expected.push(open.clone());
        expected.sort();
        assert_eq!(listed, expected, "{round}");
        world.hibernate_and_wake().await;
    }
    assert_eq!(world.get("/api/sessions?archived=maybe").await.assert_error(400, "invalid_field")["field"], "archived");
}

#[tokio::test(start_paused = true)]
async fn only_an_inactive_session_can_be_deleted() {
    let (world, session, mut cli) = session_with_methods(&[]).await;
    let delete = async || world.request("DELETE", &format!("/api/sessions/{session}"), "").await;
    cli.send_message(&session, "hello").await;
    cli.update_agent_state(&session, 1, &json!({"completedRequests": {"r": {"tool": "Bash", "status": "denied"}}}))
        .await;
    delete().await.assert_error(409, "session_active");
    archive(&world, &session, &json!({})).await.ok();
    let mut web = world.web("all=true").await;
    assert_eq!(delete().await.ok(), json!({"ok": true}));
    assert_eq!(web.next_event_of("session-removed").await["sessionId"], session.as_str());
    delete().await.assert_error(404, "session_not_found");
    world.get(&format!("/api/sessions/{session}/messages")).await.assert_error(404, "session_not_found");
    world.fire_alarm_at(world.now() + 1).await;
    for table in ["sessions", "messages", "completed_requests"] {
        assert_eq!(world.db.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_ne!(world.create_session("/code").await, session, "the tag can be used again");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_archived_in_time_even_if_its_cli_answers_no_call_and_its_frames_wait_for_the_database() {
    let (world, session, mut cli) = session_with_methods(&["killSession"]).await;
    let other = world.create_session("/other").await;
    world.hibernate_and_wake().await;
    let reply = post_action(&world, &session, "archive", &json!({}));
    assert_eq!(cli.next_call().await.method, "killSession");
    world.db.hold_results(BatchKind::Reads);
    cli.emit("message", &json!({"sid": other, "message": "waits for its session"}));
    assert_eq!(world.held_results().await, 1);
    world.advance(KILL_TIMEOUT_MS).await;
    assert!(reply.has_response().await, "the archive does not wait for the frames");
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    world.db.release_results();
}
