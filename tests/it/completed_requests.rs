//! Completed permission requests. Each is a row, an update writes only changed rows, and the size of all rows is limited.

use crate::support::permissions::{agent_state, answer, completed, request, session_with_requests, state_event};
use crate::support::prelude::*;
use serde_json::Map;
use session_gateway_hub::store::columns::Columns;

const REQUEST_COUNT: usize = 10_000;

fn completed_request(n: usize) -> (String, Value) {
    (format!("q{n:05}"), json!({"tool": "Bash", "arguments": {"n": n}, "status": "approved", "completedAt": n}))
}

/// A session with ten thousand completed requests and one pending request.
async fn session_with_completed_requests() -> (World, String, Cli, Map<String, Value>) {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let all: Map<String, Value> = (0..REQUEST_COUNT).map(completed_request).collect();
    let state = json!({"requests": {"r1": request("Bash")}, "completedRequests": all});
    assert_eq!(pick(&cli.update_agent_state(&session, 2, &state).await, ["result", "version"]), json!(["success", 3]));
    run_until_idle().await;
    (world, session, cli, all)
}

/// The number of completed requests that the batches after the first `batch_count` wrote, and the bytes of the text
/// parameters of these batches.
fn written_since(world: &World, batch_count: usize) -> (usize, usize) {
    use session_gateway_hub::store::Value as Param;
    let mut rows = 0;
    let mut bytes = 0;
    for statement in world.db.write_batches()[batch_count..].iter().flatten() {
        let texts = statement.params.iter().filter_map(|param| match param {
            Param::Text(text) => Some(text.len()),
            _ => None,
        });
        bytes += texts.sum::<usize>();
        if let (true, Some(Param::Text(array))) =
            (statement.sql.contains("INSERT INTO completed_requests"), statement.params.first())
        {
            rows += serde_json::from_str::<Vec<Value>>(array).unwrap().len();
        }
    }
    (rows, bytes)
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_completed_requests_an_update_writes_only_the_changed_requests() {
    let (world, session, mut cli, mut all) = session_with_completed_requests().await;
    assert_eq!(written_since(&world, 0).0, REQUEST_COUNT);
    assert!(world.db.write_count() < 10, "written in few batches: {}", world.db.write_count());

    let earlier_batches = world.db.write_count();
    answer(&world, &session, &mut cli, "r1/approve", &json!({})).await;
    let (rows, bytes) = written_since(&world, earlier_batches);
    assert_eq!(rows, 1);
    assert!(bytes < 4_000, "an answer wrote {bytes} bytes");

    // The CLI sends all completed requests. One request is new, and another request has changed.
    let (id, entry) = completed_request(REQUEST_COUNT);
    all.insert(id, entry);
    all.insert("q00007".into(), json!({"tool": "Bash", "arguments": {}, "status": "denied", "completedAt": 7}));
    let earlier_batches = world.db.write_count();
    let state = json!({"requests": {}, "completedRequests": all});
    cli.put_agent_state(&session, 4, &state).await;
    assert_eq!(written_since(&world, earlier_batches).0, 2);
    let earlier_batches = world.db.write_count();
    cli.put_agent_state(&session, 5, &state).await;
    assert_eq!(written_since(&world, earlier_batches).0, 0, "nothing changed");

    world.hibernate_and_wake().await;
    let (id, entry) = completed_request(REQUEST_COUNT + 1);
    all.insert(id, entry);
    let earlier_batches = world.db.write_count();
    cli.put_agent_state(&session, 6, &json!({"requests": {}, "completedRequests": all})).await;
    assert_eq!(written_since(&world, earlier_batches).0, 1, "only the changed request is written after hibernation");
    all.insert("r1".into(), completed(&world, &session, "r1").await);
    assert_eq!(completed_requests(&world, &session).await, all);
}

async fn completed_requests(world: &World, session: &str) -> Map<String, Value> {
    agent_state(world, session).await["completedRequests"].as_object().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_session_response_has_all_completed_requests_and_the_session_list_reads_none() {
    let (world, session, mut cli, all) = session_with_completed_requests().await;
    for phase in ["before hibernation", "after hibernation"] {
        assert_eq!(completed_requests(&world, &session).await, all, "{phase}");
        world.hibernate_and_wake().await;
        let reads = world.db.read_count();
        let list = world.get("/api/sessions").await;
        assert_eq!(list.ok()["sessions"][0]["pendingRequestsCount"], 1);
        assert!(list.text.len() < 2_000, "{}", list.text);
        cli.send_keep_alive(&world, &session).await;
        cli.send_message(&session, "hello").await;
        run_until_idle().await;
        let were_read =
            world.db.read_batches()[reads..].iter().flatten().any(|read| read.sql.contains("completed_requests"));
        assert!(!were_read, "neither the list nor a message reads completed requests");
    }
    let row_bytes = world.db.number("SELECT length(agent_state) FROM sessions");
    assert!(row_bytes < 1_000, "the session's row contains completed requests: {row_bytes} bytes");
}

#[tokio::test(start_paused = true)]
async fn an_update_without_old_entries_does_not_delete_them() {
    let (world, session, mut cli, mut all) = session_with_completed_requests().await;
    let (id, entry) = completed_request(REQUEST_COUNT);
    cli.put_agent_state(&session, 3, &json!({"requests": {}, "completedRequests": {id.clone(): entry}})).await;
    all.insert(id, entry);
    assert_eq!(completed_requests(&world, &session).await, all);
    cli.put_agent_state(&session, 4, &Value::Null).await;
    assert_eq!(completed_requests(&world, &session).await, all, "a state of null deletes none");
    world.hibernate_and_wake().await;
    assert_eq!(completed_requests(&world, &session).await, all);
}

#[tokio::test(start_paused = true)]
async fn an_event_has_only_changed_entries_and_a_version_mismatch_has_only_the_newest_entries() {
    let (world, session, mut cli, _) = session_with_completed_requests().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    answer(&world, &session, &mut cli, "r1/deny", &json!({})).await;
    let event = state_event(&mut web).await["agentState"]["completedRequests"].clone();
    let update = second.next_event("update").await["body"]["agentState"]["value"]["completedRequests"].clone();
    for changed in [event, update] {
        assert_eq!(changed.as_object().unwrap().keys().collect::<Vec<_>>(), ["r1"]);
    }
    let rejected = cli.update_agent_state(&session, 1, &json!({})).await;
    assert_eq!((&rejected["result"], &rejected["version"]), (&json!("version-mismatch"), &json!(4)));
    let newest = rejected["agentState"]["completedRequests"].as_object().unwrap();
    assert!(newest.len() < 1_000 && newest.contains_key("r1") && newest.contains_key("q09999"), "{}", newest.len());
}

/// A completed request of nearly the largest size.
fn large_request(n: usize) -> (String, Value) {
    (format!("q{n:05}"), json!({"tool": "Bash", "completedAt": n, "padding": "x".repeat(1_890_000)}))
}

/// Shows the hub that the CLI has read the large acknowledgements.
fn acknowledge_ping(cli: &Cli) {
    cli.socket.send("3".to_owned());
}

/// The ids of all completed requests in the database.
fn stored_ids(world: &World) -> Vec<String> {
    let rows = world.db.select("SELECT request_id FROM completed_requests ORDER BY completed_at, request_id");
    rows.into_iter().map(|row| Columns::new("completed_requests", row).text("request_id").unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_oldest_completed_requests_are_deleted_above_the_size_limit() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let mut sent = Map::new();
    for round in 0..4 {
        let batch: Map<String, Value> = (4 * round..4 * round + 4).map(large_request).collect();
        let update = json!({"requests": {}, "completedRequests": batch});
        let ack = cli.update_agent_state(&session, 2 + round as u64, &update).await;
        assert_eq!(ack["result"], "success", "{round}");
        sent.extend(batch);
    }
    run_until_idle().await;
    let remaining: Vec<String> = (12..16).map(|n| large_request(n).0).collect();
    assert_eq!(stored_ids(&world), remaining);
    for phase in ["before hibernation", "after hibernation"] {
        let entries = completed_requests(&world, &session).await;
        assert_eq!(entries.keys().cloned().collect::<Vec<_>>(), remaining, "{phase}");
        assert!(entries.iter().all(|(id, entry)| sent[id] == *entry), "{phase}");
        world.hibernate_and_wake().await;
    }
    // Deleted entries are not written again when the CLI sends them again.
    let earlier_batches = world.db.write_count();
    let resent: Map<String, Value> = [0, 1, 12, 13].map(large_request).into_iter().collect();
    let mut web = world.web("all=true").await;
    cli.put_agent_state(&session, 6, &json!({"requests": {}, "completedRequests": resent})).await;
    assert_eq!(state_event(&mut web).await["agentState"].get("completedRequests"), None);
    run_until_idle().await;
    assert_eq!(written_since(&world, earlier_batches).0, 0);
    assert_eq!(stored_ids(&world), remaining);
    assert_eq!(completed_requests(&world, &session).await.keys().cloned().collect::<Vec<_>>(), remaining);
}

#[tokio::test(start_paused = true)]
async fn completed_requests_from_before_the_size_limit_are_read_up_to_the_limit() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    world.hibernate_and_wake().await;
    world.db.execute(&format!(
        "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 29)
         INSERT INTO completed_requests (session_id, request_id, completed_at, value)
         SELECT '{session}', printf('q%05d', n), n, json_object('padding', printf('%.*c', 1000000, 'x')) FROM n"
    ));
    // Completed requests of another session are not affected.
    let other = world.create_session("/other").await;
    world.db.execute(&format!(
        "INSERT INTO completed_requests (session_id, request_id, completed_at, value) VALUES ('{other}', 'old', 0, '{{}}')"
    ));
    let newest = |n: usize| (30 - n..30).map(|n| format!("q{n:05}")).collect::<Vec<_>>();
    assert_eq!(completed_requests(&world, &session).await.keys().cloned().collect::<Vec<_>>(), newest(9));
    // The next change deletes the other completed requests.
    cli.put_agent_state(&session, 2, &json!({"requests": {}})).await;
    run_until_idle().await;
    let remaining: Vec<String> = std::iter::once("old".to_owned()).chain(newest(8)).collect();
    assert_eq!(stored_ids(&world), remaining);
}

#[tokio::test(start_paused = true)]
async fn a_cli_may_send_its_whole_state_with_a_history_of_any_length() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let entry = |n: usize| {
        let written = json!({"file": n.to_string(), "content": "x".repeat(50_000)});
        (format!("q{n:05}"), json!({"tool": "Write", "arguments": written, "status": "approved", "completedAt": n}))
    };
    let mut history: Map<String, Value> = (0..250).map(entry).collect();
    let mut version = 2;
    for round in 0..10 {
        let (id, completed) = entry(250 + round);
        history.insert(id.clone(), completed);
        let state = json!({"requests": {"next": request("Bash")}, "completedRequests": history});
        let before = world.db.write_count();
        let ack = cli.update_agent_state(&session, version, &state).await;
        assert_eq!(ack["result"], "success", "round {round}");
        version = ack["version"].as_u64().unwrap();
        run_until_idle().await;
        acknowledge_ping(&cli);
        let written = written_since(&world, before).0;
        // After a restart, the hub fills its record of completed requests up to the size limit again.
        let most = if round == 0 { 200 } else { 20 };
        assert!(written >= 1 && written <= most, "round {round} wrote {written} entries");
        assert!(stored_ids(&world).contains(&id), "round {round}");
        if round == 5 {
            world.hibernate_and_wake().await;
        }
    }
    let stored = stored_ids(&world);
    assert!(stored.len() >= 170 && stored.iter().rev().eq(history.keys().rev().take(stored.len())), "the newest");
    let mut web = world.web("all=true").await;
    cli.put_agent_state(&session, version, &json!({"requests": {}, "completedRequests": history})).await;
    assert_eq!(state_event(&mut web).await["agentState"], json!({"requests": {}}), "nothing is new");
}

#[tokio::test(start_paused = true)]
async fn a_history_without_times_is_not_written_again() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let entry = |n: usize| (format!("q{n:05}"), json!({"tool": "Write", "arguments": "x".repeat(400_000)}));
    let mut history: Map<String, Value> = (0..30).map(entry).collect();
    let mut version = 2;
    for round in 0..9 {
        let (id, completed) = entry(30 + round);
        let before = world.db.write_count();
        for requests in [json!({&id: request("Write")}), json!({})] {
            let state = json!({"requests": requests, "completedRequests": history});
            let ack = cli.update_agent_state(&session, version, &state).await;
            assert_eq!(ack["result"], "success", "round {round}");
            version = ack["version"].as_u64().unwrap();
            history.insert(id.clone(), completed.clone());
            world.advance(1_000).await;
            acknowledge_ping(&cli);
        }
        let written = written_since(&world, before).0;
        match round {
            0 => assert!((20..=26).contains(&written), "{written}"),
            // After a restart, the hub fills its record of completed requests up to the size limit again.
            5 => assert!((1..=4).contains(&written), "{written}"),
            _ => assert_eq!(written, 1, "round {round}"),
        }
        assert!(stored_ids(&world).contains(&id), "round {round}");
        if round == 4 {
            world.hibernate_and_wake().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_update_of_a_cli_with_a_long_history_keeps_the_newest_entries() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let history: Map<String, Value> = (0..15).map(large_request).collect();
    cli.put_agent_state(&session, 2, &json!({"requests": {}, "completedRequests": history})).await;
    run_until_idle().await;
    let newest: Vec<String> = (10..15).map(|n| large_request(n).0).collect();
    assert_eq!(stored_ids(&world), newest);
    assert_eq!(completed_requests(&world, &session).await.keys().cloned().collect::<Vec<_>>(), newest);
}

#[tokio::test(start_paused = true)]
async fn a_completed_request_larger_than_a_row_is_shortened_once() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let huge = json!({"tool": "Write", "arguments": "x".repeat(8_000_000), "completedAt": 9});
    let state = json!({"requests": {}, "completedRequests": {"huge": huge}});
    cli.put_agent_state(&session, 2, &state).await;
    let short = json!({"tool": "Write", "argumentsBytes": 8_000_002, "completedAt": 9});
    assert_eq!(completed(&world, &session, "huge").await, short);
    world.hibernate_and_wake().await;
    let before = world.db.write_count();
    cli.put_agent_state(&session, 3, &state).await;
    assert_eq!(written_since(&world, before).0, 0, "it is known");
    assert_eq!(completed(&world, &session, "huge").await, short);
}
