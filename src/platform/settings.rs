//! What the deployment is configured with: bindings, variables and secrets (wrangler.toml, docs/DEPLOY.md).

use std::sync::Arc;

use worker::Env;

use super::d1::D1;
use crate::auth::token::{AccessTokens, MAX_SECRET_BYTES};
use crate::http::cors::Cors;
use crate::http::edge::{Edge, Routing};
use crate::hub::Config;
use crate::model::namespace::Namespace;
use crate::model::vocabulary::Vocabulary;
use crate::store::Database;

/// The Durable Object binding.
pub const HUB: &str = "HUB";
/// The rate limit on `POST /api/auth`.
pub const AUTH_RATE_LIMIT: &str = "AUTH_RATE_LIMIT";
const DB: &str = "DB";

fn variable(env: &Env, name: &str) -> Option<String> {
    // TOML has truth values, numbers and tables too, and the runtime hands them over as such.
    let value = js_sys::Reflect::get(env, &name.into()).ok()?;
    let text = value.as_string().or_else(|| js_sys::JSON::stringify(&value).ok()?.as_string());
    text.filter(|text| !text.is_empty())
}

/// How long a CLI may take to answer a call, in milliseconds.
pub fn rpc_timeout_ms(env: &Env) -> u64 {
    variable(env, "RPC_TIMEOUT_MS").and_then(|ms| ms.parse().ok()).filter(|ms| *ms > 0).unwrap_or(30_000)
}

fn tokens(env: &Env) -> Result<AccessTokens, String> {
    let token = variable(env, "CLI_API_TOKEN").filter(|token| !token.trim().is_empty());
    let token = token.ok_or(
        "The secret CLI_API_TOKEN is not set. Set it with `npm run wrangler -- secret put CLI_API_TOKEN`, or in .dev.vars for a local hub.",
    )?;
    if token.len() > MAX_SECRET_BYTES {
        return Err(format!("The secret CLI_API_TOKEN may have at most {MAX_SECRET_BYTES} bytes."));
    }
    // A word that is not understood must not open what it was meant to close.
    let required = match variable(env, "REQUIRE_NAMESPACE_TOKENS").map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("true") => true,
        None | Some("false") => false,
        Some(word) => return Err(format!("REQUIRE_NAMESPACE_TOKENS must be `true` or `false`, but is `{word}`.")),
    };
    Ok(AccessTokens::new(&token, required))
}

fn vocabulary(env: &Env) -> Result<Vocabulary, String> {
    variable(env, "VOCABULARY").map_or_else(|| Ok(Vocabulary::default()), |text| Vocabulary::parse(&text))
}

/// The database.
pub fn database(env: &Env) -> Result<Arc<dyn Database>, String> {
    let db = env.d1(DB).map_err(|_| "The D1 binding DB is missing: see wrangler.toml.")?;
    Ok(Arc::new(D1::new(db)))
}

/// The worker's side.
pub fn edge(env: &Env) -> Result<Edge, String> {
    let cors = Cors::parse(&variable(env, "CORS_ORIGINS").unwrap_or_default());
    let routing = Routing::parse(&variable(env, "NAMESPACE_ROUTING").unwrap_or_default())?;
    let secret = variable(env, "JWT_SECRET");
    // Nothing here needs the words, but what is wrong with them should not wait for the first object to be told.
    vocabulary(env)?;
    Ok(Edge::new(tokens(env)?, cors, routing, secret.as_deref(), database(env)?))
}

/// The configuration of a namespace's hub.
pub fn config(env: &Env, namespace: Namespace) -> Result<Config, String> {
    Ok(Config { namespace, tokens: tokens(env)?, rpc_timeout_ms: rpc_timeout_ms(env), vocabulary: vocabulary(env)? })
}
