//! The cost of an action in the database does not depend on the number of other sessions and machines of the namespace.

use crate::support::permissions::{answer, request};
use crate::support::prelude::*;
use crate::support::store::{Cache, commit};
use session_gateway_hub::store::write_queue::WriteQueue;

/// How many more steps of SQLite's virtual machine the longest statement of an action may take in a larger namespace.
const MAX_ADDED_STEPS: i32 = 200;

/// A namespace with one active session, and other idle sessions and machines. `cli` serves the session and runs a machine.
struct Scenario {
    world: World,
    session: String,
    cli: Cli,
    /// For each action, the steps of its longest statement.
    recorded: Vec<(&'static str, i32)>,
}

/// Adds idle sessions and machines like those in the database.
fn add_others(db: &Sqlite, others: usize) {
    let insert_copies = |table: &str, columns: &str, values: &str| {
        db.execute(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {others})
            INSERT INTO {table} (id, {columns}) SELECT 'other-' || i, {values} FROM n, (SELECT * FROM {table} LIMIT 1)"
        ));
    };
    insert_copies(
        "sessions",
        "namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking, mode, metadata, metadata_version, agent_state_version",
        "namespace, i, seq, created_at, updated_at, active_at, thinking_at, 0, 0, mode, metadata, metadata_version, agent_state_version",
    );
    insert_copies(
        "machines",
        "namespace, seq, created_at, updated_at, active, active_at, metadata, metadata_version, runner_state_version",
        "namespace, seq, created_at, updated_at, 0, active_at, metadata, metadata_version, runner_state_version",
    );
}

impl Scenario {
    async fn with_others(others: usize) -> Self {
        let (world, session, mut cli) = live_session_with_machine().await;
        cli.register("permission").await;
        add_others(&world.db, others);
        run_until_idle().await;
        world.db.take_most_steps();
        Self { world, session, cli, recorded: Vec::new() }
    }

    /// Records the steps of the longest statement since the last call, under the name of the action.
    async fn record(&mut self, action: &'static str) {
        run_until_idle().await;
        self.recorded.push((action, self.world.db.take_most_steps()));
    }

    /// Performs all actions of clients. Returns the steps of each.
    async fn perform_actions(others: usize) -> Vec<(&'static str, i32)> {
        let mut scenario = Self::with_others(others).await;
        let session = scenario.session.clone();
        scenario.cli.send_message(&session, "hello").await;
        scenario.record("a message").await;
        let keep_alive = json!({"sid": session, "time": scenario.world.now(), "thinking": true, "mode": "local"});
        scenario.cli.emit("session-alive", &keep_alive);
        scenario.record("a keep-alive that changes the session").await;
        let state = json!({"requests": {"r1": request("Bash")}});
        scenario.cli.put_agent_state(&session, 1, &state).await;
        scenario.record("a permission request").await;
        answer(&scenario.world, &session, &mut scenario.cli, "r1/approve", &json!({})).await;
        scenario.record("the answer to a permission request").await;
        let state = json!({"requests": {}, "text": "x".repeat(3_000_000)});
        scenario.cli.put_agent_state(&session, 3, &state).await;
        scenario.record("a large agent state").await;
        scenario.cli.send_message(&session, &"x".repeat(3_000_000)).await;
        scenario.record("a large message").await;
        scenario.world.hibernate_and_wake().await;
        scenario.cli.send_message(&session, "hello").await;
        scenario.record("a message after a wake").await;
        scenario.world.hibernate_and_wake().await;
        scenario.world.get_session(&session).await;
        scenario.record("a request for the session after a wake").await;
        assert_eq!(
            scenario.cli.emit_with_ack("session-end", &json!({"sid": session, "time": 0})).await,
            json!({"ok": true})
        );
        scenario.record("the end of the session").await;
        scenario.world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
        scenario.record("the deletion of the session").await;
        scenario.recorded
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_takes_no_more_steps_with_3000_other_sessions_and_machines() {
    let (few, many) = (Scenario::perform_actions(3).await, Scenario::perform_actions(3_000).await);
    for ((action, few), (_, many)) in few.into_iter().zip(many) {
        assert!(few > 0, "{action} runs no statement");
        assert!(many <= few + MAX_ADDED_STEPS, "{action}: {many} steps instead of {few}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleting_a_machine_and_trimming_completed_requests_take_no_more_steps_with_3000_others() {
    let measure = async |others| {
        let Scenario { world, session, .. } = Scenario::with_others(others).await;
        let mut write_queue = WriteQueue::default();
        write_queue.trim_completed_requests(&session);
        write_queue.delete_machine("other-1");
        commit(&world.db, write_queue, &Cache::default()).await;
        assert_eq!(world.db.number("SELECT count(*) FROM machines WHERE id = 'other-1'"), 0);
        world.db.take_most_steps()
    };
    let (few, many) = (measure(3).await, measure(3_000).await);
    assert!(many <= few + MAX_ADDED_STEPS, "{many} steps instead of {few}");
}
