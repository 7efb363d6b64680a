//! What the stateless worker does with a request: answers it, or says which namespace's object does.
//!
//! The order of refusals: a place that is not the hub's 404, no token 401 under `/api` and `/cli`; all else, unknown routes
//! there included, is the object's to say.

use std::sync::{Arc, Mutex, PoisonError};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::JsonText;
use super::cors::Cors;
use super::error::Refusal;
use super::extract::read_body;
use super::history::{Asker, messages};
use super::query::Query;
use crate::auth::jwt::{JwtKey, LIFETIME_SECS, WebClaims};
use crate::auth::token::AccessTokens;
use crate::hub::error::Error;
use crate::model::namespace::Namespace;
use crate::store::response_budget::ResponseBudget;
use crate::store::{Database, secrets};

/// The version of the interface, as `GET /health` tells it.
pub const PROTOCOL_VERSION: u32 = 1;

/// How many bytes of pages with messages larger than a row may be under way at once: two of the largest. The runtime gives
/// a worker 128 MB for everything.
const MAX_PAGES_BYTES: usize = 80 * 1024 * 1024;
/// How many of one namespace: one of the largest.
const MAX_NAMESPACE_PAGES_BYTES: usize = 40 * 1024 * 1024;

/// How the object of a CLI's socket is found before its CONNECT packet is read (variable `NAMESPACE_ROUTING`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Routing {
    /// By the token of the upgrade; without one the worker reads CONNECT first.
    #[default]
    Token,
    /// The first label of the host name is the namespace.
    Host,
    /// The hub serves this one namespace.
    Single(Namespace),
}

impl Routing {
    /// Reads `token`, `host` or `single:<namespace>`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" | "token" => Ok(Self::Token),
            "host" => Ok(Self::Host),
            other => other.strip_prefix("single:").and_then(Namespace::parse).map(Self::Single).ok_or_else(|| {
                format!("NAMESPACE_ROUTING must be `token`, `host` or `single:<namespace>`, but is `{other}`.")
            }),
        }
    }
}

/// A request without its body.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// The method, in capitals.
    pub method: String,
    /// The path as it came, percent-encoded, without the query.
    pub path: String,
    /// The query without its `?`; empty when there is none.
    pub query: String,
    /// The host with its port, as the client named it.
    pub host: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The header `Origin`: where the page is from that asks.
    pub origin: Option<String>,
    /// Whether it asks for a WebSocket.
    pub upgrade: bool,
}

/// What is to be done with a request.
#[derive(Debug)]
pub enum Action {
    /// This is the answer.
    Respond(Response),
    /// `POST /api/auth`: read the body and call [`Edge::authenticate`].
    Authenticate,
    /// The namespace's object answers.
    Object(Namespace),
    /// A stream of the namespace's events.
    Sse(Bearer),
    /// The same over a WebSocket, which the object holds.
    WebSocket(Bearer),
    /// A CLI's socket, straight to the object.
    Socket {
        /// Whose object it is.
        namespace: Namespace,
        /// Whether a good token for this namespace came with the upgrade.
        authenticated: bool,
    },
    /// A CLI's socket whose namespace only its CONNECT packet tells.
    Bridge,
}

/// Who shows a good token.
#[derive(Debug)]
pub struct Bearer {
    /// The namespace that it opens.
    pub namespace: Namespace,
    /// When it is good no more, in Unix milliseconds. Access tokens do not expire.
    pub expires_at: Option<u64>,
}

