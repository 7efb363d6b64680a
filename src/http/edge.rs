//! Routing in the stateless worker: authenticates a request, and either responds or selects the object of the namespace.
//!
//! Outside `/api` and `/cli`, an unknown path gets a 404. Inside `/api` and `/cli`, a request without a valid token gets a 401. The
//! object responds with all other errors, also for an unknown path. A URL that parsers read differently ([`is_ambiguous`]) always
//! gets a 404, because the object could read another path than the path for which the worker checked the token.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{StatusCode, header};
use subtle::ConstantTimeEq as _;

use super::authentication::Authentication;
use super::cors::Cors;
use super::deployment::health;
use super::error::ErrorResponse;
use super::extract::{Query, is_credential_sent, is_read};
use super::namespaces::list_databases;
use super::response::{Response, json_response};
use crate::auth::token::{Credential, VerifiedToken};
use crate::hub::core::error::Error;
use crate::limits::{MIN_PROGRESS_BYTES, PROGRESS_TIMEOUT_MS};
use crate::memory_budget::{MemoryBudget, ResponseText};
use crate::model::namespace::Namespace;
use crate::store::places::{DatabaseNumber, Databases};
use crate::store::sessions::SELECT_BY_ID;
use crate::store::{Database as _, DbError, Statement};

/// The path of the metrics, in the worker and in the object. An object gets this path only for [`Action::Metrics`].
pub const METRICS_PATH: &str = "/metrics";

/// Finds what the newest migration created, unless it only added columns of sessions: [`SELECT_BY_ID`] fails without them.
const FIND_NEWEST: &str = "SELECT 1 FROM sqlite_master WHERE name = 'moved_namespaces'";

/// How the worker determines the namespace of a CLI's socket (variable `NAMESPACE_ROUTING`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Routing {
    /// From the token of the upgrade request, or else of the CONNECT packet.
    #[default]
    Token,
    /// From the first label of the host name.
    Host,
    /// The same for all requests.
    Single(Namespace),
}

impl Routing {
    /// Parses `token`, `host` or `single:<namespace>`.
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

#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    /// In capitals.
    pub method: String,
    /// Percent-encoded, without the query.
    pub path: String,
    /// Without the `?`.
    pub query: String,
    /// The header `Host`, with a port.
    pub host: String,
    pub authorization: Option<String>,
    pub origin: Option<String>,
    pub is_upgrade: bool,
    pub client: String,
}

/// A request of a new device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingStep {
    /// `POST /api/devices`: exchanges a code for a token.
    Redeem,
    /// `POST /api/devices/requests`: creates a code that a person approves.
    Request,
    /// `POST /api/devices/requests/token`: gets the token after the approval.
    Poll,
}

/// The kind of client that reads the history, which determines the default page and the format of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The newest page by default; the response is `{messages, hasMore, page}`.
    Web,
    /// The oldest page by default; the response is `{messages, hasMore}`.
    Cli,
}

#[derive(Debug)]
pub struct HistoryRequest {
    pub namespace: Namespace,
    pub reader: Reader,
    pub session: String,
}

#[derive(Debug)]
pub enum Action {
    Respond(Response),
    /// `POST /api/auth`: read the body and call [`Authentication::sign_in`].
    Authenticate,
    /// `POST /api/answers`: read the body, call `Edge::verify_answer`, and forward the request to the object of the namespace.
    Answer,
    /// `GET /health?deep=1`: call [`Edge::check_database`].
    CheckDatabase,
    /// A request of a new device, which has no token: read the body and call `Edge::pair`.
    Pair(PairingStep),
    /// Forward the request to the object, with its token if the object [needs the credential](is_credential_sent).
    Object(Namespace, Option<VerifiedToken>),
    /// Call `Edge::read_history`, or forward the request to the object, which has the same route.
    History(HistoryRequest),
    /// Perform the read at the same time as [`Edge::verify_token`], and discard its response if the check fails.
    Unchecked(Box<Self>),
    /// Open an event stream (SSE).
    Sse(VerifiedToken),
    WebSocket(VerifiedToken),
    /// Forward a CLI's WebSocket to the object.
    CliSocket {
        namespace: Namespace,
        /// Of the upgrade request's token, if it is valid for the namespace.
        credential: Option<Credential>,
    },
    /// `GET /metrics`: of the object of a namespace, or else of this isolate.
    Metrics(Option<Namespace>),
    /// Accept a CLI's WebSocket, and forward it when the CONNECT packet has named the namespace.
    BridgedCliSocket,
}

