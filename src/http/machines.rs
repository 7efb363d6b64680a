//! `/api/machines`.

use std::sync::Arc;

use axum::extract::State;

use super::JsonText;
use super::error::Refusal;
use crate::hub::Hub;

/// `GET /api/machines`: those that are online.
pub async fn list(State(hub): State<Arc<Hub>>) -> Result<JsonText, Refusal> {
    let machines = hub.online_machines().await?;
    Ok(JsonText::wrapped("machines", &machines)?)
}
