//! Metadata, agent states and runner states larger than a row: what the hub does with any of them, it does with these.

use crate::support::cli::Cli;
use crate::support::merge::{MergeFixture, merge_fixture, resumable_metadata, resume, success};
use crate::support::sqlite::BatchKind;
use crate::support::web::Web;
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::http::{response::respond, router};
use session_gateway_hub::hub::limits::MAX_CONTENT_BYTES;
use session_gateway_hub::hub::peers::subscription::Format;
use session_gateway_hub::store::DbError;

const MIB: usize = 1024 * 1024;

/// A session with a live CLI.
async fn live_session() -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session("/code").await;
    let cli = world.live_cli(&session).await;
    run_until_idle().await;
    (world, session, cli)
}

fn filling(bytes: usize) -> Value {
    json!("x".repeat(bytes))
}

/// Metadata as a CLI gives them, and a filling.
fn metadata(bytes: usize, more: Value) -> Value {
    let mut metadata = json!({"path": "/code", "host": "box", "filling": filling(bytes)});
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metadata
}

async fn set_metadata(cli: &mut Cli, session: &str, version: u64, metadata: &Value) -> Value {
    cli.emit_with_ack("update-metadata", &json!({"sid": session, "expectedVersion": version, "metadata": metadata}))
        .await
}

fn parts(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM value_parts")
}

/// Nothing of it comes from memory.
async fn restart(world: &World) {
    run_until_idle().await;
    world.hibernate_and_wake().await;
}

async fn line(world: &World, session: &str) -> Value {
    let list = world.get("/api/sessions?archived=include").await.ok();
    list["sessions"].as_array().unwrap().iter().find(|line| line["id"] == session).unwrap().clone()
}

fn transient() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

fn permanent() -> DbError {
    DbError::Refused("disk I/O error".into())
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_in_a_large_state_are_counted_answered_and_canceled() {
    let (world, session, mut cli) = live_session().await;
    cli.register("permission").await;
    let state =
        json!({"requests": {"a": {"tool": "T", "n": 1}, "b": {"tool": "U"}, "c": {}}, "filling": filling(20 * MIB)});
    assert_eq!(cli.update_state(&session, 1, &state).await["result"], "success");
    assert_eq!(line(&world, &session).await["pendingRequestsCount"], 3);
    restart(&world).await;
    let reads = world.db.read_count();
    assert_eq!(line(&world, &session).await["pendingRequestsCount"], 3, "as the database has it");
    assert_eq!(world.db.read_count() - reads, 1, "nothing else is read for a list");
    for (request, verb, status) in [("a", "approve", "approved"), ("b", "deny", "denied")] {
        let answered = world.start("POST", &format!("/api/sessions/{session}/permissions/{request}/{verb}"), "{}");
        let asked = cli.next_call().await;
        cli.respond(&asked, &json!({"success": true}));
        answered.reply().await.ok();
        let shown = world.get_session(&session).await["agentState"].clone();
        assert_eq!(shown["completedRequests"][request]["status"], status);
        assert!(shown["requests"].get(request).is_none() && shown["filling"] == state["filling"]);
        restart(&world).await;
    }
    let again = world.post(&format!("/api/sessions/{session}/permissions/a/approve"), &json!({})).await;
    again.assert_error(404, "request_not_found");
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    restart(&world).await;
    let shown = world.get_session(&session).await["agentState"].clone();
    assert_eq!(shown["completedRequests"]["c"]["status"], "canceled");
    assert_eq!(shown["completedRequests"]["a"]["n"], 1);
    assert!(shown["requests"] == json!({}) && shown["filling"] == state["filling"]);
    assert_eq!(line(&world, &session).await["pendingRequestsCount"], 0);
    assert_eq!(parts(&world), 14, "those of the states before are gone");
}

#[tokio::test(start_paused = true)]
async fn a_session_with_large_metadata_is_listed_renamed_archived_and_taken_up_again() {
    let (world, session, mut cli) = live_session().await;
    let given = metadata(20 * MIB, json!({"summary": {"text": "doing"}, "flavor": "beta", "machineId": "m"}));
    assert_eq!(set_metadata(&mut cli, &session, 1, &given).await["result"], "success");
    let from_memory = line(&world, &session).await;
    assert_eq!(
        (&from_memory["metadata"]["path"], &from_memory["metadata"]["summary"]["text"]),
        (&json!("/code"), &json!("doing"))
    );
    restart(&world).await;
    assert_eq!(line(&world, &session).await, from_memory);

    let reads = || world.db.read_batches().iter().flatten().filter(|read| read.sql.contains("value_parts")).count();
    let before = reads();
    cli.send_heartbeat(&world, &session).await;
    assert_eq!(cli.send_message(&session, "hello").await["seq"], 1);
    cli.register("gitStatus").await;
    let status = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let asked = cli.next_call().await;
    assert_eq!(asked.params["cwd"], "/code");
    cli.respond(&asked, &json!({"success": true}));
    status.reply().await.ok();
    assert_eq!(reads(), before, "none of it needs the whole");

    let renamed =
        world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"mine","expectedVersion":2}"#).await;
    assert_eq!(renamed.ok()["metadataVersion"], 3);
    restart(&world).await;
    let shown = world.get_session(&session).await["metadata"].clone();
    assert!(shown["name"] == "mine" && shown["filling"] == given["filling"]);
    let stale =
        world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"late","expectedVersion":2}"#).await;
    stale.assert_error(409, "version_conflict");

    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    restart(&world).await;
    assert_eq!(line(&world, &session).await["metadata"]["name"], "mine");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"], json!([]));
    let shown = world.get_session(&session).await["metadata"].clone();
    assert!(shown["lifecycleState"] == "archived" && shown["filling"] == given["filling"]);

    // A CLI asks for the tag, and brings metadata of its own: the name stays.
    let body = json!({"tag": "/code", "metadata": metadata(4 * MIB, json!({}))}).to_string();
    let back = world.request("POST", "/cli/sessions", body).await.ok()["session"].clone();
    assert_eq!((&back["id"], &back["metadata"]["name"]), (&json!(session), &json!("mine")));
    assert!(back["metadata"]["filling"] == filling(4 * MIB) && back["metadata"].get("lifecycleState").is_none());
    restart(&world).await;
    assert_eq!(world.get_session(&session).await["metadata"], back["metadata"]);
    assert_eq!(parts(&world), 3);
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_with_large_metadata_is_brought_back_by_a_resume() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let session = world.create_session("/code").await;
    let mut cli = world.cli(&session).await;
    let given = metadata(5 * MIB, resumable_metadata());
    set_metadata(&mut cli, &session, 1, &given).await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    restart(&world).await;
    let reply = resume(&world, &session);
    let call = runner.next_call().await;
    assert_eq!((&call.params["resumeSessionId"], &call.params["agent"]), (&json!("agent-7"), &json!("beta")));
    runner.respond(&call, &json!({"success": true, "sessionId": session}));
    run_until_idle().await;
    cli.send_heartbeat(&world, &session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    restart(&world).await;
    let shown = world.get_session(&session).await["metadata"].clone();
    assert!(shown["lifecycleState"] == "running" && shown.get("archivedBy").is_none());
    assert!(shown["filling"] == given["filling"]);
}

