//! Who is alive: what alive events change, what of it is persisted and told, and when a life ends.

use crate::support::cli::Cli;
use crate::support::live::live;
use crate::support::runtime::START;
use crate::support::sqlite::On;
use crate::support::web::Web;
use crate::support::{World, quiet};
use serde_json::{Value, json};
use session_gateway_hub::store::fence::CHECK_EPOCH;
use session_gateway_hub::store::sessions::UPDATE_COUNTERS;

async fn say(world: &World, cli: &mut Cli, session: &str, more: Value) {
    let mut alive = json!({"sid": session, "time": world.now()});
    alive.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(cli.ask("session-alive", &alive).await, json!({"ok": true}));
    quiet().await;
}

async fn is_active(world: &World, session: &str) -> bool {
    world.shown(session).await["active"].as_bool().unwrap()
}

async fn is_online(world: &World) -> bool {
    world.get("/api/machines").await.ok()["machines"] != json!([])
}

/// The `data` of the next `session-updated`.
async fn update(web: &mut Web) -> Value {
    web.event_of("session-updated").await["data"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_makes_a_session_active_at_once_for_everybody() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut web = world.web("all=true").await;
    assert!(!is_active(&world, &session).await);
    let mut cli = world.cli(&session).await;
    assert!(!is_active(&world, &session).await, "a socket alone is no sign of life");
    let mode = json!({"thinking": true, "mode": "local", "permissionMode": "plan", "modelMode": "model_fast"});
    world.rt.set_now(START + 10);
    say(&world, &mut cli, &session, mode).await;
    let data = update(&mut web).await;
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
        assert_eq!(world.shown(&session).await[field], value, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_writes_nothing_and_a_transition_writes_once() {
    let (world, session, mut cli) = live().await;
    let writes = world.db.writes();
    for _ in 0..10 {
        world.pass(5_000).await;
        say(&world, &mut cli, &session, json!({"thinking": false})).await;
    }
    assert_eq!(world.db.writes(), writes, "keep-alives");
    for change in [json!({"thinking": true}), json!({"mode": "remote"}), json!({"permissionMode": "plan"})] {
        let writes = world.db.writes();
        say(&world, &mut cli, &session, change.clone()).await;
        say(&world, &mut cli, &session, change.clone()).await;
        assert_eq!(world.db.writes(), writes + 1, "{change}");
    }
    let written: Vec<&str> = world.db.written().pop().unwrap().iter().map(|statement| statement.sql).collect();
    assert_eq!(written, [UPDATE_COUNTERS, CHECK_EPOCH], "only the small columns");
}

#[tokio::test(start_paused = true)]
async fn a_machines_keep_alive_writes_nothing_either() {
    let world = World::new();
    world.machine("m").await;
    let mut runner = world.runner("m").await;
    let alive = async |runner: &mut Cli| {
        let alive = json!({"machineId": "m", "time": world.now()});
        assert_eq!(runner.ask("machine-alive", &alive).await, json!({"ok": true}));
        quiet().await;
    };
    alive(&mut runner).await;
    assert!(is_online(&world).await);
    let writes = world.db.writes();
    for _ in 0..5 {
        world.pass(20_000).await;
        alive(&mut runner).await;
    }
    assert_eq!(world.db.writes(), writes);
    assert_eq!(world.get("/api/machines").await.ok()["machines"][0]["activeAt"], world.now());
}

#[tokio::test(start_paused = true)]
async fn what_changed_is_told_at_once_and_mere_presence_every_ten_seconds() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    for _ in 0..9 {
        world.pass(1_000).await;
        say(&world, &mut cli, &session, json!({})).await;
    }
    web.0.heard_nothing().await;
    world.pass(1_000).await;
    say(&world, &mut cli, &session, json!({})).await;
    let data = update(&mut web).await;
    assert_eq!((&data["active"], &data["activeAt"]), (&json!(true), &json!(world.now())));
    say(&world, &mut cli, &session, json!({"thinking": true})).await;
    assert_eq!(update(&mut web).await["thinking"], true);
    say(&world, &mut cli, &session, json!({"thinking": false})).await;
    assert_eq!(update(&mut web).await["thinking"], false);
    say(&world, &mut cli, &session, json!({})).await;
    web.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn presence_that_has_not_changed_is_told_under_the_id_of_the_event_before_and_not_replayed() {
    let (world, session, mut cli) = live().await;
    let query = format!("sessionId={session}");
    let mut web = world.web(&query).await;
    say(&world, &mut cli, &session, json!({"thinking": true})).await;
    let changed = web.event().await;
    world.pass(10_000).await;
    say(&world, &mut cli, &session, json!({"thinking": true})).await;
    let repeated = web.event().await;
    assert_eq!((&repeated["type"], &repeated["eventId"]), (&json!("session-updated"), &changed["eventId"]));
    let mut again = world.web(&format!("{query}&lastEventId={}", changed["eventId"].as_str().unwrap())).await;
    again.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_30_seconds_after_its_last_sign_of_life() {
    let (world, session, mut cli) = live().await;
    world.pass(20_000).await;
    say(&world, &mut cli, &session, json!({"thinking": true})).await;
    let mut web = world.web("all=true").await;
    world.pass(29_999).await;
    assert!(is_active(&world, &session).await);
    drop(web.events().await);
    world.pass(1).await;
    let data = update(&mut web).await;
    assert_eq!((&data["active"], &data["thinking"]), (&json!(false), &json!(false)));
    let shown = world.shown(&session).await;
    assert_eq!(
        (&shown["active"], &shown["thinking"], &shown["thinkingAt"]),
        (&json!(false), &json!(false), &json!(world.now()))
    );
    assert_eq!(world.db.number("SELECT active + thinking FROM sessions"), 0, "it is persisted");
    assert!(cli.socket.is_open(), "the transport is another matter");
    say(&world, &mut cli, &session, json!({})).await;
    assert!(is_active(&world, &session).await, "and it comes back");
}

#[tokio::test(start_paused = true)]
async fn a_machine_ends_45_seconds_after_its_last_sign_of_life() {
    let world = World::new();
    world.machine("m").await;
    assert!(!is_online(&world).await, "it was made known, but gave no sign of life");
    let mut runner = world.runner("m").await;
    runner.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let mut web = world.web("machineId=m").await;
    world.pass(44_999).await;
    assert!(is_online(&world).await);
    world.pass(1).await;
    assert!(!is_online(&world).await);
    let updated = web.event_of("machine-updated").await;
    assert_eq!((&updated["machineId"], &updated["data"]["active"]), (&json!("m"), &json!(false)));
    assert_eq!(world.db.number("SELECT active FROM machines"), 0);
}

#[tokio::test(start_paused = true)]
async fn session_end_ends_a_session_at_once_and_only_once() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web("all=true").await;
    let end = json!({"sid": session, "time": world.now()});
    assert_eq!(cli.ask("session-end", &end).await, json!({"ok": true}));
    quiet().await;
    assert_eq!(update(&mut web).await["active"], false);
    let writes = world.db.writes();
    cli.ask("session-end", &end).await;
    world.pass(10_000).await;
    assert_eq!(world.db.writes(), writes);
    web.0.heard_nothing().await;
    assert!(!is_active(&world, &session).await);
    assert!(world.rt.notebook().keys().all(|key| !key.contains(&session)), "{:?}", world.rt.notebook());
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_under_way_for_too_long_ends_nothing() {
    let (world, session, mut cli) = live().await;
    let mut end = async |time: f64| cli.ask("session-end", &json!({"sid": session, "time": time})).await;
    let now = world.now() as f64;
    assert_eq!(end(now - 600_001.0).await, json!({"ok": true}));
    assert!(is_active(&world, &session).await, "it tells of an earlier life");
    assert_eq!(end(now - 599_999.0).await, json!({"ok": true}));
    assert!(!is_active(&world, &session).await);
    cli.alive(&world, &session).await;
    assert_eq!(cli.ask("session-end", &json!({"sid": session, "time": now * 2.0})).await, json!({"ok": true}));
    assert!(!is_active(&world, &session).await, "a time to come counts as now");
}

#[tokio::test(start_paused = true)]
async fn a_closed_socket_starts_the_same_clock() {
    let (world, session, cli) = live().await;
    world.pass(20_000).await;
    cli.socket.close();
    world.pass(29_999).await;
    assert!(is_active(&world, &session).await, "it may come back");
    world.pass(1).await;
    assert!(!is_active(&world, &session).await);
}

#[tokio::test(start_paused = true)]
async fn only_the_last_socket_of_a_session_or_machine_writes_a_note_when_it_closes() {
    let (world, session, mut first) = live().await;
    world.machine("m").await;
    let both = json!({"sessionId": session, "machineId": "m"});
    let second = Cli::connect(&world, both.clone()).await;
    let mut third = Cli::connect(&world, both).await;
    let alive = json!({"machineId": "m", "time": world.now()});
    assert_eq!(third.ask("machine-alive", &alive).await, json!({"ok": true}));
    world.pass(10_000).await;
    let noted = world.rt.noted();
    first.socket.rest().await;
    first.socket.close();
    third.socket.close();
    assert_eq!(world.rt.noted(), noted, "the second is still there for both");
    // The close counts as a sign of life, also after a sleep.
    let closed_at = world.now();
    world.sleep_and_wake().await;
    assert_eq!(world.rt.noted(), noted);
    world.pass(closed_at + 29_999 - world.now()).await;
    assert!(is_active(&world, &session).await);
    world.pass(1).await;
    assert!(!is_active(&world, &session).await);
    assert!(is_online(&world).await);
    let noted = world.rt.noted();
    second.socket.close();
    assert_eq!(world.rt.noted(), noted + 1, "the machine's; the session's clock runs no more");
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_closes_after_session_end_does_not_bring_the_session_back() {
    let (world, session, mut cli) = live().await;
    cli.ask("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    quiet().await;
    assert!(!is_active(&world, &session).await);
    world.pass(60_000).await;
    assert_eq!(world.rt.alarm(), None, "nothing is left to wait for");
}

#[tokio::test(start_paused = true)]
async fn times_from_the_future_count_as_now_and_those_of_long_ago_not_at_all() {
    let (world, session, mut cli) = live().await;
    let alive = |time: Value| json!({"sid": session, "time": time});
    cli.ask("session-alive", &alive(json!(world.now() + 3_600_000))).await;
    world.pass(30_000).await;
    assert!(!is_active(&world, &session).await, "the future did not prolong its life");
    for old in [json!(world.now() - 600_001), json!(0), json!(-1), json!(-1e300)] {
        assert_eq!(cli.ask("session-alive", &alive(old)).await["ok"], true);
        assert!(!is_active(&world, &session).await);
    }
    cli.ask("session-alive", &alive(json!(1e300))).await;
    assert!(is_active(&world, &session).await);
}

#[tokio::test(start_paused = true)]
async fn a_cli_whose_clock_is_a_minute_behind_stays_active_while_it_speaks() {
    let (world, session, mut cli) = live().await;
    for _ in 0..12 {
        let alive = json!({"sid": session, "time": world.now() - 60_000});
        cli.ask("session-alive", &alive).await;
        world.pass(5_000).await;
        assert!(is_active(&world, &session).await, "its signs of life come every five seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_keep_coming_through_while_messages_are_written_all_the_time() {
    let (world, session, mut cli) = live().await;
    let mut web = world.web("all=true").await;
    for _ in 0..5 {
        world.pass(10_000).await;
        // A message is on its way to the database whenever the session says that it is alive.
        cli.emit("message", &json!({"sid": session, "message": {}}));
        say(&world, &mut cli, &session, json!({})).await;
    }
    let presence = web.types().await.iter().filter(|t| *t == "session-updated").count();
    assert!(presence >= 5, "told {presence} times in 50 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_wake_in_between_keeps_the_clocks() {
    let (world, session, mut cli) = live().await;
    world.machine("m").await;
    cli.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    world.pass(20_000).await;
    world.sleep_and_wake().await;
    assert!(is_active(&world, &session).await);
    world.pass(9_000).await;
    assert!(is_active(&world, &session).await, "its clock did not run out while the hub slept");
    // The notebook remembers signs of life to within five seconds.
    world.pass(6_000).await;
    assert!(!is_active(&world, &session).await, "and did not start anew either");
    world.pass(9_000).await;
    assert!(is_online(&world).await);
    world.pass(6_000).await;
    assert!(!is_online(&world).await);
}

#[tokio::test(start_paused = true)]
async fn what_was_active_before_a_restart_without_a_notebook_gets_a_full_clock() {
    let world = World::new();
    let session = world.session("/code").await;
    world.db.execute("UPDATE sessions SET active = 1, thinking = 1");
    world.restart();
    let shown = world.shown(&session).await;
    assert_eq!((&shown["active"], &shown["thinking"]), (&json!(true), &json!(true)));
    world.pass(29_999).await;
    assert!(is_active(&world, &session).await);
    world.pass(6_000).await;
    assert!(!is_active(&world, &session).await);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_that_the_alarm_of_a_sleeping_hub_brings_is_persisted_and_told() {
    let (world, session, cli) = live().await;
    let mut web = world.web("all=true").await;
    cli.socket.close();
    world.sleep_and_wake().await;
    world.pass(36_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
    assert_eq!(update(&mut web).await["active"], false);
    assert!(world.rt.notebook().keys().all(|key| !key.contains(&session)), "{:?}", world.rt.notebook());
}

#[tokio::test(start_paused = true)]
async fn an_expiry_waits_for_a_database_that_is_away() {
    let (world, session, cli) = live().await;
    cli.socket.close();
    world.sleep_and_wake().await;
    let away = session_gateway_hub::store::DbError::Retryable("Network connection lost".into());
    world.db.break_down(On::Reads, away);
    world.pass(60_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 1);
    world.db.repair();
    world.pass(60_000).await;
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0, "{session}");
}
