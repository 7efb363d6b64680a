//! The limits of the cache and of machines. Eviction must not change anything that a client can observe.

use crate::support::prelude::*;
use crate::support::session_list::read_pages;
use session_gateway_hub::hub::core::sessions::cache::{MAX_CACHED_BYTES, MAX_CACHED_SESSIONS};
use session_gateway_hub::hub::core::state::CACHE_HEADROOM_BYTES;
use session_gateway_hub::limits::{MAX_MACHINE_BYTES, MAX_MACHINES};
use session_gateway_hub::memory_budget::MAX_POOL_BYTES;
use session_gateway_hub::store::Statement;

/// The size of the metadata of a large session.
const LARGE_BYTES: usize = 590_000;
/// The number of large sessions: their total size exceeds the limit of the cache.
const LARGE_SESSIONS: usize = MAX_CACHED_BYTES / LARGE_BYTES + 2;

/// Fills the cache with large sessions, so that it evicts every other idle session.
async fn fill_cache(world: &World) {
    for n in 0..LARGE_SESSIONS {
        world.db.execute(&format!(
            r#"INSERT OR IGNORE INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active,
                thinking, metadata, metadata_version, agent_state_version)
              SELECT 'large-{n}', 'team', '/large/{n}', 0, 0, 0, 0, 0, 0, 0,
                '{{"path":"/","host":"h","padding":"' || printf('%.{LARGE_BYTES}c', 'x') || '"}}', 1, 1"#
        ));
        // The request loads the session.
        is_cached(world, &format!("large-{n}")).await;
    }
}

/// Whether a session is cached: a request for it reads nothing from the database.
async fn is_cached(world: &World, session: &str) -> bool {
    let reads = world.db.read_count();
    world.get(&format!("/api/sessions/{session}/git-status")).await.ok();
    world.db.read_count() == reads
}

