//! What a client knows of a session without reading its messages: whether the session waits to be seen or is muted, when it ended and
//! had its last message, and what its agent is doing (PROTOCOL.md "The session").

use crate::support::merge::{merge_fixture, success};
use crate::support::prelude::*;

/// Returns a field of a session. Checks that the field is the same in the list and after a wake.
async fn field(world: &World, session: &str, name: &str) -> Value {
    run_until_idle().await;
    let shown = world.get_session(session).await[name].clone();
    for _ in 0..2 {
        assert_eq!(world.listed(session).await[name], shown, "{name}");
        world.hibernate_and_wake().await;
        assert_eq!(world.get_session(session).await[name], shown, "{name}");
    }
    shown
}

async fn send_alive(cli: &mut Cli, session: &str, fields: Value) -> Value {
    let mut alive = json!({"sid": session});
    alive.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    cli.emit_with_ack("session-alive", &alive).await
}

async fn set_lifecycle_state(world: &World, cli: &mut Cli, session: &str, state: &str) {
    let version = world.get_session(session).await["metadataVersion"].clone();
    let metadata = json!({"path": "/code", "host": "box", "lifecycleState": state});
    cli.put_metadata(session, version, &metadata).await;
}

/// The values of a field in the unread events, in order.
async fn published_values(web: &mut Web, name: &str) -> Vec<Value> {
    web.events().await.iter().filter_map(|event| event["data"].get(name).cloned()).collect()
}

async fn mark_seen(world: &World, session: &str, body: Value) {
    assert_eq!(world.post(&format!("/api/sessions/{session}/seen"), &body).await.ok(), json!({"ok": true}));
}

