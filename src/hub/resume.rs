//! Bringing a session back: a machine is asked to start its agent again, and the session's history goes on, also when
//! the CLI came back under another id.

use std::sync::Arc;

use futures::channel::oneshot;
use serde::Serialize;
use serde_json::value::RawValue;

use super::commit::Outcome;
use super::error::{Error, Kind};
use super::rpc::Owner;
use super::spawn::read_spawned;
use super::updates::Changes;
use super::{Hub, State};
use crate::model::event::Event;
use crate::model::json::{Json, JsonObject};
use crate::model::machine::Machine;
use crate::model::mode::{AgentKind, Flavor};
use crate::model::session::Session;
use crate::store::journal::Extent;
use crate::store::sessions as store;

/// How long a resumed session may take to be active, in milliseconds (decisions.md).
const ACTIVE_WITHIN_MS: u64 = 15_000;

/// The params of RPC `spawnSession` for a resume.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResumeParams {
    directory: String,
    agent: String,
    session_id: String,
    resume_session_id: String,
}

/// Somebody who waits for one of some sessions to be active.
#[derive(Debug)]
pub(super) struct Watch {
    ids: Vec<String>,
    deadline: u64,
    active: oneshot::Sender<String>,
}

impl Hub {
    /// Brings a session back; answers the id under which it is active.
    pub async fn resume(self: &Arc<Self>, id: &str) -> Result<String, Error> {
        match self.require_active(id).await {
            Ok(()) => return Ok(id.to_owned()),
            Err(Error::SessionInactive) => {}
            Err(error) => return Err(error),
        }
        self.load_machines().await?;
        let plan = self.plan_resume(id)?;
        // Of two who resume at once the second waits for what the first one started.
        let active = match plan {
            None => self.watch(vec![id.to_owned()]).await,
            Some((machine, params)) => {
                let resumed = self.start_again(id, &machine, &params).await;
                if let Some(entry) = self.state().memory.entry_mut(id) {
                    entry.resuming = false;
                }
                resumed
            }
        }?;
        if active != id && self.state().memory.entry(id).is_some() {
            self.merge(id, &active).await?;
        }
        Ok(active)
    }

    /// Which machine is asked for what; `None` when somebody has asked already.
    fn plan_resume(&self, id: &str) -> Result<Option<(String, ResumeParams)>, Error> {
        let mut state = self.state();
        let s = &state.memory.entry(id).ok_or(Error::Missing(Kind::Session))?.session;
        let machine = choose_machine(&state, s).ok_or(Error::NoMachineOnline)?;
        let params = resume_params(s).ok_or(Error::ResumeUnavailable)?;
        let entry = state.memory.entry_mut(id).ok_or(Error::Missing(Kind::Session))?;
        Ok((!std::mem::replace(&mut entry.resuming, true)).then_some((machine, params)))
    }

    async fn start_again(self: &Arc<Self>, id: &str, machine: &str, params: &ResumeParams) -> Result<String, Error> {
        let text = serde_json::to_string(params).unwrap_or_default();
        let answer = self.call(&Owner::Machine(machine.to_owned()), "spawnSession", &text).await?;
        let spawned = read_spawned(&answer);
        if !spawned.success {
            return Err(Error::CliRefused(spawned.error.unwrap_or_default()));
        }
        let other = spawned.session_id.filter(|spawned| spawned != id);
        self.watch(other.into_iter().chain([id.to_owned()]).collect()).await
    }

    /// Waits until one of the sessions is active, and answers which.
    async fn watch(self: &Arc<Self>, ids: Vec<String>) -> Result<String, Error> {
        let watched = {
            let mut state = self.state();
            let is_active = |id: &&String| state.memory.entry(id).is_some_and(|entry| entry.session.active);
            if let Some(id) = ids.iter().find(is_active) {
                return Ok(id.clone());
            }
            let deadline = self.rt.now() + ACTIVE_WITHIN_MS;
            let (active, watched) = oneshot::channel();
            state.watches.push(Watch { ids, deadline, active });
            self.want_alarm(&mut state, Some(deadline));
            watched
        };
        watched.await.map_err(|_| Error::ResumeFailed)
    }

    /// Puts the history of `old` in front of `new`'s; `old` is gone then.
    async fn merge(self: &Arc<Self>, old: &str, new: &str) -> Result<(), Error> {
        self.load_session(new).await?;
        self.hold_messages(&[old, new], true);
        let merged = match self.claim_journal().await {
            Ok(()) => {
                let merged = self.merge_held(old, new).await;
                self.state().journal.release();
                merged
            }
            Err(error) => Err(error),
        };
        self.hold_messages(&[old, new], false);
        self.flush();
        merged?;
        self.settled().await
    }

