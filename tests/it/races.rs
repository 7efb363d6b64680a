//! Two things at once, found by the simulation (`simulation`): each is a test of its own here.

use crate::support::cli::Cli;
use crate::support::rest::Awaited;
use crate::support::sqlite::On;
use crate::support::{World, quiet};
use serde_json::json;
use session_gateway_hub::store::DbError;

fn lasting() -> DbError {
    DbError::Refused("disk I/O error".into())
}

/// A write fails, so that memory forgets what it holds.
async fn fail_a_write(world: &World, cli: &mut Cli, session: &str) {
    world.db.fail(On::Writes, lasting());
    let lost = cli.ask("message", &json!({"sid": session, "message": {}})).await;
    assert_eq!(lost["ok"], false);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_a_tag_whose_session_is_deleted_just_then_gets_a_new_session() {
    let world = World::new();
    let session = world.session("/code").await;
    let busy = world.session("/busy").await;
    let cli = world.live_cli(&busy).await;
    quiet().await;
    world.db.hold(On::Writes);
    cli.emit("message", &json!({"sid": busy, "message": {}}));
    quiet().await;
    // Both wait for the batch after the one that is under way.
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "h"}});
    let made = world.start("POST", "/cli/sessions", body.to_string());
    quiet().await;
    let deleted = world.start("DELETE", &format!("/api/sessions/{session}"), "");
    quiet().await;
    world.db.release();
    deleted.reply().await.ok();
    let made = made.reply().await.ok();
    assert_ne!(made["session"]["id"], session.as_str());
    assert_eq!(world.shown(made["session"]["id"].as_str().unwrap()).await["tag"], "/code");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_made_known_also_when_a_write_fails_meanwhile() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    world.machine("known").await;
    quiet().await;
    world.db.hold(On::Reads);
    let made = world.start("POST", "/cli/machines", r#"{"id":"m","metadata":{"host":"box"}}"#);
    quiet().await;
    assert_eq!(world.db.held(), 1, "it is looked up whether another namespace has it");
    fail_a_write(&world, &mut cli, &session).await;
    world.db.release();
    assert_eq!(made.reply().await.ok()["machine"]["id"], "m");
}

/// A CLI says so much at once that its messages are gathered for a while before they are written.
fn burst(cli: &mut Cli, session: &str) -> Vec<u64> {
    (0..8).map(|n| cli.emit_asking("message", &json!({"sid": session, "message": {"n": n}}))).collect()
}

/// Somebody asks for a session when a burst of another one is on its way to the database, and before the next burst.
async fn asked_between_bursts(world: &World, cli: &mut Cli, busy: &str, session: &str) -> (Awaited, Vec<u64>) {
    let mut bursts = burst(cli, busy);
    let shown = world.start("GET", &format!("/api/sessions/{session}"), "");
    quiet().await;
    bursts.extend(burst(cli, busy));
    (shown, bursts)
}

