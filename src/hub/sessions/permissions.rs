//! Answers to permission requests. The hub first calls the CLI. Once the CLI acknowledges, the hub moves the request to the completed
//! requests, unless the CLI has already moved the request. Of two concurrent answers to one request, the first wins.

use futures::TryFutureExt;
use serde::Serialize;

use crate::hub::Hub;
use crate::hub::core::config::Config;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::state::State;
use crate::hub::sessions::load::state_if_pending;
use crate::hub::turn::Turn;
use crate::model::agent_state::{self, AgentState, Answer, Decision, Status};
use crate::model::json::Json;
use crate::model::method::Method;

/// The answer of a web client.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionAnswer {
    pub approved: bool,
    /// A permission mode for future requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Tools that the agent may use without asking again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Vec<String>>,
    /// The decision. If absent, `approved` decides between [`Decision::Approved`] and [`Decision::Denied`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Answers to the agent's questions, opaque to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The params of RPC `permission`.
#[derive(Serialize)]
struct Params<'a> {
    id: &'a str,
    #[serde(flatten)]
    answer: &'a PermissionAnswer,
}

impl Hub {
    /// Answers a pending permission request of an active session.
    pub async fn answer_permission(&self, id: &str, request: &str, answer: PermissionAnswer) -> Result<(), Error> {
        let begin = |turn: &mut Turn<'_>, stored| turn.begin_answer(&self.config, id, stored, request, &answer);
        self.with_field(id, state_if_pending, begin).await?;
        self.finish_answer(id, request, answer).await
    }

    /// Calls the CLI and stores the answer, after [`State::begin_answer`].
    pub(in crate::hub) async fn finish_answer(
        &self,
        id: &str,
        request: &str,
        mut answer: PermissionAnswer,
    ) -> Result<(), Error> {
        if !answer.approved {
            // Only an approval may change the mode, allow tools or answer questions.
            (answer.mode, answer.allow_tools, answer.answers) = (None, None, None);
        }
        let params = Json::of(&Params { id: request, answer: &answer });
        let called = self.call_without_result(id, Method::Permission, &params);
        let complete = |turn: &mut Turn<'_>, stored| turn.complete_request(id, stored, request, &answer);
        let completed = called.and_then(|()| self.with_field(id, state_if_pending, complete)).await;
        self.turn().in_flight.end_answer(id, request);
        completed?;
        self.flush().await
    }
}

impl State {
    /// Reserves a pending request for this answer. `stored` is the agent state, if it has pending requests.
    pub fn begin_answer(
        &mut self,
        config: &Config,
        id: &str,
        stored: Option<Json>,
        request: &str,
        answer: &PermissionAnswer,
    ) -> Result<(), Error> {
        let session = &self.cache.require_entry(id)?.session;
        answer.mode.iter().try_for_each(|mode| config.check_permission_mode(session, mode))?;
        let chooses_never_asking = |answers| agent_state::chooses_never_asking(stored.as_ref(), request, answers);
        if config.forbidden_modes.forbids_approving_everything()
            && answer.answers.as_ref().is_some_and(chooses_never_asking)
        {
            return Err(Error::ModeForbidden("answers"));
        }
        // Storing the answer writes the whole agent state.
        self.ensure_write_queue_has_room(stored.as_ref().map_or(0, |stored| stored.text().len()))?;
        if !session.active {
            return Err(self.inactive_error(id, Error::CliAway));
        }
        let is_pending = agent_state::pending_map(stored.as_ref()).get(request).is_some();
        if !is_pending || !self.in_flight.begin_answer(id, request) {
            return Err(Error::NotFound(Kind::Request));
        }
        Ok(())
    }
}

impl Turn<'_> {
    /// Moves an answered request of the agent state `stored` to the completed requests, unless the CLI moved it during the call.
    fn complete_request(
        &mut self,
        id: &str,
        stored: Option<Json>,
        request: &str,
        answer: &PermissionAnswer,
    ) -> Result<(), Error> {
        let mode = &self.state.cache.require_entry(id)?.session.permission_mode;
        let new_mode = answer.mode.as_ref().filter(|new| mode.as_ref() != Some(new));
        let (status, default) = match answer.approved {
            true => (Status::Approved, Decision::Approved),
            false => (Status::Denied, Decision::Denied),
        };
        let record = Answer {
            completed_at: self.hub.rt.now(),
            status,
            reason: answer.reason.clone(),
            mode: answer.mode.as_ref().or(mode.as_ref()).cloned(),
            decision: Some(answer.decision.unwrap_or(default)),
            allow_tools: answer.allow_tools.clone(),
            answers: answer.answers.clone(),
        };
        if let Some(new_mode) = new_mode {
            self.state.change_session(id, |session| {
                session.permission_mode = Some(new_mode.clone());
                session.updated_at = self.hub.rt.now();
            })?;
        }
        if let Some((without_request, entry)) =
            stored.and_then(|stored| agent_state::complete(&stored, request, &record))
        {
            let completed = vec![(request.to_owned(), entry)];
            self.set_agent_state(id, AgentState { without_completed: Some(without_request), completed }, None)?;
        }
        Ok(())
    }

    /// Cancels all pending requests of a session that ends. `stored` is the session's agent state, if it has pending requests.
    pub fn cancel_pending(&mut self, id: &str, stored: Option<Json>) -> Result<(), Error> {
        let answer = Answer { completed_at: self.hub.rt.now(), status: Status::Canceled, ..Answer::default() };
        if let Some(canceled) = stored.and_then(|stored| agent_state::complete_all(&stored, &answer)) {
            self.set_agent_state(id, canceled, None)?;
        }
        Ok(())
    }
}
