//! Liveness: what keep-alives change, persist and publish, and when sessions and machines expire.

use session_gateway_hub::hub::write::commit::MAX_GROUPED_LOOKUPS;
use session_gateway_hub::store::fence::CHECK_EPOCH;
use session_gateway_hub::store::sessions::UPDATE_SMALL_COLUMNS;

use crate::support::prelude::*;

/// Sends a `session-alive` with additional fields.
async fn send_alive(world: &World, cli: &mut Cli, session: &str, fields: Value) {
    let mut alive = json!({"sid": session, "time": world.now()});
    alive.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    assert_eq!(cli.emit_with_ack("session-alive", &alive).await, json!({"ok": true}));
    run_until_idle().await;
}

/// Whether the only machine is online.
async fn is_online(world: &World) -> bool {
    world.get("/api/machines").await.ok()["machines"] != json!([])
}

/// Receives the next `session-updated`, and returns its `data`.
async fn next_session_update(web: &mut Web) -> Value {
    web.next_event_of("session-updated").await["data"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_activates_a_session_for_all_clients() {
    let (world, session) = idle_session().await;
    let mut web = world.web("all=true").await;
    assert!(!world.is_active(&session).await);
    let mut cli = world.cli(&session).await;
    assert!(!world.is_active(&session).await, "a connected socket does not activate the session");
    let mode = json!({"thinking": true, "mode": "local", "permissionMode": "plan", "modelMode": "model_fast"});
    world.rt.set_now(START + 10);
    send_alive(&world, &mut cli, &session, mode).await;
    let data = next_session_update(&mut web).await;
    for (field, value) in [
        ("active", json!(true)),
        ("activeAt", json!(START + 10)),
        ("thinking", json!(true)),
        ("thinkingAt", json!(START + 10)),
        ("mode", json!("local")),
        ("permissionMode", json!("plan")),
        ("modelMode", json!("model_fast")),
    ] {
        assert_eq!(data[field], value, "{field}");
        assert_eq!(world.get_session(&session).await[field], value, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_writes_nothing_and_a_change_writes_once() {
    let (world, session, mut cli) = live_session().await;
    let writes = world.db.write_count();
    for _ in 0..10 {
        world.advance(5_000).await;
        send_alive(&world, &mut cli, &session, json!({"thinking": false})).await;
    }
    assert_eq!(world.db.write_count(), writes, "keep-alives without a change are not written");
    for change in [json!({"thinking": true}), json!({"mode": "remote"}), json!({"permissionMode": "plan"})] {
        let writes = world.db.write_count();
        send_alive(&world, &mut cli, &session, change.clone()).await;
        send_alive(&world, &mut cli, &session, change.clone()).await;
        assert_eq!(world.db.write_count(), writes + 1, "{change}");
    }
    let written: Vec<&str> = world.db.write_batches().pop().unwrap().iter().map(|statement| statement.sql).collect();
    assert_eq!(written, [UPDATE_SMALL_COLUMNS, CHECK_EPOCH], "only the small columns are written");
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_of_a_machine_writes_nothing() {
    let world = World::new();
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    let alive = async |runner: &mut Cli| {
        let alive = json!({"machineId": "m", "time": world.now()});
        assert_eq!(runner.emit_with_ack("machine-alive", &alive).await, json!({"ok": true}));
        run_until_idle().await;
    };
    alive(&mut runner).await;
    assert!(is_online(&world).await);
    let writes = world.db.write_count();
    for _ in 0..5 {
        world.advance(20_000).await;
        alive(&mut runner).await;
    }
    assert_eq!(world.db.write_count(), writes);
    assert_eq!(world.get("/api/machines").await.ok()["machines"][0]["activeAt"], world.now());
}

#[tokio::test(start_paused = true)]
async fn changed_presence_is_published_at_once_and_unchanged_presence_every_ten_seconds() {
    let (world, session, mut cli, mut web) = watched_session("sessionId=$").await;
    for _ in 0..9 {
        world.advance(1_000).await;
        send_alive(&world, &mut cli, &session, json!({})).await;
    }
    web.0.assert_no_frames().await;
    world.advance(1_000).await;
    send_alive(&world, &mut cli, &session, json!({})).await;
    assert_eq!(pick(&next_session_update(&mut web).await, ["active", "activeAt"]), json!([true, world.now()]));
    send_alive(&world, &mut cli, &session, json!({"thinking": true})).await;
    assert_eq!(next_session_update(&mut web).await["thinking"], true);
    send_alive(&world, &mut cli, &session, json!({"thinking": false})).await;
    assert_eq!(next_session_update(&mut web).await["thinking"], false);
    send_alive(&world, &mut cli, &session, json!({})).await;
    web.0.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_30_seconds_after_its_last_keep_alive() {
    let (world, session, mut cli) = live_session().await;
    world.advance(20_000).await;
    send_alive(&world, &mut cli, &session, json!({"thinking": true})).await;
    let mut web = world.web("all=true").await;
    world.advance(29_999).await;
    assert!(world.is_active(&session).await);
    drop(web.events().await);
    world.advance(1).await;
    assert_eq!(pick(&next_session_update(&mut web).await, ["active", "thinking"]), json!([false, false]));
    let record = world.get_session(&session).await;
    assert_eq!(pick(&record, ["active", "thinking", "thinkingAt"]), json!([false, false, world.now()]));
    assert_eq!(world.db.number("SELECT active + thinking FROM sessions"), 0, "the expiry is persisted");
    assert!(cli.socket.is_open(), "the socket stays open");
    send_alive(&world, &mut cli, &session, json!({})).await;
    assert!(world.is_active(&session).await, "a keep-alive activates the session again");
}

#[tokio::test(start_paused = true)]
async fn a_machine_expires_45_seconds_after_its_last_keep_alive() {
    let world = World::new();
    world.register_machine("m").await;
    assert!(!is_online(&world).await, "a registered machine without a keep-alive is offline");
    let mut runner = world.runner("m").await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let mut web = world.web("machineId=m").await;
    world.advance(44_999).await;
    assert!(is_online(&world).await);
    world.advance(1).await;
    assert!(!is_online(&world).await);
    assert_eq!(pick(&web.next_event_of("machine-updated").await, ["machineId", "data/active"]), json!(["m", false]));
    assert_eq!(world.db.number("SELECT active FROM machines"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_end_deactivates_a_session_at_once_and_a_second_session_end_has_no_effect() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let end = json!({"sid": session, "time": world.now()});
    assert_eq!(cli.emit_with_ack("session-end", &end).await, json!({"ok": true}));
    run_until_idle().await;
    assert_eq!(next_session_update(&mut web).await["active"], false);
    let writes = world.db.write_count();
    cli.emit_with_ack("session-end", &end).await;
    world.advance(10_000).await;
    assert_eq!(world.db.write_count(), writes);
    web.0.assert_no_frames().await;
    assert!(!world.is_active(&session).await);
    assert!(world.rt.stored_entries().keys().all(|key| !key.contains(&session)), "{:?}", world.rt.stored_entries());
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_30_seconds_after_its_socket_was_closed() {
    let (world, session, cli) = live_session().await;
    world.advance(20_000).await;
    cli.socket.close();
    world.advance(29_999).await;
    assert!(world.is_active(&session).await, "the CLI may reconnect");
    world.advance(1).await;
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn the_close_of_a_socket_restarts_the_timeouts_of_its_session_and_machine_even_over_a_hibernation() {
    let (world, session, mut first) = live_session().await;
    world.register_machine("m").await;
    let both = json!({"sessionId": session, "machineId": "m"});
    let second = Cli::connect(&world, both.clone()).await;
    let mut third = Cli::connect(&world, both).await;
    let alive = json!({"machineId": "m", "time": world.now()});
    assert_eq!(third.emit_with_ack("machine-alive", &alive).await, json!({"ok": true}));
    world.advance(10_000).await;
    let writes = world.rt.kv_writes();
    first.socket.drain().await;
    first.socket.close();
    third.socket.close();
    assert_eq!(world.rt.kv_writes(), writes + 3, "the first socket serves the session, the third also the machine");
    // The second socket has sent no keep-alive.
    let closed_at = world.now();
    world.hibernate_and_wake().await;
    assert_eq!(world.rt.kv_writes(), writes + 3);
    world.advance(closed_at + 29_999 - world.now()).await;
    assert!(world.is_active(&session).await);
    world.advance(1).await;
    assert!(!world.is_active(&session).await);
    assert!(is_online(&world).await);
    let writes = world.rt.kv_writes();
    second.socket.close();
    assert_eq!(world.rt.kv_writes(), writes + 1, "only the machine is written, because the session has expired");
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_closes_after_session_end_does_not_reactivate_the_session() {
    let (world, session, mut cli) = live_session().await;
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    run_until_idle().await;
    assert!(!world.is_active(&session).await);
    world.advance(60_000).await;
    assert_eq!(world.rt.alarm(), None, "no expiry is scheduled");
}

#[tokio::test(start_paused = true)]
async fn presence_is_published_while_messages_are_being_written() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    for _ in 0..5 {
        world.advance(10_000).await;
        // A message is being written at each keep-alive.
        cli.emit("message", &json!({"sid": session, "message": {}}));
        send_alive(&world, &mut cli, &session, json!({})).await;
    }
    let presence = web.types().await.iter().filter(|t| *t == "session-updated").count();
    assert!(presence >= 5, "published {presence} times in 50 seconds");
}

#[tokio::test(start_paused = true)]
async fn hibernation_does_not_prolong_the_timeouts_of_sessions_and_machines() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    cli.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    world.advance(20_000).await;
    world.hibernate_and_wake().await;
    assert!(world.is_active(&session).await);
    world.advance(9_000).await;
    assert!(world.is_active(&session).await, "29 s after the keep-alive");
    world.advance(6_000).await;
    assert!(!world.is_active(&session).await, "35 s after the keep-alive");
    world.advance(9_000).await;
    assert!(is_online(&world).await);
    world.advance(6_000).await;
    assert!(!is_online(&world).await);
}

#[tokio::test(start_paused = true)]
async fn an_active_session_without_a_stored_timer_gets_a_full_timeout_after_a_restart() {
    let (world, session) = idle_session().await;
    world.db.execute("UPDATE sessions SET active = 1, thinking = 1");
    world.restart();
    assert_eq!(pick(&world.get_session(&session).await, ["active", "thinking"]), json!([true, true]));
    world.advance(29_999).await;
    assert!(world.is_active(&session).await);
    world.advance(6_000).await;
    assert!(!world.is_active(&session).await);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_disconnect_together_after_a_wake_are_read_in_one_batch() {
    let world = World::new();
    let mut web = world.web("all=true").await;
    let mut clis = Vec::new();
    for n in 0..MAX_GROUPED_LOOKUPS {
        let session = world.create_session(&format!("/code/{n}")).await;
        clis.push(world.live_cli(&session).await);
    }
    web.types().await;
    clis.into_iter().for_each(|cli| cli.socket.close());
    world.hibernate_and_wake().await;
    let before = world.db.read_count();
    world.advance(6_000).await;
    for _ in 0..MAX_GROUPED_LOOKUPS {
        assert_eq!(next_session_update(&mut web).await, json!({"disconnected": true}));
    }
    let lookups = world.db.read_batches()[before..].iter().filter(|batch| batch.len() > 1).count();
    assert_eq!(lookups, 1);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_whose_alarm_wakes_the_hub_is_persisted_and_published() {
    let (world, session, cli, mut web) = watched_session("all=true").await;
    cli.socket.close();
    world.hibernate_and_wake().await;
    world.advance(36_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
    assert_eq!(next_session_update(&mut web).await, json!({"disconnected": true}));
    assert_eq!(next_session_update(&mut web).await["active"], false);
    assert!(world.rt.stored_entries().keys().all(|key| !key.contains(&session)), "{:?}", world.rt.stored_entries());
}

#[tokio::test(start_paused = true)]
async fn an_expiry_is_retried_until_the_database_is_reachable() {
    let (world, session, cli) = live_session().await;
    cli.socket.close();
    world.hibernate_and_wake().await;
    let unreachable = retryable_error();
    world.db.fail_all(BatchKind::Reads, unreachable);
    world.advance(60_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 1);
    world.db.repair();
    world.advance(60_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0, "{session}");
}
