//! A rollback to a version before migration `0009`. When that version begins its epoch, a trigger rewrites the rows of the
//! namespace, so that the SQL of that version finds what it expects.

use crate::support::prelude::*;
use crate::support::store::{
    Cache, commit, message, other_namespace, put, put_messages, seqs, session, stored, team_namespace,
};
use session_gateway_hub::model::message::Message;
use session_gateway_hub::model::session::Session;
use session_gateway_hub::store::fence::BEGIN_EPOCH;
use session_gateway_hub::store::history::PageRange;
use session_gateway_hub::store::write_queue::WriteQueue;
use session_gateway_hub::store::{Statement, removals};

const BEGIN_EPOCH_BEFORE_0009: &str = "
INSERT INTO fences (namespace, epoch) VALUES (?1, ?2)
ON CONFLICT (namespace) DO UPDATE SET epoch = excluded.epoch WHERE fences.epoch < excluded.epoch";

async fn begin_epoch(db: &Sqlite, sql: &'static str, epoch: u64) {
    db.batch(&mut vec![Statement::new(sql, ["team".into(), epoch.into()])]).await.unwrap();
}

/// A database with the sessions `s` and `new`. Session `s` has two messages. Session `new` has six: three that
/// were merged from `old` (the second one has parts), two of its own, and one from after the merge. Another namespace has a
/// session `o` with one message.
async fn database() -> Sqlite {
    let db = Sqlite::with_schema();
    begin_epoch(&db, BEGIN_EPOCH, 1).await;
    for (id, messages) in [("s", 1..=2), ("old", 1..=3), ("new", 4..=5)] {
        put(&db, &session(id, id)).await;
        let renumbered =
            |seq: u64| Message { seq: seq - messages.start() + 1, ..message(seq, Some(&format!("l{seq}"))) };
        put_messages(&db, &session(id, id), messages.clone().map(renumbered)).await;
    }
    db.execute(
        "UPDATE messages SET parts = 1, bytes = 8 WHERE session_id = 'old' AND seq = 2;
         INSERT INTO message_parts (session_id, message_id, part, content) VALUES ('old', 'm2', 1, ' ')",
    );
    let new = stored(&db, "new").await;
    let last_seqs_of_chunks = removals::load_chunk_ends(&db, &team_namespace(), "new").await.unwrap().unwrap();
    db.batch(&mut removals::merge(&team_namespace(), "old", &new, &last_seqs_of_chunks)).await.unwrap();
    put_messages(&db, &new, [Message { created_at: 9_000, ..message(6, None) }]).await;

    put(&db, &Session { namespace: other_namespace(), ..session("o", "o") }).await;
    db.execute("INSERT INTO messages (session_id, seq, id, created_at, content) VALUES ('o', 1, 'o1', 1, '1')");
    db
}

/// The number of messages that the earlier version finds for a session, and the seq in the row of the session.
fn count_and_seq(db: &Sqlite, session: &str) -> (i64, i64) {
    let select_number = |sql: &str| db.number(&sql.replace('?', &format!("'{session}'")));
    (
        select_number("SELECT count(*) FROM messages WHERE session_id = ?"),
        select_number("SELECT seq FROM sessions WHERE id = ?"),
    )
}

#[tokio::test]
async fn the_earlier_version_finds_the_seq_and_the_messages_of_each_session() {
    let db = database().await;
    assert_eq!(
        [count_and_seq(&db, "s"), count_and_seq(&db, "new")],
        [(2, 0), (0, 5)],
        "before the rollback, the rows do not suit the earlier version"
    );
    begin_epoch(&db, BEGIN_EPOCH_BEFORE_0009, 2).await;
    assert_eq!([count_and_seq(&db, "s"), count_and_seq(&db, "new")], [(2, 2), (6, 6)]);
    assert_eq!(db.number("SELECT updated_at FROM sessions WHERE id = 'new'"), 9_000);
    assert_eq!(db.number("SELECT count(*) FROM message_parts WHERE session_id = 'new' AND message_id = 'm2'"), 1);
    assert_eq!(db.number("SELECT count(*) FROM sessions WHERE history IS NOT NULL"), 0);
    assert_eq!(count_and_seq(&db, "o"), (1, 0), "the object of the other namespace has not started");
    assert_eq!(db.select("PRAGMA foreign_key_check").len(), 0);
}

#[tokio::test]
async fn the_current_version_continues_after_the_earlier_one() {
    let db = database().await;
    for epoch in [2, 3] {
        begin_epoch(&db, BEGIN_EPOCH_BEFORE_0009, epoch).await;
    }
    db.execute(
        "INSERT INTO messages (session_id, seq, id, created_at, content)
         SELECT id, seq + 1, id || 'next', 9500, '1' FROM sessions WHERE namespace = 'team';
         UPDATE sessions SET seq = seq + 1 WHERE namespace = 'team'",
    );
    begin_epoch(&db, BEGIN_EPOCH, 4).await;
    assert_eq!(seqs(&db, "new", PageRange::After(0), 10).await.0, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(seqs(&db, "s", PageRange::After(0), 10).await.0, [1, 2, 3]);
    let mut write_queue = WriteQueue::default();
    ["s", "new"].into_iter().for_each(|id| write_queue.delete_session(id));
    commit(&db, write_queue, &Cache::default()).await;
    while removals::sweep(&db, &team_namespace()).await.unwrap() {}
    assert_eq!((count_and_seq(&db, "o").0, db.number("SELECT count(*) FROM messages")), (1, 1));
    assert_eq!(db.number("SELECT count(*) FROM sessions"), 1);
    assert_eq!(db.number("SELECT count(*) FROM message_parts"), 0);
}

#[tokio::test]
async fn the_current_version_changes_no_row_when_it_begins_an_epoch() {
    let db = database().await;
    begin_epoch(&db, BEGIN_EPOCH, 2).await;
    assert_eq!(
        [count_and_seq(&db, "s"), count_and_seq(&db, "new"), count_and_seq(&db, "old")],
        [(2, 0), (0, 5), (6, 0)]
    );
}
