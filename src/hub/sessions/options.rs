//! Options of a session's agent other than its mode and model, such as its effort. The CLI keeps them.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::rejection_reason;
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;

impl Hub {
    /// Sets an option of an active session's agent. The error of a refusal has the agent's reason.
    pub async fn set_option(self: &Arc<Self>, id: &str, option: &str, value: &Json) -> Result<(), Error> {
        self.require_active(id).await?;
        let params = Json::object(&[("id", Json::of(option)), ("value", value.clone())]);
        let answer = self.call(&Owner::Session(id.to_owned()), Method::SetSessionOption, params.text()).await;
        let answer = answer.map_err(|error| Error::OptionNotApplied(error.to_string()))?;
        rejection_reason(&answer).map_or(Ok(()), |reason| Err(Error::OptionNotApplied(reason)))
    }
}
