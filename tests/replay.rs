//! Web clients that come back: over a sleep, a restart and whatever else, they hear all that they missed, once and in
//! order, or are told that they missed something.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use session_gateway_hub::hub::connections::Format;
use session_gateway_hub::store::DbError;
use support::cli::Cli;
use support::sqlite::On;
use support::web::{Web, number};
use support::{World, quiet};

const FORMATS: [Format; 2] = [Format::Json, Format::Sse];
const TEN_MINUTES: u64 = 600_000;

/// A session with a CLI, and the query of a web client that hears all of it.
async fn live() -> (World, String, Cli, String) {
    let world = World::new();
    let session = world.session("/code").await;
    let cli = world.cli(&session).await;
    let query = format!("all=true&sessionId={session}");
    (world, session, cli, query)
}

/// Opens the event channel with the id of the last event heard; answers what the greeting says and the client.
async fn come_back(world: &World, query: &str, last: &str, format: Format) -> (String, Web) {
    let mut web = Web(world.try_subscribe(query, Some(last), format).await.unwrap());
    let greeting = web.event().await;
    assert_eq!(greeting["type"], "connection-changed");
    (greeting["data"]["resume"].as_str().unwrap().to_owned(), web)
}

async fn resume(world: &World, query: &str, last: &str) -> String {
    come_back(world, query, last, Format::Json).await.0
}

fn id(event: &Value) -> String {
    event["eventId"].as_str().unwrap().to_owned()
}

/// What messages say, and the type of all else.
fn said(events: &[Value]) -> Vec<&str> {
    let words = |event: &'_ Value| event["message"]["content"]["content"].is_string();
    let say = |event| if words(event) { &event["message"]["content"]["content"] } else { &event["type"] };
    events.iter().map(|event| say(event).as_str().unwrap()).collect()
}

/// How many rows of events there are.
fn rows(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM events")
}

fn passing() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

fn message(session: &str, text: &str) -> Value {
    json!({"sid": session, "message": {"role": "agent", "content": text}})
}

