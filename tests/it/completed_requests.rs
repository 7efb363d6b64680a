//! The record of completed permission requests, which only grows: ten thousand of them cost no more than one.

use crate::support::cli::Cli;
use crate::support::permissions::{agent_state, answer, completed, request, session_with_requests, state_event};
use crate::support::{World, run_until_idle};
use serde_json::{Map, Value, json};
use session_gateway_hub::store::columns::Columns;

const MANY: usize = 10_000;

fn record(n: usize) -> (String, Value) {
    (format!("q{n:05}"), json!({"tool": "Bash", "arguments": {"n": n}, "status": "approved", "completedAt": n}))
}

/// A session with ten thousand completed requests, and one that waits.
async fn veteran() -> (World, String, Cli, Map<String, Value>) {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let all: Map<String, Value> = (0..MANY).map(record).collect();
    let grown = json!({"requests": {"r1": request("Bash")}, "completedRequests": all});
    let answer = cli.update_state(&session, 2, &grown).await;
    assert_eq!((&answer["result"], &answer["version"]), (&json!("success"), &json!(3)));
    run_until_idle().await;
    (world, session, cli, all)
}

/// How many completed requests the batches since then wrote, and how many bytes of parameters they had in all.
fn written_since(world: &World, batches: usize) -> (usize, usize) {
    use session_gateway_hub::store::Value as Param;
    let mut rows = 0;
    let mut bytes = 0;
    for statement in world.db.write_batches()[batches..].iter().flatten() {
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
async fn ten_thousand_completed_requests_are_written_by_difference() {
    let (world, session, mut cli, mut all) = veteran().await;
    assert_eq!(written_since(&world, 0).0, MANY);
    assert!(world.db.write_count() < 10, "in few batches: {}", world.db.write_count());

    let before = world.db.write_count();
    answer(&world, &session, &mut cli, "r1/approve", &json!({})).await;
    let (rows, bytes) = written_since(&world, before);
    assert_eq!(rows, 1);
    assert!(bytes < 4_000, "an answer wrote {bytes} bytes");

    // The CLI sends the record whole, with one entry more and one that says something else now.
    let (id, entry) = record(MANY);
    all.insert(id, entry);
    all.insert("q00007".into(), json!({"tool": "Bash", "arguments": {}, "status": "denied", "completedAt": 7}));
    let before = world.db.write_count();
    let state = json!({"requests": {}, "completedRequests": all});
    assert_eq!(cli.update_state(&session, 4, &state).await["result"], "success");
    assert_eq!(written_since(&world, before).0, 2);
    let before = world.db.write_count();
    assert_eq!(cli.update_state(&session, 5, &state).await["result"], "success");
    assert_eq!(written_since(&world, before).0, 0, "nothing differs");

    world.hibernate_and_wake().await;
    let (id, entry) = record(MANY + 1);
    all.insert(id, entry);
    let before = world.db.write_count();
    let state = json!({"requests": {}, "completedRequests": all});
    assert_eq!(cli.update_state(&session, 6, &state).await["result"], "success");
    assert_eq!(written_since(&world, before).0, 1, "also when memory begins anew");
    all.insert("r1".into(), completed(&world, &session, "r1").await);
    assert_eq!(state_of(&world, &session).await, all);
}

async fn state_of(world: &World, session: &str) -> Map<String, Value> {
    agent_state(world, session).await["completedRequests"].as_object().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn the_list_has_nothing_to_do_with_the_record_and_the_session_shows_it_whole() {
    let (world, session, mut cli, all) = veteran().await;
    for round in ["before a sleep", "after it"] {
        assert_eq!(state_of(&world, &session).await, all, "{round}");
        world.hibernate_and_wake().await;
        let reads = world.db.read_count();
        let list = world.get("/api/sessions").await;
        assert_eq!(list.ok()["sessions"][0]["pendingRequestsCount"], 1);
        assert!(list.text.len() < 2_000, "{}", list.text);
        cli.send_keep_alive(&world, &session).await;
        cli.send_message(&session, "hello").await;
        run_until_idle().await;
        let touched =
            world.db.read_batches()[reads..].iter().flatten().any(|read| read.sql.contains("completed_requests"));
        assert!(!touched, "neither the list nor a message reads the record");
    }
    let row = world.db.number("SELECT length(agent_state) FROM sessions");
    assert!(row < 1_000, "the session's own row holds none of it: {row} bytes");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_leaves_old_entries_out_keeps_them() {
    let (world, session, mut cli, mut all) = veteran().await;
    let (id, entry) = record(MANY);
    let few = json!({"requests": {}, "completedRequests": {id.clone(): entry}});
    assert_eq!(cli.update_state(&session, 3, &few).await["result"], "success");
    all.insert(id, entry);
    assert_eq!(state_of(&world, &session).await, all);
    assert_eq!(cli.update_state(&session, 4, &Value::Null).await["result"], "success");
    assert_eq!(state_of(&world, &session).await, all, "a state of null has none of its own");
    world.hibernate_and_wake().await;
    assert_eq!(state_of(&world, &session).await, all);
}

#[tokio::test(start_paused = true)]
async fn what_others_hear_of_a_long_record_is_what_changed() {
    let (world, session, mut cli, _) = veteran().await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    answer(&world, &session, &mut cli, "r1/deny", &json!({})).await;
    let told = state_event(&mut web).await["agentState"]["completedRequests"].clone();
    let update = second.next_event("update").await["body"]["agentState"]["value"]["completedRequests"].clone();
    for changed in [told, update] {
        assert_eq!(changed.as_object().unwrap().keys().collect::<Vec<_>>(), ["r1"]);
    }
    let refused = cli.update_state(&session, 1, &json!({})).await;
    assert_eq!((&refused["result"], &refused["version"]), (&json!("version-mismatch"), &json!(4)));
    let newest = refused["agentState"]["completedRequests"].as_object().unwrap();
    assert!(newest.len() < 1_000 && newest.contains_key("r1") && newest.contains_key("q09999"), "{}", newest.len());
}

/// An entry of nearly the largest size.
fn large(n: usize) -> (String, Value) {
    (format!("q{n:05}"), json!({"tool": "Bash", "completedAt": n, "filling": "x".repeat(1_890_000)}))
}

/// The ids of the completed requests that the database has of a session.
fn stored(world: &World) -> Vec<String> {
    let rows = world.db.select("SELECT request_id FROM completed_requests ORDER BY completed_at, request_id");
    rows.into_iter().map(|row| Columns::new("completed_requests", row).text("request_id").unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_record_that_became_too_large_keeps_its_newest_entries() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    let mut told = Map::new();
    for round in 0..4 {
        let few: Map<String, Value> = (4 * round..4 * round + 4).map(large).collect();
        let update = json!({"requests": {}, "completedRequests": few});
        let answer = cli.update_state(&session, 2 + round as u64, &update).await;
        assert_eq!(answer["result"], "success", "{round}");
        told.extend(few);
    }
    run_until_idle().await;
    let kept: Vec<String> = (12..16).map(|n| large(n).0).collect();
    assert_eq!(stored(&world), kept);
    for round in ["before a sleep", "after it"] {
        let shown = state_of(&world, &session).await;
        assert_eq!(shown.keys().cloned().collect::<Vec<_>>(), kept, "{round}");
        assert!(shown.iter().all(|(id, entry)| told[id] == *entry), "{round}");
        world.hibernate_and_wake().await;
    }
    // What went does not come back when the CLI, which keeps a record of its own, sends it again.
    let before = world.db.write_count();
    let again: Map<String, Value> = [0, 1, 12, 13].map(large).into_iter().collect();
    let mut web = world.web("all=true").await;
    assert_eq!(
        cli.update_state(&session, 6, &json!({"requests": {}, "completedRequests": again})).await["result"],
        "success"
    );
    assert_eq!(state_event(&mut web).await["agentState"].get("completedRequests"), None);
    run_until_idle().await;
    assert_eq!(written_since(&world, before).0, 0);
    assert_eq!(stored(&world), kept);
    assert_eq!(state_of(&world, &session).await.keys().cloned().collect::<Vec<_>>(), kept);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_too_large_before_it_had_a_bound_is_read_as_far_as_it_counts() {
    let (world, session, mut cli) = session_with_requests(&Value::Null).await;
    world.hibernate_and_wake().await;
    world.db.execute(&format!(
        "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 29)
         INSERT INTO completed_requests (session_id, request_id, completed_at, value)
         SELECT '{session}', printf('q%05d', n), n, json_object('filling', printf('%.*c', 1000000, 'x')) FROM n"
    ));
    // A neighbour's record is another one.
    let other = world.create_session("/other").await;
    world.db.execute(&format!(
        "INSERT INTO completed_requests (session_id, request_id, completed_at, value) VALUES ('{other}', 'old', 0, '{{}}')"
    ));
    let newest = |n: usize| (30 - n..30).map(|n| format!("q{n:05}")).collect::<Vec<_>>();
    assert_eq!(state_of(&world, &session).await.keys().cloned().collect::<Vec<_>>(), newest(9));
    // The next change takes the others away.
    assert_eq!(cli.update_state(&session, 2, &json!({"requests": {}})).await["result"], "success");
    run_until_idle().await;
    let kept: Vec<String> = std::iter::once("old".to_owned()).chain(newest(8)).collect();
    assert_eq!(stored(&world), kept);
}
