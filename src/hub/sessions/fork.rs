//! Forking a session: a machine starts another session with the history up to a message.

use std::sync::Arc;

use serde::Serialize;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::machines::spawn::{SpawnResult, parse_spawn_result};
use crate::hub::sessions::resume::{ResumeParams, choose_machine, resume_params};
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::model::settings::Settings;

/// The last message of the history that a fork takes over, and the place of the new session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkPoint {
    pub seq: u64,
    /// `simple`, or `worktree` for a new git worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_name: Option<String>,
    /// As in [`SpawnParams`](crate::hub::machines::spawn::SpawnParams).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
}

/// The params of RPC `forkSession`.
#[derive(Serialize)]
struct ForkParams<'a> {
    #[serde(flatten)]
    session: ResumeParams,
    #[serde(flatten)]
    point: &'a ForkPoint,
}

impl Hub {
    /// Starts a session with the history of this session up to a message. If the runner reports a failure, the failure is in the
    /// result. This session does not change. The new one takes its settings, except the pin.
    pub async fn fork(self: &Arc<Self>, id: &str, point: &ForkPoint) -> Result<SpawnResult, Error> {
        self.load_machines().await?;
        self.load_session(id).await?;
        let (machine, session, settings) = {
            let turn = self.turn();
            let session = &turn.cache.require_entry(id)?.session;
            let params = resume_params(session, &self.config.vocabulary).ok_or(Error::ResumeUnavailable)?;
            let machine = choose_machine(&turn, session, Method::ForkSession, self.rt.now());
            let settings = Settings { pinned: false, ..session.settings.clone() };
            (machine.ok_or(Error::NoMachineOnline)?, params, settings)
        };
        let make_params = |dialect| {
            let agent = self.config.vocabulary.agent_in(dialect, &session.agent);
            let session = ResumeParams { agent, ..session.clone() };
            Json::of(&ForkParams { session, point }).text().to_owned()
        };
        let result = self.call_in_dialect(&Owner::Machine(machine), Method::ForkSession, &make_params).await?;
        let result = parse_spawn_result(&result);
        if let Some(fork) = result.session_id.as_ref().filter(|_| settings != Settings::default()) {
            // The fork has started, also if its settings cannot be stored.
            self.change_settings(fork, |own| *own = own.or(&settings)).await.ok();
        }
        Ok(result)
    }
}
