//! The database of a namespace, if the deployment has several. Source: docs/design/databases.md.
//!
//! The first database is the *directory*: it has the place of each namespace, and the tables of access (devices, codes, generations of
//! tokens, push subscriptions, secrets) of all namespaces.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use futures::future::BoxFuture;

use super::columns::{Columns, find_last, read_last};
use super::retry::Environment;
use super::{Database, DbError, JoinedRows, Row, Statement, of_namespace, query};
use crate::model::namespace::Namespace;

/// The number of a database: 1 for the directory.
pub type DatabaseNumber = u64;

/// The number of the first database, whose binding is `DB`.
pub const DIRECTORY: DatabaseNumber = 1;

/// How long a new namespace waits for the sizes of the databases, in milliseconds.
const SIZE_TIMEOUT_MS: u64 = 2_000;

/// The place of a namespace `?1`, and whether it has rows in the directory, from before there were several databases.
const FIND: &str = "
SELECT (SELECT database FROM namespace_places WHERE namespace = ?1) AS database,
  EXISTS (SELECT 1 FROM sessions WHERE namespace IN (?1, '/' || ?1, '//' || ?1))
  OR EXISTS (SELECT 1 FROM machines WHERE namespace = ?1) OR EXISTS (SELECT 1 FROM value_parts WHERE namespace = ?1) AS has_rows";

/// Returns the key of the fence around the tables of access. The database may also have the fence of the namespace, under its name.
pub fn access_key(namespace: &Namespace) -> String {
    format!("/{namespace}")
}

pub struct Databases {
    /// In the order of their numbers. Not empty.
    pub all: Vec<Arc<dyn Database>>,
    /// The numbers of the databases that accept no new namespaces.
    closed: Vec<DatabaseNumber>,
}

pub fn binding(number: DatabaseNumber) -> String {
    if number == DIRECTORY { "DB".to_owned() } else { format!("DB_{number}") }
}

impl Databases {
    /// The databases of a deployment, the directory first. `closed`: `DATABASES_CLOSED`, the bindings that accept no new namespaces.
    pub fn new(all: Vec<Arc<dyn Database>>, closed: &str) -> Result<Self, String> {
        let mut databases = Self { all, closed: Vec::new() };
        for name in closed.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let number = databases.number(name).ok_or_else(|| {
                let names: Vec<String> = databases.numbers().map(binding).collect();
                format!("DATABASES_CLOSED must name databases of `{}`, but has `{name}`.", names.join("`, `"))
            })?;
            databases.closed.push(number);
        }
        match databases.numbers().any(|number| databases.is_open(number)) {
            true => Ok(databases),
            false => Err("DATABASES_CLOSED names all databases: a new namespace needs one of them.".into()),
        }
    }

    pub fn is_single(&self) -> bool {
        self.all.len() == 1
    }

    pub fn numbers(&self) -> std::ops::RangeInclusive<DatabaseNumber> {
        DIRECTORY..=self.all.len() as DatabaseNumber
    }

    pub fn is_open(&self, number: DatabaseNumber) -> bool {
        !self.closed.contains(&number)
    }

    pub fn number(&self, name: &str) -> Option<DatabaseNumber> {
        self.numbers().find(|number| binding(*number) == name)
    }

    pub fn get(&self, number: DatabaseNumber) -> Result<&Arc<dyn Database>, DbError> {
        let index = usize::try_from(number.wrapping_sub(1)).unwrap_or(usize::MAX);
        self.all.get(index).ok_or_else(|| DbError::NotBound(binding(number)))
    }

    /// Returns the smallest of the databases that accept new namespaces and answer in time.
    async fn emptiest(&self, environment: &dyn Environment) -> Result<DatabaseNumber, DbError> {
        let mut emptiest = None;
        let open = self.all.iter().zip(DIRECTORY..).filter(|(_, number)| self.is_open(*number));
        let mut sizes: Vec<_> = open.map(|(db, number)| (db.size(), number)).collect();
        let mut timeout = environment.sleep(SIZE_TIMEOUT_MS);
        poll_fn(|context| {
            sizes.retain_mut(|(size, number)| match size.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(size) => {
                    let size = size.ok().map(|bytes| (bytes, *number));
                    emptiest = emptiest.into_iter().chain(size).min();
                    false
                }
            });
            if sizes.is_empty() { Poll::Ready(()) } else { timeout.as_mut().poll(context) }
        })
        .await;
        let (_, number) =
            emptiest.ok_or_else(|| DbError::Retryable("no database for new namespaces answers".into()))?;
        Ok(number)
    }
}

