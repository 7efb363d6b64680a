//! Large values under database faults, concurrent access and exhausted memory.

use super::{MIB, metadata, padding, reload, set_metadata, stored_part_count};
use crate::support::prelude::*;
use session_gateway_hub::http::respond;
use session_gateway_hub::hub::inbound::frames::FRAME_MEMORY_TIMEOUT_MS;
use session_gateway_hub::limits::{MAX_CONTENT_BYTES, MAX_REQUEST_BYTES, MEMORY_TIMEOUT_MS};
use session_gateway_hub::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
use session_gateway_hub::store::memory::MEMORY_RETRY_MS;

#[tokio::test(start_paused = true)]
async fn after_a_fault_between_the_parts_of_a_value_the_old_value_remains_and_the_new_parts_are_deleted_later() {
    let (world, session, mut cli) = live_session().await;
    let first = json!({"n": 1, "padding": padding(4 * MIB)});
    cli.update_agent_state(&session, 1, &first).await;
    let second = json!({"n": 2, "padding": padding(10 * MIB)});
    for written in 0..3 {
        world.db.hold_results(BatchKind::Writes);
        let ack =
            cli.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 2, "agentState": second}));
        for _ in 0..written {
            run_until_idle().await;
            world.db.release_results();
            world.db.hold_results(BatchKind::Writes);
        }
        run_until_idle().await;
        world.db.fail(BatchKind::Writes, permanent_error());
        world.db.release_results();
        assert_eq!(cli.wait_for_ack(ack).await["code"], "unavailable");
        assert!(world.get_session(&session).await["agentState"] == first, "{written}");
    }
    assert!(stored_part_count(&world) > 3, "some parts were written before the fault");
    world.db.lose_response(retryable_error());
    world.db.fail(BatchKind::Writes, retryable_error());
    let ack = cli.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 2, "agentState": second}));
    for _ in 0..8 {
        run_until_idle().await;
        world.rt.set_now(world.now() + 1_000);
    }
    assert_eq!(cli.wait_for_ack(ack).await["version"], 3);
    reload(&world).await;
    assert!(world.get_session(&session).await["agentState"] == second);
    assert_eq!(stored_part_count(&world), 7, "the parts of the failed values are deleted");
}