/// The worker's side of the hub.
pub struct Edge {
    /// The access tokens that open the hub.
    pub tokens: AccessTokens,
    /// Which pages of other origins may call.
    pub cors: Cors,
    routing: Routing,
    db: Arc<dyn Database>,
    /// What is under way of pages with messages larger than a row.
    pages: Arc<ResponseBudget>,
    jwt: Mutex<Option<JwtKey>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthBody {
    access_token: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Authenticated<'a> {
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

impl Edge {
    /// An edge. `jwt` is the key of the configured secret; without one the secret kept in the database is used.
    pub fn new(tokens: AccessTokens, cors: Cors, routing: Routing, jwt: Option<JwtKey>, db: Arc<dyn Database>) -> Self {
        let pages = ResponseBudget::new(MAX_PAGES_BYTES, MAX_NAMESPACE_PAGES_BYTES);
        Self { tokens, cors, routing, db, pages, jwt: Mutex::new(jwt) }
    }

    /// Sorts a request. `fresh` makes a secret for the case that the hub has none for JWTs yet; none when it cannot.
    pub async fn decide(&self, head: &Head, now_ms: u64, fresh: impl FnOnce() -> Option<String>) -> Action {
        self.sort(head, now_ms, fresh).await.unwrap_or_else(|refusal| Action::Respond(refusal.into_response()))
    }

    async fn sort(&self, head: &Head, now_ms: u64, fresh: impl FnOnce() -> Option<String>) -> Result<Action, Refusal> {
        let under =
            |root: &str| head.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let (api, cli) = (under("/api"), under("/cli"));
        if head.method == "OPTIONS" && (api || cli) {
            return Ok(Action::Respond(StatusCode::NO_CONTENT.into_response()));
        }
        match head.path.as_str() {
            "/health" => only(head, &["GET", "HEAD"], || Action::Respond(health())),
            "/api/auth" => only(head, &["POST"], || Action::Authenticate),
            "/socket.io" | "/socket.io/" => self.socket(head),
            "/api/events" => {
                let bearer = self.web_client(head, now_ms, fresh).await?;
                self.check_origin(head)?;
                let action = if head.upgrade { Action::WebSocket } else { Action::Sse };
                only(head, &["GET"], || action(bearer))
            }
            _ if api => {
                let bearer = self.web_client(head, now_ms, fresh).await?;
                self.history(head, Asker::Web, bearer.namespace).await
            }
            _ if cli => {
                let namespace = bearer(head).and_then(|token| self.tokens.verify(token));
                self.history(head, Asker::Cli, namespace.ok_or_else(Refusal::unauthorized)?).await
            }
            _ => Err(Refusal::no_route()),
        }
    }

    /// Message history needs no live state, so it is answered here; everything else is the object's.
    async fn history(&self, head: &Head, asker: Asker, namespace: Namespace) -> Result<Action, Refusal> {
        let root = if asker == Asker::Web { "/api/sessions/" } else { "/cli/sessions/" };
        let id = head.path.strip_prefix(root).and_then(|rest| rest.strip_suffix("/messages"));
        match id.filter(|id| !id.is_empty() && !id.contains(['/', '%']) && head.method == "GET") {
            Some(id) => {
                let page = messages(&*self.db, &self.pages, asker, (&namespace, id), &head.query).await?;
                Ok(Action::Respond(JsonText::from(page).into_response()))
            }
            None => Ok(Action::Object(namespace)),
        }
    }

    /// A web client, which shows an access token or a JWT.
    async fn web_client(
        &self,
        head: &Head,
        now_ms: u64,
        fresh: impl FnOnce() -> Option<String>,
    ) -> Result<Bearer, Refusal> {
        let of_query;
        let token = match bearer(head) {
            Some(token) => token,
            // A browser can't send headers with an event stream or a WebSocket.
            None if head.path == "/api/events" => {
                of_query = Query::only(&head.query, "token").ok_or_else(Refusal::unauthorized)?;
                &of_query
            }
            None => return Err(Refusal::unauthorized()),
        };
        if let Some(namespace) = self.tokens.verify(token) {
            return Ok(Bearer { namespace, expires_at: None });
        }
        // Three parts: only then is it worth asking for the key.
        if token.split('.').count() != 3 {
            return Err(Refusal::unauthorized());
        }
        let jwt = self.jwt_key(fresh).await?.verify(token, seconds(now_ms)).ok_or_else(Refusal::unauthorized)?;
        Ok(Bearer { namespace: jwt.claims.ns, expires_at: Some(milliseconds(jwt.expires_at)) })
    }

    async fn jwt_key(&self, fresh: impl FnOnce() -> Option<String>) -> Result<JwtKey, Refusal> {
        if let Some(key) = self.jwt().clone() {
            return Ok(key);
        }
        let fresh =
            fresh().ok_or_else(|| Refusal::hub_unavailable("No secret could be made for tokens. Try again."))?;
        let secret = secrets::get_or_insert(&*self.db, "JWT_SECRET", &fresh).await.map_err(Error::from)?;
        Ok(self.jwt().insert(JwtKey::parse(&secret).map_err(Refusal::not_configured)?).clone())
    }

    fn jwt(&self) -> std::sync::MutexGuard<'_, Option<JwtKey>> {
        self.jwt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `POST /api/auth`: an access token for a JWT.
    pub async fn authenticate(&self, body: &[u8], now_ms: u64, fresh: impl FnOnce() -> Option<String>) -> Response {
        let answer = async {
            let body: AuthBody = read_body(body)?;
            let namespace = self.tokens.verify(&body.access_token).ok_or_else(|| Refusal {
                code: "invalid_access_token",
                message: "The access token is not valid for this hub.".into(),
                ..Refusal::unauthorized()
            })?;
            let claims = WebClaims { uid: user_id(&namespace), ns: namespace };
            let key = self.jwt_key(fresh).await?;
            let now = seconds(now_ms);
            let token = key.issue(&claims, now).map_err(|e| Refusal::hub_unavailable(e.to_string()))?;
            let namespace = claims.ns.as_ref();
            let user = User { id: claims.uid, first_name: namespace };
            let expires_at = milliseconds(now + LIFETIME_SECS);
            let answer = Authenticated { token: &token, user, namespace, expires_at };
            serde_json::to_string(&answer).map_err(|e| Refusal::hub_unavailable(e.to_string()))
        };
        answer.await.map(JsonText::of).into_response()
    }

    /// A CLI's socket: which way it goes.
    fn socket(&self, head: &Head) -> Result<Action, Refusal> {
        let query = Query::parse(&head.query)?;
        let bad = |code, message| Refusal::new(StatusCode::BAD_REQUEST, code, message);
        if query.text("transport") != Some("websocket") || !head.upgrade {
            let message = "Only the WebSocket transport is served: connect with `transports: [\"websocket\"]`.";
            return Err(bad("transport_unsupported", message));
        }
        if query.text("EIO") != Some("4") {
            return Err(bad(
                "protocol_unsupported",
                "Only Engine.IO protocol 4 is served: use socket.io-client 3 or newer.",
            ));
        }
        self.check_origin(head)?;
        let token = bearer(head).or_else(|| query.text("token"));
        let known = token.and_then(|token| self.tokens.verify(token));
        let of_host = || Namespace::parse(head.host.split(['.', ':']).next().unwrap_or_default());
        let named = match &self.routing {
            Routing::Token => {
                return Ok(match known {
                    Some(namespace) => Action::Socket { namespace, authenticated: true },
                    None => Action::Bridge,
                });
            }
            Routing::Host => of_host().ok_or_else(Refusal::no_route)?,
            Routing::Single(namespace) => namespace.clone(),
        };
        // A token for another namespace counts for nothing here; CONNECT will tell.
        let authenticated = known.is_some_and(|known| known == named);
        Ok(Action::Socket { namespace: named, authenticated })
    }

    /// A page of a foreign origin may not open a socket in its visitor's name.
    fn check_origin(&self, head: &Head) -> Result<(), Refusal> {
        let foreign = head.origin.as_ref().is_some_and(|origin| head.upgrade && !self.cors.allows(origin, &head.host));
        if foreign {
            let message = "This origin may not connect: add it to the variable CORS_ORIGINS.";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "origin_not_allowed", message));
        }
        Ok(())
    }
}

