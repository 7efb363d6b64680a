//! The requests of new devices, which have no token. The worker handles them, because it does not know their namespace.

use super::authentication::GenerateSecret;
use super::devices::{CreatedCode, DeviceBody, PairingStep, required};
use super::edge::{Edge, RequestHead};
use super::error::ErrorResponse;
use super::extract::{parse_body, refuse_null};
use super::response::{JsonText, Reply, Response, to_response};
use crate::auth::pairing::{Code, hash};
use crate::auth::token::DEVICE_TOKEN_PREFIX;
use crate::hub::core::error::Error;
use crate::hub::devices::codes::create_code;
use crate::model::json::Json;
use crate::store::Value;
use crate::store::devices::{Claim, ClaimedCode, NewClaim, NewPairing, claim};

/// How often a device may ask whether its request was approved, in milliseconds.
const POLL_INTERVAL_MS: u64 = 3_000;
/// The length of the secret of a request: 32 bytes in base64url.
const SECRET_LEN: usize = 43;

impl Edge {
    /// Handles a request of a new device.
    pub async fn pair(
        &self,
        step: PairingStep,
        head: &RequestHead,
        body: &[u8],
        now_ms: u64,
        generate_secret: &GenerateSecret,
    ) -> Response {
        let no_random = || ErrorResponse::hub_unavailable("The random source failed. Try again.");
        let reply: Reply = async {
            let random = generate_secret().ok_or_else(no_random)?;
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
        let new = NewClaim { claim_hash, token_hash: &hash(&token), code };
        let error = match claim(&*self.db, new, now).await.map_err(Error::from)? {
            Claim::Device(device, namespace) => {
                let (token, namespace) = (Some(Json::of(&token)), Some(Json::of(&namespace)));
                let members =
                    [("status", status), ("device", Some(device)), ("token", token), ("namespace", namespace)];
                return Ok(JsonText::serialize(&Json::object_of_some(&members)));
            }
            Claim::Pending => return Ok(JsonText::wrap("status", "pending")),
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
        let created = create_code(&*self.db, &pairing, secret.as_bytes(), now).await?;
        let polling = Some((secret, POLL_INTERVAL_MS));
        Ok(JsonText::serialize(&CreatedCode::new(host, created, polling)))
    }
}
