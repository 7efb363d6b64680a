//! Faults of the database while held messages are stored or sent.

use super::*;
use crate::support::prelude::*;

/// What happens to the batch that sends the held messages.
#[derive(Debug, Clone, Copy)]
enum Fault {
    CrashBeforeCommit,
    CrashAfterCommit,
    ResponseLost,
    OutcomeUnknown,
    Refused,
}

#[tokio::test(start_paused = true)]
async fn held_messages_are_sent_once_whatever_happens_to_their_batch() {
    use Fault::{CrashAfterCommit, CrashBeforeCommit, OutcomeUnknown, Refused, ResponseLost};
    for fault in [CrashBeforeCommit, CrashAfterCommit, ResponseLost, OutcomeUnknown, Refused] {
        let (world, session) = session_without_cli().await;
        hold_all(&world, &session, &["a", "b"]).await;
        // Simulates an interruption: the session is active, but its held messages are not sent yet.
        world.hibernate_and_wake().await;
        world.db.execute("UPDATE sessions SET active = 1");
        let mut cli = world.cli(&session).await;
        world.get(&format!("/api/sessions/{session}/held-messages")).await.ok();
        let alive = json!({"sid": session, "time": world.now()});
        match fault {
            CrashBeforeCommit => world.db.never_return_next(BatchKind::Writes),
            CrashAfterCommit => world.db.hold_results(BatchKind::Writes),
            ResponseLost => world.db.lose_response(retryable_error()),
            OutcomeUnknown => world.db.fail(BatchKind::Writes, DbError::Unavailable("no answer".into())),
            Refused => world.db.fail(BatchKind::Writes, permanent_error()),
        }
        cli.deliver("session-alive", &alive).await;
        let batch = world.db.write_batches().pop().unwrap();
        let sql: Vec<_> = batch.iter().map(|statement| statement.sql).collect();
        let has = |text: &str| sql.iter().any(|sql| sql.contains(text));
        assert!(
            has("INSERT INTO messages") && has("DELETE FROM held_messages"),
            "{fault:?}: one batch has both: {sql:?}"
        );
        if matches!(fault, CrashBeforeCommit | CrashAfterCommit) {
            world.restart();
            world.db.release_results();
            assert_eq!(cli.emit_with_ack("session-alive", &alive).await["ok"], true);
        } else {
            world.advance_in_steps(60_000).await;
            // After an unknown outcome, the hub has closed the socket of the CLI.
            drop(world.live_cli(&session).await);
        }
        run_until_idle().await;
        if matches!(fault, CrashBeforeCommit) {
            world.db.execute_late(&batch).unwrap_err();
        }
        assert_eq!(sent_ids(&world, &session).await, ["a", "b"], "{fault:?}");
        assert_eq!(held_messages_count(&world, &session).await, Value::Null, "{fault:?}");
        assert_eq!(world.db.number("SELECT count(*) FROM held_messages"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_acknowledged_as_held_only_when_it_is_durable() {
    let (world, session) = session_without_cli().await;
    world.db.hold_results(BatchKind::Writes);
    let body = json!({"text": "t", "localId": "a", "hold": true}).to_string();
    let path = format!("/api/sessions/{session}/messages");
    let reply = world.start("POST", &path, body.clone());
    let again = world.start("POST", &path, body);
    assert!(!reply.has_response().await && !again.is_ready());
    world.db.release_results();
    assert_eq!(reply.reply().await.ok(), again.reply().await.ok());
    world.db.fail_all(BatchKind::Writes, permanent_error());
    hold(&world, &session, "t", "b").await.assert_error(503, "hub_unavailable");
    world.db.repair();
    assert_eq!(held_ids(&world, &session).await, ["a"]);
    assert_eq!(held_messages_count(&world, &session).await, 1);
}
