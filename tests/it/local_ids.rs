//! Local ids of sessions with more messages than the hub keeps local ids in memory. The hub looks up older local ids in the
//! database.

use session_gateway_hub::hub::write::commit::MAX_SEARCHED_FRAME_BYTES;
use session_gateway_hub::limits::{MAX_LOCAL_ID_BYTES, MAX_LOCAL_ID_LOOKUPS, MAX_LOCAL_IDS};
use session_gateway_hub::store::Value as Column;
use session_gateway_hub::store::messages::SELECT_BY_LOCAL_IDS;

use crate::support::prelude::*;

/// More messages than the hub keeps local ids in memory.
const STORED_MESSAGES: u64 = MAX_LOCAL_IDS as u64 + 100;

/// Inserts messages with the local ids `l1`, `l2`, and so on.
fn insert_messages(db: &Sqlite, session: &str, count: u64) {
    db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO messages (session_id, seq, id, local_id, created_at, content)
         SELECT '{session}', i, '{session}-m' || i, 'l' || i, 1, '1' FROM n"
    ));
}

/// Creates sessions with [`STORED_MESSAGES`] messages each. The hub has the sessions and their newest local ids in memory. Returns the
/// ids and the CLIs of the sessions.
async fn long_sessions<const N: usize>(world: &World) -> [(String, Cli); N] {
    let mut ids = Vec::new();
    for n in 0..N {
        let session = world.create_session(&format!("/code/{n}")).await;
        insert_messages(&world.db, &session, STORED_MESSAGES);
        ids.push(session);
    }
    world.hibernate_and_wake().await;
    let mut sessions = Vec::new();
    for session in ids {
        let mut cli = world.cli(&session).await;
        // The first message makes the hub read the session, the second makes it read the newest local ids.
        let newest = vec![format!("l{STORED_MESSAGES}"); 2];
        assert_eq!(send_all(&mut cli, &session, &newest).await, [json!(STORED_MESSAGES), json!(STORED_MESSAGES)]);
        sessions.push((session, cli));
    }
    sessions.try_into().ok().unwrap()
}

fn message(session: &str, local_id: &str) -> Value {
    json!({"sid": session, "localId": local_id, "message": {"role": "agent", "content": local_id}})
}

/// Sends messages at once. Returns the seqs in their acknowledgements.
async fn send_all(cli: &mut Cli, session: &str, local_ids: &[String]) -> Vec<Value> {
    let acks: Vec<u64> = local_ids.iter().map(|id| cli.emit_for_ack("message", &message(session, id))).collect();
    each(acks, async |ack| cli.wait_for_ack(ack).await["seq"].clone()).await
}

