//! To-do lists: from an agent's message to the session, the list, the web, and from the history of before.

use crate::support::cli::Cli;
use crate::support::live_session::live_session;
use crate::support::sqlite::BatchKind;
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

async fn say(cli: &mut Cli, session: &str, message: &Value) {
    let ack = cli.emit_with_ack("message", &json!({"sid": session, "message": message})).await;
    assert_eq!(ack["ok"], true, "{message}");
}

fn list(name: &str) -> Value {
    json!([
        {"id": "a", "content": name, "status": "completed", "priority": "high"},
        {"id": "b", "content": "then rest", "status": "in_progress", "priority": "low"},
        {"id": "c", "content": "then go on", "status": "pending", "priority": "medium"},
    ])
}

fn agent(content: Value) -> Value {
    json!({"role": "agent", "content": content, "meta": {"sentFrom": "cli"}})
}

fn tool_call(kind: &str, todos: Value) -> Value {
    json!({"type": kind, "data": {"type": "tool-call", "name": "TodoWrite", "callId": "1", "input": {"todos": todos}}})
}

fn plan(kind: &str, entries: Value) -> Value {
    json!({"type": kind, "data": {"type": "plan", "entries": entries}})
}

fn output(todos: Value) -> Value {
    let blocks = json!([
        {"type": "text", "text": "I have a plan"},
        {"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": todos}},
    ]);
    json!({"type": "output", "data": {"type": "assistant", "message": {"role": "assistant", "content": blocks}}})
}

/// Every shape in which agents write lists, named by its place.
fn shapes() -> Vec<(String, Value)> {
    let mut shapes = Vec::new();
    let mut add = |name: String, make: &dyn Fn(Value) -> Value| shapes.push((name.clone(), make(list(&name))));
    add("output".into(), &|todos| agent(output(todos)));
    for kind in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        add(format!("tool call of {kind}"), &|todos| agent(tool_call(kind, todos)));
        add(format!("plan of {kind}"), &|todos| agent(plan(kind, todos)));
    }
    add("assistant".into(), &|todos| json!({"role": "assistant", "content": output(todos)}));
    add("in message".into(), &|todos| json!({"message": agent(output(todos))}));
    add("in data".into(), &|todos| json!({"type": "x", "data": {"message": agent(tool_call("beta", todos))}}));
    add("in payload".into(), &|todos| json!({"payload": {"message": agent(plan("gamma", todos))}}));
    add("as a text".into(), &|todos| json!(agent(output(todos)).to_string()));
    shapes
}

#[tokio::test(start_paused = true)]
async fn a_list_in_any_shape_becomes_the_sessions_and_everybody_hears_of_it() {
    let (world, session, mut cli) = live_session().await;
    let mut web = world.web("all=true").await;
    for (name, message) in shapes() {
        say(&mut cli, &session, &message).await;
        assert_eq!(world.get_session(&session).await["todos"], list(&name), "{name}");
        let event = web.next_event_of("session-updated").await;
        assert_eq!((&event["sessionId"], &event["data"]["todos"]), (&json!(session), &list(&name)), "{name}");
        let line = world.get("/api/sessions").await.ok()["sessions"][0].clone();
        assert_eq!(line["todoProgress"], json!({"completed": 1, "total": 3}), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_list_counts_and_an_empty_one_is_one() {
    let (world, session, mut cli) = live_session().await;
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["todoProgress"], Value::Null);
    assert_eq!(world.get_session(&session).await.get("todos"), None);
    say(&mut cli, &session, &agent(output(list("first")))).await;
    say(&mut cli, &session, &agent(plan("beta", list("second")))).await;
    assert_eq!(world.get_session(&session).await["todos"], list("second"));
    say(&mut cli, &session, &agent(output(json!([])))).await;
    assert_eq!(world.get_session(&session).await["todos"], json!([]));
    let line = world.get("/api/sessions").await.ok()["sessions"][0].clone();
    assert_eq!(line["todoProgress"], json!({"completed": 0, "total": 0}));
}

#[tokio::test(start_paused = true)]
async fn entries_get_what_they_lack() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(plan("alpha", json!([{"content": "x", "status": "pending", "priority": "high"}]))))
        .await;
    let item = json!({"id": "plan-1", "content": "x", "status": "pending", "priority": "high"});
    assert_eq!(world.get_session(&session).await["todos"], json!([item]));
    say(&mut cli, &session, &agent(output(json!([{"content": "x", "activeForm": "doing x"}])))).await;
    let item = json!({"id": "1", "content": "x", "status": "pending", "priority": "medium"});
    assert_eq!(world.get_session(&session).await["todos"], json!([item]));
}

