//! The configuration of the deployment: bindings, variables and secrets (wrangler.toml, docs/DEPLOY.md).

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use worker::Env;
use worker::send::SendFuture;

use super::d1::D1;
use super::glue::{Meter, Objects};
use super::time::{now, sleep};
use crate::auth::jwt::JwtKey;
use crate::auth::token::TokenVerifier;
use crate::http::cors::Cors;
use crate::http::edge::{Edge, Routing};
use crate::http::error::ErrorResponse;
use crate::http::placement::Placement;
use crate::hub::FrameSlot;
use crate::hub::base::config::{Config, ForbiddenModes, UploadConfig, parse_max_upload};
use crate::hub::base::peers::rpc::parse_timeout_ms;
use crate::hub::base::push::config::{PushConfig, parse_max_subscriptions};
use crate::memory_budget::MemoryBudget;
use crate::model::keyword::parse_bool;
use crate::model::namespace::Namespace;
use crate::model::vocabulary::Vocabulary;
use crate::push::vapid::{VapidKeys, parse_subject};
use crate::store::Database;
use crate::store::retry::{Environment, Retrying};
use crate::store::watchdog::Watchdog;

/// The time a CLI has to answer a call, in milliseconds, unless `RPC_TIMEOUT_MS` is set.
const DEFAULT_RPC_TIMEOUT_MS: u64 = 30_000;

/// The binding of the rate limit for `POST /api/auth`.
pub const AUTH_RATE_LIMIT: &str = "AUTH_RATE_LIMIT";
const DB: &str = "DB";
/// The binding of the Durable Objects.
const HUB: &str = "HUB";

/// Returns the memory budget of the isolate, which the worker and all objects in it share.
pub fn memory_budget() -> Arc<MemoryBudget> {
    static MEMORY_BUDGET: LazyLock<Arc<MemoryBudget>> = LazyLock::new(Arc::default);
    Arc::clone(&MEMORY_BUDGET)
}

fn variable(env: &Env, name: &str) -> Option<String> {
    // A variable in TOML may also be a boolean, a number or a table.
    let value = js_sys::Reflect::get(env, &name.into()).ok()?;
    let text = value.as_string().or_else(|| js_sys::JSON::stringify(&value).ok()?.as_string());
    text.filter(|text| !text.is_empty())
}

pub fn rpc_timeout_ms(env: &Env) -> Result<u64, String> {
    variable(env, "RPC_TIMEOUT_MS").map_or(Ok(DEFAULT_RPC_TIMEOUT_MS), |text| parse_timeout_ms(&text))
}

/// Returns the largest file of an upload, in bytes.
pub fn max_file_bytes(env: &Env) -> Result<u64, String> {
    parse_max_upload(variable(env, "MAX_UPLOAD_MB").as_deref())
}

fn access_tokens(env: &Env) -> Result<TokenVerifier, String> {
    let (secret, previous) = (variable(env, "CLI_API_TOKEN"), variable(env, "CLI_API_TOKEN_PREVIOUS"));
    let required = variable(env, "REQUIRE_NAMESPACE_TOKENS");
    TokenVerifier::parse(secret.as_deref(), previous.as_deref(), required.as_deref())
}

fn vocabulary(env: &Env) -> Result<Vocabulary, String> {
    variable(env, "VOCABULARY").map_or_else(|| Ok(Vocabulary::default()), |text| Vocabulary::parse(&text))
}

fn forbidden_modes(env: &Env) -> Result<ForbiddenModes, String> {
    ForbiddenModes::parse(variable(env, "FORBID_MODES").unwrap_or_default())
}

fn push(env: &Env) -> Result<PushConfig, String> {
    let (public, private) = (variable(env, "VAPID_PUBLIC_KEY"), variable(env, "VAPID_PRIVATE_KEY"));
    let (insecure, max) = (variable(env, "PUSH_ALLOW_INSECURE"), variable(env, "PUSH_MAX_SUBSCRIPTIONS"));
    Ok(PushConfig {
        keys: VapidKeys::from_settings(public.as_deref(), private.as_deref())?,
        subject: variable(env, "VAPID_SUBJECT").map(|text| parse_subject(&text)).transpose()?,
        insecure: parse_bool("PUSH_ALLOW_INSECURE", insecure.as_deref())?,
        max_subscriptions: parse_max_subscriptions(max.as_deref())?,
    })
}

