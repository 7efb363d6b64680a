//! `GET /api/events` and `POST /api/visibility`.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::JsonText;
use super::error::Refusal;
use super::extract::JsonBody;
use super::query::Query;
use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::peers::subscription::{Format, Subscription};
use crate::wire::field_types::keyword;

/// What a client that opens the event channel asked for.
#[derive(Debug)]
pub struct Asked {
    /// What it wants to hear.
    pub subscription: Subscription,
    /// The id of the last event that it heard, as it shows it; `None` when it comes for the first time.
    pub last_event_id: Option<String>,
}

/// Reads and checks the query of `GET /api/events`: the session or machine must be the namespace's.
/// `last_event_id` is the header of that name; the query parameter `lastEventId` counts before it.
pub async fn subscription(
    hub: &Arc<Hub>,
    query: &str,
    last_event_id: Option<String>,
    format: Format,
) -> Result<Asked, Error> {
    let query = Query::parse(query)?;
    let session = query.text("sessionId").map(str::to_owned);
    let machine = query.text("machineId").map(str::to_owned);
    if let Some(id) = &session {
        // During a merge, too: what becomes of the session is an event.
        hub.load_session_in_merge(id).await?;
    }
    if let Some(id) = &machine {
        hub.load_machine(id).await?;
    }
    let visible = match query.text("visibility") {
        Some("visible") => true,
        // Whoever does not say so is not taken for a person who looks at a page.
        None | Some("hidden") => false,
        Some(_) => {
            return Err(Error::field("visibility", "Query parameter `visibility` must be `visible` or `hidden`."));
        }
    };
    let all = query.flag("all")?.unwrap_or(session.is_none() && machine.is_none());
    let last_event_id = query.text("lastEventId").map(str::to_owned).or(last_event_id);
    hub.load_missed_events(last_event_id.as_deref()).await?;
    let subscription = Subscription { all, session, machine, visible, format, ..Subscription::default() };
    Ok(Asked { subscription, last_event_id })
}

/// The body of `POST /api/visibility`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Visibility {
    subscription_id: String,
    #[serde(deserialize_with = "keyword")]
    visibility: Seen,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Seen {
    Visible,
    Hidden,
}

/// `POST /api/visibility`.
pub async fn visibility(
    State(hub): State<Arc<Hub>>,
    JsonBody(body): JsonBody<Visibility>,
) -> Result<JsonText, Refusal> {
    hub.set_visibility(&body.subscription_id, body.visibility == Seen::Visible)?;
    Ok(JsonText::ok())
}
