//! Permission mode and model of a session. The CLI decides: what it says it applied is persisted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::hub::error::{Error, Kind};
use crate::hub::sessions::updates::Changes;
use crate::hub::state::effect::Effect;
use crate::model::event::Event;
use crate::model::keyword::MAX_KEYWORD_BYTES;
use crate::model::method::Method;
use crate::model::mode::{Flavor, PermissionMode};
use crate::model::owner::Owner;
use crate::store::journal::Extent;
use crate::wire::field_types::{Object, optional_scalar};

/// Which of the two a client changes. The words are kept as the client wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// What the agent may do without asking.
    PermissionMode(String),
    /// Which model it uses.
    Model(String),
}

/// The params of RPC `set-session-config`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_mode: Option<&'a str>,
}

/// What the CLI answers.
#[derive(Deserialize)]
struct ConfigResult {
    applied: Option<Object<Applied>>,
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
    /// Changes the permission mode or the model of an active session.
    pub async fn set_mode(self: &Arc<Self>, id: &str, setting: Setting) -> Result<(), Error> {
        self.load_session(id).await?;
        match &setting {
            Setting::PermissionMode(mode) => self.check_permission_mode(id, mode)?,
            Setting::Model(model) => self.check_model(id, model)?,
        }
        self.require_active(id).await?;
        let applied = self.apply(id, &setting).await?;
        self.load_session(id).await?;
        let waiter = {
            let mut state = self.state();
            let s = &mut state.cache.entry_mut(id).ok_or(Error::Missing(Kind::Session))?.session;
            if applied.permission_mode.is_some() {
                s.permission_mode = applied.permission_mode;
            }
            if applied.model_mode.is_some() {
                s.model_mode = applied.model_mode;
            }
            s.updated_at = self.rt.now();
            let event = Event::session_updated(id, &Changes::presence(s));
            state.journal.queue_session(id, Extent::Counters);
            state.journal.on_commit(Effect::Publish(event));
            state.commit_waiter()
        };
        self.committed(waiter).await
    }

    async fn apply(&self, id: &str, setting: &Setting) -> Result<Applied, Error> {
        let config = match setting {
            Setting::PermissionMode(mode) => SessionConfig { permission_mode: Some(mode), model_mode: None },
            Setting::Model(model) => SessionConfig { permission_mode: None, model_mode: Some(model) },
        };
        let params = serde_json::to_string(&config).unwrap_or_default();
        let answer = self.call(&Owner::Session(id.to_owned()), Method::SetSessionConfig, &params).await;
        let answer = answer.map_err(|error| Error::NotApplied(error.to_string()))?;
        let result: ConfigResult = serde_json::from_str(&answer).map_err(|e| Error::NotApplied(e.to_string()))?;
        let done = |applied: &Applied| {
            let asked = match setting {
                Setting::PermissionMode(_) => &applied.permission_mode,
                Setting::Model(_) => &applied.model_mode,
            };
            let mut named = applied.permission_mode.iter().chain(&applied.model_mode);
            asked.is_some() && named.all(|word| word.len() <= MAX_KEYWORD_BYTES)
        };
        let failed = result.error.is_some();
        let reason = result.error.unwrap_or_else(|| "it named nothing that it applied".into());
        let refused = result.success == Some(false) || failed;
        result
            .applied
            .map(|Object(applied)| applied)
            .filter(|applied| !refused && done(applied))
            .ok_or(Error::NotApplied(reason))
    }

    fn flavor(&self, id: &str) -> Result<Flavor, Error> {
        let state = self.state();
        let entry = state.cache.entry(id).ok_or(Error::Missing(Kind::Session))?;
        Ok(self.config.vocabulary.flavor(entry.session.metadata_fields().flavor().as_deref()))
    }

    /// Whether the session's agent takes a permission mode; the session must be in memory.
    pub(in crate::hub) fn check_permission_mode(&self, id: &str, mode: &str) -> Result<(), Error> {
        let flavor = self.flavor(id)?;
        let known = mode.parse::<PermissionMode>().map_err(|e| Error::field("mode", format!("Field `mode`: {e}.")))?;
        if !flavor.accepts_permission_mode(known) {
            let valid: Vec<&str> = flavor.permission_modes().iter().map(|mode| mode.as_str()).collect();
            let message = format!("Field `mode`: this session's agent takes only {}.", valid.join(", "));
            return Err(Error::field("mode", message));
        }
        Ok(())
    }

    fn check_model(&self, id: &str, model: &str) -> Result<(), Error> {
        self.config.vocabulary.model(model).map_err(|e| Error::field("model", format!("Field `model`: {e}.")))?;
        if !self.flavor(id)?.accepts_model_modes() {
            return Err(Error::field("model", "Field `model`: only sessions of flavor alpha take a model mode."));
        }
        Ok(())
    }
}
