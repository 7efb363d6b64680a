//! `/api/devices`: devices and their codes.

use serde::{Deserialize, Serialize};

use super::error::ErrorResponse;
use super::extract::{RoutedRequest, hub_origin};
use super::response::{JsonText, Reply};
use crate::auth::pairing::Code;
use crate::auth::token::Credential;
use crate::hub::core::error::Error;
use crate::hub::devices::codes::NewCode;
use crate::model::device::{DeviceKind, MAX_DEVICE_NAME_CHARS, parse_device_name};
use crate::wire::field_types::optional_keyword;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingStep {
    /// `POST /api/devices`: exchanges a code for a token.
    Redeem,
    /// `POST /api/devices/requests`: creates a code that a person approves.
    Request,
    /// `POST /api/devices/requests/token`: gets the token after the approval.
    Poll,
}

impl PairingStep {
    /// The prefix under which the requests of an address are counted. A device polls for minutes, so its polls do not count as guesses.
    pub fn attempts_prefix(self) -> &'static str {
        if self == Self::Poll { "poll " } else { "pair " }
    }
}

/// The body of the requests about devices. One type, because each type adds to the wasm.
#[derive(Deserialize)]
pub struct DeviceBody {
    pub code: Option<String>,
    pub secret: Option<String>,
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
        let Some(name) = &self.name else { return Ok(None) };
        let name = parse_device_name(name).ok_or_else(|| {
            let message =
                format!("Field `name` must have 1 to {MAX_DEVICE_NAME_CHARS} characters, without control characters.");
            Error::field("name", message)
        })?;
        Ok(Some(name))
    }

    /// Returns the trimmed name and the kind of a new device.
    pub fn device(&self) -> Result<(String, &'static str), Error> {
        Ok((required("name", self.name()?)?, required("kind", self.kind)?.into()))
    }
}

pub fn required<T>(field: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::field(field, format!("Field `{field}` is required.")))
}

/// The response with a new code. One type, because each type adds to the wasm.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedCode<'a> {
    code: String,
    /// The id of the device that will use the code. Unlike the code, it may be in the logs of servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// The address of the page on which the code is entered or approved. The fragment does not reach a server.
    url: String,
    expires_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<u64>,
}

impl<'a> CreatedCode<'a> {
    /// `polling`: the secret with which the device asks for its token, and how often it may ask.
    pub fn new(host: &str, (code, device_id, expires_at): NewCode, polling: Option<(&'a str, u64)>) -> Self {
        // A private host with a port is a local hub.
        let scheme = if host.contains(':') && hub_origin(host).is_none() { "http" } else { "https" };
        let url = format!("{scheme}://{host}/pair#{code}");
        let (secret, interval_ms) = polling.unzip();
        let device_id = secret.is_none().then_some(device_id);
        Self { code: code.to_string(), device_id, secret, url, expires_at, interval_ms }
    }
}

/// `POST /api/devices/codes`
pub async fn create_code(mut request: RoutedRequest) -> Reply {
    let body: DeviceBody = request.take_json()?;
    let (name, kind) = (body.name()?, body.kind.map(Into::into));
    let created = request.hub.create_device_code(name.as_deref(), kind, request.credential_value()).await;
    request.refuse_revoked()?;
    Ok(JsonText::serialize(&CreatedCode::new(request.host(), created?, None)))
}

/// `GET /api/devices/codes/:deviceId`
pub async fn show_code_user(request: RoutedRequest) -> Reply {
    let found = request.hub.find_code_user(&request.param("deviceId")?).await?;
    Ok(JsonText::wrap("device", &found))
}

pub async fn list(request: RoutedRequest) -> Reply {
    let current = request.credential().and_then(Credential::device);
    Ok(JsonText::wrap("devices", &request.hub.list_devices(current).await?))
}

pub async fn rename(mut request: RoutedRequest) -> Reply {
    let id = request.param("id")?;
    request.hub.check_device(&id).await?;
    request.refuse_null_body()?;
    let body: DeviceBody = request.take_json()?;
    let device = request.hub.rename_device(&id, &required("name", body.name()?)?).await?;
    Ok(JsonText::wrap("device", &device))
}

pub async fn revoke(request: RoutedRequest) -> Reply {
    let id = request.param("id")?;
    request.hub.check_device(&id).await?;
    request.hub.revoke_device(&id).await?;
    Ok(JsonText::ok())
}

fn parse_code(request: &RoutedRequest) -> Result<Code, ErrorResponse> {
    let code = Code::parse(&request.param("code")?).filter(Code::is_request);
    code.ok_or_else(|| Error::UnknownCode.into())
}

/// `GET /api/devices/requests/:code`
pub async fn show_request(request: RoutedRequest) -> Reply {
    let found = request.hub.find_device_request(&parse_code(&request)?).await?;
    Ok(JsonText::wrap("request", &found))
}

/// `POST /api/devices/requests/:code`
pub async fn decide_request(mut request: RoutedRequest) -> Reply {
    let code = parse_code(&request)?;
    request.hub.find_device_request(&code).await?;
    request.refuse_null_body()?;
    let DeviceBody { decision, .. } = request.take_json()?;
    let is_approved = required("decision", decision)? == Decision::Approve;
    let decided = request.hub.decide_device_request(&code, is_approved, request.credential_value()).await;
    request.refuse_revoked()?;
    decided?;
    Ok(JsonText::ok())
}
