//! The SQL of sessions, machines and secrets on SQLite, whose dialect D1 uses, with the real migrations.

use std::collections::HashMap;

use crate::support::database_errors::{LIMITS_REACHED, UNKNOWN_OUTCOMES};
use crate::support::prelude::*;
use crate::support::store::{
    Cache, NoEffect, commit, commit_as, find_machine_owner, json, load_by_tag, load_machines, load_summaries, message,
    other_namespace, put, put_messages, queue_of, read_memory, seqs, session, stored, team_namespace,
};
use session_gateway_hub::model::large::InlineOrLarge;
use session_gateway_hub::model::machine::Machine;
use session_gateway_hub::model::message::Message;
use session_gateway_hub::model::session::{ControlMode, Session};
use session_gateway_hub::model::settings::Settings;
use session_gateway_hub::model::summary::{SessionSummary, SummaryFields};
use session_gateway_hub::store::history::{PageRange, read_page};
use session_gateway_hub::store::write_queue::{SessionColumns, WriteQueue};
use session_gateway_hub::store::{Found, removals, secrets, sessions};

#[tokio::test]
async fn a_session_is_read_as_it_was_written() {
    let db = Sqlite::with_schema();
    let full = Session {
        seq: 7,
        updated_at: 2_000,
        active_at: 3_000,
        thinking_at: 4_000,
        active: true,
        thinking: true,
        mode: Some(ControlMode::Local),
        metadata_version: 5,
        agent_state: InlineOrLarge::Inline(json(r#"{"requests":{}}"#)),
        agent_state_version: 6,
        todos: Some(json("[]")),
        permission_mode: Some("plan".into()),
        model_mode: Some("model_fast".into()),
        settings: Settings { muted: true, ..Settings::default() },
        request_times: Some(json(r#"{"r":5}"#)),
        ..session("s", "/code")
    };
    put(&db, &full).await;
    assert_eq!(stored(&db, "s").await, full);
    assert_eq!(load_by_tag(&db, &team_namespace(), "/code").await.unwrap(), Some(full.clone()));
    let summaries: Vec<SessionSummary> =
        load_summaries(&db, &team_namespace()).await.unwrap().iter().map(SessionSummary::of).collect();
    assert_eq!(summaries, [SessionSummary::of(&SummaryFields::of(&full))]);

    let changed = Session {
        metadata: InlineOrLarge::Null,
        todos: None,
        mode: None,
        permission_mode: None,
        active: false,
        thinking: false,
        ended_at: Some(6),
        unseen_since: Some(7),
        request_times: None,
        ..full
    };
    put(&db, &changed).await;
    assert_eq!(stored(&db, "s").await, changed);
}

#[tokio::test]
async fn small_columns_are_written_without_the_other_columns_of_the_row() {
    let db = Sqlite::with_schema();
    put(&db, &session("s", "/code")).await;
    let changed = Session {
        seq: 3,
        active: true,
        thinking: true,
        updated_at: 9,
        active_at: 9,
        thinking_at: 9,
        permission_mode: Some("plan".into()),
        metadata: InlineOrLarge::Inline(json(r#"{"path":"/else","host":"box"}"#)),
        metadata_version: 2,
        ..session("s", "/code")
    };
    let mut write_queue = WriteQueue::default();
    write_queue.queue_session("s", SessionColumns::Small);
    commit(&db, write_queue, &Cache::with(&changed)).await;
    let before = session("s", "/code");
    assert_eq!(stored(&db, "s").await, Session { metadata: before.metadata, metadata_version: 1, ..changed });
}

#[tokio::test]
async fn json_is_stored_byte_for_byte() {
    let db = Sqlite::with_schema();
    let text = r#"{ "z":12345678901234567890.10, "a":1e400,"a":"\ud800 \u0000 \/","__proto__":{"é":"🦀"},"":[ ] }"#;
    let opaque = Session {
        metadata: InlineOrLarge::Inline(json(text)),
        agent_state: InlineOrLarge::Inline(json(text)),
        todos: Some(json("[ 1.0 ]")),
        ..session("s", "/code")
    };
    put(&db, &opaque).await;
    let read = stored(&db, "s").await;
    assert_eq!(read.metadata.json().unwrap().text(), text);
    assert_eq!(read.agent_state.json().unwrap().text(), text);
    assert_eq!(read.todos.unwrap().text(), "[ 1.0 ]");

    put_messages(&db, &opaque, [Message { content: json(text), ..message(1, Some("l \"1\" ü\n")) }]).await;
    let Found::InNamespace(page) =
        read_page(&db, &read_memory(), (&team_namespace(), "s"), PageRange::After(0), 1, None).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(
        page.messages,
        format!(r#"{{"id":"m1","seq":1,"localId":"l \"1\" ü\n","content":{text},"createdAt":1001}}"#)
    );
}

#[tokio::test]
async fn a_session_of_another_namespace_cannot_be_written_or_deleted() {
    let db = Sqlite::with_schema();
    let foreign = Session { namespace: other_namespace(), ..session("s", "/code") };
    put(&db, &foreign).await;
    let forged = Session { seq: 99, ..session("s", "/mine") };
    for columns in [SessionColumns::Small, SessionColumns::All] {
        let mut write_queue = WriteQueue::default();
        write_queue.queue_session("s", columns);
        commit(&db, write_queue, &Cache::with(&forged)).await;
    }
    let mut write_queue = WriteQueue::default();
    write_queue.delete_session("s");
    commit(&db, write_queue, &Cache::default()).await;
    assert_eq!(sessions::load_by_id(&db, &other_namespace(), "s").await.unwrap(), Found::InNamespace(foreign));
}

#[tokio::test]
async fn a_tag_belongs_to_one_session_of_a_namespace() {
    let db = Sqlite::with_schema();
    put(&db, &session("s", "/code")).await;
    put(&db, &Session { namespace: other_namespace(), ..session("o", "/code") }).await;
    let second = session("t", "/code");
    let mut write_queue = WriteQueue::default();
    write_queue.queue_session("t", SessionColumns::All);
    let error = commit_as(&db, &team_namespace(), write_queue, &Cache::with(&second)).await.unwrap_err();
    assert!(matches!(error, DbError::Refused(_)), "{error}");
    assert_eq!(load_by_tag(&db, &team_namespace(), "/code").await.unwrap().unwrap().id, "s");
    assert_eq!(load_by_tag(&db, &other_namespace(), "/code").await.unwrap().unwrap().id, "o");
}

#[tokio::test]
async fn a_deletion_frees_the_tag_at_once_and_a_sweep_deletes_the_rows_of_the_session() {
    let db = Sqlite::with_schema();
    let (deleted, remaining) = (session("s", "/code"), session("t", "/else"));
    for session in [&deleted, &remaining] {
        put(&db, session).await;
        put_messages(&db, session, [message(1, None), message(2, Some("l"))]).await;
    }
    let successor = session("u", "/code");
    let mut write_queue = WriteQueue::default();
    write_queue.queue_session("u", SessionColumns::All);
    write_queue.delete_session("s");
    commit(&db, write_queue, &Cache::with(&successor)).await;
    assert_eq!(sessions::load_by_id(&db, &team_namespace(), "s").await.unwrap(), Found::Missing);
    assert_eq!(load_by_tag(&db, &team_namespace(), "/code").await.unwrap().unwrap().id, "u");
    assert!(matches!(
        read_page(&db, &read_memory(), (&team_namespace(), "s"), PageRange::After(0), 10, None).await.unwrap(),
        Found::Missing
    ));
    assert_eq!(load_summaries(&db, &team_namespace()).await.unwrap().len(), 2);
    assert!(!removals::sweep(&db, &other_namespace()).await.unwrap());
    assert_eq!(db.number("SELECT count(*) FROM messages WHERE session_id = 's'"), 2);
    assert!(!removals::sweep(&db, &team_namespace()).await.unwrap());
    assert_eq!(db.number("SELECT count(*) FROM messages WHERE session_id = 's'"), 0);
    assert_eq!(db.number("SELECT count(*) FROM sessions WHERE id = 's'"), 0);
    assert_eq!(seqs(&db, "t", PageRange::After(0), 10).await.0, [1, 2]);
}

#[tokio::test]
async fn deleted_sessions_are_swept_in_chunks_of_5000_messages_or_60_megabytes() {
    let db = Sqlite::with_schema();
    for (id, messages, bytes) in [("a", 12_000, 10), ("b", 100, 1_500_000)] {
        put(&db, &session(id, id)).await;
        db.execute(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {messages})
             INSERT INTO messages (session_id, seq, id, created_at, content, bytes)
             SELECT '{id}', i, '{id}' || i, 1, '1', {bytes} FROM n"
        ));
    }
    let mut write_queue = WriteQueue::default();
    ["a", "b"].into_iter().for_each(|id| write_queue.delete_session(id));
    commit(&db, write_queue, &Cache::default()).await;
    let mut remaining = Vec::new();
    loop {
        let more_remain = removals::sweep(&db, &team_namespace()).await.unwrap();
        remaining.push(db.number("SELECT count(*) FROM messages"));
        if !more_remain {
            break;
        }
    }
    assert_eq!(remaining, [7_100, 2_100, 100, 60, 20, 0]);
    assert_eq!(db.number("SELECT count(*) FROM sessions"), 0);
}

#[tokio::test]
async fn an_id_is_owned_foreign_or_missing() {
    let db = Sqlite::with_schema();
    put(&db, &session("mine", "/a")).await;
    put(&db, &Session { namespace: other_namespace(), ..session("theirs", "/b") }).await;
    let foreign = Session { namespace: other_namespace(), ..session("theirs", "/b") };
    let write_queue = queue_of("theirs", [message(1, None)]);
    commit_as(&db, &other_namespace(), write_queue, &Cache::with(&foreign)).await.unwrap();

    for (id, owned, foreign) in [("mine", true, false), ("theirs", false, true), ("none", false, false)] {
        let found = sessions::load_by_id(&db, &team_namespace(), id).await.unwrap();
        assert_eq!((matches!(found, Found::InNamespace(_)), found == Found::Foreign), (owned, foreign), "{id}");
        let history =
            read_page(&db, &read_memory(), (&team_namespace(), id), PageRange::Before(None), 5, None).await.unwrap();
        assert!(matches!(&history, Found::InNamespace(page) if page.messages.is_empty()) == owned, "history of {id}");
        assert_eq!(matches!(history, Found::Foreign), foreign, "the history of {id}");
    }
}

#[tokio::test]
async fn five_hundred_sessions_are_written_in_one_statement() {
    let db = Sqlite::with_schema();
    let mut cache = Cache::default();
    let mut write_queue = WriteQueue::<NoEffect>::default();
    for n in 0..500 {
        let session = session(&format!("s{n}"), &format!("/code/{n}"));
        write_queue.queue_session(&session.id, SessionColumns::All);
        cache.sessions.insert(session.id.clone(), session);
    }
    let mut statements = write_queue.take_batch(&team_namespace(), &&cache).unwrap().statements;
    assert_eq!(statements.iter().filter(|s| s.sql.contains("INSERT INTO sessions")).count(), 1);
    db.batch(&mut statements).await.unwrap();
    assert_eq!(load_summaries(&db, &team_namespace()).await.unwrap().len(), 500);
}

#[tokio::test]
async fn a_machine_is_read_as_it_was_written_and_only_in_its_namespace() {
    let db = Sqlite::with_schema();
    let machine = Machine {
        seq: 4,
        active: true,
        active_at: 5,
        metadata: InlineOrLarge::Inline(json(r#"{"host":"box","z":1.0}"#)),
        metadata_version: 2,
        runner_state: InlineOrLarge::Inline(json(r#"{"pid":12345678901234567890}"#)),
        runner_state_version: 3,
        ..Machine::new("m".into(), team_namespace(), 1_000)
    };
    let cache = Cache { machines: HashMap::from([("m".into(), machine.clone())]), ..Cache::default() };
    let queued = || {
        let mut write_queue = WriteQueue::default();
        write_queue.queue_machine("m");
        write_queue
    };
    commit(&db, queued(), &cache).await;
    assert_eq!(load_machines(&db, &team_namespace()).await.unwrap(), std::slice::from_ref(&machine));
    assert_eq!(load_machines(&db, &other_namespace()).await.unwrap(), []);
    assert_eq!(find_machine_owner(&db, &team_namespace(), "m").await.unwrap(), Found::InNamespace(()));
    assert_eq!(find_machine_owner(&db, &other_namespace(), "m").await.unwrap(), Found::Foreign);
    assert_eq!(find_machine_owner(&db, &team_namespace(), "n").await.unwrap(), Found::Missing);

    let forged = Machine { seq: 99, namespace: other_namespace(), ..machine.clone() };
    let cache = Cache { machines: HashMap::from([("m".into(), forged)]), ..Cache::default() };
    let taken = commit_as(&db, &other_namespace(), queued(), &cache).await;
    assert!(matches!(taken, Err(DbError::Refused(_))), "{taken:?}");
    assert_eq!(load_machines(&db, &team_namespace()).await.unwrap(), [machine]);
}

#[tokio::test]
async fn all_callers_get_the_secret_that_was_inserted_first() {
    let db = Sqlite::with_schema();
    assert_eq!(secrets::get_or_insert(&db, "jwt", "first").await.unwrap(), "first");
    assert_eq!(secrets::get_or_insert(&db, "jwt", "second").await.unwrap(), "first");
    assert_eq!(secrets::get_or_insert(&db, "other", "second").await.unwrap(), "second");
}

#[tokio::test(start_paused = true)]
async fn concurrent_inserts_of_a_secret_return_the_same_one() {
    let db = Sqlite::with_schema();
    db.hold_results(BatchKind::Reads);
    let inserts =
        futures::future::join(secrets::get_or_insert(&db, "jwt", "one"), secrets::get_or_insert(&db, "jwt", "two"));
    let released = async {
        run_until_idle().await;
        assert_eq!(db.held_result_count(), 2, "both reads have found no secret");
        db.release_results();
    };
    let ((one, two), ()) = futures::future::join(inserts, released).await;
    assert_eq!(one.unwrap(), two.unwrap());
}

#[tokio::test]
async fn a_database_without_a_schema_returns_the_error_for_a_missing_schema() {
    let db = Sqlite::without_schema();
    let errors = [
        secrets::get_or_insert(&db, "jwt", "x").await.unwrap_err(),
        sessions::load_by_id(&db, &team_namespace(), "s").await.unwrap_err(),
        load_summaries(&db, &team_namespace()).await.unwrap_err(),
        load_machines(&db, &team_namespace()).await.unwrap_err(),
        read_page(&db, &read_memory(), (&team_namespace(), "s"), PageRange::Before(None), 5, None).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, DbError::NoSchema(_)), "{error}");
    }
}

#[test]
fn errors_of_d1_are_classified() {
    let classify = |message: &str| DbError::from_message(message.into());
    assert!(matches!(classify("D1_ERROR: no such table: sessions: SQLITE_ERROR"), DbError::NoSchema(_)));
    assert!(matches!(classify("D1_ERROR: no such column: todos"), DbError::NoSchema(_)));
    for refused in [
        "D1_ERROR: UNIQUE constraint failed: sessions.id: SQLITE_CONSTRAINT",
        "NOT NULL constraint failed: fences.epoch",
        "D1_ERROR: near \"SELEC\": syntax error at offset 0: SQLITE_ERROR",
        "D1_ERROR: string or blob too big: SQLITE_TOOBIG",
        "D1_ERROR: too many SQL variables at offset 5: SQLITE_ERROR",
    ] {
        assert!(matches!(classify(refused), DbError::Refused(_)), "{refused}");
    }
    for limit in LIMITS_REACHED {
        assert!(matches!(classify(limit), DbError::LimitReached(_)), "{limit}");
    }
    for unknown in UNKNOWN_OUTCOMES {
        assert!(matches!(classify(unknown), DbError::Retryable(_)), "{unknown}");
    }
}
