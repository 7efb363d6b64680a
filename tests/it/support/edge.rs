//! The hub as a client meets it: the worker's edge in front of the namespace's object.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use session_gateway_hub::auth::token::AccessTokens;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::{Action, Edge, RequestHead, Routing};
use session_gateway_hub::http::error::ErrorResponse;
use session_gateway_hub::http::extract::is_upload;
use session_gateway_hub::http::{events, router};
use session_gateway_hub::hub::Hub;
use session_gateway_hub::hub::peers::subscription::Format;
use session_gateway_hub::hub::ports::Runtime;
use tower::ServiceExt;

use super::rest::{PendingReply, Reply};
use super::runtime::FakeRuntime;
use super::sqlite::Sqlite;
use super::upload::arrived;
use super::{SECRET, World, retrying};

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub method: String,
    pub url: String,
    /// What stands behind `Bearer`.
    pub token: Option<String>,
    pub origin: Option<String>,
    /// Whether it asks for a WebSocket.
    pub upgrade: bool,
    pub body: Vec<u8>,
}

impl World {
    /// Sends a request through the edge; its answer may be waited for later. What is let in to a socket or a stream is
    /// answered with a 200.
    pub fn send_to_edge(&self, asked: Asked) -> PendingReply {
        let (hub, db, rt) = (self.hub(), Arc::clone(&self.db), Arc::clone(&self.rt));
        PendingReply::of(async move { Reply::of(serve(&hub, db, rt, asked).await).await })
    }
}

async fn serve(hub: &Arc<Hub>, db: Arc<Sqlite>, rt: Arc<FakeRuntime>, asked: Asked) -> Response {
    let now = rt.now();
    let (path, query) = asked.url.split_once('?').unwrap_or((&asked.url, ""));
    let head = RequestHead {
        method: asked.method.clone(),
        path: path.to_owned(),
        query: query.to_owned(),
        host: "hub.example".into(),
        authorization: asked.token.as_ref().map(|token| format!("Bearer {token}")),
        origin: asked.origin.clone(),
        is_upgrade: asked.upgrade,
    };
    let fresh = || Some("fresh secret of thirty-two bytes".to_owned());
    let edge = Edge::new(AccessTokens::new(SECRET, false), Cors::default(), Routing::Token, None, retrying(&db));
    match edge.route(&head, now, fresh).await {
        Action::Respond(response) => response,
        Action::Authenticate => edge.authenticate(&asked.body, now, fresh).await,
        Action::Object(namespace) => {
            assert_eq!(namespace, hub.config.namespace, "the request of one namespace went to another's object");
            let outside = is_upload(&asked.method, path);
            let (body, upload) = match outside {
                true => (Body::empty(), Some(arrived(&rt, asked.body))),
                false => (Body::from(asked.body), None),
            };
            let request = http::Request::builder().method(&*asked.method).uri(&asked.url).body(body);
            match request {
                Ok(mut request) => {
                    upload.into_iter().for_each(|body| drop(request.extensions_mut().insert(body)));
                    router(Arc::clone(hub)).oneshot(request).await.unwrap()
                }
                Err(_) => ErrorResponse::no_route().into_response(),
            }
        }
        Action::Sse(_) | Action::WebSocket(_) => match events::parse_request(hub, query, None, Format::Json).await {
            Ok(_) => StatusCode::OK.into_response(),
            Err(error) => ErrorResponse::from(error).into_response(),
        },
        Action::CliSocket { .. } | Action::BridgedCliSocket => StatusCode::OK.into_response(),
    }
}
