//! Bringing a session back: which machine is asked, how long it may take, and how two histories become one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use session_gateway_hub::store::DbError;
use support::cli::{Cli, Request};
use support::rest::Awaited;
use support::sqlite::On;
use support::{RPC_TIMEOUT_MS, World, quiet};

/// What a machine needs to bring a session of an agent back.
fn resumable() -> Value {
    json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"})
}

/// A session that has ended, and the runner of its machine.
async fn ended() -> (World, String, Cli) {
    let world = World::new();
    let runner = world.spawner("m", "box").await;
    let session = world.session_with("/work", resumable()).await;
    quiet().await;
    (world, session, runner)
}

fn resume(world: &World, session: &str) -> Awaited {
    world.start("POST", &format!("/api/sessions/{session}/resume"), "")
}

fn success(session: &str) -> Value {
    json!({"success": true, "sessionId": session})
}

/// Runs once nobody is waited for, so that whoever was not asked would have been.
async fn heard_nothing(runner: &mut Cli) {
    runner.socket.heard_nothing().await;
}

/// A message of a CLI with a local id.
async fn say(cli: &mut Cli, session: &str, text: &str, local_id: Option<&str>) {
    let mut message = json!({"sid": session, "message": {"text": text}});
    if let Some(local_id) = local_id {
        message["localId"] = json!(local_id);
    }
    assert_eq!(cli.ask("message", &message).await["ok"], true);
}

/// The history of a session as text and local id, oldest first; its numbers must be gapless.
async fn history(world: &World, session: &str) -> Vec<(String, Option<String>)> {
    let page = world.get(&format!("/cli/sessions/{session}/messages")).await.ok();
    let messages = page["messages"].as_array().unwrap();
    let seqs: Vec<u64> = messages.iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=messages.len() as u64).collect::<Vec<_>>(), "gapless");
    let of = |m: &Value| {
        let text = m["content"]["text"].as_str().or(m["content"]["content"]["text"].as_str());
        (text.unwrap().to_owned(), m["localId"].as_str().map(str::to_owned))
    };
    messages.iter().map(of).collect()
}

