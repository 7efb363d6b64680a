//! Web clients that come back: over a sleep, a restart and a merge they hear all that they missed, once and in order, or
//! are told that they missed something.

use crate::support::replay::{FORMATS, TEN_MINUTES, come_back, id, live, resume, rows, said, web_greeting};
use crate::support::sqlite::On;
use crate::support::web::number;
use crate::support::{World, quiet};
use serde_json::json;
use session_gateway_hub::hub::peers::subscription::Format;

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
