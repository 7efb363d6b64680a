//! The object's alarm: connect timeouts, pings and heartbeats, and the earliest deadline of all components. A tick is a time at
//! which pings and heartbeats are sent.

use crate::support::prelude::*;

/// The time of the first heartbeat and of the first ping. Pings and heartbeats are sent at multiples of 30 s of the wall clock.
const FIRST_HEARTBEAT: u64 = START + 25_000;
const FIRST_PING: u64 = FIRST_HEARTBEAT;

fn count_pings(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| **frame == Frame::Text("2".into())).count()
}

/// Returns the attachment of a CLI's socket.
fn attachment(world: &World, cli: &Cli) -> Value {
    let attachment: Value = serde_json::from_str(&world.rt.attachment(cli.socket.key)).unwrap();
    attachment["cli"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_connect_is_closed_after_ten_seconds_even_with_hibernation() {
    let world = World::new();
    let mut late = world.open_cli();
    let mut in_time = world.open_cli();
    late.next_text().await;
    in_time.next_text().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.advance(5_000).await;
    world.hibernate_and_wake().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    in_time.send(r#"40/cli,{"token":"secret:team"}"#);
    world.advance(4_999).await;
    assert!(late.is_open());
    world.advance(1).await;
    assert_eq!(late.wait_for_close().await, 1008);
    assert!(in_time.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_sent_every_30_s_of_the_wall_clock_and_a_pong_keeps_the_socket_open() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    for round in 0..5 {
        world.advance(FIRST_PING + 30_000 * round - world.now()).await;
        assert_eq!(cli.receive().await, Received::Ping);
        cli.socket.send("3");
        run_until_idle().await;
        assert_eq!(world.rt.alarm(), Some(FIRST_PING + 30_000 * (round + 1)));
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_sends_nothing_for_60_s_after_a_ping_is_closed_and_its_calls_fail() {
    let (world, session, mut cli) = session_with_methods(&["gitStatus"]).await;
    let mut keeper = world.cli(&session).await;
    world.advance(FIRST_PING - world.now()).await;
    keeper.send_keep_alive(&world, &session).await;
    world.advance(29_000).await;
    keeper.send_keep_alive(&world, &session).await;
    world.advance(29_000).await;
    keeper.send_keep_alive(&world, &session).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 2);
    assert!(cli.socket.is_open());
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    world.advance(2_000).await;
    assert_eq!(cli.socket.wait_for_close().await, 1001);
    assert_eq!(call.reply().await.ok()["success"], false);
    assert!(keeper.socket.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_silent_socket_is_closed_60_s_after_its_ping_however_late_the_alarms_are() {
    for delays in [[0, 0, 0], [20, 3, 0], [0, 5, 20], [9_000, 0, 0], [9_000, 9_000, 2_000]] {
        let world = World::new();
        let mut cli = world.bare_cli().await;
        world.advance(FIRST_PING - 1 - world.now()).await;
        for (tick, delay) in delays.into_iter().enumerate() {
            assert!(cli.socket.is_open(), "before tick {tick} with {delays:?}");
            let at = FIRST_PING + 30_000 * tick as u64;
            assert_eq!(world.rt.alarm(), Some(at));
            world.fire_alarm_at(at + delay).await;
        }
        assert_eq!(cli.socket.wait_for_close().await, 1001);
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_answers_only_the_second_ping_stays_open() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    world.advance(FIRST_PING - world.now()).await;
    for _ in 0..5 {
        world.advance(59_000).await;
        cli.socket.send("3");
        world.advance(1_000).await;
        assert!(cli.socket.is_open());
    }
    assert_eq!(count_pings(&cli.socket.drain().await), 11);
}

#[tokio::test(start_paused = true)]
async fn any_frame_counts_as_a_pong_and_an_unanswered_ping_survives_hibernation() {
    let world = World::new();
    let (mut talkative, mut silent) = (world.bare_cli().await, world.bare_cli().await);
    world.advance(FIRST_PING - world.now()).await;
    world.hibernate_and_wake().await;
    assert_eq!(attachment(&world, &silent)["pingedAt"], FIRST_PING);
    talkative.emit_with_ack("ping", &Value::Null).await;
    assert_eq!(attachment(&world, &talkative)["pingedAt"], Value::Null);
    world.hibernate_and_wake().await;
    world.advance(60_000).await;
    assert_eq!(silent.socket.wait_for_close().await, 1001);
    assert!(talkative.socket.is_open());
    assert_eq!(count_pings(&talkative.socket.drain().await), 3);
}

#[tokio::test(start_paused = true)]
async fn a_late_alarm_closes_no_socket_that_answered_its_last_ping() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    world.advance(FIRST_PING - world.now()).await;
    cli.socket.send("3");
    run_until_idle().await;
    // Two alarms in a row: the first alarm is late, the second alarm is on time.
    world.rt.set_now(FIRST_PING + 209_999);
    world.fire_alarm_at(FIRST_PING + 209_999).await;
    world.advance(1).await;
    assert!(cli.socket.is_open());
    assert_eq!(count_pings(&cli.socket.drain().await), 3);
    world.advance(30_000).await;
    assert!(cli.socket.is_open(), "the CLI has 60 s to answer");
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_is_almost_a_minute_late_disconnects_no_client_and_ends_no_session() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let mut last_ping_at = world.now();
    for _ in 0..5 {
        let late_at = world.rt.alarm().unwrap() + 59_999;
        while world.now() + 10_000 < late_at {
            world.rt.set_now(world.now() + 10_000);
            cli.deliver("session-alive", &json!({"sid": session, "time": world.now()})).await;
        }
        world.fire_alarm_at(late_at).await;
        assert_eq!(count_pings(&cli.socket.drain().await), 1);
        assert!(late_at - last_ping_at < 90_000, "a client disconnects 90 s after the last ping");
        last_ping_at = late_at;
    }
    assert!(cli.socket.is_open() && web.0.is_open());
    assert_eq!(world.db.number("SELECT active FROM sessions"), 1);
    assert!(web.events().await.iter().all(|event| event["data"]["active"] != false));
}

#[tokio::test(start_paused = true)]
async fn a_second_alarm_at_the_same_time_changes_nothing() {
    let (world, _session, mut cli) = live_session().await;
    world.fire_alarm_at(FIRST_PING).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 1);
    let alarm = world.rt.alarm();
    world.hub().on_alarm();
    assert_eq!((count_pings(&cli.socket.drain().await), world.rt.alarm()), (0, alarm));
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_does_not_fire_is_set_again_by_the_next_event_after_a_minute() {
    let (world, session, mut cli) = live_session().await;
    let lost = world.rt.take_alarm().unwrap();
    world.rt.set_now(lost + 60_000);
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), None, "the alarm may still fire");
    world.rt.set_now(lost + 600_000);
    cli.send_keep_alive(&world, &session).await;
    let again = world.rt.alarm().unwrap();
    world.fire_alarm_at(again).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 1);
    assert_eq!(world.rt.alarm(), Some(next_multiple_of_30_s(again)));
}

fn next_multiple_of_30_s(after: u64) -> u64 {
    (after / 30_000 + 1) * 30_000
}

#[tokio::test(start_paused = true)]
async fn a_pong_keeps_the_socket_open_while_an_earlier_frame_is_still_being_handled() {
    let (world, session, mut cli) = live_session().await;
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    let message = cli.emit_for_ack("message", &json!({"sid": session, "message": "slow"}));
    world.advance(FIRST_PING - world.now()).await;
    cli.socket.send("3");
    world.advance(60_000).await;
    assert!(cli.socket.is_open());
    world.db.release_results();
    world.advance_in_steps(1_000).await;
    assert_eq!(cli.wait_for_ack(message).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_wakes_the_hub_sends_its_heartbeat_and_ping_even_if_it_is_late() {
    for delay_ms in [0, 3, 900, 3_000, 15_000] {
        let world = World::new();
        let mut cli = world.bare_cli().await;
        let mut web = world.web("all=true").await;
        world.advance(20_000).await;
        drop(web.events().await);
        assert_eq!(world.rt.alarm(), Some(FIRST_PING));
        world.rt.set_now(FIRST_PING + delay_ms);
        world.hibernate_and_wake().await;
        world.fire_alarm_at(FIRST_PING + delay_ms).await;
        assert_eq!(count_pings(&cli.socket.drain().await), 1, "{delay_ms} ms late");
        assert_eq!(web.types().await, ["heartbeat"], "{delay_ms} ms late");
    }
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_wakes_the_hub_sets_the_next_alarm_once() {
    let world = World::new();
    let _cli = world.bare_cli().await;
    world.rt.set_now(FIRST_PING);
    let alarms_set = world.rt.alarms_set();
    world.hibernate_and_wake().await;
    world.rt.take_alarm();
    world.hub().on_alarm();
    run_until_idle().await;
    assert_eq!(
        (world.rt.alarm(), world.rt.alarms_set() - alarms_set),
        (Some(FIRST_PING + 30_000), 1),
        "the alarm is set once, because setting it is a write"
    );
}

#[tokio::test(start_paused = true)]
async fn an_alarm_between_two_ticks_writes_only_the_next_alarm() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    world.advance(FIRST_PING - world.now()).await;
    let writes = world.rt.kv_writes();
    world.fire_alarm_at(FIRST_PING + 10_000).await;
    assert_eq!(world.rt.kv_writes(), writes);
    cli.emit_with_ack("ping", &Value::Null).await;
    cli.socket.drain().await;
    world.hibernate_and_wake().await;
    world.advance(FIRST_PING + 30_000 - world.now()).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 1, "the next tick is not late");
    assert_eq!(world.rt.kv_writes(), writes + 1);
}

#[tokio::test(start_paused = true)]
async fn while_keep_alives_arrive_a_tick_writes_only_the_next_alarm_and_a_wake_repeats_one_tick() {
    let (world, session, mut cli) = live_session().await;
    let mut kv_writes = Vec::new();
    for round in 0..3 {
        let tick = FIRST_PING + 30_000 * round;
        for at in [tick - 24_000, tick - 14_000, tick - 4_000] {
            world.advance(at - world.now()).await;
            cli.send_keep_alive(&world, &session).await;
        }
        let writes = world.rt.kv_writes();
        world.advance(tick - world.now()).await;
        kv_writes.push(world.rt.kv_writes() - writes);
    }
    assert_eq!(kv_writes, [1, 0, 0], "the first tick is stored");
    assert_eq!(count_pings(&cli.socket.drain().await), 3);
    world.hibernate_and_wake().await;
    world.advance(1).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 1);
    world.hibernate_and_wake().await;
    world.advance(29_998).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 0);
    world.advance(1).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 1, "the next tick is not late");
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_sent_if_a_frame_wakes_the_hub_just_before_the_alarm() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    // The alarm is due, but a frame is handled before it.
    world.rt.set_now(FIRST_PING + 200);
    world.hibernate_and_wake().await;
    cli.emit_with_ack("ping", &Value::Null).await;
    world.advance(1_000).await;
    assert_eq!(count_pings(&cli.socket.drain().await), 1, "a client disconnects after 90 s without a ping");
}

#[tokio::test(start_paused = true)]
async fn subscribers_get_a_heartbeat_every_30_s_even_with_hibernation() {
    let world = World::new();
    let mut web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.advance(FIRST_HEARTBEAT - 1 - world.now()).await;
    web.0.assert_no_frames().await;
    world.advance(1).await;
    assert_eq!(web.next_event().await["type"], "heartbeat");
    for _ in 0..4 {
        world.advance(10_000).await;
        world.hibernate_and_wake().await;
        world.advance(20_000).await;
        let heartbeat = web.next_event().await;
        assert_eq!(heartbeat["type"], "heartbeat");
        assert!(heartbeat["eventId"].is_string());
    }
    web.0.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn the_alarm_is_set_to_the_earliest_deadline() {
    let world = World::new();
    assert_eq!(world.rt.alarm(), None, "no deadline");
    let session = world.create_session("/code").await;
    assert_eq!(world.rt.alarm(), None);
    let mut cli = world.cli(&session).await;
    let connect_timeout = START + 10_000;
    assert_eq!(world.rt.alarm(), Some(connect_timeout), "an alarm is never moved to a later time");
    world.advance(10_000).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING));
    let _web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.advance(FIRST_HEARTBEAT - world.now()).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING + 30_000), "the heartbeat and the ping are due at the same time");
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING + 30_000), "the session expires at the same time");
    world.advance(10_000).await;
    cli.send_keep_alive(&world, &session).await;
    cli.register("gitStatus").await;
    world.advance(20_000).await;
    let session_expires = FIRST_HEARTBEAT + 40_000;
    assert_eq!(world.rt.alarm(), Some(session_expires));
    let _call = world.start_and_run("GET", &format!("/api/sessions/{session}/git-status"), "").await;
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), Some(session_expires), "a keep-alive does not move the alarm");
    world.advance(10_000).await;
    let call_times_out = FIRST_PING + 60_000;
    assert_eq!(world.rt.alarm(), Some(call_times_out), "call, session and heartbeat have the same deadline");
    world.restart();
    assert!(world.rt.alarm().is_some_and(|at| at <= call_times_out));
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_could_not_be_set_is_set_again() {
    let world = World::new();
    world.rt.fail_alarms(3);
    let mut late = world.open_cli();
    late.next_text().await;
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), None);
    for _ in 0..3 {
        assert_eq!(world.rt.sleeping_tasks(), 1, "the hub waits before the next attempt");
        world.rt.set_now(world.now() + 1_000);
        run_until_idle().await;
    }
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.advance(10_000).await;
    assert_eq!(late.wait_for_close().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn a_failure_to_set_an_alarm_does_not_affect_the_alarm_that_is_set() {
    let world = World::new();
    let _web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.rt.fail_alarms(1);
    let _first = world.open_cli();
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    // Another socket during the wait sets the alarm at once.
    let _second = world.open_cli();
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.rt.set_now(START + 1_000);
    run_until_idle().await;
    assert_eq!((world.rt.alarm(), world.rt.sleeping_tasks()), (Some(START + 10_000), 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_does_not_delay_pings() {
    let (world, _, cli) = live_session().await;
    let mut other = world.bare_cli().await;
    cli.socket.close();
    world.hibernate_and_wake().await;
    // The session expires. To expire it, the hub reads its row.
    world.db.hold_results(BatchKind::Reads);
    world.advance(FIRST_PING + 30_000 - world.now()).await;
    assert_ne!(world.db.held_result_count(), 0);
    assert_eq!(count_pings(&other.socket.drain().await), 2);
    world.db.release_results();
    world.advance_in_steps(1_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
}