async fn all_are_kept(cli: &mut Cli, bursts: Vec<u64>) {
    for ack in bursts {
        assert_eq!(cli.acknowledged(ack).await["ok"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_while_it_is_loaded_stays_gone() {
    let world = World::new();
    let session = world.session("/code").await;
    let busy = world.session("/busy").await;
    world.sleep_and_wake().await;
    let mut cli = world.cli(&busy).await;
    world.db.hold(On::Reads);
    let deleted = world.start("DELETE", &format!("/api/sessions/{session}"), "");
    quiet().await;
    assert_eq!(world.db.held(), 1, "it is loaded so as to be deleted");
    world.db.pass();
    world.db.hold(On::Writes);
    // Whoever asks for it meanwhile waits for a batch that is written before the deletion ...
    let (shown, bursts) = asked_between_bursts(&world, &mut cli, &busy, &session).await;
    assert_eq!(world.db.held(), 2);
    // ... and goes on while the deletion is not yet written.
    quiet().await;
    world.db.release();
    deleted.reply().await.ok();
    all_are_kept(&mut cli, bursts).await;
    shown.reply().await.refuses(404, "session_not_found");
    world.get(&format!("/api/sessions/{session}")).await.refuses(404, "session_not_found");
    assert_eq!(cli.ask("message", &json!({"sid": session, "message": {}})).await["code"], "not-found");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_canceled_while_the_completed_ones_are_loaded_is_among_them() {
    let world = World::new();
    let session = world.session("/code").await;
    let busy = world.session("/busy").await;
    let mut cli = world.live_cli(&session).await;
    assert_eq!(cli.state(&session, 1, &json!({"requests": {"r1": {"tool": "T"}}})).await["result"], "success");
    world.sleep_and_wake().await;
    // The session is in memory, its completed requests are not.
    cli.message(&session, "hello").await;
    let mut talker = world.cli(&busy).await;
    quiet().await;
    world.db.hold(On::Writes);
    let (shown, bursts) = asked_between_bursts(&world, &mut talker, &busy, &session).await;
    assert_eq!(world.db.held(), 1);
    cli.emit("session-end", &json!({"sid": session, "time": world.now()}));
    quiet().await;
    world.db.release();
    shown.reply().await.ok();
    all_are_kept(&mut talker, bursts).await;
    let shown = world.shown(&session).await;
    assert_eq!(shown["agentState"]["completedRequests"]["r1"]["status"], "canceled", "{shown}");
}

#[tokio::test(start_paused = true)]
async fn nobody_hears_of_a_session_that_is_gone_by_a_merge_and_the_other_one_takes_changes_after_it() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.session_with("/code", json!({"alphaSessionId": "a", "machineId": "m"})).await;
    let mut web = world.web("all=true").await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.request().await;
    let new = world.session("/code#2").await;
    let mut cli = world.live_cli(&new).await;
    quiet().await;
    world.db.hold(On::Writes);
    runner.answer(&call, &json!({"success": true, "sessionId": new}));
    quiet().await;
    assert_eq!(world.db.held(), 1, "the merge is under way");
    let names = [&old, &new].map(|id| world.start("PATCH", &format!("/api/sessions/{id}"), r#"{"name":"late"}"#));
    let state = cli.emit_asking("update-state", &json!({"sid": new, "expectedVersion": 1, "agentState": {"n": 1}}));
    quiet().await;
    world.db.release();
    assert_eq!(resumed.reply().await.ok()["sessionId"], new.as_str());
    let [of_old, of_new] = names;
    of_old.reply().await.refuses(404, "session_not_found");
    of_new.reply().await.ok();
    assert_eq!(cli.acknowledged(state).await["result"], "success");
    let shown = world.shown(&new).await;
    assert_eq!((&shown["metadata"]["name"], &shown["agentState"]["n"]), (&json!("late"), &json!(1)));
    let mut gone = false;
    for event in web.events().await {
        let of_old = event["sessionId"] == old.as_str();
        assert!(!(gone && of_old), "{event}");
        gone |= of_old && event["type"] == "session-removed";
    }
    assert!(gone);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_the_tag_of_a_session_that_is_going_by_a_merge_gets_a_new_session() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let metadata = json!({"alphaSessionId": "a", "machineId": "m", "lifecycleState": "archived"});
    let old = world.session_with("/code", metadata).await;
    let mut web = world.web("all=true").await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.request().await;
    let new = world.session("/code#2").await;
    let _cli = world.live_cli(&new).await;
    quiet().await;
    world.db.hold(On::Writes);
    runner.answer(&call, &json!({"success": true, "sessionId": new}));
    quiet().await;
    assert_eq!(world.db.held(), 1, "the merge is under way");
    let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "h"}});
    let asked = world.start("POST", "/cli/sessions", body.to_string());
    quiet().await;
    world.db.release();
    assert_eq!(resumed.reply().await.ok()["sessionId"], new.as_str());
    let found = asked.reply().await.ok()["session"]["id"].clone();
    assert_ne!(found, old.as_str());
    assert_ne!(found, new.as_str());
    let of_old = |event: &serde_json::Value| event["sessionId"] == old.as_str();
    let last = web.events().await.into_iter().rfind(of_old).unwrap();
    assert_eq!(last["type"], "session-removed");
}

#[tokio::test(start_paused = true)]
async fn whoever_may_have_missed_a_change_of_which_nobody_knows_whether_it_was_written_comes_back_and_reads_it() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut sender = world.live_cli(&session).await;
    let mut other = world.cli(&session).await;
    let mut bystander = world.bare_cli().await;
    quiet().await;
    // It is written, but the answer is lost, and then the database is away.
    let away = || DbError::Retryable("Network connection lost".into());
    world.db.lose_answer(away());
    world.db.break_down(On::Writes, away());
    let message = json!({"sid": session, "message": {"n": 1}, "localId": "l"});
    let lost = sender.emit_asking("message", &message);
    for _ in 0..10 {
        quiet().await;
        world.rt.set_now(world.now() + 5_000);
    }
    assert_eq!(sender.acknowledged(lost).await["code"], "unavailable");
    assert_eq!(other.socket.closed().await, 1013);
    world.db.repair();
    // The message is there already: whoever sends it again changes nothing, so the other hears of it only by coming back.
    assert_eq!(sender.ask("message", &message).await["seq"], 1);
    let page = world.get(&format!("/cli/sessions/{session}/messages")).await.ok();
    assert_eq!(page["messages"][0]["content"]["n"], 1);
    assert_eq!(bystander.ask("ping", &json!(null)).await, json!({"ok": true}));
    let mut other = world.cli(&session).await;
    sender.message(&session, "next").await;
    assert_eq!(other.event("update").await["body"]["message"]["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn when_nobody_knows_whether_a_merge_was_done_all_who_follow_the_two_sessions_look_again() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.session_with("/code", json!({"alphaSessionId": "a", "machineId": "m"})).await;
    let mut lingering = world.cli(&old).await;
    let mut web = world.web("all=true").await;
    let resumed = world.start("POST", &format!("/api/sessions/{old}/resume"), "");
    let call = runner.request().await;
    let new = world.session("/code#2").await;
    let mut cli = world.live_cli(&new).await;
    quiet().await;
    drop(web.events().await);
    world.db.lose_answer(DbError::Retryable("Network connection lost".into()));
    world.db.break_down(On::Writes, lasting());
    runner.answer(&call, &json!({"success": true, "sessionId": new}));
    quiet().await;
    world.rt.set_now(world.now() + 1_000);
    resumed.reply().await.refuses(503, "hub_unavailable");
    assert_eq!(lingering.socket.closed().await, 1013);
    assert_eq!(cli.socket.closed().await, 1013);
    assert_eq!(web.event().await["data"]["resume"], "gap");
    world.db.repair();
    world.get(&format!("/api/sessions/{old}")).await.refuses(404, "session_not_found");
    assert_eq!(world.shown(&new).await["active"], true);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_written() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut sender = world.live_cli(&session).await;
    let mut other = world.cli(&session).await;
    quiet().await;
    world.db.lose_answer(DbError::Retryable("Network connection lost".into()));
    world.db.break_down(On::Writes, lasting());
    let lost = sender.emit_asking("message", &json!({"sid": session, "message": {"n": 1}}));
    quiet().await;
    world.rt.set_now(world.now() + 1_000);
    assert_eq!(sender.acknowledged(lost).await["code"], "unavailable");
    assert_eq!(other.socket.closed().await, 1013);
}
