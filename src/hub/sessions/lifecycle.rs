//! Commands to a session's CLI (PROTOCOL-WEB.md "Life cycle and modes"): abort, switch to remote, archive; the permission mode and the
//! model, of which the hub stores only the confirmed values; options of the agent; and commands about the messages that wait until the
//! agent is free. The CLI keeps this queue, and decides which of two commands wins (PROTOCOL-WEB.md "The queue").

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::config::Config;
use crate::hub::core::error::{Error, check_field};
use crate::hub::core::peers::rpc::{RpcError, rejection_reason};
use crate::hub::core::sessions::cached_session::CachedSession;
use crate::hub::core::state::State;
use crate::hub::sessions::presence::EndCause;
use crate::hub::turn::Turn;
use crate::limits::MAX_KEYWORD_BYTES;
use crate::model::json::{Json, JsonObject};
use crate::model::keyword::{UnknownKeyword, join_names};
use crate::model::method::Method;
use crate::model::mode::{Agent, PermissionMode, permission_modes};
use crate::model::owner::Owner;
use crate::model::session::{ControlMode, Session};
use crate::model::vocabulary::ModeField;
use crate::wire::field_types::{Object, optional_scalar};

/// The longest reason of an abort or archive, in Unicode code points.
const MAX_REASON_CHARS: usize = 1_000;

/// The new value of a setting, in the words of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    PermissionMode(String),
    Model(String),
}