#[tokio::test(start_paused = true)]
async fn two_sessions_with_large_metadata_become_one_that_has_what_a_person_gave_the_first() {
    let gone = json!({"name": "mine", "filling": filling(700_000)});
    let MergeFixture { world, new, reply, old, mut cli, .. } =
        merge_fixture(gone, json!({"kept": filling(3 * MIB)})).await;
    let state = json!({"filling": filling(2 * MIB)});
    assert_eq!(cli.update_state(&new, 1, &state).await["result"], "success");
    cli.send_heartbeat(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    restart(&world).await;
    let shown = world.get_session(&new).await;
    assert_eq!((&shown["seq"], &shown["metadata"]["name"]), (&json!(4), &json!("mine")));
    assert!(shown["metadata"]["kept"] == filling(3 * MIB) && shown["agentState"] == state);
    assert_eq!(world.db.number(&format!("SELECT count(*) FROM value_parts WHERE owner = '{old}'")), 0);
    assert_eq!(parts(&world), 3 + 2, "those of one value each");
}

#[tokio::test(start_paused = true)]
async fn a_cli_hears_a_large_value_whole_and_a_web_client_its_length() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    let given = metadata(3 * MIB, json!({}));
    let ack = set_metadata(&mut cli, &session, 1, &given).await;
    assert!(ack == json!({"result": "success", "version": 2, "metadata": given}));
    let update = second.next_event("update").await["body"].clone();
    assert!(
        update
            == json!({"t": "update-session", "sid": session, "metadata": {"version": 2, "value": given}, "agentState": null})
    );
    let data = web.next_event_of("session-updated").await["data"].clone();
    let bytes = given.to_string().len();
    assert_eq!(
        (&data["metadataVersion"], &data["metadataBytes"], data.get("metadata")),
        (&json!(2), &json!(bytes), None)
    );

    let state = json!({"n": filling(2 * MIB), "completedRequests": {"q": {"tool": "T"}}});
    let ack = cli.update_state(&session, 1, &state).await;
    assert!(ack == json!({"result": "success", "version": 2, "agentState": state}));
    assert!(second.next_event("update").await["body"]["agentState"] == json!({"version": 2, "value": state}));
    let told = web.next_event_of("session-updated").await;
    let bytes = state.to_string().len();
    assert_eq!((&told["data"]["agentStateBytes"], told["data"].get("agentState")), (&json!(bytes), None));

    // What stands now, for one who has not heard of it.
    let other = json!({"n": 1});
    assert!(
        second.update_state(&session, 1, &other).await
            == json!({"result": "version-mismatch", "version": 2, "agentState": state})
    );
    let stale = set_metadata(&mut second, &session, 1, &metadata(1, json!({}))).await;
    assert!(stale == json!({"result": "version-mismatch", "version": 2, "metadata": given}));
    restart(&world).await;
    assert!(second.update_state(&session, 1, &other).await["agentState"] == state);

    // Events of large values are held like all others.
    let first = told["eventId"].as_str().unwrap().to_owned();
    cli.update_state(&session, 2, &json!({"n": filling(2 * MIB)})).await;
    let mut back = Web(world.try_subscribe("all=true", Some(&first), Format::Json).await.unwrap());
    assert_eq!(back.next_event_of("connection-changed").await["data"]["resume"], "ok");
    assert_eq!(back.next_event_of("session-updated").await["data"]["agentStateVersion"], 3);
    let added = json!({"tag": "/new", "metadata": metadata(MIB, json!({}))}).to_string();
    world.request("POST", "/cli/sessions", added).await.ok();
    let added = back.next_event_of("session-added").await["data"].clone();
    assert!(added.get("metadata").is_none() && added["metadataBytes"].as_u64().unwrap() > MIB as u64);
}