/// The local ids of the messages after those of [`insert_messages`], in the order of their seqs. Checks that the seqs have no
/// gap.
fn added_local_ids(db: &Sqlite, session: &str) -> Vec<String> {
    let rows = db.select(&format!(
        "SELECT json_group_array(local_id) FROM (SELECT local_id FROM messages
         WHERE session_id = '{session}' AND seq > {STORED_MESSAGES} ORDER BY seq)"
    ));
    let session_seq = db.number(&format!("SELECT max(seq) FROM messages WHERE session_id = '{session}'"));
    let count = db.number(&format!("SELECT count(*) FROM messages WHERE session_id = '{session}'"));
    assert_eq!(session_seq, count, "the seqs have a gap");
    match &rows[0][0] {
        Column::Text(text) => serde_json::from_str(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The number of statements that have looked up local ids.
fn lookups(db: &Sqlite) -> usize {
    let batches = [db.read_batches(), db.write_batches()].concat();
    batches.iter().flatten().filter(|statement| statement.sql == SELECT_BY_LOCAL_IDS).count()
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_local_ids_of_waiting_messages_are_looked_up_together() {
    let world = World::new();
    let [(session, mut cli)] = long_sessions(&world).await;
    let before = lookups(&world.db);
    let sent = numbered("new", 2 * MAX_LOCAL_ID_LOOKUPS);
    let seqs = send_all(&mut cli, &session, &sent).await;
    assert_eq!(seqs, (1..=sent.len() as u64).map(|n| json!(STORED_MESSAGES + n)).collect::<Vec<_>>());
    assert_eq!(added_local_ids(&world.db, &session), sent);
    let lookups = lookups(&world.db) - before;
    assert!(lookups <= 4, "{lookups} lookups for {} messages", sent.len());
}

#[tokio::test(start_paused = true)]
async fn repeated_local_ids_among_waiting_messages_are_stored_once() {
    let world = World::new();
    let [(session, mut cli)] = long_sessions(&world).await;
    let sent = ["a", "l1", "b", "a", "l7", "b", "c", "l1"].map(str::to_owned);
    let seqs = send_all(&mut cli, &session, &sent).await;
    let [a, b, c] = [1, 2, 3].map(|n| STORED_MESSAGES + n);
    assert_eq!(seqs, [a, 1, b, a, 7, b, c, 1].map(|seq| json!(seq)));
    assert_eq!(added_local_ids(&world.db, &session), ["a", "b", "c"]);
    world.hibernate_and_wake().await;
    assert_eq!(send_all(&mut cli, &session, &sent).await, seqs, "and recognized after a wake");
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_all_sockets_share_a_lookup_that_is_part_of_the_next_batch() {
    let world = World::new();
    let mut senders = long_sessions::<3>(&world).await;
    let quiet = world.create_session("/quiet").await;
    let mut quiet_cli = world.cli(&quiet).await;
    let before = lookups(&world.db);
    world.db.hold_all_results();
    let mut acks = Vec::new();
    for (session, cli) in &mut senders {
        let sent = numbered("new", 20);
        acks.push(sent.iter().map(|id| cli.emit_for_ack("message", &message(session, id))).collect::<Vec<_>>());
        assert_eq!(world.held_results().await, 1, "one lookup is in flight");
    }
    let quiet_ack = quiet_cli.emit_for_ack("message", &message(&quiet, "q"));
    run_until_idle().await;
    // The first batch is the lookup of the first socket. The second batch has its messages, the message of the quiet session,
    // and the other lookups.
    for _ in 0..2 {
        assert_eq!(world.db.held_result_count(), 1);
        world.release_result(0).await;
    }
    assert_eq!(quiet_cli.wait_for_ack(quiet_ack).await["seq"], 1);
    assert_eq!(lookups(&world.db) - before, 2);
    world.db.release_results();
    for ((session, cli), acks) in senders.iter_mut().zip(acks) {
        for (n, ack) in (1..).zip(acks) {
            assert_eq!(cli.wait_for_ack(ack).await["seq"], STORED_MESSAGES + n);
        }
        assert_eq!(added_local_ids(&world.db, session), numbered("new", 20));
    }
    assert_eq!(lookups(&world.db) - before, 2);
}

#[tokio::test(start_paused = true)]
async fn more_local_ids_than_fit_a_statement_are_looked_up_in_one_batch() {
    let world = World::new();
    let [(session, mut cli)] = long_sessions(&world).await;
    cli.send_keep_alive(&world, &session).await;
    let before = (lookups(&world.db), world.db.read_count());
    let sent = numbered("web", MAX_LOCAL_ID_LOOKUPS + 10);
    let path = format!("/api/sessions/{session}/messages");
    let post = |id: &String| world.start("POST", &path, json!({"text": "hello", "localId": id}).to_string());
    let replies: Vec<_> = sent.iter().map(post).collect();
    all_ok(replies).await;
    assert_eq!(added_local_ids(&world.db, &session), sent);
    assert_eq!((lookups(&world.db) - before.0, world.db.read_count() - before.1), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_local_id_that_is_too_long_does_not_affect_the_lookup_of_other_local_ids() {
    let world = World::new();
    let [(session, mut cli)] = long_sessions(&world).await;
    let longest = cli.emit_for_ack("message", &message(&session, &"\u{1}".repeat(MAX_LOCAL_ID_BYTES)));
    // Together with the other local id, it would exceed the largest parameter of a statement.
    let too_long = json!({"sid": session, "localId": "x".repeat(MAX_SEARCHED_FRAME_BYTES - 300), "message": 1});
    let too_long = cli.emit_for_ack("message", &too_long);
    assert_eq!(cli.wait_for_ack(longest).await["seq"], STORED_MESSAGES + 1);
    assert_eq!(cli.wait_for_ack(too_long).await["code"], "bad-payload");
    assert_eq!(cli.emit_with_ack("message", &message(&session, "next")).await["seq"], STORED_MESSAGES + 2);
}

#[tokio::test(start_paused = true)]
async fn if_the_database_rejects_a_lookup_its_messages_fail_and_can_be_sent_again() {
    let world = World::new();
    let [(session, mut cli)] = long_sessions(&world).await;
    world.db.fail(BatchKind::Reads, permanent_error());
    let failed = cli.emit_with_ack("message", &message(&session, "a")).await;
    assert_eq!(failed["code"], "unavailable", "{failed}");
    assert_eq!(
        send_all(&mut cli, &session, &["a".to_owned(), "l3".to_owned()]).await,
        [json!(STORED_MESSAGES + 1), json!(3)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_again_before_its_commit_is_stored_once_even_if_its_local_id_was_evicted() {
    let (world, session) = idle_session().await;
    let mut cli = world.cli(&session).await;
    world.db.hold_results(BatchKind::Writes);
    let sent = numbered("new", 2 * MAX_LOCAL_IDS + 10);
    let acks: Vec<u64> = sent.iter().map(|id| cli.emit_for_ack("message", &message(&session, id))).collect();
    assert_eq!(world.held_results().await, 1, "the first batch is in flight");
    let repeated_from = MAX_LOCAL_IDS - 100;
    let written = world.db.number("SELECT count(*) FROM messages");
    assert!(written < repeated_from as i64, "{written} messages are in the first batch");
    let repeated = &sent[repeated_from..repeated_from + 50];
    let repeated: Vec<u64> = repeated.iter().map(|id| cli.emit_for_ack("message", &message(&session, id))).collect();
    run_until_idle().await;
    world.db.release_results();
    for (n, ack) in (1..).zip(acks) {
        assert_eq!(cli.wait_for_ack(ack).await["seq"], n);
    }
    for (n, ack) in (repeated_from + 1..).zip(repeated) {
        assert_eq!(cli.wait_for_ack(ack).await["seq"], n);
    }
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), sent.len() as i64);
}