pub struct Edge {
    pub authentication: Authentication,
    pub cors: Cors,
    routing: Routing,
    pub(super) databases: Databases,
    /// The places of namespaces that were looked up.
    pub(super) places: Mutex<HashMap<Namespace, DatabaseNumber>>,
    /// Shared by all namespaces of the isolate.
    pub(super) memory_budget: Arc<MemoryBudget>,
    /// Without this token, the route `GET /metrics` does not exist.
    pub metrics_token: Option<MetricsToken>,
}

/// The token of `GET /metrics` (variable `METRICS_TOKEN`).
pub struct MetricsToken(String);

impl MetricsToken {
    /// The shortest token, in characters.
    const MIN_CHARS: usize = 16;

    pub fn parse(text: String) -> Result<Self, String> {
        match text.chars().count() {
            0..Self::MIN_CHARS => Err(format!("METRICS_TOKEN must have at least {} characters.", Self::MIN_CHARS)),
            _ => Ok(Self(text)),
        }
    }
}

impl Edge {
    pub fn new(
        authentication: Authentication,
        cors: Cors,
        routing: Routing,
        databases: Databases,
        memory_budget: Arc<MemoryBudget>,
        metrics_token: Option<MetricsToken>,
    ) -> Self {
        Self { authentication, cors, routing, databases, places: Mutex::default(), memory_budget, metrics_token }
    }

    pub async fn route(&self, head: &RequestHead, now_ms: u64) -> Action {
        self.try_route(head, now_ms).await.unwrap_or_else(|error| Action::Respond(error.into_response()))
    }

    async fn try_route(&self, head: &RequestHead, now_ms: u64) -> Result<Action, ErrorResponse> {
        let is_under =
            |root: &str| head.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let (is_api, is_cli) = (is_under("/api"), is_under("/cli"));
        if head.method == "OPTIONS" && (is_api || is_cli) {
            return Ok(Action::Respond(preflight()));
        }
        if is_ambiguous(head) {
            return Err(ErrorResponse::no_route());
        }
        match head.path.as_str() {
            "/health" if Query::find_unique(&head.query, "deep").as_deref() == Some("1") => {
                require_method(head, &["GET", "HEAD"], || Action::CheckDatabase)
            }
            "/health" => require_method(head, &["GET", "HEAD"], || Action::Respond(health(None))),
            METRICS_PATH => self.route_metrics(head),
            "/api/auth" => require_method(head, &["POST"], || Action::Authenticate),
            "/api/answers" => require_method(head, &["POST"], || Action::Answer),
            "/api/devices" if !is_read(&head.method) => {
                require_method(head, &["GET", "HEAD", "POST"], || Action::Pair(PairingStep::Redeem))
            }
            "/api/devices/requests" => require_method(head, &["POST"], || Action::Pair(PairingStep::Request)),
            "/api/devices/requests/token" => require_method(head, &["POST"], || Action::Pair(PairingStep::Poll)),
            "/socket.io" | "/socket.io/" => self.route_cli_socket(head, now_ms).await,
            "/api/events" => {
                let token = self.verify_token(head, now_ms).await?;
                self.check_origin(head)?;
                let action = if head.is_upgrade { Action::WebSocket } else { Action::Sse };
                require_method(head, &["GET"], || action(token))
            }
            "/api/namespaces/databases" => {
                self.verify_operator(head, now_ms)?;
                let list = ResponseText::wrap("databases", &list_databases(&self.databases).await?);
                require_method(head, &["GET", "HEAD"], || Action::Respond(list.into_response()))
            }
            path if path.starts_with("/api/namespaces/") => {
                let namespace = self.verify_operator(head, now_ms)?;
                let credential = Credential::Shared;
                let token = VerifiedToken { namespace: namespace.clone(), expires_at: None, credential, secret: None };
                Ok(Action::Object(namespace, Some(token)))
            }
            _ if is_api => self.route_to_namespace(head, Reader::Web, now_ms).await,
            _ if is_cli => self.route_to_namespace(head, Reader::Cli, now_ms).await,
            _ => Err(ErrorResponse::no_route()),
        }
    }

