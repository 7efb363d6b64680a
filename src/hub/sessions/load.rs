//! Loading sessions from the database into the cache. Each read begins with a [ticket](crate::hub::core::sessions::evictions::ReadTicket),
//! which is invalid if the session was evicted during the read: then the result may be stale, and the read is repeated.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::local_ids::LocalIds;
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::core::sessions::completed_requests::CompletedRequests;
use crate::hub::core::sessions::evictions::{CurrentRead, Key};
use crate::hub::core::sessions::tags::Tags;
use crate::hub::core::state::State;
use crate::hub::turn::Turn;
use crate::hub::write::large::{incomplete_value, session_segments};
use crate::limits::MAX_LOCAL_IDS;
use crate::memory_budget::ResponseText;
use crate::model::agent_state;
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::large::InlineOrLarge;
use crate::model::namespace::Namespace;
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::model::todo;
use crate::store::{
    Database, Found, Row, Statement, completed_requests, held_messages, messages, query, sessions as store, summaries,
};

/// How many messages are searched for a todo list at a time.
const TODO_CANDIDATES: u64 = 50;

/// The related rows that are read in one batch with a session that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelatedRows {
    None,
    LocalIds,
    CompletedRequests,
    HeldMessages,
    /// Everything that clients see of a session.
    Shown,
}

impl RelatedRows {
    fn select(self, namespace: &Namespace, id: &str) -> Vec<Statement> {
        match self {
            Self::None => Vec::new(),
            Self::LocalIds => vec![messages::select_local_ids(namespace, id, MAX_LOCAL_IDS as u64)],
            Self::CompletedRequests => vec![completed_requests::select(namespace, id)],
            Self::HeldMessages => vec![held_messages::select(namespace, id)],
            Self::Shown => vec![
                completed_requests::select(namespace, id),
                messages::select_todo_candidates(namespace, id, 1, MAX_SAFE_INTEGER),
            ],
        }
    }
}

/// Returns the agent state without completed requests; null if no request is pending, so that a large state is not read in vain.
pub(in crate::hub) fn state_if_pending(session: &Session) -> &InlineOrLarge {
    match agent_state::count_pending(session.agent_state.json()) {
        0 => &InlineOrLarge::Null,
        _ => &session.agent_state,
    }
}

