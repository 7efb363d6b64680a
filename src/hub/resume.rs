//! Bringing a session back: a machine is asked to start its agent again, and the session's history goes on, also when
//! the CLI came back under another id.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::commit::Outcome;
use super::error::{Error, Kind};
use super::large::unreadable;
use super::rpc::{Owner, RpcError};
use super::spawn::read_spawned;
use super::updates::Changes;
use super::{Hub, State, note_key};
use crate::model::event::Event;
use crate::model::json::{Json, JsonObject};
use crate::model::large::Field;
use crate::model::method::Method;
use crate::model::mode::Flavor;
use crate::model::session::Session;
use crate::model::vocabulary::Vocabulary;
use crate::store::journal::Extent;
use crate::store::rows::{LargeValue, SessionRow, statements, values_ahead};
use crate::store::sessions as store;
use crate::store::{DbError, Found, Statement, sql};

/// How long a resumed session may take to be active, in milliseconds (PROTOCOL.md "Life cycle and modes").
const ACTIVE_WITHIN_MS: u64 = 15_000;
/// For how long a machine's word is believed that it brings a session back, in milliseconds: an agent that takes longer to
/// start than whoever asked for it waits still finds its session open.
const EXPECTED_MS: u64 = 600_000;

/// The params of RPC `spawnSession` for a resume.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResumeParams {
    directory: String,
    agent: String,
    session_id: String,
    resume_session_id: String,
}

impl Hub {
    /// Brings a session back; answers the id under which it is active. Of two who resume at once the second waits for what
    /// the first one started.
    pub async fn resume(self: &Arc<Self>, id: &str) -> Result<String, Error> {
        let plan = loop {
            // During a merge, too: whoever asks then hears what the session became.
            self.load_session_in_merge(id).await?;
            if self.is_active(id) {
                return Ok(id.to_owned());
            }
            self.load_machines().await?;
            // While the machines were read, memory may have let go of the session, or somebody else brought it back.
            let active = self.state().memory.entry(id).map(|entry| entry.session.active);
            if active == Some(false) {
                break self.plan_resume(id)?;
            }
        };
        let active = match plan {
            None => self.watch(vec![id.to_owned()], None).await?,
            Some((machine, params)) => {
                let resumed = self.start_again(id, &machine, &params).await;
                self.state().claims.resumed(id);
                if let Err(error) = &resumed {
                    self.state().watches.tell(id, &Err(error.clone()));
                }
                resumed?
            }
        };
        self.settled().await?;
        Ok(active)
    }

    /// Which machine is asked for what; `None` when somebody has asked already.
    fn plan_resume(&self, id: &str) -> Result<Option<(String, ResumeParams)>, Error> {
        let mut state = self.state();
        let s = &state.memory.entry(id).ok_or(Error::Missing(Kind::Session))?.session;
        let machine = choose_machine(&state, s, self.rt.now()).ok_or(Error::NoMachineOnline)?;
        let params = resume_params(s, &self.config.vocabulary).ok_or(Error::ResumeUnavailable)?;
        Ok(state.claims.resume(id).then_some((machine, params)))
    }

    async fn start_again(self: &Arc<Self>, id: &str, machine: &str, params: &ResumeParams) -> Result<String, Error> {
        let text = serde_json::to_string(params).unwrap_or_default();
        let answer = self.call(&Owner::Machine(machine.to_owned()), Method::SpawnSession, &text).await;
        let answer = answer.map_err(|error| match error {
            // Its runner was on its way back, and did not come.
            RpcError::NoHandler(_) => Error::NoMachineOnline,
            error => error.into(),
        })?;
        let spawned = read_spawned(&answer);
        if !spawned.success {
            return Err(Error::CliRefused(spawned.error.unwrap_or_default()));
        }
        self.state().claims.expect(id, self.rt.now() + EXPECTED_MS);
        let other = spawned.session_id.filter(|spawned| spawned != id);
        let ids = other.into_iter().chain([id.to_owned()]).collect();
        let active = self.watch(ids, Some(self.rt.now() + ACTIVE_WITHIN_MS)).await?;
        if active != id {
            self.merge(id, &active).await?;
        }
        let mut state = self.state();
        state.claims.expect_no_more(id);
        state.watches.tell(id, &Ok(active.clone()));
        drop(state);
        Ok(active)
    }

