//! The edge of the worker without objects: how the edge routes a request, or responds to the request itself.

use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::http::authentication::Authentication;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::{Action, Edge, RequestHead, Routing};
use session_gateway_hub::memory_budget::MemoryBudget;
use session_gateway_hub::store::places::Databases;
use session_gateway_hub::store::retry::Environment;

use super::SECRET;
use super::environment::TokioEnvironment;
use super::prelude::*;

pub fn edge_with_db(db: &Arc<Sqlite>, routing: &str, origins: &str) -> Edge {
    edge_with_memory_budget(db, Arc::default(), routing, origins)
}

/// The edge of an isolate whose memory is counted in the memory budget.
pub fn edge_with_memory_budget(db: &Arc<Sqlite>, budget: Arc<MemoryBudget>, routing: &str, origins: &str) -> Edge {
    let environment = Arc::new(TokioEnvironment::start());
    edge_of(db, Cors::parse(origins).unwrap(), Routing::parse(routing).unwrap(), budget, environment)
}

pub fn edge_with_environment(db: &Arc<Sqlite>, environment: Arc<dyn Environment>) -> Edge {
    edge_of(db, Cors::default(), Routing::Token, Arc::default(), environment)
}

fn edge_of(
    db: &Arc<Sqlite>,
    cors: Cors,
    routing: Routing,
    budget: Arc<MemoryBudget>,
    environment: Arc<dyn Environment>,
) -> Edge {
    let tokens = TokenVerifier::new(SECRET, false);
    let authentication = Authentication::new(tokens, None, Arc::clone(db) as _, environment);
    let databases = Databases::new(vec![Arc::clone(db) as _], "").unwrap();
    Edge::new(authentication, cors, routing, databases, budget, None)
}

pub fn edge(routing: &str, origins: &str) -> Edge {
    edge_with_db(&Arc::new(Sqlite::with_schema()), routing, origins)
}

pub fn head(method: &str, url: &str) -> RequestHead {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    RequestHead {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        host: "hub.example".into(),
        ..RequestHead::default()
    }
}

pub fn with_token(method: &str, url: &str, token: &str) -> RequestHead {
    RequestHead { authorization: Some(format!("Bearer {token}")), ..head(method, url) }
}

/// Routes a request at the time `now_ms`.
pub async fn route_at(edge: &Edge, head: &RequestHead, now_ms: u64) -> Action {
    edge.route(head, now_ms).await
}

pub async fn route(edge: &Edge, head: &RequestHead) -> Action {
    route_at(edge, head, START).await
}

pub async fn respond(edge: &Edge, head: &RequestHead) -> Reply {
    match route(edge, head).await {
        Action::Respond(response) => Reply::of(response),
        Action::History(history) => Reply::of(edge.read_history(&history, &head.query).await),
        other => panic!("{head:?} did not get its response at the edge: {other:?}"),
    }
}

pub async fn sign_in(edge: &Edge, body: &str) -> Reply {
    Reply::of(edge.authentication.sign_in(body.as_bytes(), START).await)
}

pub async fn object_namespace(edge: &Edge, head: &RequestHead) -> String {
    match route(edge, head).await {
        Action::Object(namespace, _) => namespace.to_string(),
        Action::WebSocket(bearer) => bearer.namespace.to_string(),
        other => panic!("{head:?} was not routed to an object: {other:?}"),
    }
}
