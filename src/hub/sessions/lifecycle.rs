//! The life of a session as the web steers it: abort, switch to remote, archive. See PROTOCOL.md "Life cycle and modes".

use std::sync::Arc;

use serde::Serialize;

use crate::hub::Hub;
use crate::hub::error::{Error, Kind};
use crate::hub::large::METADATA;
use crate::hub::limits::{KILL_TIMEOUT_MS, MAX_REASON_CHARS};
use crate::hub::peers::rpc::{RpcError, rejection_reason};
use crate::hub::sessions::updates::Changes;
use crate::model::event::Event;
use crate::model::json::{Json, JsonObject};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::model::session::ControlMode;
use crate::store::journal::Extent;

/// Why a session was archived, unless the web says otherwise.
const DEFAULT_REASON: &str = "Archived by user";

#[derive(Serialize)]
struct Abort<'a> {
    reason: &'a str,
}

#[derive(Serialize)]
struct Switch {
    to: ControlMode,
}

impl Hub {
    /// Stops what the agent does; the session is inactive until its CLI reports itself alive again.
    pub async fn abort(self: &Arc<Self>, id: &str, reason: Option<&str>) -> Result<(), Error> {
        check_reason(reason)?;
        self.require_active(id).await?;
        self.order(id, Method::Abort, &Json::of(&Abort { reason: reason.unwrap_or("Aborted by user") })).await?;
        self.session_ended(id).await?;
        self.flushed().await
    }

    /// Takes control from the terminal: the web can send messages again.
    pub async fn switch_to_remote(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.require_active(id).await?;
        self.order(id, Method::Switch, &Json::of(&Switch { to: ControlMode::Remote })).await?;
        self.load_session(id).await?;
        let waiter = {
            let mut state = self.state();
            let entry = state.cache.entry_mut(id).ok_or(Error::Missing(Kind::Session))?;
            entry.session.mode = Some(ControlMode::Remote);
            let event = Event::session_updated(id, &Changes::presence(&entry.session));
            state.journal.queue_session(id, Extent::Counters);
            state.journal.on_commit(crate::hub::state::effect::Effect::Publish(event));
            state.commit_waiter()
        };
        self.committed(waiter).await
    }

    /// Archives a session in any state. The CLI of an active one is asked to end itself first, as far as it answers.
    pub async fn archive(self: &Arc<Self>, id: &str, reason: Option<&str>) -> Result<(), Error> {
        check_reason(reason)?;
        self.load_session(id).await?;
        if self.is_active(id) {
            // Best effort: a CLI that is gone or does not listen keeps no session from being archived.
            let _ = self.call_within(&Owner::Session(id.to_owned()), Method::KillSession, "{}", KILL_TIMEOUT_MS).await;
        }
        self.session_ended(id).await?;
        let waiter = self
            .change(id, &METADATA, |state, metadata| {
                let metadata = archived(metadata.as_ref(), reason.unwrap_or(DEFAULT_REASON), self.rt.now());
                self.set_metadata(state, id, metadata, None)?;
                Ok(state.commit_waiter())
            })
            .await?;
        self.committed(waiter).await
    }

    /// The session is in memory and active.
    pub(in crate::hub) async fn require_active(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_session(id).await?;
        if self.is_active(id) { Ok(()) } else { Err(Error::SessionInactive) }
    }

    pub(in crate::hub) fn is_active(&self, id: &str) -> bool {
        self.state().cache.entry(id).is_some_and(|entry| entry.session.active)
    }

    /// Tells a session's CLI to do something; any acknowledgement counts, save one that says it failed.
    pub(in crate::hub) async fn order(&self, id: &str, method: Method, params: &Json) -> Result<(), Error> {
        match self.call(&Owner::Session(id.to_owned()), method, params.text()).await {
            Ok(result) => rejection_reason(&result).map_or(Ok(()), |message| Err(Error::CliRefused(message))),
            // The CLI acknowledged, with a word that says nothing more.
            Err(RpcError::InvalidResult(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Refuses a reason that is longer than anybody writes.
pub fn check_reason(reason: Option<&str>) -> Result<(), Error> {
    if reason.is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
        return Err(Error::field("reason", format!("Field `reason` must have at most {MAX_REASON_CHARS} characters.")));
    }
    Ok(())
}

/// The metadata of an archived session.
fn archived(metadata: Option<&Json>, reason: &str, now: u64) -> Json {
    let fields = [
        ("lifecycleState", Json::of("archived")),
        ("lifecycleStateSince", Json::of(&now)),
        ("archivedBy", Json::of("web")),
        ("archiveReason", Json::of(reason)),
    ];
    let mut object = metadata.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    for (name, value) in &fields {
        object.set(name, value.raw());
    }
    object.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archiving_keeps_every_other_field() {
        let metadata = Json::parse(r#"{"path":"/w","lifecycleState":"running","x":1.50}"#).unwrap();
        assert_eq!(
            archived(Some(&metadata), "done", 7).text(),
            r#"{"path":"/w","lifecycleState":"archived","x":1.50,"lifecycleStateSince":7,"archivedBy":"web","archiveReason":"done"}"#
        );
    }
}
