//! The SQL of the hub, run on a real SQLite with the real migrations: the same dialect that D1 runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::HashMap;

use proptest::prelude::*;
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::machine::Machine;
use session_gateway_hub::model::message::Message;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::session::{ControlMode, Session};
use session_gateway_hub::model::summary::{Facts, Line};
use session_gateway_hub::store::history::{Page, Range, page};
use session_gateway_hub::store::journal::{Extent, Journal, Snapshot, Weigh};
use session_gateway_hub::store::rows::MAX_CONTENT_BYTES;
use session_gateway_hub::store::sessions::{self, MessageRef};
use session_gateway_hub::store::{Database, DbError, Found, Value, machines, secrets};
use support::sqlite::Sqlite;

fn team() -> Namespace {
    Namespace::parse("team").unwrap()
}

fn other() -> Namespace {
    Namespace::parse("other").unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// What a hub holds in memory, as far as the journal is concerned.
#[derive(Default)]
struct Memory {
    sessions: HashMap<String, Session>,
    machines: HashMap<String, Machine>,
}

impl Snapshot for Memory {
    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id)
    }

    fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.get(id)
    }
}

impl Memory {
    fn with(session: &Session) -> Self {
        Self { sessions: HashMap::from([(session.id.clone(), session.clone())]), ..Self::default() }
    }
}