    /// Waits until one of the sessions is active, and answers which. Without a deadline somebody else's resume decides.
    async fn watch(self: &Arc<Self>, ids: Vec<String>, deadline: Option<u64>) -> Result<String, Error> {
        let watched = {
            let mut state = self.state();
            let is_active = |id: &&String| state.memory.entry(id).is_some_and(|entry| entry.session.active);
            if let Some(id) = ids.iter().find(is_active) {
                return Ok(id.clone());
            }
            self.want_alarm(&mut state, deadline);
            state.watches.watch(ids, deadline)
        };
        watched.await.unwrap_or(Err(Error::ResumeFailed))
    }

    /// Gives up on sessions that did not come back in time.
    pub(super) fn expire_watches(&self, now: u64) {
        let mut state = self.state();
        state.claims.expire(now);
        state.watches.expire(now);
    }

    /// Puts the history of `old` in front of `new`'s; `old` is gone then.
    async fn merge(self: &Arc<Self>, old: &str, new: &str) -> Result<(), Error> {
        for id in [old, new] {
            self.state().claims.hold(id);
        }
        let merged = self.merge_in_peace(old, new).await;
        for id in [old, new] {
            self.state().claims.let_go(id);
        }
        self.flush();
        merged
    }

    async fn merge_in_peace(self: &Arc<Self>, old: &str, new: &str) -> Result<(), Error> {
        loop {
            match self.load_session_in_merge(old).await {
                Ok(()) => {}
                // Somebody deleted it: there is no history to bring along.
                Err(Error::Missing(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
            self.load_session_in_merge(new).await?;
            self.hold_journal().await;
            let still_loaded = {
                let state = self.state();
                [old, new].into_iter().all(|id| state.memory.entry(id).is_some())
            };
            let merged = if still_loaded { Some(self.merge_held(old, new).await) } else { None };
            self.state().journal.release();
            match merged {
                Some(merged) => return merged,
                // What was to be written before failed, and memory forgot the two with it.
                None => self.flush(),
            }
        }
    }

    /// Nothing else may be written during a merge: it would carry numbers of before.
    async fn hold_journal(self: &Arc<Self>) {
        loop {
            let held = {
                let mut state = self.state();
                let State { journal, memory, .. } = &mut *state;
                journal.hold(&self.config.namespace, memory)
            };
            self.flush();
            match held {
                Some(held) => {
                    if held.await.is_ok() {
                        return;
                    }
                }
                // Another merge goes first; how that ends is its own affair.
                None => drop(self.settled().await),
            }
        }
    }

    async fn merge_held(&self, old: &str, new: &str) -> Result<(), Error> {
        let namespace = &self.config.namespace;
        // What is carried over goes into the same batch: a crash leaves all of it done, or nothing.
        let gone = self.state().memory.entry(old).map(|entry| entry.session.clone());
        let gone = gone.ok_or(Error::Missing(Kind::Session))?;
        let stays = self.state().memory.entry(new).map(|entry| entry.session.clone());
        let stays = stays.ok_or(Error::Missing(Kind::Session))?;
        let whole = match &stays.metadata_large {
            Some(large) => Some(self.durable_whole(new, large).await?.ok_or_else(unreadable)?),
            None => stays.metadata.clone(),
        };
        let (mut batch, large) = self.carry_over(&gone, stays, whole.as_ref());
        for statements in values_ahead(namespace, large.as_slice()) {
            self.commit(statements).await?;
        }
        batch.extend(store::merge(namespace, old, new));
        // Seqs that were told before say nothing any more.
        let (number, after) = self.log_gap(&mut batch).await?;
        let committed = self.commit(batch).await;
        let may_be_done = committed.as_ref().err().is_none_or(DbError::leaves_doubt);
        let merged = match committed {
            Ok(()) => store::by_id(&self.db, namespace, new).await,
            Err(error) => Err(error),
        };
        let merged = match merged {
            Ok(Found::Owned(session)) => session,
            Ok(_) => return Err(Error::Missing(Kind::Session)),
            Err(error) => {
                // Nothing that memory holds of the two is to be trusted, nor what anybody was told of them.
                self.forget(Vec::new(), &Error::from(error.clone()));
                if may_be_done {
                    let clis = [old, new].map(|id| self.state().connections.of_session(id).to_vec());
                    self.send_away(clis.into_iter().flatten());
                }
                self.untold(&DbError::Retryable(error.to_string())).await;
                return Err(error.into());
            }
        };
        let mut state = self.state();
        // Whatever was noted for the one that is gone would find no row.
        state.journal.delete_session(old);
        state.memory.remove(old);
        let owner = Owner::Session(old.to_owned());
        state.liveness.stop(&owner);
        self.rt.unnote(&note_key(&owner));
        // The merge is durable already, whatever becomes of what is noted after it.
        self.publish(&mut state, Some(number), || Event::session_removed(old));
        if let Some(log) = &mut state.log {
            log.lose(after);
        }
        state.memory.outdate(new);
        let State { memory, journal, .. } = &mut *state;
        let entry = memory.entry_mut(new).ok_or(Error::Missing(Kind::Session))?;
        entry.session.seq = merged.seq;
        (entry.local_ids, entry.completed) = (None, None);
        journal.trim_completed(new);
        entry.session.todos = entry.session.todos.take().or(gone.todos.clone());
        let s = &mut entry.session;
        let noted = s.metadata_large.as_ref().and_then(|large| journal.noted_value(large));
        let now_is = if s.metadata_large.is_some() { noted.or(whole) } else { s.metadata.clone() };
        let metadata = carried_over(&gone, now_is.as_ref());
        s.metadata_large = s.metadata_large.take().or(large.map(|value| value.large));
        let event = Event::session_updated(new, &Changes::presence(&entry.session));
        state.journal.session(new, Extent::Whole);
        state.journal.then(Outcome::Publish(event));
        self.set_metadata(&mut state, new, metadata, None)?;
        Ok(())
    }
}

impl Hub {
    /// The session that stays with what it takes over from the one that goes, as statements; and its metadata, when they
    /// are large. `metadata` are its own, whole.
    fn carry_over(
        &self,
        gone: &Session,
        stays: Session,
        metadata: Option<&Json>,
    ) -> (Vec<Statement>, Option<LargeValue>) {
        let version = stays.metadata_version + 1;
        let metadata = carried_over(gone, metadata);
        let (head, large) = match Field::Metadata.is_large(&metadata) {
            true => {
                (Field::Metadata.head(&metadata), Some(LargeValue::new(&stays.id, version, self.new_id(), metadata)))
            }
            false => (metadata, None),
        };
        let taken_over = Session {
            metadata: Some(head),
            metadata_large: large.as_ref().map(|value| value.large.clone()),
            metadata_version: version,
            todos: stays.todos.clone().or(gone.todos.clone()),
            ..stays
        };
        let row = std::iter::once(SessionRow::of(&taken_over));
        (statements(&self.config.namespace, sql::UPSERT_SESSIONS, row), large)
    }
}

/// The machine that the session ran on, else one of the same host; either way one whose runner is there, or else is on
/// its way back.
fn choose_machine(state: &State, session: &Session, now: u64) -> Option<String> {
    let text = |json: Option<&Json>, name: &str| {
        let object = JsonObject::parse(json?.text())?;
        serde_json::from_str::<String>(object.get(name)?.get()).ok()
    };
    let own = text(session.metadata.as_ref(), "machineId");
    let host = text(session.metadata.as_ref(), "host");
    let (method, rpc) = (Method::SpawnSession.as_str(), &state.rpc);
    let serves = |owner: &Owner| rpc.serves(owner.clone(), method);
    let misses = |owner: &Owner| rpc.grace.misses(owner, method, now);
    let runners: [&dyn Fn(&Owner) -> bool; 2] = [&serves, &misses];
    runners.into_iter().find_map(|there| {
        let all = state.memory.machines().into_iter().flat_map(|m| m.values());
        let online = || all.clone().filter(|m| m.active && there(&Owner::Machine(m.id.clone())));
        let same = online().find(|m| Some(&m.id) == own.as_ref());
        let of_host = || online().filter(|m| host.is_some() && text(m.metadata.as_ref(), "host") == host);
        same.or_else(|| of_host().max_by_key(|m| m.active_at)).map(|m| m.id.clone())
    })
}

/// What the machine needs; `None` when the session does not know the agent's own id of its conversation.
fn resume_params(session: &Session, vocabulary: &Vocabulary) -> Option<ResumeParams> {
    let facts = session.facts();
    let kind = match vocabulary.flavor(facts.flavor().as_deref()) {
        Flavor::Agent(kind) => kind,
        Flavor::Unknown => return None,
    };
    let agent = facts.flavor().unwrap_or_else(|| vocabulary.default_agent().to_owned());
    let object = JsonObject::parse(session.metadata.as_ref()?.text())?;
    let id_of = |word: &str| serde_json::from_str(object.get(&format!("{word}SessionId"))?.get()).ok();
    let resume_session_id = vocabulary.agent_words(kind, &agent).find_map(id_of)?;
    Some(ResumeParams { directory: facts.path()?, agent, session_id: session.id.clone(), resume_session_id })
}

/// The metadata of the session that stays, with the name, the newer summary and the worktree of the one that goes.
fn carried_over(gone: &Session, stays: Option<&Json>) -> Json {
    let old = gone.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    let mut new = stays.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    for name in ["name", "worktree"] {
        if let (Some(value), None) = (old.get(name), new.get(name)) {
            new.set(name, value);
        }
    }
    let written_at = |summary: Option<&RawValue>| -> Option<u64> {
        JsonObject::parse(summary?.get())?.get("updatedAt")?.get().parse().ok()
    };
    if let Some(summary) = old.get("summary")
        && (new.get("summary").is_none() || written_at(Some(summary)) > written_at(new.get("summary")))
    {
        new.set("summary", summary);
    }
    new.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::namespace::Namespace;

    fn session(metadata: &str) -> Session {
        let metadata = Some(Json::parse(metadata).unwrap());
        Session::new("s".into(), Namespace::default(), "t".into(), metadata, 0)
    }

    #[test]
    fn what_a_person_gave_the_session_is_carried_over() {
        let gone =
            session(r#"{"path":"/w","name":"mine","worktree":{"name":"w"},"summary":{"text":"new","updatedAt":9}}"#);
        let stays = session(r#"{"path":"/w","host":"h","summary":{"text":"old","updatedAt":5}}"#);
        assert_eq!(
            carried_over(&gone, stays.metadata.as_ref()).text(),
            r#"{"path":"/w","host":"h","summary":{"text":"new","updatedAt":9},"name":"mine","worktree":{"name":"w"}}"#
        );
        let named = session(r#"{"path":"/w","name":"other","summary":{"text":"newer","updatedAt":10}}"#);
        assert!(
            carried_over(&gone, named.metadata.as_ref())
                .text()
                .starts_with(r#"{"path":"/w","name":"other","summary":{"text":"newer""#)
        );
    }

    #[test]
    fn a_resume_needs_the_agents_own_id_of_the_conversation() {
        let resume_params = |metadata| resume_params(&session(metadata), &Vocabulary::default());
        assert!(resume_params(r#"{"path":"/w","flavor":"beta","alphaSessionId":"x"}"#).is_none());
        let params = resume_params(r#"{"path":"/w","flavor":"beta","betaSessionId":"x"}"#).unwrap();
        assert_eq!(
            (params.agent.as_str(), params.resume_session_id.as_str(), params.directory.as_str()),
            ("beta", "x", "/w")
        );
        assert!(resume_params(r#"{"path":"/w","alphaSessionId":"x"}"#).is_some());
    }

    #[test]
    fn the_agents_own_id_is_found_under_any_word_for_the_agent_the_written_one_first() {
        let words = r#"{"agents":{"zeta":"beta","eta":"beta","theta":"gamma","iota":"alpha"}}"#;
        let words = Vocabulary::parse(words).unwrap();
        let asked = |metadata| resume_params(&session(metadata), &words).map(|p| (p.agent, p.resume_session_id));
        let found = |agent: &str, id: &str| Some((agent.to_owned(), id.to_owned()));
        let all = r#"{"path":"/w","flavor":"eta","betaSessionId":"b","zetaSessionId":"z","etaSessionId":"e"}"#;
        assert_eq!(asked(all), found("eta", "e"));
        let others = r#"{"path":"/w","flavor":"eta","zetaSessionId":"z","betaSessionId":"b"}"#;
        assert_eq!(asked(others), found("eta", "b"));
        assert_eq!(asked(r#"{"path":"/w","flavor":"beta","zetaSessionId":"z"}"#), found("beta", "z"));
        assert_eq!(asked(r#"{"path":"/w","flavor":"eta","etaSessionId":null,"zetaSessionId":"z"}"#), found("eta", "z"));
        assert_eq!(asked(r#"{"path":"/w","flavor":"eta","thetaSessionId":"t"}"#), None, "another agent's");
        assert_eq!(asked(r#"{"path":"/w","alphaSessionId":"a"}"#), found("iota", "a"), "nobody wrote a word");
        assert!(resume_params(&session(all), &Vocabulary::default()).is_none());
    }
}
