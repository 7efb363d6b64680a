//! The SQL of messages on SQLite with the real migrations: seqs, local ids, pages, and the limits of D1.

use crate::support::prelude::*;
use crate::support::store::{
    Cache, commit_as, find_by_local_ids, json, load_by_tag, load_summaries, message, put, put_messages, queue_of,
    read_memory, seqs, session, stored, team_namespace,
};
use proptest::prelude::*;
use session_gateway_hub::limits::{MAX_CONTENT_BYTES, MAX_LOCAL_ID_LOOKUPS};
use session_gateway_hub::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
use session_gateway_hub::model::json::MAX_SAFE_INTEGER;
use session_gateway_hub::model::message::Message;
use session_gateway_hub::model::session::Session;
use session_gateway_hub::store::history::{PageRange, read_page};
use session_gateway_hub::store::messages::{self, MessageRef};
use session_gateway_hub::store::write_queue::SessionColumns;
use session_gateway_hub::store::{Found, Value, query};

/// A database with the session `s`.
async fn db_with_session() -> (Sqlite, Session) {
    let (db, owner) = (Sqlite::with_schema(), session("s", "/code"));
    put(&db, &owner).await;
    (db, owner)
}

/// The most steps of SQLite's virtual machine for a page of 50 messages.
const MAX_PAGE_STEPS: i32 = 2_200;

#[tokio::test]
async fn a_repeated_insert_of_messages_duplicates_nothing() {
    let db = Sqlite::with_schema();
    let owner = Session { seq: 3, ..session("s", "/code") };
    put(&db, &owner).await;
    for _ in 0..2 {
        put_messages(&db, &owner, [message(1, None), message(2, Some("local")), message(3, None)]).await;
    }
    assert_eq!(seqs(&db, "s", PageRange::After(0), 10).await.0, [1, 2, 3]);
}

#[tokio::test]
async fn another_message_with_the_same_seq_fails_the_whole_batch() {
    let (db, owner) = db_with_session().await;
    put_messages(&db, &owner, [message(1, None)]).await;
    let second_writer = Session { seq: 2, thinking: true, ..owner };
    let conflicting = Message { id: "another".into(), ..message(1, None) };
    let mut write_queue = queue_of("s", [conflicting, message(2, None)]);
    write_queue.queue_session("s", SessionColumns::Small);
    let error = commit_as(&db, &team_namespace(), write_queue, &Cache::with(&second_writer)).await.unwrap_err();
    assert!(matches!(error, DbError::Refused(_)), "{error}");
    assert_eq!(seqs(&db, "s", PageRange::After(0), 10).await.0, [1]);
    let stored = stored(&db, "s").await;
    assert_eq!((stored.seq, stored.thinking), (1, false), "the counters of the failed batch are not written either");
}

#[tokio::test]
async fn a_message_does_not_write_the_row_of_its_session_because_the_seq_is_read_from_the_last_message() {
    let (db, owner) = db_with_session().await;
    let newest = Message { created_at: 9_000, ..message(2, None) };
    put_messages(&db, &owner, [message(1, Some("l")), newest]).await;
    assert!(!db.write_batches().last().unwrap().iter().any(|statement| statement.sql.contains("UPDATE sessions")));
    assert_eq!(db.number("SELECT seq FROM sessions"), 0);
    let expected = Session { seq: 2, updated_at: 9_000, last_message_at: Some(9_000), ..owner };
    assert_eq!(stored(&db, "s").await, expected);
    assert_eq!(load_by_tag(&db, &team_namespace(), "/code").await.unwrap(), Some(expected));
    assert_eq!(load_summaries(&db, &team_namespace()).await.unwrap()[0].updated_at, 9_000);
}

#[tokio::test]
async fn a_local_id_is_unique_within_a_session() {
    let db = Sqlite::with_schema();
    let (owner, other_session) = (session("s", "/code"), session("t", "/else"));
    put(&db, &owner).await;
    put(&db, &other_session).await;
    put_messages(&db, &owner, [message(1, Some("same"))]).await;
    put_messages(&db, &other_session, [message(1, Some("same"))]).await;
    let write_queue = queue_of("s", [message(2, Some("same"))]);
    assert!(commit_as(&db, &team_namespace(), write_queue, &Cache::with(&owner)).await.is_err());
    assert_eq!(seqs(&db, "s", PageRange::After(0), 10).await.0, [1]);
}

#[tokio::test]
async fn a_message_for_a_session_that_does_not_exist_is_rejected() {
    let db = Sqlite::with_schema();
    let write_queue = queue_of("nowhere", [message(1, None)]);
    assert!(commit_as(&db, &team_namespace(), write_queue, &Cache::default()).await.is_err());
    assert_eq!(db.number("SELECT count(*) FROM messages"), 0);
}

