//! Deletions and merges of long histories: no statement changes more than a chunk of rows.

use crate::support::prelude::*;
use crate::support::store::{Cache, commit, find_by_local_ids, put, read_memory, session, stored, team_namespace};
use session_gateway_hub::store::history::{PageRange, read_page};
use session_gateway_hub::store::messages::SELECT_BY_LOCAL_IDS;
use session_gateway_hub::store::write_queue::WriteQueue;
use session_gateway_hub::store::{Found, removals, sessions};

/// The most steps in SQLite's virtual machine for a statement that changes a chunk. The longest statement took 570,000 steps
/// and less than 0.5 s.
const MAX_CHUNK_STEPS: i32 = 1_000_000;

/// The most steps for the statement that divides 300,000 messages into chunks. The statement took 17,400,000 steps and 0.3 s.
const MAX_READ_STEPS: i32 = 20_000_000;

/// How many more steps the longest statement may take in a namespace with many merges.
const MAX_ADDED_STEPS: i32 = 200;

/// Writes a session with `count` messages of 1,900 to 2,099 bytes. Their local ids are numbered from `first_local_id`.
async fn put_history(db: &Sqlite, id: &str, count: u64, first_local_id: u64) {
    put(db, &session(id, id)).await;
    db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO messages (session_id, seq, id, local_id, created_at, content, bytes)
         SELECT '{id}', i, '{id}' || i, 'l' || ({first_local_id} + i - 1), 1, '\"' || printf('%.*c', 1898 + i % 200, 'x') || '\"', 1900 + i % 200 FROM n"
    ));
}

/// Merges the session `old` into the session `new`.
async fn merge(db: &Sqlite) {
    let new = stored(db, "new").await;
    let chunks = removals::load_chunk_ends(db, &team_namespace(), "new").await.unwrap().unwrap();
    let steps = db.take_most_steps();
    assert!(steps <= MAX_READ_STEPS, "the chunks are found with {steps} steps");
    db.batch(&mut removals::merge(&team_namespace(), "old", &new, &chunks)).await.unwrap();
}

/// Deletes the session `new` and sweeps its rows.
async fn delete_new(db: &Sqlite) {
    let mut write_queue = WriteQueue::default();
    write_queue.delete_session("new");
    commit(db, write_queue, &Cache::default()).await;
    while removals::sweep(db, &team_namespace()).await.unwrap() {}
}

fn count(db: &Sqlite, table: &str) -> i64 {
    db.number(&format!("SELECT count(*) FROM {table}"))
}

#[tokio::test]
async fn a_merge_rewrites_the_messages_of_the_new_session_only_in_chunks_of_5000() {
    let db = Sqlite::with_schema();
    put_history(&db, "old", 12_000, 1).await;
    // The first 1,000 repeat messages of the old session.
    put_history(&db, "new", 13_000, 11_001).await;
    let chunks = removals::load_chunk_ends(&db, &team_namespace(), "new").await.unwrap().unwrap();
    assert_eq!(chunks, [5_000, 5_002, 10_000, 10_003, 13_000], "after 5,000 messages, and after 10 MB");
    merge(&db).await;
    assert_eq!(
        count(&db, "messages WHERE session_id = 'old' AND id LIKE 'old%'"),
        12_000,
        "the messages of the old session are not rewritten"
    );
    assert_eq!(stored(&db, "new").await.seq, 24_000);
    assert_eq!(sessions::load_by_id(&db, &team_namespace(), "old").await.unwrap(), Found::Missing);
    let read =
        async |range| match read_page(&db, &read_memory(), (&team_namespace(), "new"), range, 1, None).await.unwrap() {
            Found::InNamespace(page) => page.messages,
            other => panic!("{other:?}"),
        };
    assert!(read(PageRange::After(0)).await.contains(r#""localId":"l1","#));
    assert!(read(PageRange::After(12_000)).await.contains(r#""localId":"l12001","#));
    assert!(read(PageRange::Before(None)).await.contains(r#""seq":24000,"localId":"l24000","#));
    let pairs = [("new".to_owned(), "l7".to_owned())];
    assert_eq!(find_by_local_ids(&db, &pairs).await.unwrap().remove(0).unwrap().seq, 7);
    delete_new(&db).await;
    assert_eq!((count(&db, "messages"), count(&db, "sessions")), (0, 0));
}

#[tokio::test]
async fn any_local_id_of_a_history_is_found_by_the_index() {
    let db = Sqlite::with_schema();
    let plan = db.select(&format!(
        "EXPLAIN QUERY PLAN {}",
        SELECT_BY_LOCAL_IDS.replace("?1", "'[[\"s\",\"l\"]]'").replace("?2", "'team'")
    ));
    let plan = format!("{plan:?}");
    assert!(plan.contains("USING INDEX messages_by_local_id (session_id=? AND local_id=?)"), "{plan}");
    assert!(!plan.replace("SCAN w VIRTUAL TABLE", "").contains("SCAN"), "only the pairs are scanned: {plan}");
}

#[tokio::test]
async fn a_session_of_300_000_messages_is_merged_and_deleted_in_statements_of_bounded_size() {
    for (old, new) in [(300_000, 10), (10, 300_000)] {
        let db = Sqlite::with_schema();
        put_history(&db, "old", old, 1).await;
        put_history(&db, "new", new, old + 1).await;
        db.take_most_steps();
        merge(&db).await;
        delete_new(&db).await;
        let steps = db.take_most_steps();
        assert!(steps <= MAX_CHUNK_STEPS, "{old} and {new} messages: {steps} steps");
        assert_eq!((count(&db, "messages"), count(&db, "sessions")), (0, 0));
    }
}

#[tokio::test]
async fn a_merge_and_a_deletion_take_no_more_steps_with_3000_earlier_merges_in_the_namespace() {
    let measure = async |earlier: i64| {
        let db = Sqlite::with_schema();
        put_history(&db, "old", 10, 1).await;
        put_history(&db, "new", 10, 11).await;
        put(&db, &session("resumed", "resumed")).await;
        db.execute(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {earlier})
             INSERT INTO sessions (id, namespace, tag, history, seq, created_at, updated_at, active_at, thinking_at, active,
               thinking, mode, metadata_version, agent_state_version)
             SELECT 'merged-' || i, '//' || namespace, 'merged-' || i, 'resumed', 0, created_at, updated_at, active_at,
               thinking_at, 0, 0, mode, metadata_version, agent_state_version FROM n, sessions WHERE sessions.id = 'resumed'"
        ));
        db.take_most_steps();
        merge(&db).await;
        let merge_steps = db.take_most_steps();
        delete_new(&db).await;
        assert_eq!(count(&db, "sessions"), earlier + 1);
        [("merge", merge_steps), ("deletion", db.take_most_steps())]
    };
    for ((action, few), (_, many)) in measure(3).await.into_iter().zip(measure(3_000).await) {
        assert!(many <= few + MAX_ADDED_STEPS, "the {action} takes {many} steps instead of {few}");
    }
}
