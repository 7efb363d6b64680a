//! Held messages: messages for a session whose CLI is away. The hub sends them when the CLI is back.

mod cancel;
mod faults;

use crate::support::merge::{history, resumable_metadata, resume, success, texts};
use crate::support::prelude::*;
use session_gateway_hub::limits::{MAX_HELD_MESSAGE_BYTES, MAX_HELD_MESSAGES, MAX_LOCAL_IDS, SESSION_TIMEOUT_MS};

/// A session that has lost its connection, because its machine is asleep.
async fn session_without_cli() -> (World, String) {
    let world = World::new();
    let (session, cli) = world.active_session_with("/code", resumable_metadata()).await;
    cli.socket.close();
    world.advance(2 * SESSION_TIMEOUT_MS).await;
    let detail = world.get_session(&session).await;
    assert_eq!((&detail["active"], detail.get("endedAt")), (&json!(false), None));
    (world, session)
}

async fn hold(world: &World, session: &str, text: &str, local_id: &str) -> Reply {
    let body = json!({"text": text, "localId": local_id, "hold": true});
    world.post(&format!("/api/sessions/{session}/messages"), &body).await
}

async fn hold_all(world: &World, session: &str, local_ids: &[&str]) {
    for local_id in local_ids {
        assert_eq!(hold(world, session, &format!("text {local_id}"), local_id).await.ok()["held"], true);
    }
}

async fn cancel(world: &World, session: &str, local_id: &str) -> Reply {
    world.request("DELETE", &format!("/api/sessions/{session}/held-messages/{local_id}"), "").await
}

async fn held(world: &World, session: &str) -> Vec<Value> {
    let list = world.get(&format!("/api/sessions/{session}/held-messages")).await.ok();
    list["messages"].as_array().unwrap().clone()
}

/// The local ids of the held messages.
async fn held_ids(world: &World, session: &str) -> Vec<String> {
    held(world, session).await.iter().map(|message| message["localId"].as_str().unwrap().to_owned()).collect()
}

/// The local ids of the messages in the history.
async fn sent_ids(world: &World, session: &str) -> Vec<String> {
    history(world, session).await.into_iter().filter_map(|(_, local_id)| local_id).collect()
}

/// The number in the session and in the list of sessions, which must be the same.
async fn held_messages_count(world: &World, session: &str) -> Value {
    let detail = world.get_session(session).await;
    assert_eq!(detail["heldMessagesCount"], world.listed(session).await["heldMessagesCount"]);
    detail["heldMessagesCount"].clone()
}

/// The numbers of held messages in the unread events.
async fn published_counts(web: &mut Web) -> Vec<Value> {
    web.events().await.iter().map(|event| event["data"]["heldMessagesCount"].clone()).collect()
}