/// The result of RPC `set-session-config`.
#[derive(Deserialize)]
struct ConfigResult<'a> {
    #[serde(borrow)]
    applied: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "optional_scalar")]
    success: Option<bool>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Applied {
    permission_mode: Option<String>,
    model_mode: Option<String>,
}

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
        let kill = self.call(&owner, Method::KillSession, &Json::object(&[])).await;
        self.end_session(id, EndCause::Archived).await?;
        let archive = |turn: &mut Turn<'_>, metadata: Option<Json>| {
            let reason = reason.unwrap_or("Archived by user");
            turn.set_metadata(id, with_archived_fields(metadata.as_ref(), reason, self.rt.now()), None)?;
            turn.clear_reactivation(id);
            turn.deactivate_if_archived(id)
        };
        // The session may be active again.
        if self.with_field(id, |session| &session.metadata, archive).await? {
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
            let must_end = |state: &State| {
                let is_archived = |entry: &CachedSession| entry.session.metadata_fields().is_archived();
                state.cache.entry(&id).is_some_and(is_archived)
                    && !state.in_flight.expects_reactivation(&id, hub.rt.now())
            };
            if must_end(&hub.turn()) {
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

    /// Changes the permission mode or the model of an active session. Stores the values that the CLI confirms.
    pub async fn set_mode(&self, id: &str, setting: Setting) -> Result<(), Error> {
        self.load_session(id).await?;
        {
            let turn = self.turn();
            let session = &turn.cache.require_entry(id)?.session;
            match &setting {
                Setting::PermissionMode(mode) => self.config.check_permission_mode(session, mode)?,
                Setting::Model(model) => self.config.check_model(session, model)?,
            }
            if !session.active {
                return Err(turn.inactive_error(id, Error::SessionInactive));
            }
        }
        let applied = self.apply_setting(id, &setting).await?;
        self.with_session(id, |turn| {
            turn.change_session(id, |s| {
                s.permission_mode = applied.permission_mode.or(s.permission_mode.take());
                s.model_mode = applied.model_mode.or(s.model_mode.take());
                s.updated_at = self.rt.now();
            })
        })
        .await
    }

    /// Calls the CLI to apply a setting. Returns the settings that the CLI applied. Fails if the CLI did not apply this setting.
    async fn apply_setting(&self, id: &str, setting: &Setting) -> Result<Applied, Error> {
        let params = self.config.setting_params(&self.turn().cache.require_entry(id)?.session, setting);
        let answer = self.call(&Owner::Session(id.to_owned()), Method::SetSessionConfig, &params).await;
        let answer = answer.map_err(|error| Error::ModeNotApplied(error.to_string()))?;
        let result: ConfigResult<'_> =
            serde_json::from_str(&answer).map_err(|e| Error::ModeNotApplied(e.to_string()))?;
        if let Some(reason) = result.error {
            return Err(Error::ModeNotApplied(reason));
        }
        let applied = result.applied.filter(|_| result.success != Some(false)).and_then(|applied| {
            let renamed = self.config.vocabulary.with_protocol_fields(applied.get());
            let text = renamed.as_ref().map_or(applied.get(), Json::text);
            let Object(applied): Object<Applied> = serde_json::from_str(text).ok()?;
            let setting = match setting {
                Setting::PermissionMode(_) => &applied.permission_mode,
                Setting::Model(_) => &applied.model_mode,
            };
            let mut keywords = applied.permission_mode.iter().chain(&applied.model_mode);
            let is_valid = setting.is_some() && keywords.all(|keyword| keyword.len() <= MAX_KEYWORD_BYTES);
            is_valid.then_some(applied)
        });
        applied.ok_or(Error::ModeNotApplied("its answer names no applied setting".into()))
    }
}

impl Config {
    /// Returns the params of RPC `set-session-config`: the setting in the words of the session's CLI, under each name of the field.
    fn setting_params(&self, session: &Session, setting: &Setting) -> Json {
        let vocabulary = &self.vocabulary;
        let metadata = session.metadata_fields();
        let (field, word) = match setting {
            Setting::PermissionMode(mode) => (ModeField::PermissionMode, mode.clone()),
            Setting::Model(model) if metadata.own_models().contains(model) => (ModeField::ModelMode, model.clone()),
            Setting::Model(model) => {
                let dialect = vocabulary.dialect_of_flavor(metadata.flavor().as_deref());
                (ModeField::ModelMode, vocabulary.model_in(dialect, model))
            }
        };
        let word = Json::of(&word);
        let mut params = JsonObject::default();
        vocabulary.field_names(field).for_each(|name| params.push(name, word.raw()));
        params.to_json()
    }

    /// Refuses a permission mode that the deployment forbids, or that the session's agent does not support.
    pub(in crate::hub) fn check_permission_mode(&self, session: &Session, mode: &str) -> Result<(), Error> {
        if self.forbidden_modes.contains(mode) {
            return Err(Error::ModeForbidden("mode"));
        }
        let mut valid = session.metadata_fields().own_modes();
        let own_count = valid.len();
        for word in permission_modes(self.agent_of(session)).iter().map(|mode| mode.into_str()) {
            if !valid.iter().any(|own| own == word) {
                valid.push(word.to_owned());
            }
        }
        if valid.iter().any(|id| id == mode) {
            return Ok(());
        }
        let message = match mode.parse::<PermissionMode>() {
            Err(_) if own_count == 0 => {
                format!("Field `mode`: {}.", UnknownKeyword::of::<PermissionMode>("permission mode"))
            }
            _ => format!("Field `mode` must be one of {} for this session's agent.", join_names(&valid)),
        };
        Err(Error::field("mode", message))
    }

    fn check_model(&self, session: &Session, model: &str) -> Result<(), Error> {
        let own = session.metadata_fields().own_models();
        let known = self.vocabulary.find_model(model);
        let accepts_known = self.agent_of(session).is_some_and(Agent::accepts_model_modes);
        if own.iter().any(|id| id == model) || known.is_ok() && accepts_known {
            return Ok(());
        }
        let message = match known {
            _ if !own.is_empty() => {
                format!("Field `model` must be one of {} for this session's agent.", join_names(&own))
            }
            Err(error) => format!("Field `model`: {error}."),
            Ok(_) => "Field `model` can be set only for sessions of agent alpha. Start one to choose a model.".into(),
        };
        Err(Error::field("model", message))
    }

    fn agent_of(&self, session: &Session) -> Option<Agent> {
        self.vocabulary.agent_of_flavor(session.metadata_fields().flavor().as_deref())
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
