//! Reads in the worker: finds the database of a namespace, if the deployment has several. Source: docs/design/databases.md.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::error::ErrorResponse;
use super::history::HistoryRequest;
use super::response::{Response, to_response};
use crate::hub::core::error::Error;
use crate::memory_budget::{MemoryBudget, ResponseText, lock};
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::store::memory::ReadMemory;
use crate::store::places::{DIRECTORY, DatabaseNumber, Databases, binding, count_namespaces, find};
use crate::store::retry::Environment;
use crate::store::{Database, DbError};

/// The cache forgets all places when it has this many.
const MAX_CACHED_PLACES: usize = 10_000;

/// The databases, and the places that were looked up.
pub struct EdgePlaces {
    pub databases: Databases,
    cache: Mutex<HashMap<Namespace, DatabaseNumber>>,
    memory_budget: Arc<MemoryBudget>,
    environment: Arc<dyn Environment>,
}

impl EdgePlaces {
    pub fn new(databases: Databases, memory_budget: Arc<MemoryBudget>, environment: Arc<dyn Environment>) -> Self {
        Self { databases, cache: Mutex::default(), memory_budget, environment }
    }

    /// Reads a page of a session's messages, which needs only the database.
    pub async fn read_history(&self, request: &HistoryRequest, query: &str) -> Response {
        let page = self.find_page(request, query).await;
        to_response(page.map_err(ErrorResponse::from))
    }

    /// Reads a page as [`HistoryRequest::read`] does. A cached place may be out of date: the earlier database has no page then, because the
    /// namespace is marked as moved there. So the place is looked up again before the request fails. With one database, the place is looked
    /// up only if the session is missing: the database of the namespace may be no longer bound.
    async fn find_page(&self, request: &HistoryRequest, query: &str) -> Result<ResponseText, Error> {
        let budget = self.memory_budget.namespace_budget(request.namespace.as_ref());
        let memory = ReadMemory::new(budget, Arc::clone(&self.environment));
        let namespace = &request.namespace;
        let is_single = self.databases.is_single();
        let cached = if is_single { Some(DIRECTORY) } else { lock(&self.cache).get(namespace).copied() };
        let mut number = match cached {
            Some(number) => number,
            None => self.look_up(namespace).await?,
        };
        loop {
            let db: &dyn Database = &**self.databases.get(number)?;
            let page = request.read(db, &memory, query).await;
            if page.as_ref().map_or_else(|error| is_single && !matches!(error, Error::NotFound(_)), |_| true) {
                return page;
            }
            match self.look_up(namespace).await? {
                current if current == number => return page,
                current => number = current,
            }
        }
    }

    /// `GET /api/namespaces/databases`. A database that fails is listed with its error. Fails if all databases fail.
    pub async fn list(&self) -> Result<Vec<Json>, DbError> {
        let mut list = Vec::new();
        let mut failures = Vec::new();
        for number in self.databases.numbers() {
            let (name, db, is_open) = (binding(number), self.databases.get(number)?, self.databases.is_open(number));
            let counted = async { Ok::<_, DbError>((db.size().await?, count_namespaces(&**db).await?)) }.await;
            let error = counted.as_ref().err().map(|error| ("error", Json::of(&error.to_string())));
            let (bytes, namespaces) = counted.map_err(|error| failures.push(error)).ok().unzip();
            let counts = [("bytes", Json::of(&bytes)), ("namespaces", Json::of(&namespaces))];
            let members = [("name", Json::of(&name))].into_iter().chain(counts).chain(error);
            list.push(Json::object(&members.chain([("isOpen", Json::of(&is_open))]).collect::<Vec<_>>()));
        }
        match failures.pop() {
            Some(failure) if failures.len() + 1 == list.len() => Err(failure),
            _ => Ok(list),
        }
    }

    /// Looks up a place. A namespace without a place is in the database [`DIRECTORY`]. This result is not cached, because the object of the
    /// namespace may still choose another database.
    async fn look_up(&self, namespace: &Namespace) -> Result<DatabaseNumber, DbError> {
        let Some(number) = find(&**self.databases.get(DIRECTORY)?, namespace).await? else { return Ok(DIRECTORY) };
        let mut cache = lock(&self.cache);
        if cache.len() >= MAX_CACHED_PLACES {
            cache.clear();
        }
        cache.insert(namespace.clone(), number);
        Ok(number)
    }
}