#[tokio::test]
async fn history_is_paged_backwards_and_forwards() {
    let (db, owner) = db_with_session().await;
    put_messages(&db, &owner, (1..=5).map(|seq| message(seq, None))).await;
    let table = [
        (PageRange::Before(None), 10, (vec![5, 4, 3, 2, 1], false)),
        (PageRange::Before(None), 5, (vec![5, 4, 3, 2, 1], false)),
        (PageRange::Before(None), 2, (vec![5, 4], true)),
        (PageRange::Before(Some(4)), 2, (vec![3, 2], true)),
        (PageRange::Before(Some(2)), 2, (vec![1], false)),
        (PageRange::Before(Some(1)), 2, (vec![], false)),
        (PageRange::Before(Some(0)), 2, (vec![], false)),
        (PageRange::Before(Some(u64::MAX)), 1, (vec![5], true)),
        (PageRange::After(0), 2, (vec![1, 2], true)),
        (PageRange::After(3), 2, (vec![4, 5], false)),
        (PageRange::After(5), 2, (vec![], false)),
        (PageRange::After(u64::MAX), 2, (vec![], false)),
    ];
    for (range, limit, expected) in table {
        assert_eq!(seqs(&db, "s", range, limit).await, expected, "{range:?} limit {limit}");
    }
}

#[tokio::test]
async fn a_page_of_small_messages_is_one_read_whose_steps_do_not_grow_with_the_history() {
    let mut steps_by_history = Vec::new();
    for messages in [60, 3_000] {
        let (db, owner) = db_with_session().await;
        put_messages(&db, &owner, (1..=messages).map(|seq| message(seq, None))).await;
        for range in [PageRange::Before(None), PageRange::Before(Some(messages - 4)), PageRange::After(3)] {
            let reads = db.read_count();
            db.take_most_steps();
            let (page, has_more) = seqs(&db, "s", range, 50).await;
            assert_eq!((page.len(), has_more, db.read_count() - reads), (50, true, 1));
            steps_by_history.push(db.take_most_steps());
        }
    }
    assert!(steps_by_history.iter().all(|steps| *steps <= MAX_PAGE_STEPS), "{steps_by_history:?}");
    assert_eq!(steps_by_history[..3], steps_by_history[3..]);
}

#[tokio::test]
async fn the_search_for_todos_reads_no_message_of_a_session_with_todos() {
    let db = Sqlite::with_schema();
    let mut steps_by_history = Vec::new();
    for messages in [10, 3_000] {
        let owner = Session { todos: Some(json("[]")), ..session(&messages.to_string(), &format!("/{messages}")) };
        put(&db, &owner).await;
        put_messages(&db, &owner, (1..=messages).map(|seq| message(seq, None))).await;
        db.take_most_steps();
        let select = messages::select_todo_candidates(&team_namespace(), &owner.id, 1, MAX_SAFE_INTEGER);
        assert!(query(&db, select).await.unwrap().is_empty());
        steps_by_history.push(db.take_most_steps());
    }
    assert_eq!(steps_by_history[0], steps_by_history[1]);
}

#[tokio::test]
async fn a_large_batch_is_split_into_parameters_within_the_limits_of_d1() {
    let (db, owner) = db_with_session().await;
    let content = json(&format!("\"{}\"", "x".repeat(100_000)));
    let messages = (1..=35).map(|seq| Message { content: content.clone(), ..message(seq, None) });
    let mut statements =
        queue_of("s", messages).take_batch(&team_namespace(), &&Cache::with(&owner)).unwrap().statements;
    let sizes: Vec<usize> = statements.iter().flat_map(|s| &s.params).map(size_in_bytes).collect();
    assert!(sizes.iter().all(|size| *size <= 2_000_000), "{sizes:?}");
    let inserts = statements.iter().filter(|s| s.sql.contains("INSERT INTO messages")).count();
    assert!((2..=5).contains(&inserts), "35 rows of 100 KB go into {inserts} statements");
    db.batch(&mut statements).await.unwrap();
    assert_eq!(db.number("SELECT count(*) FROM messages"), 35);
}

fn size_in_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Null | Value::Integer(_) => 8,
    }
}

#[tokio::test]
async fn a_message_of_maximum_size_can_be_stored_whatever_characters_it_contains() {
    for character in ["x", r#"\""#, r"\n"] {
        let (db, owner) = db_with_session().await;
        let text = format!("\"{}\"", character.repeat((MAX_CONTENT_BYTES - 2) / character.len()));
        let write_queue = queue_of("s", [Message { content: json(&text), ..message(1, None) }]);
        let result = commit_as(&db, &team_namespace(), write_queue, &Cache::with(&owner)).await;
        assert_eq!(result, Ok(()), "a message of {character}");
    }
}

#[tokio::test]
async fn local_ids_are_read_newest_first() {
    let (db, owner) = db_with_session().await;
    let messages = [message(1, Some("a")), message(2, None), message(3, Some("c")), message(4, Some("d"))];
    put_messages(&db, &owner, messages).await;
    let reference = |seq: u64| MessageRef { id: format!("m{seq}"), seq, created_at: 1_000 + seq };
    let newest =
        messages::read_local_ids(query(&db, messages::select_local_ids(&team_namespace(), "s", 2)).await.unwrap())
            .unwrap();
    assert_eq!(newest, [("d".to_owned(), reference(4)), ("c".to_owned(), reference(3))]);
}

