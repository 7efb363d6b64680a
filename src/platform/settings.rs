//! The configuration of the deployment: bindings, variables and secrets (wrangler.toml, docs/SETTINGS.md).

use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use worker::Env;
use worker::send::SendFuture;

use super::d1::D1;
use super::glue::{self, Meter, Objects};
use super::log::write_line;
use super::time::{now, sleep};
use crate::auth::jwt::JwtKey;
use crate::auth::token::TokenVerifier;
use crate::http::authentication::Authentication;
use crate::http::cors::Cors;
use crate::http::edge::{Edge, MetricsToken, Routing};
use crate::http::error::ErrorResponse;
use crate::hub::FrameUploadSlot;
use crate::hub::core::config::{
    Config, DEFAULT_PUSH_SUBSCRIPTIONS, DEFAULT_UPLOAD_MB, ForbiddenModes, MAX_PUSH_SUBSCRIPTIONS, MAX_UPLOAD_MB,
    PushConfig, UploadConfig,
};
use crate::hub::core::namespace::quotas::Quotas;
use crate::hub::core::namespace::recent_writers::RecentWriters;
use crate::hub::core::peers::rpc::MAX_RPC_TIMEOUT_MS;
use crate::log::{self, LogLine};
use crate::memory_budget::MemoryBudget;
use crate::model::keyword::{JURISDICTIONS, LOCATIONS, parse_bool, parse_keyword, parse_number};
use crate::model::namespace::Namespace;
use crate::model::vocabulary::Vocabulary;
use crate::push::to_base64url;
use crate::push::vapid::{VapidKeys, parse_subject};
use crate::store::Database;
use crate::store::places::{DIRECTORY, Databases, binding};
use crate::store::retry::{Environment, Retrying};
use crate::store::watchdog::Watchdog;

/// The time a CLI has to answer a call, in milliseconds, unless `RPC_TIMEOUT_MS` is set.
const DEFAULT_RPC_TIMEOUT_MS: u64 = 30_000;

/// The binding of the rate limit for `POST /api/auth`.
pub const AUTH_RATE_LIMIT: &str = "AUTH_RATE_LIMIT";
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

fn number(env: &Env, name: &str, max: u64) -> Result<Option<u64>, String> {
    parse_number(name, variable(env, name).as_deref(), 1..=max)
}

pub fn configure_log(env: &Env) -> Result<(), String> {
    let (level, rate) = (variable(env, "LOG_LEVEL"), variable(env, "LOG_SAMPLE_RATE"));
    let (level, samples_per_million) = log::parse_settings(level.as_deref(), rate.as_deref())?;
    glue::configure_log(level.into(), samples_per_million);
    Ok(())
}

fn push(env: &Env) -> Result<PushConfig, String> {
    let (public, private) = (variable(env, "VAPID_PUBLIC_KEY"), variable(env, "VAPID_PRIVATE_KEY"));
    let insecure = variable(env, "PUSH_ALLOW_INSECURE");
    let max_subscriptions = number(env, "PUSH_MAX_SUBSCRIPTIONS", MAX_PUSH_SUBSCRIPTIONS)?;
    Ok(PushConfig {
        keys: VapidKeys::from_settings(public.as_deref(), private.as_deref())?,
        subject: variable(env, "VAPID_SUBJECT").map(|text| parse_subject(&text)).transpose()?,
        allows_insecure_endpoints: parse_bool("PUSH_ALLOW_INSECURE", insecure.as_deref())?,
        max_subscriptions: max_subscriptions.unwrap_or(DEFAULT_PUSH_SUBSCRIPTIONS),
    })
}

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

    fn generate_secret(&self) -> Option<String> {
        let mut bytes = [0; 32];
        getrandom::getrandom(&mut bytes).ok()?;
        Some(to_base64url(&bytes))
    }

    fn log(&self, line: LogLine) {
        write_line(None, &line);
    }
}

/// Returns the databases `DB`, `DB_2`, `DB_3` and so on, each as `wrap` returns it. `meter` measures the batches for `Server-Timing`.
pub fn databases(
    env: &Env,
    meter: Option<&Meter>,
    wrap: impl Fn(Arc<dyn Database>) -> Arc<dyn Database>,
) -> Result<Databases, String> {
    let mut all = Vec::new();
    while let Ok(db) = env.d1(&binding(all.len() as u64 + 1)) {
        all.push(wrap(Arc::new(D1::new(db, meter))));
    }
    if all.is_empty() {
        return Err("The D1 binding DB is missing: see wrangler.toml.".into());
    }
    Databases::new(all, &variable(env, "DATABASES_CLOSED").unwrap_or_default())
}