async fn texts(world: &World, session: &str) -> Vec<String> {
    history(world, session).await.into_iter().map(|(text, _)| text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_active_is_its_own_resume() {
    let (world, session, mut runner) = ended().await;
    world.live_cli(&session).await;
    assert_eq!(resume(&world, &session).reply().await.ok(), success(&session));
    heard_nothing(&mut runner).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_comes_back_under_its_own_id() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    let asked = runner.serve("spawnSession", &json!({"success": true, "sessionId": session})).await;
    let params = json!({"directory": "/work", "agent": "beta", "sessionId": session, "resumeSessionId": "agent-7"});
    assert_eq!(asked, params);
    quiet().await;
    assert!(!reply.is_here(), "it is not active yet");
    let mut cli = world.cli(&session).await;
    quiet().await;
    assert!(!reply.is_here(), "a socket alone is no sign of life");
    world.pass(10_000).await;
    cli.alive(&world, &session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    assert_eq!(world.shown(&session).await["active"], true);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_is_faster_than_its_runner_is_not_waited_for() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    let call = runner.request().await;
    world.live_cli(&session).await;
    runner.answer(&call, &json!({"type": "success"}));
    assert_eq!(reply.reply().await.ok(), success(&session), "an answer without an id, in the other shape");
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_comes_back_too_and_is_archived_no_more() {
    let (world, session, mut runner) = ended().await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({"reason": "done"})).await.ok();
    let mut lingering = world.cli(&session).await;
    lingering.alive(&world, &session).await;
    assert_eq!(world.shown(&session).await["active"], false);
    let reply = resume(&world, &session);
    runner.serve("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session));
    let shown = world.shown(&session).await;
    assert_eq!((&shown["active"], &shown["metadata"]["lifecycleState"]), (&json!(true), &json!("running")));
    assert_eq!((shown["metadata"].get("archivedBy"), shown["metadata"].get("archiveReason")), (None, None));
    assert_eq!(shown["metadata"]["betaSessionId"], "agent-7");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["id"], session.as_str());
}

/// The machine that a resume asks.
async fn asked(world: &World, session: &str, runners: &mut [(&str, &mut Cli)]) -> String {
    let reply = resume(world, session);
    quiet().await;
    let mut found = String::new();
    for (name, runner) in runners {
        for frame in runner.socket.rest().await {
            let support::runtime::Frame::Text(text) = frame else { continue };
            if let support::cli::Heard::Event { name: event, arg, ack: Some(ack) } = support::cli::read(&text)
                && event == "rpc-request"
            {
                assert!(found.is_empty(), "two machines were asked: {found} and {name}");
                assert_eq!(arg["method"], "spawnSession");
                let request = Request { ack, method: String::new(), params: Value::Null };
                runner.answer(&request, &json!({"success": false, "error": "only a test"}));
                found = (*name).to_owned();
            }
        }
    }
    if found.is_empty() {
        reply.reply().await.refuses(503, "no_machine_online");
        return "none".into();
    }
    let refused = reply.reply().await;
    refused.refuses(503, "cli_refused");
    assert!(refused.text.contains("only a test"), "{refused:?}");
    found
}

#[tokio::test(start_paused = true)]
async fn the_machine_of_the_session_is_asked_else_one_of_its_host() {
    let world = World::new();
    let session = world.session_with("/work", resumable()).await;
    assert_eq!(asked(&world, &session, &mut []).await, "none");
    let mut elsewhere = world.spawner("elsewhere", "other-box").await;
    assert_eq!(asked(&world, &session, &mut [("elsewhere", &mut elsewhere)]).await, "none");
    let mut neighbours = world.neighbour().spawner("n", "box").await;
    let mut twin = world.spawner("twin", "box").await;
    assert_eq!(
        asked(&world, &session, &mut [("elsewhere", &mut elsewhere), ("twin", &mut twin)]).await,
        "twin",
        "another machine of the same host"
    );
    heard_nothing(&mut neighbours).await;
    let mut own = world.spawner("m", "renamed-box").await;
    assert_eq!(asked(&world, &session, &mut [("twin", &mut twin), ("own", &mut own)]).await, "own", "by its id");
    assert_eq!(own.ask("rpc-unregister", &json!({"method": "spawnSession"})).await, json!({"ok": true}));
    assert_eq!(
        asked(&world, &session, &mut [("twin", &mut twin), ("own", &mut own)]).await,
        "twin",
        "one that spawns nothing is no help"
    );
    twin.socket.close();
    assert_eq!(asked(&world, &session, &mut [("own", &mut own)]).await, "none");
    own.register("m:spawnSession").await;
    assert_eq!(asked(&world, &session, &mut [("own", &mut own)]).await, "own");
    world.pass(45_000).await;
    assert_eq!(
        asked(&world, &session, &mut [("own", &mut own)]).await,
        "none",
        "it is offline, though its socket stands"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_names_no_machine_is_resumed_on_its_host_where_life_was_seen_last() {
    let world = World::new();
    let mut first = world.spawner("first", "box").await;
    let mut second = world.spawner("second", "box").await;
    let session = world.session_with("/work", json!({"alphaSessionId": "a"})).await;
    world.rt.set_now(world.now() + 1_000);
    first.ask("machine-alive", &json!({"machineId": "first", "time": world.now()})).await;
    assert_eq!(asked(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await, "first");
    world.rt.set_now(world.now() + 1_000);
    second.ask("machine-alive", &json!({"machineId": "second", "time": world.now()})).await;
    world.sleep_and_wake().await;
    let after = asked(&world, &session, &mut [("first", &mut first), ("second", &mut second)]).await;
    assert!(["first", "second"].contains(&after.as_str()), "who serves what survives a sleep");
}

#[tokio::test(start_paused = true)]
async fn a_session_without_the_agents_own_id_can_not_be_resumed() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    for (n, metadata) in [
        json!({}),
        json!({"flavor": "beta"}),
        json!({"flavor": "beta", "alphaSessionId": "x"}),
        json!({"flavor": "zeta", "zetaSessionId": "x"}),
        json!({"alphaSessionId": 5}),
        json!({"alphaSessionId": null}),
    ]
    .into_iter()
    .enumerate()
    {
        let session = world.session_with(&format!("/{n}"), metadata.clone()).await;
        resume(&world, &session).reply().await.refuses(409, "resume_unavailable");
    }
    heard_nothing(&mut runner).await;
    for (n, (flavor, field)) in [
        (Value::Null, "alphaSessionId"),
        (json!("alpha"), "alphaSessionId"),
        (json!("gamma"), "gammaSessionId"),
        (json!("delta"), "deltaSessionId"),
        (json!("epsilon"), "epsilonSessionId"),
    ]
    .into_iter()
    .enumerate()
    {
        let session = world.session_with(&format!("/ok{n}"), json!({"flavor": flavor, field: "own"})).await;
        let reply = resume(&world, &session);
        let asked = runner.serve("spawnSession", &json!({"success": false})).await;
        assert_eq!(
            (&asked["agent"], &asked["resumeSessionId"]),
            (&json!(flavor.as_str().unwrap_or("alpha")), &json!("own"))
        );
        reply.reply().await.refuses(503, "cli_refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_become_active_within_15_seconds_failed_to_resume() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    let call = runner.request().await;
    world.pass(5_000).await;
    runner.answer(&call, &json!({"success": true, "sessionId": session}));
    quiet().await;
    assert!(world.rt.alarm().is_some_and(|at| at <= world.now() + 15_000));
    world.pass(14_999).await;
    assert!(!reply.is_here());
    world.pass(1).await;
    reply.reply().await.refuses(504, "resume_failed");
    assert_eq!(world.shown(&session).await["active"], false);
    runner.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let reply = resume(&world, &session);
    runner.serve("spawnSession", &json!({"success": true})).await;
    world.live_cli(&session).await;
    assert_eq!(reply.reply().await.ok(), success(&session), "it may be tried again");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_answer_or_leaves_is_told_apart() {
    let (world, session, mut runner) = ended().await;
    let reply = resume(&world, &session);
    runner.request().await;
    world.pass(RPC_TIMEOUT_MS).await;
    reply.reply().await.refuses(504, "rpc_timeout");
    runner.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    let reply = resume(&world, &session);
    runner.request().await;
    runner.socket.close();
    reply.reply().await.refuses(503, "cli_unreachable");
    resume(&world, &session).reply().await.refuses(503, "no_machine_online");
}

#[tokio::test(start_paused = true)]
async fn of_two_who_resume_at_once_one_asks_the_machine_and_both_are_answered() {
    let (world, session, mut runner) = ended().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    runner.serve("spawnSession", &json!({"success": true})).await;
    let third = resume(&world, &session);
    heard_nothing(&mut runner).await;
    world.live_cli(&session).await;
    for reply in replies.into_iter().chain([third]) {
        assert_eq!(reply.reply().await.ok(), success(&session));
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_who_resume_waits_as_long_as_the_first() {
    let (world, session, mut runner) = ended().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    let call = runner.request().await;
    world.pass(20_000).await;
    runner.answer(&call, &json!({"success": true}));
    world.pass(5_000).await;
    world.live_cli(&session).await;
    for reply in replies {
        assert_eq!(reply.reply().await.ok(), success(&session), "a slow machine is slow for both");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_machine_refuses_nobody_is_left_waiting() {
    let (world, session, mut runner) = ended().await;
    let replies = [resume(&world, &session), resume(&world, &session)];
    runner.serve("spawnSession", &json!({"success": false, "error": "disk full"})).await;
    for reply in replies {
        reply.reply().await.refuses(503, "cli_refused");
    }
}

/// A session with a history that ended, another that its machine came back with, and the resume that will merge them.
struct Twins {
    world: World,
    old: String,
    new: String,
    cli: Cli,
    reply: Awaited,
}

/// The old session has three messages (the second with the local id `b`), the new one two.
async fn twins(old_metadata: Value, new_metadata: Value) -> Twins {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let mut metadata = resumable();
    metadata.as_object_mut().unwrap().extend(old_metadata.as_object().unwrap().clone());
    let old = world.session_with("/work", metadata).await;
    let mut before = world.live_cli(&old).await;
    say(&mut before, &old, "one", None).await;
    say(&mut before, &old, "two", Some("b")).await;
    say(&mut before, &old, "three", Some("c")).await;
    before.ask("session-end", &json!({"sid": old, "time": world.now()})).await;
    before.socket.close();
    let reply = resume(&world, &old);
    let call = runner.request().await;
    world.rt.set_now(world.now() + 1_000);
    let new = world.session_with("/work#2", new_metadata).await;
    let mut cli = world.cli(&new).await;
    say(&mut cli, &new, "two", Some("b")).await;
    say(&mut cli, &new, "four", Some("d")).await;
    runner.answer(&call, &json!({"success": true, "sessionId": new}));
    quiet().await;
    Twins { world, old, new, cli, reply }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_came_back_under_another_id_takes_the_history_along() {
    let Twins { world, old, new, mut cli, reply } = twins(json!({}), json!({})).await;
    let mut web = world.web("all=true").await;
    let mut of_new = world.web(&format!("sessionId={new}")).await;
    cli.alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    let merged: Vec<(String, Option<String>)> =
        [("one", None), ("two", Some("b")), ("three", Some("c")), ("four", Some("d"))]
            .into_iter()
            .map(|(text, id): (&str, Option<&str>)| (text.to_owned(), id.map(str::to_owned)))
            .collect();
    assert_eq!(history(&world, &new).await, merged);
    let shown = world.shown(&new).await;
    assert_eq!((&shown["seq"], &shown["active"]), (&json!(4), &json!(true)));
    assert_eq!(web.event_of("session-removed").await["sessionId"], old.as_str());
    assert_eq!(world.get("/api/sessions?archived=include").await.ok()["sessions"].as_array().unwrap().len(), 1);
    world.get(&format!("/api/sessions/{old}")).await.refuses(404, "session_not_found");
    assert_eq!(world.db.number("SELECT count(*) FROM sessions"), 1);
    let seq = async |web: &mut support::web::Web| loop {
        let data = web.event_of("session-updated").await["data"].clone();
        if data["seq"] == 4 {
            return;
        }
    };
    seq(&mut of_new).await;

    // Life goes on: numbers behind the merged ones, and every local id still stands for its message.
    say(&mut cli, &new, "five", None).await;
    for (local_id, seq) in [("b", 2), ("c", 3), ("d", 4)] {
        let again = json!({"sid": new, "message": {"text": "again"}, "localId": local_id});
        assert_eq!(cli.ask("message", &again).await["seq"], seq, "{local_id}");
    }
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "five"]);
    world.sleep_and_wake().await;
    say(&mut cli, &new, "six", None).await;
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "five", "six"]);
    assert_eq!(resume(&world, &new).reply().await.ok(), success(&new));
    resume(&world, &old).reply().await.refuses(404, "session_not_found");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_gave_the_old_session_is_carried_over() {
    let given = json!({
        "name": "Mine", "worktree": {"basePath": "/w", "branch": "b", "name": "n"},
        "summary": {"text": "newer", "updatedAt": 20},
    });
    let Twins { world, new, mut cli, reply, .. } =
        twins(given.clone(), json!({"version": "2", "summary": {"text": "older", "updatedAt": 10}})).await;
    cli.alive(&world, &new).await;
    reply.reply().await.ok();
    for round in ["before a sleep", "after it"] {
        let metadata = world.shown(&new).await["metadata"].clone();
        for field in ["name", "worktree", "summary"] {
            assert_eq!(metadata[field], given[field], "{field} {round}");
        }
        assert_eq!((&metadata["path"], &metadata["version"]), (&json!("/work#2"), &json!("2")));
        assert_eq!(metadata.get("betaSessionId"), None, "the agent's id is the new one's own matter");
        world.sleep_and_wake().await;
    }
    let update = cli.event("update").await["body"].clone();
    assert_eq!((&update["metadata"]["version"], &update["metadata"]["value"]["name"]), (&json!(2), &json!("Mine")));

    let newer = json!({"name": "Other", "summary": {"text": "newest", "updatedAt": 30}, "worktree": {"name": "o"}});
    let Twins { world, new, mut cli, reply, .. } = twins(given, newer.clone()).await;
    cli.alive(&world, &new).await;
    reply.reply().await.ok();
    let metadata = world.shown(&new).await["metadata"].clone();
    for field in ["name", "worktree", "summary"] {
        assert_eq!(metadata[field], newer[field], "what the new one has itself stays: {field}");
    }
}

fn todos(status: &str) -> Value {
    let todos = json!([{"id": "1", "content": "dig", "status": status, "priority": "high"}]);
    let data = json!({"type": "tool-call", "name": "TodoWrite", "input": {"todos": todos}});
    json!({"role": "agent", "content": {"type": "beta", "data": data}, "text": status})
}

#[tokio::test(start_paused = true)]
async fn todos_are_carried_over_unless_the_new_session_has_its_own() {
    for own in [false, true] {
        let world = World::new();
        let mut runner = world.spawner("m", "box").await;
        let old = world.session_with("/work", resumable()).await;
        let mut before = world.cli(&old).await;
        before.ask("message", &json!({"sid": old, "message": todos("pending")})).await;
        let reply = resume(&world, &old);
        let new = world.session("/new").await;
        let mut cli = world.cli(&new).await;
        if own {
            cli.ask("message", &json!({"sid": new, "message": todos("completed")})).await;
        }
        runner.serve("spawnSession", &json!({"success": true, "sessionId": new})).await;
        cli.alive(&world, &new).await;
        reply.reply().await.ok();
        let expected = if own { "completed" } else { "pending" };
        assert_eq!(world.shown(&new).await["todos"][0]["status"], expected);
        world.sleep_and_wake().await;
        assert_eq!(world.shown(&new).await["todos"][0]["status"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn completed_requests_of_both_are_kept() {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    let old = world.session_with("/work", resumable()).await;
    let mut before = world.live_cli(&old).await;
    let entry = |tool: &str, at: u64| json!({"tool": tool, "arguments": {}, "status": "approved", "completedAt": at});
    let record =
        json!({"requests": {"w": {"tool": "W"}}, "completedRequests": {"a": entry("A", 1), "x": entry("old", 2)}});
    before.state(&old, 1, &record).await;
    before.ask("session-end", &json!({"sid": old, "time": world.now()})).await;
    let reply = resume(&world, &old);
    let new = world.session("/new").await;
    let mut cli = world.cli(&new).await;
    let record =
        json!({"requests": {"p": {"tool": "P"}}, "completedRequests": {"x": entry("new", 3), "b": entry("B", 4)}});
    cli.state(&new, 1, &record).await;
    world.shown(&new).await;
    runner.serve("spawnSession", &json!({"success": true, "sessionId": new})).await;
    cli.alive(&world, &new).await;
    reply.reply().await.ok();
    let state = world.shown(&new).await["agentState"].clone();
    let completed = &state["completedRequests"];
    let tools: Vec<&Value> = ["a", "b", "x", "w"].iter().map(|id| &completed[*id]["tool"]).collect();
    assert_eq!(tools, ["A", "B", "new", "W"], "{completed}");
    assert_eq!(completed["w"]["status"], "canceled");
    assert_eq!(state["requests"], json!({"p": {"tool": "P"}}), "what waits in the new one still waits");
}

#[tokio::test(start_paused = true)]
async fn messages_in_parts_are_merged_whole() {
    let Twins { world, new, mut cli, reply, .. } = twins(json!({}), json!({})).await;
    let long = "x".repeat(3_500_000);
    say(&mut cli, &new, &long, Some("long")).await;
    cli.alive(&world, &new).await;
    reply.reply().await.ok();
    let all = texts(&world, &new).await;
    assert_eq!(all[..4], ["one", "two", "three", "four"]);
    assert!(all[4] == long, "the long message is whole");
}

#[tokio::test(start_paused = true)]
async fn what_arrives_during_a_merge_waits_and_stands_behind_in_order() {
    let Twins { world, old, new, mut cli, reply } = twins(json!({}), json!({})).await;
    cli.alive(&world, &new).await;
    world.db.hold(On::Writes);
    // The alive event may have finished the wait already: the merge's own batch is what is held.
    quiet().await;
    let again = resume(&world, &old);
    let mut acks = Vec::new();
    for n in 0..5 {
        acks.push(cli.emit_asking("message", &json!({"sid": new, "message": {"text": format!("late {n}")}})));
    }
    let sent = world.start("POST", &format!("/api/sessions/{new}/messages"), r#"{"text":"from the web"}"#);
    quiet().await;
    world.db.release();
    reply.reply().await.ok();
    for ack in acks {
        assert_eq!(cli.acknowledged(ack).await["ok"], true);
    }
    sent.reply().await.ok();
    drop(again);
    let mut all = texts(&world, &new).await;
    all.retain(|text| text != "from the web");
    assert_eq!(all, ["one", "two", "three", "four", "late 0", "late 1", "late 2", "late 3", "late 4"]);
    assert_eq!(world.shown(&new).await["seq"], 10);
}

/// Holds the merge itself: it has been sent to the database and its answer is not there yet.
async fn in_the_middle_of_the_merge(twins: &mut Twins) {
    let Twins { world, new, cli, .. } = twins;
    // So that nothing but the merge has to be written.
    world.db.hold(On::Writes);
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    for _ in 0..5 {
        quiet().await;
        let merging = world.db.written().last().is_some_and(|batch| batch.iter().any(|s| s.sql.contains("seq = -seq")));
        if merging {
            return;
        }
        world.db.release();
        world.db.hold(On::Writes);
    }
    panic!("no merge began");
}

#[tokio::test(start_paused = true)]
async fn a_third_who_resumes_during_the_merge_does_not_spawn_another() {
    let mut twins = twins(json!({}), json!({})).await;
    in_the_middle_of_the_merge(&mut twins).await;
    let Twins { world, old, new, reply, .. } = twins;
    let mut runner = world.spawner("m", "box").await;
    let third = resume(&world, &old);
    quiet().await;
    heard_nothing_but_acks(&mut runner).await;
    world.db.release();
    assert_eq!(reply.reply().await.ok(), success(&new));
    let third = third.reply().await;
    assert!(third.status == 404 || third.json() == success(&new), "{third:?}");
}

/// The runner is asked for nothing.
async fn heard_nothing_but_acks(runner: &mut Cli) {
    for frame in runner.socket.rest().await {
        if let support::runtime::Frame::Text(text) = &frame {
            assert!(!text.contains("rpc-request"), "asked again: {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_old_session_can_be_written_to_during_the_merge_without_harm() {
    for what in ["state", "metadata", "message", "rename", "archive", "delete", "end"] {
        let mut twins = twins(json!({"name": "Mine"}), json!({})).await;
        twins.world.shown(&twins.old).await;
        twins.world.shown(&twins.new).await;
        let mut lingering = twins.world.cli(&twins.old).await;
        in_the_middle_of_the_merge(&mut twins).await;
        let Twins { world, old, new, mut cli, reply } = twins;
        let path = format!("/api/sessions/{old}");
        let request = match what {
            "state" => {
                let state = json!({"completedRequests": {"late": {"tool": "T", "status": "denied"}}});
                lingering.emit("update-state", &json!({"sid": old, "expectedVersion": 1, "agentState": state}));
                None
            }
            "metadata" => {
                let metadata = json!({"path": "/work", "host": "box", "late": 1});
                lingering.emit("update-metadata", &json!({"sid": old, "expectedVersion": 1, "metadata": metadata}));
                None
            }
            "message" => {
                lingering.emit("message", &json!({"sid": old, "message": {"text": "lost"}}));
                None
            }
            "end" => {
                lingering.emit("session-end", &json!({"sid": old, "time": world.now()}));
                None
            }
            "rename" => Some(world.start("PATCH", &path, r#"{"name":"late"}"#)),
            "archive" => Some(world.start("POST", &format!("{path}/archive"), "")),
            _ => Some(world.start("DELETE", &path, "")),
        };
        quiet().await;
        world.db.release();
        let reply = reply.reply().await;
        assert_eq!(reply.status, 200, "{what}: {reply:?}");
        if let Some(request) = request {
            let status = request.reply().await.status.as_u16();
            assert!([200, 404, 409].contains(&status), "{what}: {status}");
        }
        quiet().await;
        say(&mut cli, &new, "five", None).await;
        assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "five"], "{what}");
        world.get(&path).await.refuses(404, "session_not_found");
        if what != "delete" {
            assert!(world.shown(&new).await["metadata"]["name"].is_string(), "{what}");
        }
        assert_eq!(world.db.number("SELECT count(*) FROM sessions"), 1, "{what}");
    }
}

fn lasting() -> DbError {
    DbError::Refused("disk I/O error".into())
}

fn passing() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

/// Everything of the two is either as it was or merged; and whichever it is, both can be used.
async fn nothing_is_half_done(world: &World, old: &str, new: &str, cli: &mut Cli) {
    let merged = world.get(&format!("/api/sessions/{old}")).await.status == 404;
    say(cli, new, "five", None).await;
    if merged {
        assert_eq!(texts(world, new).await, ["one", "two", "three", "four", "five"]);
        assert_eq!(world.shown(new).await["metadata"]["name"], "Mine", "the name came along");
        return;
    }
    assert_eq!(texts(world, old).await, ["one", "two", "three"]);
    assert_eq!(texts(world, new).await, ["two", "four", "five"]);
    assert_eq!(world.shown(old).await["metadata"]["name"], "Mine");
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_the_database_refuses_leaves_both_as_they_were() {
    let Twins { world, old, new, mut cli, reply } = twins(json!({"name": "Mine"}), json!({})).await;
    cli.alive(&world, &new).await;
    // It became active in a write of its own, which is done.
    world.db.fail(On::Writes, lasting());
    let late = cli.emit_asking("message", &json!({"sid": new, "message": {"text": "late"}}));
    let status = reply.reply().await.status;
    cli.acknowledged(late).await;
    assert!(status == 503 || status == 200, "{status}");
    world.db.repair();
    quiet().await;
    assert_eq!(world.shown(&new).await["active"], true);
}

/// Fails the `n`th write from the one that carries the merge on.
async fn fail_merge_at(twins: &mut Twins, skip: usize, error: DbError, lost: bool) {
    in_the_middle_of_the_merge(twins).await;
    let db = &twins.world.db;
    assert!(skip > 0, "the merge itself is sent already");
    if lost {
        db.lose_answer(error);
    } else {
        db.fail(On::Writes, error);
    }
    db.release();
}

#[tokio::test(start_paused = true)]
async fn what_follows_the_merge_may_fail_and_nothing_is_half_done() {
    for lost in [false, true] {
        let mut twins = twins(json!({"name": "Mine"}), json!({})).await;
        let mut web = twins.world.web("all=true").await;
        fail_merge_at(&mut twins, 1, lasting(), lost).await;
        let Twins { world, old, new, mut cli, reply } = twins;
        reply.reply().await;
        nothing_is_half_done(&world, &old, &new, &mut cli).await;
        if world.get(&format!("/api/sessions/{old}")).await.status == 404 {
            assert_eq!(web.event_of("session-removed").await["sessionId"], old.as_str(), "whoever shows it must hear");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_is_refused_is_not_half_done() {
    for (error, lost) in [(lasting(), false), (lasting(), true), (passing(), true), (passing(), false)] {
        let Twins { world, old, new, mut cli, reply } = twins(json!({"name": "Mine"}), json!({})).await;
        // The sign of life is one write; the merge is the next.
        world.db.hold(On::Writes);
        cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
        quiet().await;
        let passes = matches!(error, DbError::Retryable(_));
        if lost {
            world.db.lose_answer(error);
        } else {
            world.db.fail(On::Writes, error);
        }
        world.db.release();
        quiet().await;
        world.pass(5_000).await;
        let status = reply.reply().await.status;
        if passes {
            assert_eq!(status, 200, "a passing fault is tried again, as with every other write");
        } else {
            assert_eq!(status, 503);
        }
        cli.alive(&world, &new).await;
        nothing_is_half_done(&world, &old, &new, &mut cli).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_a_merge_that_fails_is_taken_all_the_same() {
    let mut twins = twins(json!({"name": "Mine"}), json!({})).await;
    in_the_middle_of_the_merge(&mut twins).await;
    let Twins { world, new, mut cli, reply, .. } = twins;
    let late = cli.emit_asking("message", &json!({"sid": new, "message": {"text": "late"}}));
    quiet().await;
    world.restart();
    drop(reply);
    drop(late);
    say(&mut cli, &new, "after", None).await;
    assert_eq!(texts(&world, &new).await, ["one", "two", "three", "four", "after"]);
}