/// The local ids of the messages that a CLI receives.
async fn receive_local_ids(cli: &mut Cli) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some(update) = cli.try_event("update").await {
        ids.extend(update["body"]["message"]["localId"].as_str().map(str::to_owned));
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn messages_for_a_sleeping_laptop_are_sent_in_their_order_when_it_is_back() {
    let (world, session) = session_without_cli().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    let expected = json!({"ok": true, "held": true, "message": {"localId": "a", "createdAt": world.now()}});
    assert_eq!(hold(&world, &session, "run the tests", "a").await.ok(), expected);
    hold_all(&world, &session, &["b"]).await;
    let messages = [
        json!({"localId": "a", "text": "run the tests", "createdAt": world.now()}),
        json!({"localId": "b", "text": "text b", "createdAt": world.now() + 1}),
    ];
    assert_eq!(held(&world, &session).await, messages);
    assert_eq!(held_messages_count(&world, &session).await, 2);
    assert_eq!(texts(&world, &session).await, [""; 0]);
    assert_eq!(published_counts(&mut web).await, [1, 2]);

    world.hibernate_and_wake().await;
    assert_eq!(held_messages_count(&world, &session).await, 2);
    let mut cli = world.live_cli(&session).await;
    assert_eq!(receive_local_ids(&mut cli).await, ["a", "b"]);
    let body = json!({"text": "later", "localId": "c"});
    assert_eq!(world.post(&format!("/api/sessions/{session}/messages"), &body).await.ok()["message"]["seq"], 3);
    assert_eq!(sent_ids(&world, &session).await, ["a", "b", "c"]);
    assert_eq!(texts(&world, &session).await, ["run the tests", "text b", "later"]);
    let content = &world.get(&format!("/cli/sessions/{session}/messages")).await.ok()["messages"][0]["content"];
    let expected =
        json!({"role": "user", "content": {"type": "text", "text": "run the tests"}, "meta": {"sentFrom": "web"}});
    assert_eq!(*content, expected, "a held message is like any other message");
    assert_eq!((held_ids(&world, &session).await.len(), held_messages_count(&world, &session).await), (0, Value::Null));
    assert_eq!(world.db.number("SELECT count(*) FROM held_messages"), 0);

    let events = web.events().await;
    let received = events.iter().filter(|event| event["type"] == "message-received");
    let received: Vec<_> = received.map(|event| event["message"]["localId"].as_str().unwrap()).collect();
    assert_eq!(received, ["a", "b", "c"]);
    let count = events.iter().position(|event| event["data"]["heldMessagesCount"] == 0).unwrap();
    let last_held = events.iter().position(|event| event["message"]["localId"] == "b").unwrap();
    assert!(last_held < count, "a client shows the message in the history before it stops to show it as held");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_while_held_messages_are_being_read_comes_after_them() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a", "b"]).await;
    world.hibernate_and_wake().await;
    let mut cli = world.cli(&session).await;
    world.get_session(&session).await;
    world.db.hold_results(BatchKind::Reads);
    cli.emit("session-alive", &json!({"sid": session, "time": world.now()}));
    assert_eq!(world.held_results().await, 1, "the hub reads the held messages");
    let later = world
        .start_and_run("POST", &format!("/api/sessions/{session}/messages"), r#"{"text":"later","localId":"c"}"#)
        .await;
    world.db.release_results();
    later.reply().await.ok();
    assert_eq!(sent_ids(&world, &session).await, ["a", "b", "c"]);
    assert_eq!(receive_local_ids(&mut cli).await, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_reads_what_it_missed_when_it_reconnects_gets_each_message_once() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a"]).await;
    let mut cli = world.cli(&session).await;
    let missed = world.get(&format!("/cli/sessions/{session}/messages?afterSeq=0")).await.ok();
    assert_eq!(missed["messages"], json!([]), "a held message is not in the history yet");
    cli.send_keep_alive(&world, &session).await;
    assert_eq!(receive_local_ids(&mut cli).await, ["a"]);
    cli.socket.close();
    let mut again = world.live_cli(&session).await;
    assert_eq!(receive_local_ids(&mut again).await, [""; 0]);
    assert_eq!(world.get(&format!("/cli/sessions/{session}/messages?afterSeq=1")).await.ok()["messages"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn hold_changes_nothing_in_an_active_session() {
    let (world, session, mut cli) = live_session().await;
    let reply = hold(&world, &session, "now", "a").await.ok();
    assert_eq!((&reply["message"]["seq"], reply.get("held")), (&json!(1), None));
    assert_eq!(receive_local_ids(&mut cli).await, ["a"]);
    let body = json!({"text": "no id", "hold": true});
    let reply = world.post(&format!("/api/sessions/{session}/messages"), &body).await.ok();
    assert_eq!(reply["message"]["localId"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_hold_is_refused_while_the_cli_is_away() {
    let (world, session) = session_without_cli().await;
    for body in [json!({"text": "t"}), json!({"text": "t", "hold": false}), json!({"text": "t", "hold": null})] {
        world.post(&format!("/api/sessions/{session}/messages"), &body).await.assert_error(409, "session_inactive");
    }
    assert_eq!(held_messages_count(&world, &session).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_held_message_needs_no_local_id() {
    let (world, session) = session_without_cli().await;
    for local_id in [Value::Null, json!("")] {
        let body = json!({"text": "t", "hold": true, "localId": local_id});
        let reply = world.post(&format!("/api/sessions/{session}/messages"), &body).await.ok();
        cancel(&world, &session, reply["message"]["localId"].as_str().unwrap()).await.ok();
    }
    assert_eq!(held_ids(&world, &session).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_local_id_is_held_once_and_not_held_after_its_message_was_sent() {
    let (world, session) = session_without_cli().await;
    let first = hold(&world, &session, "first", "a").await.ok();
    world.advance(5_000).await;
    assert_eq!(hold(&world, &session, "again", "a").await.ok(), first);
    world.hibernate_and_wake().await;
    assert_eq!(hold(&world, &session, "again", "a").await.ok(), first);
    let cli = world.live_cli(&session).await;
    run_until_idle().await;
    cli.socket.close();
    world.advance(2 * SESSION_TIMEOUT_MS).await;
    let reply = hold(&world, &session, "again", "a").await.ok();
    assert_eq!((&reply["message"]["seq"], reply.get("held")), (&json!(1), None));
    assert_eq!(texts(&world, &session).await, ["first"]);
    assert_eq!(held_ids(&world, &session).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_cli_with_the_local_id_of_a_held_message_replaces_it() {
    let (world, session) = session_without_cli().await;
    // The history is longer than the list of local ids in memory.
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= {MAX_LOCAL_IDS})
         INSERT INTO messages (session_id, seq, id, local_id, created_at, content)
         SELECT '{session}', i, 'm' || i, 'l' || i, 1, '1' FROM n"
    ));
    world.hibernate_and_wake().await;
    hold_all(&world, &session, &["a", "b"]).await;
    let mut cli = world.cli(&session).await;
    let message = json!({"sid": session, "localId": "a", "message": {"text": "of the CLI"}});
    let seq = MAX_LOCAL_IDS as u64 + 2;
    assert_eq!(cli.emit_with_ack("message", &message).await["seq"], seq);
    world.hibernate_and_wake().await;
    cli.send_keep_alive(&world, &session).await;
    run_until_idle().await;
    let newest = world.get(&format!("/cli/sessions/{session}/messages?afterSeq={}", seq - 1)).await.ok();
    let ids: Vec<_> = newest["messages"].as_array().unwrap().iter().map(|message| &message["localId"]).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(held_messages_count(&world, &session).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_held_only_if_the_cli_may_come_back_by_itself() {
    let (world, session) = session_without_cli().await;
    let mut cli = world.live_cli(&session).await;
    cli.emit_with_ack("session-end", &json!({"sid": session})).await;
    hold(&world, &session, "t", "a").await.assert_error(409, "session_inactive");
    let archived = world.create_session("/archived").await;
    world.post(&format!("/api/sessions/{archived}/archive"), &json!({})).await.ok();
    hold(&world, &archived, "t", "a").await.assert_error(409, "session_inactive");
    let connected = world.create_session("/connected").await;
    let mut cli = world.cli(&connected).await;
    hold_all(&world, &connected, &["a"]).await;
    cli.send_keep_alive(&world, &connected).await;
    assert_eq!(receive_local_ids(&mut cli).await, ["a"], "a CLI that has not reported the session alive yet");
}

#[tokio::test(start_paused = true)]
async fn attachments_are_not_held() {
    let (world, session) = session_without_cli().await;
    let file = json!({"id": "f", "filename": "f", "mimeType": "m", "size": 1, "path": "p"});
    let body = json!({"text": "t", "hold": true, "localId": "a", "attachments": [file]});
    let path = format!("/api/sessions/{session}/messages");
    world.post(&path, &body).await.assert_error(409, "attachments_not_held");
    let _cli = world.live_cli(&session).await;
    assert_eq!(world.post(&path, &body).await.ok()["message"]["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_holds_a_limited_number_of_small_messages() {
    let (world, session) = session_without_cli().await;
    for n in 0..MAX_HELD_MESSAGES {
        hold(&world, &session, "t", &n.to_string()).await.ok();
    }
    hold(&world, &session, "t", "one more").await.assert_error(409, "too_many_held_messages");
    hold(&world, &session, "t", "0").await.ok();
    cancel(&world, &session, "7").await.ok();
    // A text of control characters is six times as long in JSON.
    for text in ["x".repeat(MAX_HELD_MESSAGE_BYTES), "\u{1}".repeat(MAX_HELD_MESSAGE_BYTES / 6)] {
        hold(&world, &session, &text, "large").await.assert_error(413, "too_large");
    }
    let longest = "x".repeat(MAX_HELD_MESSAGE_BYTES - 200);
    hold(&world, &session, &longest, "one more").await.ok();
    assert_eq!(held_messages_count(&world, &session).await, MAX_HELD_MESSAGES);
    let mut cli = world.live_cli(&session).await;
    assert_eq!(receive_local_ids(&mut cli).await.len(), MAX_HELD_MESSAGES);
}

#[tokio::test(start_paused = true)]
async fn archiving_a_session_removes_its_held_messages() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a", "b"]).await;
    world.hibernate_and_wake().await;
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    assert_eq!((held_ids(&world, &session).await.len(), held_messages_count(&world, &session).await), (0, Value::Null));
    assert_eq!(world.db.number("SELECT count(*) FROM held_messages"), 0);
    cancel(&world, &session, "a").await.assert_error(404, "held_message_not_found");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_session_removes_its_held_messages() {
    let (world, session) = session_without_cli().await;
    let other = world.create_session("/other").await;
    hold_all(&world, &session, &["a"]).await;
    hold_all(&world, &other, &["b"]).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert_eq!(world.db.number("SELECT count(*) FROM held_messages"), 1);
    assert_eq!(held_ids(&world, &other).await, ["b"]);
    hold(&world, &session, "t", "c").await.assert_error(404, "session_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_resumed_under_another_id_gets_the_held_messages() {
    let (world, old) = session_without_cli().await;
    hold_all(&world, &old, &["a", "b"]).await;
    let mut runner = world.spawner("m", "box").await;
    let reply = resume(&world, &old);
    let call = runner.next_call().await;
    let new = world.create_session("/code#2").await;
    let mut cli = world.cli(&new).await;
    let mut web = world.web(&format!("sessionId={new}")).await;
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    run_until_idle().await;
    cli.send_keep_alive(&world, &new).await;
    assert_eq!(reply.reply().await.ok(), success(&new));
    let body = json!({"text": "later", "localId": "c"});
    world.post(&format!("/api/sessions/{new}/messages"), &body).await.ok();
    assert_eq!(sent_ids(&world, &new).await, ["a", "b", "c"]);
    assert_eq!(receive_local_ids(&mut cli).await, ["a", "b", "c"]);
    assert_eq!(held_messages_count(&world, &new).await, Value::Null);
    assert_eq!(world.db.number("SELECT count(*) FROM held_messages"), 0);
    let counts = published_counts(&mut web).await;
    assert_eq!(counts.into_iter().filter(|count| !count.is_null()).collect::<Vec<_>>(), [2, 0]);
}

#[tokio::test(start_paused = true)]
async fn held_messages_that_an_earlier_version_did_not_send_are_sent_with_the_next_keep_alive() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a"]).await;
    world.hibernate_and_wake().await;
    // An earlier version has made the session active.
    world.db.execute("UPDATE sessions SET active = 1");
    let mut cli = world.cli(&session).await;
    let body = json!({"text": "later", "localId": "b"});
    world.post(&format!("/api/sessions/{session}/messages"), &body).await.ok();
    assert_eq!(receive_local_ids(&mut cli).await, ["a", "b"], "also before the next keep-alive");
}

#[tokio::test(start_paused = true)]
async fn another_namespace_sees_no_held_messages() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a"]).await;
    let neighbour = world.neighbour();
    hold(&neighbour, &session, "t", "b").await.assert_error(403, "forbidden");
    neighbour.get(&format!("/api/sessions/{session}/held-messages")).await.assert_error(403, "forbidden");
    cancel(&neighbour, &session, "a").await.assert_error(403, "forbidden");
    assert_eq!(held_ids(&world, &session).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn held_messages_cost_a_sleeping_namespace_nothing() {
    let (world, session) = session_without_cli().await;
    hold_all(&world, &session, &["a"]).await;
    run_until_idle().await;
    assert_eq!(world.rt.alarm(), None);
}