/// Returns the objects of the namespaces. Fails if `HUB_JURISDICTION` is set in a runtime without jurisdictions, such as the local one.
pub fn objects(env: &Env) -> Result<Objects, String> {
    let jurisdiction = parse_keyword("HUB_JURISDICTION", &JURISDICTIONS, variable(env, "HUB_JURISDICTION"))?;
    let location = parse_keyword("HUB_LOCATION", &LOCATIONS, variable(env, "HUB_LOCATION"))?;
    let binding =
        js_sys::Reflect::get(env, &HUB.into()).map_err(|_| "The binding HUB is missing: see wrangler.toml.")?;
    let timed_out = ErrorResponse::hub_unavailable("The hub did not answer in time. Try again.").body();
    Objects::new(&binding, &jurisdiction, &location, &timed_out).map_err(|error| {
        let why = error.message();
        format!(
            "HUB_JURISDICTION is `{jurisdiction}`, but objects can't be restricted to it. For a local hub, set \
            `HUB_JURISDICTION=` in .dev.vars. The cause: {why}"
        )
    })
}

pub fn edge(env: &Env, Config { tokens, jwt, .. }: Config) -> Result<Edge, String> {
    let cors = Cors::parse(&variable(env, "CORS_ORIGINS").unwrap_or_default())?;
    let routing = Routing::parse(&variable(env, "NAMESPACE_ROUTING").unwrap_or_default())?;
    let databases = databases(env, None, |db| {
        let db = Watchdog::new(db, Box::new(WorkerEnvironment));
        Arc::new(Retrying::new(db, Box::new(WorkerEnvironment)))
    })?;
    let db = Arc::clone(databases.get(DIRECTORY).map_err(|error| error.to_string())?);
    let metrics_token = variable(env, "METRICS_TOKEN").map(MetricsToken::parse).transpose()?;
    // Without the binding, `POST /api/auth` would silently allow unlimited attempts.
    if !js_sys::Reflect::get(env, &AUTH_RATE_LIMIT.into()).is_ok_and(|binding| !binding.is_undefined()) {
        return Err("The rate limit binding AUTH_RATE_LIMIT is missing: see wrangler.toml.".into());
    }
    let authentication = Authentication::new(tokens, jwt, db, Arc::new(WorkerEnvironment));
    Ok(Edge::new(authentication, cors, routing, databases, memory_budget(), metrics_token))
}

thread_local! {
    /// All objects of the isolate share one slot for uploads in one large frame.
    static FRAME_UPLOAD_SLOT: Arc<FrameUploadSlot> = Arc::default();
    static RECENT_WRITERS: Arc<RecentWriters> = Arc::default();
}

pub fn hub_config(env: &Env, namespace: Namespace) -> Result<Config, String> {
    let (secret, previous) = (variable(env, "CLI_API_TOKEN"), variable(env, "CLI_API_TOKEN_PREVIOUS"));
    let required = variable(env, "REQUIRE_NAMESPACE_TOKENS");
    let tokens = TokenVerifier::parse(secret.as_deref(), previous.as_deref(), required.as_deref())?;
    let (secret, previous) = (variable(env, "JWT_SECRET"), variable(env, "JWT_SECRET_PREVIOUS"));
    let rpc_timeout_ms = number(env, "RPC_TIMEOUT_MS", MAX_RPC_TIMEOUT_MS)?.unwrap_or(DEFAULT_RPC_TIMEOUT_MS);
    let max_file_bytes = number(env, "MAX_UPLOAD_MB", MAX_UPLOAD_MB)?.unwrap_or(DEFAULT_UPLOAD_MB) << 20;
    let vocabulary = variable(env, "VOCABULARY").map(|text| Vocabulary::parse(&text)).transpose()?;
    Ok(Config {
        namespace,
        tokens,
        jwt: JwtKey::from_settings(secret.as_deref(), previous.as_deref())?,
        rpc_timeout_ms,
        vocabulary: vocabulary.unwrap_or_default(),
        forbidden_modes: ForbiddenModes::parse(variable(env, "FORBID_MODES").unwrap_or_default())?,
        push: push(env)?,
        uploads: UploadConfig { max_file_bytes, frame_upload_slot: FRAME_UPLOAD_SLOT.with(Arc::clone) },
        quotas: Quotas::parse(|name| variable(env, name))?,
        recent_writers: RECENT_WRITERS.with(Arc::clone),
    })
}
