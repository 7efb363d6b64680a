//! Resuming a session: a machine starts the session's agent again. If its CLI connects under another session id, the two sessions are
//! [merged](crate::hub::sessions::merge). Forking a session: a machine starts another session with the history up to a message.

use futures::channel::oneshot;
use serde::{Deserialize, Serialize};

use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::RpcError;
use crate::hub::core::sessions::in_flight::Activation;
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::REACTIVATION;
use crate::hub::machines::spawn::{SessionType, SpawnResult, UNTRUSTED_DIRECTORY, parse_spawn_result};
use crate::hub::sessions::load::RelatedRows;
use crate::hub::turn::Turn;
use crate::hub::{Config, Hub};
use crate::limits::RESUME_TIMEOUT_MS;
use crate::model::json::{Json, JsonObject};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::model::settings::Settings;
use crate::model::vocabulary::Vocabulary;
use crate::wire::field_types::{optional_keyword, optional_scalar, scalar};

/// After a resume, a CLI may reopen its archived session for this time, in milliseconds: agents may start slowly.
const REOPEN_MS: u64 = 600_000;

/// The params of RPC `spawnSession` for a resume. The params of `forkSession` contain these params.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResumeParams {
    directory: String,
    agent: String,
    session_id: String,
    resume_session_id: String,
    /// As in [`SpawnParams`](crate::hub::machines::spawn::SpawnParams).
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<bool>,
}

/// The request of a web client to fork a session: the last message of the history that the fork takes over, and its place.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkPoint {
    #[serde(deserialize_with = "scalar")]
    pub seq: u64,
    #[serde(default, deserialize_with = "optional_keyword", skip_serializing_if = "Option::is_none")]
    pub session_type: Option<SessionType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_name: Option<String>,
    /// As in [`SpawnParams`](crate::hub::machines::spawn::SpawnParams).
    #[serde(default, deserialize_with = "optional_scalar", skip_serializing_if = "Option::is_none")]
    trust: Option<bool>,
}

/// The params of RPC `forkSession`.
#[derive(Serialize)]
struct ForkParams<'a> {
    #[serde(flatten)]
    session: ResumeParams,
    #[serde(flatten)]
    point: &'a ForkPoint,
}

/// A resume of the session with this id.
struct Resume<'a> {
    hub: &'a Hub,
    id: &'a str,
}

impl Hub {
    /// Resumes a session. Returns the id of the session that is then active: the same id, or that of the session with which it was
    /// merged. A concurrent resume of the same session waits for the first. `trust` is passed on to the machine, as for a spawn.
    pub async fn resume(&self, id: &str, trust: Option<bool>) -> Result<String, Error> {
        let (resume, deadline) = (Resume { hub: self, id }, self.rt.now() + RESUME_TIMEOUT_MS);
        let plan = loop {
            self.load_session_during_merge(id, RelatedRows::None).await?;
            if self.turn().is_active(id) {
                return Ok(id.to_owned());
            }
            if let Some(reported) = resume.wait_for_report(deadline)? {
                let _ = reported.await;
                continue;
            }
            self.load_machines().await?;
            let mut turn = self.turn();
            // The session may have been evicted or resumed during the read.
            if turn.cache.entry(id).is_some_and(|entry| !entry.session.active) {
                let plan = plan(&turn, &self.config, self.rt.now(), id, Method::SpawnSession)?;
                // `None` while another resume runs.
                break turn.in_flight.begin_resume(id).then_some(plan);
            }
        };
        let active_id = match plan {
            None => resume.wait_for_activation(None, None).await?,
            Some((machine, params)) => {
                let resumed = resume.spawn_agent(&machine, &ResumeParams { trust, ..params }).await;
                let mut turn = self.turn();
                turn.in_flight.end_resume(id);
                turn.activation_waiters.complete(id, &resumed);
                resumed?
            }
        };
        self.flush().await?;
        Ok(active_id)
    }