/// Host (with port), path and query of an absolute URL, as the runtime gives it.
pub fn split_url(url: &str) -> (&str, &str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('#').next().unwrap_or(rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    match place.find('/').and_then(|slash| place.split_at_checked(slash)) {
        Some((host, path)) => (host, path, query),
        None => (place, "/", query),
    }
}

fn only(head: &Head, methods: &[&'static str], action: impl FnOnce() -> Action) -> Result<Action, Refusal> {
    if methods.contains(&head.method.as_str()) {
        return Ok(action());
    }
    let mut response = Refusal::wrong_method().into_response();
    if let Ok(allow) = HeaderValue::from_str(&methods.join(",")) {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    Ok(Action::Respond(response))
}

fn bearer(head: &Head) -> Option<&str> {
    let (scheme, token) = head.authorization.as_deref()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn health() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    JsonText::of(format!(r#"{{"status":"ok","protocolVersion":{PROTOCOL_VERSION},"version":"{version}"}}"#))
        .into_response()
}

/// A number for a namespace, the same on every machine and at every time.
fn user_id(namespace: &Namespace) -> u32 {
    let digest: [u8; 32] = Sha256::digest(namespace.as_ref().as_bytes()).into();
    let [a, b, c, d, ..] = digest;
    u32::from_be_bytes([a, b, c, d]) >> 1
}

fn seconds(now_ms: u64) -> i64 {
    i64::try_from(now_ms / 1000).unwrap_or(i64::MAX)
}

fn milliseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}
