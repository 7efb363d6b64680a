//! Authentication in the stateless worker: access tokens, and the JWTs of web clients. The worker asks the database whether a token
//! was revoked, and caches the answer for ten seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, Either, select};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::error::ErrorResponse;
use super::extract::parse_body;
use super::response::{Reply, Response, to_response};
use crate::auth::jwt::{JWT_LIFETIME_SECS, JwtKey, WebClaims};
use crate::auth::pairing::hash;
use crate::auth::token::{Credential, TokenVerifier, VerifiedToken, is_device_token};
use crate::memory_budget::{ResponseText, lock};
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::store::devices::DeviceState;
use crate::store::retry::Environment;
use crate::store::wrong_tokens::WrongTokens;
use crate::store::{Database, devices, query, secrets};

/// The largest number of valid tokens in the worker's cache. For a token that is not cached, the worker queries the database.
pub const MAX_VERIFIED_TOKENS: usize = 2_000;

/// How long the worker caches an answer of the database about a token, in milliseconds.
const CACHE_MS: u64 = 10_000;
/// How long after the last answer of the database a request with a token does not wait for a new answer, in milliseconds: the object checks
/// the credential of a write, and the worker checks a read while the read runs.
const MAX_UNCHECKED_MS: u64 = 600_000;
/// How long the worker waits for a new answer about a known token, in milliseconds. After that, the old answer is used again.
const CHECK_TIMEOUT_MS: u64 = 2_000;
/// How often a request checks whether another request has received the answer about the same token, in milliseconds.
const POLL_INTERVAL_MS: u64 = 5;

/// A cached value, and until when it is used, in Unix milliseconds.
struct Cached<T> {
    value: T,
    fresh_until: u64,
}

impl<T> Cached<T> {
    fn is_fresh(&self, now_ms: u64) -> bool {
        now_ms < self.fresh_until
    }
}

pub struct Authentication {
    pub access_tokens: TokenVerifier,
    jwt: Mutex<Option<JwtKey>>,
    /// The database with the tables of access.
    pub(super) db: Arc<dyn Database>,
    pub(super) environment: Arc<dyn Environment>,
    /// A cache: the hashes that verify a token take 5% of the CPU time of an RPC call.
    verified_tokens: Mutex<HashMap<String, Cached<VerifiedToken>>>,
    /// The tokens about which a request asks the database, until the time at which another request may ask as well.
    running_checks: Mutex<HashMap<String, Cached<()>>>,
    wrong_tokens: WrongTokens,
    generations: Mutex<HashMap<Namespace, Cached<u32>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthBody {
    access_token: String,
}

impl Authentication {
    /// `jwt` is the key of the configured secret; if `None`, the hub generates a secret and stores it in the database.
    pub fn new(
        access_tokens: TokenVerifier,
        jwt: Option<JwtKey>,
        db: Arc<dyn Database>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let (verified_tokens, running_checks, wrong_tokens, generations) = Default::default();
        let jwt = Mutex::new(jwt);
        Self { access_tokens, jwt, db, environment, verified_tokens, running_checks, wrong_tokens, generations }
    }

    /// Verifies an access token, with `accepts_jwt` also a JWT. `client`: its address; `None` if the caller limits its attempts.
    pub async fn verify(
        &self,
        token: &str,
        client: Option<&str>,
        now_ms: u64,
        accepts_jwt: bool,
    ) -> Result<VerifiedToken, ErrorResponse> {
        let verified = match self.cached(token, now_ms) {
            Some(verified) => verified,
            None => self.verify_uncached(token, client, now_ms, accepts_jwt).await?,
        };
        match verified.expires_at {
            Some(expires_at) if now_ms >= expires_at || !accepts_jwt => Err(ErrorResponse::unauthorized()),
            _ => Ok(verified),
        }
    }

    /// Returns the contents of a token whose last answer is fresh.
    fn cached(&self, token: &str, now_ms: u64) -> Option<VerifiedToken> {
        lock(&self.verified_tokens)
            .get(token)
            .filter(|cached| cached.is_fresh(now_ms))
            .map(|cached| cached.value.clone())
    }

