//! Metadata, agent states and runner states larger than a database row: all operations work as with small values.

mod faults;

use crate::support::merge::{MergeFixture, merge_fixture, resumable_metadata, resume, success};
use crate::support::prelude::*;
use session_gateway_hub::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};

const MIB: usize = 1024 * 1024;

fn padding(bytes: usize) -> Value {
    json!("x".repeat(bytes))
}

/// Metadata with these further members and this many bytes of padding.
fn metadata(bytes: usize, members: Value) -> Value {
    let mut metadata = json!({"path": "/code", "host": "box", "padding": padding(bytes)});
    metadata.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    metadata
}

async fn set_metadata(cli: &mut Cli, session: &str, version: u64, metadata: &Value) -> Value {
    cli.emit_with_ack("update-metadata", &json!({"sid": session, "expectedVersion": version, "metadata": metadata}))
        .await
}

fn stored_part_count(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM value_parts")
}

/// Hibernates the hub, so that it reads the values from the database again.
async fn reload(world: &World) {
    world.hibernate_and_wake().await;
}

#[tokio::test(start_paused = true)]
async fn pending_requests_in_a_large_state_are_counted_answered_and_canceled() {
    let (world, session, mut cli) = session_with_methods(&["permission"]).await;
    let state =
        json!({"requests": {"a": {"tool": "T", "n": 1}, "b": {"tool": "U"}, "c": {}}, "padding": padding(20 * MIB)});
    cli.put_agent_state(&session, 1, &state).await;
    assert_eq!(world.listed(&session).await["pendingRequestsCount"], 3);
    reload(&world).await;
    let reads = world.db.read_count();
    assert_eq!(world.listed(&session).await["pendingRequestsCount"], 3, "the count of the database");
    assert_eq!(world.db.read_count() - reads, 1, "a list is one read");
    for (request, verb, status) in [("a", "approve", "approved"), ("b", "deny", "denied")] {
        cli.complete(
            world.start("POST", &format!("/api/sessions/{session}/permissions/{request}/{verb}"), "{}"),
            &json!({"success": true}),
        )
        .await
        .ok();
        let record = world.get_session(&session).await["agentState"].clone();
        assert_eq!(record["completedRequests"][request]["status"], status);
        assert!(record["requests"].get(request).is_none() && record["padding"] == state["padding"]);
        reload(&world).await;
    }
    let again = world.post(&format!("/api/sessions/{session}/permissions/a/approve"), &json!({})).await;
    again.assert_error(404, "request_not_found");
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    reload(&world).await;
    let record = world.get_session(&session).await["agentState"].clone();
    assert_eq!(record["completedRequests"]["c"]["status"], "canceled");
    assert_eq!(record["completedRequests"]["a"]["n"], 1);
    assert!(record["requests"] == json!({}) && record["padding"] == state["padding"]);
    assert_eq!(world.listed(&session).await["pendingRequestsCount"], 0);
    assert_eq!(stored_part_count(&world), 14, "parts of older states are deleted");
}

#[tokio::test(start_paused = true)]
async fn a_session_with_large_metadata_is_listed_renamed_archived_and_restored() {
    let (world, session, mut cli) = live_session().await;
    let large = metadata(20 * MIB, json!({"summary": {"text": "doing"}, "flavor": "beta", "machineId": "m"}));
    assert_eq!(set_metadata(&mut cli, &session, 1, &large).await["result"], "success");
    let cached = world.listed(&session).await;
    assert_eq!(pick(&cached, ["metadata/path", "metadata/summary/text"]), json!(["/code", "doing"]));
    reload(&world).await;
    assert_eq!(world.listed(&session).await, cached);

    let reads = || world.db.read_batches().iter().flatten().filter(|read| read.sql.contains("value_parts")).count();
    let before = reads();
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(cli.send_message(&session, "hello").await["seq"], 1);
    cli.register("gitStatus").await;
    let status = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let call = cli.next_call().await;
    assert_eq!(call.params["cwd"], "/code");
    cli.respond(&call, &json!({"success": true}));
    status.reply().await.ok();
    assert_eq!(reads(), before, "none of them reads the whole value");

    let renamed =
        world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"mine","expectedVersion":2}"#).await;
    assert_eq!(renamed.ok()["metadataVersion"], 3);
    reload(&world).await;
    let record = world.get_session(&session).await["metadata"].clone();
    assert!(record["name"] == "mine" && record["padding"] == large["padding"]);
    let stale =
        world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"late","expectedVersion":2}"#).await;
    stale.assert_error(409, "version_conflict");

    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    reload(&world).await;
    assert_eq!(world.listed(&session).await["metadata"]["name"], "mine");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"], json!([]));
    let record = world.get_session(&session).await["metadata"].clone();
    assert!(record["lifecycleState"] == "archived" && record["padding"] == large["padding"]);

    // Creating a session with the same tag replaces the metadata except the name.
    let body = json!({"tag": "/code", "metadata": metadata(4 * MIB, json!({}))}).to_string();
    let restored = world.request("POST", "/cli/sessions", body).await.ok()["session"].clone();
    assert_eq!((&restored["id"], &restored["metadata"]["name"]), (&json!(session), &json!("mine")));
    assert!(
        restored["metadata"]["padding"] == padding(4 * MIB) && restored["metadata"].get("lifecycleState").is_none()
    );
    reload(&world).await;
    assert_eq!(world.get_session(&session).await["metadata"], restored["metadata"]);
    assert_eq!(stored_part_count(&world), 3);
}

