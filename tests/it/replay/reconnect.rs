//! Web clients that reconnect after a hibernation, a restart or a merge. They receive every missed event once and in order, or
//! a `gap`.

use crate::support::merge::resumable_metadata;
use crate::support::prelude::*;
use crate::support::replay::{
    FORMATS, TEN_MINUTES_MS, connect_and_read_first_event, count_event_rows, id, missed_texts, received_message,
    reconnect, replay_fixture, resume_outcome, texts,
};
use crate::support::web::event_number;
use futures::future::{join, join_all};
use session_gateway_hub::limits::RETAINED_BYTES;
use session_gateway_hub::store::Statement;
use session_gateway_hub::store::events::SELECT;

#[tokio::test(start_paused = true)]
async fn missed_events_are_replayed_after_hibernation_and_restarts() {
    for format in FORMATS {
        let (world, session, mut cli, web_query, web, received) = received_message().await;
        web.0.close();
        cli.send_message(&session, "one").await;
        world.hibernate_and_wake().await;
        cli.send_message(&session, "two").await;
        world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
        world.redeploy();
        let mut cli = world.cli(&session).await;
        cli.send_message(&session, "three").await;
        world.redeploy();

        let (outcome, mut web) = reconnect(&world, &web_query, &received, format).await;
        let mut cli = world.cli(&session).await;
        cli.send_message(&session, "live").await;
        assert_eq!(outcome, "ok");
        let events = web.events().await;
        assert_eq!(texts(&events), ["one", "two", "session-updated", "three", "live"], "{format:?}");
        let numbers: Vec<u64> = events.iter().map(event_number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // A client can resume from any event in between.
        let (outcome, mut web) = reconnect(&world, &web_query, &id(&events[1]), format).await;
        assert_eq!((outcome.as_str(), texts(&web.events().await)), ("ok", texts(&events[2..])));
    }
}

#[tokio::test(start_paused = true)]
async fn a_replayed_event_equals_the_published_event() {
    let (world, session, mut cli, _) = replay_fixture().await;
    let machine_id = "box\t1\n\"two\"";
    world.post("/cli/machines", &json!({"id": machine_id, "metadata": {"host": "h"}})).await.ok();
    let encoded = machine_id.replace('\t', "%09").replace('\n', "%0A").replace('"', "%22");
    let web_query = format!("all=true&sessionId={session}&machineId={encoded}");
    let mut connected = world.web(&web_query).await;
    let web = world.web("").await;
    let start = id(&connect_and_read_first_event(&world, &web_query).await);
    drop(web);
    let multiline = "{\"n\":12345678901234567890,\r\n\t\"text\": \"a\\nb\u{2028}\"}";
    let message = format!(r#"{{"sid":"{session}","message":{multiline}}}"#);
    assert_eq!(cli.emit_raw_with_ack("message", &message).await["ok"], true);
    let mut runner = world.runner(machine_id).await;
    let alive = json!({"machineId": machine_id, "time": world.now()});
    assert_eq!(runner.emit_with_ack("machine-alive", &alive).await["ok"], true);
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    let published = connected.events().await;
    let types: Vec<&str> = published.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["message-received", "machine-updated", "session-removed"]);
    world.redeploy();
    for format in FORMATS {
        let machine = format!("all=true&machineId={encoded}");
        let (outcome, mut web) = reconnect(&world, &machine, &start, format).await;
        assert_eq!((outcome.as_str(), web.events().await), ("ok", published[1..].to_vec()), "{format:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_received_only_the_first_event_resumes_from_it() {
    let (world, session, _, web_query) = replay_fixture().await;
    let first = connect_and_read_first_event(&world, &web_query).await;
    world.redeploy();
    assert_eq!(resume_outcome(&world, &web_query, &id(&first)).await, "ok");
    let mut cli = world.cli(&session).await;
    cli.send_message(&session, "first").await;
    assert_eq!(missed_texts(&world, &web_query, &id(&first)).await, ["first"]);
}

#[tokio::test(start_paused = true)]
async fn keep_alives_are_neither_logged_nor_replayed() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    cli.send_keep_alive(&world, &session).await;
    let became_active = web.next_event().await;
    for _ in 0..3 {
        world.advance(11_000).await;
        let (rows_before, writes) = (count_event_rows(&world), world.db.write_count());
        cli.send_keep_alive(&world, &session).await;
        let event = web.next_event_of("session-updated").await;
        assert_eq!(event["data"]["active"], true);
        assert_eq!(id(&event), id(&became_active), "the event has the id of the last logged event");
        assert_eq!((count_event_rows(&world), world.db.write_count()), (rows_before, writes));
    }
    assert_eq!(missed_texts(&world, &web_query, &id(&became_active)).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn events_are_read_from_the_database_once_and_only_to_resume() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    for n in 0..30 {
        cli.send_message(&session, &format!("{n}")).await;
    }
    let events = web.events().await;
    let log_reads = |world: &World| {
        let reads = world.db.read_batches();
        reads.iter().flatten().filter(|s| s.sql.contains("FROM events") && s.sql.contains("body")).count()
    };
    world.redeploy();
    assert_eq!(log_reads(&world), 0);
    cli = world.cli(&session).await;
    let mut web = world.web(&web_query).await;
    cli.send_message(&session, "after the restart").await;
    assert_eq!(texts(&web.events().await), ["after the restart"]);
    assert_eq!(resume_outcome(&world, &web_query, &id(&events[29])).await, "ok");
    assert_eq!(log_reads(&world), 0, "events published since the restart are in memory");
    for position in [20, 3, 28] {
        let (outcome, mut reconnected) = reconnect(&world, &web_query, &id(&events[position]), Format::Json).await;
        assert_eq!((outcome.as_str(), reconnected.events().await.len()), ("ok", 30 - position));
    }
    assert_eq!(log_reads(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_id_of_another_namespace_is_a_gap_even_if_its_number_is_logged() {
    let (world, _, _cli, web_query, _web, received) = received_message().await;
    let neighbour = world.neighbour();
    let foreign = id(&connect_and_read_first_event(&neighbour, "").await);
    neighbour.create_session("/theirs").await;
    for _ in 0..2 {
        let (foreign_prefix, own_number) = (foreign.split_once('-').unwrap().0, received.split_once('-').unwrap().1);
        assert_eq!(resume_outcome(&world, &web_query, &format!("{foreign_prefix}-{own_number}")).await, "gap");
        assert_eq!(resume_outcome(&neighbour, "", &received).await, "gap");
        assert_eq!(missed_texts(&world, "all=true", &received).await, [""; 0]);
        assert_eq!(missed_texts(&neighbour, "", &foreign).await, ["session-added"]);
        world.redeploy();
        neighbour.redeploy();
    }
}

#[tokio::test(start_paused = true)]
async fn event_numbers_increase_and_event_ids_stay_valid_when_the_clock_goes_back() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    cli.send_message(&session, "received").await;
    let received = web.next_event().await;
    world.rt.set_now(world.now() - 3_600_000);
    world.redeploy();
    cli = world.cli(&session).await;
    cli.send_message(&session, "missed").await;
    let (resume_ok, mut web) = reconnect(&world, &web_query, &id(&received), Format::Json).await;
    assert_eq!((resume_ok.as_str(), texts(&web.events().await)), ("ok", vec!["missed"]));
    cli.send_message(&session, "after").await;
    let after = web.next_event().await;
    assert!(event_number(&after) > event_number(&received));
    // An event id of a deleted log is not valid in the next log.
    web.0.close();
    cli.socket.close();
    world.advance(TEN_MINUTES_MS).await;
    assert_eq!(count_event_rows(&world), 0);
    world.rt.set_now(world.now() - 7_200_000);
    world.redeploy();
    let first = connect_and_read_first_event(&world, &web_query).await;
    assert!(event_number(&first) > event_number(&after));
    assert_eq!(resume_outcome(&world, &web_query, &id(&after)).await, "gap");
}

/// A merge whose result is held, after a resume of a session under another id. Returns the world, and the URL query and the last
/// event id of a client that has subscribed to the new session and to everything.
async fn unfinished_merge() -> (World, String, String) {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.create_session_with("/code", resumable_metadata()).await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.next_call().await;
    let new = world.create_session("/code#2").await;
    let mut cli = world.cli(&new).await;
    cli.send_message(&new, "new").await;
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    run_until_idle().await;
    let web_query = format!("all=true&sessionId={new}");
    let first = id(&connect_and_read_first_event(&world, &web_query).await);
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("session-alive", &json!({"sid": new, "time": world.now()})).await;
    // The first batch has the keep-alive, the next one the merge.
    world.db.release_results();
    world.db.hold_results(BatchKind::Writes);
    assert_eq!(world.held_results().await, 1);
    drop(resumed);
    (world, web_query, first)
}

#[tokio::test(start_paused = true)]
async fn connected_clients_receive_the_events_of_a_merge_and_reconnecting_clients_receive_a_gap() {
    let (world, web_query, first) = unfinished_merge().await;
    let mut connected = world.web(&web_query).await;
    world.db.release_results();
    let published = connected.events().await;
    assert_eq!(
        texts(&published),
        ["session-removed", "connection-changed", "session-updated"],
        "messages are renumbered, so the clients of the session read them again"
    );
    for _ in 0..2 {
        assert_eq!(resume_outcome(&world, &web_query, &first).await, "gap");
        assert_eq!(resume_outcome(&world, &web_query, &id(&published[0])).await, "gap");
        for last in [1, 2] {
            let (outcome, mut web) = reconnect(&world, &web_query, &id(&published[last]), Format::Json).await;
            assert_eq!((outcome.as_str(), web.events().await), ("ok", published[last + 1..].to_vec()));
        }
        world.redeploy();
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_merge_is_a_gap_for_every_client() {
    let (world, web_query, first) = unfinished_merge().await;
    let mut connected = world.web(&web_query).await;
    world.restart();
    world.db.release_results();
    assert_eq!(resume_outcome(&world, &web_query, &first).await, "gap");
    assert_eq!(connected.next_event().await["data"]["resume"], "gap");

    let (world, web_query, _) = unfinished_merge().await;
    let mut connected = world.web(&web_query).await;
    world.db.release_results();
    world.db.hold_results(BatchKind::Writes);
    let removed = connected.next_event().await;
    assert_eq!(removed["type"], "session-removed");
    assert_eq!(world.held_results().await, 1, "the update of the remaining session is held");
    world.restart();
    world.db.release_results();
    assert_eq!(resume_outcome(&world, &web_query, &id(&removed)).await, "gap");
    assert_eq!(connected.next_event().await["data"]["resume"], "gap");
}

#[tokio::test(start_paused = true)]
async fn clients_that_resume_at_once_load_the_log_once() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    for text in ["one", "two"] {
        cli.send_message(&session, &text.repeat(100_000)).await;
    }
    let first = id(&web.events().await[0]);
    world.redeploy();
    world.db.hold_results(BatchKind::Reads);
    let clients = join_all((0..20).map(|_| world.open_event_stream(&web_query, Some(&first), Format::Json)));
    let observe = async {
        release_until_log_is_read(&world).await;
        // Runs until the other clients wait for the log, too.
        while world.db.held_result_count() > 1 {
            world.release_result(0).await;
        }
        let bytes = world.held_bytes();
        world.db.release_results();
        bytes
    };
    let (clients, bytes) = join(clients, observe).await;
    for client in clients {
        let mut web = Web(client.unwrap());
        let [greeting, event] = &*web.events().await else { panic!("two events") };
        assert_eq!((&greeting["data"]["resume"], &event["type"]), (&json!("ok"), &json!("message-received")));
    }
    assert_eq!(count_log_reads(&world), 1);
    assert!((2 * RETAINED_BYTES..4 * RETAINED_BYTES).contains(&bytes), "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_while_its_session_is_deleted_receives_the_removal_once() {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let first = id(&connect_and_read_first_event(&world, &web_query).await);
    for text in ["one", "two"] {
        cli.send_message(&session, text).await;
    }
    world.redeploy();
    world.db.hold_results(BatchKind::Reads);
    let delete = async {
        release_until_log_is_read(&world).await;
        world.db.stop_holding();
        world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
        world.db.release_results();
    };
    let (socket, ()) = join(world.open_event_stream(&web_query, Some(&first), Format::Json), delete).await;
    let events = Web(socket.unwrap()).events().await;
    assert_eq!(texts(&events), ["connection-changed", "session-removed"]);
    assert_eq!(events[0]["data"]["resume"], "ok");
}

/// Releases held reads until the result of a read of the log is held.
async fn release_until_log_is_read(world: &World) {
    loop {
        run_until_idle().await;
        match count_log_reads(world) {
            0 => world.db.release_result(0),
            _ => return,
        }
    }
}

fn count_log_reads(world: &World) -> usize {
    let reads_log = |batch: &&Vec<Statement>| batch.iter().any(|statement| statement.sql == SELECT);
    world.db.read_batches().iter().filter(reads_log).count()
}
