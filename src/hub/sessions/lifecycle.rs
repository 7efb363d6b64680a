//! Commands to a session's CLI: abort, switch to remote, archive (PROTOCOL-WEB.md "Life cycle and modes"), and commands about the
//! messages that wait until the agent is free. The CLI keeps this queue, and decides which of two commands wins (PROTOCOL-WEB.md "The
//! queue"). The CLI also keeps the options of its agent other than its mode and model, such as its effort.

use crate::hub::Hub;
use crate::hub::core::error::{Error, check_field};
use crate::hub::core::peers::rpc::{RpcError, rejection_reason};
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::sessions::load;
use crate::hub::sessions::presence::EndCause;
use crate::limits::KILL_TIMEOUT_MS;
use crate::model::json::{Json, JsonObject};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::model::session::ControlMode;

/// The longest reason of an abort or archive, in Unicode code points.
const MAX_REASON_CHARS: usize = 1_000;

impl Hub {
    /// Stops the agent. The session is then inactive until its CLI sends a keep-alive. A keep-alive during the call keeps it active.
    pub async fn abort(&self, id: &str, reason: Option<&str>) -> Result<(), Error> {
        check_reason(reason)?;
        self.require_active(id).await?;
        let reports = self.turn().liveness.reports;
        let params = Json::object(&[("reason", Json::of(reason.unwrap_or("Aborted by user")))]);
        self.call_without_result(id, Method::Abort, &params).await?;
        self.end_session(id, EndCause::Aborted { reports }).await?;
        self.flush().await
    }

    /// Takes control from the terminal, so that the web can send messages.
    pub async fn switch_to_remote(&self, id: &str) -> Result<(), Error> {
        self.require_active(id).await?;
        self.call_without_result(id, Method::Switch, &Json::object(&[("to", Json::of(&ControlMode::Remote))])).await?;
        self.with_session(id, |turn| turn.change_session(id, |session| session.mode = Some(ControlMode::Remote))).await
    }

    /// Archives a session. First asks the CLI that serves the session to end, even if the session is inactive.
    pub async fn archive(&self, id: &str, reason: Option<&str>) -> Result<(), Error> {
        check_reason(reason)?;
        self.load_session(id).await?;
        // A session is archived even if its CLI does not answer.
        let owner = Owner::Session(id.to_owned());
        let kill = self.call_in_dialect(&owner, Method::KillSession, KILL_TIMEOUT_MS, &|_| Json::object(&[])).await;
        self.end_session(id, EndCause::Archived).await?;
        let was_active_again = self
            .with_field(id, load::metadata, |turn, metadata| {
                let reason = reason.unwrap_or("Archived by user");
                let metadata = with_archived_fields(metadata.as_ref(), reason, self.rt.now());
                turn.set_metadata(id, metadata, None)?;
                turn.clear_reactivation(id);
                turn.deactivate_if_archived(id)
            })
            .await?;
        if was_active_again {
            self.end_session(id, EndCause::Archived).await?;
        }
        if let Err(RpcError::NoHandler { .. } | RpcError::Disconnected(_)) = kill {
            // The CLI may have connected meanwhile.
            self.kill_if_archived(id);
        }
        self.flush().await
    }

    /// Calls `killSession` of an archived session in a task, if a CLI has registered the method. Needed when no CLI could be called
    /// while the session was archived. Does nothing while a resume may reopen the session.
    pub(in crate::hub) fn kill_if_archived(&self, id: &str) {
        let id = id.to_owned();
        self.spawn(|hub| async move {
            // If the session cannot be read, the CLI is called when it registers the method again.
            let _ = hub.load_session(&id).await;
            let must_end = {
                let turn = hub.turn();
                let is_archived = |entry: &CachedSession| entry.session.metadata_fields().is_archived();
                turn.cache.entry(&id).is_some_and(is_archived)
                    && !turn.in_flight.expects_reactivation(&id, hub.rt.now())
            };
            if must_end {
                hub.turn().call_ignoring_result(&Owner::Session(id), None, Method::KillSession, "{}");
            }
        });
    }

    /// Loads a session, and fails unless it is active.
    pub(in crate::hub) async fn require_active(&self, id: &str) -> Result<(), Error> {
        self.load_session(id).await?;
        let turn = self.turn();
        if turn.is_active(id) { Ok(()) } else { Err(turn.inactive_error(id, Error::SessionInactive)) }
    }

    /// Sends a command to the CLI of an active session.
    pub async fn command_queue(&self, id: &str, command: &Json) -> Result<(), Error> {
        self.require_active(id).await?;
        let answer = match self.call(&Owner::Session(id.to_owned()), Method::Queue, command).await {
            Err(RpcError::InvalidResult(reason)) => return Err(Error::CliRefused(reason)),
            answer => answer?,
        };
        let Some(reason) = rejection_reason(&answer) else { return Ok(()) };
        let answer = JsonObject::parse(&answer).unwrap_or_default();
        let code = answer.get("code").and_then(|code| serde_json::from_str::<String>(code.get()).ok());
        Err(if code.as_deref() == Some("not_queued") { Error::NotQueued } else { Error::CliRefused(reason) })
    }

    /// Sets an option of an active session's agent. The error of a refusal has the agent's reason.
    pub async fn set_option(&self, id: &str, option: &str, value: &Json) -> Result<(), Error> {
        self.require_active(id).await?;
        let params = Json::object(&[("id", Json::of(option)), ("value", value.clone())]);
        let answer = self.call(&Owner::Session(id.to_owned()), Method::SetSessionOption, &params).await;
        let answer = answer.map_err(|error| Error::OptionNotApplied(error.to_string()))?;
        rejection_reason(&answer).map_or(Ok(()), |reason| Err(Error::OptionNotApplied(reason)))
    }
}

/// Refuses a reason of an abort or archive that is too long.
pub fn check_reason(reason: Option<&str>) -> Result<(), Error> {
    let is_valid = reason.is_none_or(|reason| reason.chars().count() <= MAX_REASON_CHARS);
    check_field(is_valid, "reason", format_args!("have at most {MAX_REASON_CHARS} characters"))
}

fn with_archived_fields(metadata: Option<&Json>, reason: &str, now: u64) -> Json {
    let fields = [
        ("lifecycleState", Json::of("archived")),
        ("lifecycleStateSince", Json::of(&now)),
        ("archivedBy", Json::of("web")),
        ("archiveReason", Json::of(reason)),
    ];
    let mut object = JsonObject::of(metadata);
    for (name, value) in &fields {
        object.set(name, value.raw());
    }
    object.to_json()
}
