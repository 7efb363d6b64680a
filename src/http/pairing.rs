//! The requests of new devices, which have no token. The worker handles them, because it does not know their namespace.

use super::authentication::GenerateSecret;
use super::devices::{DeviceBody, PairingStep, pairing_url, required};
use super::edge::{Edge, RequestHead};
use super::error::ErrorResponse;
use super::extract::{parse_body, refuse_null};
use super::response::{JsonText, Reply, Response, to_response};
use crate::auth::pairing::{Code, hash};
use crate::auth::token::DEVICE_TOKEN_PREFIX;
use crate::hub::core::error::Error;
use crate::model::ids::uuid_v7;
use crate::store::Value;
use crate::store::devices::{
    CODE_LIFETIME_MS, Claim, Insertion, MAX_CODE_ATTEMPTS, NewClaim, NewPairing, claim, insert_pairing,
};

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
                    self.claim_token(code.selector(), &code.hash(), &random, (&name, kind), now_ms).await
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
                    self.claim_token("", &hash(&secret), &random, ("", ""), now_ms).await
                }
            }
        }
        .await;
        to_response(reply)
    }

    async fn claim_token(
        &self,
        selector: &str,
        claim_hash: &str,
        random: &str,
        device: (&str, &str),
        now: u64,
    ) -> Reply {
        let token = format!("{DEVICE_TOKEN_PREFIX}{random}");
        let (name, kind) = device;
        let new = NewClaim { selector, claim_hash, token_hash: &hash(&token), name, kind };
        let error = match claim(&*self.db, new, now).await.map_err(Error::from)? {
            Claim::Device(json, namespace) => {
                let status = if selector.is_empty() { r#""status":"approved","# } else { "" };
                let text = format!(r#"{{{status}"device":{json},"token":"{token}","namespace":"{namespace}"}}"#);
                return Ok(JsonText::of(text));
            }
            Claim::Pending => return Ok(JsonText::of(r#"{"status":"pending"}"#)),
            Claim::Denied => Error::PairingDenied,
            Claim::TooManyDevices => Error::TooManyDevices,
            Claim::Unknown => Error::UnknownCode,
        };
        Err(error.into())
    }

    async fn create_request(&self, host: &str, secret: &str, device: (&str, &str), now: u64) -> Reply {
        let (name, kind) = (Some(device.0), Some(device.1));
        let mut inserted = None;
        for attempt in 0..MAX_CODE_ATTEMPTS {
            let random = hash(&format!("{attempt}{secret}"));
            let code = Code::generate(random.as_bytes(), true);
            let device_id = uuid_v7(now, random.as_bytes().first_chunk().unwrap_or(&[0; 10]));
            let (code_hash, secret_hash) = (code.hash(), hash(secret));
            let pairing = NewPairing {
                selector: code.selector(),
                code_hash: &code_hash,
                secret_hash: Some(&secret_hash),
                device_id: &device_id,
                namespace: None,
                name,
                kind,
                credential: Value::Null,
            };
            if insert_pairing(&*self.db, pairing, now).await.map_err(Error::from)? == Insertion::Done {
                inserted = Some(code);
                break;
            }
        }
        let code = inserted.ok_or(Error::Overloaded)?;
        let (url, expires_at) = (pairing_url(host, &code), now + CODE_LIFETIME_MS);
        Ok(JsonText::of(format!(
            r#"{{"code":"{code}","secret":"{secret}","url":"{url}","expiresAt":{expires_at},"intervalMs":{POLL_INTERVAL_MS}}}"#
        )))
    }
}
