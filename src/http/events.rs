//! `GET /api/events` and `POST /api/visibility`.

use std::sync::Arc;

use serde::Deserialize;

use super::extract::{Query, RoutedRequest};
use super::response::{Reply, acknowledge};
use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::subscription::{Format, Subscription};
use crate::hub::sessions::load::RelatedRows;
use crate::wire::field_types::keyword;

/// The longest `device` of a request, in bytes.
const MAX_DEVICE_BYTES: usize = 64;

/// Parses and authorizes the query of `GET /api/events`. `last_event_id` is the header `Last-Event-ID`. If the query parameter
/// `lastEventId` names another event, the newer event counts: a browser reconnects with its original URL and the latest header. Returns
/// the subscription and the id of this event; `None` for a stream that does not resume another one.
pub async fn parse_request(
    hub: &Arc<Hub>,
    query: &str,
    last_event_id: Option<String>,
    format: Format,
) -> Result<(Subscription, Option<String>), Error> {
    let query = Query::parse(query)?;
    let session = query.text("sessionId")?.map(str::to_owned);
    let machine = query.text("machineId")?.map(str::to_owned);
    if let Some(id) = &session {
        // A session that is being merged is accepted: the stream delivers the result of the merge.
        hub.load_session_during_merge(id, RelatedRows::None).await?;
    }
    if let Some(id) = &machine {
        hub.load_machine(id).await?;
    }
    let is_reported_visible = match query.text("visibility")? {
        Some("visible") => true,
        None | Some("hidden") => false,
        Some(_) => {
            return Err(Error::field("visibility", "Query parameter `visibility` must be `visible` or `hidden`."));
        }
    };
    let device = parse_device(query.text("device")?.map(str::to_owned))?;
    let receives_all = query.flag("all")?.unwrap_or(session.is_none() && machine.is_none());
    let last_event_id = hub.newer_event_id(last_event_id, query.text("lastEventId")?.map(str::to_owned));
    hub.load_missed_events(last_event_id.as_deref()).await?;
    let subscription =
        Subscription { receives_all, session, machine, is_reported_visible, device, format, ..Subscription::default() };
    Ok((subscription, last_event_id))
}

/// Checks the `device` of a request, the id that a client has for its device. An empty id counts as absent.
pub fn parse_device(device: Option<String>) -> Result<Option<String>, Error> {
    match device {
        Some(name) if name.len() > MAX_DEVICE_BYTES => {
            Err(Error::field("device", format!("`device` must have at most {MAX_DEVICE_BYTES} bytes.")))
        }
        device => Ok(device.filter(|name| !name.is_empty())),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VisibilityBody {
    subscription_id: String,
    #[serde(deserialize_with = "keyword")]
    visibility: VisibilityState,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum VisibilityState {
    Visible,
    Hidden,
}

pub async fn set_visibility(mut request: RoutedRequest) -> Reply {
    let body: VisibilityBody = request.take_json()?;
    acknowledge(request.hub.set_visibility(&body.subscription_id, body.visibility == VisibilityState::Visible))
}