#[tokio::test(start_paused = true)]
async fn a_session_waits_to_be_seen_since_its_agent_became_ready() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
    world.advance(1_000).await;
    cli.send_message(&session, "Working.").await;
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
    let ready_at = world.now();
    cli.send_ready(&session).await;
    assert_eq!(published_values(&mut web, "unseenSince").await, [json!(ready_at)]);
    world.advance(1_000).await;
    cli.send_ready(&session).await;
    assert_eq!(field(&world, &session, "unseenSince").await, json!(ready_at), "it waits since the first time");
    assert_eq!(published_values(&mut web, "unseenSince").await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_session_no_longer_waits_to_be_seen_after_a_person_has_seen_it() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let ready_at = world.now();
    cli.send_ready(&session).await;
    mark_seen(&world, &session, json!({"at": ready_at - 1})).await;
    assert_eq!(field(&world, &session, "unseenSince").await, json!(ready_at), "the person saw an earlier state");
    published_values(&mut web, "unseenSince").await;
    mark_seen(&world, &session, json!({"at": ready_at})).await;
    assert_eq!(published_values(&mut web, "unseenSince").await, [Value::Null]);
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
    // A request with a time in the future does not mark events as seen that happen later.
    mark_seen(&world, &session, json!({"at": u64::MAX})).await;
    let writes = world.db.write_count();
    mark_seen(&world, &session, json!({})).await;
    assert_eq!(world.db.write_count(), writes, "nothing changed");
    world.advance(1_000).await;
    cli.send_ready(&session).await;
    assert_eq!(field(&world, &session, "unseenSince").await, json!(world.now()));
    mark_seen(&world, &session, json!({})).await;
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_session_no_longer_waits_to_be_seen_after_a_message_of_a_person_or_new_work_of_the_agent() {
    let (world, session, mut cli) = live_session().await;
    cli.send_ready(&session).await;
    let mut web = world.web("all=true").await;
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "Go on."})).await.ok();
    assert_eq!(published_values(&mut web, "unseenSince").await, [Value::Null]);
    cli.send_ready(&session).await;
    send_alive(&mut cli, &session, json!({"thinking": false})).await;
    assert_ne!(field(&world, &session, "unseenSince").await, Value::Null, "the end of the work does not clear it");
    send_alive(&mut cli, &session, json!({"thinking": true})).await;
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
    // The ready event arrives before the keep-alive with the end of the work.
    cli.send_ready(&session).await;
    send_alive(&mut cli, &session, json!({"thinking": true})).await;
    send_alive(&mut cli, &session, json!({"thinking": false})).await;
    assert_ne!(field(&world, &session, "unseenSince").await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_failed_session_waits_to_be_seen_until_its_agent_starts() {
    let (world, session, mut cli) = live_session().await;
    set_lifecycle_state(&world, &mut cli, &session, "failed").await;
    let failed_at = world.now();
    assert_eq!(field(&world, &session, "unseenSince").await, json!(failed_at));
    world.advance(1_000).await;
    set_lifecycle_state(&world, &mut cli, &session, "failed").await;
    assert_eq!(field(&world, &session, "unseenSince").await, json!(failed_at));
    set_lifecycle_state(&world, &mut cli, &session, "running").await;
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
    let created = world.create_session_with("/failed", json!({"lifecycleState": "failed"})).await;
    assert_eq!(field(&world, &created, "unseenSince").await, json!(world.now()));
}

#[tokio::test(start_paused = true)]
async fn a_session_has_ended_only_if_its_cli_or_a_person_has_ended_it() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    world.advance_in_steps(60_000).await;
    assert_eq!(world.get_session(&session).await["active"], false);
    assert_eq!(field(&world, &session, "endedAt").await, Value::Null, "the keep-alives stopped");
    send_alive(&mut cli, &session, json!({})).await;
    published_values(&mut web, "endedAt").await;
    world.advance(1_000).await;
    cli.emit_with_ack("session-end", &json!({"sid": session})).await;
    let ended_at = world.now();
    assert_eq!(published_values(&mut web, "endedAt").await, [json!(ended_at)]);
    assert_eq!(field(&world, &session, "endedAt").await, json!(ended_at));
    world.advance(1_000).await;
    cli.emit_with_ack("session-end", &json!({"sid": session})).await;
    assert_eq!(field(&world, &session, "endedAt").await, json!(ended_at));
    send_alive(&mut cli, &session, json!({})).await;
    assert_eq!(published_values(&mut web, "endedAt").await, [Value::Null]);
    assert_eq!(field(&world, &session, "endedAt").await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_abort_and_an_archive_end_a_session_even_if_its_connection_was_lost() {
    let (world, session, mut cli) = session_with_methods(&["abort"]).await;
    cli.serve(world.start("POST", &format!("/api/sessions/{session}/abort"), "{}"), "abort", &json!({})).await.ok();
    assert_eq!(field(&world, &session, "endedAt").await, json!(world.now()));
    send_alive(&mut cli, &session, json!({})).await;
    cli.socket.close();
    world.advance(60_000).await;
    assert_eq!(field(&world, &session, "endedAt").await, Value::Null, "the connection was lost");
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    assert_eq!(field(&world, &session, "endedAt").await, json!(world.now()));
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_archives_its_session_ends_it() {
    let (world, session, mut cli) = live_session().await;
    cli.send_ready(&session).await;
    set_lifecycle_state(&world, &mut cli, &session, "archived").await;
    assert_eq!(field(&world, &session, "endedAt").await, json!(world.now()));
    assert_eq!(field(&world, &session, "unseenSince").await, Value::Null);
    let inactive = world.create_session("/inactive").await;
    let mut other = world.cli(&inactive).await;
    set_lifecycle_state(&world, &mut other, &inactive, "archived").await;
    assert_eq!(field(&world, &inactive, "endedAt").await, json!(world.now()));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_last_message_does_not_change_with_keep_alives_and_costs_no_write() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    assert_eq!(field(&world, &session, "lastMessageAt").await, Value::Null);
    let sent_at = world.now();
    cli.send_message(&session, "one").await;
    assert!(!world.db.write_batches().pop().unwrap().iter().any(|statement| statement.sql.contains("UPDATE sessions")));
    let updated_at = world.get_session(&session).await["updatedAt"].clone();
    for thinking in [true, true, true] {
        world.advance(11_000).await;
        send_alive(&mut cli, &session, json!({"thinking": thinking})).await;
    }
    assert_eq!(published_values(&mut web, "lastMessageAt").await.last(), Some(&json!(sent_at)), "in presence events");
    assert_eq!(field(&world, &session, "lastMessageAt").await, json!(sent_at));
    let changed_at = world.get_session(&session).await["updatedAt"].clone();
    assert_ne!(changed_at, updated_at, "the agent began to work");
    world.advance(11_000).await;
    send_alive(&mut cli, &session, json!({"thinking": true})).await;
    assert_eq!(world.get_session(&session).await["updatedAt"], changed_at, "an unchanged keep-alive is no change");
}

#[tokio::test(start_paused = true)]
async fn a_muted_session_is_muted_for_all_clients_until_it_is_unmuted() {
    let (world, session, _cli, mut web) = watched_session("all=true").await;
    let change =
        async |body: Value| world.request("PATCH", &format!("/api/sessions/{session}"), body.to_string()).await;
    for _ in 0..2 {
        assert_eq!(change(json!({"muted": true})).await.ok(), json!({"ok": true, "metadataVersion": 1}));
    }
    assert_eq!(published_values(&mut web, "muted").await, [json!(true)]);
    assert_eq!(field(&world, &session, "muted").await, json!(true));
    change(json!({"muted": false, "pinned": true})).await.ok();
    assert_eq!(web.next_event_of("session-updated").await["data"], json!({"muted": false, "pinned": true}));
    assert_eq!(field(&world, &session, "muted").await, Value::Null);
    change(json!({"muted": "yes"})).await.assert_error(400, "invalid_field");
    change(json!({"muted": null})).await.assert_error(400, "invalid_field");
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_does_is_published_while_it_works_and_not_written() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let alive = |activity: Value| json!({"thinking": true, "activity": activity});
    assert_eq!(send_alive(&mut cli, &session, alive(json!("npm test"))).await, json!({"ok": true}));
    assert_eq!(published_values(&mut web, "activity").await, [json!("npm test")]);
    let writes = world.db.write_count();
    for activity in [json!("npm test"), json!("cargo test\nsecond line"), json!("  "), Value::Null, json!("ls")] {
        world.advance(1_000).await;
        send_alive(&mut cli, &session, alive(activity)).await;
    }
    assert_eq!(published_values(&mut web, "activity").await, [json!("cargo test"), Value::Null, json!("ls")]);
    assert_eq!(world.db.write_count(), writes);
    assert_eq!(world.get_session(&session).await["activity"], "ls");
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["activity"], "ls");
    send_alive(&mut cli, &session, json!({"thinking": false, "activity": "ls"})).await;
    assert_eq!(published_values(&mut web, "activity").await, [Value::Null], "the agent does nothing");
    assert_eq!(world.get_session(&session).await.get("activity"), None);
    send_alive(&mut cli, &session, alive(json!("ls"))).await;
    cli.emit_with_ack("session-end", &json!({"sid": session})).await;
    assert_eq!(world.get_session(&session).await.get("activity"), None);
}

#[tokio::test(start_paused = true)]
async fn a_new_activity_is_progress_and_a_repeated_activity_is_not() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    let alive = |activity: Value| json!({"thinking": true, "activity": activity});
    send_alive(&mut cli, &session, alive(json!("npm test"))).await;
    assert_eq!(world.get_session(&session).await.get("activityAt"), None, "`thinkingAt` has the time");
    let activity_at = async || world.get_session(&session).await["activityAt"].clone();
    for activity in [json!("cargo test"), Value::Null, json!("ls")] {
        world.advance(20_000).await;
        send_alive(&mut cli, &session, alive(activity.clone())).await;
        let changed_at = world.now();
        world.advance(20_000).await;
        send_alive(&mut cli, &session, alive(activity)).await;
        assert_eq!(activity_at().await, changed_at);
        assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["activityAt"], changed_at);
        assert_eq!(published_values(&mut web, "activityAt").await.last(), Some(&json!(changed_at)));
    }
    // After a wake, the hub no longer knows the previous activity.
    world.hibernate_and_wake().await;
    send_alive(&mut cli, &session, alive(json!("ls"))).await;
    assert_eq!(activity_at().await, Value::Null);
    send_alive(&mut cli, &session, alive(json!("make"))).await;
    assert_eq!(activity_at().await, world.now());
    send_alive(&mut cli, &session, json!({"thinking": false})).await;
    assert_eq!(activity_at().await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn after_a_wake_the_next_keep_alive_has_the_activity() {
    let (world, session, mut cli) = live_session().await;
    let alive = json!({"thinking": true, "activity": "npm test"});
    send_alive(&mut cli, &session, alive.clone()).await;
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await.get("activity"), None);
    let mut web = world.web("all=true").await;
    send_alive(&mut cli, &session, alive).await;
    assert_eq!(published_values(&mut web, "activity").await, [json!("npm test")]);
    assert_eq!(world.get_session(&session).await["activity"], "npm test");
}

#[tokio::test(start_paused = true)]
async fn web_clients_learn_that_a_cli_has_been_disconnected_for_two_seconds_and_that_it_is_back() {
    let (world, session, cli, mut web) = watched_session("all=true").await;
    let other = world.live_cli(&session).await;
    cli.socket.close();
    world.advance(2_000).await;
    assert_eq!(published_values(&mut web, "disconnected").await, [] as [Value; 0], "another socket serves the session");
    other.socket.close();
    world.advance(1_999).await;
    assert_eq!(published_values(&mut web, "disconnected").await, [] as [Value; 0], "the CLI may reconnect");
    world.advance(1).await;
    let (events, updated_at) = (web.events().await, world.get_session(&session).await["updatedAt"].clone());
    assert_eq!(events.iter().map(|event| &event["data"]).collect::<Vec<_>>(), [&json!({"disconnected": true})]);
    assert_eq!(field(&world, &session, "disconnected").await, json!(true));
    let mut web = world.web("all=true").await;
    let mut back = world.live_cli(&session).await;
    assert_eq!(published_values(&mut web, "disconnected").await.last(), Some(&json!(false)));
    assert_eq!(field(&world, &session, "disconnected").await, Value::Null);
    assert_eq!(world.get_session(&session).await["updatedAt"], updated_at, "the order of the list stays");
    back.emit_with_ack("session-end", &json!({"sid": session})).await;
    web.events().await;
    back.socket.close();
    world.advance(2_000).await;
    assert_eq!(published_values(&mut web, "disconnected").await, [] as [Value; 0], "the session has ended");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_cli_stays_away_becomes_inactive_and_is_no_longer_disconnected() {
    let (world, session, cli) = live_session().await;
    cli.socket.close();
    world.advance(2_000).await;
    assert_eq!(world.get_session(&session).await["disconnected"], true);
    world.advance(28_000).await;
    run_until_idle().await;
    let ended = world.get_session(&session).await;
    assert_eq!((&ended["active"], ended.get("disconnected")), (&json!(false), None));
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_hub_publishes_no_disconnect_while_its_clis_reconnect() {
    let world = World::new();
    let mut sessions = Vec::new();
    for number in 0..20 {
        let session = world.create_session(&format!("/{number}")).await;
        drop(world.live_cli(&session).await);
        sessions.push(session);
    }
    world.redeploy();
    let mut web = world.web("all=true").await;
    world.advance(9_000).await;
    let _clis = each(&sessions[1..], async |session| world.live_cli(session).await).await;
    world.advance(1_000).await;
    let published = published_values(&mut web, "disconnected").await;
    assert_eq!(published.iter().filter(|value| **value == json!(true)).count(), 1, "only the session that is not back");
    assert_eq!(world.get_session(&sessions[0]).await["disconnected"], true);
}

#[tokio::test(start_paused = true)]
async fn a_hostile_activity_is_cut_or_ignored() {
    let (world, session, mut cli) = live_session().await;
    for activity in [json!(7), json!(["ls"]), json!({"text": "ls"}), json!(true)] {
        let ack = send_alive(&mut cli, &session, json!({"thinking": true, "activity": activity})).await;
        assert_eq!(ack, json!({"ok": true, "ignored": ["activity"]}), "{activity}");
        assert_eq!(world.get_session(&session).await.get("activity"), None);
    }
    let long = "\u{1F980}".repeat(100_000);
    assert_eq!(send_alive(&mut cli, &session, json!({"thinking": true, "activity": long})).await, json!({"ok": true}));
    assert_eq!(world.get_session(&session).await["activity"], "\u{1F980}".repeat(200));
    assert_eq!(
        cli.emit_raw_with_ack(
            "session-alive",
            &format!(r#"{{"sid":"{session}","thinking":true,"activity":"\ud800"}}"#)
        )
        .await["ignored"],
        json!(["activity"])
    );
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_activity_above_the_rate_of_a_namespace_are_not_sent() {
    let (world, session, mut cli, mut web) = watched_session("all=true").await;
    for number in 0..3_000 {
        send_alive(&mut cli, &session, json!({"thinking": true, "activity": number.to_string()})).await;
    }
    let sent = published_values(&mut web, "activity").await.len();
    assert!(sent < 2_500, "{sent} events");
    world.advance(2_000).await;
    send_alive(&mut cli, &session, json!({"thinking": true, "activity": "last"})).await;
    assert_eq!(published_values(&mut web, "activity").await, [json!("last")]);
}

#[tokio::test(start_paused = true)]
async fn a_merged_session_is_muted_if_the_old_session_was_muted_and_does_not_wait_to_be_seen() {
    let mut fixture = merge_fixture(json!({}), json!({})).await;
    let (world, old, new) = (&fixture.world, fixture.old.clone(), fixture.new.clone());
    world.request("PATCH", &format!("/api/sessions/{old}"), r#"{"muted":true}"#).await.ok();
    world.db.execute(&format!("UPDATE sessions SET unseen_since = 5 WHERE id = '{old}'"));
    let mut web = world.web("all=true").await;
    send_alive(&mut fixture.cli, &new, json!({})).await;
    assert_eq!(fixture.reply.reply().await.ok(), success(&new));
    let world = &fixture.world;
    assert_eq!(published_values(&mut web, "muted").await, [json!(true)]);
    assert_eq!(field(world, &new, "muted").await, json!(true));
    assert_eq!(field(world, &new, "unseenSince").await, Value::Null);
    assert_eq!(field(world, &new, "endedAt").await, Value::Null);
    assert_ne!(field(world, &new, "lastMessageAt").await, Value::Null);
}
