//! Invalid versioned updates: the error names the field, and the update has no effect.

use serde_json::Map;

use crate::support::prelude::*;

/// An active session with a pending and a completed request.
async fn session_with_requests() -> (World, String, Cli) {
    let (world, session, mut cli) = live_session().await;
    let state = json!({"requests": {"r1": {"tool": "Bash"}}, "completedRequests": {"r0": {"status": "denied"}}});
    cli.put_agent_state(&session, 1, &state).await;
    run_until_idle().await;
    (world, session, cli)
}

/// Sends an update with the text of its value. Returns the error message.
async fn update_error(cli: &mut Cli, session: &str, event: &str, version: u64, field: &str, value: &str) -> String {
    let payload = format!(r#"{{"sid":"{session}","expectedVersion":{version},"{field}":{value}}}"#);
    let ack = cli.emit_raw_with_ack(event, &payload).await;
    assert_eq!((&ack["result"], &ack["code"]), (&json!("error"), &json!("bad-payload")), "{value}: {ack}");
    ack["reason"].as_str().unwrap().to_owned()
}

fn requests(count: usize) -> Value {
    let all: Map<String, Value> = (0..count).map(|n| (format!("q{n}"), json!({"tool": "Bash"}))).collect();
    json!({"requests": all})
}

#[tokio::test(start_paused = true)]
async fn an_invalid_state_is_rejected_without_effect() {
    let (world, session, mut cli) = session_with_requests().await;
    let mut web = world.web("all=true").await;
    let (before, writes) = (world.get_session(&session).await, world.db.write_count());
    let (long, many) = ("x".repeat(256), requests(1_001).to_string());
    let states = [
        ("[]", "`agentState`"),
        (r#"{"\ud800":1,"requests":{}}"#, "`agentState`"),
        (r#"{"requests":{"\ud800":{}}}"#, "`agentState.requests`"),
        (r#"{"requests":[]}"#, "`agentState.requests`"),
        (r#"{"requests":{},"requests":{}}"#, "`agentState.requests`"),
        (r#"{"requests":{"":{}}}"#, "`agentState.requests`"),
        (r#"{"requests":{"r1":{"\udfff":5}}}"#, "`agentState.requests.r1`"),
        (r#"{"requests":{"r1":"Bash"}}"#, "`agentState.requests.r1`"),
        (r#"{"completedRequests":{"\udc00x":{}}}"#, "`agentState.completedRequests`"),
        (r#"{"completedRequests":[{}]}"#, "`agentState.completedRequests`"),
        (r#"{"completedRequests":"none"}"#, "`agentState.completedRequests`"),
        (r#"{"completedRequests":{},"completedRequests":{}}"#, "`agentState.completedRequests`"),
        (&many, "1000"),
        (&format!(r#"{{"requests":{{"{long}":{{}}}}}}"#), "255"),
        (&format!(r#"{{"completedRequests":{{"{long}":{{}}}}}}"#), "255"),
    ];
    for (state, text) in states {
        let reason = update_error(&mut cli, &session, "update-state", 2, "agentState", state).await;
        assert!(reason.contains(text) && reason.ends_with('.'), "{state}: {reason}");
    }
    assert_eq!(world.get_session(&session).await, before);
    assert_eq!(world.db.write_count(), writes);
    assert!(web.types().await.is_empty());
    assert_eq!(cli.update_agent_state(&session, 2, &requests(1_000)).await["version"], 3, "the version is unchanged");
}

#[tokio::test(start_paused = true)]
async fn the_state_of_a_new_session_is_validated() {
    let world = World::new();
    for (state, field) in [
        (r#"{"completedRequests":[]}"#, "agentState.completedRequests"),
        (r#"{"requests":{"\ud800":{}}}"#, "agentState.requests"),
        ("5", "agentState"),
    ] {
        let body = format!(r#"{{"tag":"/t","metadata":{{"path":"/t","host":"h"}},"agentState":{state}}}"#);
        let error = world.request("POST", "/cli/sessions", body).await.assert_error(400, "invalid_field");
        assert_eq!(error["field"], field, "{state}");
    }
    assert_eq!(world.db.write_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn invalid_metadata_is_rejected_without_effect() {
    let (world, session, mut cli) = session_with_requests().await;
    let (before, writes) = (world.get_session(&session).await, world.db.write_count());
    let (list, long) = (world.get("/api/sessions").await.ok(), "x".repeat(20_000));
    let bulk = json!(vec![&long; 7]);
    let with = |members: &str| format!(r#"{{"path":"/code","host":"box",{members}}}"#);
    let cases = [
        (with(r#""lifecycleState":"running","lifecycleState":"archived""#), "metadata.lifecycleState"),
        (with(r#""name":"a","name":"b""#), "metadata.name"),
        (with(r#""p\u0061th":"/other""#), "metadata.path"),
        (with(r#""\ud800":1"#), "metadata"),
        ("[]".into(), "metadata"),
        (r#"{"path":1,"host":"box"}"#.into(), "metadata.path"),
        (r#"{"path":"\ud800","host":"box"}"#.into(), "metadata.path"),
        (r#"{"path":"/code"}"#.into(), "metadata.host"),
        (format!(r#"{{"path":"/{long}","host":"box"}}"#), "metadata.path"),
        (format!(r#"{{"path":"/","host":["{long}"]}}"#), "metadata.host"),
        (with(&format!(r#""name":["{long}"]"#)), "metadata.name"),
        (with(&format!(r#""machineId":["{long}"]"#)), "metadata.machineId"),
        (with(&format!(r#""flavor":"{long}""#)), "metadata.flavor"),
        (with(&format!(r#""summary":{{"list":{bulk}}}"#)), "metadata.summary"),
        (with(&format!(r#""worktree":{bulk}"#)), "metadata.worktree"),
        (with(&format!(r#""betaSessionId":"{long}""#)), "metadata.betaSessionId"),
    ];
    for (metadata, field) in &cases {
        let reason = update_error(&mut cli, &session, "update-metadata", 1, "metadata", metadata).await;
        assert!(reason.contains(&format!("`{field}`")), "{field}: {reason}");
        let body = format!(r#"{{"tag":"/other","metadata":{metadata}}}"#);
        let error = world.request("POST", "/cli/sessions", body).await.assert_error(400, "invalid_field");
        assert_eq!(&error["field"], field);
    }
    assert_eq!(world.get_session(&session).await, before);
    assert_eq!(world.get("/api/sessions").await.ok(), list);
    assert_eq!(world.db.write_count(), writes);
    let longest = json!({"path": format!("/{}", "x".repeat(4_095)), "host": "box", "tools": [long]});
    cli.put_metadata(&session, 1, &json!(longest)).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_are_canceled_in_two_batches() {
    let (world, session, mut cli) = session_with_requests().await;
    cli.put_agent_state(&session, 2, &requests(1_000)).await;
    let writes = world.db.write_count();
    assert_eq!(
        cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await,
        json!({"ok": true})
    );
    run_until_idle().await;
    assert!(world.db.write_count() - writes <= 2, "{} batches", world.db.write_count() - writes);
    assert_eq!(world.db.number("SELECT count(*) FROM completed_requests WHERE value LIKE '%canceled%'"), 1_000);
    assert_eq!(pick(&world.get_session(&session).await, ["agentState/requests", "agentStateVersion"]), json!([{}, 4]));
}

#[tokio::test(start_paused = true)]
async fn an_update_that_archives_is_acknowledged_once_even_if_its_pending_requests_cannot_be_read() {
    let (world, session, mut cli) = live_session().await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "x".repeat(1_500_000)}}})).await;
    world.db.fail_all(BatchKind::Reads, permanent_error());
    let metadata = json!({"path": "/code", "host": "box", "lifecycleState": "archived"});
    let ack = cli.emit_for_ack("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": metadata}));
    assert_eq!(cli.wait_for_ack(ack).await["result"], "success");
    assert_eq!(cli.try_ack(ack).await, None);
    world.db.repair();
    let record = world.get_session(&session).await;
    assert_eq!((&record["active"], &record["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
    world.advance(60_000).await;
    let record = world.get_session(&session).await;
    assert_eq!(record["agentState"]["completedRequests"]["r"]["status"], "canceled", "it is tried again");
}
