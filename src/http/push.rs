//! `/api/push`: the hub's public key, subscriptions, and the delivery log.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::error::ErrorResponse;
use super::extract::{HubOrigin, JsonBody};
use super::response::JsonText;
use crate::hub::Hub;
use crate::store::push::PushSubscription;
use crate::wire::field_types::Object;

pub async fn show_public_key(State(hub): State<Arc<Hub>>) -> Result<JsonText, ErrorResponse> {
    Ok(JsonText::wrap("publicKey", &hub.vapid_public_key().await?))
}

/// The JSON of a browser's `PushSubscription`.
#[derive(Deserialize)]
pub struct SubscribeBody {
    endpoint: String,
    keys: Object<Keys>,
}

#[derive(Deserialize)]
struct Keys {
    p256dh: String,
    auth: String,
}

pub async fn subscribe(
    State(hub): State<Arc<Hub>>,
    HubOrigin(origin): HubOrigin,
    JsonBody(SubscribeBody { endpoint, keys }): JsonBody<SubscribeBody>,
) -> Result<JsonText, ErrorResponse> {
    let Object(Keys { p256dh, auth }) = keys;
    hub.subscribe_to_push(PushSubscription { endpoint, p256dh, auth, hub: origin }).await?;
    Ok(JsonText::ok())
}

#[derive(Deserialize)]
pub struct UnsubscribeBody {
    endpoint: String,
}

pub async fn unsubscribe(
    State(hub): State<Arc<Hub>>,
    JsonBody(UnsubscribeBody { endpoint }): JsonBody<UnsubscribeBody>,
) -> Result<JsonText, ErrorResponse> {
    hub.unsubscribe_from_push(endpoint).await?;
    Ok(JsonText::ok())
}

pub async fn show_log(State(hub): State<Arc<Hub>>) -> JsonText {
    JsonText::of(format!(r#"{{"log":[{}]}}"#, hub.push_log().join(",")))
}