    /// Nothing else may be written during a merge: it would carry numbers of before.
    async fn claim_journal(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            self.settled().await?;
            if self.state().journal.claim() {
                return Ok(());
            }
        }
    }

    async fn merge_held(&self, old: &str, new: &str) -> Result<(), Error> {
        let merged = store::merge(&*self.db, &self.config.namespace, old, new).await.inspect_err(|_| {
            // It may have been done all the same: what memory holds of it is not to be trusted.
            self.state().memory.clear();
        })?;
        let merged = merged.ok_or(Error::Missing(Kind::Session))?;
        let mut state = self.state();
        let Some(gone) = state.memory.entry(old).map(|entry| entry.session.clone()) else { return Ok(()) };
        let entry = state.memory.entry_mut(new).ok_or(Error::Missing(Kind::Session))?;
        entry.session.seq = merged.seq;
        entry.session.todos = entry.session.todos.take().or(gone.todos.clone());
        (entry.local_ids, entry.completed) = (None, None);
        let metadata = carried_over(&gone, &entry.session).map_err(|e| Error::InvalidBody(e.to_string()))?;
        let event = Event::session_updated(new, &Changes::presence(&entry.session));
        state.journal.session(new, Extent::Whole);
        state.journal.then(Outcome::Publish(event));
        self.set_metadata(&mut state, new, metadata, None)?;
        state.memory.remove(old);
        state.journal.then(Outcome::Publish(Event::session_removed(old)));
        state.tell_active(old, new);
        Ok(())
    }

    fn hold_messages(&self, ids: &[&str], hold: bool) {
        let mut state = self.state();
        for id in ids {
            let Some(entry) = state.memory.entry_mut(id) else { continue };
            let waiting = std::mem::replace(&mut entry.merging, hold.then(Vec::new));
            for peace in waiting.into_iter().flatten() {
                let _ = peace.send(());
            }
        }
    }
}

impl State {
    /// Tells those who wait for the session `id` that `active` is what they waited for.
    pub(super) fn tell_active(&mut self, id: &str, active: &str) {
        let (told, waiting) =
            std::mem::take(&mut self.watches).into_iter().partition(|w| w.ids.iter().any(|w| w == id));
        self.watches = waiting;
        for watch in told {
            let _ = watch.active.send(active.to_owned());
        }
    }

    /// Gives up waiting where the time is over.
    pub(super) fn expire_watches(&mut self, now: u64) {
        self.watches.retain(|watch| watch.deadline > now);
    }

    /// When the next one gives up.
    pub(super) fn next_watch(&self) -> Option<u64> {
        self.watches.iter().map(|watch| watch.deadline).min()
    }
}

/// The machine that the session ran on, else one of the same host; either way one whose runner is there.
fn choose_machine(state: &State, session: &Session) -> Option<String> {
    let text = |json: Option<&Json>, name: &str| {
        let object = JsonObject::parse(json?.text())?;
        serde_json::from_str::<String>(object.get(name)?.get()).ok()
    };
    let serves = |m: &&Machine| m.active && state.rpc.serves(Owner::Machine(m.id.clone()), "spawnSession");
    let online = || state.memory.machines().into_iter().flat_map(|m| m.values()).filter(serves);
    let own = text(session.metadata.as_ref(), "machineId");
    let host = text(session.metadata.as_ref(), "host");
    let same = online().find(|m| Some(&m.id) == own.as_ref());
    let of_host = || online().filter(|m| host.is_some() && text(m.metadata.as_ref(), "host") == host);
    same.or_else(|| of_host().max_by_key(|m| m.active_at)).map(|m| m.id.clone())
}

/// What the machine needs; `None` when the session does not know the agent's own id of its conversation.
fn resume_params(session: &Session) -> Option<ResumeParams> {
    let facts = session.facts();
    let agent = match Flavor::from_metadata(facts.flavor().as_deref()) {
        Flavor::Agent(kind) => kind,
        Flavor::Unknown => return None,
    };
    let object = JsonObject::parse(session.metadata.as_ref()?.text())?;
    let resume_session_id = serde_json::from_str(object.get(agent.session_id_field())?.get()).ok()?;
    let agent = facts.flavor().unwrap_or_else(|| AgentKind::Alpha.as_str().to_owned());
    Some(ResumeParams { directory: facts.path()?, agent, session_id: session.id.clone(), resume_session_id })
}

/// The metadata of the session that stays, with the name, the newer summary and the worktree of the one that goes.
fn carried_over(gone: &Session, stays: &Session) -> Result<Json, serde_json::Error> {
    let old = gone.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    let mut new = stays.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
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
            carried_over(&gone, &stays).unwrap().text(),
            r#"{"path":"/w","host":"h","summary":{"text":"new","updatedAt":9},"name":"mine","worktree":{"name":"w"}}"#
        );
        let named = session(r#"{"path":"/w","name":"other","summary":{"text":"newer","updatedAt":10}}"#);
        assert!(
            carried_over(&gone, &named)
                .unwrap()
                .text()
                .starts_with(r#"{"path":"/w","name":"other","summary":{"text":"newer""#)
        );
    }

    #[test]
    fn a_resume_needs_the_agents_own_id_of_the_conversation() {
        assert!(resume_params(&session(r#"{"path":"/w","flavor":"beta","alphaSessionId":"x"}"#)).is_none());
        let params = resume_params(&session(r#"{"path":"/w","flavor":"beta","betaSessionId":"x"}"#)).unwrap();
        assert_eq!(
            (params.agent.as_str(), params.resume_session_id.as_str(), params.directory.as_str()),
            ("beta", "x", "/w")
        );
        assert!(resume_params(&session(r#"{"path":"/w","alphaSessionId":"x"}"#)).is_some());
    }
}
