//! Completed permission requests: each is a row, an update writes only changed ones, and their size is limited.

use crate::support::cli::Cli;
use crate::support::permissions::{agent_state, answer, completed, request, session_with_requests, state_event};
use crate::support::{World, run_until_idle};
use serde_json::{Map, Value, json};
use session_gateway_hub::store::columns::Columns;

const COUNT: usize = 10_000;

fn completed_request(n: usize) -> (String, Value) {
    (format!("q{n:05}"), json!({"tool": "Bash", "arguments": {"n": n}, "status": "approved", "completedAt": n}))
}

/// A session with ten thousand completed requests and one pending request.
async fn session_with_completed_requests() -> (World, String, Cli, Map<String, Value>) {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let all: Map<String, Value> = (0..COUNT).map(completed_request).collect();
    let state = json!({"requests": {"r1": request("Bash")}, "completedRequests": all});
    let ack = cli.update_state(&session, 2, &state).await;
    assert_eq!((&ack["result"], &ack["version"]), (&json!("success"), &json!(3)));
    run_until_idle().await;
    (world, session, cli, all)
}

/// The number of completed requests that the batches after the first `batch_count` wrote, and the bytes of the text parameters of
/// these batches.
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
async fn an_update_writes_only_the_changed_of_ten_thousand_completed_requests() {
    let (world, session, mut cli, mut all) = session_with_completed_requests().await;
    assert_eq!(written_since(&world, 0).0, COUNT);
    assert!(world.db.write_count() < 10, "written in few batches: {}", world.db.write_count());

    let earlier_batches = world.db.write_count();
    answer(&world, &session, &mut cli, "r1/approve", &json!({})).await;
    let (rows, bytes) = written_since(&world, earlier_batches);
    assert_eq!(rows, 1);
    assert!(bytes < 4_000, "an answer wrote {bytes} bytes");

    // The CLI sends all completed requests, one of them new and one changed.
    let (id, entry) = completed_request(COUNT);
    all.insert(id, entry);
    all.insert("q00007".into(), json!({"tool": "Bash", "arguments": {}, "status": "denied", "completedAt": 7}));
    let earlier_batches = world.db.write_count();
    let state = json!({"requests": {}, "completedRequests": all});
    assert_eq!(cli.update_state(&session, 4, &state).await["result"], "success");
    assert_eq!(written_since(&world, earlier_batches).0, 2);
    let earlier_batches = world.db.write_count();
    assert_eq!(cli.update_state(&session, 5, &state).await["result"], "success");
    assert_eq!(written_since(&world, earlier_batches).0, 0, "nothing changed");

    world.hibernate_and_wake().await;
    let (id, entry) = completed_request(COUNT + 1);
    all.insert(id, entry);
    let earlier_batches = world.db.write_count();
    let state = json!({"requests": {}, "completedRequests": all});
    assert_eq!(cli.update_state(&session, 6, &state).await["result"], "success");
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
    let (id, entry) = completed_request(COUNT);
    let state = json!({"requests": {}, "completedRequests": {id.clone(): entry}});
    assert_eq!(cli.update_state(&session, 3, &state).await["result"], "success");
    all.insert(id, entry);
    assert_eq!(completed_requests(&world, &session).await, all);
    assert_eq!(cli.update_state(&session, 4, &Value::Null).await["result"], "success");
    assert_eq!(completed_requests(&world, &session).await, all, "a state of null deletes none");
    world.hibernate_and_wake().await;
    assert_eq!(completed_requests(&world, &session).await, all);
}

#[tokio::test(start_paused = true)]
async fn events_have_only_changed_entries_and_version_mismatches_only_the_newest() {
    let (world, session, mut cli, _) = session_with_completed_requests().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    answer(&world, &session, &mut cli, "r1/deny", &json!({})).await;
    let event = state_event(&mut web).await["agentState"]["completedRequests"].clone();
    let update = second.next_event("update").await["body"]["agentState"]["value"]["completedRequests"].clone();
    for changed in [event, update] {
        assert_eq!(changed.as_object().unwrap().keys().collect::<Vec<_>>(), ["r1"]);
    }
    let rejected = cli.update_state(&session, 1, &json!({})).await;
    assert_eq!((&rejected["result"], &rejected["version"]), (&json!("version-mismatch"), &json!(4)));
    let newest = rejected["agentState"]["completedRequests"].as_object().unwrap();
    assert!(newest.len() < 1_000 && newest.contains_key("r1") && newest.contains_key("q09999"), "{}", newest.len());
}

/// A completed request of nearly the largest size.
fn large_request(n: usize) -> (String, Value) {
    (format!("q{n:05}"), json!({"tool": "Bash", "completedAt": n, "padding": "x".repeat(1_890_000)}))
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
        let ack = cli.update_state(&session, 2 + round as u64, &update).await;
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
    assert_eq!(
        cli.update_state(&session, 6, &json!({"requests": {}, "completedRequests": resent})).await["result"],
        "success"
    );
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
    // The next change deletes the others.
    assert_eq!(cli.update_state(&session, 2, &json!({"requests": {}})).await["result"], "success");
    run_until_idle().await;
    let remaining: Vec<String> = std::iter::once("old".to_owned()).chain(newest(8)).collect();
    assert_eq!(stored_ids(&world), remaining);
}