#[tokio::test(start_paused = true)]
async fn sessions_above_the_maximum_number_are_evicted_and_stay_in_the_list() {
    let world = World::new();
    let sessions = each(0..MAX_CACHED_SESSIONS, async |n| world.create_session(&format!("/{n}")).await).await;
    let [first, second, third] = [&sessions[0], &sessions[1], &sessions[2]];
    let list = world.get("/api/sessions").await;
    assert_eq!(list.ok()["sessions"].as_array().unwrap().len(), MAX_CACHED_SESSIONS);
    let record = world.get_session(second).await;
    assert!(is_cached(&world, first).await && is_cached(&world, second).await);
    for n in 0..3 {
        world.create_session(&format!("/more/{n}")).await;
    }
    let longer_list = read_pages(&world, "").await.concat();
    assert_eq!(longer_list.len(), MAX_CACHED_SESSIONS + 3);
    assert!(is_cached(&world, first).await && is_cached(&world, second).await, "recently used sessions are cached");
    assert!(!is_cached(&world, third).await, "the least recently used session is evicted");
    assert!(is_cached(&world, third).await);
    assert_eq!(world.get_session(second).await, record);
    assert_eq!(read_pages(&world, "").await.concat(), longer_list, "evictions do not change the list");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_evicted_by_size() {
    let world = World::new();
    let small = world.create_session("/small").await;
    fill_cache(&world).await;
    assert!(!is_cached(&world, &small).await);
    assert!(is_cached(&world, &small).await);
    assert!(is_cached(&world, &format!("large-{}", LARGE_SESSIONS - 1)).await);
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"].as_array().unwrap().len(), LARGE_SESSIONS + 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_for_new_tags_read_no_tag_even_if_other_sessions_are_evicted() {
    let world = World::new();
    for n in 0..MAX_CACHED_SESSIONS {
        world.create_session(&format!("/{n}")).await;
    }
    let reads = world.db.read_count();
    let body = |n: usize| json!({"tag": format!("/new/{n}"), "metadata": {"path": "/", "host": "h"}}).to_string();
    let created: Vec<_> = (0..2_000).map(|n| world.start("POST", "/cli/sessions", body(n))).collect();
    all_ok(created).await;
    let of_tags = |statement: &&Statement| statement.sql.contains("WHERE tag = ?1");
    assert_eq!(world.db.read_batches()[reads..].iter().flatten().filter(of_tags).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_load_no_new_session_even_if_active_sessions_fill_the_cache() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    for n in 0..MAX_CACHED_SESSIONS {
        let session = world.create_session(&format!("/{n}")).await;
        cli.send_keep_alive(&world, &session).await;
    }
    let reads = world.db.read_count();
    let body = |n: usize| json!({"tag": format!("/new/{n}"), "metadata": {"path": "/", "host": "h"}}).to_string();
    let created: Vec<_> = (0..120).map(|n| world.start("POST", "/cli/sessions", body(n))).collect();
    all_ok(created).await;
    assert_eq!(world.db.read_batches()[reads..].iter().flatten().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_created_and_evicted_while_its_tag_is_looked_up_is_found() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "h"}}).to_string();
    world.db.hold_results(BatchKind::Reads);
    let late = world.start("POST", "/cli/sessions", body.clone());
    assert_eq!(world.held_results().await, 1, "the tag is not found");
    world.db.stop_holding();
    let first = world.post("/cli/sessions", &serde_json::from_str(&body).unwrap()).await.ok()["session"].clone();
    let first = first["id"].as_str().unwrap();
    cli.put_agent_state(first, 1, &json!({"n": 1})).await;
    fill_cache(&world).await;
    world.db.release_results();
    assert_eq!(pick(&late.reply().await.ok()["session"], ["id", "agentState/n"]), json!([first, 1]));
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_cached_session_includes_its_completed_requests() {
    let world = World::new();
    let small = world.create_session("/small").await;
    let mut cli = world.bare_cli().await;
    for n in 0..7 {
        let session = world.create_session(&format!("/{n}")).await;
        let entry = |n: usize| (format!("q{n}"), json!({"tool": "t".repeat(1_000_000)}));
        let entries: serde_json::Map<String, Value> = (0..7).map(entry).collect();
        cli.put_agent_state(&session, 1, &json!({"completedRequests": entries})).await;
    }
    world.create_session("/one-more").await;
    assert!(!is_cached(&world, &small).await);
}

#[tokio::test(start_paused = true)]
async fn sessions_in_use_or_with_queued_writes_are_not_evicted() {
    let world = World::new();
    let (active, connected, changed) =
        (world.create_session("/a").await, world.create_session("/b").await, world.create_session("/c").await);
    let mut bare = world.bare_cli().await;
    bare.send_keep_alive(&world, &active).await;
    let _cli = world.cli(&connected).await;
    run_until_idle().await;
    // One change waits for the database, another change is queued behind it.
    world.db.hold_results(BatchKind::Writes);
    let first = world.start_and_run("PATCH", &format!("/api/sessions/{connected}"), r#"{"name":"first"}"#).await;
    let renamed = world.start_and_run("PATCH", &format!("/api/sessions/{changed}"), r#"{"name":"changed"}"#).await;
    let created: Vec<_> = (0..LARGE_SESSIONS)
        .map(|n| {
            let metadata = json!({"path": "/", "host": "h", "padding": "x".repeat(LARGE_BYTES)});
            world.start("POST", "/cli/sessions", json!({"tag": format!("/{n}"), "metadata": metadata}).to_string())
        })
        .collect();
    world.release_results().await;
    first.reply().await.ok();
    renamed.reply().await.ok();
    drop(created);
    run_until_idle().await;
    assert_eq!(world.get_session(&changed).await["metadata"]["name"], "changed");
    world.advance(RECONNECT_GRACE_MS).await;
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&changed).await["metadata"]["name"], "changed", "it is written before its eviction");
    for session in [&active, &connected] {
        world.get_session(session).await;
    }
    fill_cache(&world).await;
    assert!(is_cached(&world, &active).await && is_cached(&world, &connected).await);
    assert!(!is_cached(&world, &changed).await);
}

#[tokio::test(start_paused = true)]
async fn active_sessions_are_evicted_above_a_larger_limit_and_keep_working() {
    const STATE_BYTES: usize = 950_000;
    let world = World::new();
    let mut cli = world.bare_cli().await;
    let mut sessions = Vec::new();
    for n in 0..(MAX_POOL_BYTES - CACHE_HEADROOM_BYTES) / (LARGE_BYTES + STATE_BYTES) + 4 {
        let session = world.create_session_with(&format!("/{n}"), json!({"padding": "x".repeat(LARGE_BYTES)})).await;
        let state = json!({"requests": {"r": {"tool": "T"}}, "padding": "x".repeat(STATE_BYTES)});
        cli.put_agent_state(&session, 1, &state).await;
        cli.send_keep_alive(&world, &session).await;
        sessions.push(session);
    }
    run_until_idle().await;
    let (first, last) = (&sessions[0], sessions.last().unwrap());
    assert!(is_cached(&world, last).await && !is_cached(&world, first).await, "the least recently used one is evicted");
    let summary = |list: &Value, id: &str| {
        let summaries = list["sessions"].as_array().unwrap();
        summaries.iter().find(|summary| summary["id"] == id).unwrap().clone()
    };
    let list = world.get("/api/sessions").await.ok();
    for session in &sessions {
        assert_eq!(pick(&summary(&list, session), ["active", "pendingRequestsCount"]), json!([true, 1]));
    }
    fill_cache(&world).await;
    let mut reconnected = world.cli(first).await;
    reconnected.register("permission").await;
    let approved = world.start("POST", &format!("/api/sessions/{first}/permissions/r/approve"), "{}");
    reconnected.complete(approved, &json!({"success": true})).await.ok();
    assert_eq!(reconnected.send_message(first, "on").await["seq"], 1);
    let record = world.get_session(first).await;
    assert_eq!(pick(&record, ["active", "agentState/completedRequests/r/status"]), json!([true, "approved"]));
    world.advance(31_000).await;
    let list = world.get("/api/sessions").await.ok();
    assert!(sessions.iter().all(|session| summary(&list, session)["active"] == false), "all sessions have expired");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_session_is_loaded_unchanged() {
    let (world, session, mut cli) = live_session().await;
    let state = json!({"requests": {"r": {"tool": "Bash"}}, "completedRequests": {"q": {"status": "denied"}}});
    cli.update_agent_state(&session, 1, &state).await;
    let sent = json!({"sid": session, "message": {"role": "agent"}, "localId": "one"});
    assert_eq!(cli.emit_with_ack("message", &sent).await["seq"], 1);
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    let record = world.get_session(&session).await;
    cli.socket.close();
    fill_cache(&world).await;
    assert!(!is_cached(&world, &session).await);
    fill_cache(&world).await;
    assert_eq!(world.get_session(&session).await, record);
    let mut reconnected = world.cli(&session).await;
    assert_eq!(reconnected.emit_with_ack("message", &sent).await["seq"], 1, "the local id is known");
    assert_eq!(reconnected.send_message(&session, "next").await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_is_repeated() {
    let (world, session) = idle_session().await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    let reply = world.start("GET", &format!("/api/sessions/{session}"), "");
    let created = world.start("POST", "/cli/sessions", r#"{"tag":"/code","metadata":{"path":"/code","host":"box"}}"#);
    let listed = world.start("GET", "/api/sessions", "");
    assert_eq!(world.held_results().await, 3, "all three requests have read the earlier version");
    world.db.stop_holding();
    let mut cli = world.bare_cli().await;
    assert_eq!(cli.send_message(&session, "during the reads").await["seq"], 1);
    let renamed = world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#).await;
    renamed.ok();
    fill_cache(&world).await;
    assert!(!reply.is_ready() && !created.is_ready() && !listed.is_ready());
    world.db.release_results();
    assert_eq!(reply.reply().await.ok()["session"]["seq"], 1);
    assert_eq!(created.reply().await.ok()["session"]["seq"], 1);
    let listed = listed.reply().await.ok();
    let summary = listed["sessions"].as_array().unwrap().iter().find(|summary| summary["id"] == session.as_str());
    assert_eq!(summary.unwrap()["metadata"]["name"], "new");
    assert_eq!(cli.send_message(&session, "after").await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_tag_whose_session_was_created_and_evicted_during_the_read_is_read_again() {
    let world = World::new();
    world.db.hold_results(BatchKind::Reads);
    let created = world
        .start_and_run("POST", "/cli/sessions", r#"{"tag":"/code","metadata":{"path":"/code","host":"box"}}"#)
        .await;
    world.db.stop_holding();
    let session = world.create_session("/code").await;
    fill_cache(&world).await;
    world.db.release_results();
    assert_eq!(created.reply().await.ok()["session"]["id"], session.as_str());
}

#[tokio::test(start_paused = true)]
async fn the_list_is_the_same_from_the_cache_and_from_the_database_without_loading_sessions() {
    let world = World::new();
    let metadata = json!({
        "name": "a \"name\" with \u{1F980}, \\ and \u{0} in it", "machineId": "m", "flavor": null, "tools": ["x"],
        "summary": {"text": "doing\nthings", "updatedAt": 1.5}, "lifecycleState": "running",
        "worktree": {"branch": "b", "n": [1.50, 1e3, {"deep": [null, true]}], "": 12_345_678},
    });
    let session = world.create_session_with("/metadata", metadata).await;
    world.create_session_with("/plain", json!({})).await;
    world.create_session_with("/other", json!({"summary": 7, "worktree": "w", "name": null, "flavor": "beta"})).await;
    world.create_session_with("/large", json!({"padding": "x".repeat(LARGE_BYTES)})).await;
    let archived = world.create_session("/archived").await;
    world.post(&format!("/api/sessions/{archived}/archive"), &json!({})).await.ok();
    let mut cli = world.live_cli(&session).await;
    let todos = json!({"role": "agent", "content": {"type": "alpha", "data": {"type": "plan", "entries": [
        {"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}}});
    cli.emit_with_ack("message", &json!({"sid": session, "message": todos})).await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r1": {}, "r2": {}}})).await;
    let alive = json!({"sid": session, "time": world.now(), "thinking": true, "permissionMode": "plan"});
    cli.emit_with_ack("session-alive", &alive).await;
    run_until_idle().await;
    let mut reads = 0;
    for query in ["", "?archived=include", "?archived=only"] {
        let path = format!("/api/sessions{query}");
        let from_memory = world.get(&path).await;
        world.hibernate_and_wake().await;
        reads = world.db.read_count();
        assert_eq!(world.get(&path).await.text, from_memory.text);
        assert_eq!(world.db.read_count() - reads, 1);
    }
    let summary = &world.get("/api/sessions").await.ok()["sessions"][0];
    assert_eq!(summary["todoProgress"], json!({"completed": 1, "total": 2}));
    assert_eq!((&summary["pendingRequestsCount"], &summary["active"]), (&json!(2), &json!(true)));
    let read = world.db.read_batches().split_off(reads);
    assert!(!read.iter().flatten().any(|read| read.sql.contains("agent_state_version")), "no session was loaded");
    assert!(!is_cached(&world, &archived).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_database_cannot_read_as_json_does_not_affect_other_sessions() {
    let world = World::new();
    let deep = world.create_session("/deep").await;
    world.create_session("/plain").await;
    world.hibernate_and_wake().await;
    let nested = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    world.db.execute(&format!(
        r#"UPDATE sessions SET metadata = '{{"path":"/","host":"h","deep":{nested}}}', agent_state = '{{"requests":{{}},"deep":{nested}}}' WHERE id = '{deep}'"#
    ));
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"].as_array().unwrap().len(), 2);
    let body = format!(r#"{{"tag":"/t","metadata":{{"path":"/","host":"h","deep":{nested}}}}}"#);
    let error = world.request("POST", "/cli/sessions", body).await.assert_error(400, "invalid_field");
    assert_eq!(error["field"], "metadata", "such a session cannot be created");
}

#[tokio::test(start_paused = true)]
async fn an_active_session_that_only_the_list_has_read_expires() {
    let (world, _, cli) = live_session().await;
    // The object loses its sockets and its storage.
    cli.socket.close();
    world.restart();
    for key in world.rt.stored_entries().keys() {
        session_gateway_hub::hub::core::ports::Runtime::kv_delete(&*world.rt, key);
    }
    world.restart();
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["active"], true);
    world.advance(31_000).await;
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["active"], false);
}

/// Registers a machine with values of these sizes, in bytes.
async fn register_machine(world: &World, id: &str, metadata: usize, runner_state: usize) {
    let filled = |bytes: usize| json!({"host": "box", "padding": "x".repeat(bytes)});
    let body = json!({"id": id, "metadata": filled(metadata), "runnerState": filled(runner_state)});
    world.post("/cli/machines", &body).await.ok();
}

#[tokio::test(start_paused = true)]
async fn large_values_of_machines_are_stored_externally_above_a_limit() {
    let world = World::new();
    let mut runner = world.bare_cli().await;
    for number in 0..20 {
        let id = format!("m{number}");
        register_machine(&world, &id, 500_000, 900_000).await;
        runner.emit_with_ack("machine-alive", &json!({"machineId": id, "time": world.now()})).await;
    }
    let state = json!({"padding": "y".repeat(950_000)});
    let update = json!({"machineId": "m19", "expectedVersion": 1, "runnerState": state});
    assert_eq!(runner.emit_with_ack("machine-update-state", &update).await["result"], "success");
    let stored_bytes = "SELECT sum(length(metadata) + length(coalesce(runner_state, ''))) FROM machines";
    let bytes = world.db.number(stored_bytes);
    assert!((1..=MAX_MACHINE_BYTES as i64).contains(&bytes), "{bytes}");
    world.hibernate_and_wake().await;
    let list = world.get("/api/machines").await.ok()["machines"].clone();
    assert_eq!(list.as_array().unwrap().len(), 20);
    assert!(list.to_string().len() < MAX_MACHINE_BYTES + 100_000);
    for number in 0..20 {
        let whole = world.get(&format!("/api/machines/m{number}")).await.ok()["machine"].clone();
        assert_eq!(whole["metadata"]["padding"].as_str().unwrap().len(), 500_000);
        let state = if number == 19 { 950_000 } else { 900_000 };
        assert_eq!(whole["runnerState"]["padding"].as_str().unwrap().len(), state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_above_the_limit_replaces_the_machine_that_has_been_offline_longest() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    for number in 0..MAX_MACHINES {
        world.rt.set_now(world.now() + 1);
        register_machine(&world, &format!("m{number}"), if number == 1 { 700_000 } else { 0 }, 0).await;
    }
    // The first machine is online because of a keep-alive, the third because of its socket.
    cli.emit_with_ack("machine-alive", &json!({"machineId": "m0", "time": world.now()})).await;
    let _runner = world.runner("m2").await;
    assert_eq!(world.db.number("SELECT count(*) FROM value_parts"), 1);
    for (new, replaced) in [("n0", "m1"), ("n1", "m3")] {
        register_machine(&world, new, 0, 0).await;
        world.get(&format!("/api/machines/{replaced}")).await.assert_error(404, "machine_not_found");
    }
    assert_eq!(world.db.number("SELECT count(*) FROM value_parts"), 0, "the parts of the replaced machine are deleted");
    world.hibernate_and_wake().await;
    assert_eq!(world.db.number("SELECT count(*) FROM machines"), MAX_MACHINES as i64);
    for id in ["m0", "m2", "m4", "n0", "n1"] {
        world.get(&format!("/api/machines/{id}")).await.ok();
    }
    // A machine that was replaced can register again.
    register_machine(&world, "m1", 0, 0).await;
    assert_eq!(world.get("/api/machines/m1").await.ok()["machine"]["metadataVersion"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_above_the_limit_is_rejected_if_all_machines_are_online() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    for number in 0..MAX_MACHINES {
        register_machine(&world, &format!("m{number}"), 0, 0).await;
        cli.emit_with_ack("machine-alive", &json!({"machineId": format!("m{number}"), "time": world.now()})).await;
    }
    let body = json!({"id": "another", "metadata": {"host": "box"}});
    world.post("/cli/machines", &body).await.assert_error(503, "overloaded");
    register_machine(&world, "m7", 1, 0).await;
    world.advance(46_000).await;
    world.post("/cli/machines", &body).await.ok();
}