    /// Returns the contents of a token that was valid at its last check, if this check is no longer fresh, but not old.
    pub fn find_unchecked(&self, token: &str, now_ms: u64) -> Option<VerifiedToken> {
        let known = lock(&self.verified_tokens);
        let cached = known.get(token)?;
        let is_recent = now_ms < cached.fresh_until.saturating_add(MAX_UNCHECKED_MS);
        let is_expired = cached.value.expires_at.is_some_and(|expires_at| now_ms >= expires_at);
        (is_recent && !is_expired && !cached.is_fresh(now_ms)).then(|| cached.value.clone())
    }

    fn verify_uncached<'a>(
        &'a self,
        token: &'a str,
        client: Option<&'a str>,
        now_ms: u64,
        accepts_jwt: bool,
    ) -> BoxFuture<'a, Result<VerifiedToken, ErrorResponse>> {
        Box::pin(async move {
            // A request can't wake another request, so it polls.
            for _ in 0..CHECK_TIMEOUT_MS / POLL_INTERVAL_MS {
                let is_running = lock(&self.running_checks).get(token).is_some_and(|check| check.is_fresh(now_ms));
                if !is_running {
                    break;
                }
                self.environment.sleep(POLL_INTERVAL_MS).await;
                if let Some(verified) = self.cached(token, now_ms) {
                    return Ok(verified);
                }
            }
            let known = lock(&self.verified_tokens).get(token).map(|known| known.value.clone());
            let is_known = known.is_some();
            // A JWT that has expired is not an attack.
            let client = client.filter(|_| !is_known && !is_jwt(token)).map(rate_limit_key);
            // The token of a device is counted before its query, so that concurrent requests are counted as well.
            let device_client = client.as_ref().filter(|_| is_device_token(token));
            let is_counted = device_client.is_some_and(|client| self.wrong_tokens.count_attempt(client, now_ms));
            if device_client.is_some()
                && !is_counted
                && !self.wrong_tokens.could_be_device_token(&*self.db, &hash(token), now_ms).await?
            {
                return Err(ErrorResponse::rate_limited(60));
            }
            let running = Cached { value: (), fresh_until: now_ms + CHECK_TIMEOUT_MS };
            insert(&self.running_checks, token.to_owned(), running);
            let checked = async {
                let verified = match known.clone() {
                    Some(verified) => Some(verified),
                    None => self.read_token(token, now_ms, accepts_jwt).await?,
                };
                self.check_not_revoked(token, verified, now_ms).await
            };
            let checked = self.unless_stalled(is_known, checked).await;
            lock(&self.running_checks).remove(token);
            let is_wrong = checked.as_ref().is_err_and(|error| !error.is_unavailable());
            let is_limited = match (&client, device_client) {
                (_, Some(client)) if is_counted && !is_wrong => {
                    self.wrong_tokens.revert_attempt(client);
                    false
                }
                (Some(client), None) => is_wrong && !self.wrong_tokens.count_attempt(client, now_ms),
                _ => false,
            };
            match (checked, known) {
                (Err(_), _) if is_limited => Err(ErrorResponse::rate_limited(60)),
                (Ok((verified, fresh_until)), _) => {
                    insert(&self.verified_tokens, token.to_owned(), Cached { value: verified.clone(), fresh_until });
                    Ok(verified)
                }
                (Err(error), Some(known)) if error.is_unavailable() => {
                    let fresh_until = now_ms + CACHE_MS;
                    insert(&self.verified_tokens, token.to_owned(), Cached { value: known.clone(), fresh_until });
                    Ok(known)
                }
                (Err(error), _) => {
                    lock(&self.verified_tokens).remove(token);
                    Err(error)
                }
            }
        })
    }

    /// Counts a wrong token of a client address. Returns the response.
    pub fn refuse(&self, client: &str, now_ms: u64) -> ErrorResponse {
        match self.wrong_tokens.count_attempt(&rate_limit_key(client), now_ms) {
            true => ErrorResponse::unauthorized(),
            false => ErrorResponse::rate_limited(60),
        }
    }

    /// Waits for an answer of the database; not longer than [`CHECK_TIMEOUT_MS`] if there is an earlier answer.
    async fn unless_stalled<T>(
        &self,
        has_earlier: bool,
        answer: impl Future<Output = Result<T, ErrorResponse>>,
    ) -> Result<T, ErrorResponse> {
        if !has_earlier {
            return answer.await;
        }
        match select(pin!(answer), self.environment.sleep(CHECK_TIMEOUT_MS)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(ErrorResponse::hub_unavailable("The database is stalled.")),
        }
    }

    /// Verifies the signature of a token. `None` for the token of a device, which only the database knows.
    async fn read_token(
        &self,
        token: &str,
        now_ms: u64,
        accepts_jwt: bool,
    ) -> Result<Option<VerifiedToken>, ErrorResponse> {
        if let Some(verified) = self.access_tokens.verify(token) {
            return Ok(Some(verified));
        }
        if is_device_token(token) {
            return Ok(None);
        }
        // Only a JWT needs the key, which may take a database query.
        if !accepts_jwt || !is_jwt(token) {
            return Err(ErrorResponse::unauthorized());
        }
        let key = self.load_jwt_key().await?;
        let verified = key.verify(token, to_seconds(now_ms)).ok_or_else(ErrorResponse::unauthorized)?;
        let (WebClaims { ns: namespace, generation, device, secret, .. }, expires_at) = verified;
        let credential = device.map_or(Credential::Generation(generation), |id| Credential::Device(id.into()));
        Ok(Some(VerifiedToken { namespace, expires_at: Some(to_milliseconds(expires_at)), credential, secret }))
    }

    /// Checks that a token was not revoked. `verified`: `None` for a device. Also returns until when the answer is fresh.
    async fn check_not_revoked(
        &self,
        token: &str,
        verified: Option<VerifiedToken>,
        now_ms: u64,
    ) -> Result<(VerifiedToken, u64), ErrorResponse> {
        let found = match verified.as_ref().map(|verified| (&verified.credential, verified)) {
            Some((Credential::Shared, verified)) => return Ok((verified.clone(), u64::MAX)),
            Some((Credential::Generation(generation), verified)) => {
                let (current, fresh_until) = self.load_generation(&verified.namespace, *generation, now_ms).await?;
                let is_current = *generation == current;
                return is_current.then(|| (verified.clone(), fresh_until)).ok_or_else(ErrorResponse::unauthorized);
            }
            Some((Credential::Device(id), VerifiedToken { expires_at: Some(_), .. })) => {
                devices::find_by_id(&*self.db, id).await
            }
            Some((Credential::Device(_), _)) | None => devices::find_by_token(&*self.db, &hash(token)).await,
        };
        let device = found?.ok_or_else(ErrorResponse::unauthorized)?;
        if let Some(statement) = devices::record_use(&device, now_ms).filter(|_| !device.is_revoked) {
            // After a failure, the next check records the use.
            let _ = query(&*self.db, statement).await;
        }
        let DeviceState { id, namespace, is_revoked, .. } = device;
        let credential = Credential::Device(id.into());
        if is_revoked {
            return Err(ErrorResponse::revoked(&credential));
        }
        let device_token = || VerifiedToken { namespace, expires_at: None, credential, secret: None };
        Ok((verified.unwrap_or_else(device_token), now_ms + CACHE_MS))
    }

    /// Returns the generation of a namespace's tokens, and until when the generation is fresh. `issued` is the generation of a token
    /// with a valid signature: a smaller cached generation is out of date.
    async fn load_generation(
        &self,
        namespace: &Namespace,
        issued: u32,
        now_ms: u64,
    ) -> Result<(u32, u64), ErrorResponse> {
        let is_usable = |known: &&Cached<u32>| known.is_fresh(now_ms) && known.value >= issued;
        if let Some(known) = lock(&self.generations).get(namespace).filter(is_usable) {
            return Ok((known.value, known.fresh_until));
        }
        let generation = devices::load_generation(&*self.db, namespace).await?;
        let fresh_until = now_ms + CACHE_MS;
        insert(&self.generations, namespace.clone(), Cached { value: generation, fresh_until });
        Ok((generation, fresh_until))
    }

    pub fn generate_secret(&self) -> Result<String, ErrorResponse> {
        let unavailable = || ErrorResponse::hub_unavailable("The random source failed. Try again.");
        self.environment.generate_secret().ok_or_else(unavailable)
    }

    /// Generates and stores a secret when there is none yet.
    pub(super) async fn load_jwt_key(&self) -> Result<JwtKey, ErrorResponse> {
        if let Some(key) = lock(&self.jwt).clone() {
            return Ok(key);
        }
        let generated = self.generate_secret()?;
        let secret = secrets::get_or_insert(&*self.db, secrets::JWT_SECRET, &generated).await?;
        Ok(lock(&self.jwt).insert(JwtKey::parse(&secret).map_err(ErrorResponse::not_configured)?).clone())
    }

    /// `POST /api/auth`: exchanges an access token for a JWT.
    pub async fn sign_in(&self, body: &[u8], now_ms: u64) -> Response {
        let reply: Reply = async {
            let body: AuthBody = parse_body(body)?;
            let verified = self.verify(&body.access_token, None, now_ms, false).await.map_err(|error| match error.code {
                "unauthorized" => ErrorResponse {
                    code: "invalid_access_token",
                    message:
                        "The access token (`accessToken`) is not valid for this hub. Check its secret and its namespace."
                            .into(),
                    ..error
                },
                _ => error,
            })?;
            let VerifiedToken { namespace: ns, credential, secret, .. } = verified;
            let (generation, device) = match credential {
                Credential::Shared => (self.load_generation(&ns, 0, now_ms).await?.0, None),
                Credential::Generation(generation) => (generation, None),
                Credential::Device(id) => (0, Some(id.to_string())),
            };
            let claims = WebClaims { uid: user_id(&ns), ns, generation, device, secret };
            let key = self.load_jwt_key().await?;
            let now = to_seconds(now_ms);
            let token = key.issue(&claims, now).map_err(|e| ErrorResponse::hub_unavailable(e.to_string()))?;
            let (namespace, expires_at) = (Json::of(claims.ns.as_str()), to_milliseconds(now + JWT_LIFETIME_SECS));
            let user = Json::object(&[("id", Json::of(&claims.uid)), ("firstName", namespace.clone())]);
            let (token, expires_at) = (Json::of(&token), Json::of(&expires_at));
            let members = [("token", token), ("user", user), ("namespace", namespace), ("expiresAt", expires_at)];
            Ok(ResponseText::serialize(&Json::object(&members)))
        }
        .await;
        to_response(reply)
    }
}

