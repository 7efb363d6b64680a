//! `/api/devices`: devices and their codes. The worker handles the requests of new devices, which have no token, and so no namespace.

use serde::Deserialize;

use super::edge::{Edge, PairingStep, RequestHead};
use super::error::ErrorResponse;
use super::extract::{RoutedRequest, hub_origin, parse_body, refuse_null};
use super::response::{Reply, Response, acknowledge, to_response};
use crate::auth::pairing::{Code, hash};
use crate::auth::token::{Credential, DEVICE_TOKEN_PREFIX};
use crate::hub::access::{NewCode, create_code as create_unused_code};
use crate::hub::core::error::{Error, check_field};
use crate::memory_budget::ResponseText;
use crate::model::device::{DeviceKind, MAX_DEVICE_NAME_CHARS, parse_device_name};
use crate::model::json::Json;
use crate::store::Value;
use crate::store::devices::{Claim, ClaimedCode, NewPairing, claim};
use crate::wire::field_types::optional_keyword;

/// How often a device may ask whether its request was approved, in milliseconds.
const POLL_INTERVAL_MS: u64 = 3_000;
/// The length of the secret of a request: 32 bytes in base64url.
const SECRET_LEN: usize = 43;

/// The body of the requests about devices. One type, because each type adds to the wasm.
#[derive(Deserialize)]
pub struct DeviceBody {
    code: Option<String>,
    secret: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "optional_keyword")]
    kind: Option<DeviceKind>,
    #[serde(default, deserialize_with = "optional_keyword")]
    decision: Option<Decision>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Approve,
    Deny,
}

impl DeviceBody {
    /// Returns the trimmed name, if there is one.
    fn name(&self) -> Result<Option<String>, Error> {
        let name = self.name.as_deref().map(parse_device_name);
        let rule = format_args!("have 1 to {MAX_DEVICE_NAME_CHARS} characters, without control characters");
        check_field(name != Some(None), "name", rule)?;
        Ok(name.flatten())
    }

    /// Returns the trimmed name and the kind of a new device.
    fn device(&self) -> Result<(String, &'static str), Error> {
        Ok((required("name", self.name()?)?, required("kind", self.kind)?.into()))
    }
}

fn required<T>(field: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::field(field, format!("Field `{field}` is required.")))
}

/// Answers with a new code, and the address of the page on which the code is entered or approved. The fragment of the address does not
/// reach a server. Without `polling`, also with the id of the device that will use the code: unlike the code, it may be in the logs of
/// servers. `polling`: the secret with which the device asks for its token, and how often it may ask.
fn new_code(host: &str, (code, device_id, expires_at): NewCode, polling: Option<(&str, u64)>) -> ResponseText {
    // A private host with a port is a local hub.
    let scheme = if host.contains(':') && hub_origin(host).is_none() { "http" } else { "https" };
    ResponseText::serialize(&Json::object_of_some(&[
        ("code", Some(Json::of(&code.to_string()))),
        ("deviceId", polling.is_none().then(|| Json::of(&device_id))),
        ("secret", polling.map(|(secret, _)| Json::of(secret))),
        ("url", Some(Json::of(&format!("{scheme}://{host}/pair#{code}")))),
        ("expiresAt", Some(Json::of(&expires_at))),
        ("intervalMs", polling.map(|(_, interval_ms)| Json::of(&interval_ms))),
    ]))
}

pub async fn create_code(mut request: RoutedRequest) -> Reply {
    let body: DeviceBody = request.take_json()?;
    let (name, kind) = (body.name()?, body.kind.map(Into::into));
    let created = request.hub.access.create_device_code(name.as_deref(), kind, request.credential_value()).await;
    request.refuse_revoked()?;
    Ok(new_code(request.host(), created?, None))
}

pub async fn show_code_user(request: RoutedRequest) -> Reply {
    let found = request.hub.access.find_code_user(&request.param("deviceId")?).await?;
    Ok(ResponseText::wrap("device", &found))
}

pub async fn list(request: RoutedRequest) -> Reply {
    let current = request.credential().and_then(Credential::device);
    Ok(ResponseText::wrap("devices", &request.hub.access.list_devices(current).await?))
}

pub async fn rename(mut request: RoutedRequest) -> Reply {
    let id = request.param("id")?;
    request.hub.access.check_device(&id).await?;
    request.refuse_null_body()?;
    let body: DeviceBody = request.take_json()?;
    let device = request.hub.access.rename_device(&id, &required("name", body.name()?)?).await?;
    Ok(ResponseText::wrap("device", &device))
}