impl Hub {
    /// Loads a session, and waits while a merge locks it.
    pub fn load_session<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.load_session_with(id, RelatedRows::None)
    }

    /// Loads a session. Loads related rows only if the session is not in memory. Waits while a merge locks the session.
    pub(in crate::hub) fn load_session_with<'a>(
        &'a self,
        id: &'a str,
        related: RelatedRows,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            loop {
                self.load_session_during_merge(id, related).await?;
                let Some(unlocked) = self.turn().in_flight.wait_for_unlock(id) else { return Ok(()) };
                // A merge may have deleted the session, so the session is loaded again.
                let _ = unlocked.await;
            }
        })
    }

    /// Loads a session like [`load_session_with`](Self::load_session_with), without waiting for a merge.
    pub async fn load_session_during_merge(&self, id: &str, related: RelatedRows) -> Result<(), Error> {
        loop {
            if self.turn().cache.touch(id) {
                return Ok(());
            }
            let ticket = self.begin_read().await?;
            let namespace = &self.config.namespace;
            let mut statements = Vec::from(store::select_by_id(namespace, id));
            statements.extend(related.select(namespace, id));
            let read = async move {
                match related {
                    RelatedRows::None => self.look_up(statements).await,
                    // In a batch of its own: with other lookups, 1.5 MB of local ids or 10 MB of requests could be too large.
                    _ => self.db.batch(&mut statements).await,
                }
            };
            let mut results = self.read_beside_log(Box::pin(read)).await?.into_iter();
            let found = store::read_found(namespace, &mut results)?;
            let mut turn = self.turn();
            let Some(read) = turn.cache.evictions.redeem(&ticket, Key::Id(id)) else { continue };
            return match found {
                Found::InNamespace(session) => {
                    turn.insert_loaded(&read, session);
                    insert_related_rows(&mut turn, read, id, related, results)
                }
                Found::Foreign => Err(Error::Forbidden(Kind::Session)),
                Found::Missing => Err(Error::NotFound(Kind::Session)),
            };
        }
    }

    /// Loads the session with a tag, and waits while a merge locks the session. If no session has the tag, reads the tags of the
    /// namespace, unless they were read before: then a new tag needs no query.
    pub(in crate::hub) async fn load_by_tag(&self, tag: &str) -> Result<(), Error> {
        loop {
            let cached = self.turn().cache.entry_by_tag(tag).map(|entry| entry.session.id.clone());
            if let Some(id) = cached {
                let Some(unlocked) = self.turn().in_flight.wait_for_unlock(&id) else { return Ok(()) };
                let _ = unlocked.await;
                continue;
            }
            let may_exist = self.turn().cache.tags().is_none_or(|tags| tags.may_contain(tag));
            if !may_exist {
                return Ok(());
            }
            let ticket = self.begin_read().await?;
            let namespace = &self.config.namespace;
            let mut statements = vec![store::select_by_tag(namespace, tag)];
            if self.turn().cache.tags().is_none() {
                statements.push(summaries::count_without_tag(namespace, tag));
            }
            let mut results = self.read_beside_log(Box::pin(self.look_up(statements))).await?.into_iter();
            let found = store::read_by_tag(namespace, results.next().unwrap_or_default())?;
            let tags = results.next().map(summaries::read_tags).transpose()?;
            let mut turn = self.turn();
            let Some(read) = turn.cache.evictions.redeem(&ticket, Key::Tag(tag)) else { continue };
            if let Some(session) = found {
                turn.insert_loaded(&read, session);
                continue;
            }
            if let Some((count, ends)) = tags {
                turn.cache.insert_tags(read, Tags::new(count, ends));
            }
            return Ok(());
        }
    }

    pub(in crate::hub) async fn load_completed(&self, id: &str) -> Result<(), Error> {
        loop {
            self.load_session_with(id, RelatedRows::CompletedRequests).await?;
            if self.turn().cache.require_entry(id)?.completed.is_some() {
                return Ok(());
            }
            self.load_related(id, RelatedRows::CompletedRequests).await?;
        }
    }

    /// Searches the messages of a session without todos, once while it is cached: a list may be older than the hub's support of todos.
    async fn search_todos_once(&self, id: &str) -> Result<(), Error> {
        let needs_search =
            self.turn().cache.entry(id).is_some_and(|entry| {
                !entry.has_searched_todos && entry.session.todos.is_none() && entry.session.seq > 0
            });
        if !needs_search {
            return Ok(());
        }
        let todos = self.search_todos(id).await?;
        self.load_session(id).await?;
        {
            let mut turn = self.turn();
            let Some(entry) = turn.cache.entry_mut_without_before_image(id) else { return Ok(()) };
            entry.has_searched_todos = true;
            let Some(todos) = todos else { return Ok(()) };
            turn.change_session(id, |session| {
                session.todos.get_or_insert(todos);
            })?;
        }
        self.start_commit();
        Ok(())
    }

    /// Returns the newest todo list in the messages of a session.
    async fn search_todos(&self, id: &str) -> Result<Option<Json>, Error> {
        let mut before_seq = MAX_SAFE_INTEGER;
        loop {
            let namespace = &self.config.namespace;
            let select = messages::select_todo_candidates(namespace, id, TODO_CANDIDATES, before_seq);
            let found = messages::read_todo_candidates(query(&self.db, select).await?)?;
            let todos = found.iter().find_map(|(_, content)| todo::find(content, &self.config.vocabulary));
            match found.last() {
                Some((last, _)) if todos.is_none() && found.len() as u64 == TODO_CANDIDATES => before_seq = *last,
                _ => return Ok(todos),
            }
        }
    }

    /// Loads related rows of a cached session. Does nothing if the session is evicted during the read.
    pub(super) async fn load_related(&self, id: &str, related: RelatedRows) -> Result<(), Error> {
        let ticket = self.begin_read().await?;
        let results = self.db.batch(&mut related.select(&self.config.namespace, id)).await?;
        let mut turn = self.turn();
        match turn.cache.evictions.redeem(&ticket, Key::Id(id)) {
            Some(read) => insert_related_rows(&mut turn, read, id, related, results),
            None => Ok(()),
        }
    }

    /// Loads a session, applies `change`, and waits until the queued changes are durable. Waits while a merge locks the session.
    pub(in crate::hub) async fn with_session<T>(
        &self,
        id: &str,
        change: impl FnOnce(&mut Turn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.load_session(id).await?;
        let result = change(&mut self.turn())?;
        self.flush().await?;
        Ok(result)
    }

    /// Reads the whole value of a session's field, and applies `change`. Reads it again if it changes or a merge locks the session.
    pub(in crate::hub) async fn with_field<T>(
        &self,
        id: &str,
        field: impl Fn(&Session) -> &InlineOrLarge,
        mut change: impl FnMut(&mut Turn<'_>, Option<Json>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            self.load_session(id).await?;
            let large = {
                let mut turn = self.turn();
                match field(&turn.cache.require_entry(id)?.session).clone() {
                    InlineOrLarge::Large { large, .. } => large,
                    value => return change(&mut turn, value.json().cloned()),
                }
            };
            let value = self.read_durable_value(id, &large).await?;
            let mut turn = self.turn();
            let is_current = |entry: &CachedSession| field(&entry.session).large() == Some(&large);
            if !turn.in_flight.is_locked(id) && turn.cache.entry(id).is_some_and(is_current) {
                return change(&mut turn, Some(value.ok_or_else(incomplete_value)?));
            }
        }
    }

    /// Returns a session as JSON text, with large values and all completed requests, as [`Hub::serialize`] does.
    pub async fn serialize_session(&self, id: &str) -> Result<ResponseText, Error> {
        let load = || -> BoxFuture<'_, Result<(), Error>> { Box::pin(self.load_shown(id)) };
        self.serialize(
            (Kind::Session, id),
            load,
            |cache| cache.require_entry(id),
            |queue| queue.committed_session(id),
            session_segments,
        )
        .await
    }

    /// Loads everything that clients see of a session.
    async fn load_shown(&self, id: &str) -> Result<(), Error> {
        self.load_session_with(id, RelatedRows::Shown).await?;
        self.load_completed(id).await?;
        self.search_todos_once(id).await?;
        // The session may have been evicted during the search.
        self.load_completed(id).await
    }
}