    /// Starts a session with the history of this one up to a message, and its settings except the pin. A runner's failure is in the result.
    pub async fn fork(&self, id: &str, point: &ForkPoint) -> Result<SpawnResult, Error> {
        self.load_machines().await?;
        self.load_session(id).await?;
        let ((owner, session), settings) = {
            let turn = self.turn();
            let settings = turn.cache.require_entry(id)?.session.settings.clone();
            (plan(&turn, &self.config, self.rt.now(), id, Method::ForkSession)?, Settings { pinned: false, ..settings })
        };
        let make_params = |dialect| {
            let agent = self.config.vocabulary.agent_in(dialect, &session.agent);
            Json::of(&ForkParams { session: ResumeParams { agent, ..session.clone() }, point })
        };
        let result = parse_spawn_result(&self.call_in_dialect(&owner, Method::ForkSession, &make_params).await?);
        if let Some(fork) = result.session_id.as_ref().filter(|_| settings != Settings::default()) {
            // The fork has started, also if its settings cannot be stored.
            self.change_settings(fork, |own| *own = own.or(&settings)).await.ok();
        }
        Ok(result)
    }
}

impl Resume<'_> {
    /// Returns a receiver that resolves when the connected CLI of an inactive session reports it alive, for example after an abort: a
    /// machine must not start a second process. Canceled at the deadline, or when a CLI leaves the session. `None` if no CLI serves it.
    fn wait_for_report(&self, deadline: u64) -> Result<Option<oneshot::Receiver<Activation>>, Error> {
        let (mut turn, now) = (self.hub.turn(), self.hub.rt.now());
        if !turn.expects_report(self.id, now) {
            return Ok(None);
        }
        if now >= deadline {
            return Err(Error::ResumeFailed);
        }
        turn.request_alarm(Some(deadline));
        Ok(Some(turn.activation_waiters.add(vec![self.id.to_owned()], Some(deadline), true)))
    }

    /// Calls a machine to start the agent, and waits until a session of the agent is active. Returns the session's id.
    async fn spawn_agent(&self, machine: &Owner, params: &ResumeParams) -> Result<String, Error> {
        let Self { hub, id } = *self;
        let make_params = |dialect| {
            let agent = hub.config.vocabulary.agent_in(dialect, &params.agent);
            Json::of(&ResumeParams { agent, ..params.clone() })
        };
        let answer = hub.call_in_dialect(machine, Method::SpawnSession, &make_params).await;
        let answer = answer.map_err(|error| match error {
            // The machine's CLI was expected to reconnect, and did not.
            RpcError::NoHandler { .. } => Error::NoMachineOnline,
            error => error.into(),
        })?;
        let spawned = parse_spawn_result(&answer);
        if !spawned.success {
            let reason = spawned.error.unwrap_or_else(|| "it gave no reason".into());
            let is_untrusted = spawned.code.as_deref() == Some(UNTRUSTED_DIRECTORY);
            return Err(if is_untrusted { Error::UntrustedDirectory(reason) } else { Error::CliRefused(reason) });
        }
        // Stored, because the hub may hibernate before the agent has started.
        let reopen_until = hub.rt.now() + REOPEN_MS;
        hub.turn().in_flight.expect_reactivation(id, reopen_until);
        hub.rt.kv_put(&format!("{REACTIVATION}{id}"), &reopen_until.to_string());
        let new_id = spawned.session_id.filter(|spawned| spawned != id);
        let active_id = self.wait_for_activation(new_id, Some(hub.rt.now() + RESUME_TIMEOUT_MS)).await?;
        if active_id != id {
            hub.merge(id, &active_id).await?;
        }
        hub.turn().clear_reactivation(id);
        Ok(active_id)
    }

    /// Waits until this session or `new_id` is active, and returns its id. Without a deadline, waits for the resume of another request.
    async fn wait_for_activation(&self, new_id: Option<String>, deadline: Option<u64>) -> Result<String, Error> {
        let ids: Vec<String> = new_id.into_iter().chain([self.id.to_owned()]).collect();
        let activated = {
            let mut turn = self.hub.turn();
            if let Some(id) = ids.iter().find(|id| turn.is_active(id)) {
                return Ok(id.clone());
            }
            turn.request_alarm(deadline);
            turn.activation_waiters.add(ids, deadline, false)
        };
        activated.await.unwrap_or(Err(Error::ResumeFailed))
    }
}

