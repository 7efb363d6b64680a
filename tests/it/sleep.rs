//! The object sleeps and wakes: with the same attachments, notebook and database, the hub goes on as before. And its one
//! alarm is always set to the earliest of all deadlines.

use crate::support::cli::{Cli, Heard, read};
use crate::support::runtime::{Frame, START};
use crate::support::sqlite::On;
use crate::support::{RECONNECT_GRACE_MS, World, quiet};
use serde_json::{Value, json};

/// The first beats after the start: of heartbeats (every 30 s) and of pings (every 60 s), on the wall clock.
const FIRST_HEARTBEAT: u64 = START + 25_000;
const FIRST_PING: u64 = START + 55_000;

async fn live() -> (World, String, Cli) {
    let world = World::new();
    let session = world.session("/code").await;
    let cli = world.live_cli(&session).await;
    (world, session, cli)
}

/// Calls `gitStatus` of a session; which of the CLIs hears it answers with its name.
async fn served_by(world: &World, session: &str, clis: &mut [(&str, &mut Cli)]) -> String {
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    quiet().await;
    for (name, cli) in clis {
        for frame in cli.socket.rest().await {
            let Frame::Text(text) = frame else { continue };
            if let Heard::Event { name: event, ack: Some(ack), .. } = read(&text)
                && event == "rpc-request"
            {
                cli.socket.send(format!("43/cli,{ack}[{}]", json!(json!({"success": true, "by": name}).to_string())));
            }
        }
    }
    let answer = call.reply().await.ok();
    answer["by"].as_str().or(answer["error"].as_str()).unwrap().to_owned()
}

fn pings(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| **frame == Frame::Text("2".into())).count()
}