/// Returns the place of a namespace; `None` if it has none yet.
pub async fn find(directory: &dyn Database, namespace: &Namespace) -> Result<Option<DatabaseNumber>, DbError> {
    let sql = "SELECT database FROM namespace_places WHERE namespace = ?1";
    let place = find_last(directory, "namespace_places", of_namespace(namespace, [sql])).await?;
    place.map(|mut c| c.number("database")).transpose()
}

pub async fn count_namespaces(db: &dyn Database) -> Result<u64, DbError> {
    // Each namespace that has written rows has a fence. A key with `/` is that of a namespace's access.
    let sql = "SELECT count(*) AS namespaces FROM fences
WHERE namespace NOT GLOB '/*' AND namespace NOT IN (SELECT namespace FROM moved_namespaces)";
    read_last(db, "fences", vec![Statement::new(sql, [])]).await?.number("namespaces")
}

pub async fn set(directory: &dyn Database, namespace: &Namespace, number: DatabaseNumber) -> Result<(), DbError> {
    let sql = "INSERT INTO namespace_places (namespace, database) VALUES (?1, ?2)
ON CONFLICT (namespace) DO UPDATE SET database = excluded.database";
    query(directory, Statement::new(sql, [namespace.into(), number.into()])).await.map(drop)
}

pub async fn forget(directory: &dyn Database, namespace: &Namespace) -> Result<(), DbError> {
    let sql = "DELETE FROM namespace_places WHERE namespace = ?1";
    query(directory, Statement::new(sql, [namespace.into()])).await.map(drop)
}

/// Records in `db` whether the namespace has moved to another database. If it has moved, workers read no messages in `db`.
pub async fn mark_moved(db: &dyn Database, namespace: &Namespace, has_moved: bool) -> Result<(), DbError> {
    let sql = match has_moved {
        true => "INSERT INTO moved_namespaces (namespace) VALUES (?1) ON CONFLICT DO NOTHING",
        false => "DELETE FROM moved_namespaces WHERE namespace = ?1",
    };
    query(db, Statement::new(sql, [namespace.into()])).await.map(drop)
}

/// Writes a place to the object's storage. The flag is true if the place was chosen now, so that no other database has rows of the namespace.
pub type PersistPlace = Box<dyn Fn(DatabaseNumber, bool) + Send + Sync>;

/// The database of a namespace. Its place is determined by the first query, and not before, so a client without a token causes no place.
pub struct Placed {
    databases: Arc<Databases>,
    namespace: Namespace,
    /// 0 until it is known.
    number: AtomicU64,
    environment: Box<dyn Environment>,
    persist: PersistPlace,
}

impl Placed {
    /// `known` is the place from the object's storage. A place that is found later is passed to `persist`.
    pub fn new(
        databases: Arc<Databases>,
        namespace: Namespace,
        known: Option<DatabaseNumber>,
        environment: Box<dyn Environment>,
        persist: PersistPlace,
    ) -> Self {
        Self { databases, namespace, number: AtomicU64::new(known.unwrap_or(0)), environment, persist }
    }

    /// Returns the place if it is known, and 0 otherwise.
    pub fn known_number(&self) -> DatabaseNumber {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns the place. A new namespace gets the emptiest database; one with rows in the directory remains there.
    pub fn number(&self) -> BoxFuture<'_, Result<DatabaseNumber, DbError>> {
        Box::pin(async move {
            let known = self.known_number();
            if known > 0 {
                return Ok(known);
            }
            let (directory, namespace) = (self.databases.get(DIRECTORY)?, &self.namespace);
            let mut columns = read_last(directory, "namespace_places", of_namespace(namespace, [FIND])).await?;
            let (number, is_chosen) = match (columns.optional("database", Columns::number)?, columns.flag("has_rows")?)
            {
                (Some(number), _) => (number, false),
                (None, has_rows) => {
                    let number = if has_rows { DIRECTORY } else { self.databases.emptiest(&*self.environment).await? };
                    let sql =
                        "INSERT INTO namespace_places (namespace, database) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                    query(directory, Statement::new(sql, [namespace.into(), number.into()])).await?;
                    let found = find(directory, namespace).await?.unwrap_or(number);
                    (found, found == number)
                }
            };
            if self.number.swap(number, Ordering::Relaxed) == 0 {
                (self.persist)(number, is_chosen);
            }
            Ok(number)
        })
    }

    async fn database(&self) -> Result<&Arc<dyn Database>, DbError> {
        self.databases.get(self.number().await?)
    }
}

impl Database for Placed {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(async move { self.database().await?.batch(statements).await })
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(async move { self.database().await?.query_joined(statement, limit).await })
    }
}