impl Turn<'_> {
    /// Fails resumes whose session did not become active in time.
    pub fn expire_resumes(&mut self, now: u64) {
        for id in self.state.in_flight.expire_reactivations(now) {
            self.hub.rt.kv_delete(&format!("{REACTIVATION}{id}"));
        }
        self.state.activation_waiters.expire(now);
    }
}

/// Returns the machine whose `method` can continue the conversation of a session, and the params.
fn plan(state: &State, config: &Config, now: u64, id: &str, method: Method) -> Result<(Owner, ResumeParams), Error> {
    let session = &state.cache.require_entry(id)?.session;
    let params = resume_params(session, &config.vocabulary).ok_or(Error::ResumeUnavailable)?;
    let machine = choose_machine(state, session, method, now);
    Ok((Owner::Machine(machine.ok_or(Error::NoMachineOnline)?), params))
}

/// Chooses a machine whose runner has the method and is connected, or else is expected to reconnect. Prefers the machine on which the
/// session ran, then the last active one of the same installation, or of the same host if one of both has no installation.
fn choose_machine(state: &State, session: &Session, method: Method, now: u64) -> Option<String> {
    let text = |json: Option<&Json>, name: &str| JsonObject::of(json).text(name);
    let machine_id = text(session.metadata.json(), "machineId");
    let place = |json: Option<&Json>| (text(json, "installationId"), text(json, "host"));
    let (installation, host) = place(session.metadata.json());
    let (method, rpc) = (method.into_str(), &state.rpc);
    let is_connected = |owner: &Owner| rpc.has_handler(owner.clone(), method);
    let is_expected = |owner: &Owner| rpc.grace.grace_end(owner, method, now).is_some();
    let conditions: [&dyn Fn(&Owner) -> bool; 2] = [&is_connected, &is_expected];
    conditions.into_iter().find_map(|has_runner| {
        let machines = state.cache.machines().into_iter().flat_map(|machines| machines.values());
        let online = || machines.clone().filter(|m| m.active && has_runner(&Owner::Machine(m.id.clone())));
        let same_machine = online().find(|m| Some(&m.id) == machine_id.as_ref());
        let same_computer = || {
            online().filter(|m| match (place(m.metadata.json()), &installation) {
                ((Some(other), _), Some(own)) => other == *own,
                ((_, other), _) => host.is_some() && other == host,
            })
        };
        same_machine.or_else(|| same_computer().max_by_key(|m| m.active_at)).map(|m| m.id.clone())
    })
}

/// Returns the params of a resume; `None` when the metadata lacks the agent's own id of the conversation.
fn resume_params(session: &Session, vocabulary: &Vocabulary) -> Option<ResumeParams> {
    let metadata = session.metadata_fields();
    let agent = metadata.flavor().unwrap_or_else(|| vocabulary.default_agent().to_owned());
    let object = JsonObject::parse(session.metadata.json()?.text())?;
    let id_of = |word: &str| serde_json::from_str(object.get(&format!("{word}SessionId"))?.get()).ok();
    let resume_session_id = match vocabulary.agent_of_flavor(Some(&agent)) {
        Some(kind) => vocabulary.agent_names(kind, &agent).find_map(id_of),
        None => id_of(&agent),
    }?;
    let (directory, session_id) = (metadata.path()?, session.id.clone());
    Some(ResumeParams { directory, agent, session_id, resume_session_id, trust: None })
}
