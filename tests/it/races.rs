//! Race conditions that the simulation has found, with one test for each.

use crate::support::prelude::*;

/// Makes a write fail, which clears the cache.
async fn fail_one_write(world: &World, cli: &mut Cli, session: &str) {
    world.db.fail(BatchKind::Writes, permanent_error());
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": session, "message": {}})).await["ok"], false);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_the_tag_of_a_session_that_is_being_deleted_creates_a_new_session() {
    let (world, session) = idle_session().await;
    let (busy, cli) = world.active_session("/busy").await;
    run_until_idle().await;
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &json!({"sid": busy, "message": {}})).await;
    // The creation and the deletion are both part of the batch after the one in flight.
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "h"}});
    let created = world.start_and_run("POST", "/cli/sessions", body.to_string()).await;
    let deleted = world.start("DELETE", &format!("/api/sessions/{session}"), "");
    world.release_results().await;
    deleted.reply().await.ok();
    let created = created.reply().await.ok();
    assert_ne!(created["session"]["id"], session.as_str());
    assert_eq!(world.get_session(created["session"]["id"].as_str().unwrap()).await["tag"], "/code");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_registered_even_if_another_write_fails_during_the_registration() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("known").await;
    run_until_idle().await;
    world.db.hold_results(BatchKind::Reads);
    // The id is looked up because the metadata is a large value.
    let body = json!({"id": "m", "metadata": {"host": "box", "text": "x".repeat(1_000_000)}}).to_string();
    let registered = world.start("POST", "/cli/machines", body);
    assert_eq!(world.held_results().await, 1, "the hub reads whether another namespace owns the id");
    fail_one_write(&world, &mut cli, &session).await;
    world.db.release_results();
    assert_eq!(registered.reply().await.ok()["machine"]["id"], "m");
    assert_eq!(world.db.number("SELECT count(*) FROM machines"), 2);
}

/// Sends a burst of messages, which are written in one batch. Returns the ids of their acknowledgements.
fn send_burst(cli: &mut Cli, session: &str) -> Vec<u64> {
    (0..8).map(|n| cli.emit_for_ack("message", &json!({"sid": session, "message": {"n": n}}))).collect()
}

/// Requests a session between two bursts of messages in another session. Returns the response and the acknowledgements.
async fn request_between_bursts(world: &World, cli: &mut Cli, busy: &str, session: &str) -> (PendingReply, Vec<u64>) {
    let mut bursts = send_burst(cli, busy);
    let reply = world.start_and_run("GET", &format!("/api/sessions/{session}"), "").await;
    bursts.extend(send_burst(cli, busy));
    (reply, bursts)
}

async fn assert_all_stored(cli: &mut Cli, bursts: Vec<u64>) {
    for ack in bursts {
        assert_eq!(cli.wait_for_ack(ack).await["ok"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_while_it_is_loaded_stays_deleted() {
    let (world, session) = idle_session().await;
    let busy = world.create_session("/busy").await;
    world.hibernate_and_wake().await;
    let mut cli = world.cli(&busy).await;
    world.db.hold_results(BatchKind::Reads);
    let deleted = world.start("DELETE", &format!("/api/sessions/{session}"), "");
    assert_eq!(world.held_results().await, 1, "the deletion loads the session");
    world.db.stop_holding();
    world.db.hold_results(BatchKind::Writes);
    // The GET request waits for the first burst, which is written before the deletion.
    let (reply, bursts) = request_between_bursts(&world, &mut cli, &busy, &session).await;
    assert_eq!(world.db.held_result_count(), 2);
    // Now the GET request continues, before the deletion is written.
    world.release_results().await;
    deleted.reply().await.ok();
    assert_all_stored(&mut cli, bursts).await;
    reply.reply().await.assert_error(404, "session_not_found");
    world.get(&format!("/api/sessions/{session}")).await.assert_error(404, "session_not_found");
    assert_eq!(cli.emit_with_ack("message", &json!({"sid": session, "message": {}})).await["code"], "not-found");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_canceled_while_the_completed_requests_are_loaded_is_added_to_the_completed_requests() {
    let (world, session) = idle_session().await;
    let busy = world.create_session("/busy").await;
    let mut cli = world.live_cli(&session).await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"r1": {"tool": "T"}}})).await;
    world.hibernate_and_wake().await;
    // The session is cached, its completed requests are not.
    cli.send_message(&session, "hello").await;
    let mut sender = world.cli(&busy).await;
    run_until_idle().await;
    world.db.hold_results(BatchKind::Writes);
    let (reply, bursts) = request_between_bursts(&world, &mut sender, &busy, &session).await;
    assert_eq!(world.db.held_result_count(), 1);
    cli.emit("session-end", &json!({"sid": session, "time": world.now()}));
    world.release_results().await;
    reply.reply().await.ok();
    assert_all_stored(&mut sender, bursts).await;
    let record = world.get_session(&session).await;
    assert_eq!(record["agentState"]["completedRequests"]["r1"]["status"], "canceled", "{record}");
}

#[tokio::test(start_paused = true)]
async fn no_event_of_a_merged_session_follows_its_removal_and_the_other_session_accepts_changes() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.create_session_with("/code", json!({"alphaSessionId": "a", "machineId": "m"})).await;
    let mut web = world.web("all=true").await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.next_call().await;
    let (new, mut cli) = world.active_session("/code#2").await;
    run_until_idle().await;
    world.db.hold_results(BatchKind::Writes);
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    assert_eq!(world.held_results().await, 1, "the merge is being written");
    let renames = [&old, &new].map(|id| world.start("PATCH", &format!("/api/sessions/{id}"), r#"{"name":"late"}"#));
    let state = cli.emit_for_ack("update-state", &json!({"sid": new, "expectedVersion": 1, "agentState": {"n": 1}}));
    world.release_results().await;
    assert_eq!(resumed.reply().await.ok()["sessionId"], new.as_str());
    let [rename_old, rename_new] = renames;
    rename_old.reply().await.assert_error(404, "session_not_found");
    rename_new.reply().await.ok();
    assert_eq!(cli.wait_for_ack(state).await["result"], "success");
    assert_eq!(pick(&world.get_session(&new).await, ["metadata/name", "agentState/n"]), json!(["late", 1]));
    let mut removed = false;
    for event in web.events().await {
        let is_of_old = event["sessionId"] == old.as_str();
        assert!(!(removed && is_of_old), "{event}");
        removed |= is_of_old && event["type"] == "session-removed";
    }
    assert!(removed);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_the_tag_of_a_session_that_is_being_merged_creates_a_new_session() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let metadata = json!({"alphaSessionId": "a", "machineId": "m", "lifecycleState": "archived"});
    let old = world.create_session_with("/code", metadata).await;
    let mut web = world.web("all=true").await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.next_call().await;
    let (new, _cli) = world.active_session("/code#2").await;
    run_until_idle().await;
    world.db.hold_results(BatchKind::Writes);
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    assert_eq!(world.held_results().await, 1, "the merge is being written");
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "h"}});
    let created = world.start("POST", "/cli/sessions", body.to_string());
    world.release_results().await;
    assert_eq!(resumed.reply().await.ok()["sessionId"], new.as_str());
    let id = created.reply().await.ok()["session"]["id"].clone();
    assert_ne!(id, old.as_str());
    assert_ne!(id, new.as_str());
    let is_of_old = |event: &serde_json::Value| event["sessionId"] == old.as_str();
    assert_eq!(web.events().await.into_iter().rfind(is_of_old).unwrap()["type"], "session-removed");
}

