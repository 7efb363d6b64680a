//! `/api/push`: the hub's public key, subscriptions, and the delivery log.

use serde::Deserialize;

use super::events::parse_device;
use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::auth::token::Credential;
use crate::store::push::PushSubscription;
use crate::wire::field_types::Object;

pub async fn show_public_key(request: RoutedRequest) -> Reply {
    Ok(JsonText::wrap("publicKey", &request.hub.vapid_public_key().await?))
}

/// The JSON of a browser's `PushSubscription`.
#[derive(Deserialize)]
pub struct SubscribeBody {
    endpoint: String,
    keys: Object<Keys>,
    device: Option<String>,
}

#[derive(Deserialize)]
struct Keys {
    p256dh: String,
    auth: String,
}

pub async fn subscribe(mut request: RoutedRequest) -> Reply {
    let origin = request.hub_origin();
    let SubscribeBody { endpoint, keys, device } = request.take_json()?;
    let Object(Keys { p256dh, auth }) = keys;
    let device = parse_device(device)?;
    let token_device = request.credential().and_then(Credential::device).map(str::to_owned);
    let subscription = PushSubscription { endpoint, p256dh, auth, hub: origin, device, token_device };
    request.hub.subscribe_to_push(subscription).await?;
    Ok(JsonText::ok())
}

#[derive(Deserialize)]
pub struct UnsubscribeBody {
    endpoint: String,
}

pub async fn unsubscribe(mut request: RoutedRequest) -> Reply {
    let UnsubscribeBody { endpoint } = request.take_json()?;
    request.hub.unsubscribe_from_push(endpoint).await?;
    Ok(JsonText::ok())
}

pub async fn show_log(request: RoutedRequest) -> Reply {
    Ok(JsonText::of(format!(r#"{{"log":[{}]}}"#, request.hub.push_log().join(","))))
}