#[tokio::test]
async fn messages_of_several_sessions_are_found_by_their_local_ids() {
    let db = Sqlite::with_schema();
    for id in ["s", "t", "foreign"] {
        let owner = session(id, id);
        put(&db, &owner).await;
        put_messages(&db, &owner, [message(1, Some("a")), message(2, None), message(3, Some("c"))]).await;
    }
    db.execute("UPDATE sessions SET namespace = 'other' WHERE id = 'foreign'");
    let table = [
        ("s", "a", Some(1)),
        ("t", "b", None),
        ("t", "c", Some(3)),
        ("foreign", "a", None),
        ("none", "a", None),
        ("s", "c", Some(3)),
        ("s", "", None),
        ("s", "a", Some(1)),
    ];
    let pairs = table.map(|(session, local_id, _)| (session.to_owned(), local_id.to_owned()));
    let found = find_by_local_ids(&db, &pairs).await.unwrap();
    let seqs: Vec<Option<u64>> = found.into_iter().map(|message| message.map(|message| message.seq)).collect();
    assert_eq!(seqs, table.map(|(_, _, seq)| seq));
}

#[tokio::test]
async fn a_lookup_of_local_ids_takes_no_more_steps_in_a_long_session() {
    let mut steps_by_history = Vec::new();
    for messages in [10, 30_000] {
        let db = Sqlite::with_schema();
        put(&db, &session("s", "/code")).await;
        db.execute(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {messages})
             INSERT INTO messages (session_id, seq, id, local_id, created_at, content)
             SELECT 's', i, 'm' || i, 'l' || i, 1, '1' FROM n"
        ));
        let pairs = (1..=MAX_LOCAL_ID_LOOKUPS).map(|n| ("s".to_owned(), format!("l{}", 2 * n))).collect::<Vec<_>>();
        db.take_most_steps();
        find_by_local_ids(&db, &pairs).await.unwrap();
        steps_by_history.push(db.take_most_steps());
    }
    let steps_of_rows = 20 * i32::try_from(MAX_LOCAL_ID_LOOKUPS).unwrap();
    assert!(steps_by_history[1] <= steps_by_history[0] + steps_of_rows, "{steps_by_history:?}");
    assert!(steps_by_history[1] <= 60 * i32::try_from(MAX_LOCAL_ID_LOOKUPS).unwrap(), "{steps_by_history:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tag_and_local_id_is_found(tag in "\\PC{1,40}|[\\x00-\\x1f\"\\\\]{1,8}", local in any::<String>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let db = Sqlite::with_schema();
            let owner = session("s", &tag);
            put(&db, &owner).await;
            put_messages(&db, &owner, [message(1, Some(&local))]).await;
            let found = load_by_tag(&db, &team_namespace(), &tag).await.unwrap();
            prop_assert_eq!(found.map(|s| s.tag), Some(tag));
            let pairs = [("s".to_owned(), local.clone())];
            let found = find_by_local_ids(&db, &pairs).await.unwrap().remove(0);
            prop_assert_eq!(found.map(|m| m.seq), Some(1));
            let Found::InNamespace(page) = read_page(&db, &read_memory(), (&team_namespace(), "s"), PageRange::After(0), 1, None).await.unwrap() else { panic!() };
            let message: serde_json::Value = serde_json::from_str(&page.messages).unwrap();
            prop_assert_eq!(message["localId"].as_str(), Some(local.as_str()));
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_large_page_is_read_only_with_memory_for_it() {
    let (db, owner) = db_with_session().await;
    let large = Message { content: json(&format!("\"{}\"", "x".repeat(4_000_000))), ..message(1, None) };
    let in_a_row = Message { content: json(&format!("\"{}\"", "x".repeat(1_400_000))), ..message(3, None) };
    put_messages(&db, &owner, [large, message(2, None), in_a_row]).await;
    let memory = read_memory();
    let _others = memory.budget.reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES - 5_000_000).unwrap();
    let read = async |range| read_page(&db, &memory, (&team_namespace(), "s"), range, 1, None).await;
    let Found::InNamespace(first) = read(PageRange::After(0)).await.unwrap() else { panic!() };
    let reads = db.read_count();
    assert_eq!(read(PageRange::After(0)).await.unwrap_err(), DbError::NoMemory);
    assert!(
        !db.read_batches()[reads..].iter().flatten().any(|read| read.sql.contains("SELECT content FROM message_parts")),
        "the parts are not read"
    );
    assert!(matches!(read(PageRange::After(1)).await, Ok(Found::InNamespace(_))), "small messages need no reservation");
    assert_eq!(read(PageRange::After(2)).await.unwrap_err(), DbError::NoMemory, "a large page without parts");
    drop(first);
    assert!(matches!(read(PageRange::After(2)).await, Ok(Found::InNamespace(page)) if page.messages.len() > 1_400_000));
    assert!(matches!(read(PageRange::After(0)).await, Ok(Found::InNamespace(page)) if page.messages.len() > 4_000_000));
}
