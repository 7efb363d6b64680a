//! `/api/push`: the hub's public key, subscriptions, and the delivery log.

use serde::Deserialize;

use super::events::parse_device;
use super::extract::{RoutedRequest, hub_origin};
use super::response::{Reply, acknowledge};
use crate::auth::token::{Credential, SecretId};
use crate::memory_budget::ResponseText;
use crate::store::push::PushSubscription;
use crate::wire::field_types::{Object, optional_keyword};

pub async fn show_public_key(request: RoutedRequest) -> Reply {
    Ok(ResponseText::wrap("publicKey", &request.hub.subscriptions.load_vapid_keys().await?.public()))
}

/// The JSON of a browser's `PushSubscription`.
#[derive(Deserialize)]
pub struct SubscribeBody {
    endpoint: String,
    keys: Object<Keys>,
    device: Option<String>,
    #[serde(default, deserialize_with = "optional_keyword")]
    notify: Option<Notify>,
}

/// What a device is notified about.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Notify {
    Requests,
    All,
}

#[derive(Deserialize)]
struct Keys {
    p256dh: String,
    auth: String,
}

pub async fn subscribe(mut request: RoutedRequest) -> Reply {
    let hub_origin = hub_origin(request.host());
    let SubscribeBody { endpoint, keys, device, notify } = request.take_json()?;
    let Object(Keys { p256dh, auth }) = keys;
    let device = parse_device(device)?;
    let token_device = request.credential().and_then(Credential::device).map(str::to_owned);
    let tokens = &request.hub.config.tokens;
    // An earlier worker does not send the secret.
    let secret = request.secret().or_else(|| token_device.is_none().then(|| tokens.oldest_secret()));
    let secret = secret.map(|SecretId(id)| id.clone());
    let requests_only = notify == Some(Notify::Requests);
    let subscription =
        PushSubscription { endpoint, p256dh, auth, hub_origin, device, token_device, secret, requests_only };
    request.hub.subscriptions.subscribe(subscription, request.credential_value()).await?;
    request.refuse_revoked()?;
    Ok(ResponseText::ok())
}

#[derive(Deserialize)]
pub struct UnsubscribeBody {
    endpoint: String,
}

pub async fn unsubscribe(mut request: RoutedRequest) -> Reply {
    let UnsubscribeBody { endpoint } = request.take_json()?;
    acknowledge(request.hub.subscriptions.unsubscribe(endpoint).await)
}

pub async fn show_log(request: RoutedRequest) -> Reply {
    Ok(ResponseText::wrap("log", &request.hub.push_log()))
}