#[tokio::test(start_paused = true)]
async fn a_machine_may_have_large_values() {
    let world = World::new();
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    let mut second = world.runner("m").await;
    let mut web = world.web("all=true").await;
    let given = json!({"host": "box", "filling": filling(3 * MIB)});
    let put = json!({"id": "m", "metadata": given, "runnerState": {"n": filling(2 * MIB)}}).to_string();
    let shown = world.request("POST", "/cli/machines", put).await.ok()["machine"].clone();
    assert!(shown["metadata"] == given && shown["runnerState"]["n"] == filling(2 * MIB));
    let told = web.next_event_of("machine-updated").await["data"].clone();
    assert_eq!((&told["metadataBytes"], told.get("metadata")), (&json!(given.to_string().len()), None));
    let version = shown["runnerStateVersion"].as_u64().unwrap();
    let update =
        |version: u64, value: Value| json!({"machineId": "m", "expectedVersion": version, "runnerState": value});
    let state = json!([filling(5 * MIB)]);
    let ack = runner.emit_with_ack("machine-update-state", &update(version, state.clone())).await;
    assert!(ack == json!({"result": "success", "version": version + 1, "runnerState": state}));
    assert!(second.next_event("update").await["body"]["runnerState"]["value"] == state);
    let stale = second.emit_with_ack("machine-update-state", &update(version, json!(1))).await;
    assert!(stale == json!({"result": "version-mismatch", "version": version + 1, "runnerState": state}));
    restart(&world).await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let listed = world.get("/api/machines").await.ok()["machines"][0].clone();
    assert_eq!((&listed["runnerStateBytes"], listed.get("runnerState")), (&json!(state.to_string().len()), None));
    for path in ["/api/machines/m", "/cli/machines/m"] {
        let shown = world.get(path).await.ok()["machine"].clone();
        assert!(shown["metadata"] == given && shown["runnerState"] == state);
    }
    assert_eq!(
        runner.emit_with_ack("machine-update-state", &update(version + 1, json!(1))).await["version"],
        version + 2
    );
    assert_eq!(parts(&world), 3, "those of the metadata");
}