pub async fn revoke(request: RoutedRequest) -> Reply {
    let id = request.param("id")?;
    request.hub.access.check_device(&id).await?;
    acknowledge(request.hub.revoke_device(&id).await)
}

fn parse_code(request: &RoutedRequest) -> Result<Code, ErrorResponse> {
    let code = Code::parse(&request.param("code")?).filter(Code::is_request);
    code.ok_or_else(|| Error::UnknownCode.into())
}

pub async fn show_request(request: RoutedRequest) -> Reply {
    let found = request.hub.access.find_device_request(&parse_code(&request)?).await?;
    Ok(ResponseText::wrap("request", &found))
}

fn read_decision(request: &mut RoutedRequest) -> Result<Decision, ErrorResponse> {
    request.refuse_null_body()?;
    let DeviceBody { decision, .. } = request.take_json()?;
    Ok(required("decision", decision)?)
}

pub async fn decide_request(mut request: RoutedRequest) -> Reply {
    let code = parse_code(&request)?;
    let is_approved = match read_decision(&mut request) {
        Ok(decision) => decision == Decision::Approve,
        Err(error) => {
            // An unknown code comes before an invalid body.
            request.hub.access.find_device_request(&code).await?;
            return Err(error);
        }
    };
    let decided = request.hub.access.decide_device_request(&code, is_approved, request.credential_value()).await;
    request.refuse_revoked()?;
    acknowledge(decided)
}

impl Edge {
    /// Handles a request of a new device.
    pub async fn pair(&self, step: PairingStep, head: &RequestHead, body: &[u8], now_ms: u64) -> Response {
        let reply: Reply = async {
            let random = self.authentication.generate_secret()?;
            refuse_null(body)?;
            let body: DeviceBody = parse_body(body)?;
            match step {
                PairingStep::Redeem => {
                    let code = required("code", body.code.as_deref())?;
                    let (name, kind) = body.device()?;
                    let code = Code::parse(code).filter(|code| !code.is_request()).ok_or(Error::UnknownCode)?;
                    let claimed = ClaimedCode { selector: code.selector(), name: &name, kind };
                    self.claim_token(&code.hash(), &random, Some(claimed), now_ms).await
                }
                PairingStep::Request => {
                    let (name, kind) = body.device()?;
                    self.create_request(&head.host, &random, (&name, kind), now_ms).await
                }
                PairingStep::Poll => {
                    let secret = required("secret", body.secret)?;
                    if secret.len() != SECRET_LEN {
                        return Err(Error::UnknownCode.into());
                    }
                    self.claim_token(&hash(secret), &random, None, now_ms).await
                }
            }
        }
        .await;
        to_response(reply)
    }

    /// Answers with the token of a device. `code`: `None` for the secret of a request.
    async fn claim_token(&self, claim_hash: &str, random: &str, code: Option<ClaimedCode<'_>>, now: u64) -> Reply {
        let token = format!("{DEVICE_TOKEN_PREFIX}{random}");
        let status = code.is_none().then(|| Json::of("approved"));
        let error = match claim(&*self.authentication.db, claim_hash, &hash(&token), code, now).await? {
            Claim::Device(device, namespace) => {
                let (token, namespace) = (Some(Json::of(&token)), Some(Json::of(&namespace)));
                let members =
                    [("status", status), ("device", Some(device)), ("token", token), ("namespace", namespace)];
                return Ok(ResponseText::serialize(&Json::object_of_some(&members)));
            }
            Claim::Pending => return Ok(ResponseText::wrap("status", "pending")),
            Claim::Denied => Error::PairingDenied,
            Claim::TooManyDevices => Error::TooManyDevices,
            Claim::Unknown => Error::UnknownCode,
        };
        Err(error.into())
    }

    async fn create_request(&self, host: &str, secret: &str, device: (&str, &str), now: u64) -> Reply {
        let secret_hash = hash(secret);
        let pairing = NewPairing {
            secret_hash: Some(&secret_hash),
            namespace: None,
            name: Some(device.0),
            kind: Some(device.1),
            credential: Value::Null,
        };
        let created = create_unused_code(&*self.authentication.db, &pairing, secret.as_bytes(), now).await?;
        Ok(new_code(host, created, Some((secret, POLL_INTERVAL_MS))))
    }
}
