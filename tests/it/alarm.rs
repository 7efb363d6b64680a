//! The object's alarm: connect timeouts, pings and heartbeats, and the earliest deadline of all components.

use crate::support::cli::{Cli, Heard};
use crate::support::live::live;
use crate::support::runtime::{Frame, START};
use crate::support::sqlite::On;
use crate::support::{World, quiet};
use serde_json::{Value, json};

/// The first heartbeat (every 30 s) and the first ping (every 60 s) after the start. Both are on the wall clock.
const FIRST_HEARTBEAT: u64 = START + 25_000;
const FIRST_PING: u64 = START + 55_000;

fn count_pings(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| **frame == Frame::Text("2".into())).count()
}

/// Returns the attachment of a CLI's socket.
fn attachment(world: &World, cli: &Cli) -> Value {
    let attachment: Value = serde_json::from_str(&world.rt.attachment(cli.socket.key)).unwrap();
    attachment["cli"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_socket_has_ten_seconds_to_connect_hibernation_included() {
    let world = World::new();
    let mut late = world.open_cli(false);
    let mut in_time = world.open_cli(false);
    late.text().await;
    in_time.text().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.pass(5_000).await;
    world.sleep_and_wake().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    in_time.send(r#"40/cli,{"token":"secret:team"}"#);
    world.pass(4_999).await;
    assert!(late.is_open());
    world.pass(1).await;
    assert_eq!(late.closed().await, 1008);
    assert!(in_time.is_open());
}

#[tokio::test(start_paused = true)]
async fn pings_are_sent_on_the_wall_clock_and_a_pong_keeps_the_socket_open() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    for round in 0..5 {
        world.pass(FIRST_PING + 60_000 * round - world.now()).await;
        assert_eq!(cli.hear().await, Heard::Ping);
        cli.socket.send("3");
        quiet().await;
        assert_eq!(world.rt.alarm(), Some(FIRST_PING + 60_000 * (round + 1)));
    }
    cli.socket.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_a_pong_is_closed_at_the_next_ping_and_its_calls_fail() {
    let (world, session, mut cli) = live().await;
    cli.register("gitStatus").await;
    world.pass(FIRST_PING - world.now()).await;
    assert_eq!(count_pings(&cli.socket.rest().await), 1);
    world.pass(45_000).await;
    assert!(cli.socket.is_open());
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    quiet().await;
    world.pass(15_000).await;
    assert_eq!(cli.socket.closed().await, 1001);
    assert_eq!(call.reply().await.ok()["success"], false);
}

#[tokio::test(start_paused = true)]
async fn any_frame_counts_as_a_pong_and_an_unanswered_ping_survives_hibernation() {
    let world = World::new();
    let (mut talkative, mut silent) = (world.bare_cli().await, world.bare_cli().await);
    let mut binary = world.bare_cli().await;
    world.pass(FIRST_PING - world.now()).await;
    world.sleep_and_wake().await;
    assert!(attachment(&world, &silent)["unanswered"] == true);
    talkative.ask("ping", &Value::Null).await;
    binary.socket.send_binary();
    for cli in [&talkative, &binary] {
        assert!(attachment(&world, cli)["unanswered"] != true);
    }
    world.sleep_and_wake().await;
    world.pass(60_000).await;
    assert_eq!(silent.socket.closed().await, 1001);
    for cli in [&mut talkative, &mut binary] {
        assert!(cli.socket.is_open());
        assert_eq!(count_pings(&cli.socket.rest().await), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pong_counts_while_an_earlier_frame_is_still_being_handled() {
    let (world, session, mut cli) = live().await;
    world.sleep_and_wake().await;
    world.db.hold(On::Reads);
    let message = cli.emit_asking("message", &json!({"sid": session, "message": "slow"}));
    world.pass(FIRST_PING - world.now()).await;
    cli.socket.send("3");
    world.pass(60_000).await;
    assert!(cli.socket.is_open());
    world.db.release();
    assert_eq!(cli.acknowledged(message).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_wakes_the_hub_sends_its_heartbeat_and_ping_even_if_it_is_late() {
    for late in [0, 3, 900, 3_000, 15_000] {
        let world = World::new();
        let mut cli = world.bare_cli().await;
        let mut web = world.web("all=true").await;
        world.pass(40_000).await;
        drop(web.events().await);
        assert_eq!(world.rt.alarm(), Some(FIRST_PING));
        world.rt.set_now(FIRST_PING + late);
        world.sleep_and_wake().await;
        world.ring_at(FIRST_PING + late).await;
        assert_eq!(count_pings(&cli.socket.rest().await), 1, "{late} ms late");
        assert_eq!(web.types().await, ["heartbeat"], "{late} ms late");
    }
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_wakes_the_hub_sets_the_next_alarm_once() {
    let world = World::new();
    let _cli = world.bare_cli().await;
    world.rt.set_now(FIRST_PING);
    let set = world.rt.alarms_set();
    world.sleep_and_wake().await;
    world.rt.take_alarm();
    world.hub().on_alarm();
    quiet().await;
    assert_eq!(
        (world.rt.alarm(), world.rt.alarms_set() - set),
        (Some(FIRST_PING + 60_000), 1),
        "each setting is a write"
    );
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_sent_if_a_frame_wakes_the_hub_just_before_the_alarm() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    // The alarm is due, but a frame is handled before it.
    world.rt.set_now(FIRST_PING + 200);
    world.sleep_and_wake().await;
    cli.ask("ping", &Value::Null).await;
    world.pass(1_000).await;
    assert_eq!(count_pings(&cli.socket.rest().await), 1, "a client disconnects after 80 s without a ping");
}

#[tokio::test(start_paused = true)]
async fn subscribers_get_a_heartbeat_every_30_s_hibernation_included() {
    let world = World::new();
    let mut web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.pass(FIRST_HEARTBEAT - 1 - world.now()).await;
    web.0.heard_nothing().await;
    world.pass(1).await;
    assert_eq!(web.event().await["type"], "heartbeat");
    for _ in 0..4 {
        world.pass(10_000).await;
        world.sleep_and_wake().await;
        world.pass(20_000).await;
        let heartbeat = web.event().await;
        assert_eq!(heartbeat["type"], "heartbeat");
        assert!(heartbeat["eventId"].is_string());
    }
    web.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn the_alarm_is_set_to_the_earliest_deadline() {
    let world = World::new();
    assert_eq!(world.rt.alarm(), None, "no deadline");
    let session = world.session("/code").await;
    assert_eq!(world.rt.alarm(), None);
    let mut cli = world.cli(&session).await;
    let connect_timeout = START + 10_000;
    assert_eq!(world.rt.alarm(), Some(connect_timeout), "an alarm is never moved to a later time");
    world.pass(10_000).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING));
    let _web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.pass(FIRST_HEARTBEAT - world.now()).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING), "heartbeat and ping");
    cli.alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING), "the session expires at the same time");
    world.pass(10_000).await;
    cli.alive(&world, &session).await;
    cli.register("gitStatus").await;
    world.pass(20_000).await;
    let session_expires = FIRST_HEARTBEAT + 40_000;
    assert_eq!(world.rt.alarm(), Some(session_expires));
    let _call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    quiet().await;
    cli.alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), Some(session_expires), "a keep-alive does not move the alarm");
    world.pass(10_000).await;
    let call_times_out = FIRST_PING + 30_000;
    assert_eq!(world.rt.alarm(), Some(call_times_out), "call, session and heartbeat");
    world.restart();
    assert!(world.rt.alarm().is_some_and(|at| at <= call_times_out));
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_could_not_be_set_is_set_again() {
    let world = World::new();
    world.rt.break_alarm(3);
    let mut late = world.open_cli(false);
    late.text().await;
    quiet().await;
    assert_eq!(world.rt.alarm(), None);
    for _ in 0..3 {
        assert_eq!(world.rt.sleeping(), 1, "a pause before the next try");
        world.rt.set_now(world.now() + 1_000);
        quiet().await;
    }
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.pass(10_000).await;
    assert_eq!(late.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn a_failure_to_set_an_alarm_does_not_affect_the_alarm_that_is_set() {
    let world = World::new();
    let _web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.rt.break_alarm(1);
    let _first = world.open_cli(false);
    quiet().await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    // Another request during the pause sets the alarm at once.
    let _second = world.open_cli(false);
    quiet().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.rt.set_now(START + 1_000);
    quiet().await;
    assert_eq!((world.rt.alarm(), world.rt.sleeping()), (Some(START + 10_000), 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_does_not_delay_pings() {
    let (world, _, cli) = live().await;
    let mut other = world.bare_cli().await;
    cli.socket.close();
    world.sleep_and_wake().await;
    // The session expires, for which its row is read.
    world.db.hold(On::Reads);
    world.pass(FIRST_PING - world.now()).await;
    assert_eq!(world.db.held(), 1);
    assert_eq!(count_pings(&other.socket.rest().await), 1);
    world.db.release();
    quiet().await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
}
