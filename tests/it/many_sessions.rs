//! A change reads the rows that it changes, and not the other sessions and machines of the namespace, of which there may be
//! thousands.

use crate::support::cli::Cli;
use crate::support::live_session::live_session_with_machine;
use crate::support::permissions::{answer, request};
use crate::support::sqlite::Sqlite;
use crate::support::store::{Cache, commit};
use crate::support::{World, run_until_idle};
use serde_json::json;
use session_gateway_hub::store::journal::Journal;

/// The number of steps of SQLite's virtual machine by which two runs of a statement may differ.
const TOLERANCE: i32 = 200;

/// A namespace with an active session, its CLI, which is also the runner of a machine, and `others` idle sessions and machines.
struct Namespace {
    world: World,
    session: String,
    cli: Cli,
    /// The largest number of steps of a statement, by what the clients did.
    steps: Vec<(&'static str, i32)>,
}

/// Adds idle sessions and machines like those in the database.
fn add_others(db: &Sqlite, others: usize) {
    let copies = |table: &str, columns: &str, copied: &str| {
        db.execute(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {others})
            INSERT INTO {table} (id, {columns}) SELECT 'other-' || i, {copied} FROM n, (SELECT * FROM {table} LIMIT 1)"
        ));
    };
    copies(
        "sessions",
        "namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking, mode, metadata, metadata_version, agent_state_version",
        "namespace, i, seq, created_at, updated_at, active_at, thinking_at, 0, 0, mode, metadata, metadata_version, agent_state_version",
    );
    copies(
        "machines",
        "namespace, seq, created_at, updated_at, active, active_at, metadata, metadata_version, runner_state_version",
        "namespace, seq, created_at, updated_at, 0, active_at, metadata, metadata_version, runner_state_version",
    );
}

impl Namespace {
    async fn with_others(others: usize) -> Self {
        let (world, session, mut cli) = live_session_with_machine().await;
        cli.register("permission").await;
        add_others(&world.db, others);
        run_until_idle().await;
        world.db.take_most_steps();
        Self { world, session, cli, steps: Vec::new() }
    }

    /// Records the steps of what the clients have just done.
    async fn record(&mut self, action: &'static str) {
        run_until_idle().await;
        self.steps.push((action, self.world.db.take_most_steps()));
    }

    async fn steps(others: usize) -> Vec<(&'static str, i32)> {
        let mut namespace = Self::with_others(others).await;
        let session = namespace.session.clone();
        namespace.cli.send_message(&session, "hello").await;
        namespace.record("a message").await;
        let keep_alive = json!({"sid": session, "time": namespace.world.now(), "thinking": true, "mode": "local"});
        namespace.cli.emit("session-alive", &keep_alive);
        namespace.record("a keep-alive that changes the session").await;
        let state = json!({"requests": {"r1": request("Bash")}});
        assert_eq!(namespace.cli.update_state(&session, 1, &state).await["result"], "success");
        namespace.record("a permission request").await;
        answer(&namespace.world, &session, &mut namespace.cli, "r1/approve", &json!({})).await;
        namespace.record("the answer to a permission request").await;
        let state = json!({"requests": {}, "text": "x".repeat(3_000_000)});
        assert_eq!(namespace.cli.update_state(&session, 3, &state).await["result"], "success");
        namespace.record("a large agent state").await;
        namespace.cli.send_message(&session, &"x".repeat(3_000_000)).await;
        namespace.record("a large message").await;
        namespace.world.hibernate_and_wake().await;
        namespace.cli.send_message(&session, "hello").await;
        namespace.record("a message after a wake").await;
        namespace.world.get_session(&session).await;
        namespace.record("a request for the session").await;
        assert_eq!(
            namespace.cli.emit_with_ack("session-end", &json!({"sid": session, "time": 0})).await,
            json!({"ok": true})
        );
        namespace.record("the end of the session").await;
        namespace.world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
        namespace.record("the deletion of the session").await;
        namespace.steps
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_takes_no_more_steps_with_3000_other_sessions_and_machines() {
    let (few, many) = (Namespace::steps(3).await, Namespace::steps(3_000).await);
    for ((action, few), (_, many)) in few.into_iter().zip(many) {
        assert!(many <= few + TOLERANCE, "{action}: {many} steps instead of {few}");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_do_the_deletion_of_a_machine_and_of_old_answers() {
    let steps = async |others| {
        let Namespace { world, session, .. } = Namespace::with_others(others).await;
        let mut journal = Journal::default();
        journal.trim_completed_requests(&session);
        journal.delete_machine("other-1");
        commit(&world.db, journal, &Cache::default()).await;
        assert_eq!(world.db.number("SELECT count(*) FROM machines WHERE id = 'other-1'"), 0);
        world.db.take_most_steps()
    };
    let (few, many) = (steps(3).await, steps(3_000).await);
    assert!(many <= few + TOLERANCE, "{many} steps instead of {few}");
}
