//! Sessions: finding, making, listing, naming, deleting.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hub::error::{Error, Kind, check_size};
use crate::hub::large::{METADATA, without};
use crate::hub::limits::{MAX_TAG_BYTES, TODO_CANDIDATES};
use crate::hub::sessions::updates::split_agent_state;
use crate::hub::state::cache::Archived;
use crate::hub::state::effect::Effect;
use crate::hub::{Hub, State};
use crate::model::agent_state::AgentState;
use crate::model::event::Event;
use crate::model::json::{Json, MAX_SAFE_INTEGER};
use crate::model::keyword::MAX_KEYWORD_BYTES;
use crate::model::large::Field;
use crate::model::owner::Owner;
use crate::model::session::{Session, check_metadata, with_name};
use crate::model::summary::SessionSummary;
use crate::model::todo;
use crate::store::Found;
use crate::store::journal::Extent;
use crate::store::limits::{MAX_CONTENT_BYTES, MAX_TODOS_BYTES};
use crate::store::{messages, sessions as store};

/// What a CLI asks a session for with (`POST /cli/sessions`).
pub struct NewSession {
    /// The CLI's own name of the session, by which it finds the session again; 1 to 4,096 bytes.
    pub tag: String,
    /// What a session that is new begins with.
    pub metadata: Json,
    /// The agent state that a session that is new begins with; `None` for none.
    pub agent_state: Option<Json>,
    /// The model mode that a session that is new begins with.
    pub model: Option<String>,
}