#[tokio::test(start_paused = true)]
async fn a_value_with_a_missing_part_can_only_be_replaced() {
    let (world, session, mut cli) = live_session().await;
    cli.update_agent_state(&session, 1, &json!({"padding": padding(4 * MIB)})).await;
    world.db.execute("DELETE FROM value_parts WHERE part = 2");
    let renamed = world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#).await;
    renamed.assert_error(500, "rename_failed");
    world.get(&format!("/api/sessions/{session}")).await.assert_error(503, "hub_unavailable");
    assert_eq!(cli.update_agent_state(&session, 1, &json!({})).await["code"], "unavailable");
    assert_eq!(cli.update_agent_state(&session, 2, &json!({})).await["result"], "success", "a new value is accepted");
    assert_eq!(world.get_session(&session).await["agentState"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_replaced_while_it_is_read_is_read_again() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.bare_cli().await;
    // More parts than one read fetches.
    let value = |n: u64| json!({"n": n, "padding": padding(8 * MIB)});
    cli.update_agent_state(&session, 1, &value(1)).await;
    world.db.hold_results(BatchKind::Reads);
    let reply = world.start("GET", &format!("/api/sessions/{session}"), "");
    let stale = second.emit_for_ack("update-state", &json!({"sid": session, "expectedVersion": 1, "agentState": {}}));
    run_until_idle().await;
    world.db.stop_holding();
    assert_eq!(cli.update_agent_state(&session, 2, &value(2)).await["version"], 3);
    world.db.release_results();
    assert!(reply.reply().await.ok()["session"]["agentState"] == value(2));
    let stale = second.wait_for_ack(stale).await;
    assert!(stale["version"] == 3 && stale["agentState"] == value(2));
}

#[tokio::test(start_paused = true)]
async fn a_value_of_maximum_size_waits_for_the_memory_of_a_concurrent_value_of_maximum_size() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    let mut second = world.cli(&other).await;
    let largest = json!({"padding": padding(MAX_CONTENT_BYTES - 14)});
    let update = |sid: &str| json!({"sid": sid, "expectedVersion": 1, "agentState": largest});
    world.db.hold_results(BatchKind::Writes);
    let first = cli.emit_for_ack("update-state", &update(&session));
    run_until_idle().await;
    let waiting = second.emit_for_ack("update-state", &update(&other));
    let small = second.emit_for_ack("message", &json!({"sid": other, "message": "small"}));
    world.release_results().await;
    assert_eq!(cli.wait_for_ack(first).await["version"], 2);
    world.advance(MEMORY_RETRY_MS).await;
    assert_eq!(second.wait_for_ack(waiting).await["version"], 2);
    assert_eq!(second.wait_for_ack(small).await["seq"], 1, "the frame after it waits, too");
}

#[tokio::test(start_paused = true)]
async fn a_socket_whose_frame_gets_no_memory_is_closed() {
    let (world, session, mut cli) = live_session().await;
    let mut second = world.cli(&session).await;
    let held = world.hub().memory.try_reserve(MAX_POOL_BYTES).unwrap();
    let message = json!({"sid": session, "message": padding(4 * MIB)});
    cli.deliver("message", &message).await;
    // Only one frame of an isolate may wait for memory.
    second.emit("message", &message);
    assert_eq!(second.socket.wait_for_close().await, 1008);
    for _ in 0..FRAME_MEMORY_TIMEOUT_MS / MEMORY_RETRY_MS {
        assert!(cli.socket.is_open());
        world.advance(MEMORY_RETRY_MS).await;
    }
    assert_eq!(cli.socket.wait_for_close().await, 1008);
    drop(held);
    assert_eq!(world.cli(&session).await.emit_with_ack("message", &message).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_disconnects_while_its_frame_waits_for_memory_does_not_disconnect_another_cli() {
    let (world, session, cli) = live_session().await;
    let second = world.cli(&session).await;
    let held = world.hub().memory.try_reserve(MAX_POOL_BYTES).unwrap();
    cli.deliver("message", &json!({"sid": session, "message": padding(4 * MIB)})).await;
    cli.socket.close();
    world.advance(FRAME_MEMORY_TIMEOUT_MS + MEMORY_RETRY_MS).await;
    assert!(second.socket.is_open());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_large_value_that_waits_for_memory_does_not_block_other_large_values() {
    let (world, session, mut cli) = live_session().await;
    let other = world.create_session("/other").await;
    for (session, bytes) in [(&session, 4 * MIB), (&other, MIB)] {
        assert_eq!(set_metadata(&mut cli, session, 1, &metadata(bytes, json!({}))).await["result"], "success");
    }
    run_until_idle().await;
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let rename = world.start_and_run("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"renamed"}"#).await;
    world.get(&format!("/api/sessions/{other}")).await.ok();
    drop(pool);
    world.advance(MEMORY_RETRY_MS).await;
    rename.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn pending_requests_up_to_their_limits_are_stored_when_they_are_completed() {
    let (world, session, mut cli) = live_session().await;
    let request = |bytes: usize| json!({"tool": "Write", "arguments": {"content": padding(bytes)}});
    let too_large = cli.update_agent_state(&session, 1, &json!({"requests": {"r": request(MAX_REQUEST_BYTES)}})).await;
    assert_eq!(too_large["code"], "too-large");
    assert!(too_large["reason"].as_str().unwrap().contains("8388608"), "{too_large}");
    let many = |count: usize| {
        let large = ("large".to_owned(), request(MAX_REQUEST_BYTES - 100));
        let requests: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("r{n}"), request(1_000_000))).chain([large]).collect();
        json!({"requests": requests})
    };
    assert_eq!(cli.update_agent_state(&session, 1, &many(9)).await["code"], "too-large");
    cli.put_agent_state(&session, 1, &many(7)).await;
    // Answers the ping that the hub sends after a large frame.
    cli.socket.send("3".to_owned());
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    reload(&world).await;
    let record = world.get_session(&session).await["agentState"].clone();
    assert_eq!(record["requests"], json!({}));
    let completed = record["completedRequests"].as_object().unwrap();
    assert_eq!(completed.len(), 8);
    let large = &completed["large"];
    assert_eq!((&large["tool"], &large["status"]), (&json!("Write"), &json!("canceled")));
    assert!(large.get("arguments").is_none() && large["argumentsBytes"].as_u64() > Some(8_000_000), "{large}");
    assert_eq!(completed["r6"]["arguments"], request(1_000_000)["arguments"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_write_a_large_file_can_be_approved() {
    let (world, session, mut cli) = session_with_methods(&["permission"]).await;
    let request = json!({"tool": "Write", "arguments": {"content": padding(8_000_000)}, "createdAt": 5});
    cli.put_agent_state(&session, 1, &json!({"requests": {"r": request}})).await;
    let path = format!("/api/sessions/{session}/permissions/r/approve");
    let reply = world.start("POST", &path, json!({"answers": {"q": [padding(2_000_000)]}}).to_string());
    assert_eq!(cli.respond_to_next_call("permission", &json!({})).await["approved"], true);
    reply.reply().await.ok();
    reload(&world).await;
    let record = world.get_session(&session).await["agentState"]["completedRequests"]["r"].clone();
    assert_eq!((&record["status"], &record["createdAt"]), (&json!("approved"), &json!(5)));
    assert!(record["argumentsBytes"].as_u64() > Some(8_000_000), "{record}");
}

#[tokio::test(start_paused = true)]
async fn a_value_from_an_older_hub_version_replaces_a_large_value() {
    let (world, session, mut cli) = live_session().await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r": {}}, "padding": padding(2 * MIB)})).await;
    run_until_idle().await;
    // Older versions read only the excerpt in the row.
    let excerpt = world.db.number(r#"SELECT count(*) FROM sessions WHERE agent_state = '{"requests":{"r":{}}}'"#);
    assert_eq!(excerpt, 1);
    world.db.execute(r#"UPDATE sessions SET agent_state = '{"old":1}', agent_state_version = 3"#);
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["agentState"], json!({"old": 1}));
    cli.put_agent_state(&session, 3, &json!({"padding": padding(2 * MIB)})).await;
    reload(&world).await;
    assert!(world.get_session(&session).await["agentState"]["padding"] == padding(2 * MIB));
    assert_eq!(stored_part_count(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_value_is_not_read_while_the_memory_for_responses_is_used_up() {
    let (world, session, mut cli) = live_session().await;
    let small = world.create_session("/small").await;
    assert_eq!(set_metadata(&mut cli, &session, 1, &metadata(2 * MIB, json!({}))).await["result"], "success");
    run_until_idle().await;
    let reserved = world.hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let reads = world.db.read_count();
    for path in [format!("/api/sessions/{session}"), format!("/cli/sessions/{session}")] {
        let reply = world.start("GET", &path, "");
        for _ in 0..MEMORY_TIMEOUT_MS / MEMORY_RETRY_MS {
            assert!(!reply.is_ready(), "the request waits for memory");
            world.advance(MEMORY_RETRY_MS).await;
        }
        reply.reply().await.assert_error(503, "overloaded");
    }
    let waiting = world.start_and_run("GET", &format!("/api/sessions/{session}"), "").await;
    let parts_read = world.db.read_batches()[reads..].iter().flatten().any(|read| read.sql.contains("value_parts"));
    assert!(!parts_read, "nothing is read without a reservation");
    world.get(&format!("/api/sessions/{small}")).await.ok();
    drop(reserved);
    world.advance(MEMORY_RETRY_MS).await;
    assert_eq!(waiting.reply().await.ok()["session"]["metadata"]["padding"], padding(2 * MIB));
}

#[tokio::test(start_paused = true)]
async fn a_response_holds_its_reservation_until_its_body_is_dropped() {
    let (world, session, mut cli) = session_with_methods(&["readFile"]).await;
    assert_eq!(set_metadata(&mut cli, &session, 1, &metadata(20 * MIB, json!({}))).await["result"], "success");
    run_until_idle().await;
    let get = async |path: String| {
        let request = http::Request::get(path).body(bytes::Bytes::new()).unwrap();
        respond(&world.hub(), request).await
    };
    let before = world.held_bytes();
    let held_mebibytes = || (world.held_bytes() - before) / MIB;
    let first = get(format!("/api/sessions/{session}")).await;
    assert!(first.body().len() > 20 * MIB);
    assert_eq!(held_mebibytes(), 20);
    // A response that is large because of the result of a CLI holds a reservation, too.
    let read = get(format!("/api/sessions/{session}/file?path=a"));
    let (second, ()) = tokio::join!(read, async {
        cli.respond_to_next_call("readFile", &json!({"success": true, "content": padding(25 * MIB)})).await;
    });
    assert!(second.body().len() > 25 * MIB);
    assert_eq!(held_mebibytes(), 45);
    let slice = first.body().slice(1..2);
    drop((first, second));
    assert_eq!(held_mebibytes(), 20, "a slice of the body keeps the reservation");
    drop(slice);
    assert_eq!(world.held_bytes(), before);
}