#[tokio::test(start_paused = true)]
async fn a_resume_restores_an_archived_session_with_large_metadata() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let session = world.create_session("/code").await;
    let mut cli = world.cli(&session).await;
    let large = metadata(5 * MIB, resumable_metadata());
    set_metadata(&mut cli, &session, 1, &large).await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    reload(&world).await;
    let reply = resume(&world, &session);
    let call = runner.next_call().await;
    assert_eq!((&call.params["resumeSessionId"], &call.params["agent"]), (&json!("agent-7"), &json!("beta")));
    runner.respond(&call, &json!({"success": true, "sessionId": session}));
    run_until_idle().await;
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    reload(&world).await;
    let record = world.get_session(&session).await["metadata"].clone();
    assert!(record["lifecycleState"] == "running" && record.get("archivedBy").is_none());
    assert!(record["padding"] == large["padding"]);
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_waits_for_memory_does_not_block_other_sessions() {
    let MergeFixture { world, new, mut cli, reply, .. } =
        merge_fixture(json!({}), json!({"new": padding(3 * MIB)})).await;
    let (other, mut other_cli) = world.active_session("/other").await;
    run_until_idle().await;
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    cli.send_keep_alive(&world, &new).await;
    run_until_idle().await;
    assert_eq!(other_cli.send_message(&other, "during the merge").await["ok"], true);
    drop(pool);
    world.advance(1_000).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
}

#[tokio::test(start_paused = true)]
async fn a_merge_of_two_sessions_with_large_metadata_keeps_the_name_of_the_old_session() {
    let old_metadata = json!({"name": "mine", "padding": padding(700_000)});
    let MergeFixture { world, new, reply, old, mut cli, .. } =
        merge_fixture(old_metadata, json!({"new": padding(3 * MIB)})).await;
    let state = json!({"padding": padding(2 * MIB)});
    cli.put_agent_state(&new, 1, &state).await;
    cli.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    reload(&world).await;
    let record = world.get_session(&new).await;
    assert_eq!((&record["seq"], &record["metadata"]["name"]), (&json!(4), &json!("mine")));
    assert!(record["metadata"]["new"] == padding(3 * MIB) && record["agentState"] == state);
    assert_eq!(world.db.number(&format!("SELECT count(*) FROM value_parts WHERE owner = '{old}'")), 0);
    assert_eq!(stored_part_count(&world), 3 + 2, "the parts of metadata and agent state");
}

#[tokio::test(start_paused = true)]
async fn a_large_value_is_whole_in_events_for_clis_and_only_a_length_in_events_for_web_clients() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    let large = metadata(3 * MIB, json!({}));
    let ack = set_metadata(&mut cli, &session, 1, &large).await;
    assert!(ack == json!({"result": "success", "version": 2, "metadata": large}));
    let update = second.next_event("update").await["body"].clone();
    assert!(
        update
            == json!({"t": "update-session", "sid": session, "metadata": {"version": 2, "value": large}, "agentState": null})
    );
    let data = web.next_event_of("session-updated").await["data"].clone();
    let bytes = large.to_string().len();
    assert_eq!(
        (&data["metadataVersion"], &data["metadataBytes"], data.get("metadata")),
        (&json!(2), &json!(bytes), None)
    );

    let state = json!({"n": padding(2 * MIB), "completedRequests": {"q": {"tool": "T"}}});
    let ack = cli.update_agent_state(&session, 1, &state).await;
    assert!(ack == json!({"result": "success", "version": 2, "agentState": state}));
    assert!(second.next_event("update").await["body"]["agentState"] == json!({"version": 2, "value": state}));
    let event = web.next_event_of("session-updated").await;
    let bytes = state.to_string().len();
    assert_eq!((&event["data"]["agentStateBytes"], event["data"].get("agentState")), (&json!(bytes), None));

    // A version mismatch returns the current value.
    let other = json!({"n": 1});
    assert!(
        second.update_agent_state(&session, 1, &other).await
            == json!({"result": "version-mismatch", "version": 2, "agentState": state})
    );
    let stale = set_metadata(&mut second, &session, 1, &metadata(1, json!({}))).await;
    assert!(stale == json!({"result": "version-mismatch", "version": 2, "metadata": large}));
    reload(&world).await;
    assert!(second.update_agent_state(&session, 1, &other).await["agentState"] == state);

    // Events about large values are replayed like all others.
    let first = event["eventId"].as_str().unwrap().to_owned();
    cli.update_agent_state(&session, 2, &json!({"n": padding(2 * MIB)})).await;
    let mut resumed = Web(world.open_event_stream("all=true", Some(&first), Format::Json).await.unwrap());
    assert_eq!(resumed.next_event_of("connection-changed").await["data"]["resume"], "ok");
    assert_eq!(resumed.next_event_of("session-updated").await["data"]["agentStateVersion"], 3);
    let added = json!({"tag": "/new", "metadata": metadata(MIB, json!({}))}).to_string();
    world.request("POST", "/cli/sessions", added).await.ok();
    let added = resumed.next_event_of("session-added").await["data"].clone();
    assert!(added.get("metadata").is_none() && added["metadataBytes"].as_u64().unwrap() > MIB as u64);
}