/// An attachment as JSON, and whether a ping waits for its answer there.
fn attachment(world: &World, cli: &Cli) -> Value {
    let attachment: Value = serde_json::from_str(&world.rt.attachment(cli.socket.key)).unwrap();
    attachment["cli"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_woken_hub_still_knows_who_serves_what() {
    let (world, session, mut cli) = live().await;
    let mut rival = world.cli(&session).await;
    cli.register("gitStatus").await;
    cli.register(&format!("{session}:readFile")).await;
    world.sleep_and_wake().await;
    assert_eq!(served_by(&world, &session, &mut [("first", &mut cli), ("rival", &mut rival)]).await, "first");
    let call = world.start("GET", &format!("/api/sessions/{session}/file?path=a"), "");
    let request = cli.request().await;
    assert_eq!(request.method, format!("{session}:readFile"), "under the name that was registered");
    cli.answer(&request, &json!({"success": true}));
    call.reply().await.ok();
    cli.ask("rpc-unregister", &json!({"method": "gitStatus"})).await;
    world.sleep_and_wake().await;
    let answer = served_by(&world, &session, &mut [("first", &mut cli)]).await;
    assert_eq!(answer, "No handler registered for gitStatus");
}

#[tokio::test(start_paused = true)]
async fn the_winner_of_a_method_stays_the_winner() {
    let (world, session, mut first) = live().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    world.pass(1_000).await;
    second.register("gitStatus").await;
    world.sleep_and_wake().await;
    assert_eq!(served_by(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "second");
    // Another method of the loser does not make it the winner of this one.
    world.pass(1_000).await;
    first.register("readFile").await;
    assert_eq!(served_by(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "second");
    world.sleep_and_wake().await;
    assert_eq!(served_by(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "second");
}

#[tokio::test(start_paused = true)]
async fn the_winner_of_two_registrations_in_one_millisecond_stays_the_winner() {
    let (world, session, mut first) = live().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    second.register("gitStatus").await;
    world.sleep_and_wake().await;
    assert_eq!(served_by(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "second");
}

#[tokio::test(start_paused = true)]
async fn a_method_whose_winner_is_gone_has_no_heir_after_a_sleep_either() {
    let (world, session, mut first) = live().await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    world.pass(1_000).await;
    second.register("gitStatus").await;
    second.socket.close();
    world.pass(RECONNECT_GRACE_MS).await;
    let before = served_by(&world, &session, &mut [("first", &mut first)]).await;
    world.sleep_and_wake().await;
    assert_eq!(served_by(&world, &session, &mut [("first", &mut first)]).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_woken_hub_still_knows_whose_socket_it_is() {
    let (world, session, mut cli) = live().await;
    world.machine("m").await;
    let mut runner = world.runner("m").await;
    let mut bare = world.bare_cli().await;
    let other = world.session("/other").await;
    world.sleep_and_wake().await;
    assert_eq!(cli.message(&session, "hello").await["seq"], 1);
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"})).await.ok();
    assert_eq!(cli.event("update").await["body"]["message"]["seq"], 2);
    let state = json!({"machineId": "m", "expectedVersion": 1, "runnerState": {}});
    bare.ask("machine-update-state", &state).await;
    assert_eq!(runner.event("update").await["body"]["t"], "update-machine");
    let refused = cli.ask("rpc-register", &json!({"method": format!("{other}:readFile")})).await;
    assert_eq!(refused["code"], "access-denied");
    bare.socket.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn seqs_and_versions_go_on_after_a_sleep() {
    let (world, session, mut cli) = live().await;
    for n in 1..=3 {
        assert_eq!(cli.message(&session, "m").await["seq"], n);
        let update = json!({"sid": session, "expectedVersion": n, "agentState": {"n": n}});
        assert_eq!(cli.ask("update-state", &update).await["version"], n + 1);
        world.sleep_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_woken_hub_still_knows_what_its_subscribers_want() {
    let (world, session, mut cli) = live().await;
    let other = world.session("/other").await;
    let mut of_session = world.web(&format!("sessionId={session}")).await;
    let mut of_other = world.web(&format!("sessionId={other}")).await;
    let mut of_all = world.web("all=true").await;
    world.sleep_and_wake().await;
    cli.message(&session, "hello").await;
    assert_eq!(of_session.types().await, ["message-received"]);
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    assert_eq!(of_session.types().await, ["session-updated"]);
    assert_eq!(of_all.types().await, ["session-updated"]);
    assert!(of_other.types().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_takes_nothing_from_the_time_of_the_last_sign_of_life() {
    let (world, session, mut cli) = live().await;
    world.machine("m").await;
    let mut runner = world.runner("m").await;
    let all = async || {
        let list = world.get("/api/sessions").await.ok()["sessions"][0]["activeAt"].clone();
        let machine = world.get("/api/machines").await.ok()["machines"][0]["activeAt"].clone();
        [list, world.shown(&session).await["activeAt"].clone(), machine]
    };
    for wait in [0, 20_000, 5_000] {
        world.pass(wait).await;
        cli.alive(&world, &session).await;
        runner.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    }
    assert_eq!(all().await, [START + 25_000; 3]);
    world.sleep_and_wake().await;
    assert_eq!(all().await, [START + 25_000; 3]);
    // Closing a socket is a last sign as well.
    world.pass(3_000).await;
    cli.socket.close();
    runner.socket.close();
    assert_eq!(all().await, [START + 28_000; 3]);
    world.sleep_and_wake().await;
    assert_eq!(all().await, [START + 28_000; 3]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_life_in_a_sleep_keeps_the_time_of_its_last_sign() {
    for leaves in [false, true] {
        let (world, session, mut cli) = live().await;
        world.pass(20_000).await;
        cli.alive(&world, &session).await;
        if leaves {
            cli.socket.close();
        }
        world.sleep_and_wake().await;
        world.pass(30_000).await;
        let shown = world.shown(&session).await;
        assert_eq!((&shown["active"], &shown["activeAt"]), (&json!(false), &json!(START + 20_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_no_sign_of_life() {
    let (world, session, _cli) = live().await;
    world.pass(5_000).await;
    world.restart();
    assert_eq!(world.shown(&session).await["activeAt"], START);
}

#[tokio::test(start_paused = true)]
async fn a_visibility_survives_a_sleep() {
    let world = World::new();
    let mut socket = world.try_subscribe("visibility=hidden", None, Default::default()).await.unwrap();
    let greeting: Value = serde_json::from_str(&socket.text().await).unwrap();
    let body = json!({"subscriptionId": greeting["data"]["subscriptionId"], "visibility": "visible"});
    let visible = || {
        let attachment: Value = serde_json::from_str(&world.rt.attachment(socket.key)).unwrap();
        attachment["web"]["visible"].clone()
    };
    assert_eq!(visible(), false);
    world.post("/api/visibility", &body).await.ok();
    assert_eq!(visible(), true);
    world.sleep_and_wake().await;
    assert_eq!(visible(), true);
    world.post("/api/visibility", &body).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_call_from_before_a_restart_does_not_disturb_those_after_it() {
    let (world, session, mut cli) = live().await;
    cli.register("gitStatus").await;
    let lost = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let before = cli.request().await;
    world.restart();
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    let request = cli.request().await;
    assert_ne!(before.ack, request.ack);
    cli.answer(&before, &json!({"success": true, "late": true}));
    quiet().await;
    assert!(!call.is_here());
    cli.answer(&request, &json!({"success": true}));
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
    drop(lost);
}

#[tokio::test(start_paused = true)]
async fn an_attachment_that_nobody_understands_asks_its_client_to_come_again() {
    let (world, _, mut cli) = live().await;
    let mut kept = world.bare_cli().await;
    world.rt.set_attachment(cli.socket.key, r#"{"of another version":{}}"#);
    world.sleep_and_wake().await;
    assert_eq!(cli.socket.closed().await, 1012);
    assert_eq!(kept.ask("ping", &Value::Null).await, json!({"ok": true}));
}

#[tokio::test(start_paused = true)]
async fn an_opening_socket_has_ten_seconds_and_a_sleep_does_not_prolong_them() {
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
async fn pings_beat_on_the_wall_clock_and_an_answer_keeps_a_socket_open() {
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
async fn a_socket_that_leaves_pings_unanswered_for_a_round_is_closed_and_its_calls_fail() {
    let (world, session, mut cli) = live().await;
    cli.register("gitStatus").await;
    world.pass(FIRST_PING - world.now()).await;
    assert_eq!(pings(&cli.socket.rest().await), 1);
    world.pass(45_000).await;
    assert!(cli.socket.is_open());
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    quiet().await;
    world.pass(15_000).await;
    assert_eq!(cli.socket.closed().await, 1001);
    assert_eq!(call.reply().await.ok()["success"], false);
}

#[tokio::test(start_paused = true)]
async fn any_frame_answers_a_ping_and_an_unanswered_one_is_remembered_through_a_sleep() {
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
        assert_eq!(pings(&cli.socket.rest().await), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_ping_counts_when_it_comes_also_behind_a_frame_that_takes_long() {
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
async fn an_alarm_that_wakes_the_hub_sounds_the_beat_it_was_set_for_also_when_it_comes_late() {
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
        assert_eq!(pings(&cli.socket.rest().await), 1, "{late} ms late");
        assert_eq!(web.types().await, ["heartbeat"], "{late} ms late");
    }
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_wakes_the_hub_sets_the_next_one_and_no_other_before_it() {
    let world = World::new();
    let _cli = world.bare_cli().await;
    world.rt.set_now(FIRST_PING);
    let set = world.rt.alarms_set();
    world.sleep_and_wake().await;
    world.rt.take_alarm();
    world.hub().on_alarm();
    quiet().await;
    assert_eq!((world.rt.alarm(), world.rt.alarms_set() - set), (Some(FIRST_PING + 60_000), 1), "each is a write");
}

#[tokio::test(start_paused = true)]
async fn a_beat_is_not_lost_when_something_else_wakes_the_hub_just_before_the_alarm_comes_through() {
    let world = World::new();
    let mut cli = world.bare_cli().await;
    // The alarm is due, but a frame gets through before it.
    world.rt.set_now(FIRST_PING + 200);
    world.sleep_and_wake().await;
    cli.ask("ping", &Value::Null).await;
    world.pass(1_000).await;
    assert_eq!(pings(&cli.socket.rest().await), 1, "the client gives up after 80 s without a ping");
}

#[tokio::test(start_paused = true)]
async fn subscribers_hear_a_heartbeat_every_thirty_seconds_through_sleep_and_wake() {
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
async fn the_alarm_is_set_to_the_earliest_deadline_whatever_comes_first() {
    let world = World::new();
    assert_eq!(world.rt.alarm(), None, "nothing to wait for");
    let session = world.session("/code").await;
    assert_eq!(world.rt.alarm(), None);
    let mut cli = world.cli(&session).await;
    let of_opening = START + 10_000;
    assert_eq!(world.rt.alarm(), Some(of_opening), "set when the socket opened, and not moved later");
    world.pass(10_000).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING));
    let _web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.pass(FIRST_HEARTBEAT - world.now()).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING), "both beats fall together");
    cli.alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), Some(FIRST_PING), "the end of the session's life falls on it as well");
    world.pass(10_000).await;
    cli.alive(&world, &session).await;
    cli.register("gitStatus").await;
    world.pass(20_000).await;
    let end_of_life = FIRST_HEARTBEAT + 40_000;
    assert_eq!(world.rt.alarm(), Some(end_of_life));
    let _call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    quiet().await;
    cli.alive(&world, &session).await;
    assert_eq!(world.rt.alarm(), Some(end_of_life), "a life that goes on does not move the alarm");
    world.pass(10_000).await;
    let end_of_call = FIRST_PING + 30_000;
    assert_eq!(world.rt.alarm(), Some(end_of_call), "the call, the session's life and the heartbeat end together");
    world.restart();
    assert!(world.rt.alarm().is_some_and(|at| at <= end_of_call));
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
        assert_eq!(world.rt.sleeping(), 1, "it is tried again after a while");
        world.rt.set_now(world.now() + 1_000);
        quiet().await;
    }
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.pass(10_000).await;
    assert_eq!(late.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_could_not_be_set_does_not_undo_an_earlier_one_that_could() {
    let world = World::new();
    let _web = world.web("all=true").await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    world.rt.break_alarm(1);
    let _opening = world.open_cli(false);
    quiet().await;
    assert_eq!(world.rt.alarm(), Some(FIRST_HEARTBEAT));
    // Whatever else is wanted meanwhile need not wait for the next try.
    let _another = world.open_cli(false);
    quiet().await;
    assert_eq!(world.rt.alarm(), Some(START + 10_000));
    world.rt.set_now(START + 1_000);
    quiet().await;
    assert_eq!((world.rt.alarm(), world.rt.sleeping()), (Some(START + 10_000), 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_does_not_hold_up_the_next_beats() {
    let (world, _, cli) = live().await;
    let mut other = world.bare_cli().await;
    cli.socket.close();
    world.sleep_and_wake().await;
    // The session's life ends, and its row has to be read for that.
    world.db.hold(On::Reads);
    world.pass(FIRST_PING - world.now()).await;
    assert_eq!(world.db.held(), 1);
    assert_eq!(pings(&other.socket.rest().await), 1);
    world.db.release();
    quiet().await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_speaks_for_a_session_and_a_machine_keeps_two_clocks_through_a_sleep() {
    let world = World::new();
    let session = world.session("/code").await;
    world.machine("m").await;
    let mut cli = Cli::connect(&world, json!({"sessionId": session, "machineId": "m"})).await;
    cli.alive(&world, &session).await;
    for _ in 0..4 {
        world.pass(10_000).await;
        cli.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
        world.sleep_and_wake().await;
    }
    assert_eq!(world.shown(&session).await["active"], false, "only its machine gave signs of life");
}