/// The clock, randomness and log of the worker's runtime.
struct WorkerEnvironment;

impl Environment for WorkerEnvironment {
    fn now(&self) -> u64 {
        now()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(SendFuture::new(sleep(ms)))
    }

    fn random(&self) -> u8 {
        let mut byte = [u8::MAX];
        // Without a random source, the byte stays at its maximum, which means the longest pause before a retry.
        let _ = getrandom::getrandom(&mut byte);
        let [byte] = byte;
        byte
    }

    fn log_warning(&self, line: &str) {
        worker::console_warn!("{line}");
    }
}

/// `meter` measures the batches for `Server-Timing`.
pub fn database(env: &Env, meter: Option<&Meter>) -> Result<Arc<dyn Database>, String> {
    let db = env.d1(DB).map_err(|_| "The D1 binding DB is missing: see wrangler.toml.")?;
    Ok(Arc::new(D1::new(db, meter)))
}

/// Returns the objects of the namespaces. Fails if `HUB_JURISDICTION` is set in a runtime without jurisdictions, such as the
/// local runtime.
pub fn objects(env: &Env) -> Result<Objects, String> {
    let placement = Placement::parse(variable(env, "HUB_JURISDICTION"), variable(env, "HUB_LOCATION"))?;
    let binding =
        js_sys::Reflect::get(env, &HUB.into()).map_err(|_| "The binding HUB is missing: see wrangler.toml.")?;
    let timed_out = ErrorResponse::hub_unavailable("The hub did not answer in time. Try again.").body();
    Objects::new(&binding, &placement.jurisdiction, &placement.location, &timed_out).map_err(|error| {
        let (jurisdiction, why) = (placement.jurisdiction, error.message());
        format!(
            "HUB_JURISDICTION is `{jurisdiction}`, but objects can't be restricted to it. For a local hub, set \
            `HUB_JURISDICTION=` in .dev.vars. The cause: {why}"
        )
    })
}

/// Checks the binding of the rate limit, without which `POST /api/auth` would silently allow unlimited attempts.
fn check_rate_limit(env: &Env) -> Result<(), String> {
    let is_bound = js_sys::Reflect::get(env, &AUTH_RATE_LIMIT.into()).is_ok_and(|binding| !binding.is_undefined());
    if is_bound { Ok(()) } else { Err("The rate limit binding AUTH_RATE_LIMIT is missing: see wrangler.toml.".into()) }
}

/// Returns the worker's router. Also validates settings of the objects, so that an error appears in every response.
pub fn edge(env: &Env) -> Result<Edge, String> {
    let cors = Cors::parse(&variable(env, "CORS_ORIGINS").unwrap_or_default())?;
    let routing = Routing::parse(&variable(env, "NAMESPACE_ROUTING").unwrap_or_default())?;
    let (secret, previous) = (variable(env, "JWT_SECRET"), variable(env, "JWT_SECRET_PREVIOUS"));
    let jwt = JwtKey::from_settings(secret.as_deref(), previous.as_deref())?;
    let db =
        Retrying::new(Watchdog::new(database(env, None)?, Box::new(WorkerEnvironment)), Box::new(WorkerEnvironment));
    let (db, environment) = (Arc::new(db), Arc::new(WorkerEnvironment));
    let edge = Edge::new(access_tokens(env)?, cors, routing, jwt, db, memory_budget(), environment);
    vocabulary(env)?;
    forbidden_modes(env)?;
    push(env)?;
    check_rate_limit(env)?;
    Ok(edge)
}

thread_local! {
    static FRAME_SLOT: Arc<FrameSlot> = Arc::default();
}

pub fn hub_config(env: &Env, namespace: Namespace) -> Result<Config, String> {
    let (tokens, vocabulary, push) = (access_tokens(env)?, vocabulary(env)?, push(env)?);
    let uploads = UploadConfig { max_file_bytes: max_file_bytes(env)?, frame_slot: FRAME_SLOT.with(Arc::clone) };
    let (rpc_timeout_ms, forbidden_modes) = (rpc_timeout_ms(env)?, forbidden_modes(env)?);
    Ok(Config { namespace, tokens, rpc_timeout_ms, vocabulary, forbidden_modes, push, uploads })
}

/// Generates a secret of 32 random bytes; `None` without a random source.
pub fn generate_secret() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::getrandom(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