#[tokio::test(start_paused = true)]
async fn parts_go_with_their_value_and_with_their_session() {
    let (world, session, mut cli) = live_session().await;
    let large = |n: u64| json!({"n": n, "filling": filling(4 * MIB)});
    for version in 1..4 {
        assert_eq!(cli.update_state(&session, version, &large(version)).await["result"], "success");
        assert_eq!(parts(&world), 3);
    }
    assert_eq!(set_metadata(&mut cli, &session, 1, &metadata(2 * MIB, json!({}))).await["result"], "success");
    assert_eq!(parts(&world), 5);
    assert_eq!(cli.update_state(&session, 4, &json!(null)).await["result"], "success");
    assert_eq!(parts(&world), 2);
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert_eq!(parts(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_beside_a_large_value_does_not_write_it_again() {
    let (world, session, mut cli) = live_session().await;
    cli.update_state(&session, 1, &json!({"filling": filling(4 * MIB)})).await;
    let before = world.db.write_count();
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#).await.ok();
    let written = world.db.write_batches().split_off(before);
    assert_eq!((written.len(), written[0].len()), (1, 2), "one statement, as for any session, and that of the epoch");
    restart(&world).await;
    assert!(world.get_session(&session).await["agentState"]["filling"] == filling(4 * MIB));
}

#[tokio::test(start_paused = true)]
async fn a_fault_before_a_large_value_is_whole_leaves_the_one_before_and_nothing_for_ever() {
    let (world, session, mut cli) = live_session().await;
    let first = json!({"n": 1, "filling": filling(4 * MIB)});
    cli.update_state(&session, 1, &first).await;
    let second = json!({"n": 2, "filling": filling(10 * MIB)});
    for written in 0..3 {
        world.db.hold(BatchKind::Writes);
        let ack =
            cli.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 2, "agentState": second}));
        for _ in 0..written {
            run_until_idle().await;
            world.db.release();
            world.db.hold(BatchKind::Writes);
        }
        run_until_idle().await;
        world.db.fail(BatchKind::Writes, permanent());
        world.db.release();
        assert_eq!(cli.wait_for_ack(ack).await["code"], "unavailable");
        assert!(world.get_session(&session).await["agentState"] == first, "{written}");
    }
    assert!(parts(&world) > 3, "some were written before the fault");
    world.db.lose_response(transient());
    world.db.fail(BatchKind::Writes, transient());
    let ack = cli.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 2, "agentState": second}));
    for _ in 0..8 {
        run_until_idle().await;
        world.rt.set_now(world.now() + 1_000);
    }
    assert_eq!(cli.wait_for_ack(ack).await["version"], 3);
    restart(&world).await;
    assert!(world.get_session(&session).await["agentState"] == second);
    assert_eq!(parts(&world), 7, "those of the values that never came are gone");
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_parts_are_not_all_there_is_not_written() {
    let (world, session, mut cli) = live_session().await;
    cli.update_state(&session, 1, &json!({"filling": filling(4 * MIB)})).await;
    world.db.execute("DELETE FROM value_parts WHERE part = 2");
    let renamed = world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#).await;
    renamed.assert_error(500, "rename_failed");
    world.get(&format!("/api/sessions/{session}")).await.assert_error(503, "hub_unavailable");
    assert_eq!(cli.update_state(&session, 1, &json!({})).await["code"], "unavailable");
    assert_eq!(cli.update_state(&session, 2, &json!({})).await["result"], "success", "a new value puts an end to it");
    assert_eq!(world.get_session(&session).await["agentState"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_another_one_replaces_while_it_is_read_is_read_again() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.bare_cli().await;
    // More parts than are read at a time.
    let value = |n: u64| json!({"n": n, "filling": filling(8 * MIB)});
    cli.update_state(&session, 1, &value(1)).await;
    world.db.hold(BatchKind::Reads);
    let shown = world.start("GET", &format!("/api/sessions/{session}"), "");
    let stale = second.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {}}));
    run_until_idle().await;
    world.db.stop_holding();
    assert_eq!(cli.update_state(&session, 2, &value(2)).await["version"], 3);
    world.db.release();
    assert!(shown.reply().await.ok()["session"]["agentState"] == value(2));
    let stale = second.wait_for_ack(stale).await;
    assert!(stale["version"] == 3 && stale["agentState"] == value(2));
}

#[tokio::test(start_paused = true)]
async fn of_two_of_the_largest_values_at_once_one_is_told_to_come_again() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let mut second = world.cli(&other).await;
    let largest = json!({"filling": filling(MAX_CONTENT_BYTES - 14)});
    let update = |sid: &str| json!({"sid": sid, "expectedVersion": 1, "agentState": largest});
    world.db.hold(BatchKind::Writes);
    let first = cli.emit_for_ack("update-state", &update(&session));
    run_until_idle().await;
    let refused = second.emit_with_ack("update-state", &update(&other)).await;
    assert_eq!((&refused["result"], &refused["code"]), (&json!("error"), &json!("overloaded")));
    let small = second.emit_for_ack("message", &json!({"sid": other, "message": "small"}));
    world.db.release();
    assert_eq!(cli.wait_for_ack(first).await["version"], 2);
    assert_eq!(second.wait_for_ack(small).await["seq"], 1, "what is small has room beside it");
    assert_eq!(second.emit_with_ack("update-state", &update(&other)).await["version"], 2);
}