fn session(id: &str, tag: &str) -> Session {
    let metadata = json(r#"{"path":"/code","host":"box"}"#);
    Session::new(id.into(), team(), tag.into(), Some(metadata), 1_000)
}

fn message(seq: u64, local_id: Option<&str>) -> Message {
    let (id, local_id) = (format!("m{seq}"), local_id.map(str::to_owned));
    Message { id, seq, local_id, content: json(&format!(r#"{{"n":{seq}}}"#)), created_at: 1_000 + seq }
}

/// These journals have nobody to tell.
struct Nothing;

impl Weigh for Nothing {
    fn bytes(&self) -> usize {
        0
    }
}

/// Commits what a journal holds, as a hub of this namespace does.
async fn commit_as(
    db: &Sqlite,
    namespace: &Namespace,
    mut journal: Journal<Nothing>,
    memory: &Memory,
) -> Result<(), DbError> {
    let batch = journal.take(namespace, memory).expect("something to write");
    for statements in batch.ahead(namespace) {
        db.batch(&statements).await?;
    }
    db.batch(&batch.statements).await.map(drop)
}

async fn commit(db: &Sqlite, journal: Journal<Nothing>, memory: &Memory) {
    commit_as(db, &team(), journal, memory).await.unwrap();
}

async fn put(db: &Sqlite, session: &Session) {
    let mut journal = Journal::default();
    journal.session(&session.id, Extent::Whole);
    commit_as(db, &session.namespace, journal, &Memory::with(session)).await.unwrap();
}

fn of_messages(session: &str, messages: impl IntoIterator<Item = Message>) -> Journal<Nothing> {
    let mut journal = Journal::default();
    messages.into_iter().for_each(|message| journal.message(session, message));
    journal
}

async fn put_messages(db: &Sqlite, session: &Session, messages: impl IntoIterator<Item = Message>) {
    commit(db, of_messages(&session.id, messages), &Memory::with(session)).await;
}

async fn held(db: &Sqlite, id: &str) -> Session {
    match sessions::by_id(db, &team(), id).await.unwrap() {
        Found::Owned(session) => session,
        odd => panic!("{odd:?}"),
    }
}

/// The seqs of a page, and whether there is more.
async fn seqs(db: &Sqlite, session: &str, range: Range, limit: u64) -> (Vec<u64>, bool) {
    let Found::Owned(page) = page(db, &team(), session, range, limit).await.unwrap() else { panic!("no page") };
    let messages: Vec<serde_json::Value> = serde_json::from_str(&format!("[{}]", page.messages)).unwrap();
    let seqs: Vec<u64> = messages.iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!(page.last_seq, seqs.last().copied());
    (seqs, page.has_more)
}

#[tokio::test]
async fn a_session_is_read_back_as_it_was_written() {
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
        agent_state: Some(json(r#"{"requests":{}}"#)),
        agent_state_version: 6,
        todos: Some(json("[]")),
        permission_mode: Some("plan".into()),
        model_mode: Some("model_fast".into()),
        ..session("s", "/code")
    };
    put(&db, &full).await;
    assert_eq!(held(&db, "s").await, full);
    assert_eq!(sessions::by_tag(&db, &team(), "/code").await.unwrap(), Some(full.clone()));
    assert_eq!(sessions::lines(&db, &team()).await.unwrap(), [Line::of(Facts::of(&full))]);

    let changed = Session { metadata: None, todos: None, mode: None, permission_mode: None, active: false, ..full };
    put(&db, &changed).await;
    assert_eq!(held(&db, "s").await, changed);
}

#[tokio::test]
async fn a_touch_writes_counters_and_leaves_the_rest_of_the_row_alone() {
    let db = Sqlite::with_schema();
    put(&db, &session("s", "/code")).await;
    let ahead = Session {
        seq: 3,
        active: true,
        thinking: true,
        updated_at: 9,
        active_at: 9,
        thinking_at: 9,
        permission_mode: Some("plan".into()),
        metadata: Some(json(r#"{"path":"/else","host":"box"}"#)),
        metadata_version: 2,
        ..session("s", "/code")
    };
    let mut journal = Journal::default();
    journal.session("s", Extent::Counters);
    commit(&db, journal, &Memory::with(&ahead)).await;
    let before = session("s", "/code");
    assert_eq!(held(&db, "s").await, Session { metadata: before.metadata, metadata_version: 1, ..ahead });
}

#[tokio::test]
async fn opaque_json_is_kept_to_the_letter() {
    let db = Sqlite::with_schema();
    let odd = r#"{ "z":12345678901234567890.10, "a":1e400,"a":"\ud800 \u0000 \/","__proto__":{"é":"🦀"},"":[ ] }"#;
    let odd_session = Session {
        metadata: Some(json(odd)),
        agent_state: Some(json(odd)),
        todos: Some(json("[ 1.0 ]")),
        ..session("s", "/code")
    };
    put(&db, &odd_session).await;
    let read = held(&db, "s").await;
    assert_eq!(read.metadata.unwrap().text(), odd);
    assert_eq!(read.agent_state.unwrap().text(), odd);
    assert_eq!(read.todos.unwrap().text(), "[ 1.0 ]");

    put_messages(&db, &odd_session, [Message { content: json(odd), ..message(1, Some("l \"1\" ü\n")) }]).await;
    let Found::Owned(page) = page(&db, &team(), "s", Range::After(0), 1).await.unwrap() else { panic!() };
    assert_eq!(
        page.messages,
        format!(r#"{{"id":"m1","seq":1,"localId":"l \"1\" ü\n","content":{odd},"createdAt":1001}}"#)
    );
}

#[tokio::test]
async fn a_session_of_another_namespace_cannot_be_written_or_deleted() {
    let db = Sqlite::with_schema();
    let theirs = Session { namespace: other(), ..session("s", "/code") };
    put(&db, &theirs).await;
    let forged = Session { seq: 99, ..session("s", "/mine") };
    for extent in [Extent::Counters, Extent::Whole] {
        let mut journal = Journal::default();
        journal.session("s", extent);
        commit(&db, journal, &Memory::with(&forged)).await;
    }
    let mut journal = Journal::default();
    journal.delete_session("s");
    commit(&db, journal, &Memory::default()).await;
    assert_eq!(sessions::by_id(&db, &other(), "s").await.unwrap(), Found::Owned(theirs));
}

#[tokio::test]
async fn a_tag_belongs_to_one_session_of_a_namespace() {
    let db = Sqlite::with_schema();
    put(&db, &session("s", "/code")).await;
    put(&db, &Session { namespace: other(), ..session("o", "/code") }).await;
    let second = session("t", "/code");
    let mut journal = Journal::default();
    journal.session("t", Extent::Whole);
    let error = commit_as(&db, &team(), journal, &Memory::with(&second)).await.unwrap_err();
    assert!(matches!(error, DbError::Refused(_)), "{error}");
    assert_eq!(sessions::by_tag(&db, &team(), "/code").await.unwrap().unwrap().id, "s");
    assert_eq!(sessions::by_tag(&db, &other(), "/code").await.unwrap().unwrap().id, "o");
}

#[tokio::test]
async fn a_deleted_session_takes_its_messages_along_and_frees_its_tag_in_the_same_batch() {
    let db = Sqlite::with_schema();
    let (gone, stays) = (session("s", "/code"), session("t", "/else"));
    for session in [&gone, &stays] {
        put(&db, session).await;
        put_messages(&db, session, [message(1, None), message(2, Some("l"))]).await;
    }
    let heir = session("u", "/code");
    let mut journal = Journal::default();
    journal.session("u", Extent::Whole);
    journal.delete_session("s");
    commit(&db, journal, &Memory::with(&heir)).await;
    assert_eq!(sessions::by_id(&db, &team(), "s").await.unwrap(), Found::Missing);
    assert_eq!(sessions::by_tag(&db, &team(), "/code").await.unwrap().unwrap().id, "u");
    assert_eq!(db.number("SELECT count(*) FROM messages WHERE session_id = 's'"), 0);
    assert_eq!(seqs(&db, "t", Range::After(0), 10).await.0, [1, 2]);
}

#[tokio::test]
async fn messages_that_are_sent_again_after_a_lost_answer_are_not_doubled() {
    let db = Sqlite::with_schema();
    let owner = Session { seq: 3, ..session("s", "/code") };
    put(&db, &owner).await;
    for _ in 0..2 {
        put_messages(&db, &owner, [message(1, None), message(2, Some("local")), message(3, None)]).await;
    }
    assert_eq!(seqs(&db, "s", Range::After(0), 10).await.0, [1, 2, 3]);
}

#[tokio::test]
async fn another_message_under_the_same_seq_breaks_the_whole_batch() {
    let db = Sqlite::with_schema();
    let owner = session("s", "/code");
    put(&db, &owner).await;
    put_messages(&db, &owner, [message(1, None)]).await;
    let second_writer = Session { seq: 2, ..owner };
    let intruder = Message { id: "another".into(), ..message(1, None) };
    let journal = of_messages("s", [intruder, message(2, None)]);
    let error = commit_as(&db, &team(), journal, &Memory::with(&second_writer)).await.unwrap_err();
    assert!(matches!(error, DbError::Refused(_)), "{error}");
    assert_eq!(seqs(&db, "s", Range::After(0), 10).await.0, [1]);
    assert_eq!(held(&db, "s").await.seq, 0, "the counters of the broken batch are not written either");
}

#[tokio::test]
async fn a_local_id_stands_for_one_message_of_a_session() {
    let db = Sqlite::with_schema();
    let (owner, neighbour) = (session("s", "/code"), session("t", "/else"));
    put(&db, &owner).await;
    put(&db, &neighbour).await;
    put_messages(&db, &owner, [message(1, Some("same"))]).await;
    put_messages(&db, &neighbour, [message(1, Some("same"))]).await;
    let journal = of_messages("s", [message(2, Some("same"))]);
    assert!(commit_as(&db, &team(), journal, &Memory::with(&owner)).await.is_err());
    assert_eq!(seqs(&db, "s", Range::After(0), 10).await.0, [1]);
}

#[tokio::test]
async fn a_message_for_a_session_that_does_not_exist_is_refused() {
    let db = Sqlite::with_schema();
    let journal = of_messages("nowhere", [message(1, None)]);
    assert!(commit_as(&db, &team(), journal, &Memory::default()).await.is_err());
    assert_eq!(db.number("SELECT count(*) FROM messages"), 0);
}

#[tokio::test]
async fn history_is_paged_backwards_and_forwards() {
    let db = Sqlite::with_schema();
    let owner = session("s", "/code");
    put(&db, &owner).await;
    put_messages(&db, &owner, (1..=5).map(|seq| message(seq, None))).await;
    let table = [
        (Range::Before(None), 10, (vec![5, 4, 3, 2, 1], false)),
        (Range::Before(None), 5, (vec![5, 4, 3, 2, 1], false)),
        (Range::Before(None), 2, (vec![5, 4], true)),
        (Range::Before(Some(4)), 2, (vec![3, 2], true)),
        (Range::Before(Some(2)), 2, (vec![1], false)),
        (Range::Before(Some(1)), 2, (vec![], false)),
        (Range::Before(Some(0)), 2, (vec![], false)),
        (Range::Before(Some(u64::MAX)), 1, (vec![5], true)),
        (Range::After(0), 2, (vec![1, 2], true)),
        (Range::After(3), 2, (vec![4, 5], false)),
        (Range::After(5), 2, (vec![], false)),
        (Range::After(u64::MAX), 2, (vec![], false)),
    ];
    for (range, limit, expected) in table {
        assert_eq!(seqs(&db, "s", range, limit).await, expected, "{range:?} limit {limit}");
    }
}

#[tokio::test]
async fn an_id_is_owned_foreign_or_missing() {
    let db = Sqlite::with_schema();
    put(&db, &session("mine", "/a")).await;
    put(&db, &Session { namespace: other(), ..session("theirs", "/b") }).await;
    let theirs = Session { namespace: other(), ..session("theirs", "/b") };
    let journal = of_messages("theirs", [message(1, None)]);
    commit_as(&db, &other(), journal, &Memory::with(&theirs)).await.unwrap();

    for (id, owned, foreign) in [("mine", true, false), ("theirs", false, true), ("none", false, false)] {
        let found = sessions::by_id(&db, &team(), id).await.unwrap();
        assert_eq!((matches!(found, Found::Owned(_)), found == Found::Foreign), (owned, foreign), "{id}");
        let expected = match found {
            Found::Owned(_) => Found::Owned(Page::default()),
            Found::Foreign => Found::Foreign,
            Found::Missing => Found::Missing,
        };
        assert_eq!(page(&db, &team(), id, Range::Before(None), 5).await.unwrap(), expected, "the history of {id}");
    }
}

#[tokio::test]
async fn a_large_batch_is_split_into_parameters_that_d1_takes() {
    let db = Sqlite::with_schema();
    let owner = session("s", "/code");
    put(&db, &owner).await;
    let content = json(&format!("\"{}\"", "x".repeat(100_000)));
    let messages = (1..=35).map(|seq| Message { content: content.clone(), ..message(seq, None) });
    let statements = of_messages("s", messages).take(&team(), &Memory::with(&owner)).unwrap().statements;
    let sizes: Vec<usize> = statements.iter().flat_map(|s| &s.params).map(size).collect();
    assert!(sizes.iter().all(|size| *size <= 2_000_000), "{sizes:?}");
    let inserts = statements.iter().filter(|s| s.sql.contains("INSERT INTO messages")).count();
    assert!((2..=5).contains(&inserts), "35 rows of 100 KB go into {inserts} statements");
    db.batch(&statements).await.unwrap();
    assert_eq!(db.number("SELECT count(*) FROM messages"), 35);
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Null | Value::Integer(_) => 8,
    }
}

#[tokio::test]
async fn the_largest_message_fits_a_parameter_whatever_it_holds() {
    for filling in ["x", r#"\""#, r"\n"] {
        let db = Sqlite::with_schema();
        let owner = session("s", "/code");
        put(&db, &owner).await;
        let text = format!("\"{}\"", filling.repeat((MAX_CONTENT_BYTES - 2) / filling.len()));
        let journal = of_messages("s", [Message { content: json(&text), ..message(1, None) }]);
        let result = commit_as(&db, &team(), journal, &Memory::with(&owner)).await;
        assert_eq!(result, Ok(()), "a message full of {filling}");
    }
}

#[tokio::test]
async fn any_number_of_sessions_is_written_in_one_statement() {
    let db = Sqlite::with_schema();
    let mut memory = Memory::default();
    let mut journal = Journal::<Nothing>::default();
    for n in 0..500 {
        let session = session(&format!("s{n}"), &format!("/code/{n}"));
        journal.session(&session.id, Extent::Whole);
        memory.sessions.insert(session.id.clone(), session);
    }
    let statements = journal.take(&team(), &memory).unwrap().statements;
    assert_eq!(statements.iter().filter(|s| s.sql.contains("INSERT INTO sessions")).count(), 1);
    db.batch(&statements).await.unwrap();
    assert_eq!(sessions::lines(&db, &team()).await.unwrap().len(), 500);
}

#[tokio::test]
async fn local_ids_are_read_newest_first() {
    let db = Sqlite::with_schema();
    let owner = session("s", "/code");
    put(&db, &owner).await;
    let messages = [message(1, Some("a")), message(2, None), message(3, Some("c")), message(4, Some("d"))];
    put_messages(&db, &owner, messages).await;
    let reference = |seq: u64| MessageRef { id: format!("m{seq}"), seq, created_at: 1_000 + seq };
    let newest = sessions::local_ids(&db, &team(), "s", 2).await.unwrap();
    assert_eq!(newest, [("d".to_owned(), reference(4)), ("c".to_owned(), reference(3))]);
    assert_eq!(sessions::by_local_id(&db, &team(), "s", "a").await.unwrap(), Some(reference(1)));
    assert_eq!(sessions::by_local_id(&db, &team(), "s", "b").await.unwrap(), None);
}

#[tokio::test]
async fn a_machine_is_read_back_as_it_was_written_and_only_in_its_namespace() {
    let db = Sqlite::with_schema();
    let machine = Machine {
        seq: 4,
        active: true,
        active_at: 5,
        metadata: Some(json(r#"{"host":"box","z":1.0}"#)),
        metadata_version: 2,
        runner_state: Some(json(r#"{"pid":12345678901234567890}"#)),
        runner_state_version: 3,
        ..Machine::new("m".into(), team(), 1_000)
    };
    let memory = Memory { machines: HashMap::from([("m".into(), machine.clone())]), ..Memory::default() };
    let noted = || {
        let mut journal = Journal::default();
        journal.machine("m");
        journal
    };
    commit(&db, noted(), &memory).await;
    assert_eq!(machines::all(&db, &team()).await.unwrap(), std::slice::from_ref(&machine));
    assert_eq!(machines::all(&db, &other()).await.unwrap(), []);
    assert_eq!(machines::owner(&db, &team(), "m").await.unwrap(), Found::Owned(()));
    assert_eq!(machines::owner(&db, &other(), "m").await.unwrap(), Found::Foreign);
    assert_eq!(machines::owner(&db, &team(), "n").await.unwrap(), Found::Missing);

    let forged = Machine { seq: 99, namespace: other(), ..machine.clone() };
    let memory = Memory { machines: HashMap::from([("m".into(), forged)]), ..Memory::default() };
    let taken = commit_as(&db, &other(), noted(), &memory).await;
    assert!(matches!(taken, Err(DbError::Refused(_))), "{taken:?}");
    assert_eq!(machines::all(&db, &team()).await.unwrap(), [machine]);
}

#[tokio::test]
async fn the_first_secret_offered_is_kept_and_everybody_gets_it() {
    let db = Sqlite::with_schema();
    assert_eq!(secrets::keep(&db, "jwt", "first").await.unwrap(), "first");
    assert_eq!(secrets::keep(&db, "jwt", "second").await.unwrap(), "first");
    assert_eq!(secrets::keep(&db, "other", "second").await.unwrap(), "second");
}

#[tokio::test(start_paused = true)]
async fn two_that_offer_a_secret_at_once_agree_on_one() {
    let db = Sqlite::with_schema();
    db.hold(support::sqlite::On::Reads);
    let offers = futures::future::join(secrets::keep(&db, "jwt", "one"), secrets::keep(&db, "jwt", "two"));
    let released = async {
        support::quiet().await;
        assert_eq!(db.held(), 2, "both have found that there is none yet");
        db.release();
    };
    let ((one, two), ()) = futures::future::join(offers, released).await;
    assert_eq!(one.unwrap(), two.unwrap());
}

#[tokio::test]
async fn a_database_without_schema_says_so() {
    let db = Sqlite::without_schema();
    let errors = [
        secrets::keep(&db, "jwt", "x").await.unwrap_err(),
        sessions::by_id(&db, &team(), "s").await.unwrap_err(),
        sessions::lines(&db, &team()).await.unwrap_err(),
        machines::all(&db, &team()).await.unwrap_err(),
        page(&db, &team(), "s", Range::Before(None), 5).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, DbError::NoSchema(_)), "{error}");
    }
}

#[test]
fn errors_of_d1_are_sorted_by_what_to_do_about_them() {
    let sort = |message: &str| DbError::from_message(message.into());
    assert!(matches!(sort("D1_ERROR: no such table: sessions: SQLITE_ERROR"), DbError::NoSchema(_)));
    assert!(matches!(sort("D1_ERROR: no such column: todos"), DbError::NoSchema(_)));
    assert!(matches!(sort("D1_ERROR: Network connection lost."), DbError::Retryable(_)));
    assert!(matches!(sort("D1 DB is overloaded. Requests queued for too long."), DbError::Retryable(_)));
    assert!(matches!(sort("D1_ERROR: UNIQUE constraint failed: sessions.id"), DbError::Refused(_)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tag_and_local_id_is_found_again(tag in "\\PC{1,40}|[\\x00-\\x1f\"\\\\]{1,8}", local in any::<String>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let db = Sqlite::with_schema();
            let owner = session("s", &tag);
            put(&db, &owner).await;
            put_messages(&db, &owner, [message(1, Some(&local))]).await;
            let found = sessions::by_tag(&db, &team(), &tag).await.unwrap();
            prop_assert_eq!(found.map(|s| s.tag), Some(tag));
            let found = sessions::by_local_id(&db, &team(), "s", &local).await.unwrap();
            prop_assert_eq!(found.map(|m| m.seq), Some(1));
            let Found::Owned(page) = page(&db, &team(), "s", Range::After(0), 1).await.unwrap() else { panic!() };
            let message: serde_json::Value = serde_json::from_str(&page.messages).unwrap();
            prop_assert_eq!(message["localId"].as_str(), Some(local.as_str()));
            Ok(())
        })?;
    }
}
