//! Web clients that come back after something broke: a commit that was interrupted, an answer that was lost, a database
//! that is away, a log that is not whole.

use crate::support::quiet;
use crate::support::replay::{FORMATS, come_back, exhaust, id, live, message, passing, resume, said, web_greeting};
use crate::support::sqlite::On;
use crate::support::web::Web;
use serde_json::json;
use session_gateway_hub::hub::peers::subscription::Format;
use session_gateway_hub::store::DbError;

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
    let asked = tokio::spawn(async move { hub.load_missed_events(Some(&heard)).await });
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
async fn those_who_survived_a_restart_are_told_that_they_missed_what_is_too_large_to_be_held() {
    let (world, session, mut cli, query) = live().await;
    let mut web = world.web(&query).await;
    cli.message(&session, "heard").await;
    let heard = id(&web.event().await);
    world.db.hold(On::Writes);
    cli.emit("message", &message(&session, &"x".repeat(2_500_000)));
    quiet().await;
    // What is left of earlier parts is swept before it, and its own are written.
    for _ in 0..2 {
        world.db.release_one(0);
        quiet().await;
    }
    assert_eq!(world.db.held(), 1, "it is committed, and nobody was told");
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