#[tokio::test(start_paused = true)]
async fn what_waits_can_be_kept_once_it_is_answered() {
    let (world, session, mut cli) = live_session().await;
    let request = |bytes: usize| json!({"tool": filling(bytes)});
    let too_large = cli.update_state(&session, 1, &json!({"requests": {"r": request(1_000_000)}})).await;
    assert_eq!(too_large["code"], "too-large");
    assert!(too_large["reason"].as_str().unwrap().contains("1000000"), "{too_large}");
    let many = |count: usize| {
        let requests: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("r{n}"), request(900_000))).collect();
        json!({"requests": requests})
    };
    assert_eq!(cli.update_state(&session, 1, &many(9)).await["code"], "too-large");
    assert_eq!(cli.update_state(&session, 1, &many(8)).await["result"], "success");
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    restart(&world).await;
    let shown = world.get_session(&session).await["agentState"].clone();
    assert_eq!(shown["requests"], json!({}));
    assert_eq!(shown["completedRequests"].as_object().unwrap().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_a_hub_of_before_set_over_a_large_one_counts() {
    let (world, session, mut cli) = live_session().await;
    cli.update_state(&session, 1, &json!({"requests": {"r": {}}, "filling": filling(2 * MIB)})).await;
    run_until_idle().await;
    // It sees the head, and knows no parts.
    let head = world.db.number(r#"SELECT count(*) FROM sessions WHERE agent_state = '{"requests":{"r":{}}}'"#);
    assert_eq!(head, 1);
    world.db.execute(r#"UPDATE sessions SET agent_state = '{"old":1}', agent_state_version = 3"#);
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["agentState"], json!({"old": 1}));
    assert_eq!(cli.update_state(&session, 3, &json!({"filling": filling(2 * MIB)})).await["result"], "success");
    restart(&world).await;
    assert!(world.get_session(&session).await["agentState"]["filling"] == filling(2 * MIB));
    assert_eq!(parts(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_waits_for_no_room_and_is_read_when_there_is_some() {
    let (world, session, mut cli) = live_session().await;
    let small = world.create_session("/small").await;
    assert_eq!(set_metadata(&mut cli, &session, 1, &metadata(2 * MIB, json!({}))).await["result"], "success");
    run_until_idle().await;
    let all = world.hub().reserve_response(72 * MIB).unwrap();
    let reads = world.db.read_count();
    for path in [format!("/api/sessions/{session}"), format!("/cli/sessions/{session}")] {
        world.get(&path).await.assert_error(503, "overloaded");
    }
    let parts_read = world.db.read_batches()[reads..].iter().flatten().any(|read| read.sql.contains("value_parts"));
    assert!(!parts_read, "what finds no room is not read");
    world.get(&format!("/api/sessions/{small}")).await.ok();
    drop(all);
    let shown = world.get(&format!("/api/sessions/{session}")).await.ok();
    assert_eq!(shown["session"]["metadata"]["filling"], filling(2 * MIB));
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_its_share_of_the_room_until_its_body_is_gone() {
    let (world, session, mut cli) = live_session().await;
    cli.register("readFile").await;
    assert_eq!(set_metadata(&mut cli, &session, 1, &metadata(20 * MIB, json!({}))).await["result"], "success");
    run_until_idle().await;
    let room_for = |bytes| world.hub().reserve_response(bytes).is_ok();
    let ask = async |path: String| {
        let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        respond(&world.hub(), router(world.hub()), request).await
    };
    let first = ask(format!("/api/sessions/{session}")).await;
    assert!(first.body().len() > 20 * MIB && room_for(50 * MIB) && !room_for(53 * MIB));
    // So has one that no value of a session makes large: here it is what a CLI answers.
    let read = ask(format!("/api/sessions/{session}/file?path=a"));
    let (second, ()) = tokio::join!(read, async {
        cli.serve("readFile", &json!({"success": true, "content": filling(30 * MIB)})).await;
    });
    assert!(second.body().len() > 30 * MIB && room_for(20 * MIB) && !room_for(23 * MIB));
    let read = ask(format!("/api/sessions/{session}/file?path=a"));
    let (third, ()) = tokio::join!(read, async {
        cli.serve("readFile", &json!({"success": true, "content": filling(30 * MIB)})).await;
    });
    assert_eq!(third.status(), 503);
    let kept = first.body().slice(1..2);
    drop((first, second));
    assert!(room_for(50 * MIB) && !room_for(53 * MIB), "a part of the body is the body");
    drop(kept);
    assert!(room_for(72 * MIB));
}
