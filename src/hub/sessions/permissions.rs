//! Answers to an agent's permission requests. The CLI hears first; once it acknowledged, the request moves to the
//! completed ones, unless the CLI moved it there itself. Of two answers at once one wins.

use std::sync::Arc;

use futures::channel::oneshot;
use serde::Serialize;

use crate::hub::error::{Error, Kind, check_size};
use crate::hub::large::PENDING;
use crate::hub::sessions::updates::Changes;
use crate::hub::state::effect::Effect;
use crate::hub::{Hub, State};
use crate::model::agent_state::{self, AgentState, Answer, Decision, Status};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::method::Method;
use crate::store::journal::Extent;
use crate::store::limits::MAX_COMPLETED_BYTES;

/// An answer as the web gives it.
#[derive(Debug, Default)]
pub struct PermissionAnswer {
    /// Whether the agent may.
    pub approved: bool,
    /// A permission mode for future requests.
    pub mode: Option<String>,
    /// The tools that it may use from now on without asking.
    pub allow_tools: Option<Vec<String>>,
    /// How far the answer goes; `None` for this request only.
    pub decision: Option<Decision>,
    /// Answers to questions that the agent asked, opaque to the hub.
    pub answers: Option<Json>,
    /// Why the person denied.
    pub reason: Option<String>,
}

/// The params of RPC `permission`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    id: &'a str,
    approved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_tools: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Hub {
    /// Answers a pending permission request of an active session.
    pub async fn answer_permission(
        self: &Arc<Self>,
        id: &str,
        request: &str,
        answer: PermissionAnswer,
    ) -> Result<(), Error> {
        self.load_session(id).await?;
        answer.mode.iter().try_for_each(|mode| self.check_permission_mode(id, mode))?;
        self.change(id, &PENDING, |state, base| self.claim(state, id, base.as_ref(), request, &answer)).await?;
        let completed = match self.tell_permission(id, request, &answer).await {
            Ok(()) => self.change(id, &PENDING, |state, base| self.complete(state, id, base, request, &answer)).await,
            Err(error) => Err(error),
        };
        self.state().in_flight.end_answer(id, request);
        self.committed(completed?).await
    }

    /// Takes the right to answer a request: it waits, its answer can be kept, and nobody else's is on its way.
    fn claim(
        &self,
        state: &mut State,
        id: &str,
        base: Option<&Json>,
        request: &str,
        answer: &PermissionAnswer,
    ) -> Result<(), Error> {
        state.check_queue_for(base.map_or(0, |base| base.text().len()))?;
        let entry = state.cache.entry(id).ok_or(Error::Missing(Kind::Session))?;
        if !entry.session.active {
            return Err(Error::SessionInactive);
        }
        let record = self.record(answer, entry.session.permission_mode.as_deref());
        let completed = base.and_then(|base| agent_state::complete(base, request, &record));
        let (_, completed) = completed.ok_or(Error::Missing(Kind::Request))?;
        check_size("answer with its request", &completed, MAX_COMPLETED_BYTES)?;
        if !state.in_flight.begin_answer(id, request) {
            return Err(Error::Missing(Kind::Request));
        }
        Ok(())
    }

    async fn tell_permission(&self, id: &str, request: &str, answer: &PermissionAnswer) -> Result<(), Error> {
        let params = Params {
            id: request,
            approved: answer.approved,
            mode: answer.mode.as_deref(),
            allow_tools: answer.allow_tools.as_deref(),
            decision: answer.decision,
            answers: answer.answers.as_ref(),
            reason: answer.reason.as_deref(),
        };
        self.order(id, Method::Permission, &Json::of(&params)).await
    }

    fn complete(
        &self,
        state: &mut State,
        id: &str,
        base: Option<Json>,
        request: &str,
        answer: &PermissionAnswer,
    ) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
        let entry = state.cache.entry_mut(id).ok_or(Error::Missing(Kind::Session))?;
        if answer.approved && answer.mode.is_some() && entry.session.permission_mode != answer.mode {
            entry.session.permission_mode.clone_from(&answer.mode);
            entry.session.updated_at = self.rt.now();
            let event = Event::session_updated(id, &Changes::presence(&entry.session));
            state.journal.queue_session(id, Extent::Counters);
            state.journal.on_commit(Effect::Publish(event));
        }
        let entry = state.cache.entry(id).ok_or(Error::Missing(Kind::Session))?;
        let record = self.record(answer, entry.session.permission_mode.as_deref());
        let moved = base.and_then(|base| agent_state::complete(&base, request, &record));
        if let Some((base, completed)) = moved {
            let parts = AgentState { base: Some(base), completed: vec![(request.to_owned(), completed)] };
            self.set_agent_state(state, id, parts, None)?;
        }
        Ok(state.commit_waiter())
    }

    /// An answer as the record keeps it.
    fn record(&self, answer: &PermissionAnswer, mode: Option<&str>) -> Answer {
        let (status, usual) = match answer.approved {
            true => (Status::Approved, Decision::Approved),
            false => (Status::Denied, Decision::Denied),
        };
        Answer {
            completed_at: self.rt.now(),
            status,
            reason: answer.reason.clone(),
            mode: answer.mode.clone().or_else(|| mode.map(str::to_owned)),
            decision: Some(answer.decision.unwrap_or(usual)),
            allow_tools: answer.allow_tools.clone(),
            answers: answer.answers.clone(),
        }
    }

    /// The session is over: nobody will act on an answer any more, so what waits in its state is canceled.
    pub(in crate::hub) fn cancel_pending(&self, state: &mut State, id: &str, base: Option<Json>) {
        let answer = Answer { completed_at: self.rt.now(), status: Status::Canceled, ..Answer::default() };
        if let Some(parts) = base.and_then(|base| agent_state::complete_all(&base, &answer)) {
            // The session is in memory, which is all that could be missing.
            let _ = self.set_agent_state(state, id, parts, None);
        }
    }
}