    /// Routes a request under `/api` or `/cli`. Waits for the check of its token, unless the last check is recent: then the object checks
    /// the credential of a write, and a read runs at the same time as the check.
    async fn route_to_namespace(
        &self,
        head: &RequestHead,
        reader: Reader,
        now_ms: u64,
    ) -> Result<Action, ErrorResponse> {
        let token = bearer_token(head).ok_or_else(ErrorResponse::unauthorized)?;
        // Only a JWT expires, and no JWT is a token of a CLI.
        let accepts_jwt = reader == Reader::Web;
        let is_accepted = |known: &VerifiedToken| accepts_jwt || known.expires_at.is_none();
        let Some(known) = self.authentication.find_unchecked(token, now_ms).filter(is_accepted) else {
            let verified = self.authentication.verify(token, Some(&head.client), now_ms, accepts_jwt).await?;
            return Ok(route_to_object(head, reader, verified));
        };
        let action = route_to_object(head, reader, known);
        Ok(match is_read(&head.method) {
            true => Action::Unchecked(Box::new(action)),
            false => action,
        })
    }

    fn verify_operator(&self, head: &RequestHead, now_ms: u64) -> Result<Namespace, ErrorResponse> {
        let token = bearer_token(head).ok_or_else(ErrorResponse::unauthorized)?;
        let namespace = self.authentication.access_tokens.verify_operator(token);
        namespace.ok_or_else(|| self.authentication.refuse(&head.client, now_ms))
    }

    fn route_metrics(&self, head: &RequestHead) -> Result<Action, ErrorResponse> {
        let expected = self.metrics_token.as_ref().ok_or_else(ErrorResponse::no_route)?;
        let is_valid = bearer_token(head).is_some_and(|token| expected.0.as_bytes().ct_eq(token.as_bytes()).into());
        if !is_valid {
            return Err(ErrorResponse::unauthorized());
        }
        let query = Query::parse(&head.query)?;
        let namespace = query.text("namespace")?.map(|name| {
            let error = || Error::field("namespace", "Query parameter `namespace` must be the name of a namespace.");
            Namespace::parse(name).ok_or_else(error)
        });
        let namespace = namespace.transpose()?;
        require_method(head, &["GET"], || Action::Metrics(namespace))
    }

    /// Verifies the access token or JWT of a request for an event stream, or of [`Action::Unchecked`].
    pub async fn verify_token(&self, head: &RequestHead, now_ms: u64) -> Result<VerifiedToken, ErrorResponse> {
        // Browsers can't add headers to an event stream or a WebSocket.
        let query_token = || Query::find_unique(&head.query, "token").map(Cow::Owned);
        let token = bearer_token(head).map(Cow::Borrowed).or_else(query_token);
        let token = token.ok_or_else(ErrorResponse::unauthorized)?;
        self.authentication.verify(&token, Some(&head.client), now_ms, true).await
    }

    /// `GET /health?deep=1`: whether each database answers and has the newest migration. Waits while a query is retried.
    pub async fn check_database(&self) -> Response {
        for db in &self.databases.all {
            let session = Statement::new(SELECT_BY_ID, ["".into(), "".into()]);
            let error = match db.batch(&mut vec![session, Statement::new(FIND_NEWEST, [])]).await {
                Ok(results) if results.last().is_none_or(Vec::is_empty) => DbError::NoSchema(String::new()),
                Ok(_) => continue,
                Err(error) => error,
            };
            return ErrorResponse::from(error).into_response();
        }
        health(Some("ok"))
    }

    async fn route_cli_socket(&self, head: &RequestHead, now_ms: u64) -> Result<Action, ErrorResponse> {
        let query = Query::parse(&head.query)?;
        let unsupported = |code, message| ErrorResponse::new(StatusCode::BAD_REQUEST, code, message);
        if query.text("transport")? != Some("websocket") || !head.is_upgrade {
            let message = "Only the WebSocket transport is supported: connect with `transports: [\"websocket\"]`.";
            return Err(unsupported("transport_unsupported", message));
        }
        if query.text("EIO")? != Some("4") {
            let message = "Only Engine.IO protocol 4 is supported: use socket.io-client 3 or newer.";
            return Err(unsupported("protocol_unsupported", message));
        }
        self.check_origin(head)?;
        let token = match bearer_token(head) {
            Some(token) => Some(token),
            None => query.text("token")?,
        };
        let verified = match token {
            Some(token) => match self.authentication.verify(token, Some(&head.client), now_ms, false).await {
                Err(error) if error.is_unavailable() => return Err(error),
                // CONNECT may have a valid token.
                result => result.ok(),
            },
            None => None,
        };
        let from_host = || Namespace::parse(head.host.split(['.', ':']).next().unwrap_or_default());
        let namespace = match &self.routing {
            Routing::Token => {
                return Ok(match verified {
                    Some(VerifiedToken { namespace, credential, .. }) => {
                        Action::CliSocket { namespace, credential: Some(credential) }
                    }
                    None => Action::BridgedCliSocket,
                });
            }
            Routing::Host => from_host().ok_or_else(ErrorResponse::no_route)?,
            Routing::Single(namespace) => namespace.clone(),
        };
        // A token for another namespace is ignored; CONNECT authenticates.
        let credential =
            verified.filter(|verified| verified.namespace == namespace).map(|verified| verified.credential);
        Ok(Action::CliSocket { namespace, credential })
    }

