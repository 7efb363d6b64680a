//! The permission mode and the model of a session. The hub stores only the values that the CLI confirms.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::config::Config;
use crate::hub::core::error::Error;
use crate::limits::MAX_KEYWORD_BYTES;
use crate::model::json::{Json, JsonObject};
use crate::model::keyword::{UnknownKeyword, join_names};
use crate::model::method::Method;
use crate::model::mode::{Agent, PermissionMode, permission_modes};
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::model::vocabulary::ModeField;
use crate::wire::field_types::{Object, optional_scalar};

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
        let applied = result.applied.and_then(|applied| {
            let renamed = self.config.vocabulary.with_protocol_fields(applied.get());
            let text = renamed.as_ref().map_or(applied.get(), Json::text);
            serde_json::from_str::<Object<Applied>>(text).ok()
        });
        let is_valid = |Object(applied): &Object<Applied>| {
            let setting = match setting {
                Setting::PermissionMode(_) => &applied.permission_mode,
                Setting::Model(_) => &applied.model_mode,
            };
            let mut keywords = applied.permission_mode.iter().chain(&applied.model_mode);
            setting.is_some() && keywords.all(|keyword| keyword.len() <= MAX_KEYWORD_BYTES)
        };
        let applied = applied.filter(|applied| result.success != Some(false) && is_valid(applied));
        applied
            .map(|Object(applied)| applied)
            .ok_or(Error::ModeNotApplied("its answer names no applied setting".into()))
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
        for word in permission_modes(self.agent_of(session)).iter().map(|mode| mode.as_str()) {
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
