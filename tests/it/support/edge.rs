//! Requests through the edge of the worker to the object.

use bytes::Bytes;
use futures::future::join;
use http::StatusCode;
use session_gateway_hub::auth::token::{TokenVerifier, VerifiedToken};
use session_gateway_hub::http::authentication::Authentication;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::{Action, Edge, RequestHead, Routing};
use session_gateway_hub::http::error::ErrorResponse;
use session_gateway_hub::http::extract::is_upload;
use session_gateway_hub::http::response::{Response, json_response};
use session_gateway_hub::http::{events, respond};
use session_gateway_hub::hub::Hub;
use session_gateway_hub::store::places::Databases;

use super::SECRET;
use super::environment::{TokioEnvironment, with_retries};
use super::prelude::*;
use super::runtime::FakeRuntime;
use super::upload::received_body;

#[derive(Debug, Clone, Default)]
pub struct EdgeRequest {
    pub method: String,
    pub url: String,
    /// The bearer token.
    pub token: Option<String>,
    pub origin: Option<String>,
    /// Whether the request is a WebSocket upgrade.
    pub is_upgrade: bool,
    pub body: Vec<u8>,
}

impl World {
    /// Sends a request without waiting for the response. An accepted WebSocket or event stream has a response with status 200.
    pub fn send_to_edge(&self, request: EdgeRequest) -> PendingReply {
        let (hub, db, rt) = (self.hub(), Arc::clone(&self.db), Arc::clone(&self.rt));
        PendingReply::of(async move { Reply::of(serve(&worker_edge(&db), &hub, rt, request).await) })
    }

    /// Sends a request to a worker. The caches of the worker survive the request.
    pub async fn send_to_worker(&self, worker: &Edge, request: EdgeRequest) -> Reply {
        Reply::of(serve(worker, &self.hub(), Arc::clone(&self.rt), request).await)
    }
}

/// A worker with empty caches on this database.
pub fn worker_edge(db: &Arc<Sqlite>) -> Edge {
    worker_edge_with(db, TokenVerifier::new(SECRET, false))
}

/// A worker with empty caches on the databases of a world.
pub fn worker_of(world: &World) -> Edge {
    worker_on(&world.db, world.object.databases(), TokenVerifier::new(SECRET, false))
}

/// A worker with these access secrets.
pub fn worker_edge_with(db: &Arc<Sqlite>, tokens: TokenVerifier) -> Edge {
    worker_on(db, Databases::new(vec![with_retries(db)], "").unwrap(), tokens)
}

fn worker_on(directory: &Arc<Sqlite>, databases: Databases, tokens: TokenVerifier) -> Edge {
    let environment = Arc::new(TokioEnvironment::start());
    let authentication = Authentication::new(tokens, None, with_retries(directory), environment);
    Edge::new(authentication, Cors::default(), Routing::Token, databases, Arc::default(), None)
}

/// Handles a request as the worker and the object do.
async fn serve(edge: &Edge, hub: &Arc<Hub>, rt: Arc<FakeRuntime>, request: EdgeRequest) -> Response {
    let now = rt.now();
    let (path, query) = request.url.split_once('?').unwrap_or((&request.url, ""));
    let head = RequestHead {
        method: request.method.clone(),
        path: path.to_owned(),
        query: query.to_owned(),
        host: "hub.example".into(),
        authorization: request.token.as_ref().map(|token| format!("Bearer {token}")),
        origin: request.origin.clone(),
        is_upgrade: request.is_upgrade,
        client: "203.0.113.7".into(),
    };
    match edge.route(&head, now).await {
        Action::Unchecked(read) => {
            let check = edge.verify_token(&head, now);
            let (response, checked) = join(perform(edge, hub, rt, request, &head, *read), check).await;
            checked.map_or_else(ErrorResponse::into_response, |_| response)
        }
        action => perform(edge, hub, rt, request, &head, action).await,
    }
}

async fn perform(
    edge: &Edge,
    hub: &Arc<Hub>,
    rt: Arc<FakeRuntime>,
    request: EdgeRequest,
    head: &RequestHead,
    action: Action,
) -> Response {
    let now = rt.now();
    match action {
        Action::Respond(response) => response,
        Action::Unchecked(_) => panic!("an action without a check contains another one"),
        Action::History(history) => edge.read_history(&history, &head.query).await,
        Action::Authenticate => edge.authentication.sign_in(&request.body, now).await,
        Action::Answer => match edge.verify_answer(&request.body, now).await {
            Ok(namespace) => {
                assert_eq!(namespace, hub.config.namespace, "routed to the object of another namespace");
                let (method, uri) = (&*request.method, &*request.url);
                let request = http::Request::builder().method(method).uri(uri).body(Bytes::from(request.body));
                respond(hub, request.unwrap()).await
            }
            Err(error) => error.into_response(),
        },
        Action::CheckDatabase => edge.check_database().await,
        Action::Pair(step) => edge.pair(step, head, &request.body, now).await,
        Action::Object(namespace, token) => {
            assert_eq!(namespace, hub.config.namespace, "routed to the object of another namespace");
            let is_upload = is_upload(&request.method, &head.path);
            let (body, upload) = match is_upload {
                true => (Bytes::new(), Some(received_body(&rt, request.body))),
                false => (Bytes::from(request.body), None),
            };
            let http_request = http::Request::builder()
                .method(&*request.method)
                .uri(&request.url)
                .header("host", &head.host)
                .body(body);
            match http_request {
                Ok(mut http_request) => {
                    if let Some(VerifiedToken { credential, secret, .. }) = token {
                        http_request.extensions_mut().insert(credential);
                        secret.map(|secret| http_request.extensions_mut().insert(secret));
                    }
                    upload.into_iter().for_each(|body| drop(http_request.extensions_mut().insert(body)));
                    respond(hub, http_request).await
                }
                Err(_) => ErrorResponse::no_route().into_response(),
            }
        }
        Action::Sse(token) | Action::WebSocket(token) => {
            match events::parse_request(hub, &head.query, None, Format::Json).await {
                Ok(_) if hub.access.is_revoked(&token.credential) => {
                    ErrorResponse::revoked(&token.credential).into_response()
                }
                Ok(_) => json_response(StatusCode::OK, Bytes::new()),
                Err(error) => ErrorResponse::from(error).into_response(),
            }
        }
        Action::Metrics(_) => panic!("the edge has no token for metrics"),
        Action::CliSocket { .. } | Action::BridgedCliSocket => json_response(StatusCode::OK, Bytes::new()),
    }
}