#[tokio::test(start_paused = true)]
async fn what_only_looks_like_a_list_leaves_the_old_one_alone() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(output(list("kept")))).await;
    let odd = [
        json!({"role": "user", "content": output(list("a user's"))}),
        agent(tool_call("zeta", list("an unknown kind's"))),
        agent(json!({"type": "output", "data": {"type": "user", "message": {"content": list("x")}}})),
        agent(
            json!({"type": "beta", "data": {"type": "tool-call", "name": "TodoRead", "input": {"todos": list("x")}}}),
        ),
        agent(output(json!("no list"))),
        agent(output(json!([{"content": 5}, {"status": "done", "content": "x"}]))),
        json!("TodoWrite"),
        json!({"text": "my \"plan\" and \"TodoWrite\""}),
    ];
    for message in odd {
        say(&mut cli, &session, &message).await;
        assert_eq!(world.get_session(&session).await["todos"], list("kept"), "{message}");
    }
    let text = agent(output(list("forged"))).to_string();
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": text})).await.ok();
    assert_eq!(world.get_session(&session).await["todos"], list("kept"), "what the web writes is no agent's word");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_persisted_with_its_message() {
    let (world, session, mut cli) = live_session().await;
    let writes = world.db.write_count();
    say(&mut cli, &session, &agent(output(list("kept")))).await;
    assert_eq!(world.db.write_count(), writes + 1, "in one batch");
    world.hibernate_and_wake().await;
    let line = world.get("/api/sessions").await.ok()["sessions"][0].clone();
    assert_eq!(line["todoProgress"], json!({"completed": 1, "total": 3}));
    assert_eq!(world.get_session(&session).await["todos"], list("kept"));
    world.db.fail(BatchKind::Writes, DbError::Refused("disk I/O error".into()));
    let lost = cli.emit_with_ack("message", &json!({"sid": session, "message": agent(output(list("lost")))})).await;
    assert_eq!(lost["ok"], false);
    assert_eq!(world.get_session(&session).await["todos"], list("kept"), "a message that was not written has no list");
}

#[tokio::test(start_paused = true)]
async fn a_list_too_long_to_show_does_not_lose_its_message() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(output(list("kept")))).await;
    let endless: Vec<Value> = (0..5_000).map(|n| json!({"content": format!("{n}{}", "x".repeat(80))})).collect();
    say(&mut cli, &session, &agent(output(json!(endless)))).await;
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["seq"], &shown["todos"]), (&json!(2), &list("kept")));
    forget_lists(&world).await;
    assert_eq!(world.get_session(&session).await["todos"], list("kept"), "nor does a search bring it up");
}

/// The hub forgets the lists, as if the messages were older than what it knows of lists today.
async fn forget_lists(world: &World) {
    run_until_idle().await;
    world.db.execute("UPDATE sessions SET todos = NULL");
    world.hibernate_and_wake().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_list_is_searched_for_one_on_first_access() {
    for (name, message) in shapes() {
        let (world, session, mut cli) = live_session().await;
        say(&mut cli, &session, &agent(output(list("older")))).await;
        say(&mut cli, &session, &message).await;
        say(&mut cli, &session, &json!({"role": "agent", "content": {"type": "text", "text": "no \"plan\" here"}}))
            .await;
        say(&mut cli, &session, &agent(tool_call("zeta", list("newer, but of nobody")))).await;
        forget_lists(&world).await;
        assert_eq!(world.get_session(&session).await["todos"], list(&name), "{name}");
        let line = world.get("/api/sessions").await.ok()["sessions"][0].clone();
        assert_eq!(line["todoProgress"], json!({"completed": 1, "total": 3}), "{name}");
        world.hibernate_and_wake().await;
        let line = world.get("/api/sessions").await.ok()["sessions"][0].clone();
        assert_eq!(line["todoProgress"]["total"], 3, "what was found is kept: {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_in_which_there_is_none_is_searched_once() {
    let (world, session, mut cli) = live_session().await;
    cli.send_message(&session, "hello").await;
    forget_lists(&world).await;
    assert_eq!(world.get_session(&session).await.get("todos"), None);
    let (reads, writes) = (world.db.read_count(), world.db.write_count());
    for _ in 0..3 {
        assert_eq!(world.get_session(&session).await.get("todos"), None);
    }
    assert_eq!((world.db.read_count(), world.db.write_count()), (reads, writes));
}

#[tokio::test(start_paused = true)]
async fn the_list_is_found_behind_any_number_of_messages_that_only_sound_like_one() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(output(list("far back")))).await;
    for n in 0..120 {
        let text = json!({"role": "agent", "content": {"type": "text", "text": n}, "meta": {"permissionMode": "plan"}});
        say(&mut cli, &session, &text).await;
    }
    forget_lists(&world).await;
    assert_eq!(world.get_session(&session).await["todos"], list("far back"));
}

#[tokio::test(start_paused = true)]
async fn a_search_that_failed_is_made_again() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(output(list("found")))).await;
    forget_lists(&world).await;
    // The session is in memory, and so is its record; what comes next is the search.
    cli.update_state(&session, 1, &json!({})).await;
    world.db.fail(BatchKind::Reads, DbError::Refused("disk I/O error".into()));
    let path = format!("/api/sessions/{session}");
    let first = world.get(&path).await;
    if first.status != 503 {
        assert_eq!(first.ok()["session"]["todos"], list("found"));
    }
    assert_eq!(world.get_session(&session).await["todos"], list("found"));
}

#[tokio::test(start_paused = true)]
async fn two_who_look_at_once_see_the_same() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(output(list("found")))).await;
    forget_lists(&world).await;
    cli.update_state(&session, 1, &json!({})).await;
    world.db.hold(BatchKind::Reads);
    let looks: Vec<_> = (0..3).map(|_| world.start("GET", &format!("/api/sessions/{session}"), "")).collect();
    run_until_idle().await;
    world.db.release();
    for look in looks {
        assert_eq!(look.reply().await.ok()["session"]["todos"], list("found"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_comes_during_the_search_is_the_newer_one() {
    let (world, session, mut cli) = live_session().await;
    say(&mut cli, &session, &agent(output(list("old")))).await;
    forget_lists(&world).await;
    cli.update_state(&session, 1, &json!({})).await;
    world.db.hold(BatchKind::Reads);
    let look = world.start("GET", &format!("/api/sessions/{session}"), "");
    run_until_idle().await;
    say(&mut cli, &session, &agent(output(list("new")))).await;
    world.db.release();
    assert_eq!(look.reply().await.ok()["session"]["todos"], list("new"));
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["todos"], list("new"));
}
