//! The HTTP interface, and the only module with status codes.
//!
//! [`edge`] runs in the stateless worker: it authenticates a request, and either responds or selects the object of the
//! namespace. [`router`] runs in the object; every request that reaches it is authenticated. Extractors ([`extract`]) enforce
//! that a session or machine belongs to the namespace.
//! Source: docs/openapi.yaml, PROTOCOL.md "HTTP".

pub mod cli;
pub mod cors;
pub mod edge;
pub mod error;
pub mod events;
pub mod extract;
pub mod history;
pub mod lifecycle;
pub mod machines;
pub mod messages;
pub mod permissions;
pub mod push;
pub mod query;
pub mod sessions;
pub mod uploads;
pub mod workspace;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderValue, header};
use tower_service::Service;

use crate::hub::Hub;
use crate::model::json::Json;
use crate::store::response_budget::{Reservation, ResponseText};
use error::ErrorResponse;

/// Returns the routes of the object. `GET .../messages` is here for completeness: the worker responds to it.
pub fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{id}", get(sessions::show).patch(sessions::rename).delete(sessions::delete))
        .route("/api/sessions/{id}/messages", get(history::web).post(messages::send))
        .route("/api/sessions/{id}/abort", post(lifecycle::abort))
        .route("/api/sessions/{id}/switch", post(lifecycle::switch))
        .route("/api/sessions/{id}/resume", post(lifecycle::resume))
        .route("/api/sessions/{id}/archive", post(lifecycle::archive))
        .route("/api/sessions/{id}/permission-mode", post(lifecycle::permission_mode))
        .route("/api/sessions/{id}/model", post(lifecycle::model))
        .route("/api/sessions/{id}/permissions/{requestId}/approve", post(permissions::approve))
        .route("/api/sessions/{id}/permissions/{requestId}/deny", post(permissions::deny))
        .route("/api/sessions/{id}/git-status", get(workspace::git_status))
        .route("/api/sessions/{id}/git-diff-numstat", get(workspace::git_diff_numstat))
        .route("/api/sessions/{id}/git-diff-file", get(workspace::git_diff_file))
        .route("/api/sessions/{id}/file", get(workspace::file))
        .route("/api/sessions/{id}/files", get(workspace::files))
        .route("/api/sessions/{id}/directory", get(workspace::directory))
        .route("/api/sessions/{id}/slash-commands", get(workspace::slash_commands))
        .route("/api/sessions/{id}/skills", get(workspace::skills))
        .route("/api/sessions/{id}/upload", post(uploads::upload))
        .route("/api/sessions/{id}/upload/delete", post(uploads::delete))
        .route("/api/machines", get(machines::list))
        .route("/api/machines/{id}", get(machines::show))
        .route("/api/machines/{id}/spawn", post(machines::spawn))
        .route("/api/machines/{id}/paths/exists", post(machines::paths_exist))
        .route("/api/visibility", post(events::visibility))
        .route("/api/push/vapid-public-key", get(push::public_key))
        .route("/api/push/subscribe", post(push::subscribe).delete(push::unsubscribe))
        .route("/api/push/log", get(push::log))
        .route("/cli/sessions", post(cli::put_session))
        .route("/cli/sessions/{id}", get(cli::session))
        .route("/cli/sessions/{id}/messages", get(history::cli))
        .route("/cli/machines", post(cli::put_machine))
        .route("/cli/machines/{id}", get(cli::machine))
        .method_not_allowed_fallback(|| async { ErrorResponse::method_not_allowed() })
        .fallback(|| async { ErrorResponse::no_route() })
        .with_state(hub)
}

/// The largest response that is copied to the JavaScript side at once. A larger one is streamed, and stays in the memory of
/// the hub until the client has received it: it needs a reservation.
pub const MAX_UNRESERVED_BYTES: usize = 8 * 1024 * 1024;

/// Handles a request and buffers the response.
pub async fn respond(hub: &Hub, mut router: Router, request: Request) -> http::Response<Bytes> {
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let has_reservation = response.extensions().get::<Arc<Reservation>>().is_some();
    let response = finalize(response).await;
    if has_reservation || response.body().len() <= MAX_UNRESERVED_BYTES {
        return response;
    }
    match hub.reserve_response(response.body().len()) {
        Ok(reservation) => response.map(|body| Reserved::wrap(body, reservation)),
        Err(error) => finalize(ErrorResponse::from(error).into_response()).await,
    }
}

/// Adds the headers of all responses, which forbid caching and content sniffing, and buffers the body.
pub async fn finalize(response: Response) -> http::Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    parts.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let bytes = match parts.extensions.remove::<Arc<Reservation>>() {
        Some(reservation) => Reserved::wrap(bytes, reservation),
        None => bytes,
    };
    http::Response::from_parts(parts, bytes)
}

/// A body that releases its reservation on drop.
struct Reserved<S> {
    body: Bytes,
    _reservation: S,
}

impl<S: Send + 'static> Reserved<S> {
    fn wrap(body: Bytes, reservation: S) -> Bytes {
        Bytes::from_owner(Self { body, _reservation: reservation })
    }
}

impl<S> AsRef<[u8]> for Reserved<S> {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A 200 response with a JSON body, and the reservation of a large body.
pub struct JsonText(ResponseText);

impl From<ResponseText> for JsonText {
    fn from(response: ResponseText) -> Self {
        Self(response)
    }
}

impl IntoResponse for JsonText {
    fn into_response(self) -> Response {
        let ResponseText { text, reservation } = self.0;
        let mut response = ([(header::CONTENT_TYPE, "application/json")], text).into_response();
        if let Some(reservation) = reservation {
            response.extensions_mut().insert(Arc::new(reservation));
        }
        response
    }
}

impl JsonText {
    /// A JSON text that needs no reservation.
    pub fn of(text: impl Into<String>) -> Self {
        Self(ResponseText { text: text.into(), reservation: None })
    }

    /// Serializes a value.
    pub fn serialize<T: serde::Serialize>(value: &T) -> Self {
        Self::of(Json::of(value).text())
    }

    /// `{"<name>": <value>}`.
    pub fn wrap<T: serde::Serialize>(name: &str, value: &T) -> Self {
        Self::of(format!(r#"{{"{name}":{}}}"#, Json::of(value).text()))
    }

    /// `{"<name>": <text>}`. The text is moved in place instead of copied: it may have 60 MB.
    pub fn wrap_text(name: &str, mut response: ResponseText) -> Self {
        response.text.insert_str(0, &format!(r#"{{"{name}":"#));
        response.text.push('}');
        Self(response)
    }

    /// `{"ok": true}`.
    pub fn ok() -> Self {
        Self::of(r#"{"ok":true}"#)
    }
}
