//! Keep-alives in real conditions: wrong clocks, invalid fields, a slow database, several sockets of one session.

use crate::support::prelude::*;

async fn is_active(world: &World, session: &str) -> bool {
    world.get_session(session).await["active"].as_bool().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_time_in_an_event_has_no_effect() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    let times = [
        json!(world.now() + 3_600_000),
        json!(world.now() - 7_200_000),
        json!(world.now() / 1_000),
        json!(world.now().to_string()),
        json!("yesterday"),
        json!(0),
        json!(-1e300),
        Value::Null,
        json!({}),
    ];
    for time in times {
        world.advance(30_000).await;
        assert!(!is_active(&world, &session).await, "the hub's own clock has expired the keep-alive before {time}");
        let alive = cli.emit_with_ack("session-alive", &json!({"sid": session, "time": time})).await;
        assert_eq!(alive, json!({"ok": true}), "{time}");
        assert!(is_active(&world, &session).await, "{time}");
        let end = cli.emit_with_ack("session-end", &json!({"sid": session, "time": time})).await;
        assert_eq!(end, json!({"ok": true}), "{time}");
        assert!(!is_active(&world, &session).await, "{time}");
        let alive = cli.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": time})).await;
        assert_eq!(alive, json!({"ok": true}), "{time}");
        assert_eq!(world.get("/api/machines").await.ok()["machines"].as_array().unwrap().len(), 1, "{time}");
        assert_eq!(cli.emit_with_ack("session-alive", &json!({"sid": session})).await, json!({"ok": true}));
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_optional_fields_are_ignored_and_named_in_the_acknowledgement() {
    let (world, session, mut cli) = live_session().await;
    world.advance(30_000).await;
    assert!(!is_active(&world, &session).await);
    let alive = json!({"sid": session, "thinking": "yes", "mode": "sideways", "permissionMode": 5, "modelMode": "m"});
    let reply = cli.emit_with_ack("session-alive", &alive).await;
    assert_eq!(reply, json!({"ok": true, "ignored": ["thinking", "mode", "permissionMode"]}));
    assert_eq!(pick(&world.get_session(&session).await, ["active", "modelMode"]), json!([true, "m"]));
    let alive = json!({"sid": session, "thinking": true, "modelMode": "x".repeat(10_000)});
    assert_eq!(cli.emit_with_ack("session-alive", &alive).await["ignored"], json!(["modelMode"]));
    assert_eq!(pick(&world.get_session(&session).await, ["thinking", "modelMode"]), json!([true, "m"]));
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_takes_effect_on_arrival_even_if_earlier_frames_of_its_socket_are_being_handled() {
    let (world, session, mut cli) = live_session().await;
    world.register_machine("m").await;
    cli.emit_with_ack("machine-alive", &json!({"machineId": "m"})).await;
    let busy = world.create_session("/busy").await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    cli.emit("message", &json!({"sid": busy, "message": "waits for the database"}));
    assert_eq!(world.held_results().await, 1);
    world.db.stop_holding();
    for _ in 0..6 {
        world.advance(20_000).await;
        cli.emit("session-alive", &json!({"sid": session}));
        cli.socket.send(format!("42/cli,12[ \"machine-alive\" ,{}]", json!({"machineId": "m"})));
        // A pong for each ping.
        cli.socket.send("3".to_owned());
        run_until_idle().await;
        assert!(is_active(&world, &session).await);
    }
    assert_eq!(world.db.number("SELECT active FROM machines"), 1);
    world.advance(29_000).await;
    world.release_results().await;
    assert!(is_active(&world, &session).await);
    world.advance(1_000).await;
    assert!(!is_active(&world, &session).await, "30 s after the last one arrived, not after it was handled");
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_that_arrives_while_an_expiry_is_being_written_prevents_the_expiry() {
    for (holds, queued) in [(BatchKind::Reads, false), (BatchKind::Reads, true), (BatchKind::Writes, false)] {
        let (world, session, mut cli) = live_session().await;
        let busy = world.create_session("/busy").await;
        cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "x".repeat(1_500_000)}}})).await;
        world.hibernate_and_wake().await;
        world.db.hold_results(holds);
        if queued {
            cli.emit("message", &json!({"sid": busy, "message": {}}));
        }
        world.advance(31_000).await;
        assert!(world.db.held_result_count() > 0, "the session is being read or written");
        cli.emit("session-alive", &json!({"sid": session}));
        world.release_results().await;
        let record = world.get_session(&session).await;
        assert_eq!(record["active"], true, "{holds:?} {queued}");
        assert_eq!(record["agentState"]["requests"].as_object().unwrap().len(), 1, "{holds:?} {queued}");
        world.advance(20_000).await;
        assert!(is_active(&world, &session).await, "{holds:?} {queued}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_end_of_one_cli_does_not_end_a_session_that_another_cli_serves() {
    let (world, session, mut first) = live_session().await;
    let mut second = world.live_cli(&session).await;
    second.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "T"}}})).await;
    let end = json!({"sid": session, "time": world.now()});
    world.advance(20_000).await;
    second.send_keep_alive(&world, &session).await;
    world.hibernate_and_wake().await;
    assert_eq!(first.emit_with_ack("session-end", &end).await, json!({"ok": true}));
    let record = world.get_session(&session).await;
    assert_eq!((&record["active"], &record["agentState"]["requests"]), (&json!(true), &json!({"r": {"tool": "T"}})));
    // A socket without activity for 30 seconds does not prevent the end.
    world.advance(25_000).await;
    first.send_keep_alive(&world, &session).await;
    world.advance(6_000).await;
    assert_eq!(first.emit_with_ack("session-end", &end).await, json!({"ok": true}));
    let record = world.get_session(&session).await;
    assert_eq!(record["active"], false);
    assert_eq!(record["agentState"]["completedRequests"]["r"]["status"], "canceled");
}
