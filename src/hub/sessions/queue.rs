//! Commands about the messages that wait until the agent is free. The session's CLI keeps the queue, and decides which of two
//! commands wins (PROTOCOL-WEB.md "The queue").

use std::sync::Arc;

use serde::Deserialize;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::{RpcError, rejection_reason};
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;

/// The CLI's error code for a message that is no longer queued.
const NOT_QUEUED: &str = "not_queued";

impl Hub {
    /// Sends a command to the CLI of an active session.
    pub async fn command_queue(self: &Arc<Self>, id: &str, command: &Json) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Refusal {
            code: Option<String>,
        }
        self.require_active(id).await?;
        let answer = match self.call(&Owner::Session(id.to_owned()), Method::Queue, command.text()).await {
            Err(RpcError::InvalidResult(reason)) => return Err(Error::CliRefused(reason)),
            answer => answer?,
        };
        let Some(reason) = rejection_reason(&answer) else { return Ok(()) };
        let code = serde_json::from_str::<Refusal>(&answer).ok().and_then(|refusal| refusal.code);
        Err(if code.as_deref() == Some(NOT_QUEUED) { Error::NotQueued } else { Error::CliRefused(reason) })
    }
}