impl Hub {
    /// Sees to it that a session of this namespace is in memory, and in no merge: it may be another session after it, or
    /// none.
    pub fn load_session<'a>(self: &'a Arc<Self>, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            loop {
                self.load_session_in_merge(id).await?;
                let running_merge = self.state().in_flight.running_merge(id);
                match running_merge {
                    // Whoever merges lets go of all that wait, however it ended.
                    Some(running_merge) => running_merge.await.unwrap_or(()),
                    None => return Ok(()),
                }
            }
        })
    }

    /// Sees to it that a session of this namespace is in memory, also while it is merged.
    pub fn load_session_in_merge<'a>(self: &'a Arc<Self>, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            loop {
                if self.state().cache.touch(id) {
                    return Ok(());
                }
                // What is being written may be the very deletion of this session; what is noted after the mark shows by it.
                let mark = self.state().cache.generation();
                self.flushed().await?;
                let found = store::load_by_id(&self.db, &self.config.namespace, id).await?;
                let mut state = self.state();
                if state.cache.evicted_since(mark, id) {
                    continue;
                }
                return match found {
                    Found::Owned(session) => {
                        self.insert_loaded(&mut state, session);
                        Ok(())
                    }
                    Found::Foreign => Err(Error::Foreign(Kind::Session)),
                    Found::Missing => Err(Error::Missing(Kind::Session)),
                };
            }
        })
    }

    /// What was active keeps its state until the clock, started again, runs out.
    fn insert_loaded(&self, state: &mut State, mut session: Session) {
        if session.active {
            let owner = Owner::Session(session.id.clone());
            session.active_at = session.active_at.max(state.active_at_of(&owner));
            self.start_timeout(state, owner);
        }
        state.cache.insert_loaded(session);
        state.evict();
    }

    /// Sees to it that a session is in memory with all that clients see of it.
    pub(in crate::hub) async fn load_shown(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_completed(id).await?;
        if self.backfill_todos(id).await? {
            // It may have been let go meanwhile.
            self.load_completed(id).await?;
        }
        Ok(())
    }

    /// A session that has no todos is searched for some, once: its messages may be older than what the hub notes today.
    /// Answers whether it was.
    async fn backfill_todos(self: &Arc<Self>, id: &str) -> Result<bool, Error> {
        let wanted = |s: &Session| s.todos.is_none() && s.seq > 0;
        if !self.state().cache.entry(id).is_some_and(|entry| !entry.todos_searched && wanted(&entry.session)) {
            return Ok(false);
        }
        let todos = self.search_todos(id).await?;
        {
            let mut state = self.state();
            let Some(entry) = state.cache.entry_mut(id) else { return Ok(true) };
            entry.todos_searched = true;
            let Some(todos) = todos else { return Ok(true) };
            entry.session.todos.get_or_insert(todos);
            state.journal.queue_session(id, Extent::Whole);
        }
        self.flush();
        Ok(true)
    }

    async fn search_todos(&self, id: &str) -> Result<Option<Json>, Error> {
        let list = |content: &str| Some(Json::of(&todo::extract(content, &self.config.vocabulary)?));
        let fits = |todos: &Json| todos.text().len() <= MAX_TODOS_BYTES;
        let mut before = MAX_SAFE_INTEGER;
        loop {
            let namespace = &self.config.namespace;
            let found = messages::load_todo_candidates(&self.db, namespace, id, TODO_CANDIDATES, before).await?;
            let Some((last, _)) = found.last() else { return Ok(None) };
            before = *last;
            if let Some(todos) = found.iter().find_map(|(_, content)| list(content).filter(fits)) {
                return Ok(Some(todos));
            }
        }
    }

    /// The list of sessions as a JSON array, once everything it shows is durable.
    pub async fn list_sessions(self: &Arc<Self>, archived: Archived) -> Result<Arc<str>, Error> {
        self.load_lines().await?;
        let list = self.state().cache.list(archived);
        self.flushed().await?;
        Ok(list)
    }

    /// Sees to it that every session of the namespace is in the list. For that none has to be in memory whole.
    async fn load_lines(self: &Arc<Self>) -> Result<(), Error> {
        while !self.state().cache.is_listed() {
            let mark = self.state().cache.generation();
            self.flushed().await?;
            let mut facts = store::load_summaries(&self.db, &self.config.namespace).await?;
            let mut state = self.state();
            for one in facts.iter_mut().filter(|one| one.active) {
                one.active_at = one.active_at.max(state.active_at_of(&Owner::Session(one.id.clone())));
            }
            let lines: Vec<SessionSummary> = facts.into_iter().map(SessionSummary::of).collect();
            let is_active = |line: &&SessionSummary| line.active && state.cache.entry(&line.id).is_none();
            let active: Vec<String> = lines.iter().filter(is_active).map(|line| line.id.clone()).collect();
            if state.cache.insert_loaded_summaries(mark, lines) {
                active.into_iter().for_each(|id| self.start_timeout(&mut state, Owner::Session(id)));
            }
        }
        Ok(())
    }

    /// The namespace's session of a tag, or a new one; answers its id.
    pub async fn session_by_tag(self: &Arc<Self>, new: &NewSession) -> Result<String, Error> {
        check_tag(&new.tag)?;
        if new.model.as_ref().is_some_and(|model| model.len() > MAX_KEYWORD_BYTES) {
            return Err(Error::field("model", format!("Field `model` must have at most {MAX_KEYWORD_BYTES} bytes.")));
        }
        check_size("metadata", &new.metadata, MAX_CONTENT_BYTES)?;
        check_metadata(&new.metadata)?;
        let agent_state = new.agent_state.as_ref().map_or(Ok(AgentState::default()), split_agent_state)?;
        self.load_tag(&new.tag).await?;
        let (id, waiter) = {
            let mut state = self.state();
            state.check_queue()?;
            // Somebody else may have made it while the database was asked.
            let id = match state.cache.by_tag(&new.tag).map(|entry| entry.session.id.clone()) {
                Some(id) => self.revive(&mut state, &id, &new.metadata)?,
                None => self.create(&mut state, new, agent_state),
            };
            (id, state.commit_waiter())
        };
        self.committed(waiter).await?;
        Ok(id)
    }

    /// Sees to it that the session of a tag is in memory, if there is one, and in no merge: the tag may be free after it.
    async fn load_tag(self: &Arc<Self>, tag: &str) -> Result<(), Error> {
        loop {
            let held = self.state().cache.by_tag(tag).map(|entry| entry.session.id.clone());
            if let Some(id) = held {
                let running_merge = self.state().in_flight.running_merge(&id);
                match running_merge {
                    Some(running_merge) => running_merge.await.unwrap_or(()),
                    None => return Ok(()),
                }
                continue;
            }
            let mark = self.state().cache.generation();
            self.flushed().await?;
            let found = store::load_by_tag(&self.db, &self.config.namespace, tag).await?;
            let mut state = self.state();
            // What left memory meanwhile may be the very session that was read, or not yet there.
            if mark == state.cache.generation() {
                match found {
                    Some(session) => self.insert_loaded(&mut state, session),
                    None => return Ok(()),
                }
            }
        }
    }

    /// An archived session comes back to life under its tag: what the CLI says of it now, under the name it had.
    fn revive(&self, state: &mut State, id: &str, metadata: &Json) -> Result<String, Error> {
        let entry = state.cache.session(id)?;
        if entry.session.metadata_fields().is_archived() {
            let metadata = entry.session.metadata_keeping_name(metadata);
            self.set_metadata(state, id, metadata, None)?;
        }
        Ok(id.to_owned())
    }

    fn create(&self, state: &mut State, new: &NewSession, agent_state: AgentState) -> String {
        let namespace = self.config.namespace.clone();
        let mut session = Session::new(self.new_id(), namespace, new.tag.clone(), None, self.rt.now());
        let (id, journal) = (session.id.clone(), &mut state.journal);
        (session.metadata, session.metadata_large) =
            self.keep(journal, (&id, Field::Metadata), session.metadata_version, None, Some(new.metadata.clone()));
        (session.agent_state, session.agent_state_large) =
            self.keep(journal, (&id, Field::AgentState), session.agent_state_version, None, agent_state.base);
        session.model_mode.clone_from(&new.model);
        state.journal.queue_session(&id, Extent::Whole);
        let larges = [("metadata", &session.metadata_large), ("agentState", &session.agent_state_large)];
        state.journal.on_commit(Effect::Publish(Event::session_added(&id, &without(&session, larges))));
        state.cache.insert_created(session);
        state.record_completed(&id, agent_state.completed, self.rt.now());
        state.evict();
        id
    }

    /// Gives a session another name; answers the metadata's new version.
    pub async fn rename(self: &Arc<Self>, id: &str, name: &str, expected: Option<u64>) -> Result<u64, Error> {
        let renamed = self.change(id, &METADATA, |state, metadata| {
            state.check_queue_for(metadata.as_ref().map_or(0, |metadata| metadata.text().len()))?;
            let entry = state.cache.session(id)?;
            let found = entry.session.metadata_version;
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                return Err(Error::VersionConflict { expected, found });
            }
            let metadata = with_name(metadata.as_ref(), name);
            check_size("metadata", &metadata, MAX_CONTENT_BYTES)?;
            let version = self.set_metadata(state, id, metadata, None)?;
            Ok((state.commit_waiter(), version))
        });
        let (waiter, version) = renamed.await?;
        // Whoever can't be reached may be tried again; a name that was refused will be refused again.
        let refused = |error| if error == Error::NotStored { Error::RenameFailed } else { error };
        self.committed(waiter).await.map_err(refused)?;
        Ok(version)
    }

    /// Deletes a session that is not active, with its messages.
    pub async fn delete_session(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_session(id).await?;
        let waiter = {
            let mut state = self.state();
            if state.cache.session(id)?.session.active {
                return Err(Error::SessionActive);
            }
            state.cache.remove(id);
            state.in_flight.clear_reactivation(id);
            state.journal.delete_session(id);
            state.journal.on_commit(Effect::Publish(Event::session_removed(id)));
            state.commit_waiter()
        };
        self.committed(waiter).await
    }
}

fn check_tag(tag: &str) -> Result<(), Error> {
    if tag.is_empty() || tag.len() > MAX_TAG_BYTES {
        return Err(Error::field("tag", format!("Field `tag` must have 1 to {MAX_TAG_BYTES} bytes.")));
    }
    Ok(())
}