#[tokio::test(start_paused = true)]
async fn a_machine_can_have_large_values() {
    let world = World::new();
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    let mut second = world.runner("m").await;
    let mut web = world.web("all=true").await;
    let large = json!({"host": "box", "padding": padding(3 * MIB)});
    let put = json!({"id": "m", "metadata": large, "runnerState": {"n": padding(2 * MIB)}}).to_string();
    let record = world.request("POST", "/cli/machines", put).await.ok()["machine"].clone();
    assert!(record["metadata"] == large && record["runnerState"]["n"] == padding(2 * MIB));
    let event = web.next_event_of("machine-updated").await["data"].clone();
    assert_eq!((&event["metadataBytes"], event.get("metadata")), (&json!(large.to_string().len()), None));
    let version = record["runnerStateVersion"].as_u64().unwrap();
    let update =
        |version: u64, value: Value| json!({"machineId": "m", "expectedVersion": version, "runnerState": value});
    let state = json!([padding(5 * MIB)]);
    let ack = runner.emit_with_ack("machine-update-state", &update(version, state.clone())).await;
    assert!(ack == json!({"result": "success", "version": version + 1, "runnerState": state}));
    assert!(second.next_event("update").await["body"]["runnerState"]["value"] == state);
    let stale = second.emit_with_ack("machine-update-state", &update(version, json!(1))).await;
    assert!(stale == json!({"result": "version-mismatch", "version": version + 1, "runnerState": state}));
    reload(&world).await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let listed = world.get("/api/machines").await.ok()["machines"][0].clone();
    assert_eq!((&listed["runnerStateBytes"], listed.get("runnerState")), (&json!(state.to_string().len()), None));
    for path in ["/api/machines/m", "/cli/machines/m"] {
        let record = world.get(path).await.ok()["machine"].clone();
        assert!(record["metadata"] == large && record["runnerState"] == state);
    }
    assert_eq!(
        runner.emit_with_ack("machine-update-state", &update(version + 1, json!(1))).await["version"],
        version + 2
    );
    assert_eq!(stored_part_count(&world), 3, "the parts of the metadata");
}

#[tokio::test(start_paused = true)]
async fn parts_are_deleted_with_their_value_and_with_their_session() {
    let (world, session, mut cli) = live_session().await;
    let large = |n: u64| json!({"n": n, "padding": padding(4 * MIB)});
    for version in 1..4 {
        cli.put_agent_state(&session, version, &large(version)).await;
        assert_eq!(stored_part_count(&world), 3);
    }
    assert_eq!(set_metadata(&mut cli, &session, 1, &metadata(2 * MIB, json!({}))).await["result"], "success");
    assert_eq!(stored_part_count(&world), 5);
    cli.put_agent_state(&session, 4, &json!(null)).await;
    assert_eq!(stored_part_count(&world), 2);
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert_eq!(stored_part_count(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_field_does_not_rewrite_a_large_value() {
    let (world, session, mut cli) = live_session().await;
    cli.update_agent_state(&session, 1, &json!({"padding": padding(4 * MIB)})).await;
    let before = world.db.write_count();
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#).await.ok();
    let written = world.db.write_batches().split_off(before);
    assert_eq!((written.len(), written[0].len()), (1, 2), "the update of the session and the epoch check");
    reload(&world).await;
    assert!(world.get_session(&session).await["agentState"]["padding"] == padding(4 * MIB));
}
