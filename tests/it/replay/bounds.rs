//! How much of the past is held for web clients that come back, for how long, and what that costs.

use crate::support::replay::{
    TEN_MINUTES, come_back, exhaust, id, live, message, passing, resume, rows, said, web_greeting,
};
use crate::support::sqlite::On;
use crate::support::{World, quiet};
use session_gateway_hub::hub::peers::subscription::Format;
use session_gateway_hub::store::DbError;

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
