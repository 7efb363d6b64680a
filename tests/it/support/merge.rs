//! Fixtures for the merge of two sessions in a resume.

use super::prelude::*;

/// Metadata of a session that can be resumed.
pub fn resumable_metadata() -> Value {
    json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"})
}

/// Starts a resume of a session.
pub fn resume(world: &World, session: &str) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/resume"), "")
}

/// Starts a resume of a session, which the runner accepts.
pub async fn accepted_resume(world: &World, session: &str, runner: &mut Cli) -> PendingReply {
    let reply = resume(world, session);
    runner.respond_to_next_call("spawnSession", &json!({"success": true})).await;
    reply
}

/// The response to a successful resume or spawn.
pub fn success(session: &str) -> Value {
    json!({"success": true, "sessionId": session})
}

/// Sends a message with an optional local id.
pub async fn send_text(cli: &mut Cli, session: &str, text: &str, local_id: Option<&str>) {
    let mut message = json!({"sid": session, "message": {"text": text}});
    if let Some(local_id) = local_id {
        message["localId"] = json!(local_id);
    }
    assert_eq!(cli.emit_with_ack("message", &message).await["ok"], true);
}

/// The text and local id of each message, oldest first. Checks that the seqs have no gaps.
pub async fn history(world: &World, session: &str) -> Vec<(String, Option<String>)> {
    let page = world.get(&format!("/cli/sessions/{session}/messages")).await.ok();
    let messages = page["messages"].as_array().unwrap();
    let seqs: Vec<u64> = messages.iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=messages.len() as u64).collect::<Vec<_>>(), "the seqs must have no gaps");
    let text_and_local_id = |m: &Value| {
        let text = m["content"]["text"].as_str().or(m["content"]["content"]["text"].as_str());
        (text.unwrap().to_owned(), m["localId"].as_str().map(str::to_owned))
    };
    messages.iter().map(text_and_local_id).collect()
}

/// The text of each message, oldest first.
pub async fn texts(world: &World, session: &str) -> Vec<String> {
    history(world, session).await.into_iter().map(|(text, _)| text).collect()
}

/// An ended session `old`, which a runner has resumed as the session `new`, and the pending response to the resume.
pub struct MergeFixture {
    pub world: World,
    pub old: String,
    pub new: String,
    pub cli: Cli,
    pub runner: Cli,
    pub reply: PendingReply,
}

/// The old session has three messages, the new session has two. The message with the local id `b` is in both sessions.
pub async fn merge_fixture(old_metadata: Value, new_metadata: Value) -> MergeFixture {
    merge_fixture_in(World::new(), old_metadata, new_metadata).await
}

/// Like [`merge_fixture`], in this world, which has no sessions yet.
pub async fn merge_fixture_in(world: World, old_metadata: Value, new_metadata: Value) -> MergeFixture {
    let mut runner = world.spawner("m", "box").await;
    let mut metadata = resumable_metadata();
    metadata.as_object_mut().unwrap().extend(old_metadata.as_object().unwrap().clone());
    let (old, mut old_cli) = world.active_session_with("/code", metadata).await;
    send_text(&mut old_cli, &old, "one", None).await;
    send_text(&mut old_cli, &old, "two", Some("b")).await;
    send_text(&mut old_cli, &old, "three", Some("c")).await;
    old_cli.emit_with_ack("session-end", &json!({"sid": old, "time": world.now()})).await;
    old_cli.socket.close();
    let reply = resume(&world, &old);
    let call = runner.next_call().await;
    world.rt.set_now(world.now() + 1_000);
    let new = world.create_session_with("/work#2", new_metadata).await;
    let mut cli = world.cli(&new).await;
    send_text(&mut cli, &new, "two", Some("b")).await;
    send_text(&mut cli, &new, "four", Some("d")).await;
    runner.respond(&call, &json!({"success": true, "sessionId": new}));
    run_until_idle().await;
    MergeFixture { world, old, new, cli, runner, reply }
}

/// Starts the merge and holds its result. `fault`: the error of the merge, and whether the merge is committed in spite of the
/// error.
pub async fn begin_merge(fixture: &mut MergeFixture, fault: Option<(DbError, bool)>) {
    let MergeFixture { world, new, cli, .. } = fixture;
    world.db.hold_results(BatchKind::Writes);
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    run_until_idle().await;
    assert_eq!(world.db.held_result_count(), 1, "the keep-alive is written first");
    match fault {
        Some((error, true)) => world.db.lose_response(error),
        Some((error, false)) => world.db.fail(BatchKind::Writes, error),
        None => {}
    }
    world.db.release_results();
    world.db.hold_results(BatchKind::Writes);
    run_until_idle().await;
    let batch = world.db.write_batches().pop().unwrap();
    assert!(batch.iter().any(|statement| statement.sql.contains("UPDATE messages")), "no merge has started");
    assert_eq!(world.db.held_result_count(), 1);
}

/// Starts the merge of a session with this metadata and a session without. See [`begin_merge`].
pub async fn begun_merge(old_metadata: Value, fault: Option<(DbError, bool)>) -> MergeFixture {
    let mut fixture = merge_fixture(old_metadata, json!({})).await;
    begin_merge(&mut fixture, fault).await;
    fixture
}