/// Returns the key under which the attempts of a client address are counted. The key of an IPv4 address is the address. The key of an
/// IPv6 address is its /64 network, because one client has all addresses of such a network. All clients without a valid address have one
/// key, because a client of a local hub can send any text.
pub fn rate_limit_key(address: &str) -> String {
    match address.parse().map(|address: IpAddr| address.to_canonical()) {
        Ok(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(IpAddr::V4(ip)) => ip.to_string(),
        Err(_) => String::new(),
    }
}

fn is_jwt(token: &str) -> bool {
    token.split('.').count() == 3
}

/// Inserts into a cache of at most [`MAX_VERIFIED_TOKENS`] entries.
fn insert<K: Eq + Hash, T>(cache: &Mutex<HashMap<K, Cached<T>>>, key: K, cached: Cached<T>) {
    let mut cache = lock(cache);
    if cache.len() >= MAX_VERIFIED_TOKENS && !cache.contains_key(&key) {
        cache.clear();
    }
    cache.insert(key, cached);
}

/// Derives a stable user id from a namespace.
fn user_id(namespace: &Namespace) -> u32 {
    let digest: [u8; 32] = Sha256::digest(namespace.as_str().as_bytes()).into();
    let [a, b, c, d, ..] = digest;
    u32::from_be_bytes([a, b, c, d]) >> 1
}

fn to_seconds(now_ms: u64) -> i64 {
    i64::try_from(now_ms / 1000).unwrap_or(i64::MAX)
}

fn to_milliseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}
