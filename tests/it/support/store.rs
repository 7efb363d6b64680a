//! Helpers for tests of the store without a hub.

use std::collections::HashMap;

use session_gateway_hub::memory_budget::MemoryBudget;
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::machine::Machine;
use session_gateway_hub::model::message::Message;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::model::session::Session;
use session_gateway_hub::model::summary::SummaryFields;
use session_gateway_hub::store::columns::read_owned;
use session_gateway_hub::store::history::{PageRange, read_page};
use session_gateway_hub::store::memory::ReadMemory;
use session_gateway_hub::store::messages::{self, MessageRef};
use session_gateway_hub::store::summaries::Selection;
use session_gateway_hub::store::write_queue::{CacheView, MemorySize, SessionColumns, WriteQueue};
use session_gateway_hub::store::{Found, machines, query, sessions, summaries};

use super::environment::FakeEnvironment;
use super::prelude::*;

pub fn team_namespace() -> Namespace {
    Namespace::parse("team").unwrap()
}

pub fn other_namespace() -> Namespace {
    Namespace::parse("other").unwrap()
}

pub async fn load_by_tag(db: &dyn Database, namespace: &Namespace, tag: &str) -> Result<Option<Session>, DbError> {
    sessions::read_by_tag(namespace, query(db, sessions::select_by_tag(namespace, tag)).await?)
}

/// The first page of the session summaries of a namespace, in the order of the tags.
pub async fn load_summaries(db: &dyn Database, namespace: &Namespace) -> Result<Vec<SummaryFields>, DbError> {
    summaries::load(db, namespace, &Selection::After(String::new())).await.map(|read| read.fields)
}

pub async fn load_machines(db: &dyn Database, namespace: &Namespace) -> Result<Vec<Machine>, DbError> {
    machines::read_all(namespace, query(db, machines::select_all(namespace)).await?)
}

pub async fn find_machine_owner(db: &dyn Database, namespace: &Namespace, id: &str) -> Result<Found<()>, DbError> {
    read_owned("machines", query(db, machines::select_owner(namespace, id)).await?)
}

/// Finds messages by pairs of a session and a local id, in the namespace `team`.
pub async fn find_by_local_ids(
    db: &dyn Database,
    pairs: &[(String, String)],
) -> Result<Vec<Option<MessageRef>>, DbError> {
    let mut statements = messages::select_by_local_ids(&team_namespace(), pairs).collect();
    let mut results = db.batch(&mut statements).await?;
    messages::read_by_local_ids(pairs.len(), &statements, &mut results)
}

pub fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// The sessions and machines that the write queue reads.
#[derive(Default)]
pub struct Cache {
    pub sessions: HashMap<String, Session>,
    pub machines: HashMap<String, Machine>,
}

impl CacheView for &Cache {
    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.get(id)
    }

    fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.get(id)
    }
}

impl Cache {
    pub fn with(session: &Session) -> Self {
        Self { sessions: HashMap::from([(session.id.clone(), session.clone())]), ..Self::default() }
    }
}

pub fn session(id: &str, tag: &str) -> Session {
    let metadata = json(r#"{"path":"/code","host":"box"}"#);
    Session::new(id.into(), team_namespace(), tag.into(), Some(metadata), 1_000)
}

pub fn message(seq: u64, local_id: Option<&str>) -> Message {
    let (id, local_id) = (format!("m{seq}"), local_id.map(str::to_owned));
    Message { id, seq, local_id, content: json(&format!(r#"{{"n":{seq}}}"#)), created_at: 1_000 + seq }
}

/// For `WriteQueue<E>`: `E` is what the hub does after a commit, such as sending an update. These tests need no effects.
pub struct NoEffect;

impl MemorySize for NoEffect {
    fn text_bytes(&self) -> usize {
        0
    }
}

/// Commits a write queue as the hub of this namespace does.
pub async fn commit_as(
    db: &Sqlite,
    namespace: &Namespace,
    mut write_queue: WriteQueue<NoEffect>,
    cache: &Cache,
) -> Result<(), DbError> {
    let mut batch = write_queue.take_batch(namespace, &cache).expect("the write queue is empty");
    for mut statements in batch.part_statements(namespace) {
        db.batch(&mut statements).await?;
    }
    db.batch(&mut batch.statements).await.map(drop)
}

/// Commits a write queue of the namespace `team`.
pub async fn commit(db: &Sqlite, write_queue: WriteQueue<NoEffect>, cache: &Cache) {
    commit_as(db, &team_namespace(), write_queue, cache).await.unwrap();
}

/// Stores a session.
pub async fn put(db: &Sqlite, session: &Session) {
    let mut write_queue = WriteQueue::default();
    write_queue.queue_session(&session.id, SessionColumns::All);
    commit_as(db, &session.namespace, write_queue, &Cache::with(session)).await.unwrap();
}

/// A write queue with messages of a session.
pub fn queue_of(session: &str, messages: impl IntoIterator<Item = Message>) -> WriteQueue<NoEffect> {
    let mut write_queue = WriteQueue::default();
    messages.into_iter().for_each(|message| write_queue.queue_message(session, message));
    write_queue
}

/// Stores messages of a session.
pub async fn put_messages(db: &Sqlite, session: &Session, messages: impl IntoIterator<Item = Message>) {
    commit(db, queue_of(&session.id, messages), &Cache::with(session)).await;
}

/// Reads a session of the namespace `team`.
pub async fn stored(db: &Sqlite, id: &str) -> Session {
    match sessions::load_by_id(db, &team_namespace(), id).await.unwrap() {
        Found::InNamespace(session) => session,
        other => panic!("{other:?}"),
    }
}

/// How much memory the reads of a namespace may use: the share of a namespace in a memory budget of its own.
pub fn read_memory() -> ReadMemory {
    ReadMemory::new(Arc::new(MemoryBudget::default()).namespace_budget("team"), Arc::new(FakeEnvironment::default()))
}

/// The seqs of a page, and whether there are more messages.
pub async fn seqs(db: &Sqlite, session: &str, range: PageRange, limit: u64) -> (Vec<u64>, bool) {
    let Found::InNamespace(page) =
        read_page(db, &read_memory(), (&team_namespace(), session), range, limit, None).await.unwrap()
    else {
        panic!("no page")
    };
    let messages: Vec<serde_json::Value> = serde_json::from_str(&format!("[{}]", page.messages)).unwrap();
    let seqs: Vec<u64> = messages.iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!(page.last_seq, seqs.last().copied());
    (seqs, page.has_more)
}