    /// Rejects a WebSocket from a page of a foreign origin (cross-site WebSocket hijacking): CORS does not apply to WebSockets.
    fn check_origin(&self, head: &RequestHead) -> Result<(), ErrorResponse> {
        let is_foreign = |origin: &String| !self.cors.allows(origin, &head.host);
        if head.is_upgrade && head.origin.as_ref().is_some_and(is_foreign) {
            let message =
                "This origin is not allowed to connect. The operator can add it to the variable CORS_ORIGINS.";
            return Err(ErrorResponse::new(StatusCode::FORBIDDEN, "origin_not_allowed", message));
        }
        Ok(())
    }
}

/// Returns how long a body of the declared length takes at the slowest allowed pace, in milliseconds.
pub fn longest_body_time_ms(declared_bytes: Option<u64>, max_bytes: u64) -> u32 {
    let bytes = u32::try_from(declared_bytes.unwrap_or(max_bytes).min(max_bytes)).unwrap_or(u32::MAX);
    bytes.div_ceil(MIN_PROGRESS_BYTES).saturating_mul(PROGRESS_TIMEOUT_MS)
}

/// Splits an absolute URL into host with port, path, and query.
pub fn split_url(url: &str) -> (&str, &str, &str) {
    let without_scheme = url.split_once("://").map_or(url, |(_, without_scheme)| without_scheme);
    let without_fragment = without_scheme.split('#').next().unwrap_or(without_scheme);
    let (location, query) = without_fragment.split_once('?').unwrap_or((without_fragment, ""));
    match location.find('/').and_then(|slash| location.split_at_checked(slash)) {
        Some((host, path)) => (host, path, query),
        None => (location, "/", query),
    }
}

/// Whether another parser may find another path in the URL. The runtime gives the worker the URL as the client sent it. The
/// runtime resolves the dot segments when the worker forwards the request. So `/api/../cli/sessions` would be checked as a path
/// of web clients, and handled as a path of CLIs. A `Host` with characters that no host name has could move the start of the path.
fn is_ambiguous(head: &RequestHead) -> bool {
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    head.path.contains('\\') || head.path.split('/').any(is_dot_segment) || !head.host.bytes().all(is_host_byte)
}

/// Whether a segment of a path is `.` or `..`, also percent-encoded.
fn is_dot_segment(segment: &str) -> bool {
    strip_dot(segment).is_some_and(|after_dot| after_dot.is_empty() || strip_dot(after_dot) == Some(""))
}

fn strip_dot(text: &str) -> Option<&str> {
    [".", "%2e", "%2E"].into_iter().find_map(|dot| text.strip_prefix(dot))
}

/// Selects the worker for a request for message history, and the object for any other request under `/api` or `/cli`.
fn route_to_object(head: &RequestHead, reader: Reader, token: VerifiedToken) -> Action {
    let namespace = token.namespace.clone();
    let root = if reader == Reader::Web { "/api/sessions/" } else { "/cli/sessions/" };
    let session = head.path.strip_prefix(root).and_then(|rest| rest.strip_suffix("/messages"));
    match session.filter(|id| !id.is_empty() && !id.contains(['/', '%']) && head.method == "GET") {
        Some(session) => Action::History(HistoryRequest { namespace, reader, session: session.to_owned() }),
        None => Action::Object(namespace, is_credential_sent(&head.method, &head.path).then_some(token)),
    }
}

fn require_method(
    head: &RequestHead,
    methods: &[&'static str],
    action: impl FnOnce() -> Action,
) -> Result<Action, ErrorResponse> {
    if methods.contains(&head.method.as_str()) {
        return Ok(action());
    }
    Err(ErrorResponse::method_not_allowed(methods.join(",")))
}

fn bearer_token(head: &RequestHead) -> Option<&str> {
    let (scheme, token) = head.authorization.as_deref()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The response to a preflight request without its CORS headers, which the worker adds.
fn preflight() -> Response {
    let mut response = json_response(StatusCode::NO_CONTENT, Bytes::new());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}
