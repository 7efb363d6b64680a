//! Authentication in the stateless worker: access tokens, and the JWTs of web clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::ErrorResponse;
use super::extract::parse_body;
use super::response::{JsonText, Reply, Response, to_response};
use crate::auth::jwt::{JwtKey, WebClaims};
use crate::auth::token::TokenVerifier;
use crate::hub::base::error::Error;
use crate::limits::{JWT_LIFETIME_SECS, MAX_VERIFIED_TOKENS};
use crate::model::namespace::Namespace;
use crate::store::{Database, secrets};

/// The contents of a valid token.
#[derive(Debug, Clone)]
pub struct VerifiedToken {
    pub namespace: Namespace,
    /// Unix milliseconds; `None` for an access token, which does not expire.
    pub expires_at: Option<u64>,
}

impl VerifiedToken {
    fn is_valid(&self, now_ms: u64) -> bool {
        self.expires_at.is_none_or(|expires_at| now_ms < expires_at)
    }
}

/// Verifies tokens, and issues JWTs.
pub struct Authentication {
    pub access_tokens: TokenVerifier,
    jwt: Mutex<Option<JwtKey>>,
    db: Arc<dyn Database>,
    /// A cache: verifying a token computes hashes, which take a twentieth of the CPU time of an RPC call.
    verified_tokens: Mutex<HashMap<String, VerifiedToken>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthBody {
    access_token: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthResponse<'a> {
    token: &'a str,
    user: User<'a>,
    namespace: &'a str,
    expires_at: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User<'a> {
    id: u32,
    first_name: &'a str,
}

impl Authentication {
    /// `jwt` is the key of the configured secret; if `None`, the hub generates a secret and stores it in the database.
    pub fn new(access_tokens: TokenVerifier, jwt: Option<JwtKey>, db: Arc<dyn Database>) -> Self {
        Self { access_tokens, jwt: Mutex::new(jwt), db, verified_tokens: Mutex::default() }
    }

    /// Verifies the access token of a CLI or script.
    pub fn verify_access_token(&self, token: &str) -> Option<Namespace> {
        if let Some(cached) = self.cached_tokens().get(token).filter(|cached| cached.expires_at.is_none()) {
            return Some(cached.namespace.clone());
        }
        let namespace = self.access_tokens.verify(token)?;
        self.cache_token(token, &VerifiedToken { namespace: namespace.clone(), expires_at: None });
        Some(namespace)
    }

    /// Verifies the access token or JWT of a web client.
    pub async fn verify(
        &self,
        token: &str,
        now_ms: u64,
        generate_secret: impl FnOnce() -> Option<String>,
    ) -> Result<VerifiedToken, ErrorResponse> {
        if let Some(cached) = self.cached_tokens().get(token).filter(|cached| cached.is_valid(now_ms)) {
            return Ok(cached.clone());
        }
        if let Some(namespace) = self.verify_access_token(token) {
            return Ok(VerifiedToken { namespace, expires_at: None });
        }
        // Only a JWT needs the key, which may take a database query.
        if token.split('.').count() != 3 {
            return Err(ErrorResponse::unauthorized());
        }
        let jwt = self
            .load_jwt_key(generate_secret)
            .await?
            .verify(token, to_seconds(now_ms))
            .ok_or_else(ErrorResponse::unauthorized)?;
        let verified = VerifiedToken { namespace: jwt.claims.ns, expires_at: Some(to_milliseconds(jwt.expires_at)) };
        self.cache_token(token, &verified);
        Ok(verified)
    }

    fn cached_tokens(&self) -> MutexGuard<'_, HashMap<String, VerifiedToken>> {
        self.verified_tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_token(&self, token: &str, contents: &VerifiedToken) {
        let mut tokens = self.cached_tokens();
        if tokens.len() >= MAX_VERIFIED_TOKENS {
            tokens.clear();
        }
        tokens.insert(token.to_owned(), contents.clone());
    }

    async fn load_jwt_key(&self, generate_secret: impl FnOnce() -> Option<String>) -> Result<JwtKey, ErrorResponse> {
        if let Some(key) = self.cached_jwt_key().clone() {
            return Ok(key);
        }
        let unavailable = || ErrorResponse::hub_unavailable("The random source failed. Try again.");
        let generated = generate_secret().ok_or_else(unavailable)?;
        let secret = secrets::get_or_insert(&*self.db, "JWT_SECRET", &generated).await.map_err(Error::from)?;
        Ok(self.cached_jwt_key().insert(JwtKey::parse(&secret).map_err(ErrorResponse::not_configured)?).clone())
    }

    fn cached_jwt_key(&self) -> MutexGuard<'_, Option<JwtKey>> {
        self.jwt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `POST /api/auth`: exchanges an access token for a JWT.
    pub async fn sign_in(
        &self,
        body: &[u8],
        now_ms: u64,
        generate_secret: impl FnOnce() -> Option<String>,
    ) -> Response {
        let reply: Reply = async {
            let body: AuthBody = parse_body(body)?;
            let namespace = self.access_tokens.verify(&body.access_token).ok_or_else(|| ErrorResponse {
                code: "invalid_access_token",
                message:
                    "The access token (`accessToken`) is not valid for this hub. Check its secret and its namespace."
                        .into(),
                ..ErrorResponse::unauthorized()
            })?;
            let claims = WebClaims { uid: user_id(&namespace), ns: namespace };
            let key = self.load_jwt_key(generate_secret).await?;
            let now = to_seconds(now_ms);
            let token = key.issue(&claims, now).map_err(|e| ErrorResponse::hub_unavailable(e.to_string()))?;
            let namespace = claims.ns.as_ref();
            let user = User { id: claims.uid, first_name: namespace };
            let expires_at = to_milliseconds(now + JWT_LIFETIME_SECS);
            Ok(JsonText::serialize(&AuthResponse { token: &token, user, namespace, expires_at }))
        }
        .await;
        to_response(reply)
    }
}

/// Derives a stable user id from a namespace.
fn user_id(namespace: &Namespace) -> u32 {
    let digest: [u8; 32] = Sha256::digest(namespace.as_ref().as_bytes()).into();
    let [a, b, c, d, ..] = digest;
    u32::from_be_bytes([a, b, c, d]) >> 1
}

fn to_seconds(now_ms: u64) -> i64 {
    i64::try_from(now_ms / 1000).unwrap_or(i64::MAX)
}

fn to_milliseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}