#[tokio::test(start_paused = true)]
async fn the_clis_that_may_have_missed_an_uncertain_commit_are_disconnected() {
    let (world, session, mut sender) = live_session().await;
    let mut other = world.cli(&session).await;
    let mut unrelated = world.bare_cli().await;
    run_until_idle().await;
    // The batch is committed, but its result is lost. All retries fail, because the database is unreachable.
    world.db.lose_response(retryable_error());
    world.db.fail_all(BatchKind::Writes, retryable_error());
    let message = json!({"sid": session, "message": {"n": 1}, "localId": "l"});
    let ack = sender.emit_for_ack("message", &message);
    world.exhaust_retries().await;
    assert_eq!(sender.wait_for_ack(ack).await["code"], "unavailable");
    assert_eq!(other.socket.wait_for_close().await, 1013);
    world.db.repair();
    // The message is stored already, so the repeated message publishes no update. The other CLI has to reconnect and read it.
    assert_eq!(sender.emit_with_ack("message", &message).await["seq"], 1);
    assert_eq!(world.get(&format!("/cli/sessions/{session}/messages")).await.ok()["messages"][0]["content"]["n"], 1);
    assert_eq!(unrelated.emit_with_ack("ping", &json!(null)).await, json!({"ok": true}));
    let mut other = world.cli(&session).await;
    sender.send_message(&session, "next").await;
    assert_eq!(other.next_event("update").await["body"]["message"]["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn after_an_uncertain_commit_of_a_merge_all_clients_of_both_sessions_resync() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.create_session_with("/code", json!({"alphaSessionId": "a", "machineId": "m"})).await;
    let mut cli_of_old = world.cli(&old).await;
    let mut web = world.web("all=true").await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.next_call().await;
    let (new, mut cli) = world.active_session("/code#2").await;
    drop(web.events().await);
    world.db.lose_response(retryable_error());
    world.db.fail_all(BatchKind::Writes, permanent_error());
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    run_until_idle().await;
    world.rt.set_now(world.now() + 1_000);
    resumed.reply().await.assert_error(503, "hub_unavailable");
    assert_eq!(cli_of_old.socket.wait_for_close().await, 1013);
    assert_eq!(cli.socket.wait_for_close().await, 1013);
    assert_eq!(web.next_event().await["data"]["resume"], "gap");
    world.db.repair();
    world.get(&format!("/api/sessions/{old}")).await.assert_error(404, "session_not_found");
    assert_eq!(world.get_session(&new).await["active"], true);
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_uncertain_if_its_result_is_lost_and_the_retry_is_refused() {
    let (world, session, mut sender) = live_session().await;
    let mut other = world.cli(&session).await;
    run_until_idle().await;
    world.db.lose_response(retryable_error());
    world.db.fail_all(BatchKind::Writes, permanent_error());
    let ack = sender.emit_for_ack("message", &json!({"sid": session, "message": {"n": 1}}));
    run_until_idle().await;
    world.rt.set_now(world.now() + 1_000);
    assert_eq!(sender.wait_for_ack(ack).await["code"], "unavailable");
    assert_eq!(other.socket.wait_for_close().await, 1013);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_archive_was_not_written_before_a_restart_expires() {
    let (world, session, mut cli) = live_session().await;
    world.db.fail_all(BatchKind::Writes, retryable_error());
    let archived = json!({"path": "/code", "host": "box", "lifecycleState": "archived"});
    cli.emit_for_ack("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": archived}));
    run_until_idle().await;
    world.redeploy();
    world.db.repair();
    assert_eq!(world.db.number("SELECT active FROM sessions"), 1);
    world.advance(31_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
}