impl Turn<'_> {
    /// Inserts a session that was read from the database, and starts its deadline if it is active.
    pub(super) fn insert_loaded(&mut self, read: &CurrentRead, mut session: Session) {
        if session.active {
            let owner = Owner::Session(session.id.clone());
            (session.active_at, session.disconnected) = self.restore_liveness(owner, session.active_at);
        }
        self.state.cache.insert_loaded(read, session);
        self.state.evict_sessions();
    }
}

/// Inserts the results of [`RelatedRows::select`] into a cached session that lacks them.
fn insert_related_rows(
    state: &mut State,
    _: CurrentRead,
    id: &str,
    related: RelatedRows,
    results: impl IntoIterator<Item = Vec<Row>>,
) -> Result<(), Error> {
    let Some(entry) = state.cache.entry_mut_without_before_image(id) else { return Ok(()) };
    let mut results = results.into_iter();
    let mut next_rows = || results.next().unwrap_or_default();
    match related {
        // The rows contain all local ids: until they are loaded, only messages without a local id are added.
        RelatedRows::LocalIds if entry.local_ids.is_none() => {
            entry.local_ids = Some(LocalIds::from_rows(messages::read_local_ids(next_rows())?, entry.session.seq));
        }
        RelatedRows::CompletedRequests | RelatedRows::Shown if entry.completed.is_none() => {
            let loaded = completed_requests::read(next_rows())?;
            entry.completed = Some(Arc::new(CompletedRequests::from_rows(loaded.entries)));
            entry.has_searched_todos |= related == RelatedRows::Shown && next_rows().is_empty();
            if loaded.exceeds_limit {
                state.write_queue.trim_completed_requests(id);
            }
        }
        // A deletion of all held messages during the read has set an empty list, which is newer than the rows.
        RelatedRows::HeldMessages if entry.held.is_none() => {
            entry.held = Some(held_messages::read(next_rows())?);
        }
        _ => return Ok(()),
    }
    state.evict_sessions();
    Ok(())
}