/// Lets every pause between two attempts at a batch pass.
async fn exhaust(world: &World) {
    for _ in 0..10 {
        quiet().await;
        world.rt.set_now(world.now() + 5_000);
    }
    quiet().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_replayed_over_sleeps_and_restarts() {
    for format in FORMATS {
        let (world, session, mut cli, query) = live().await;
        let mut web = world.web(&query).await;
        cli.message(&session, "heard").await;
        let heard = id(&web.event().await);
        web.0.close();
        cli.message(&session, "one").await;
        world.sleep_and_wake().await;
        cli.message(&session, "two").await;
        world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
        world.redeploy();
        let mut cli = world.cli(&session).await;
        cli.message(&session, "three").await;
        world.redeploy();

        let (resume, mut web) = come_back(&world, &query, &heard, format).await;
        let mut cli = world.cli(&session).await;
        cli.message(&session, "live").await;
        assert_eq!(resume, "ok");
        let events = web.events().await;
        assert_eq!(said(&events), ["one", "two", "session-updated", "three", "live"], "{format:?}");
        let numbers: Vec<u64> = events.iter().map(number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // And from anywhere in between.
        let (resume, mut web) = come_back(&world, &query, &id(&events[1]), format).await;
        assert_eq!((resume.as_str(), said(&web.events().await)), ("ok", said(&events[2..])));
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_the_event_as_it_was_told() {
    let (world, session, mut cli, _) = live().await;
    let odd = "box\t1\n\"two\"";
    world.post("/cli/machines", &json!({"id": odd, "metadata": {"host": "h"}})).await.ok();
    let encoded = odd.replace('\t', "%09").replace('\n', "%0A").replace('"', "%22");
    let query = format!("all=true&sessionId={session}&machineId={encoded}");
    let mut witness = world.web(&query).await;
    let web = world.web("").await;
    let start = id(&web_greeting(&world, &query).await);
    drop(web);
    let broken = "{\"n\":12345678901234567890,\r\n\t\"text\": \"a\\nb\u{2028}\"}";
    let ack = cli.emit_raw("message", &format!(r#"{{"sid":"{session}","message":{broken}}}"#));
    assert_eq!(cli.acknowledged(ack).await["ok"], true);
    let mut runner = world.runner(odd).await;
    assert_eq!(runner.ask("machine-alive", &json!({"machineId": odd, "time": world.now()})).await["ok"], true);
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    let told = witness.events().await;
    let types: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["message-received", "machine-updated", "session-removed"]);
    world.redeploy();
    for format in FORMATS {
        let machine = format!("all=true&machineId={encoded}");
        let (resume, mut web) = come_back(&world, &machine, &start, format).await;
        assert_eq!((resume.as_str(), web.events().await), ("ok", told[1..].to_vec()), "{format:?}");
    }
}

/// The greeting of a client that hears nothing else.
async fn web_greeting(world: &World, query: &str) -> Value {
    Web(world.try_subscribe(query, None, Format::Json).await.unwrap()).event().await
}

#[tokio::test(start_paused = true)]
async fn whoever_was_cut_off_before_anything_happened_misses_nothing_of_what_came_then() {
    let (world, session, _, query) = live().await;
    let greeting = web_greeting(&world, &query).await;
    world.redeploy();
    assert_eq!(resume(&world, &query, &id(&greeting)).await, "ok");
    let mut cli = world.cli(&session).await;
    cli.message(&session, "first").await;
    let (resume, mut web) = come_back(&world, &query, &id(&greeting), Format::Json).await;
    assert_eq!((resume.as_str(), said(&web.events().await)), ("ok", vec!["first"]));
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_a_commit_loses_no_event() {
    for format in FORMATS {
        let (world, session, mut cli, query) = live().await;
        let mut web = world.web(&query).await;
        let mut survivor = Web(world.try_subscribe(&query, None, format).await.unwrap());
        cli.message(&session, "heard").await;
        let heard = id(&web.event().await);
        survivor.events().await;
        world.db.hold(On::Writes);
        cli.emit("message", &message(&session, "untold"));
        quiet().await;
        assert_eq!(world.db.held(), 1, "it is committed, and nobody was told");
        world.restart();
        world.db.release();
        let (resume, mut back) = come_back(&world, &query, &heard, format).await;
        cli.message(&session, "next").await;
        assert_eq!((resume.as_str(), said(&back.events().await)), ("ok", vec!["untold", "next"]));
        // Nor does one whose socket is still open.
        assert_eq!(said(&survivor.events().await), ["untold", "next"]);
        assert_eq!(said(&web.events().await), ["untold", "next"]);
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_survived_a_restart_hear_late_what_they_missed_and_nothing_twice() {
    let (world, session, mut cli, query) = live().await;
    let mut first = world.web(&query).await;
    let mut second = world.web(&query).await;
    for n in 0..3 {
        cli.message(&session, "told").await;
        if n == 1 {
            // Whoever was the first to come is not there any more.
            drop(first.0.rest().await);
            first.0.close();
        }
    }
    assert_eq!(second.events().await.len(), 3);
    world.restart();
    cli.message(&session, "next").await;
    assert_eq!(said(&second.events().await), ["next"]);
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, "untold"));
    quiet().await;
    world.restart();
    world.db.release();
    second.0.heard_nothing().await;
    cli.message(&session, "last").await;
    assert_eq!(said(&second.events().await), ["untold", "last"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_during_a_commit_that_is_interrupted_is_told_so() {
    let (world, session, cli, query) = live().await;
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, "lost"));
    quiet().await;
    assert_eq!(world.db.held(), 1);
    let greeting = web_greeting(&world, &query).await;
    assert_eq!(greeting["data"]["resume"], "ok");
    world.redeploy();
    world.db.release();
    assert_eq!(resume(&world, &query, &id(&greeting)).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_during_a_commit_hears_what_it_brings_once() {
    let (world, session, mut cli, query) = live().await;
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, "m"));
    quiet().await;
    let mut first = world.web(&query).await;
    world.db.release();
    let told = first.events().await;
    assert_eq!(said(&told), ["m"]);
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, "n"));
    quiet().await;
    let (resume, mut second) = come_back(&world, &query, &id(&told[0]), Format::Json).await;
    world.db.release();
    assert_eq!((resume.as_str(), said(&second.events().await)), ("ok", vec!["n"]));
    assert_eq!(cli.message(&session, "o").await["seq"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answers_were_lost_is_told_as_soon_as_it_is_known() {
    for format in FORMATS {
        let (world, session, mut cli, query) = live().await;
        let mut web = Web(world.try_subscribe(&query, None, format).await.unwrap());
        let greeting = web.event().await;
        for _ in 0..5 {
            world.db.lose_answer(passing());
        }
        // The last one is not committed again, for what that is worth.
        world.db.fail(On::Writes, DbError::Refused("disk I/O error".into()));
        let ack = cli.emit_asking("message", &message(&session, "m"));
        exhaust(&world).await;
        assert_eq!(cli.acknowledged(ack).await["ok"], false);
        assert_eq!(said(&web.events().await), ["m"]);
        assert_eq!(world.shown(&session).await["seq"], 1);
        cli.message(&session, "n").await;
        assert_eq!(said(&web.events().await), ["n"]);
        world.redeploy();
        let (resume, mut back) = come_back(&world, &query, &id(&greeting), format).await;
        assert_eq!((resume.as_str(), said(&back.events().await)), ("ok", vec!["m", "n"]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_never_committed_is_never_told() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    for error in [passing(), DbError::Refused("disk I/O error".into())] {
        world.db.break_down(On::Writes, error);
        let ack = cli.emit_asking("message", &message(&session, "m"));
        exhaust(&world).await;
        assert_eq!(cli.acknowledged(ack).await["ok"], false);
        world.db.repair();
        web.0.heard_nothing().await;
        assert_eq!(resume(&world, &query, &heard).await, "ok");
    }
    cli.message(&session, "next").await;
    world.redeploy();
    let (resume, mut back) = come_back(&world, &query, &heard, Format::Json).await;
    assert_eq!((resume.as_str(), said(&back.events().await)), ("ok", vec!["next"]));
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_away_nobody_is_told_that_nothing_was_missed() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    for _ in 0..6 {
        world.db.lose_answer(passing());
    }
    world.db.break_down(On::Reads, passing());
    cli.emit("message", &message(&session, "m"));
    exhaust(&world).await;
    let back = world.object.clone();
    let hub = back.hub();
    let asked = tokio::spawn(async move { hub.recall(Some(&heard)).await });
    exhaust(&world).await;
    assert!(asked.await.unwrap().is_err(), "come again later");
    web.0.heard_nothing().await;
    world.db.repair();
    // Nothing else has to happen than the next heartbeat.
    world.pass(30_000).await;
    let mut events = web.events().await;
    events.retain(|event| event["type"] != "heartbeat");
    assert_eq!(said(&events), ["m"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_end_of_a_batch_that_nobody_waited_for_any_more_is_a_gap() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    world.pass(1_000).await;
    cli.message(&session, "next").await;
    let next = id(&web.event().await);
    // As if what the object did before the last restart had reached the database only now.
    let late = "INSERT INTO events SELECT namespace, last - 1, floor, events, bytes, body FROM events
        ORDER BY last DESC LIMIT 1";
    world.db.execute(late);
    world.redeploy();
    assert_eq!(resume(&world, &query, &heard).await, "gap");
    assert_eq!(resume(&world, &query, &next).await, "ok");
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_write_nothing_and_are_not_replayed() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.alive(&world, &session).await;
    let became_active = web.event().await;
    for _ in 0..3 {
        world.pass(11_000).await;
        let (rows_before, writes) = (rows(&world), world.db.writes());
        cli.alive(&world, &session).await;
        let sign = web.event_of("session-updated").await;
        assert_eq!(sign["data"]["active"], true);
        assert_eq!(id(&sign), id(&became_active), "it stands where the last event stood");
        assert_eq!((rows(&world), world.db.writes()), (rows_before, writes));
    }
    let (resume, mut back) = come_back(&world, &query, &id(&became_active), Format::Json).await;
    assert_eq!(resume, "ok");
    back.0.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn at_least_a_thousand_events_are_held_and_what_is_older_is_a_gap() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    let mut events = Vec::new();
    for n in 0..130 {
        for m in 0..20 {
            cli.emit("message", &message(&session, &format!("{}", 20 * n + m)));
        }
        events.extend(web.events().await);
        if n % 40 == 39 {
            world.sleep_and_wake().await;
        }
        let held = world.db.number("SELECT sum(events) FROM events");
        assert!(held <= 1_300, "{held}");
    }
    assert_eq!(events.len(), 2_600);
    for awake in [true, false] {
        for (position, expected) in [(0, "gap"), (1_300, "gap"), (1_599, "ok"), (2_599, "ok")] {
            let (resume, mut web) = come_back(&world, &query, &id(&events[position]), Format::Sse).await;
            assert_eq!(resume, expected, "{position}, awake: {awake}");
            let missed = if expected == "ok" { &events[position + 1..] } else { &[] };
            assert_eq!(web.events().await, missed, "{position}, awake: {awake}");
        }
        world.redeploy();
    }
    cli = world.cli(&session).await;
    assert_eq!(cli.message(&session, "and on").await["seq"], 2_601);
}

#[tokio::test(start_paused = true)]
async fn at_least_two_megabytes_of_events_are_held_and_no_more_than_that_over_many_sleeps() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    let mut ids = Vec::new();
    for n in 0..100 {
        cli.message(&session, &"x".repeat(100_000)).await;
        ids.push(id(&web.event().await));
        if n % 3 == 2 {
            world.sleep_and_wake().await;
        }
        let bytes = world.db.number("SELECT sum(bytes) FROM events");
        assert!(bytes <= 2_800_000, "{bytes}");
    }
    let (resume_80, mut web) = come_back(&world, &query, &ids[80], Format::Json).await;
    assert_eq!((resume_80.as_str(), web.events().await.len()), ("ok", 19));
    assert_eq!(resume(&world, &query, &ids[70]).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn an_event_too_large_to_be_held_is_told_and_is_a_gap_for_those_who_missed_it() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "before").await;
    let before = id(&web.event().await);
    cli.message(&session, &"x".repeat(1_800_000)).await;
    let large = id(&web.event().await);
    assert_eq!(resume(&world, &query, &before).await, "ok", "it is just about small enough");
    cli.message(&session, &"x".repeat(2_500_000)).await;
    let huge = id(&web.event().await);
    for _ in 0..2 {
        assert_eq!(resume(&world, &query, &before).await, "gap");
        assert_eq!(resume(&world, &query, &large).await, "gap");
        assert_eq!(resume(&world, &query, &huge).await, "ok");
        world.redeploy();
    }
    cli = world.cli(&session).await;
    cli.message(&session, "after").await;
    let (resume, mut web) = come_back(&world, &query, &huge, Format::Json).await;
    assert_eq!((resume.as_str(), said(&web.events().await)), ("ok", vec!["after"]));
}

#[tokio::test(start_paused = true)]
async fn those_who_survived_a_restart_are_told_that_they_missed_what_is_too_large_to_be_held() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, &"x".repeat(2_500_000)));
    quiet().await;
    world.restart();
    world.db.release();
    cli.message(&session, "next").await;
    let gap = web.event().await;
    assert_eq!((&gap["type"], &gap["data"]["resume"]), (&json!("connection-changed"), &json!("gap")));
    assert!(gap["data"]["subscriptionId"].is_string());
    assert_eq!(said(&web.events().await), ["next"]);
    assert_eq!(resume(&world, &query, &heard).await, "gap");
    let (resume, mut back) = come_back(&world, &query, &id(&gap), Format::Json).await;
    assert_eq!((resume.as_str(), said(&back.events().await)), ("ok", vec!["next"]));
}

#[tokio::test(start_paused = true)]
async fn the_log_ends_ten_minutes_after_the_last_client_left() {
    let (world, session, mut cli, query) = live().await;
    let (mut first, second) = (world.web(&query).await, world.web("").await);
    cli.message(&session, "heard").await;
    let heard = id(&first.event().await);
    first.0.close();
    cli.socket.close();
    world.pass(TEN_MINUTES).await;
    cli = world.cli(&session).await;
    cli.message(&session, "while another is there").await;
    second.0.close();
    cli.socket.close();
    world.pass(TEN_MINUTES - 1).await;
    world.sleep_and_wake().await;
    cli = world.cli(&session).await;
    cli.message(&session, "just in time").await;
    let (resume_then, web) = come_back(&world, &query, &heard, Format::Json).await;
    assert_eq!(resume_then, "ok");
    web.0.close();
    cli.socket.close();
    assert_eq!(rows(&world), 3);
    world.sleep_and_wake().await;
    world.pass(TEN_MINUTES).await;
    assert_eq!((rows(&world), world.rt.alarm()), (0, None), "nothing is left of it, and the object sleeps on");
    cli = world.cli(&session).await;
    cli.message(&session, "to nobody").await;
    assert_eq!(rows(&world), 0);
    assert_eq!(resume(&world, &query, &heard).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn the_ten_minutes_begin_when_a_restart_took_the_clients_and_no_wake_prolongs_them() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    world.rt.set_now(world.now() + TEN_MINUTES);
    world.redeploy();
    for _ in 0..4 {
        world.pass(TEN_MINUTES / 4 - 1).await;
        world.sleep_and_wake().await;
        cli = world.cli(&session).await;
        cli.message(&session, "missed").await;
        cli.socket.close();
    }
    assert_eq!(rows(&world), 5);
    world.pass(4).await;
    assert_eq!(rows(&world), 0);
    assert_eq!(resume(&world, &query, &heard).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_could_not_be_deleted_is_not_taken_for_the_next_one() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    cli.message(&session, "missed").await;
    web.0.close();
    cli.socket.close();
    world.db.fail(On::Writes, DbError::Refused("disk I/O error".into()));
    world.pass(TEN_MINUTES).await;
    assert_eq!(rows(&world), 2);
    let greeting = web_greeting(&world, &query).await;
    world.redeploy();
    assert_eq!(resume(&world, &query, &heard).await, "gap");
    let (resume, mut back) = come_back(&world, &query, &id(&greeting), Format::Json).await;
    assert_eq!(resume, "ok");
    back.0.heard_nothing().await;
    cli = world.cli(&session).await;
    cli.message(&session, "next").await;
    assert_eq!(rows(&world), 1, "the next batch drops it");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_log_takes_nothing_of_the_next_one_with_it() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    web.0.close();
    cli.socket.close();
    world.db.fail(On::Writes, passing());
    world.pass(TEN_MINUTES).await;
    assert_eq!(rows(&world), 1, "it will be deleted with the next attempt");
    let greeting = web_greeting(&world, &query).await;
    cli = world.cli(&session).await;
    cli.message(&session, "of the next one").await;
    exhaust(&world).await;
    assert_eq!(rows(&world), 1);
    world.redeploy();
    // Nothing happened between the two.
    for last in [heard, id(&greeting)] {
        let (resume, mut back) = come_back(&world, &query, &last, Format::Json).await;
        assert_eq!((resume.as_str(), said(&back.events().await)), ("ok", vec!["of the next one"]));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_logged_while_nobody_listens_and_what_is_logged_costs_no_note_and_no_call() {
    let (world, session, mut cli, query) = live().await;
    let texts = |world: &World| {
        let written = world.db.written();
        written.last().unwrap().iter().filter(|statement| statement.sql.contains("INTO events")).count()
    };
    let (noted, reads) = (world.rt.noted(), world.db.reads());
    for n in 0..20 {
        cli.message(&session, &format!("{n}")).await;
        assert_eq!(texts(&world), 0);
    }
    assert_eq!((world.rt.noted(), world.db.reads(), rows(&world)), (noted, reads, 0));
    let web = world.web(&query).await;
    let (noted, reads, writes) = (world.rt.noted(), world.db.reads(), world.db.writes());
    for n in 0..20 {
        cli.message(&session, &format!("{n}")).await;
        assert_eq!(texts(&world), 1);
    }
    assert_eq!((world.rt.noted(), world.db.reads(), world.db.writes() - writes, rows(&world)), (noted, reads, 20, 20));
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, "first"));
    quiet().await;
    for n in 0..50 {
        cli.emit("message", &message(&session, &format!("{n}")));
    }
    quiet().await;
    world.db.release();
    cli.message(&session, "last").await;
    assert!(rows(&world) <= 23, "a burst is a row or two");
    drop(web);
}

#[tokio::test(start_paused = true)]
async fn events_are_read_only_for_those_who_come_back_and_once() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    for n in 0..30 {
        cli.message(&session, &format!("{n}")).await;
    }
    let events = web.events().await;
    let read = |world: &World| {
        let reads = world.db.read();
        reads.iter().flatten().filter(|s| s.sql.contains("FROM events") && s.sql.contains("body")).count()
    };
    world.redeploy();
    assert_eq!(read(&world), 0);
    cli = world.cli(&session).await;
    let mut web = world.web(&query).await;
    cli.message(&session, "after the wake").await;
    assert_eq!(said(&web.events().await), ["after the wake"]);
    assert_eq!(resume(&world, &query, &id(&events[29])).await, "ok");
    assert_eq!(read(&world), 0, "what was told since the wake is in memory");
    for position in [20, 3, 28] {
        let (resume, mut back) = come_back(&world, &query, &id(&events[position]), Format::Json).await;
        assert_eq!((resume.as_str(), back.events().await.len()), ("ok", 30 - position));
    }
    assert_eq!(read(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn an_id_of_another_namespace_is_a_gap_also_when_its_number_is_held() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    let neighbour = world.neighbour();
    let theirs = id(&web_greeting(&neighbour, "").await);
    neighbour.session("/theirs").await;
    for _ in 0..2 {
        let (their_mark, own_number) = (theirs.split_once('-').unwrap().0, heard.split_once('-').unwrap().1);
        assert_eq!(resume(&world, &query, &format!("{their_mark}-{own_number}")).await, "gap");
        assert_eq!(resume(&neighbour, "", &heard).await, "gap");
        let (resume, mut web) = come_back(&world, "all=true", &heard, Format::Json).await;
        assert_eq!(resume, "ok");
        web.0.heard_nothing().await;
        let (resume, mut web) = come_back(&neighbour, "", &theirs, Format::Json).await;
        assert_eq!((resume.as_str(), said(&web.events().await)), ("ok", vec!["session-added"]));
        world.redeploy();
        neighbour.redeploy();
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_grow_and_ids_stay_good_although_the_clock_went_back_over_a_restart() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = web.event().await;
    world.rt.set_now(world.now() - 3_600_000);
    world.redeploy();
    cli = world.cli(&session).await;
    cli.message(&session, "missed").await;
    let (resume_ok, mut web) = come_back(&world, &query, &id(&heard), Format::Json).await;
    assert_eq!((resume_ok.as_str(), said(&web.events().await)), ("ok", vec!["missed"]));
    cli.message(&session, "after").await;
    let after = web.event().await;
    assert!(number(&after) > number(&heard));
    // An id of before the log ended is not taken for one of the log that began then.
    web.0.close();
    cli.socket.close();
    world.pass(TEN_MINUTES).await;
    assert_eq!(rows(&world), 0);
    world.rt.set_now(world.now() - 7_200_000);
    world.redeploy();
    let greeting = web_greeting(&world, &query).await;
    assert!(number(&greeting) > number(&after));
    assert_eq!(resume(&world, &query, &id(&after)).await, "gap");
}

#[tokio::test(start_paused = true)]
async fn a_log_of_which_a_row_is_gone_replays_only_what_is_whole() {
    for torn in 0..4 {
        let (world, session, mut cli, query) = live().await;
        let mut web = world.web(&query).await;
        for n in 0..4 {
            cli.message(&session, &format!("{n}")).await;
        }
        let ids: Vec<String> = web.events().await.iter().map(id).collect();
        let last = ids[torn].rsplit('-').next().unwrap();
        world.db.execute(&format!("DELETE FROM events WHERE last = {last}"));
        world.redeploy();
        for (position, last) in ids.iter().enumerate() {
            let expected = if position >= torn && torn < 3 { "ok" } else { "gap" };
            // Of a last row that is gone nobody knows that it was there; its event's id is none that could be known.
            let expected = if torn == 3 && position < 3 { "ok" } else { expected };
            assert_eq!(resume(&world, &query, last).await, expected, "row {torn} is gone, event {position}");
        }
        // What happens now makes nobody believe otherwise.
        world.pass(1_000).await;
        cli = world.cli(&session).await;
        cli.message(&session, "now").await;
        let expected = if torn == 3 { "gap" } else { "ok" };
        assert_eq!(resume(&world, &query, &ids[3]).await, expected, "row {torn} is gone, the last event");
    }
}

/// A session that came back under another id, with the merge of the two about to be committed; and the query and the
/// last event of a client that hears of both.
async fn merging() -> (World, String, String) {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let metadata = json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"});
    let old = world.session_with("/code", metadata).await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.request().await;
    let new = world.session("/code#2").await;
    let mut cli = world.cli(&new).await;
    cli.message(&new, "new").await;
    runner.answer(&call, &json!({"success": true, "sessionId": new}));
    quiet().await;
    let query = format!("all=true&sessionId={new}");
    let greeting = id(&web_greeting(&world, &query).await);
    world.db.hold(On::Writes);
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    quiet().await;
    // That it is active is committed; what is held from now on is the merge.
    world.db.release();
    world.db.hold(On::Writes);
    quiet().await;
    assert_eq!(world.db.held(), 1);
    drop(resumed);
    (world, query, greeting)
}

#[tokio::test(start_paused = true)]
async fn a_merge_which_changes_every_seq_is_told_to_those_who_are_there_and_a_gap_for_the_others() {
    let (world, query, greeting) = merging().await;
    let mut witness = world.web(&query).await;
    world.db.release();
    let told = witness.events().await;
    assert_eq!(said(&told), ["session-removed", "session-updated", "session-updated"]);
    for _ in 0..2 {
        assert_eq!(resume(&world, &query, &greeting).await, "gap");
        assert_eq!(resume(&world, &query, &id(&told[0])).await, "gap");
        let (resume, mut web) = come_back(&world, &query, &id(&told[1]), Format::Json).await;
        assert_eq!((resume.as_str(), web.events().await), ("ok", told[2..].to_vec()));
        world.redeploy();
    }
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_is_interrupted_is_a_gap_for_everybody() {
    let (world, query, greeting) = merging().await;
    let mut survivor = world.web(&query).await;
    world.restart();
    world.db.release();
    assert_eq!(resume(&world, &query, &greeting).await, "gap");
    assert_eq!(survivor.event().await["data"]["resume"], "gap");

    let (world, query, _) = merging().await;
    let mut survivor = world.web(&query).await;
    world.db.release();
    world.db.hold(On::Writes);
    let removed = survivor.event().await;
    assert_eq!(removed["type"], "session-removed");
    quiet().await;
    assert_eq!(world.db.held(), 1, "what the one that stays took over is still to be told");
    world.restart();
    world.db.release();
    assert_eq!(resume(&world, &query, &id(&removed)).await, "gap");
    assert_eq!(survivor.event().await["data"]["resume"], "gap");
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A web client that is cut off again and again.
struct Wanderer {
    format: Format,
    web: Option<Web>,
    /// The id of the last event that arrived; none before the first.
    last: Option<String>,
    /// After which number it has heard everything, and what it heard.
    since: u64,
    heard: Vec<Value>,
    returns: usize,
    gaps: usize,
}

impl Wanderer {
    fn new(format: Format) -> Self {
        Self { format, web: None, last: None, since: 0, heard: Vec::new(), returns: 0, gaps: 0 }
    }

    async fn connect(&mut self, world: &World, query: &str) {
        self.web = Some(Web(world.try_subscribe(query, self.last.as_deref(), self.format).await.unwrap()));
        self.returns += 1;
    }

    /// Takes the first of the events that have come since.
    fn take(&mut self, events: impl Iterator<Item = Value>) {
        for event in events {
            let number = number(&event);
            match event["type"].as_str().unwrap() {
                "connection-changed" if event["data"]["resume"] == "gap" || self.last.is_none() => {
                    self.gaps += usize::from(self.last.is_some());
                    self.since = number;
                    self.heard.clear();
                }
                "connection-changed" | "heartbeat" => {}
                _ => self.heard.push(event.clone()),
            }
            self.last = Some(id(&event));
        }
    }

    /// It is cut off, and what came last has not reached it.
    async fn cut_off(&mut self, dice: &mut Dice) {
        let Some(mut web) = self.web.take() else { return };
        let events = web.events().await;
        web.0.close();
        let arrived = match dice.roll(3) {
            0 => events.len(),
            _ => usize::try_from(dice.roll(events.len() as u64 + 1)).unwrap(),
        };
        self.take(events.into_iter().take(arrived));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_again_and_again_under_load_hears_what_the_others_hear() {
    let (mut returns, mut gaps) = (0, 0);
    for seed in 1..=12 {
        let (world, session, mut cli, query) = live().await;
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        // It is always there: its socket survives what happens to the hub.
        let mut witness = world.web(&query).await;
        let mut witnessed: Vec<Value> = Vec::new();
        let mut wanderers: Vec<Wanderer> = (0..4).map(|n| Wanderer::new(FORMATS[n % 2])).collect();
        for n in 0..250 {
            match dice.roll(20) {
                0 => world.sleep_and_wake().await,
                1 => {
                    quiet().await;
                    world.restart();
                }
                2 if dice.roll(6) == 0 => {
                    world.db.hold(On::Writes);
                    cli.emit("message", &message(&session, "untold"));
                    quiet().await;
                    world.restart();
                    world.db.release();
                }
                3 => world.pass(dice.roll(20_000)).await,
                4 => drop(world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok()),
                5..=12 => {
                    for m in 0..=dice.roll(12) {
                        cli.emit("message", &json!({"sid": session, "message": {"n": n, "m": m}}));
                    }
                }
                13 => {
                    // One answer is lost, or all of them.
                    (0..1 + 5 * dice.roll(2)).for_each(|_| world.db.lose_answer(passing()));
                    cli.emit("message", &message(&session, "of which nobody knows"));
                    exhaust(&world).await;
                }
                _ => {
                    let wanderer = usize::try_from(dice.roll(4)).unwrap();
                    let wanderer = &mut wanderers[wanderer];
                    match wanderer.web {
                        Some(_) => wanderer.cut_off(&mut dice).await,
                        None => wanderer.connect(&world, &query).await,
                    }
                }
            }
            if !cli.socket.is_open() {
                cli = world.cli(&session).await;
            }
        }
        witnessed.extend(witness.events().await);
        for wanderer in &mut wanderers {
            if wanderer.web.is_none() {
                wanderer.connect(&world, &query).await;
            }
            let events = wanderer.web.as_mut().unwrap().events().await;
            wanderer.take(events.into_iter());
        }
        let events: Vec<&Value> = witnessed
            .iter()
            .filter(|event| event["type"] != "connection-changed" && event["type"] != "heartbeat")
            .collect();
        assert!(events.iter().map(|event| number(event)).is_sorted_by(|a, b| a < b), "seed {seed}");
        for (at, wanderer) in wanderers.iter().enumerate() {
            let expected: Vec<&Value> = events.iter().copied().filter(|e| number(e) > wanderer.since).collect();
            assert_eq!(wanderer.heard.iter().collect::<Vec<_>>(), expected, "seed {seed}, client {at}");
            let seqs: Vec<u64> = wanderer.heard.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
            assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "seed {seed}, client {at}: {seqs:?}");
            returns += wanderer.returns;
            gaps += wanderer.gaps;
        }
    }
    assert!(returns > 200, "{returns} returns");
    assert_eq!(gaps, 0, "all of it is held");
}
